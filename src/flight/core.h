/* core.h - the decisions of flights, pure: event and now in, effects out. Private to this folder.
 *
 * No lock, no thread, no clock: flight.c puts those around it, the simulation drives it alone.
 * Whose turn it is to begin is the limiter's, which has a lock of its own, taken inside ours.
 * Effects wait in two queues until they are taken: things to do to computations, and waiters to
 * call. */
#ifndef FLIGHT_CORE_H
#define FLIGHT_CORE_H

#include "base/heap.h"
#include "flight/errors.h"
#include "flight/flight.h"

struct flight_core;
struct flight_outcome;

/* opts: all set but limiter, which may be NULL: each flight begins at once; loop, clock and metrics
 * are not looked at. owner: for flight_owner. turn_came: what the limiter calls, to call
 * flight_core_admit: it comes while no decision is under way. */
struct flight_core *flight_core_new(const struct flight_opts *opts, void *owner,
                                    void (*turn_came)(struct limiter_pass *p, bool in));
void *flight_owner(const struct flight *f);
struct flight *flight_of_pass(struct limiter_pass *p);
/* The flight's turn has come; one that was dropped meanwhile is left alone. */
void flight_core_admit(struct flight_core *c, struct flight *f);
void flight_core_free(struct flight_core **cp); /* idle, and all effects were taken and told back */

struct flight_join {
    str key;
    const struct flight_maker *maker;
    struct flight_waiter *waiter;
};
/* ERR_OK: *spare is the maker that is not needed (release NULL: none). */
MUST_CHECK err flight_core_join(struct flight_core *c, mono now, const struct flight_join *j,
                                struct flight_maker *spare);
bool flight_core_leave(struct flight_core *c, struct flight_waiter *w);
/* retry_ms: of an error that is not kept here: how long others remember it; 0: they do not. */
struct flight_result {
    err why;
    bool keep_error;
    struct flight_value *value;
    const struct err_note *note;
    int64_t retry_ms;
};
void flight_core_finish(struct flight_core *c, mono now, struct flight *f,
                        const struct flight_result *r);
/* Deadlines that passed, and flights whose turn to be made has come. */
void flight_core_tick(struct flight_core *c, mono now);
/* The counts of opts but errors_max; those of computations at the limiter, if there is one. */
void flight_core_limit(struct flight_core *c, const struct flight_opts *opts);
void flight_core_drain(struct flight_core *c);

enum flight_do { FLIGHT_START, FLIGHT_CANCEL, FLIGHT_RELEASE, FLIGHT_DOES };
struct flight_todo {
    struct flight *flight;
    enum flight_do what;
};
/* Takes up to max in order; returns how many. */
unsigned flight_core_todo(struct flight_core *c, struct flight_todo *out, unsigned max);
mono flight_began(const struct flight *f);
const struct flight_maker *flight_maker_of(const struct flight *f);
/* Its release was called (FLIGHT_RELEASE): it is gone. */
void flight_core_released(struct flight_core *c, struct flight *f);

struct flight_call {
    struct flight_waiter *waiter;
    struct flight_outcome *outcome;
};
unsigned flight_core_calls(struct flight_core *c, struct flight_call *out, unsigned max);
void flight_call(const struct flight_call *call); /* calls done */
void flight_core_called(struct flight_core *c, const struct flight_call *calls, unsigned count);
/* Outcomes nobody needs any more; values are released in flight_outcomes_free, which needs no
 * core. */
struct flight_outcome *flight_core_spent(struct flight_core *c);
void flight_outcomes_free(struct flight_outcome *o);

bool flight_core_busy(const struct flight_core *c); /* effects wait */
bool flight_core_idle(const struct flight_core *c);
/* When tick has something to do next; INT64_MAX: by no clock. */
mono flight_core_wake(const struct flight_core *c);
void flight_core_each(const struct flight_core *c, mono now,
                      bool (*each)(void *ctx, const struct flight_seen *s), void *ctx);
void flight_core_stats(const struct flight_core *c, struct flight_stats *out);
/* Dies unless counts, lists and states agree; for tests: walks everything. */
void flight_core_check(const struct flight_core *c);

#endif
