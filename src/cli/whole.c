/* whole.c - a file appears whole or not at all; a device and a FIFO stay what they are. */
#include "cli/whole.h"

#include "base/disk.h"
#include "base/str.h"
#include "cli/stop.h"
#include "loop/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BASE_BYTES_MAX = 200 }; /* of a name in a part's: with its ending it stays below NAME_MAX */

/* Bytes of a path before its last name: "dir/" of "dir/file". */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

static void folder_of(const char *path, char folder[PATH_MAX])
{
    size_t n = folder_bytes(path);
    (void)snprintf(folder, PATH_MAX, "%.*s", (int)(n == 0 ? 1 : n),
                   n == 0 ? "." : path); /* shorter than path */
}

/* In a folder where all may write and nobody may remove what is another's, a link is trusted as its
 * owner is: the rule of protected_symlinks, proc_sys_fs(5). */
static bool is_trusted(const char *link, const struct stat *st)
{
    char folder[PATH_MAX];
    struct stat above;
    folder_of(link, folder);
    if (stat(folder, &above) != 0)
        return false;
    bool shared = (above.st_mode & S_ISVTX) != 0 && (above.st_mode & S_IWOTH) != 0;
    return !shared || st->st_uid == geteuid() || st->st_uid == above.st_uid;
}

/* name becomes what the link there leads to. */
static bool whole_follow(char name[PATH_MAX])
{
    char target[PATH_MAX], next[PATH_MAX];
    ssize_t n = readlink(name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    int used = snprintf(next, sizeof next, "%.*s%s", target[0] == '/' ? 0 : (int)folder_bytes(name),
                        name, target);
    if (used < 0 || used >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(name, next, (size_t)used + 1);
    return true;
}

/* Where the bytes belong, into w->name: behind links. st: of what is there; *there false: nothing
 * is. */
static err find_target(struct whole *w, const char *file, struct stat *st, bool *there,
                       struct err_note *note)
{
    if (!str_to_cstr(str_of(file), w->name, sizeof w->name)) {
        err_note_set(note, "the name of %.100s... is too long", file);
        return ERR_LIMIT;
    }
    *there = stat(file, st) == 0;
    if (*there && S_ISDIR(st->st_mode))
        return err_bad(note, "cannot write %s: it is a directory", file);
    if (*there && !S_ISREG(st->st_mode))
        return ERR_OK; /* what /dev/stdout leads to has no other name */
    struct stat at = { .st_mode = 0 };
    unsigned links = 0;
    while (lstat(w->name, &at) == 0 && S_ISLNK(at.st_mode)) {
        if (!is_trusted(w->name, &at)) {
            err_note_set(
                note, "cannot write %s: %s is a link that somebody else put into a folder of all",
                file, w->name);
            return ERR_DENIED;
        }
        if (links++ == WHOLE_LINKS_MAX || !whole_follow(w->name))
            return disk_fail(note, "write", file, links > WHOLE_LINKS_MAX ? ELOOP : errno);
        at.st_mode = 0;
    }
    if (links > 0 && at.st_mode == 0)
        return err_bad(note, "cannot write %s: it is a link to what is not there", file);
    *there = S_ISREG(at.st_mode);
    *st = at;
    return ERR_OK;
}

/* As the file that is replaced is; nobody gets more rights over it than he had. */
static bool take_rights(int fd, const struct stat *st)
{
    mode_t mode = st->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    if (fchown(fd, st->st_uid, st->st_gid) != 0 && fchown(fd, (uid_t)-1, st->st_gid) != 0)
        mode &= ~(mode_t)S_IRWXG;
    return fchmod(fd, mode) == 0;
}

/* The part, with a name that nobody can foresee and take. */
static int create_part(struct whole *w, const struct stat *st, bool there)
{
    size_t folder = folder_bytes(w->name);
    int n = snprintf(w->part, sizeof w->part, "%.*s%.*s.%08x.part", (int)folder, w->name,
                     BASE_BYTES_MAX, w->name + folder, (unsigned)(entropy_u64() & UINT32_MAX));
    if (n < 0 || n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        w->part[0] = '\0';
        return -1;
    }
    int fd = open(w->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, there ? 0600 : 0666);
    if (fd < 0 || !there || take_rights(fd, st))
        return fd;
    int why = errno;
    close(fd);
    (void)unlink(w->part); /* nothing more to do when it stays */
    errno = why;
    return -1;
}

err whole_begin(struct whole *w, const char *file, struct err_note *note)
{
    struct stat st;
    bool there;
    err e = find_target(w, file, &st, &there, note);
    if (e != ERR_OK)
        return e;
    bool as_it_is = there && !S_ISREG(st.st_mode);
    w->part[0] = '\0';
    if (!as_it_is)
        stop_watch();
    int fd = as_it_is ? open(w->name, O_WRONLY | O_CLOEXEC) : create_part(w, &st, there);
    if (fd < 0)
        return disk_fail(note, "write", file, errno);
    w->to = fdopen(fd, "wb");
    INVARIANT(w->to != NULL);
    return ERR_OK;
}

/* A folder that we may write to and not read, and a file system without such a thing, have no
 * sync. */
err whole_sync_name(const char *name, struct err_note *note)
{
    char folder[PATH_MAX];
    folder_of(name, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int why = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return why == 0 || why == EACCES || why == EINVAL
               ? ERR_OK
               : disk_fail(note, "sync the folder of", name, why);
}

/* All that was written, onto disk; 0, or errno. Closes. */
static int whole_finish(struct whole *w)
{
    errno = EIO; /* of an error that was before */
    int why = ferror(w->to) || fflush(w->to) != 0 ? errno : 0;
    if (why == 0 && w->part[0] != '\0' && fsync(fileno(w->to)) != 0)
        why = errno;
    if (fclose(w->to) != 0 && why == 0)
        why = errno;
    w->to = NULL;
    return why;
}

err whole_end(struct whole *w, bool keep, struct err_note *note)
{
    int why = whole_finish(w);
    bool has_part = w->part[0] != '\0';
    if (keep && why == 0 && has_part && rename(w->part, w->name) != 0)
        why = errno;
    if (has_part && (!keep || why != 0))
        (void)unlink(w->part); /* nothing more to do when it stays */
    if (!keep)
        return ERR_OK;
    if (why != 0)
        return disk_fail(note, "write", w->name, why);
    return has_part ? whole_sync_name(w->name, note) : ERR_OK;
}
