/* due.c - what is due: leases that ended, schedules, items past their time. To the tail, a dead
 * queue, or gone. */
#include "queue/order/flush.h"

/* Items that one write takes from the list; others wait for the next. */
enum { DUE_BUILD_MAX = 512 };

/* Attempts that are spent, an item that is doomed, or its time is over. */
bool item_dies(const struct qitem *it, store_time now)
{
    uint32_t max = it->part->queue->info.max_attempts;
    bool spent = (max > 0 && it->attempts >= max) || it->doomed;
    return spent || !store_time_before(now, it->expire_at);
}

/* A schedule that is due has no attempts to spend: it dies of its time alone. */
static void due_item(struct part *p, struct slot *s, struct qitem *it, store_time now)
{
    bool dies =
        it->state == QITEM_LEASED ? item_dies(it, now) : !store_time_before(now, it->expire_at);
    if (it->state == QITEM_DAMAGED)
        step_gone(s, it); /* no queue takes an item without a body */
    else if (dies)
        part_die(p, s, it, NULL);
    else
        step_return(s, it, now);
}

/* part_die takes items out of the list: after is kept before. next: the first expiry of those
 * that stay. */
static void expire_list(struct part *p, struct slot *s, struct list *items, store_time now,
                        store_time *next)
{
    for (struct list *n = items->next, *after; n != items; n = after) {
        after = n->next;
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        if (!store_time_before(now, it->expire_at) && slot_room(s, STEP_OPS_MAX))
            part_die(p, s, it, NULL);
        /* An expired item that found no room comes first at the next round: its time is before
         * any other. */
        else if (store_time_before(it->expire_at, *next))
            *next = it->expire_at;
    }
}

/* The walk over ready items and those behind order keys. */
struct expiry {
    struct part *part;
    struct slot *slot;
    store_time now, next;
};

static void expire_okey(void *ctx, struct hash_node *n)
{
    struct expiry *e = ctx;
    expire_list(e->part, e->slot, &CONTAINER_OF(n, struct okey, node)->behind, e->now, &e->next);
}

void due_build(struct part *p, struct slot *s, store_time now)
{
    /* p->due is filled by queue.c, from the heap of items by due_at. */
    for (unsigned i = 0; i < DUE_BUILD_MAX && slot_room(s, STEP_OPS_MAX) && !list_empty(&p->due);
         i++)
        due_item(p, s, CONTAINER_OF(list_take(&p->due), struct qitem, link), now);
    /* The whole window is walked, because ready items are in order of ids, not of expiry. */
    if (p->expire_due) {
        struct expiry e = { .part = p, .slot = s, .now = now, .next = STORE_TIME_NEVER };
        p->expire_due = false;
        expire_list(p, s, &p->ready_list, now, &e.next);
        hash_each(&p->okeys, expire_okey, &e);
        part_expire_set(p, e.next);
        part_heads(p);
    }
    move_begin(p);
}
