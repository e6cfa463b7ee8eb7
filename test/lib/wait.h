/* wait.h - a test waits for what happens on other threads.
 *
 * Nothing waits without end: after WAIT_S seconds the test fails, and says what it waited for. A
 * machine that is busy stays far below that. */
#ifndef TEST_LIB_WAIT_H
#define TEST_LIB_WAIT_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { WAIT_S = 120, WAIT_MS = WAIT_S * 1000 };

/* One answer that comes once, from any thread. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    err why;
};
void waiter_init(struct waiter *w);
void waiter_fini(struct waiter *w);
/* A second call before waiter_wait breaks an invariant. */
void waiter_tell(struct waiter *w, err why);
bool waiter_told(struct waiter *w);
/* What was told. The waiter may be used for another answer then. */
err waiter_wait(struct waiter *w);

/* One wait for a change of what lock guards, as pthread_cond_wait; the caller looks again. */
void wait_change(pthread_cond_t *changed, pthread_mutex_t *lock, const char *what);

/* Between two looks at what nobody tells of. */
void wait_pause(int64_t ms);
/* Looks every millisecond until EXPR is true. */
#define WAIT_UNTIL(expr)                                                                           \
    do {                                                                                           \
        int64_t wait_left_ms = WAIT_MS;                                                            \
        while (!(expr))                                                                            \
            wait_look(&wait_left_ms, #expr);                                                       \
    } while (0)
void wait_look(int64_t *left_ms, const char *what);

#endif
