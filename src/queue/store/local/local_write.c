/* local_write.c - a write is one update of the engine: what it finds is checked, then rows are
 * put. Also owning. Decisions run on the committer, one after the other.
 *   Invariants
 *   1. A write changes the record of each of its partitions in the same update as its rows.
 *   2. Nothing is decided but whether the writer is the owner and whether the change fits what
 *      is there; a refused write leaves nothing, since the engine throws away what a failed
 *      decision wrote. */
#include "queue/store/local/local.h"

#include <string.h>

_Static_assert(sizeof(struct engine_update) <= sizeof(((struct queue_write *)NULL)->store_own),
               "what the store keeps of a write fits into it");

/* One partition's side of a write while it is being decided. */
struct change {
    struct engine_txn *txn;
    struct queue_part part;
    struct queue_part_record record;
};

static err put_row(struct change *c, struct row_key key, str value, str bytes)
{
    return engine_txn_put(c->txn, SPACE_PARTITION, row_key_str(&key), value, bytes);
}

static err delete_row(struct change *c, struct row_key key)
{
    return engine_txn_delete(c->txn, SPACE_PARTITION, row_key_str(&key));
}

static unsigned count_of(const struct queue_batch *b, enum queue_item_state state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < b->count; i++)
        count += b->states[i] == state;
    return count;
}

/* Is the batch new? Ids above the last one are; others have to be looked up. ERR_CORRUPT: it is
 * there. */
static err check_new(struct change *c, struct ksuid first)
{
    struct local_batch old;
    if (ksuid_cmp(first, c->record.last_id) > 0)
        return ERR_OK;
    err why = local_batch_find(engine_txn_view(c->txn), c->part, first, &old);
    return why == ERR_OK ? ERR_CORRUPT : why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err batch_put(struct change *c, const struct queue_batch *b)
{
    char buf[ROW_VALUE_BYTES_MAX];
    INVARIANT(b->bytes.n > 0 && b->bytes.n <= QUEUE_BATCH_BYTES_MAX);
    INVARIANT(count_of(b, ITEM_GONE) < b->count);
    err why = check_new(c, b->first);
    if (why != ERR_OK)
        return why;
    /* Aside: none of its items is met on a walk over those in place. */
    enum row_kind kind = count_of(b, ITEM_IN_PLACE) > 0 ? ROW_BATCH : ROW_ASIDE;
    c->record.bytes += b->bytes.n;
    struct ksuid last = ksuid_add(b->first, b->count - 1u);
    /* The batch's own ids count, whatever last_id the write says. */
    if (ksuid_cmp(last, c->record.last_id) > 0)
        c->record.last_id = last;
    return put_row(c, row_key_id(c->part, kind, b->first), row_batch_encode(b, buf), b->bytes);
}

/* The last item went: the batch goes, with its bytes. */
static err batch_states(struct change *c, const struct queue_batch *b)
{
    struct local_batch old;
    err why = local_batch_find(engine_txn_view(c->txn), c->part, b->first, &old);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_CORRUPT : why;
    if (old.batch.count != b->count)
        return ERR_CORRUPT;
    struct row_key key = row_key_id(c->part, old.kind, b->first);
    if (count_of(b, ITEM_GONE) == b->count) {
        if (c->record.bytes < old.blob.n)
            return ERR_CORRUPT;
        c->record.bytes -= old.blob.n;
        return delete_row(c, key);
    }
    char order[QUEUE_ORDER_KEY_BYTES_MAX], buf[ROW_VALUE_BYTES_MAX];
    /* Only states change; the order key is copied, because putting ends the row's slices. */
    struct queue_batch now = old.batch;
    if (now.order_key.n > 0)
        memcpy(order, now.order_key.p, now.order_key.n);
    now.order_key.p = order;
    now.states = b->states;
    /* The blob stays as it is. */
    return engine_txn_put_value(c->txn, SPACE_PARTITION, row_key_str(&key),
                                row_batch_encode(&now, buf));
}

static struct row_key entry_key(const struct change *c, const struct queue_entry *e)
{
    return e->kind == ENTRY_SCHEDULED ? row_key_scheduled(c->part, e->enqueue_at, e->id)
                                      : row_key_id(c->part, ROW_READY, e->id);
}

static err apply_op(struct change *c, const struct queue_op *op)
{
    char buf[ROW_VALUE_BYTES_MAX];
    switch (op->kind) {
    case OP_BATCH_PUT:
        return batch_put(c, &op->u.batch);
    case OP_BATCH_STATES:
        return batch_states(c, &op->u.batch);
    case OP_ENTRY_PUT:
        return put_row(c, entry_key(c, &op->u.entry), row_entry_encode(&op->u.entry, buf),
                       STR_NONE);
    case OP_ENTRY_DELETE:
        return delete_row(c, entry_key(c, &op->u.entry));
    case OP_LEASE_PUT:
        return put_row(c, row_key_id(c->part, ROW_LEASE, op->u.lease.id),
                       row_lease_encode(&op->u.lease, buf), STR_NONE);
    case OP_LEASE_DELETE:
        return delete_row(c, row_key_id(c->part, ROW_LEASE, op->u.lease.id));
    case OP_KEY_PUT:
        return put_row(c, row_key_hash(c->part, op->u.key.hash), row_key_encode(&op->u.key, buf),
                       STR_NONE);
    case OP_KEY_DELETE:
        return delete_row(c, row_key_hash(c->part, op->u.key.hash));
    case OP_KINDS:
        break;
    }
    INVARIANT(false);
    return ERR_CORRUPT;
}

/* count + by; false when it would be below zero. */
static bool count_add(uint64_t *count, int64_t by)
{
    if (by < 0 && *count < -(uint64_t)by)
        return false;
    *count += (uint64_t)by;
    return true;
}

/* Ids only grow: a write that was made before another one, and applied after it, sets nothing
 * back. */
static err apply_record(struct change *c, const struct queue_write_part *p)
{
    struct queue_part_record *r = &c->record;
    if (!count_add(&r->ready, p->ready) || !count_add(&r->scheduled, p->scheduled) ||
        !count_add(&r->leased, p->leased))
        return ERR_CORRUPT;
    if (ksuid_cmp(p->last_id, r->last_id) > 0)
        r->last_id = p->last_id;
    if (ksuid_cmp(p->settled, r->settled) > 0)
        r->settled = p->settled;
    char buf[ROW_VALUE_BYTES_MAX];
    return put_row(c, row_key_prefix(c->part, ROW_RECORD), row_record_encode(r, buf), STR_NONE);
}

/* An owner with an old epoch has lost the partition. */
static err apply_part(struct engine_txn *t, const struct queue_write_part *p)
{
    struct change c = { .txn = t, .part = p->part };
    err why = local_record_get(engine_txn_view(t), p->part, &c.record);
    if (why == ERR_NOT_FOUND || (why == ERR_OK && c.record.epoch != p->epoch))
        return ERR_CONFLICT; /* dropped, or of another owner */
    for (unsigned i = 0; i < p->ops_count && why == ERR_OK; i++)
        why = apply_op(&c, &p->ops[i]);
    return why == ERR_OK ? apply_record(&c, p) : why;
}

/* Two parts are one decision: both change, or none. */
static err write_decide(struct engine_txn *t, void *ctx)
{
    const struct queue_write *w = ctx;
    err why = ERR_OK;
    for (unsigned i = 0; i < w->parts_count && why == ERR_OK; i++)
        why = apply_part(t, &w->parts[i]);
    return why;
}

static void write_done(void *ctx, err why)
{
    struct queue_write *w = ctx;
    w->done(w, why);
}

/* What would be a fault of this server's code, not of a store. */
static void write_check(const struct queue_write *w)
{
    INVARIANT(w->parts_count == 1 || w->parts_count == 2);
    for (unsigned i = 0; i < w->parts_count; i++) {
        INVARIANT(w->parts[i].ops_count <= QUEUE_WRITE_OPS_MAX);
        INVARIANT(w->parts[i].part.queue > 0);
        INVARIANT(w->parts[i].part.partition <= QUEUE_PARTITIONS_MAX);
    }
    if (w->parts_count == 2)
        INVARIANT(w->parts[0].part.queue != w->parts[1].part.queue ||
                  w->parts[0].part.partition != w->parts[1].part.partition);
}

void local_write(struct queue_store *s, struct queue_write *w)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    write_check(w);
    /* done may run before this call returns. */
    err why = local_enter(l, &e);
    if (why != ERR_OK) {
        w->done(w, why);
        return;
    }
    /* The update lies in the write's own memory: submitting needs none. */
    struct engine_update *u = (struct engine_update *)(void *)w->store_own;
    *u = (struct engine_update){
        .decide = write_decide,
        .done = write_done,
        .ctx = w,
        .deadline = w->deadline,
        .frees = w->frees,
        .ack = w->early || w->unsynced ? ENGINE_ACK_UNSYNCED : ENGINE_ACK_SYNCED,
    };
    /* u may be gone as soon as it was submitted. */
    engine_submit(e, u);
    local_leave(l);
}

/* ---- owning ---- */

/* One call to own; all or none, in one update. */
struct owning {
    const struct queue_part *parts;
    unsigned count;
    const unsigned char *boot;
    struct queue_part_record *out;
};

static err own_decide(struct engine_txn *t, void *ctx)
{
    const struct owning *o = ctx;
    char buf[ROW_VALUE_BYTES_MAX];
    for (unsigned i = 0; i < o->count; i++) {
        struct queue_part_record now = { .epoch = 0 };
        err why = local_record_get(engine_txn_view(t), o->parts[i], &now);
        if (why != ERR_OK && why != ERR_NOT_FOUND)
            return why;
        now.epoch++;
        /* Shown as they are now, but boot as the owner before left it. */
        o->out[i] = now;
        memcpy(now.boot, o->boot, sizeof(now.boot));
        struct row_key key = row_key_prefix(o->parts[i], ROW_RECORD);
        why = engine_txn_put(t, SPACE_PARTITION, row_key_str(&key), row_record_encode(&now, buf),
                             STR_NONE);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

err local_own(struct queue_store *s, const struct queue_own *own)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    if (own->count > QUEUE_OWN_MAX) {
        err_note_set(own->note, "%u partitions are more than the %d that can be owned at once",
                     own->count, QUEUE_OWN_MAX);
        return ERR_LIMIT;
    }
    struct owning o = {
        .parts = own->parts, .count = own->count, .boot = own->boot, .out = own->out
    };
    err why = atomic_load(&l->away) ? ERR_IO
                                    : local_enter(l, &e); /* one that is away is in error at once */
    if (why == ERR_OK) {
        why = engine_update_wait(e, own_decide, &o);
        local_leave(l);
    }
    if (why != ERR_OK)
        err_note_set(own->note, "store %s cannot take its partitions: %s", s->name, err_name(why));
    return why;
}
