/* look.c - asks the store for ids that memory does not know: those behind the window. */
#include "queue/order/flush.h"

#include <string.h>

struct search {
    struct ksuid id;
    struct looked *found;
};

static bool first_ready(void *ctx, const struct queue_row *row)
{
    struct search *s = ctx;
    if (ksuid_cmp(row->u.entry.id, s->id) == 0)
        *s->found =
            (struct looked){ .there = true, .in_place = row->in_place, .entry = row->u.entry };
    return false;
}

struct searches {
    const struct own_change *own;
    unsigned count, left;
};

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

static err look(struct queue_change *c)
{
    struct own_change *own = own_change(c);
    const struct queue_store_ops *ops = own->store->ops;
    struct searches all = { .own = own, .count = c->items_count };
    err why = ERR_OK;
    for (unsigned i = 0; i < c->items_count && why == ERR_OK; i++) {
        struct search s = { .id = own->ids[i], .found = &own->there[i] };
        own->there[i].there = false;
        why = ops->scan(own->store, &(struct queue_scan){ .part = own->place,
                                                          .kind = SCAN_READY,
                                                          .from = own->ids[i],
                                                          .each = first_ready,
                                                          .ctx = &s });
        all.left += !own->there[i].there;
    }
    if (why == ERR_OK && all.left > 0)
        why = ops->scan(own->store, &(struct queue_scan){ .part = own->place,
                                                          .kind = SCAN_SCHEDULED,
                                                          .each = each_scheduled,
                                                          .ctx = &all });
    for (unsigned i = 0; i < c->items_count && why == ERR_OK; i++) {
        struct looked *l = &own->there[i];
        l->entry.order_key = STR_NONE; /* the batch has it */
        if (!l->there)
            continue;
        why = ops->batch(own->store, own->place, l->entry.place.batch, c->arena, &l->batch);
        if (why == ERR_NOT_FOUND)
            l->there = false, why = ERR_OK;
    }
    return why;
}

static void look_run(struct loop_job *j)
{
    struct own_change *own = CONTAINER_OF(j, struct own_change, job);
    own->look_why = look(req_change(&own->req));
}

static void look_done(struct loop_job *j, bool canceled)
{
    struct own_change *own = CONTAINER_OF(j, struct own_change, job);
    struct queue_change *c = req_change(&own->req);
    struct queue *q = c->queue;
    struct part *p = own->req.part;
    queue_ref(q);
    queue_enter(q);
    own->looking = false;
    own->judged = 0;
    if (canceled || own->look_why != ERR_OK || p->failing || q->draining) {
        err_note_set(&c->note, q->draining ? "queue is shutting down"
                                           : "internal error, try your request again");
        req_answer(q, &own->req, q->draining ? ERR_SHUTDOWN : ERR_UNAVAILABLE);
    } else {
        own->looked = own->churn == p->churn; /* else it may be old: asked again */
        queue_work(p);
    }
    queue_leave(q);
    queue_unref(&q);
}

void part_look(struct part *p, struct queue_change *c)
{
    struct own_change *own = own_change(c);
    arena_release(c->arena, own->looks);
    own->looking = true;
    own->churn = p->churn;
    own->store = part_store(p);
    own->store_index = p->store;
    own->place = (struct queue_part){ .queue = p->queue->number, .partition = p->number };
    own->job = (struct loop_job){ .run = look_run, .done = look_done };
    stores_job_start(p->queue->all, own->store_index, &own->job);
}

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
