/* import.h - what the imports share: client, upload, state, progress. Private to cli. Thread:
 * one. */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "cli/out.h"
#include "cli/resume.h"
#include "cli/upload.h"

enum {
    IMPORT_HTML_BYTES_MAX = 32 << 20,
    IMPORT_SELECTION_BYTES_MAX = 1 << 19 /* three arguments */
};

struct sysclock;
struct import {
    const struct cli_call *call;
    struct client client;
    struct sysclock *sysclock;
    struct clock *clock;
    struct uploads *uploads;
    struct resume resume;
    struct out_progress progress;
    unsigned parallel;
    bool quiet;
    bool unchecked; /* no checksum covers yet what is put: nothing of it is saved as done */
    bool fresh;     /* of uploads_opts */
};
/* Reads the options all imports take (--parallel, --state, --restart, --quiet). input names this
 * import among all that go to this server; empty: nothing is kept unless --state says where.
 * selection: options that choose what of the input is imported. Prints what is wrong; nothing is
 * open then. Owner: import_close. */
MUST_CHECK enum cli_exit import_open(struct import *im, const struct cli_call *call, str input,
                                     str selection);
/* Asks the server whether it knows what the state file says. */
MUST_CHECK err import_resume(struct import *im, struct err_note *note);
/* From here on items may be put; the first has the number resume.done + 1. */
void import_begin(struct import *im, const char *progress_what, const char *progress_unit);
/* After each item: draws and saves. */
void import_step(struct import *im, uint64_t done, uint64_t total);
/* Waits for what is in the air, also when e says that the input went wrong, saves, and tells how
 * many items differ from what is stored. Returns the first error. */
MUST_CHECK err import_finish(struct import *im, err e, struct err_note *note);
/* Says why it failed, or that it was interrupted: how much is stored, and how to go on. */
enum cli_exit import_fail(const struct import *im, err why, const struct err_note *note);
/* Ends the process by the signal that interrupted the import, if one did. */
void import_close(struct import *im);

/* Tells on stderr that something is left out, unless quiet. rev 0: it has none. */
void import_skipped(struct import *im, str title, uint64_t rev, const char *why);
/* The same of something that is imported all the same. */
void import_warned(struct import *im, str title, const char *what);
/* Appends the absolute name of path. */
void import_absolute(const char *path, struct buf *out);

#endif
