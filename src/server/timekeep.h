/* timekeep.h - store_time beside the machine's clock: keeps them together, and tells the operator
 * when they part.
 *
 * Model. timekeep_tick pulls store_time (loop/sysclock.h says how). Each time it comes to stand
 * otherwise to the machine's clock one line is logged, not one a second: clock.stepped,
 * clock.behind, clock.leap, clock.together; and the gauge clock_ahead_seconds is store_time minus
 * the machine's clock, whole seconds. Thread: loop. */
#ifndef SERVER_TIMEKEEP_H
#define SERVER_TIMEKEEP_H

#include "base/log.h"
#include "base/metrics.h"
#include "loop/sysclock.h"

enum { TIMEKEEP_TICK_MS = 1000 };

struct timekeep {
    struct sysclock *sysclock;
    struct log *log;
    struct metric *ahead;
    enum sysclock_verdict verdict;
};

/* All borrowed. Makes a metric: before anything listens. */
void timekeep_init(struct timekeep *t, struct sysclock *sysclock, struct log *log,
                   struct metrics *metrics);
/* Call it once all stores are open, and then every TIMEKEEP_TICK_MS. */
void timekeep_tick(struct timekeep *t);

#endif
