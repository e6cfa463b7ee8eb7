/* breaker.h - a circuit breaker: who fails again and again is left alone for a while.
 *
 * Model. CLOSED lets all in. After failures_max failures in a row it is OPEN: nobody is let in for
 * base_ms. Then one is let in on trial (HALF). Its success closes the breaker; its failure opens it
 * for twice as long as before, up to max_ms. What was let in before counts, too, when it ends late:
 * a success closes, a failure while OPEN changes nothing. Pure. Thread: one at a time. */
#ifndef BASE_BREAKER_H
#define BASE_BREAKER_H

#include "base/check.h"
#include "base/times.h"

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF };
struct breaker {
    unsigned failures_max;
    int64_t base_ms, max_ms;
    /* the module's */
    enum breaker_state state;
    unsigned failures; /* CLOSED: in a row */
    int64_t pause_ms;  /* the last one; 0: there was none since a success */
    mono until;        /* OPEN: of the pause; HALF: of the trial, which may never end */
};
void breaker_init(struct breaker *b, unsigned failures_max, int64_t base_ms, int64_t max_ms);
/* May one more begin? Who is let in says later how it ended. A trial that says nothing for max_ms
 * counts for nothing: another one is let in. */
MUST_CHECK bool breaker_enter(struct breaker *b, mono now);
void breaker_succeeded(struct breaker *b);
/* True: it opened by this. */
bool breaker_failed(struct breaker *b, mono now);

#endif
