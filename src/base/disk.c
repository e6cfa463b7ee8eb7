/* disk.c - how much room a disk has, for messages: asked only after something failed. */
#include "base/disk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* The part of path above its last segment. False: there is none. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        bool was_here = strcmp(path, ".") == 0;
        (void)snprintf(path, PATH_MAX, ".");
        return !was_here;
    }
    bool is_root = slash == path && path[1] == '\0';
    slash[slash == path ? 1 : 0] = '\0';
    return !is_root;
}

void disk_free_text(const char *path, char out[DISK_FREE_BYTES])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    char at[PATH_MAX];
    struct statvfs st;
    (void)snprintf(at, sizeof at, "%s", path); /* a longer one is of no file */
    int failed = statvfs(at, &st);
    while (failed != 0 && go_up(at))
        failed = statvfs(at, &st);
    if (failed != 0) {
        (void)snprintf(out, DISK_FREE_BYTES, "free space unknown"); /* fits */
        return;
    }
    double n = (double)st.f_bavail * (double)st.f_frsize;
    size_t unit = 0;
    for (; n >= 999.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        n /= 1000;
    (void)snprintf(out, DISK_FREE_BYTES, unit == 0 ? "%.0f %s free" : "%.1f %s free", n,
                   units[unit]); /* fits */
}

err disk_fail(struct err_note *note, const char *doing, const char *path, int errno_value)
{
    bool full = errno_value == ENOSPC || errno_value == EDQUOT;
    char room[DISK_FREE_BYTES + 4] = "";
    if (full) {
        char text[DISK_FREE_BYTES];
        disk_free_text(path, text);
        (void)snprintf(room, sizeof room, " (%s)", text); /* fits */
    }
    err_note_set(note, "cannot %s %s: %s%s", doing, path, strerror(errno_value), room);
    return full ? ERR_FULL : errno_value == EEXIST ? ERR_CONFLICT : ERR_IO;
}

void disk_note_full(struct err_note *note, err why, const char *dir)
{
    char text[DISK_FREE_BYTES];
    struct err_note first;
    if (why != ERR_FULL || note == NULL)
        return;
    first = *note;
    disk_free_text(dir, text);
    err_note_set(note,
                 "%.140s: the disk of %.60s has %s, and store.free_bytes_min of it stays free",
                 first.text, dir, text);
}

/* The folder that path is, or would be made in, without links. False: it cannot be said, and
 * opening it will fail. */
static bool real_folder(const char *path, char out[PATH_MAX])
{
    char above[PATH_MAX];
    if (realpath(path, out) != NULL)
        return true;
    int n = snprintf(above, sizeof above, "%s", path);
    while (n > 1 && n < PATH_MAX && above[n - 1] == '/')
        above[--n] = '\0';
    char *slash = n < PATH_MAX ? strrchr(above, '/') : NULL;
    if (slash != NULL)
        slash[slash == above ? 1 : 0] = '\0';
    return n < PATH_MAX && realpath(slash != NULL ? above : ".", out) != NULL;
}

bool disk_lies_in(const char *path, const char *folder)
{
    char own[PATH_MAX], to[PATH_MAX];
    if (realpath(folder, own) == NULL || !real_folder(path, to))
        return false;
    size_t n = strlen(own);
    return strncmp(own, to, n) == 0 && (to[n] == '/' || to[n] == '\0' || n == 1);
}
