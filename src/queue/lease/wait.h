/* wait.h - a call that blocks until requests or moves it began are done. Private to queue. Thread:
 * pool or tests. */
#ifndef QUEUE_LEASE_WAIT_H
#define QUEUE_LEASE_WAIT_H

#include "base/err.h"
#include "base/home.h"
#include "queue/later.h"

#include <pthread.h>

struct waiter {
    struct home home; /* tasks posted there run inside waiter_wait */
    struct task_list tasks;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned left; /* outcomes awaited */
    unsigned good; /* items whose outcome was ERR_OK */
    err worst;
};
void waiter_init(struct waiter *w);
void waiter_fini(struct waiter *w);
void waiter_expect(struct waiter *w);
void waiter_done(struct waiter *w, err why, unsigned items);
/* Until nothing is awaited. */
MUST_CHECK err waiter_wait(struct waiter *w);

/* A call that is answered later (later.h), by a thread that waits for it. */
struct wait_later {
    struct waiter waiter;
    struct queue_later later;
};
struct queue_later *wait_later_begin(struct wait_later *w);
/* What the call came to; returned: ERR_AGAIN, or at once. */
MUST_CHECK err wait_later_outcome(struct wait_later *w, err returned);

#endif
