/* step.c - the steps that a write makes with items: done, returned, scheduled, extended; each
 * can be undone when the write fails. Invariant: after step_undo memory is as it was before the
 * step, states of the batch included. */
#include "queue/order/flush.h"

#include <string.h>

/* Marks in the attempts of a lease's row. DOOMED: the item goes to another queue. ORDERED: by an
 * order, and the token is the number of the queue it goes to. */
#define ATTEMPTS_DOOMED (UINT32_C(1) << 31)
#define ATTEMPTS_ORDERED (UINT32_C(1) << 30)
#define ATTEMPTS_MARKS (ATTEMPTS_DOOMED | ATTEMPTS_ORDERED)
_Static_assert(QUEUE_ITEM_ATTEMPTS_MAX <= ATTEMPTS_ORDERED / 2, "leases add to it");

/* The count of the record that an item in this state is part of. */
static int64_t *count_of(struct queue_write_part *w, enum qitem_state state)
{
    switch (state) {
    case QITEM_READY:
    case QITEM_TAIL:
    case QITEM_BEHIND:
    case QITEM_GRANTING:
    case QITEM_DAMAGED:
        return &w->ready;
    case QITEM_LEASED:
        return &w->leased;
    case QITEM_SCHEDULED:
        return &w->scheduled;
    case QITEM_FREE:
    case QITEM_ENDING:
    case QITEM_MOVING:
    case QITEM_STATES:
        break;
    }
    /* Items in a write or a move were counted in the state they had before. */
    check_failed(__FILE__, __LINE__, "an item that is counted");
}

struct queue_entry qitem_entry(const struct qitem *it, enum queue_entry_kind kind)
{
    return (struct queue_entry){ .kind = kind,
                                 .id = it->id,
                                 .place = { .batch = it->batch->first, .index = it->index },
                                 .enqueue_at = kind == ENTRY_SCHEDULED ? it->due_at : it->ready_at,
                                 .attempts = it->attempts,
                                 .created_at = it->created_at,
                                 .expire_at = it->expire_at,
                                 .order_key = it->batch->order_key };
}

/* Takes the item out of the list or heap where it waits, and makes it ENDING. The caller adds
 * its new place to the counts. */
static void step_begin(struct slot *s, struct qitem *it)
{
    struct part *p = s->part;
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    /* The move was written apart; its item counts as what it was before the move. */
    if (it->state == QITEM_MOVING)
        it->state = it->from;
    part_unlist(p, it);
    --*count_of(&s->write.parts[0], it->state);
    qitem_move(it, QITEM_ENDING);
}

/* The row that makes an item first of its order key, when the item leaves its place in the order
 * of ids. After a restart nothing else would say that it comes before the others of its key. */
static void mark_order(struct slot *s, struct qitem *it)
{
    /* An item that left its place before is marked already. */
    if (it->key == NULL || it->key->active != it || !it->in_place)
        return;
    struct queue_op *op = slot_op(s, OP_KEY_PUT);
    op->u.key = (struct queue_key){ .first = ksuid_add(it->batch->first, it->index),
                                    .expire_at = STORE_TIME_NEVER };
    memcpy(op->u.key.hash, it->key->hash, sizeof op->u.key.hash);
}

/* The first of its key comes to an end: without this the key would wait for it for ever. */
static void unmark_order(struct slot *s, struct qitem *it)
{
    if (it->key == NULL || it->in_place || (it->key->active != it && !okey_marks(it->key, it)))
        return;
    memcpy(slot_op(s, OP_KEY_DELETE)->u.key.hash, it->key->hash, sizeof it->key->hash);
}

/* Deletes the rows that say where the item is, but for its state in the batch. from is the state
 * before step_begin. */
static void queue_step_leave(struct slot *s, struct qitem *it)
{
    if (it->from == QITEM_LEASED)
        slot_op(s, OP_LEASE_DELETE)->u.lease.id = it->id;
    if (!it->in_place) {
        bool scheduled = it->from == QITEM_SCHEDULED;
        struct queue_op *op = slot_op(s, OP_ENTRY_DELETE);
        op->u.entry =
            (struct queue_entry){ .kind = scheduled ? ENTRY_SCHEDULED : ENTRY_READY,
                                  .id = it->id,
                                  .enqueue_at = scheduled ? it->due_at : STORE_TIME_ZERO };
    }
}

/* The item ends: completed, deleted, or dead without a dead queue. */
void step_gone(struct slot *s, struct qitem *it)
{
    step_begin(s, it);
    queue_step_leave(s, it);
    unmark_order(s, it);
    slot_state(s, it, ITEM_GONE);
    slot_step(s, &(struct step){ .kind = STEP_GONE, .item = it });
}

/* The item goes to the tail under a new id: whoever holds the old id cannot complete it any
 * more. */
void step_return(struct slot *s, struct qitem *it, store_time now)
{
    struct part *p = s->part;
    step_begin(s, it);
    queue_step_leave(s, it);
    struct ksuid id = part_ids(p, 1, now, rng_next(&p->queue->rng));
    struct queue_entry e = qitem_entry(it, ENTRY_READY);
    /* The entry is put under the new id; it->id changes when the write is answered (step_done). */
    e.id = id;
    e.enqueue_at = now;
    slot_op(s, OP_ENTRY_PUT)->u.entry = e;
    /* Only the first return takes the item out of its batch; later ones replace an entry by
     * another. */
    if (it->in_place) {
        mark_order(s, it);
        slot_state(s, it, ITEM_ELSEWHERE);
    }
    s->write.parts[0].ready++;
    slot_step(s, &(struct step){ .kind = STEP_RETURN, .item = it, .id = id, .at = now });
}

/* The item waits until at, and keeps its id. */
void step_schedule(struct slot *s, struct qitem *it, store_time at)
{
    step_begin(s, it);
    queue_step_leave(s, it);
    struct queue_entry e = qitem_entry(it, ENTRY_SCHEDULED);
    e.enqueue_at = at;
    /* A retry far ahead must not expire before it is due. */
    e.expire_at = store_time_max(it->expire_at, queue_expiry(s->part->queue, at));
    slot_op(s, OP_ENTRY_PUT)->u.entry = e;
    if (it->in_place) {
        mark_order(s, it);
        slot_state(s, it, ITEM_ELSEWHERE);
    }
    s->write.parts[0].scheduled++;
    slot_step(s, &(struct step){
                     .kind = STEP_SCHEDULE, .item = it, .at = at, .expire_at = e.expire_at });
}

store_time queue_expiry(const struct queue *q, store_time due)
{
    return store_time_add(due, q->info.expire_timeout_ns);
}

uint32_t attempts_counted(uint32_t attempts)
{
    return attempts < QUEUE_ITEM_ATTEMPTS_MAX ? attempts : QUEUE_ITEM_ATTEMPTS_MAX;
}

/* A client's lease has a deadline, and a token of its own begins with an epoch: so no number that a
 * client chose makes a row say that its item was ordered somewhere. */
static bool is_ordered(const struct queue_lease *row)
{
    return (row->attempts & ATTEMPTS_MARKS) == ATTEMPTS_MARKS && row->deadline.ns == 0 &&
           row->token > 0 && row->token <= UINT32_MAX;
}

void qitem_lease_read(struct qitem *it, const struct queue_lease *row)
{
    bool ordered = is_ordered(row);
    it->doomed = (row->attempts & ATTEMPTS_DOOMED) != 0;
    it->ordered_to = ordered ? (uint32_t)row->token : 0;
    it->token = ordered ? 0 : row->token;
    /* Without an order the ORDERED bit is part of the count, which is then cut to its limit. */
    it->attempts = attempts_counted(row->attempts & (ordered ? ~ATTEMPTS_MARKS : ~ATTEMPTS_DOOMED));
    it->due_at = row->deadline;
}

struct queue_lease qitem_lease(const struct qitem *it, store_time deadline)
{
    /* attempts_counted keeps attempts below the marks. */
    uint32_t marks = it->ordered_to > 0 ? ATTEMPTS_MARKS : it->doomed ? ATTEMPTS_DOOMED : 0;
    return (struct queue_lease){ .id = it->id,
                                 .place = { .batch = it->batch->first, .index = it->index },
                                 .in_place = it->in_place,
                                 /* An order has no deadline: the item waits for its move,
                                  * however long that takes. */
                                 .deadline = it->ordered_to > 0 ? STORE_TIME_ZERO : deadline,
                                 .attempts = it->attempts | marks,
                                 .token = it->ordered_to > 0 ? it->ordered_to : it->token,
                                 .created_at = it->created_at,
                                 .expire_at = it->expire_at,
                                 .order_key = it->batch->order_key };
}

/* The row of the lease is put again, with a new deadline. */
void step_extend(struct slot *s, struct qitem *it, store_time deadline)
{
    step_begin(s, it);
    s->write.parts[0].leased++;
    slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, deadline);
    slot_step(s, &(struct step){ .kind = STEP_EXTEND, .item = it, .at = deadline });
}

/* As if never leased: the item keeps its place. releasing holds leases of the partition back
 * until then. */
void step_release(struct slot *s, struct qitem *it)
{
    step_begin(s, it);
    slot_op(s, OP_LEASE_DELETE)->u.lease.id = it->id;
    s->write.parts[0].ready++;
    s->part->releasing++;
    slot_step(s, &(struct step){ .kind = STEP_RELEASE, .item = it });
}

/* ---- what takes effect ---- */

/* An item is found by its id: it leaves the table under the old one first. */
static void rehash(struct part *p, struct qitem *it, struct ksuid id)
{
    hash_remove(&p->items, &it->by_id);
    it->id = id;
    hash_add(&p->items, &it->by_id, ksuid_hash(id));
}

/* Memory holds what is near the head; what lies behind its edge is read again when its turn
 * comes. */
static bool is_near(const struct part *p, struct ksuid id)
{
    if (ksuid_cmp(id, p->edge) <= 0)
        return true; /* nobody reads there again */
    /* With everything in memory the tail is near, while the window has room. */
    return p->whole && p->ready_items + p->behind_items < PART_WINDOW_ITEMS;
}

/* A ready item to where it belongs: the window, the tail, or out of memory. */
static void to_ready(struct part *p, struct qitem *it)
{
    it->state = QITEM_READY;
    /* The first of its key left its batch: the row of mark_order is on disk. */
    if (it->key != NULL && it->key->active == it && !it->in_place) {
        it->key->marked = true;
        it->key->marked_id = ksuid_add(it->batch->first, it->index);
    }
    if (is_near(p, it->id)) {
        if (p->whole)
            /* All that is ready is here, so the edge goes on with the last item. */
            p->edge = ksuid_cmp(it->id, p->edge) > 0 ? it->id : p->edge;
        part_ready_put(p, it);
        return;
    }
    /* From here on the store has a ready item that memory has not. */
    p->whole = false;
    if (it->key != NULL && it->key->active == it) {
        it->key->active = NULL; /* the mark keeps its place */
        it->key->away_id = it->id;
        p->firsts_away = true;
    }
    part_tail_put(p, it);
}

void due_put(struct qitem *it)
{
    struct part *p = it->part;
    /* Schedules beyond the edge are left to the store, and read when their time comes closer. */
    if (it->state == QITEM_SCHEDULED) {
        bool far = p->scheduled_items >= PART_SCHEDULED_ITEMS;
        bool past = it->due_at.ns > p->edge_at.ns ||
                    (it->due_at.ns == p->edge_at.ns && ksuid_cmp(it->id, p->edge_id) > 0);
        if (past && (far || !p->whole_due)) {
            p->whole_due = false;
            if (it->key == NULL) { /* one of an order key stays, so that its followers wait */
                part_item_free(p, it);
                return;
            }
            /* Nothing in the store lies between the old edge and this item. */
        } else if (past) {
            p->edge_at = it->due_at;
            p->edge_id = it->id;
        }
        p->scheduled_items++;
    }
    due_add(it, it->due_at);
}

void due_add(struct qitem *it, store_time at)
{
    it->wake_at = at;
    heap_add(&it->part->queue->due, &it->due);
}

/* Only what part_okey_end says of the key may change before the item is freed. */
static void queue_step_gone(struct part *p, struct qitem *it)
{
    if (it->from == QITEM_SCHEDULED)
        p->scheduled_items--;
    part_okey_end(p, it);
    part_item_free(p, it);
}

/* A write with this step was answered with ERR_OK. */
void step_done(struct part *p, const struct step *s)
{
    struct qitem *it = s->item;
    INVARIANT(it->state == QITEM_ENDING);
    if (!p->whole && ksuid_cmp(it->id, p->edge) > 0)
        p->churn++; /* what is being read now may show it where it no longer is */
    /* A schedule that just arrived was not counted yet. */
    if (it->from == QITEM_SCHEDULED && s->kind != STEP_GONE && s->kind != STEP_ARRIVE)
        p->scheduled_items--;
    switch (s->kind) {
    case STEP_GONE:
        queue_step_gone(p, it);
        return;
    case STEP_RETURN:
        rehash(p, it, s->id);
        it->in_place = false;
        /* The token was that of the lease that ended. */
        it->token = 0;
        it->ready_at = s->at;
        to_ready(p, it);
        return;
    case STEP_SCHEDULE:
        it->in_place = false;
        it->token = 0;
        it->due_at = s->at;
        it->expire_at = s->expire_at;
        it->state = QITEM_SCHEDULED;
        due_put(it);
        return;
    case STEP_EXTEND:
        it->due_at = s->at;
        it->state = QITEM_LEASED;
        due_put(it);
        return;
    case STEP_RELEASE:
        p->releasing--;
        it->token = 0;
        /* The grant that nobody heard of does not count. */
        it->attempts--;
        to_ready(p, it);
        return;
    case STEP_ARRIVE:
        /* ARRIVE: from says what the producer or the import made of it. */
        it->state = it->from;
        if (it->state == QITEM_READY)
            to_ready(p, it);
        else
            due_put(it);
        return;
    }
}

/* The states of the batch are those from before again: in place, or not. A failed write is
 * undone from its last step to its first. */
void step_undo(struct part *p, const struct step *s)
{
    struct qitem *it = s->item;
    /* The item was made for this write: it was never stored. */
    if (s->kind == STEP_ARRIVE) {
        it->state = QITEM_ENDING;
        part_item_free(p, it);
        return;
    }
    p->releasing -= s->kind == STEP_RELEASE;
    /* Extending and releasing change no states. */
    if (s->kind != STEP_EXTEND && s->kind != STEP_RELEASE)
        it->batch->states[it->index] = it->in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE;
    it->state = it->from;
    if (s->kind == STEP_RELEASE &&
        !p->queue->draining) { /* nobody has it: given back as soon as that can be written */
        list_append(&p->orphans, &it->link);
        return;
    }
    /* Where it was; a lease keeps the deadline it had. */
    switch ((enum qitem_state)it->from) {
    case QITEM_READY:
    case QITEM_TAIL:
    case QITEM_BEHIND:
        to_ready(p, it);
        return;
    case QITEM_LEASED:
    case QITEM_SCHEDULED:
    case QITEM_DAMAGED:
        due_add(it, it->due_at);
        return;
    case QITEM_FREE:
    case QITEM_GRANTING:
    case QITEM_ENDING:
    case QITEM_MOVING:
    case QITEM_STATES:
        break;
    }
    check_failed(__FILE__, __LINE__, "an item that was somewhere");
}
