/* request.c - requests of a queue: what is kept of each, its answer, its end in time
 * (request.h). For all kinds of requests.
 *   Invariants
 *   1. A request is in at most one list, and in queue.deadlines until it is answered.
 *   2. Its done runs once, as its task, after it is answered: a task that a store's thread posts
 *      before that only looks. */
#include "queue/order/flush.h"

#include <string.h>

enum { LOOKED_AT_MS = 50 }; /* what is being read is looked at again so much later */

_Static_assert(sizeof(struct own_produce) <= sizeof(((struct queue_produce *)NULL)->own),
               "own is too small");
_Static_assert(sizeof(struct own_lease) <= sizeof(((struct queue_lease_request *)NULL)->own),
               "own is too small");
_Static_assert(sizeof(struct own_change) <= sizeof(((struct queue_change *)NULL)->own),
               "own is too small");

/* ---- what is what ---- */

struct own_produce *own_produce(struct queue_produce *p)
{
    return (struct own_produce *)(void *)p->own;
}

struct own_lease *own_lease(struct queue_lease_request *r)
{
    return (struct own_lease *)(void *)r->own;
}

struct own_change *own_change(struct queue_change *c)
{
    return (struct own_change *)(void *)c->own;
}

/* own stands first in own of the request, and req first in own: so one leads to the other. */
struct queue_produce *req_produce(struct req *r)
{
    INVARIANT(r->kind == REQ_PRODUCE);
    return CONTAINER_OF(r, struct queue_produce, own);
}

struct queue_lease_request *req_lease(struct req *r)
{
    INVARIANT(r->kind == REQ_LEASE);
    return CONTAINER_OF(r, struct queue_lease_request, own);
}

struct queue_change *req_change(struct req *r)
{
    INVARIANT(r->kind == REQ_CHANGE);
    return CONTAINER_OF(r, struct queue_change, own);
}

struct err_note *req_note(struct req *r)
{
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        return &req_produce(r)->note;
    case REQ_LEASE:
        return &req_lease(r)->note;
    case REQ_CHANGE:
        return &req_change(r)->note;
    }
    return NULL;
}

static uint64_t *req_count(struct queue *q, const struct req *r)
{
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        return &q->produces_waiting;
    case REQ_LEASE:
        return &q->leases_waiting;
    case REQ_CHANGE:
        return &q->changes_waiting;
    }
    return NULL;
}

static struct queue *req_queue(struct req *r)
{
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        return req_produce(r)->queue;
    case REQ_LEASE:
        return req_lease(r)->queue;
    case REQ_CHANGE:
        return req_change(r)->queue;
    }
    return NULL;
}

/* ---- in and out ---- */

/* r is its caller's again: done may free it. q was kept by the request (req_add). */
static void req_done(struct req *r)
{
    struct queue *q = req_queue(r);
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        req_produce(r)->done(req_produce(r), r->why);
        break;
    case REQ_LEASE:
        req_lease(r)->done(req_lease(r), r->why);
        break;
    case REQ_CHANGE:
        req_change(r)->done(req_change(r), r->why);
        break;
    }
    queue_unref(&q);
}

/* On its home: it is answered, or a store's thread called for somebody to look at its outcome. */
static void req_run(struct task *t)
{
    struct req *r = CONTAINER_OF(t, struct req, task);
    unsigned called = REQ_CALLED;
    if (atomic_load(&r->turn) == REQ_CALLED) {
        /* Somebody has to take the outcome in: this thread does, unless somebody is inside. */
        queue_look(req_queue(r));
        /* Answered meanwhile, REQ_OVER would stand there: then done runs now. */
        if (atomic_compare_exchange_strong(&r->turn, &called, REQ_QUIET))
            return; /* it waits on */
    }
    req_done(r);
}

/* From here on the request is counted, and its time runs. Under the lock. */
void req_add(struct queue *q, struct req *r, mono deadline)
{
    r->task.run = req_run;
    INVARIANT(r->home != NULL);
    list_init(&r->link);
    r->seq = q->seq++;
    r->deadline = deadline;
    r->state = REQ_PARKED;
    heap_add(&q->deadlines, &r->until);
    ++*req_count(q, r);
    q->requests++;
    queue_ref(q);
}

/* By order of arrival, from the end: most requests that are parked came last. */
void req_park(struct list *by_seq, struct req *r)
{
    list_remove(&r->link);
    struct list *at = by_seq;
    while (at->prev != by_seq && CONTAINER_OF(at->prev, struct req, link)->seq > r->seq)
        at = at->prev;
    list_put_before(at, &r->link);
    r->state = REQ_PARKED;
}

/* The request leaves whatever it stands in. Its task is posted once the lock is free
 * (requests_tell). */
void req_answer(struct queue *q, struct req *r, err why)
{
    INVARIANT(r->state != REQ_ANSWERED);
    if (r->kind == REQ_LEASE && own_lease(req_lease(r))->named) {
        hash_remove(&q->clients, &own_lease(req_lease(r))->by_client);
        own_lease(req_lease(r))->named = false;
    }
    if (r->kind == REQ_PRODUCE)
        /* A write that still needs the bytes has a reference of its own. */
        shared_unref(&own_produce(req_produce(r))->encoded);
    slot_leave(r);
    list_remove(&r->link);
    heap_remove(&q->deadlines, &r->until);
    r->state = REQ_ANSWERED;
    r->why = why;
    uint64_t *count = req_count(q, r);
    INVARIANT(*count > 0);
    --*count;
    q->requests--;
    list_append(&q->replies, &r->link);
}

void requests_tell(struct list *replies)
{
    for (struct list *n; (n = list_take(replies)) != NULL;) {
        struct req *r = CONTAINER_OF(n, struct req, link);
        struct home *home = r->home;
        if (atomic_exchange(&r->turn, REQ_OVER) != REQ_CALLED) /* else its task comes by itself */
            home_post(home, &r->task);
    }
}

/* ---- time ---- */

/* For the heap of deadlines. */
bool req_is_sooner(const struct heap_node *a, const struct heap_node *b)
{
    const struct req *x = CONTAINER_OF(unconst(a), struct req, until),
                     *y = CONTAINER_OF(unconst(b), struct req, until);
    return x->deadline.ns < y->deadline.ns;
}

/* A job works for the request, and writes into its memory: the request cannot be answered before
 * that is over. */
static bool req_is_looked_at(struct req *r)
{
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        return false;
    case REQ_LEASE:
        return own_lease(req_lease(r))->copying;
    case REQ_CHANGE:
        return own_change(req_change(r))->looking;
    }
    return false;
}

/* What a request that was not written waited for. The note of a produce or a change that timed
 * out without being written. */
static void req_note_wait(struct req *r)
{
    char id[KSUID_TEXT_BYTES + 1];
    if (r->kind == REQ_PRODUCE) {
        err_note_set(req_note(r), "request timeout; no partition is available, try again");
        return;
    }
    ksuid_format(own_change(req_change(r))->moving, id);
    if (ksuid_cmp(own_change(req_change(r))->moving, KSUID_NIL) != 0)
        err_note_set(req_note(r), "request timeout; '%s' is on its way to another queue, try again",
                     id);
    else
        err_note_set(req_note(r),
                     "request timeout; nothing was changed in partition '%u', try again",
                     req_change(r)->partition);
}

/* Is nothing known of the queue's items, because all their stores are away or another's? */
static bool is_away(const struct queue *q)
{
    for (uint32_t i = 0; i < q->parts_count; i++) {
        const struct part *p = q->parts[i];
        if (p->loaded && stores_status(q->all, p->store) != PLACE_ERROR)
            return false;
    }
    return true;
}

/* Out of a write that was not sent; in a write that was, the outcome stays unknown to the
 * client. */
static void req_time_out(struct queue *q, struct req *r)
{
    req_recall(r);
    bool unknown = r->state == REQ_WRITING || r->state == REQ_UNKNOWN;
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        produce_leave(q, req_produce(r));
        break;
    case REQ_LEASE:
        lease_detach(q, req_lease(r));
        err_note_set(req_note(r), "request timeout; %s, try again",
                     is_away(q) ? "no partition is available" : "no items are in the queue");
        /* A lease in a write has no unknown outcome for the client: its items go back. */
        req_answer(q, r, ERR_TIMEOUT);
        return;
    case REQ_CHANGE:
        change_leave(req_change(r));
        break;
    }
    if (unknown)
        err_note_set(req_note(r), "request timeout; the outcome is unknown, try again");
    else
        req_note_wait(r);
    req_answer(q, r, ERR_TIMEOUT);
}

void requests_time_out(struct queue *q, mono now)
{
    for (struct heap_node *n; (n = heap_first(&q->deadlines)) != NULL;) {
        struct req *r = CONTAINER_OF(n, struct req, until);
        if (r->deadline.ns > now.ns)
            return;
        /* A job that never ends would keep the request: its store has a deadline of its own. */
        if (req_is_looked_at(r)) {
            heap_remove(&q->deadlines, n);
            r->deadline = mono_add_ms(now, LOOKED_AT_MS);
            heap_add(&q->deadlines, n);
        } else {
            req_time_out(q, r);
        }
    }
}
