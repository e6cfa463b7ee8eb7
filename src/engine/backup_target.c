/* backup_target.c - the folder a backup goes to: whose it is, and what is left in it of one that
 * was cut off. */
#include "base/disk.h"
#include "engine/backup_parts.h"
#include "engine/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

err backup_refuse(struct backup *b, const char *what, int errno_value)
{
    bool full = file_err(errno_value) == ERR_FULL;
    char room[DISK_FREE_BYTES] = "";
    if (full)
        disk_free_text(b->dir, room);
    err_note_set(&b->note, "%s %s: %s%s%s%s", what, b->dir, strerror(errno_value), full ? " (" : "",
                 room, full ? ")" : "");
    return full ? ERR_FULL : ERR_IO;
}

/* The same before anything was done: as a rule it is the wrong place, which is the caller's to
 * mend. */
static err target_refuse(struct backup *b, const char *what, int errno_value)
{
    static const int wrong[] = { ENOENT, ENOTDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP };
    err why = backup_refuse(b, what, errno_value);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (errno_value == wrong[i])
            why = ERR_BAD;
    return why;
}

static err target_folder(struct backup *b, const char *name, int *fd)
{
    if (mkdirat(b->dir_fd, name, 0700) != 0 && errno != EEXIST)
        return target_refuse(b, "cannot make a folder in", errno);
    int why = file_open(b->engine->faults, b->dir_fd, name, O_RDONLY | O_DIRECTORY, fd);
    return why == 0 ? ERR_OK : target_refuse(b, "cannot open a folder in", why);
}

static err target_lock(struct backup *b)
{
    int why = file_open(b->engine->faults, b->dir_fd, "LOCK", O_RDWR | O_CREAT, &b->lock_fd);
    if (why != 0)
        return target_refuse(b, "cannot make the file LOCK in", why);
    if (flock(b->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return ERR_OK;
    err_note_set(&b->note, "%s is in use by another process", b->dir);
    return ERR_CONFLICT;
}

/* Is there what neither a first backup that was interrupted nor an empty disk has, and no STORE? */
static bool target_is_foreign(const struct backup *b)
{
    static const char *const known[] = { ".",     "..",        "LOCK",      "log",
                                         "index", "STORE.new", "lost+found" };
    if (faccessat(b->dir_fd, "STORE", F_OK, 0) == 0)
        return false;
    int fd = openat(b->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool foreign = false;
    for (struct dirent *d = readdir(dir); d != NULL && !foreign; d = readdir(dir)) {
        foreign = true;
        for (size_t i = 0; i < COUNT_OF(known); i++)
            if (strcmp(d->d_name, known[i]) == 0)
                foreign = false;
    }
    closedir(dir);
    return foreign;
}

/* Is what STORE in the folder says this store, or nothing? */
static err target_is_ours(struct backup *b)
{
    unsigned char id[RECORD_ID_BYTES];
    struct err_note note = { .text = "" };
    err why = store_read_id(b->engine->faults, b->dir_fd, id, &note);
    b->had_store = why == ERR_OK;
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    if (why == ERR_OK && memcmp(id, b->engine->id, sizeof(id)) != 0) {
        err_note_set(&b->note, "%s holds another store", b->dir);
        return ERR_CONFLICT;
    }
    if (why == ERR_CORRUPT) {
        err_note_set(&b->note, "%s: %s (a backup has the same file STORE as its store)", b->dir,
                     note.text);
        return ERR_CONFLICT;
    }
    return why == ERR_OK ? ERR_OK : backup_refuse(b, "cannot read STORE in", EIO);
}

void backup_sweep_folder(int folder_fd, const char *ending)
{
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir))
        if (str_ends(str_of(d->d_name), str_of(ending)))
            (void)unlinkat(folder_fd, d->d_name, 0);
    closedir(dir);
}

void backup_sweep_halves(const struct backup *b)
{
    backup_sweep_folder(b->log_fd, ".new");
    backup_sweep_folder(b->index_fd, ".new");
}

void backup_sweep(const struct engine *e)
{
    backup_sweep_folder(e->log_fd, ".new");
    backup_sweep_folder(e->log_fd, ".next");
    backup_sweep_folder(e->index_fd, ".new");
}

err backup_target_open(struct backup *b)
{
    if (disk_lies_in(b->dir, b->engine->dir)) { /* it would go with the store */
        err_note_set(&b->note,
                     "%s lies in the folder of the store itself: choose one outside of %s", b->dir,
                     b->engine->dir);
        return ERR_CONFLICT;
    }
    if (mkdir(b->dir, 0700) != 0 && errno != EEXIST)
        return target_refuse(b, "cannot make the folder", errno);
    int why = file_open(b->engine->faults, AT_FDCWD, b->dir, O_RDONLY | O_DIRECTORY, &b->dir_fd);
    if (why != 0)
        return target_refuse(b, "cannot open the folder", why);
    if (target_is_foreign(b)) {
        err_note_set(&b->note, "%s holds other things than a backup", b->dir);
        return ERR_CONFLICT;
    }
    err is = target_lock(b);
    if (is == ERR_OK)
        is = target_is_ours(b);
    if (is == ERR_OK)
        is = target_folder(b, "log", &b->log_fd);
    if (is == ERR_OK)
        is = target_folder(b, "index", &b->index_fd);
    if (is != ERR_OK)
        return is;
    b->opened = true;
    backup_sweep_halves(b);
    return ERR_OK;
}
