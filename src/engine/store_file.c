/* store_file.c - opens the folder of a store: takes its lock, reads or writes its identity,
 * opens its sub-folders. Invariant: a folder with a log or an index but without an identity is
 * refused, and never gets a new identity. */
#include "engine/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { STORE_TEXT_BYTES = 128, HEX_ID_BYTES = 2 * RECORD_ID_BYTES };

static bool hex_id(str hex, unsigned char id[RECORD_ID_BYTES])
{
    if (hex.n != HEX_ID_BYTES)
        return false;
    for (size_t i = 0; i < RECORD_ID_BYTES; i++) {
        int high = str_hex_digit(hex.p[2 * i]);
        int low = str_hex_digit(hex.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static err parse_store(str text, unsigned char id[RECORD_ID_BYTES], uint64_t *format,
                       struct err_note *note)
{
    str first = str_split(&text, '\n');
    str second = str_split(&text, '\n');
    if (!str_starts(first, STR("store ")) || !str_to_u64(str_skip(first, 6), format)) {
        err_note_set(note, "the file STORE is damaged; put it back from a backup");
        return ERR_CORRUPT;
    }
    if (*format < STORE_FORMAT_OLDEST || *format > STORE_FORMAT) {
        err_note_set(
            note,
            "the store has format %llu, this program knows %d to %d; use the program that wrote it",
            (unsigned long long)*format, STORE_FORMAT_OLDEST, STORE_FORMAT);
        return ERR_CORRUPT;
    }
    if (!str_starts(second, STR("id ")) || !hex_id(str_skip(second, 3), id)) {
        err_note_set(note, "the file STORE is damaged; put it back from a backup");
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static err read_store(const struct file_faults *ff, int dir_fd, unsigned char id[RECORD_ID_BYTES],
                      uint64_t *format, struct err_note *note)
{
    int fd = -1;
    int why = file_open(ff, dir_fd, "STORE", O_RDONLY, &fd);
    if (why != 0)
        return why == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    char text[STORE_TEXT_BYTES];
    size_t n = 0;
    why = file_read_some(ff, fd, text, sizeof(text), 0, &n);
    close(fd);
    return why == 0 ? parse_store((str){ .p = text, .n = n }, id, format, note) : ERR_IO;
}

err store_read_id(const struct file_faults *ff, int dir_fd, unsigned char id[RECORD_ID_BYTES],
                  struct err_note *note)
{
    uint64_t format = 0;
    return read_store(ff, dir_fd, id, &format, note);
}

err store_write_id(const struct file_faults *ff, int dir_fd,
                   const unsigned char id[RECORD_ID_BYTES])
{
    char text[STORE_TEXT_BYTES];
    int n = snprintf(text, sizeof(text), "store %d\nid ", STORE_FORMAT);
    for (size_t i = 0; i < RECORD_ID_BYTES; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", id[i]);
    n += snprintf(text + n, sizeof(text) - (size_t)n, "\n");
    struct iovec iov = { .iov_base = text, .iov_len = (size_t)n };
    int fd = -1;
    int why = file_open(ff, dir_fd, "STORE.new", O_WRONLY | O_CREAT | O_TRUNC, &fd);
    if (why != 0)
        return file_err(why) == ERR_FULL ? ERR_FULL : ERR_IO;
    why = file_write(ff, fd, &iov, 1, 0);
    if (why == 0)
        why = file_sync(ff, fd);
    close(fd);
    if (why == 0)
        why = file_rename(ff, dir_fd, "STORE.new", "STORE");
    if (why == 0)
        why = file_sync(ff, dir_fd);
    return why == 0 || file_err(why) == ERR_FULL ? file_err(why) : ERR_IO;
}

/* Does the sub-folder hold a file whose name ends so? */
static bool store_file_holds(int dir_fd, const char *folder, const char *ending)
{
    int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool found = false;
    for (struct dirent *d = readdir(dir); d != NULL && !found; d = readdir(dir))
        found = str_ends(str_of(d->d_name), str_of(ending));
    closedir(dir);
    return found;
}

bool store_has_segments(const struct engine *e)
{
    return store_file_holds(e->dir_fd, "log", ".seg");
}

static err create_id(struct engine *e, struct err_note *note)
{
    if (store_has_segments(e) || store_file_holds(e->dir_fd, "index", ".mdb")) {
        err_note_set(
            note, "the file STORE is missing beside an index and a log; put it back from a backup");
        return ERR_CORRUPT;
    }
    int fd = -1;
    int why = file_open(e->faults, AT_FDCWD, "/dev/urandom", O_RDONLY, &fd);
    if (why != 0)
        return ERR_IO;
    why = file_read(e->faults, fd, e->id, sizeof(e->id), 0);
    close(fd);
    if (why != 0)
        return ERR_IO;
    return store_write_id(e->faults, e->dir_fd, e->id);
}

static err take_lock(struct engine *e, struct err_note *note)
{
    int why = file_open(e->faults, e->dir_fd, "LOCK", e->read_only ? O_RDONLY : O_RDWR | O_CREAT,
                        &e->lock_fd);
    if (why == ENOENT)
        return ERR_OK; /* read_only: nobody who writes was ever here */
    if (why != 0) {
        err_note_set(note, "the store at %s cannot be opened: its file LOCK: %s", e->dir,
                     strerror(why));
        return ERR_IO;
    }
    if (flock(e->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return ERR_OK;
    if (errno != EWOULDBLOCK)
        return ERR_IO;
    err_note_set(note, "the store at %s is in use by another process", e->dir);
    return ERR_CONFLICT;
}

err store_never_finished(const struct engine *e, struct err_note *note)
{
    err_note_set(note,
                 "the store at %s was never finished; the next start of the server makes it whole",
                 e->dir);
    return ERR_NOT_FOUND;
}

static err open_folder(struct engine *e, const char *name, int *fd, struct err_note *note)
{
    if (!e->read_only && mkdirat(e->dir_fd, name, 0700) != 0 && errno != EEXIST)
        return file_err(errno) == ERR_FULL ? ERR_FULL : ERR_IO;
    int why = file_open(e->faults, e->dir_fd, name, O_RDONLY | O_DIRECTORY, fd);
    if (why != ENOENT)
        return why == 0 ? ERR_OK : ERR_IO;
    if (!store_has_segments(e) && !store_file_holds(e->dir_fd, "index", ".mdb"))
        return store_never_finished(e, note);
    err_note_set(note, "the folder %s of the store at %s is missing; put it back from a backup",
                 name, e->dir);
    return ERR_CORRUPT;
}

static err open_dir(struct engine *e, struct err_note *note)
{
    bool made = !e->read_only && mkdir(e->dir, 0700) == 0;
    int unmade = made || e->read_only ? 0 : errno;
    int why = file_open(e->faults, AT_FDCWD, e->dir, O_RDONLY | O_DIRECTORY, &e->dir_fd);
    if (why == ENOENT && unmade != 0) {
        err_note_set(note, "the folder %s cannot be made: %s", e->dir, strerror(unmade));
        return ERR_IO;
    }
    if (why != 0) {
        err_note_set(note, "the folder %s cannot be opened: %s", e->dir, strerror(why));
        return why == ENOENT && e->read_only ? ERR_NOT_FOUND : ERR_IO;
    }
    if (!made)
        return ERR_OK;
    int parent = -1;
    why = file_open(e->faults, e->dir_fd, "..", O_RDONLY | O_DIRECTORY, &parent);
    if (why == 0) {
        why = file_sync(e->faults, parent);
        close(parent);
    }
    return why == 0 ? ERR_OK : ERR_IO;
}

err store_open(struct engine *e, struct err_note *note)
{
    err why = open_dir(e, note);
    if (why == ERR_OK)
        why = take_lock(e, note);
    if (why != ERR_OK)
        return why;
    uint64_t format = 0;
    why = read_store(e->faults, e->dir_fd, e->id, &format, note);
    if (why == ERR_OK && format < STORE_FORMAT && !e->read_only)
        why = store_write_id(e->faults, e->dir_fd, e->id);
    if (why == ERR_NOT_FOUND && e->read_only)
        err_note_set(note,
                     store_has_segments(e)
                         ? "the file STORE is missing in %s beside a log: run the backup there"
                           " again, or put it back from one"
                         : "there is no store at %s",
                     e->dir);
    if (why == ERR_NOT_FOUND && !e->read_only)
        why = create_id(e, note);
    if (why == ERR_OK)
        why = open_folder(e, "log", &e->log_fd, note);
    if (why == ERR_OK)
        why = open_folder(e, "index", &e->index_fd, note);
    if (why == ERR_OK && !e->read_only && file_sync(e->faults, e->dir_fd) != 0)
        why = ERR_IO;
    return why;
}
