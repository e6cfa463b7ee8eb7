/* requeue_rig.h - a queue of dead items, the one they are requeued to, each in a store of its own,
 * and writes of these stores that a test delays, refuses or loses. */
#ifndef UNIT_QUEUE_REQUEUE_RIG_H
#define UNIT_QUEUE_REQUEUE_RIG_H

#include "rig.h"

#include <stdatomic.h>

enum { REQUEUE_ITEMS = 5, REQUEUE_LATE_MS = 300 };

extern struct queue *dead, *to;

/* dead in store 0 with REQUEUE_ITEMS items, to in store 1. */
void requeue_between_stores(void);
void let_queues_go(void);
/* So many items are in to, so many are left in dead, and none is on its way. */
void await_moved(unsigned items, unsigned left);
/* Until flag is set, or REQUEUE_LATE_MS are over. */
void await_late(const atomic_bool *flag);

/* Of tests that bend writes: with one store, or two. */
int requeue_setup(void **state);
int requeue_setup_two(void **state);
/* Another process, after this one ended well. Its writes cannot be bent. */
void requeue_reopen(void);
/* From now on that store is asked to write by this function, which may ask real_write. */
typedef void write_fn(struct queue_store *s, struct queue_write *w);
void bend_writes(unsigned store, write_fn *write);
void real_write(struct queue_store *s, struct queue_write *w);
void straighten_writes(void);
/* In the first part of it. */
bool write_has(const struct queue_write *w, enum queue_op_kind kind);
/* The first write with such a row that is asked for has an unknown outcome. is_done: it is done. */
void lose_write(unsigned store, enum queue_op_kind kind, bool is_done);
extern atomic_bool write_lost;

#endif
