/* slot.c - one write and the next behind it: memory, sending, settling, taking back (slot.h). */
#include "queue/order/flush.h"

#include <stdlib.h>
#include <string.h>

/* Limits of memory, over all slots of a queue and all bodies of a server. */
enum {
    RESTING_MAX = 64,            /* slots kept by a queue for its next writes */
    CACHE_BYTES_MAX = 128 << 20, /* bodies of all queues kept until they are consumed */
};

static void slot_arrived(struct arrival *a);

/* ---- memory ---- */

/* A slot from those at rest, or a new one; its arrays keep their room. Dies when out of memory. */
static struct slot *slot_new(struct part *p, bool is_early)
{
    struct list *resting = list_take(&p->queue->resting);
    struct slot *s =
        resting == NULL ? calloc(1, sizeof *s) : CONTAINER_OF(resting, struct slot, link);
    INVARIANT(s != NULL);
    /* A resting slot was counted. */
    p->queue->resting_count -= resting != NULL;
    s->part = p;
    s->is_early = is_early;
    s->arrival.arrived = slot_arrived;
    s->ops_count = s->steps_count = s->batches_count = s->dirty_count = 0;
    s->placing = s->requests_placed = 0;
    s->mended = 0;
    s->mends = s->is_starved = false;
    s->bytes = 0;
    s->move = NULL;
    s->follower = NULL;
    s->generation = p->generation;
    atomic_store(&s->behind, BEHIND_NONE);
    list_init(&s->requests);
    list_init(&s->idems);
    list_init(&s->orphans);
    s->write.parts_count = 1;
    s->write.frees = false;
    s->write.parts[0] =
        (struct queue_write_part){ .part = { .queue = p->queue->number, .partition = p->number },
                                   .epoch = p->epoch };
    return s;
}

void slot_free(struct slot **sp)
{
    struct slot *s = *sp;
    free(s->ops);
    free(s->steps);
    free(s->batches);
    free(s->dirty);
    free(s);
    *sp = NULL;
}

/* A partition that writes nothing needs no memory for writes: there may be many of them. The
 * slot is no partition's any more. Its requests and keys must have been answered or taken back
 * before. */
static void slot_rest(struct slot *s)
{
    struct queue *q = s->part->queue;
    INVARIANT(list_empty(&s->requests));
    INVARIANT(list_empty(&s->idems));
    INVARIANT(list_empty(&s->orphans));
    if (q->resting_count == RESTING_MAX) {
        slot_free(&s);
        return;
    }
    list_init(&s->link);
    list_append(&q->resting, &s->link);
    q->resting_count++;
}

/* An empty write takes a first request of any size. */
bool slot_takes(const struct slot *s, unsigned ops)
{
    return s->ops_count == 0 || s->ops_count + ops <= QUEUE_WRITE_OPS_MAX;
}

/* An array of room for count; without memory as it was, and the slot is starved. */
static void *slot_grown(struct slot *s, void *array, unsigned count, unsigned *size, size_t each)
{
    /* The array is at most doubled until it fits; no array has fewer than four places. */
    unsigned more = *size == 0 ? 4 : *size;
    while (more < count)
        more *= 2;
    if (more == *size)
        return array;
    void *grown = reallocarray(array, more, each);
    s->is_starved |= grown == NULL;
    *size = grown == NULL ? *size : more;
    return grown == NULL ? array : grown;
}

bool slot_room(struct slot *s, unsigned ops)
{
    if (!slot_takes(s, ops))
        return false;
    s->ops = slot_grown(s, s->ops, s->ops_count + ops, &s->ops_size, sizeof *s->ops);
    s->steps = slot_grown(s, s->steps, s->steps_count + ops, &s->steps_size, sizeof *s->steps);
    s->batches =
        slot_grown(s, s->batches, s->batches_count + ops, &s->batches_size, sizeof(struct batch *));
    s->dirty = slot_grown(s, s->dirty, s->dirty_count + ops, &s->dirty_size, sizeof *s->dirty);
    return !s->is_starved;
}

/* ---- what stands in it ---- */

struct queue_op *slot_op(struct slot *s, enum queue_op_kind kind)
{
    INVARIANT(s->ops_count < s->ops_size);
    struct queue_op *op = &s->ops[s->ops_count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    return op;
}

void slot_step(struct slot *s, const struct step *step)
{
    INVARIANT(s->steps_count < s->steps_size);
    s->steps[s->steps_count++] = *step;
}

void slot_batch(struct slot *s, struct batch *b)
{
    INVARIANT(s->batches_count < s->batches_size);
    s->batches[s->batches_count++] = b;
    batch_ref(b);
}

static struct dirty *slot_dirty(struct slot *s, struct batch *b)
{
    if ((b->dirty & s->bit) != 0)
        /* The same write has changed this batch already: its op and its copy of the states are
         * used again. */
        return &s->dirty[b->dirty_at[s->bit - 1]];
    INVARIANT(s->dirty_count < s->dirty_size);
    struct dirty *d = &s->dirty[s->dirty_count];
    /* The store may read this copy while the next write changes b->states. */
    *d = (struct dirty){ .batch = b, .op = s->ops_count, .states = malloc(b->count) };
    INVARIANT(d->states != NULL);
    memcpy(d->states, b->states, b->count);
    slot_op(s, OP_BATCH_STATES)->u.batch = (struct queue_batch){ .first = b->first,
                                                                 .count = b->count,
                                                                 .states = d->states,
                                                                 .created_at = b->created_at,
                                                                 .expire_at = b->expire_at,
                                                                 .order_key = b->order_key };
    /* dirty_at: where in s->dirty the batch stands, for each of the two bits. */
    b->dirty = (unsigned char)(b->dirty | s->bit);
    b->dirty_at[s->bit - 1] = s->dirty_count++;
    batch_ref(b);
    return d;
}

void slot_state(struct slot *s, const struct qitem *it, enum queue_item_state to)
{
    struct dirty *d = slot_dirty(s, it->batch);
    /* Memory and this write's copy change together; the copy of a write before this one stays. */
    it->batch->states[it->index] = d->states[it->index] = (unsigned char)to;
}

/* The tasks of the first and the last are posted: they are on different threads, as a rule. */
static void slot_call(struct slot *s, struct req *r)
{
    unsigned i = atomic_load(&s->callers[0]) == NULL ? 0 : 1;
    /* The first request stays; each later one takes the second place from the one before it. */
    struct req *before = atomic_load(&s->callers[i]);
    if (atomic_load(&r->turn) != REQ_QUIET)
        return; /* it was posted, and has not run yet */
    /* The request that loses its place is told by whoever answers it. */
    if (before != NULL)
        atomic_store(&before->turn, REQ_QUIET);
    atomic_store(&r->turn, REQ_CALLED);
    atomic_store(&s->callers[i], r);
}

void slot_request(struct slot *s, struct req *r)
{
    r->state = REQ_WRITING;
    r->slot = s;
    list_append(&s->requests, &r->link);
    slot_call(s, r);
}

void slot_leave(struct req *r)
{
    struct slot *s = r->slot;
    if (s == NULL)
        return;
    r->slot = NULL;
    for (unsigned i = 0; i < SLOT_CALLERS; i++) {
        /* slot_written may take the caller out at the same time: whoever exchanges first posts
         * the task. */
        struct req *its = r;
        if (atomic_compare_exchange_strong(&s->callers[i], &its, NULL))
            atomic_store(&r->turn, REQ_QUIET); /* it is not posted any more */
    }
}

/* The write is over, or was taken back: batches and copies of states are released. */
static void slot_release(struct slot *s)
{
    for (unsigned i = 0; i < s->batches_count; i++) {
        /* Bodies stay in memory for the leases to come, while there is room. */
        batch_keep(s->batches[i], &s->part->queue->all->bytes_cached, CACHE_BYTES_MAX);
        batch_written(s->batches[i]);
        batch_unref(s->part, s->batches[i]);
    }
    for (unsigned i = 0; i < s->dirty_count; i++) {
        struct dirty *d = &s->dirty[i];
        d->batch->dirty = (unsigned char)(d->batch->dirty & ~s->bit);
        free(d->states);
        batch_unref(s->part, d->batch);
    }
    s->batches_count = s->dirty_count = 0;
}

/* ---- sending ---- */

/* Must a lease wait for the sync? */
static bool lease_is_synced(const struct part *p)
{
    switch (p->queue->all->opts.lease_durability) {
    /* A store whose server dies alone forgets what was only written: a lease would be given
     * twice. */
    case QUEUE_LEASE_AUTO:
        return part_store(p)->dies_alone;
    case QUEUE_LEASE_WRITTEN:
        return false;
    case QUEUE_LEASE_SYNC:
        return true;
    }
    return true;
}

/* Time counts from when the write is sent, not from when it was made behind another one. */
static void slot_begin(struct slot *s)
{
    struct queues *all = s->part->queue->all;
    s->started = clock_mono(all->opts.clock);
    s->overdue_at = mono_add_ms(s->started, all->opts.write_timeout_ms);
    s->write.deadline = s->overdue_at;
}

/* Under the lock, or on the thread that brings the outcome of the write before it. It began. */
static void slot_send(struct slot *s)
{
    struct queue_store *store = part_store(s->part);
    store->ops->write(store, &s->write);
}

/* It is looked after from now on. */
static void slot_count(struct slot *s)
{
    struct queue *q = s->part->queue;
    heap_add(&q->overdue, &s->overdue);
    q->busy++;
    queue_ref(q);
    /* The heap and busy keep the queue alive until the outcome has arrived. */
}

/* s is written: what is behind it may go. The write to send for it, or NULL. */
static struct slot *slot_follow(struct slot *s)
{
    unsigned behind = atomic_load(&s->behind);
    /* HELD: somebody adds to the follower now, and sends it in track_close, once it sees DUE. The
     * loop repeats only when the machine changes behind at the same moment. */
    for (;;) {
        unsigned to = behind == BEHIND_OFFERED ? BEHIND_SENT
                      : behind == BEHIND_HELD  ? BEHIND_DUE
                                               : BEHIND_CLOSED;
        if (atomic_compare_exchange_weak(&s->behind, &behind, to))
            break;
    }
    if (behind != BEHIND_OFFERED)
        return NULL;
    slot_begin(s->follower);
    return s->follower;
}

/* Any thread: the store's. What follows is sent only when the outcome stands in line: its own,
 * which another thread may bring at once, must stand behind it. */
static void slot_written(struct queue_write *w, err why)
{
    /* s may be settled, and used for another write, as soon as the arrival lock is released:
     * callers are copied before. */
    struct slot *s = w->ctx, *follower = NULL;
    struct queue *q = s->part->queue;
    struct req *callers[SLOT_CALLERS];
    s->outcome = why;
    for (unsigned i = 0; i < SLOT_CALLERS; i++)
        callers[i] = atomic_exchange(&s->callers[i], NULL);
    queue_arrive_lock(q);
    /* After a failure the machine takes the follower back: it rests on this write. */
    if (why == ERR_OK)
        follower = slot_follow(s);
    queue_arrive_unlock(q, &s->arrival); /* s is the machine's again */
    if (follower != NULL)
        slot_send(follower);
    queue_arrive_tell(q, callers, SLOT_CALLERS);
}

/* ---- tracks ---- */

bool part_idle(const struct part *p)
{
    return p->main.sent == NULL && p->early.sent == NULL;
}

/* False: what is behind it was sent, or cannot be any more. */
static bool slot_hold(struct slot *s)
{
    /* From NONE, when nothing is behind the write yet, or from OFFERED, when the follower is
     * opened again. */
    unsigned behind = s->follower == NULL ? BEHIND_NONE : BEHIND_OFFERED;
    return atomic_compare_exchange_strong(&s->behind, &behind, BEHIND_HELD);
}

struct slot *track_open(struct part *p, struct track *t)
{
    struct slot *s = t->next;
    if (t->sent != NULL && !slot_hold(t->sent))
        return NULL;
    if (s == NULL) {
        s = slot_new(p, t == &p->early);
        /* Two main writes that overlap have different bits in batch.dirty. */
        s->bit = t->sent != NULL && t->sent->bit == 1 ? 2 : 1;
    }
    return s;
}

/* The slot behind the write on its way is dropped; that write may be over by now (DUE), which
 * closes it. Nothing is behind it. */
static void track_drop(struct track *t)
{
    unsigned behind = BEHIND_HELD;
    t->next = NULL;
    if (t->sent == NULL)
        return;
    t->sent->follower = NULL;
    if (!atomic_compare_exchange_strong(&t->sent->behind, &behind, BEHIND_NONE))
        atomic_store(&t->sent->behind, BEHIND_CLOSED);
}

bool track_close(struct part *p, struct track *t, struct slot *s)
{
    struct queue_write *w = &s->write;
    /* mends: a write without ops corrects the counts of the record. */
    if (s->ops_count == 0 && !s->mends) {
        INVARIANT(s->batches_count == 0);
        track_drop(t);
        slot_rest(s);
        return false;
    }
    produce_pack_close(s);
    w->parts[0].ops = s->ops;
    /* Requests that were added later are in the same arrays: ops may have been moved by
     * slot_grown. */
    w->parts[0].ops_count = s->ops_count;
    w->parts[0].last_id = p->last_id;
    /* The record keeps the greater of both ids: a write that overtakes another sets nothing
     * back. */
    w->parts[0].settled = p->done_id;
    w->unsynced = p->queue->info.durability != QUEUE_SYNC;
    /* An early write is done once written; a lease that must be synced waits for the sync. */
    w->early = s->is_early && !lease_is_synced(p) && !w->unsynced;
    w->done = slot_written;
    w->ctx = s;
    /* Nothing is on its way on this track. */
    if (t->sent == NULL) {
        t->sent = s;
        slot_begin(s);
        slot_count(s);
        slot_send(s);
        return true;
    }
    /* A write is on its way: s is offered to the thread that brings its outcome. */
    unsigned behind = BEHIND_HELD;
    t->next = t->sent->follower = s;
    if (atomic_compare_exchange_strong(&t->sent->behind, &behind, BEHIND_OFFERED))
        return false;
    /* The write before is over, and left the sending to this thread. */
    INVARIANT(behind == BEHIND_DUE);
    atomic_store(&t->sent->behind, BEHIND_SENT);
    slot_begin(s);
    slot_send(s);
    return true;
}

/* A request of a write that was taken back goes to the front of its list. The caller takes
 * requests from the last to the first, so their order is kept. */
static void slot_wait_again(struct slot *s, struct req *r)
{
    struct part *p = s->part;
    list_remove(&r->link);
    slot_leave(r);
    r->state = REQ_PENDING;
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        list_put_before(p->produces.next, &r->link);
        return;
    case REQ_LEASE:
        list_put_before(p->grants.next, &r->link);
        /* The change counts an outcome less that it waits for. */
        return;
    case REQ_CHANGE:
        change_unwritten(req_change(r));
        list_put_before(p->changes.next, &r->link);
        return;
    }
}

void track_withdraw(struct part *p, struct track *t)
{
    struct slot *s = t->next;
    /* slot_hold fails when the follower was sent: then its own outcome decides. */
    if (s == NULL || !slot_hold(t->sent))
        return;
    /* Steps are undone in reverse: a batch's states end as they were before the first. */
    for (unsigned i = s->steps_count; i > 0; i--)
        step_undo(p, &s->steps[i - 1]);
    while (!list_empty(&s->requests))
        slot_wait_again(s, CONTAINER_OF(s->requests.prev, struct req, link));
    /* Items whose request left go back to their place; keys whose writer left are passed on. */
    lease_orphans(s, false, false);
    idem_outcome(s, ERR_UNAVAILABLE);
    produce_pack_end(s);
    slot_release(s);
    track_drop(t);
    slot_rest(s);
    part_loads(p);
    part_heads(p);
    queue_work(p);
}

/* A request that is to be answered early must stand in no write. In a write that was sent it
 * stays, and its outcome answers it. */
void req_recall(struct req *r)
{
    struct part *p = r->part;
    if (r->state != REQ_WRITING || r->slot == NULL)
        return;
    struct track *t = r->slot->is_early ? &p->early : &p->main;
    if (r->slot == t->next)
        track_withdraw(p, t);
}

/* ---- what came of it ---- */

/* Each request of the write hears of its outcome. The list is emptied first: answers may put
 * requests back into lists of this slot's part. */
static void slot_answer(struct slot *s, err why)
{
    struct part *p = s->part;
    struct list requests;
    list_init(&requests);
    list_join(&requests, &s->requests);
    for (struct list *n; (n = list_take(&requests)) != NULL;) {
        struct req *r = CONTAINER_OF(n, struct req, link);
        r->slot = NULL;
        switch ((enum req_kind)r->kind) {
        case REQ_PRODUCE:
            if (why == ERR_OK)
                produce_done(req_produce(r));
            /* Unknown: the partition is read again, and then the store says whether the batch is
             * there. */
            else if (why == ERR_IO)
                produce_unknown(p, req_produce(r));
            else
                produce_again(req_produce(r));
            break;
        case REQ_LEASE:
            lease_written(req_lease(r), why == ERR_OK, why == ERR_IO);
            break;
        case REQ_CHANGE:
            /* An outcome that no retry would mend ends the change; after others nothing was
             * written, and the change waits again. */
            if (why == ERR_OK || why == ERR_IO || why == ERR_CORRUPT)
                change_outcome(req_change(r), why);
            else
                change_again(req_change(r));
            break;
        }
    }
}

/* What the write decided takes effect in memory (step.c). */
static void slot_settle_ok(struct slot *s)
{
    struct part *p = s->part;
    const struct queue_write_part *w = &s->write.parts[0];
    p->ready += w->ready;
    p->scheduled += w->scheduled;
    p->leased += w->leased;
    INVARIANT(p->ready >= 0);
    INVARIANT(p->scheduled >= 0);
    INVARIANT(p->leased >= 0);
    p->held_ms = 0;
    /* An early write has no batches: last_id may be that of a batch whose write is not answered
     * yet. */
    if (ksuid_cmp(w->last_id, p->done_id) > 0 && !s->is_early)
        p->done_id = w->last_id;
    for (unsigned i = 0; i < s->batches_count; i++)
        part_arrive(p, s->batches[i]);
    for (unsigned i = 0; i < s->steps_count; i++)
        step_done(p, &s->steps[i]);
    if (s->mended > 0 || s->mends)
        damage_mended(p, s);
}

/* Nothing of it is in the store: memory is as before the write, and the partition pauses. */
static void slot_settle_failed(struct slot *s, err why)
{
    struct part *p = s->part;
    p->failures++;
    for (unsigned i = s->steps_count; i > 0; i--)
        step_undo(p, &s->steps[i - 1]);
    /* The next write removes, and frees room for those behind it. */
    if (why == ERR_FULL && !s->is_early)
        p->frees_only = true;
    part_hold(p);
}

/* The write behind it is the one on its way now, or was taken back. */
static void slot_overtake(struct slot *s)
{
    struct part *p = s->part;
    struct track *t = s->is_early ? &p->early : &p->main;
    INVARIANT(t->sent == s);
    /* Does nothing when the follower was sent. After a failure it was not: it rests on s. */
    if (t->next != NULL)
        track_withdraw(p, t);
    t->sent = t->next;
    t->next = NULL;
    /* It was sent by the store's thread; the machine counts it from here on. */
    if (t->sent != NULL)
        slot_count(t->sent);
}

/* Under the lock of the queue: settles a write. The order below matters: the track first, so
 * that undone items can be built into a new write. */
static void slot_arrived(struct arrival *a)
{
    struct slot *s = CONTAINER_OF(a, struct slot, arrival);
    struct part *p = s->part;
    struct queue *q = p->queue;
    err why = s->outcome;
    int64_t took = clock_mono(q->all->opts.clock).ns - s->started.ns;
    slot_overtake(s);
    heap_remove(&q->overdue, &s->overdue);
    INVARIANT(q->busy > 0);
    q->busy--;
    p->settled++;
    stores_written(q->all, p->store, why, took, !s->write.early && !s->write.unsynced);
    if (s->requests_placed > 0)
        stores_in_flight(q->all, p->store, -(int)s->requests_placed);
    INVARIANT(p->placing >= s->placing);
    p->placing -= s->placing;
    /* The memory that the write was built from was thrown away meanwhile: its steps name items
     * that are gone. */
    bool lost = s->generation != p->generation;
    /* The bytes of the shared batch become the batch's own before batch_keep looks at them. */
    produce_pack_end(s);
    if (why == ERR_OK && !lost)
        slot_settle_ok(s);
    else if (why != ERR_IO && why != ERR_CORRUPT && !lost)
        slot_settle_failed(s, why);
    if (s->move != NULL)
        move_outcome(s->move, why);
    lease_orphans(s, why == ERR_OK, why == ERR_IO);
    idem_outcome(s, why);
    slot_answer(s, why);
    slot_release(s);
    /* Unknown or damaged: leases of this write may stand in the store without anybody who has
     * them. */
    if (why == ERR_IO || why == ERR_CORRUPT)
        lease_lose_steps(s);
    /* ERR_CONFLICT: another process owns the partition now. */
    if (why == ERR_IO || why == ERR_CORRUPT || (why == ERR_CONFLICT && !lost))
        part_failed(p);
    part_loads(p);
    part_heads(p);
    queue_work(p);
    slot_rest(s);
    /* The reference of slot_count; the last one frees q. */
    struct queue *mine = q;
    queue_unref(&mine);
}
