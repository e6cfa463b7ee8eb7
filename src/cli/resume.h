/* resume.h - how far an import came, kept beside the user's other state so that it can go on.
 * Private to cli.
 *
 * A small JSON file: the number of items answered, and the last accepted one, which the server is
 * asked about before anything is skipped: a server that does not know it gets everything. The file
 * names the import that it is of and has a checksum; another import's, a damaged one, and what is
 * no such file are refused. A fresh start (opts.fresh) replaces the first two. Files without name
 * and sum, of version 0.1, are taken. Replaced whole, see whole.h. Thread: one. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "cli/upload.h"

enum {
    RESUME_PATH_BYTES = 4096,
    RESUME_OF_BYTES = 4096,
    RESUME_OF_SHOWN_BYTES = 1024,
    RESUME_FILE_BYTES_MAX = 1 << 16,
    RESUME_SAVE_EVERY_MS = 1000,
};
struct resume {
    const struct cli_call *call;  /* for what is told */
    char path[RESUME_PATH_BYTES]; /* "": nothing is kept */
    char of[RESUME_OF_BYTES];     /* which import it is, beside its input's name and the server's */
    mono saved_at;
    /* what was read; done 0: nothing to go on from */
    uint64_t done, rev;
    char title[1025], mark[1025], tid[TID_TEXT_BYTES + 1];
};
struct resume_opts {
    const char *given; /* the file; NULL: one made from input, server, domain and bucket */
    str input;         /* empty: nothing is kept unless given */
    str of;            /* "import git --ref HEAD": what gives other items has another one */
    bool fresh;        /* as if nothing had been kept */
};
/* Finds the file and reads it. Without a home directory nothing is kept. ERR_CONFLICT with a note:
 * what is there is not of this import, or damaged; ERR_IO, ERR_LIMIT. */
MUST_CHECK err resume_open(struct resume *r, const struct client *c, const struct resume_opts *opts,
                           struct err_note *note);
/* Asks the server for the last item; forgets what was read when it is unknown there. */
MUST_CHECK err resume_verify(struct resume *r, struct client *c, struct err_note *note);
void resume_forget(struct resume *r);
/* The import came to its end: nothing is kept of it. */
void resume_end(struct resume *r);
/* Saves, at most once in RESUME_SAVE_EVERY_MS unless forced. A failure is told once on stderr. */
void resume_save(struct resume *r, const struct uploads *u, mono now, bool forced);

#endif
