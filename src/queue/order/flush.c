#include "queue/order/flush.h"

#include <stdlib.h>
#include <string.h>

enum {
    HOLD_MS = 50,
    HOLD_MS_MAX = 1000,
    RESTING_MAX = 64 /* slots kept by a queue for its next writes */
};

/* ---- slots ---- */

static void slot_arrived(struct arrival *a);

struct slot *slot_new(struct part *p, bool is_early)
{
    struct list *resting = list_take(&p->queue->resting);
    struct slot *s =
        resting == NULL ? calloc(1, sizeof *s) : CONTAINER_OF(resting, struct slot, link);
    INVARIANT(s != NULL);
    p->queue->resting_count -= resting != NULL;
    s->part = p;
    s->is_early = is_early;
    s->arrival.arrived = slot_arrived;
    list_init(&s->requests);
    list_init(&s->idems);
    list_init(&s->orphans);
    return s;
}

void slot_free(struct slot **sp)
{
    struct slot *s = *sp;
    if (s == NULL)
        return;
    INVARIANT(!s->busy);
    free(s->ops);
    free(s->steps);
    free(s->batches);
    free(s->dirty);
    free(s);
    *sp = NULL;
}

/* A partition that writes nothing needs no memory for writes: there may be many of them. */
static void slot_rest(struct slot *s)
{
    struct queue *q = s->part->queue;
    struct slot **its = s->is_early ? &s->part->early : &s->part->main;
    INVARIANT(*its == s);
    if (!list_empty(&s->requests) || !list_empty(&s->idems) || !list_empty(&s->orphans))
        return;
    *its = NULL;
    if (q->resting_count == RESTING_MAX) {
        slot_free(&s);
        return;
    }
    list_init(&s->link);
    list_append(&q->resting, &s->link);
    q->resting_count++;
}

bool slot_takes(const struct slot *s, unsigned ops)
{
    unsigned used = s->ops_count + s->dirty_count;
    return used == 0 || used + ops <= QUEUE_WRITE_OPS_MAX;
}

/* An array of room for count; without memory as it was, and the slot is starved. */
static void *room(struct slot *s, void *array, unsigned count, unsigned *size, size_t each)
{
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
    s->ops = room(s, s->ops, s->ops_count + s->dirty_count + ops, &s->ops_size, sizeof *s->ops);
    s->steps = room(s, s->steps, s->steps_count + ops, &s->steps_size, sizeof *s->steps);
    s->batches =
        room(s, s->batches, s->batches_count + ops, &s->batches_size, sizeof(struct batch *));
    s->dirty = room(s, s->dirty, s->dirty_count + ops, &s->dirty_size, sizeof(struct batch *));
    return !s->is_starved;
}

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

void slot_dirty(struct slot *s, struct batch *b)
{
    if (b->dirty)
        return;
    INVARIANT(s->dirty_count < s->dirty_size);
    b->dirty = true;
    s->dirty[s->dirty_count++] = b;
    batch_ref(b);
}

static void slot_clear(struct slot *s)
{
    struct queue_write_part *w = &s->write.parts[0];
    s->ops_count = s->steps_count = s->batches_count = s->dirty_count = 0;
    s->placing = s->requests_placed = 0;
    s->mended = 0;
    s->mends = s->is_starved = false;
    s->bytes = 0;
    s->move = NULL;
    s->generation = s->part->generation;
    s->write.parts_count = 1;
    *w = (struct queue_write_part){ .part = { .queue = s->part->queue->number,
                                              .partition = s->part->number },
                                    .epoch = s->part->epoch };
}

/* Any thread. */
static void slot_written(struct queue_write *w, err why)
{
    struct slot *s = w->ctx;
    s->outcome = why;
    queue_arrive(s->part->queue, &s->arrival);
}

/* Must a lease wait for the sync? */
static bool lease_is_synced(const struct part *p)
{
    switch (p->queue->all->opts.lease_durability) {
    case QUEUE_LEASE_AUTO:
        return part_store(p)->dies_alone;
    case QUEUE_LEASE_WRITTEN:
        return false;
    case QUEUE_LEASE_SYNC:
        return true;
    }
    return true;
}

static void slot_start(struct slot *s)
{
    struct part *p = s->part;
    struct queue *q = p->queue;
    struct queue_write *w = &s->write;
    mono now = clock_mono(q->all->opts.clock);
    s->busy = true;
    s->started = now;
    s->overdue_at = mono_add_ms(now, q->all->opts.write_timeout_ms);
    heap_add(&q->overdue, &s->overdue);
    q->busy++;
    queue_ref(q);
    w->parts[0].ops = s->ops;
    w->parts[0].ops_count = s->ops_count;
    w->parts[0].last_id = p->last_id;
    w->parts[0].settled = p->done_id;
    w->unsynced = q->info.durability != QUEUE_SYNC;
    w->early = s->is_early && !lease_is_synced(p) && !w->unsynced;
    w->deadline = s->overdue_at;
    w->done = slot_written;
    w->ctx = s;
    struct queue_store *store = part_store(p);
    store->ops->write(store, w);
}

/* ---- what goes into a write ---- */

static void put_states(struct slot *s)
{
    for (unsigned i = 0; i < s->dirty_count; i++) {
        struct batch *b = s->dirty[i];
        struct queue_op *op = slot_op(s, OP_BATCH_STATES);
        op->u.batch = (struct queue_batch){ .first = b->first,
                                            .count = b->count,
                                            .states = b->states,
                                            .created_at = b->created_at,
                                            .expire_at = b->expire_at,
                                            .order_key = b->order_key };
    }
}

static bool main_wanted(const struct part *p)
{
    return !list_empty(&p->produces) || !list_empty(&p->changes) || !list_empty(&p->due) ||
           !list_empty(&p->orphans) || !list_empty(&p->moves) || !list_empty(&p->dying) ||
           p->damage != NULL || p->expire_due || !list_empty(&p->old_idems);
}

/* Who found no room in the last write comes first in this one: others may fill each. */
static void build_main(struct part *p, struct slot *s, store_time now)
{
    enum part_first first = p->first;
    p->first = FIRST_PRODUCE;
    damage_build(p, s); /* on a full disk too: it only removes */
    if (first == FIRST_CHANGE)
        change_build(p, s, now);
    if (first == FIRST_MOVE && !p->frees_only)
        move_build(p, s);
    if (!p->frees_only)
        produce_build(p, s, now);
    if (first != FIRST_CHANGE)
        change_build(p, s, now);
    orphan_build(p, s); /* on a full disk too: nothing of the partition is given before */
    if (p->frees_only)
        return;
    if (!p->queue->draining && !p->queue->deleted)
        due_build(p, s, now);
    move_build(p, s);
    idem_delete(p, s);
}

static bool flush_main(struct part *p, mono now)
{
    if (!main_wanted(p) || p->held_until.ns > now.ns)
        return false;
    if (p->main == NULL)
        p->main = slot_new(p, false);
    struct slot *s = p->main;
    if (s->busy)
        return false;
    bool frees_only = p->frees_only;
    slot_clear(s);
    build_main(p, s, clock_store(p->queue->all->opts.clock));
    put_states(s);
    s->write.frees = frees_only;
    p->frees_only = false;
    if (s->is_starved)
        part_hold(p); /* what found no memory is built later */
    if (s->ops_count == 0 && !s->mends) {
        INVARIANT(s->batches_count == 0);
        slot_rest(s);
        return frees_only &&
               flush_main(p, now); /* nothing to remove: all else now, nobody comes back for it */
    }
    slot_start(s);
    return true;
}

static bool flush_early(struct part *p, mono now)
{
    if (list_empty(&p->grants) || p->held_until.ns > now.ns)
        return false;
    if (p->early == NULL)
        p->early = slot_new(p, true);
    if (p->early->busy)
        return false;
    slot_clear(p->early);
    bool is_built = lease_build(p, p->early);
    if (p->early->is_starved)
        part_hold(p);
    if (!is_built) {
        slot_rest(p->early);
        return false;
    }
    p->early->write.frees = true; /* a lease is the way to a removal: a full disk can be emptied */
    slot_start(p->early);
    return true;
}

bool part_flush(struct part *p)
{
    part_read(p);
    if (!part_usable(p))
        return false;
    mono now = clock_mono(p->queue->all->opts.clock);
    bool started = flush_early(p, now);
    started |= flush_main(p, now);
    return started;
}

/* ---- what came of it ---- */

/* After a failure nothing is written for a while; removals first, should the disk be full. */
void part_hold(struct part *p)
{
    struct queue *q = p->queue;
    mono now = clock_mono(q->all->opts.clock);
    if (p->held_until.ns > now.ns)
        return;
    p->held_ms = p->held_ms == 0 ? HOLD_MS : p->held_ms * 2;
    if (p->held_ms > HOLD_MS_MAX)
        p->held_ms = HOLD_MS_MAX;
    p->held_until = mono_add_ms(now, p->held_ms);
    p->held = true;
    part_heads(p);
    if (p->held_until.ns < q->held_at.ns)
        q->held_at = p->held_until;
}

static void release_batches(struct slot *s)
{
    for (unsigned i = 0; i < s->batches_count; i++) {
        batch_written(s->batches[i]);
        batch_unref(s->part, s->batches[i]);
    }
    for (unsigned i = 0; i < s->dirty_count; i++) {
        s->dirty[i]->dirty = false;
        batch_unref(s->part, s->dirty[i]);
    }
    s->batches_count = s->dirty_count = 0;
}

static void answer_requests(struct slot *s, err why)
{
    struct part *p = s->part;
    struct list requests;
    list_init(&requests);
    list_join(&requests, &s->requests);
    for (struct list *n; (n = list_take(&requests)) != NULL;) {
        struct req *r = CONTAINER_OF(n, struct req, link);
        switch ((enum req_kind)r->kind) {
        case REQ_PRODUCE:
            if (why == ERR_OK)
                produce_done(req_produce(r));
            else if (why == ERR_IO)
                produce_unknown(p, req_produce(r));
            else
                produce_again(req_produce(r));
            break;
        case REQ_LEASE:
            lease_written(req_lease(r), why == ERR_OK, why == ERR_IO);
            break;
        case REQ_CHANGE:
            if (why == ERR_OK || why == ERR_IO || why == ERR_CORRUPT)
                change_outcome(req_change(r), why);
            else
                change_again(req_change(r));
            break;
        }
    }
}

static void settle_ok(struct slot *s)
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
    if (ksuid_cmp(w->last_id, p->done_id) > 0 && !s->is_early)
        p->done_id = w->last_id;
    for (unsigned i = 0; i < s->batches_count; i++)
        part_arrive(p, s->batches[i]);
    for (unsigned i = 0; i < s->steps_count; i++)
        step_done(p, &s->steps[i]);
    if (s->mended > 0 || s->mends)
        damage_mended(p, s);
}

static void settle_failed(struct slot *s, err why)
{
    struct part *p = s->part;
    p->failures++;
    for (unsigned i = s->steps_count; i > 0; i--)
        step_undo(p, &s->steps[i - 1]);
    if (why == ERR_FULL && !s->is_early)
        p->frees_only = true;
    part_hold(p);
}

static void slot_arrived(struct arrival *a)
{
    struct slot *s = CONTAINER_OF(a, struct slot, arrival);
    struct part *p = s->part;
    struct queue *q = p->queue;
    err why = s->outcome;
    int64_t took = clock_mono(q->all->opts.clock).ns - s->started.ns;
    heap_remove(&q->overdue, &s->overdue);
    s->busy = false;
    INVARIANT(q->busy > 0);
    q->busy--;
    stores_written(q->all, p->store, why, took, !s->write.early && !s->write.unsynced);
    if (s->requests_placed > 0)
        stores_in_flight(q->all, p->store, -(int)s->requests_placed);
    INVARIANT(p->placing >= s->placing);
    p->placing -= s->placing;
    bool lost = s->generation != p->generation;
    if (why == ERR_OK && !lost)
        settle_ok(s);
    else if (why != ERR_IO && why != ERR_CORRUPT && !lost)
        settle_failed(s, why);
    if (s->move != NULL)
        move_outcome(s->move, why);
    lease_orphans(s, why == ERR_OK, why == ERR_IO);
    idem_outcome(s, why);
    answer_requests(s, why);
    release_batches(s);
    if (why == ERR_IO || why == ERR_CORRUPT)
        lease_lose_steps(s);
    if (why == ERR_IO || why == ERR_CORRUPT || (why == ERR_CONFLICT && !lost))
        part_failed(p);
    part_loads(p);
    part_heads(p);
    queue_work(p);
    slot_rest(s);
    struct queue *mine = q;
    queue_unref(&mine);
}
