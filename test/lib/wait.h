/* wait.h - a test waits for what happens on other threads.
 *
 * Nothing waits without end: after WAIT_S seconds the program says what it waited for, and ends. A
 * busy machine stays far below that. */
#ifndef TEST_LIB_WAIT_H
#define TEST_LIB_WAIT_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { WAIT_S = 120, WAIT_MS = WAIT_S * 1000 };

/* One answer that comes once, from any thread. */
struct awaited {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    err why;
};
void awaited_init(struct awaited *w);
void awaited_fini(struct awaited *w);
/* Once: a second call breaks an invariant. */
void awaited_tell(struct awaited *w, err why);
bool awaited_told(struct awaited *w);
/* What was told, as often as it is asked. */
err awaited_wait(struct awaited *w);

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
