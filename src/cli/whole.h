/* whole.h - files that people name, written so that nobody finds half of one. Private to cli.
 *
 * A regular file, or a name where nothing is, gets the bytes under another name beside it, and its
 * own by rename, once they are on disk. A file that was there keeps its permissions, and its owner
 * and group where we may give them; else its group's permissions go, and set-user-id and
 * set-group-id go always. Of a symbolic link the target is replaced, and the link stays; one that
 * somebody else put into a folder like /tmp is refused. What is neither file nor directory, a
 * device or a FIFO, is written into as it is. Thread: one. */
#ifndef CLI_WHOLE_H
#define CLI_WHOLE_H

#include "base/check.h"
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

enum { WHOLE_LINKS_MAX = 40 };
struct whole {
    FILE *to; /* the bytes go here */
    char name[PATH_MAX];
    char part[PATH_MAX]; /* ""; written into as it is */
};
/* A signal leaves no part behind: from here on it is one of stop.h, and the caller ends with
 * signals_end. Owner: caller, whole_end. ERR_IO, ERR_FULL, ERR_BAD (a directory, a link to
 * nothing), ERR_DENIED (somebody else's link), ERR_LIMIT with a note; nothing is left then. */
MUST_CHECK err whole_begin(struct whole *w, const char *file, struct err_note *note);
/* keep: gives the file its name; else it is as it was before. ERR_OK: name and bytes are on disk.
 * After an error the part is gone; the file is as it was, unless the note says that its folder
 * cannot be synced. Closes w->to in every case. ERR_FULL, ERR_IO. */
MUST_CHECK err whole_end(struct whole *w, bool keep, struct err_note *note);

/* The name of what was put in place by rename, onto disk. ERR_FULL, ERR_IO. */
MUST_CHECK err whole_sync_name(const char *name, struct err_note *note);

#endif
