/* whole.c - a file appears whole or not at all; a device and a FIFO stay what they are. */
#include "cli/whole.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the bytes belong: behind links. *there false: nothing is there yet. */
static err find_target(struct whole *w, const char *file, struct stat *st, bool *there, struct err_note *note)
{
    char real[PATH_MAX];
    struct stat link;
    *there = realpath(file, real) != NULL;
    if (!*there && lstat(file, &link) == 0) {
        err_note_set(note, "cannot write %s: it is a link to what is not there", file);
        return ERR_BAD;
    }
    const char *name = *there ? real : file;
    if (*there && stat(name, st) != 0) {
        err_note_set(note, "cannot write %s: %s", file, strerror(errno));
        return ERR_IO;
    }
    if (*there && S_ISDIR(st->st_mode)) {
        err_note_set(note, "cannot write %s: it is a directory", file);
        return ERR_BAD;
    }
    int named = snprintf(w->name, sizeof w->name, "%s", name);
    int part = snprintf(w->part, sizeof w->part, "%s.%ld.part", name, (long)getpid());
    if (named >= 0 && named < WHOLE_PATH_BYTES && part >= 0 && part < WHOLE_PATH_BYTES)
        return ERR_OK;
    err_note_set(note, "the name of %.100s... is too long", file);
    return ERR_LIMIT;
}

err whole_begin(struct whole *w, const char *file, struct err_note *note)
{
    struct stat st;
    bool there;
    err e = find_target(w, file, &st, &there, note);
    if (e != ERR_OK)
        return e;
    bool as_it_is = there && !S_ISREG(st.st_mode);
    if (as_it_is)
        w->part[0] = '\0';
    int fd = open(as_it_is ? w->name : w->part, O_WRONLY | O_CLOEXEC | (as_it_is ? 0 : O_CREAT | O_EXCL), 0666);
    bool mode_kept = fd >= 0 && (as_it_is || !there || fchmod(fd, st.st_mode & 07777) == 0);
    if (!mode_kept) {
        err_note_set(note, "cannot write %s: %s", file, strerror(errno));
        if (fd >= 0)
            close(fd);
        return ERR_IO;
    }
    w->to = fdopen(fd, "wb");
    INVARIANT(w->to != NULL);
    return ERR_OK;
}

err whole_end(struct whole *w, bool keep, struct err_note *note)
{
    bool failed = fflush(w->to) != 0 || ferror(w->to);
    int why = errno;
    if (fclose(w->to) != 0 && !failed) {
        failed = true;
        why = errno;
    }
    w->to = NULL;
    if (keep && !failed && w->part[0] != '\0' && rename(w->part, w->name) != 0) {
        failed = true;
        why = errno;
    }
    if ((failed || !keep) && w->part[0] != '\0')
        (void)unlink(w->part); /* it was ours; nothing more to do when it stays */
    return failed && keep ? disk_fail(note, "write", w->name, why) : ERR_OK;
}
