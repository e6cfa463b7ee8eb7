/* tail.h - the newest events in memory, for many readers who have read nearly all.
 *
 * Model. The tail follows the log. It reads what is new once, whoever and how many want it, as
 * chunks (chunk.h) in the form in which they are sent, and keeps the newest chunks up to bytes_max.
 * Then it calls news. A reader asks for the chunk behind the number it has read up to. A reader
 * that is further behind than the tail goes reads the log itself, with event_chunk_read. */
#ifndef EVENT_TAIL_H
#define EVENT_TAIL_H

#include "event/chunk.h"

struct event_tail;
struct event_tail_opts {
    struct event_log *log;
    struct home *pool; /* where the log is read; may have several threads */
    size_t bytes_max;  /* of chunks; the newest is always kept */
    struct event_choice choice;
    /* Does anybody follow? While nobody does, nothing is read. On a thread of pool. */
    bool (*wanted)(void *ctx);
    /* There is a new chunk. On a thread of pool, one call at a time. */
    void (*news)(void *ctx);
    void *ctx;
};

/* Before anything is appended to the log. Begins behind the newest event: it reads nothing that is
 * older. ERR_IO, ERR_CORRUPT. Owner: caller. */
MUST_CHECK err event_tail_new(const struct event_tail_opts *opts, struct event_tail **out);
/* The log is hushed, and nothing is left in the pool. */
void event_tail_free(struct event_tail **tp);

enum event_tail_has { TAIL_NOTHING, TAIL_CHUNK, TAIL_BEHIND };
/* Events behind after. CHUNK: *out, whose owner the caller is. Its first events may have numbers
 * up to after: the caller passes over them. NOTHING: there are none yet. BEHIND: they are not in
 * memory. Thread: any; never blocks for long. */
enum event_tail_has event_tail_find(struct event_tail *t, uint64_t after, struct event_chunk **out);
/* The number of the newest event that the tail has read. Thread: any. */
uint64_t event_tail_last(struct event_tail *t);

struct event_tail_figures {
    uint64_t chunks, bytes;
    uint64_t read, spoilt; /* events since the start */
    uint64_t failed;       /* reads that failed, and are tried again with the next event */
};
void event_tail_figures(struct event_tail *t, struct event_tail_figures *out);

#endif
