/* step.c - the steps that a write makes with items: done, returned, scheduled, extended; each
 * can be undone when the write fails. Invariant: after step_undo memory is as it was before the
 * step, states of the batch included. */
#include "queue/order/flush.h"

#include <string.h>

/* In the attempts of a lease's row: the item is doomed; by order, and the token is the number of
 * the queue it goes to. */
#define ATTEMPTS_DOOMED (UINT32_C(1) << 31)
#define ATTEMPTS_ORDERED (UINT32_C(1) << 30)
#define ATTEMPTS_MARKS (ATTEMPTS_DOOMED | ATTEMPTS_ORDERED)
_Static_assert(QUEUE_ITEM_ATTEMPTS_MAX <= ATTEMPTS_ORDERED / 2, "leases add to it");

/* Where an item was counted, and where it goes. */
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

/* Out of whatever list or heap it waits in, and ENDING. */
static void step_begin(struct slot *s, struct qitem *it)
{
    struct part *p = s->part;
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    if (it->state == QITEM_MOVING)
        it->state = it->from;
    part_unlist(p, it);
    --*count_of(&s->write.parts[0], it->state);
    qitem_move(it, QITEM_ENDING);
}

/* The row that makes an item first of its order key, when it leaves its place in the order of
 * ids. */
static void mark_order(struct slot *s, struct qitem *it)
{
    if (it->key == NULL || it->key->active != it || !it->in_place)
        return;
    struct queue_op *op = slot_op(s, OP_KEY_PUT);
    op->u.key = (struct queue_key){ .first = ksuid_add(it->batch->first, it->index),
                                    .expire_at = STORE_TIME_NEVER };
    memcpy(op->u.key.hash, it->key->hash, sizeof op->u.key.hash);
}

static void unmark_order(struct slot *s, struct qitem *it)
{
    if (it->key == NULL || it->in_place || (it->key->active != it && !okey_marks(it->key, it)))
        return;
    memcpy(slot_op(s, OP_KEY_DELETE)->u.key.hash, it->key->hash, sizeof it->key->hash);
}

/* Deletes the rows that say where it is, but for its state in the batch. */
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

void step_gone(struct slot *s, struct qitem *it)
{
    step_begin(s, it);
    queue_step_leave(s, it);
    unmark_order(s, it);
    slot_state(s, it, ITEM_GONE);
    slot_step(s, &(struct step){ .kind = STEP_GONE, .item = it });
}

void step_return(struct slot *s, struct qitem *it, store_time now)
{
    struct part *p = s->part;
    step_begin(s, it);
    queue_step_leave(s, it);
    struct ksuid id = part_ids(p, 1, now, rng_next(&p->queue->rng));
    struct queue_entry e = qitem_entry(it, ENTRY_READY);
    e.id = id;
    e.enqueue_at = now;
    slot_op(s, OP_ENTRY_PUT)->u.entry = e;
    if (it->in_place) {
        mark_order(s, it);
        slot_state(s, it, ITEM_ELSEWHERE);
    }
    s->write.parts[0].ready++;
    slot_step(s, &(struct step){ .kind = STEP_RETURN, .item = it, .id = id, .at = now });
}

void step_schedule(struct slot *s, struct qitem *it, store_time at)
{
    step_begin(s, it);
    queue_step_leave(s, it);
    struct queue_entry e = qitem_entry(it, ENTRY_SCHEDULED);
    e.enqueue_at = at;
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
    it->attempts = attempts_counted(row->attempts & (ordered ? ~ATTEMPTS_MARKS : ~ATTEMPTS_DOOMED));
    it->due_at = row->deadline;
}

struct queue_lease qitem_lease(const struct qitem *it, store_time deadline)
{
    uint32_t marks = it->ordered_to > 0 ? ATTEMPTS_MARKS : it->doomed ? ATTEMPTS_DOOMED : 0;
    return (struct queue_lease){ .id = it->id,
                                 .place = { .batch = it->batch->first, .index = it->index },
                                 .in_place = it->in_place,
                                 .deadline = it->ordered_to > 0 ? STORE_TIME_ZERO : deadline,
                                 .attempts = it->attempts | marks,
                                 .token = it->ordered_to > 0 ? it->ordered_to : it->token,
                                 .created_at = it->created_at,
                                 .expire_at = it->expire_at,
                                 .order_key = it->batch->order_key };
}

void step_extend(struct slot *s, struct qitem *it, store_time deadline)
{
    step_begin(s, it);
    s->write.parts[0].leased++;
    slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, deadline);
    slot_step(s, &(struct step){ .kind = STEP_EXTEND, .item = it, .at = deadline });
}

void step_release(struct slot *s, struct qitem *it)
{
    step_begin(s, it);
    slot_op(s, OP_LEASE_DELETE)->u.lease.id = it->id;
    s->write.parts[0].ready++;
    s->part->releasing++;
    slot_step(s, &(struct step){ .kind = STEP_RELEASE, .item = it });
}

/* ---- what takes effect ---- */

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
    return p->whole && p->ready_items + p->behind_items < PART_WINDOW_ITEMS;
}

static void to_ready(struct part *p, struct qitem *it)
{
    it->state = QITEM_READY;
    if (it->key != NULL && it->key->active == it && !it->in_place) {
        it->key->marked = true;
        it->key->marked_id = ksuid_add(it->batch->first, it->index);
    }
    if (is_near(p, it->id)) {
        if (p->whole)
            p->edge = ksuid_cmp(it->id, p->edge) > 0 ? it->id : p->edge;
        part_ready_put(p, it);
        return;
    }
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

static void queue_step_gone(struct part *p, struct qitem *it)
{
    if (it->from == QITEM_SCHEDULED)
        p->scheduled_items--;
    part_okey_end(p, it);
    part_item_free(p, it);
}

void step_done(struct part *p, const struct step *s)
{
    struct qitem *it = s->item;
    INVARIANT(it->state == QITEM_ENDING);
    if (!p->whole && ksuid_cmp(it->id, p->edge) > 0)
        p->churn++; /* what is being read now may show it where it no longer is */
    if (it->from == QITEM_SCHEDULED && s->kind != STEP_GONE && s->kind != STEP_ARRIVE)
        p->scheduled_items--;
    switch (s->kind) {
    case STEP_GONE:
        queue_step_gone(p, it);
        return;
    case STEP_RETURN:
        rehash(p, it, s->id);
        it->in_place = false;
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
        it->attempts--;
        to_ready(p, it);
        return;
    case STEP_ARRIVE:
        it->state = it->from;
        if (it->state == QITEM_READY)
            to_ready(p, it);
        else
            due_put(it);
        return;
    }
}

/* The states of the batch are those from before again: in place, or not. */
void step_undo(struct part *p, const struct step *s)
{
    struct qitem *it = s->item;
    if (s->kind == STEP_ARRIVE) {
        it->state = QITEM_ENDING;
        part_item_free(p, it);
        return;
    }
    p->releasing -= s->kind == STEP_RELEASE;
    if (s->kind != STEP_EXTEND && s->kind != STEP_RELEASE)
        it->batch->states[it->index] = it->in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE;
    it->state = it->from;
    if (s->kind == STEP_RELEASE &&
        !p->queue->draining) { /* nobody has it: given back as soon as that can be written */
        list_append(&p->orphans, &it->link);
        return;
    }
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
