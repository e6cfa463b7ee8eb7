/* sysclock.h - the real clock, and the hook that moves store_time (CONTRACT 4).
 *
 * store_time starts at max(wall, greatest stored), advances by CLOCK_BOOTTIME and is slewed towards wall,
 * at most SYSCLOCK_SLEW_PPM, never backwards. Frozen, it stands where it was put until advanced or resumed.
 * Thread: all functions from any thread; reading takes no lock. */
#ifndef LOOP_SYSCLOCK_H
#define LOOP_SYSCLOCK_H

#include "base/err.h"
#include "base/times.h"

enum { SYSCLOCK_SLEW_PPM = 500 };
struct sysclock;

/* Owner: caller. Dies when out of memory. Before sysclock_start store_time follows the wall clock. */
struct sysclock *sysclock_new(void);
void sysclock_free(struct sysclock **cp);
struct clock *sysclock_clock(struct sysclock *c);
/* Tells the greatest stored time: from here on store_time is at least that, frozen or not. */
void sysclock_start(struct sysclock *c, store_time greatest_stored);
/* Pulls the slew; call about once a second. */
void sysclock_tick(struct sysclock *c);

/* Test hooks. freeze: the first may name any instant, later ones may not go back (ERR_BAD). advance: frozen or
 * running; the slew then leans towards wall plus what was advanced. ERR_BAD: ns < 0, or past 2262. */
MUST_CHECK err sysclock_freeze(struct sysclock *c, store_time at, struct err_note *note);
MUST_CHECK err sysclock_advance(struct sysclock *c, int64_t ns, struct err_note *note);
/* Runs on from where it stands, or from wall where that is later. Not frozen: does nothing. */
void sysclock_resume(struct sysclock *c);

#endif
