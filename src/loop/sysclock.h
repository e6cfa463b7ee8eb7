/* sysclock.h - the real clock, and the hook that moves store_time (docs/api.md, 9).
 *
 * store_time starts at max(wall, greatest stored), advances by CLOCK_BOOTTIME and is slewed towards
 * wall, at most SYSCLOCK_SLEW_PPM, never backwards. Wall ahead of it by more than SYSCLOCK_STEP_MS
 * was set: it follows at once. Wall ahead by more than the leap that is believed is taken for
 * wrong, at the start and later: what is stored would fall due all at once, and time does not go
 * back. store_time then runs on from the last that was stored, until wall is set right or a start
 * believes it. Only where that last is before SYSCLOCK_SET_S, as on a machine whose clock nobody
 * had set, any wall is believed. Frozen, it stands where it was put until advanced or resumed.
 * Thread: all functions from any thread; reading takes no lock. */
#ifndef LOOP_SYSCLOCK_H
#define LOOP_SYSCLOCK_H

#include "base/err.h"
#include "base/times.h"

enum {
    SYSCLOCK_SLEW_PPM = 500,
    SYSCLOCK_STEP_MS = 1000,
    /* 2025-01-01: before this program was; a clock that says less is not set */
    SYSCLOCK_SET_S = 1735689600,
};
struct sysclock;

/* How wall stands to store_time, hooks aside. */
enum sysclock_verdict {
    SYSCLOCK_NEAR,    /* within SYSCLOCK_STEP_MS, or frozen */
    SYSCLOCK_STEPPED, /* wall was ahead, store_time has followed it */
    /* wall is behind: store_time runs on, and slower, until wall has come up to it */
    SYSCLOCK_BEHIND,
    SYSCLOCK_LEAP, /* wall is ahead by more than is believed: not followed */
};
struct sysclock_look {
    enum sysclock_verdict verdict;
    int64_t lead_ns; /* of wall over store_time, before a step; frozen: 0 */
};

/* Owner: caller. Dies when out of memory. Before sysclock_start store_time follows the wall
 * clock. */
struct sysclock *sysclock_new(void);
void sysclock_free(struct sysclock **cp);
struct clock *sysclock_clock(struct sysclock *c);
/* How far wall may be ahead of what is stored and be believed; DURATION_NEVER (as at first):
 * however far. Before sysclock_start. */
void sysclock_believe(struct sysclock *c, int64_t leap_ns_max);
/* Tells the greatest stored time: from here on store_time is at least that, frozen or not. Again
 * for each further store. */
void sysclock_start(struct sysclock *c, store_time greatest_stored);
/* Pulls the slew, or follows a step; call about once a second. */
struct sysclock_look sysclock_tick(struct sysclock *c);

/* Test hooks. freeze: the first may name any instant, later ones may not go back (ERR_BAD).
 * advance: frozen or running; the slew then leans towards wall plus what was advanced. ERR_BAD: ns
 * < 0, or past 2262. */
MUST_CHECK err sysclock_freeze(struct sysclock *c, store_time at, struct err_note *note);
MUST_CHECK err sysclock_advance(struct sysclock *c, int64_t ns, struct err_note *note);
/* Runs on from where it stands, or from wall where that is later. Not frozen: does nothing. */
void sysclock_resume(struct sysclock *c);

#endif
