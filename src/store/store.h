/* store.h - calls to a store, whichever it is.
 *
 * Model. A request embeds a call, and call.home names the thread that goes on. A start has two
 * results. STORE_DONE: the outcome stands in the request, and done is not called. STORE_LATER: done
 * runs at call.home exactly once, and the outcome stands in the request then. done may run on
 * another thread before the start returns: touch nothing of the request after STORE_LATER. The
 * embedded store finishes reads of what is in memory at once.
 *   The caller owns the request and all that it points to, and keeps them alive and unchanged until
 * the call is over. Members that are not under "in" are zero before the start. The store must
 * outlive its calls.
 *   A read whose start returned STORE_LATER can be canceled: done comes soon, with ERR_TIMEOUT or
 * the result. Reads have no deadline of their own. A write that was submitted is never taken
 * back. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/err.h"
#include "base/home.h"
#include "base/times.h"

#include <stdatomic.h>

enum store_start { STORE_DONE, STORE_LATER };

/* How fresh a read must be: ANY copy that is there will do, or it sees all that was acknowledged.
 * The embedded store has one copy, which is both. */
enum store_fresh { STORE_ANY, STORE_QUORUM };

struct store_call {
    /* in */
    mono deadline;                      /* of writes: not begun by then, ERR_TIMEOUT; ns 0: none */
    enum store_fresh fresh;             /* of reads */
    struct home *home;                  /* where done runs */
    void (*done)(struct store_call *c); /* may free the request */
    const struct store_call *part_of;   /* canceled with it; NULL: of none */
    /* out */
    err why;
    /* the store's */
    struct task task;
    void *own;
    atomic_bool canceled;
};

/* Cancels a read whose start returned STORE_LATER. No effect once done is posted. The caller keeps
 * the request alive until store_cancel returns. Thread: any. */
static inline void store_cancel(struct store_call *c)
{
    atomic_store_explicit(&c->canceled, true, memory_order_relaxed);
}

/* For stores: is nobody waiting any more? */
static inline bool store_call_canceled(const struct store_call *c)
{
    for (; c != NULL; c = c->part_of)
        if (atomic_load_explicit(&c->canceled, memory_order_relaxed))
            return true;
    return false;
}

static inline void store_call_run(struct task *t)
{
    struct store_call *c = CONTAINER_OF(t, struct store_call, task);
    c->done(c);
}

/* For stores: a call that was LATER is over. */
static inline void store_call_end(struct store_call *c, err why)
{
    c->why = why;
    c->task.run = store_call_run;
    home_post(c->home, &c->task);
}

/* For stores: the call is over at once. */
static inline enum store_start store_call_done(struct store_call *c, err why)
{
    c->why = why;
    return STORE_DONE;
}

/* Runs done on this thread when start is STORE_DONE, so that a caller has one way to go on. */
static inline void store_call_then(enum store_start start, struct store_call *c)
{
    if (start == STORE_DONE)
        c->done(c);
}

/* Posts done to call.home when start is STORE_DONE, so that done never runs inside the start. */
static inline void store_call_post(enum store_start start, struct store_call *c)
{
    if (start == STORE_DONE)
        store_call_end(c, c->why);
}

#endif
