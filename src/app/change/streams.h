/* streams.h - events as they happen, to clients that stay connected (server-sent events). The part
 * that is no handler: what all of them share, their clock, and their end.
 *
 * Model. The newest events are kept formatted, in memory (event/tail.h). Whenever there are new
 * ones all clients are woken, at most once in STREAMS_PACE_MS: each sends what it wants of them by
 * itself, as fast as its peer takes it. Every
 * STREAMS_BEAT_MS the rights of each client are asked again, and one that is sent nothing else gets
 * a comment, so that a dead connection is found. Private to this folder, but for its making.
 */
#ifndef APP_CHANGE_STREAMS_H
#define APP_CHANGE_STREAMS_H

#include "app/app.h"

enum {
    STREAMS_PACE_MS = 10,
    STREAMS_BEAT_MS = 15000,
    STREAMS_TAIL_BYTES = 8 << 20, /* of formatted events that are kept for all of them */
    /* Of events that clients hold: those read for one alone, and large ones of the tail. With so
     * many, who wants more waits until some were sent, */
    STREAMS_HELD_BYTES = 32 << 20,
    STREAMS_LARGE_BYTES = 256 << 10, /* a chunk of the tail with so many is a large one */
    STREAMS_READINGS_MAX = 2,        /* for one client each, at once */
    /* and who holds some for longer, while others wait, is cut. */
    STREAMS_PATIENCE_MS = 5 * 1000,
};

struct streams_figures {
    uint64_t clients, refused, gaps, failed, bytes;
};

/* The log is open, nothing is appended yet, the loop does not run. ERR_IO, ERR_CORRUPT. */
MUST_CHECK err streams_new(struct app *app, struct streams **out);
/* So many clients from here on; who is there stays. Thread: any. */
void streams_limit(struct streams *s, unsigned clients);
/* No more timers. The HTTP server has ended, the loop has not. */
void streams_stop(struct streams *s);
/* The loop has ended, the log is hushed. */
void streams_free(struct streams **sp);
void streams_figures_get(struct streams *s, struct streams_figures *out);

#endif
