/* whole.h - files that people name, written so that nobody finds half of one. Private to cli.
 *
 * A regular file, or a name where nothing is, gets the bytes under another name beside it, and its own by rename; a
 * file that was there keeps its mode. Of a symbolic link the target is replaced, and the link stays. What is neither
 * file nor directory, a device or a FIFO, is written into as it is. Thread: one. */
#ifndef CLI_WHOLE_H
#define CLI_WHOLE_H

#include "base/check.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>

enum { WHOLE_PATH_BYTES = 4096 };
struct whole {
    FILE *to;                       /* the bytes go here */
    char name[WHOLE_PATH_BYTES];
    char part[WHOLE_PATH_BYTES];    /* ""; written into as it is */
};
/* Owner: caller, whole_end. ERR_IO, ERR_BAD (a directory, a link to nothing), ERR_LIMIT with a note. */
MUST_CHECK err whole_begin(struct whole *w, const char *file, struct err_note *note);
/* keep: gives the file its name; else it is as it was before. Closes w->to in every case. ERR_FULL, ERR_IO. */
MUST_CHECK err whole_end(struct whole *w, bool keep, struct err_note *note);

#endif
