/* copy.c - a store copied file by file, for restore. */
#include "cli/copy.h"

#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static err copy_say(struct err_note *note, const char *doing, const char *path)
{
    return disk_fail(note, doing, path, errno);
}

/* All of it: a write onto a disk that fills up is cut short first, and says why the next time. */
static bool write_all(int out, const char *p, size_t n, off_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(out, p, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return true;
}

static int copy_range(int in, int out, off_t at, off_t end, uint64_t *bytes)
{
    char chunk[1 << 16];
    while (at < end) {
        size_t want = end - at < (off_t)sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        ssize_t n = pread(in, chunk, want, at);
        if (n == 0)
            return 0;
        if (n < 0 || !write_all(out, chunk, (size_t)n, at))
            return -1;
        at += n;
        *bytes += (uint64_t)n;
    }
    return 0;
}

/* Data parts only; the size comes from ftruncate, so a hole at the end stays one. */
static int copy_data(int in, int out, uint64_t *bytes)
{
    struct stat st;
    if (fstat(in, &st) != 0 || ftruncate(out, st.st_size) != 0)
        return -1;
    off_t at = 0;
    while (at < st.st_size) {
        off_t from = lseek(in, at, SEEK_DATA);
        if (from < 0)
            return errno == ENXIO ? 0 : -1;
        off_t end = lseek(in, from, SEEK_HOLE);
        if (end < 0 || copy_range(in, out, from, end, bytes) != 0)
            return -1;
        at = end;
    }
    return 0;
}

static err copy_file(const char *from, const char *to, uint64_t *bytes, struct err_note *note)
{
    int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return copy_say(note, "open", from);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    err e = out < 0 ? copy_say(note, "create", to) : ERR_OK;
    if (e == ERR_OK && (copy_data(in, out, bytes) != 0 || fsync(out) != 0))
        e = copy_say(note, "copy to", to);
    if (out >= 0 && close(out) != 0 && e == ERR_OK)
        e = copy_say(note, "close", to);
    close(in);
    return e;
}

static err sync_dir(const char *path, struct err_note *note)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return copy_say(note, "open", path);
    err e = fsync(fd) == 0 ? ERR_OK : copy_say(note, "sync", path);
    close(fd);
    return e;
}

static err copy_dir(const char *from, const char *to, unsigned depth, uint64_t *bytes,
                    struct err_note *note);

static err copy_entry(const char *from, const char *to, unsigned depth, uint64_t *bytes,
                      struct err_note *note)
{
    struct stat st;
    if (lstat(from, &st) != 0)
        return copy_say(note, "look at", from);
    if (S_ISREG(st.st_mode))
        return copy_file(from, to, bytes, note);
    if (S_ISDIR(st.st_mode) && depth < COPY_DEPTH_MAX)
        return copy_dir(from, to, depth + 1, bytes, note);
    return err_bad(note, "%s is no file of a store", from);
}

/* Depth is bounded by COPY_DEPTH_MAX. */
static err copy_dir(const char *from, const char *to, unsigned depth, uint64_t *bytes,
                    struct err_note *note)
{
    if (mkdir(to, 0700) != 0)
        return copy_say(note, "create", to);
    DIR *dir = opendir(from);
    if (dir == NULL)
        return copy_say(note, "open", from);
    err e = ERR_OK;
    const struct dirent *d;
    while (e == ERR_OK && (d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        char a[COPY_PATH_BYTES], b[COPY_PATH_BYTES];
        int an = snprintf(a, sizeof a, "%s/%s", from, d->d_name);
        int bn = snprintf(b, sizeof b, "%s/%s", to, d->d_name);
        if (an < 0 || bn < 0 || an >= COPY_PATH_BYTES || bn >= COPY_PATH_BYTES) {
            err_note_set(note, "a name below %s is too long", from);
            e = ERR_BAD;
        } else {
            e = copy_entry(a, b, depth, bytes, note);
        }
    }
    closedir(dir);
    return e == ERR_OK ? sync_dir(to, note) : e;
}

err copy_tree(const char *from, const char *to, uint64_t *bytes, struct err_note *note)
{
    *bytes = 0;
    return copy_dir(from, to, 0, bytes, note);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

void copy_remove(const char *dir)
{
    (void)nftw(dir, remove_one, 8,
               FTW_DEPTH | FTW_PHYS | FTW_MOUNT); /* what stays is in the way of nobody */
}
