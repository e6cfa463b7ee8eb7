/* damage.c - items whose bodies cannot be had: told, counted, and out of the way of the others.
 *
 *   A row that points at nothing: a lease, or an entry, whose batch is gone. It is found when the
 * partition is read, which is when nothing is written there. Nothing of the item is left to mend,
 * so the row goes with the next write. The counts of the partition become those of its rows, when
 * all of them were read.
 *   An item that cannot be read: its batch is there, and its bytes fail their check. It is found by
 * a lease. The item stays in the store, where a backup may mend it, and stands aside in memory
 * (QITEM_DAMAGED) until it is cleared or expires. The next reading of the partition forgets that,
 * and the next lease finds it again. */
#include "queue/order/flush.h"

#include "base/log.h"

#include <stdlib.h>

/* What is to be mended in one partition. Owner: the partition, until it is mended or read again. */
struct damage {
    struct queue_op *ops; /* deletes of rows */
    unsigned count, size;
    bool is_starved; /* more rows point at nothing: there was no memory for them */
    int64_t ready, scheduled,
        leased; /* what the counts of the partition change by, once all rows are gone */
};

bool damage_is(err why)
{
    return why == ERR_CORRUPT || why == ERR_NOT_FOUND;
}

void damage_tell(struct part *p, uint64_t items, struct ksuid id, const char *why)
{
    char text[KSUID_TEXT_BYTES + 1];
    ksuid_format(id, text);
    (void)atomic_fetch_add(&p->damaged, items);
    log_event(p->queue->all->opts.log, LOG_ERROR, "queue.damaged",
              LOG_STR("queue", p->queue->info.name), LOG_INT("partition", p->number),
              LOG_INT("items", items), LOG_CSTR("id", text), LOG_CSTR("why", why));
}

/* ---- rows that point at nothing ---- */

/* Dies when out of memory; the ops alone may fail. */
static struct damage *damage_of(struct part *p)
{
    if (p->damage == NULL)
        p->damage = calloc(1, sizeof *p->damage);
    INVARIANT(p->damage != NULL);
    return p->damage;
}

/* A row more to be deleted. NULL: there is no memory; the next reading finds the row again. */
static struct queue_op *damage_op(struct part *p, enum queue_op_kind kind)
{
    struct damage *d = damage_of(p);
    if (d->count == d->size) {
        unsigned size = d->size == 0 ? 16 : d->size * 2;
        struct queue_op *ops = reallocarray(d->ops, size, sizeof *ops);
        d->is_starved |= ops == NULL;
        if (ops == NULL)
            return NULL;
        d->ops = ops;
        d->size = size;
    }
    d->ops[d->count] = (struct queue_op){ .kind = kind };
    return &d->ops[d->count++];
}

void damage_lease(struct part *p, const struct queue_lease *l)
{
    struct queue_op *op = damage_op(p, OP_LEASE_DELETE);
    if (op == NULL)
        return;
    op->u.lease.id = l->id;
    damage_of(p)->leased--;
    /* The item counts once, as leased; its entry goes with the lease. */
    op = l->in_place ? NULL : damage_op(p, OP_ENTRY_DELETE);
    if (op != NULL)
        op->u.entry = (struct queue_entry){ .kind = ENTRY_READY, .id = l->id };
}

void damage_entry(struct part *p, const struct queue_entry *e)
{
    struct queue_op *op = damage_op(p, OP_ENTRY_DELETE);
    if (op == NULL)
        return;
    op->u.entry = (struct queue_entry){ .kind = e->kind, .id = e->id, .enqueue_at = e->enqueue_at };
    if (e->kind == ENTRY_SCHEDULED)
        damage_of(p)->scheduled--;
    else
        damage_of(p)->ready--;
}

/* Items in memory, by what they are counted as in the record. */
struct counts {
    int64_t ready, scheduled, leased;
};

static void count_item(void *ctx, struct hash_node *n)
{
    struct counts *c = ctx;
    switch ((enum qitem_state)CONTAINER_OF(n, struct qitem, by_id)->state) {
    case QITEM_LEASED:
        c->leased++;
        return;
    case QITEM_SCHEDULED:
        c->scheduled++;
        return;
    case QITEM_READY:
    case QITEM_TAIL:
    case QITEM_BEHIND:
    case QITEM_GRANTING:
    case QITEM_DAMAGED:
    case QITEM_ENDING:
    case QITEM_MOVING:
        c->ready++;
        return;
    case QITEM_FREE:
    case QITEM_STATES:
        break;
    }
    check_failed(__FILE__, __LINE__, "an item in use");
}

/* Never below zero: the counts may be wrong themselves. */
static int64_t at_least(int64_t change, int64_t count)
{
    return change < -count ? -count : change;
}

void damage_found(struct part *p, bool whole)
{
    struct damage *d = p->damage;
    struct counts c = { 0, 0, 0 };
    whole &= d == NULL || !d->is_starved;
    /* The counts of the record are compared with the items only when all rows were read. */
    if (whole)
        hash_each(&p->items, count_item, &c);
    bool counts =
        whole && (c.ready != p->ready || c.scheduled != p->scheduled || c.leased != p->leased);
    if (d == NULL && !counts)
        return;
    d = damage_of(p);
    if (whole) {
        d->ready = c.ready - p->ready;
        d->scheduled = c.scheduled - p->scheduled;
        d->leased = c.leased - p->leased;
    }
    /* The record refuses a write that takes a count below zero. */
    d->ready = at_least(d->ready, p->ready);
    d->scheduled = at_least(d->scheduled, p->scheduled);
    d->leased = at_least(d->leased, p->leased);
    int64_t items = -(d->ready + d->scheduled + d->leased);
    /* One id for the log, so that the operator can look for it. */
    const struct queue_op *first = d->count > 0 ? &d->ops[0] : NULL;
    struct ksuid id = first == NULL                    ? KSUID_NIL
                      : first->kind == OP_LEASE_DELETE ? first->u.lease.id
                                                       : first->u.entry.id;
    damage_tell(p, items > 0 ? (uint64_t)items : 0, id, "their bodies are gone from the store");
    queue_work(p);
}

void damage_build(struct part *p, struct slot *s)
{
    struct damage *d = p->damage;
    struct queue_write_part *w = &s->write.parts[0];
    if (d == NULL)
        return;
    /* From the last to the first: damage_mended then cuts what was deleted off the end. */
    while (s->mended < d->count && slot_room(s, 1)) {
        struct queue_op *op = slot_op(s, OP_LEASE_DELETE);
        /* The whole op is replaced: its kind may be another. */
        *op = d->ops[d->count - ++s->mended];
    }
    if (s->mended < d->count)
        return;
    /* The counts change in the same write as the last row goes. */
    s->mends = true;
    w->ready += d->ready;
    w->scheduled += d->scheduled;
    w->leased += d->leased;
}

void damage_mended(struct part *p, const struct slot *s)
{
    if (p->damage == NULL)
        return;
    INVARIANT(p->damage->count >= s->mended);
    p->damage->count -= s->mended;
    if (s->mends)
        damage_forget(p);
}

void damage_forget(struct part *p)
{
    if (p->damage != NULL)
        free(p->damage->ops);
    free(p->damage);
    p->damage = NULL;
}

/* ---- items that cannot be read ---- */

void damage_aside(struct part *p, struct qitem *it, err why)
{
    qitem_move(it, QITEM_DAMAGED);
    it->due_at = it->expire_at;
    due_add(it, it->due_at);
    damage_tell(p, 1, it->id,
                why == ERR_NOT_FOUND ? "its body is gone from the store" : "its body is damaged");
}
