/* resume.h - how far an import came, kept beside the user's other state so that it can go on. Private to cli.
 *
 * A small JSON file: the number of items answered, and the last accepted one, which the server is asked about
 * before anything is skipped: a server that does not know it gets everything. Replaced by rename. Thread: one. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "cli/upload.h"

enum { RESUME_PATH_BYTES = 4096, RESUME_SAVE_EVERY_MS = 1000 };
struct resume {
    const struct cli_call *call;   /* for what is told */
    char path[RESUME_PATH_BYTES];  /* "": nothing is kept */
    mono saved_at;
    /* what was read; done 0: nothing to go on from */
    uint64_t done, rev;
    char title[1025], mark[1025], tid[TID_TEXT_BYTES + 1];
};
/* Finds the file (given, or made from what names this import) and reads it. fresh: as if there were none.
 * Without a home directory nothing is kept. */
void resume_open(struct resume *r, const struct client *c, const char *given, str what, bool fresh);
/* Asks the server for the last item; forgets what was read when it is unknown there. */
MUST_CHECK err resume_verify(struct resume *r, struct client *c, struct err_note *note);
void resume_forget(struct resume *r);
/* Saves, at most once in RESUME_SAVE_EVERY_MS unless forced. A failure is told once on stderr. */
void resume_save(struct resume *r, const struct uploads *u, mono now, bool forced);

#endif
