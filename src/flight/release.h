/* release.h - waiters, and outcomes on their way to them. Private to this folder.
 *
 * A waiter stands in one list from its join until it is called: its flight's while it waits, its
 * outcome's once that is known. Outcomes stand in a queue and give up FLIGHT_SHARE waiters at a
 * time, in turn. Pure. */
#ifndef FLIGHT_RELEASE_H
#define FLIGHT_RELEASE_H

#include "flight/core.h"

enum { FLIGHT_SHARE = 32 }; /* waiters of one outcome before the next outcome's turn */

struct waiters {
    struct flight_waiter *first, *last;
    unsigned count;
};
enum waiter_state { WAITER_WAITING = 1, WAITER_READY, WAITER_CALLED };
struct waiting { /* lies in flight_waiter.own */
    struct flight_waiter *prev, *next;
    struct waiters *in;
    struct flight *flight; /* while WAITING */
    struct heap_node node; /* by deadline, while WAITING */
    enum waiter_state state;
};
struct flight_outcome {
    struct flight_outcome *next; /* in a queue */
    struct waiters waiters;
    unsigned called; /* taken to be called, not told back */
    bool queued;
    err why;
    struct flight_value *value; /* a reference */
    struct err_note note;
};
struct outcomes {
    struct flight_outcome *first, **end;
};

struct waiting *waiting_of(struct flight_waiter *w);
struct flight_waiter *waiter_of(struct heap_node *n);
void waiters_add(struct waiters *list, struct flight_waiter *w);
void waiters_remove(struct flight_waiter *w);

void outcomes_init(struct outcomes *q);
/* Queued; takes the reference. Dies when out of memory. */
struct flight_outcome *outcomes_add(struct outcomes *q, err why, struct flight_value *value,
                                    const struct err_note *note);
/* Up to max waiters become CALLED. Outcomes that have none left go to spent once all were told
 * back. */
unsigned outcomes_take(struct outcomes *q, struct outcomes *spent, struct flight_call *out,
                       unsigned max);
void outcomes_called(struct outcomes *spent, const struct flight_call *calls, unsigned count);

#endif
