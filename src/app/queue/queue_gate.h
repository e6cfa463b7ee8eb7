/* queue_gate.h - which calls may hold a thread of the pool while they wait for stores:
 * QUEUE_GATE_SHARE of those that need one store, for each store; as many of all that need several,
 * which hold none of the others' places; one that changes the catalogue. The pool has that many
 * threads beyond pool_threads. So a store that does not answer holds its own share and that of
 * several stores, and no call that needs another store alone waits for it. The rest wait their
 * turn, first come first within a share, for QUEUE_TURN_MS_MAX. Private to queue*.c and app.c.
 * Thread: any. */
#ifndef APP_QUEUE_QUEUE_GATE_H
#define APP_QUEUE_QUEUE_GATE_H

#include "base/err.h"
#include "base/times.h"

#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_GATE_STORES_MAX = 64, QUEUE_GATE_SHARE = 2, QUEUE_TURN_MS_MAX = 120000 };

struct loop;
struct loop_job;
struct queue_gate;

/* What a call may have to wait for: stores, or a change, or nothing. */
struct queue_need {
    uint64_t stores; /* a bit for each, by its index */
    bool change;     /* a change of the catalogue: one at a time */
};
/* Of one call; the gate's while it waits or is inside. */
struct queue_turn {
    struct queue_need need;
    mono deadline; /* of its wait; looked at whenever somebody leaves */
    struct loop_job *job;
    void (*refused)(struct queue_turn *t,
                    err why); /* its turn does not come: ERR_SHUTDOWN, ERR_LIMIT */
    struct queue_turn *next;
    bool waiting;
};

/* Owner: caller. Dies when out of memory. */
struct queue_gate *queue_gate_new(struct loop *loop);
void queue_gate_free(struct queue_gate **gp); /* nobody is in it, or waits */
/* Starts the job now or when it is its turn; or calls refused, at once or later. All but the last
 * two members are set. */
void queue_gate_enter(struct queue_gate *g, struct queue_turn *t);
/* Its job is done. Starts whose turn it is, and refuses who waited too long. */
void queue_gate_leave(struct queue_gate *g, const struct queue_turn *t, mono now);
/* Out of the line. False: it waits no more, and its job or refused comes, or came. */
bool queue_gate_quit(struct queue_gate *g, struct queue_turn *t);
/* Refuses all that wait, and all that come. */
void queue_gate_drain(struct queue_gate *g);

#endif
