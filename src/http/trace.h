/* trace.h - the last events of one request: which stage it came to, on which thread, when. Private
 * to http.
 *
 * Model. A request gets its trace when it is first handed over, to the pool or by http_defer; one
 * that is answered where it was received has none. Whoever carries it on notes an event; the 65th
 * takes the place of the first. An event is one word, so that threads write beside each other
 * without a lock. The trace ends with the request.
 *   While a thread is at work for a request it says so: an invariant that breaks there prints the
 * request's route and its events. Targets are not printed: they may hold secrets. */
#ifndef HTTP_TRACE_H
#define HTTP_TRACE_H

#include "http/exchange.h"
#include "http/slow.h"

enum trace_stage {
    TRACE_HEAD,     /* its first byte is here; always at 0 */
    TRACE_BODY,     /* its body is here, no later than this */
    TRACE_POOL,     /* it is handed to the pool */
    TRACE_RUN,      /* its handler begins there */
    TRACE_DEFERRED, /* its handler waits for others */
    TRACE_POSTED,   /* what it waited for came, or a part of that; noted by who brings it */
    TRACE_TASK,     /* it is carried on with that */
    TRACE_GO,       /* its gate is open, its handler begins */
    TRACE_GONE,     /* its handler is told that the client left */
    TRACE_ANSWERED, /* the answer is there */
    TRACE_SEND,     /* its worker has the answer to send */
    TRACE_REST,     /* the kernel had no room for some: the client must read first */
    TRACE_SENT,     /* all went */
    TRACE_CUT,      /* its connection ended before */
    TRACE_STAGES
};

struct trace {
    atomic_uint count; /* of events, ever */
    _Atomic uint64_t events[HTTP_TRACE_MAX];
};

/* ns: since the request began. Thread: any. */
void trace_put(struct trace *t, enum trace_stage stage, int64_t ns);
/* The events, oldest first; those that others put meanwhile may be among them. Returns how many. */
unsigned trace_copy(const struct trace *t, uint64_t out[static HTTP_TRACE_MAX], unsigned *lost);

/* x is handed over. Without memory it goes without. Thread: x's handler, or who begins it. */
void trace_begin(struct http_exchange *x);
void trace_end(struct http_exchange *x);
void trace_note_now(struct http_exchange *x, enum trace_stage stage);
/* Thread: any, while x is there. */
static inline void trace_note(struct http_exchange *x, enum trace_stage stage)
{
    if (atomic_load_explicit(&x->trace, memory_order_acquire) != NULL)
        trace_note_now(x, stage);
}

/* This thread is at work for x from here on. Returns what trace_leave wants, before x may end. */
struct check_note trace_enter(const struct http_exchange *x);
void trace_leave(struct check_note before);

/* x ends, and took so long: it is kept. Thread: its worker. */
void trace_keep(struct http_exchange *x, int status, int64_t ns, uint64_t bytes);

#endif
