/* look.c - asks the store for ids that memory does not know, for change.c: those behind the
 * window, and schedules beyond the next ones. */
#include "queue/order/flush.h"

#include <string.h>

/* One id that is sought among ready rows. */
struct search {
    struct ksuid id;
    struct looked *found;
};

/* A scan from an id on shows that item first, if it is there. One row is enough. */
static bool first_ready(void *ctx, const struct queue_row *row)
{
    struct search *s = ctx;
    if (ksuid_cmp(row->u.entry.id, s->id) == 0)
        *s->found =
            (struct looked){ .there = true, .in_place = row->in_place, .entry = row->u.entry };
    return false;
}

/* The ids that are not ready, all of them in one scan of the schedules; left: not found yet. */
struct searches {
    const struct own_change *own;
    unsigned count, left;
};

/* False ends the scan: all were found. Otherwise it goes through all schedules of the partition. */
static bool each_scheduled(void *ctx, const struct queue_row *row)
{
    struct searches *s = ctx;
    const struct queue_entry *e = &row->u.entry;
    for (unsigned i = 0; i < s->count; i++) {
        if (s->own->there[i].there || ksuid_cmp(s->own->ids[i], e->id) != 0)
            continue;
        s->own->there[i] = (struct looked){ .there = true, .scheduled = true, .entry = *e };
        s->left--;
    }
    return s->left > 0;
}

/* How far it has come: each id among the ready ones, those not there among the scheduled ones, and
 * the batches of those that are there. */
enum look_stage { LOOK_READY, LOOK_SCHEDULED, LOOK_BATCHES, LOOK_OVER };
struct looking {
    enum look_stage stage;
    unsigned index;
    struct search search;
    struct searches all;
};

/* Is there something to ask for at this place? */
static bool look_due(const struct own_change *own, const struct queue_change *c)
{
    /* The scheduled ones are one scan; the other stages are one call for each id. */
    const struct looking *k = own->look;
    if (k->stage == LOOK_SCHEDULED)
        return k->index == 0 && k->all.left > 0;
    return k->index < c->items_count;
}

static err look_ask(struct own_change *own, struct queue_change *c)
{
    const struct queue_store_ops *ops = own->store->ops;
    struct looking *k = own->look;
    struct looked *l = &own->there[k->index];
    struct queue_scan scan = { .part = own->place };
    switch (k->stage) {
    case LOOK_READY:
        l->there = false;
        k->search = (struct search){ .id = own->ids[k->index], .found = l };
        scan.kind = SCAN_READY;
        scan.from = own->ids[k->index];
        scan.each = first_ready;
        scan.ctx = &k->search;
        scan.later = store_job_ask(&own->job);
        return ops->scan(own->store, &scan);
    case LOOK_SCHEDULED:
        scan.kind = SCAN_SCHEDULED;
        scan.each = each_scheduled;
        scan.ctx = &k->all;
        scan.later = store_job_ask(&own->job);
        return ops->scan(own->store, &scan);
    case LOOK_BATCHES: {
        /* It points into the scan's memory, which is gone. */
        l->entry.order_key = STR_NONE; /* the batch has it */
        if (!l->there)
            return ERR_NOT_FOUND;
        const struct queue_batch_look look = { .first = l->entry.place.batch,
                                               .arena = c->arena,
                                               .out = &l->batch,
                                               .later = store_job_ask(&own->job) };
        return ops->batch(own->store, own->place, &look);
    }
    case LOOK_OVER:
        break;
    }
    return ERR_OK;
}

/* A batch that is not there went meanwhile: its item counts as not there. */
static err look_take(struct own_change *own, err why)
{
    struct looking *k = own->look;
    struct looked *l = &own->there[k->index++];
    if (k->stage == LOOK_READY && why == ERR_OK)
        k->all.left += !l->there;
    if (k->stage != LOOK_BATCHES || why != ERR_NOT_FOUND)
        return why;
    l->there = false;
    return ERR_OK;
}

static bool look_step(struct store_job *j)
{
    struct own_change *own = CONTAINER_OF(j, struct own_change, job);
    struct queue_change *c = req_change(&own->req);
    /* No memory for own->look: the change ends with an error. */
    err why = own->look == NULL ? ERR_LIMIT : ERR_OK;
    if (store_job_told(j))
        why = look_take(own, j->later.why);
    while (why == ERR_OK && own->look->stage != LOOK_OVER) {
        if (!look_due(own, c)) {
            own->look->stage++;
            own->look->index = 0;
            continue;
        }
        why = look_ask(own, c);
        if (store_job_waits(j, why))
            return true;
        why = look_take(own, why);
    }
    own->look_why = why;
    return false;
}

/* On the loop. The lock is taken; the change is judged in the next write, or refused. */
static void look_done(struct store_job *j)
{
    struct own_change *own = CONTAINER_OF(j, struct own_change, job);
    struct queue_change *c = req_change(&own->req);
    struct queue *q = c->queue;
    struct part *p = own->req.part;
    queue_ref(q);
    queue_enter(q);
    own->looking = false;
    /* What was judged before the store answered is judged again. */
    own->judged = 0;
    if (own->look_why != ERR_OK || p->failing || q->draining) {
        err_note_set(&c->note, q->draining ? "queue is shutting down"
                                           : "internal error, try your request again");
        req_answer(q, &own->req, q->draining ? ERR_SHUTDOWN : ERR_UNAVAILABLE);
    } else {
        /* Batches left memory while the store was asked: its answer may be about the state
         * before. */
        own->looked = own->churn == p->churn; /* else it may be old: asked again */
        queue_work(p);
    }
    queue_leave(q);
    queue_unref(&q);
}

/* The caller has made sure that c stands in no write. c stays where it waits. */
void part_look(struct part *p, struct queue_change *c)
{
    struct own_change *own = own_change(c);
    /* What the store said the last time. */
    arena_release(c->arena, own->looks);
    own->looking = true;
    own->churn = p->churn;
    own->store = part_store(p);
    own->store_index = p->store;
    own->place = (struct queue_part){ .queue = p->queue->number, .partition = p->number };
    own->look = arena_calloc(c->arena, 1, sizeof *own->look);
    if (own->look != NULL)
        own->look->all = (struct searches){ .own = own, .count = c->items_count };
    own->job.step = look_step;
    own->job.done = look_done;
    store_job_start(p->queue->all->opts.loop, &own->job);
}

/* The item of what the store said, in memory. NULL: the store has no such item. The caller puts
 * it into a write at once: it is in no list. */
struct qitem *looked_item(struct part *p, const struct looked *l)
{
    if (!l->there)
        return NULL;
    struct batch *b = part_batch(p, l->entry.place.batch);
    if (b == NULL)
        b = part_batch_of(p, &l->batch);
    struct qitem *it = part_item_new(p, b, l->entry.place.index, l->entry.id);
    it->in_place = l->in_place;
    it->attempts = attempts_counted(l->entry.attempts);
    it->created_at = l->entry.created_at;
    it->expire_at = l->entry.expire_at;
    part_key_of(p, it);
    if (l->scheduled) {
        it->state = QITEM_SCHEDULED;
        it->due_at = l->entry.enqueue_at;
        p->scheduled_items++;
    }
    return it;
}
