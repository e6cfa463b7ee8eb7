/* lease.h - what the parts of leasing call of each other. Private to queue.
 *
 *   lease.c          requests come, their leases are written, they end
 *   lease_grant.c    which of them get which items, and the fencing token of each lease
 *   lease_bodies.c   the bodies of those items
 * Thread: under the lock of the queue, but for lease_copy. */
#ifndef QUEUE_LEASE_LEASE_H
#define QUEUE_LEASE_LEASE_H

#include "queue/order/flush.h"

/* lease.c */
/* Items that were GRANTING, to their place. */
void lease_back(struct part *p, struct list *items);
/* r has nothing any more: it waits for the next round, or ends with its queue. */
void lease_wait_again(struct queue *q, struct queue_lease_request *r);
/* r, with its items, into the next write. */
void lease_to_write(struct queue_lease_request *r, struct part *p);
/* r is answered: its lease is written, and its bodies were read or cannot be. */
void lease_finish(struct queue *q, struct queue_lease_request *r);
/* The leases of its items are written, and nobody is told of those from kept on. */
void lease_disown(struct part *p, const struct queue_lease_request *r, unsigned kept);
/* Who only stopped sending reads it. */
void lease_answer_gone(struct queue *q, struct queue_lease_request *r);

/* lease_bodies.c */
/* Bodies that are in memory, into r's. ERR_LIMIT: there is no room. Thread: any. */
MUST_CHECK err lease_copy(struct queue_lease_request *r);
/* Its batches are looked at no more. */
void lease_unpin(struct queue_lease_request *r, struct part *p);

#endif
