/* store_pg_part.c - one partition's part of a write as statements, for store_pg_write.c.
 *   Of the rows of one key that a write changes several times only the last change counts, so
 * the deletes and the puts of a table are one statement each, and their order does not matter. */
#include "queue/store/pg/store_pg_ops.h"

#include <stdlib.h>

/* Records that stay; how far back a write looks for old ones; one write in 2^PRUNE_ODDS_BITS
 * does. */
enum { RECORDS_KEPT = 16, RECORDS_LOOKED_AT = 256, PRUNE_ODDS_BITS = 6 };

/* ---- the last op of each row ---- */

/* Keys as a local store has them: equal keys mean the same row. */
struct row_key part_row_of(struct queue_part p, const struct queue_op *op)
{
    switch (op->kind) {
    case OP_BATCH_PUT:
    case OP_BATCH_STATES:
        return row_key_id(p, ROW_BATCH, op->u.batch.first);
    case OP_ENTRY_PUT:
    case OP_ENTRY_DELETE:
        return op->u.entry.kind == ENTRY_SCHEDULED
                   ? row_key_scheduled(p, op->u.entry.enqueue_at, op->u.entry.id)
                   : row_key_id(p, ROW_READY, op->u.entry.id);
    case OP_LEASE_PUT:
    case OP_LEASE_DELETE:
        return row_key_id(p, ROW_LEASE, op->u.lease.id);
    case OP_KEY_PUT:
    case OP_KEY_DELETE:
        return row_key_hash(p, op->u.key.hash);
    case OP_KINDS:
        break;
    }
    INVARIANT(false);
    return row_key_prefix(p, ROW_RECORD);
}

static int keyed_cmp(const void *a, const void *b)
{
    const struct keyed *x = a;
    const struct keyed *y = b;
    int order = str_cmp(row_key_str(&x->key), row_key_str(&y->key));
    /* By index within a key, so that the last one is the last change. */
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* Only the last op of each row. */
static void part_find_last(struct part_writer *w)
{
    const struct queue_write_part *p = w->part;
    w->last = arena_calloc(&w->b->arena, p->ops_count, sizeof(*w->last));
    /* full: the group is not sent; its writes get ERR_LIMIT. */
    if (w->last == NULL) {
        w->b->full = true;
        return;
    }
    for (unsigned i = 0; i < p->ops_count; i++)
        w->last[i] =
            (struct keyed){ .key = part_row_of(p->part, &p->ops[i]), .index = i, .op = &p->ops[i] };
    qsort(w->last, p->ops_count, sizeof(*w->last), keyed_cmp);
    /* In place: last_count is never ahead of i. */
    for (unsigned i = 0; i < p->ops_count; i++)
        if (i + 1 == p->ops_count ||
            !str_eq(row_key_str(&w->last[i].key), row_key_str(&w->last[i + 1].key)))
            w->last[w->last_count++] = w->last[i];
}

/* ---- the whole part ---- */

/* Adds the statement for those of the last ops that fit. */
static void part_add(struct part_writer *w, bool (*fits)(const struct queue_op *op),
                     void (*add)(struct columns *c))
{
    struct columns c = { .w = w,
                         .ops = arena_calloc(&w->b->arena, w->last_count + 1u, sizeof(*c.ops)) };
    if (c.ops == NULL) {
        w->b->full = true;
        return;
    }
    /* fits chooses the kind, add makes its statement. */
    for (unsigned i = 0; i < w->last_count; i++)
        if (fits(w->last[i].op))
            c.ops[c.count++] = w->last[i].op;
    if (c.count > 0)
        add(&c);
}

static bool is_states(const struct queue_op *op)
{
    return op->kind == OP_BATCH_STATES;
}

static bool is_gone(const struct queue_op *op)
{
    return is_states(op) && ops_states_are(&op->u.batch, ITEM_GONE);
}

/* A batch whose items are all in place needs no row of states. */
static bool has_states(const struct queue_op *op)
{
    if (is_states(op))
        return !ops_states_are(&op->u.batch, ITEM_GONE);
    return op->kind == OP_BATCH_PUT && !ops_states_are(&op->u.batch, ITEM_IN_PLACE);
}

static bool is_entry_put(const struct queue_op *op)
{
    return op->kind == OP_ENTRY_PUT;
}

static bool is_entry_delete(const struct queue_op *op)
{
    return op->kind == OP_ENTRY_DELETE;
}

static bool is_lease_put(const struct queue_op *op)
{
    return op->kind == OP_LEASE_PUT;
}

static bool is_lease_delete(const struct queue_op *op)
{
    return op->kind == OP_LEASE_DELETE;
}

static bool is_key_put(const struct queue_op *op)
{
    return op->kind == OP_KEY_PUT;
}

static bool is_key_delete(const struct queue_op *op)
{
    return op->kind == OP_KEY_DELETE;
}

/* Division by zero when the epoch is another: the write is of an owner from before. FOR SHARE
 * keeps a new owner waiting until this transaction ends. */
static void part_add_fence(struct part_writer *w)
{
    struct pg_params *params = ops_statement(
        w, PG_TAG_FENCE,
        "SELECT 1 / count(*)::int4 FROM (SELECT FROM queue_part WHERE queue = $1 AND partition = $2"
        " AND epoch = $3 FOR SHARE) o");
    if (params == NULL)
        return;
    pg_put_i64(params, w->part->part.queue);
    pg_put_i32(params, (int32_t)w->part->part.partition);
    pg_put_i64(params, (int64_t)w->part->epoch);
}

/* The batches put by a write: each of them, also one whose states change in the same write. Adds
 * up their bytes, and the greatest id. */
static void part_add_batches(struct part_writer *w, uint64_t *bytes, struct ksuid *last_id)
{
    const struct queue_write_part *p = w->part;
    struct columns c = { .w = w,
                         .ops = arena_calloc(&w->b->arena, p->ops_count + 1u, sizeof(*c.ops)) };
    if (c.ops == NULL) {
        w->b->full = true;
        return;
    }
    for (unsigned i = 0; i < p->ops_count; i++) {
        if (p->ops[i].kind != OP_BATCH_PUT)
            continue;
        const struct queue_batch *b = &p->ops[i].u.batch;
        struct ksuid last = ksuid_add(b->first, b->count - 1u);
        *last_id = ksuid_cmp(last, *last_id) > 0 ? last : *last_id;
        *bytes += b->bytes.n;
        c.ops[c.count++] = &p->ops[i];
    }
    if (c.count > 0)
        ops_put_batches(&c);
}

static str gone_first(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.batch.first);
}

/* The next row of the record: counts from the newest row on, whatever failed before. Batches
 * that are gone are deleted in the same statement, for their bytes. Without a row to begin with
 * the statement fails. */
static void part_add_record(struct part_writer *w, uint64_t bytes, struct ksuid last_id)
{
    struct columns c = { .w = w,
                         .ops = arena_calloc(&w->b->arena, w->last_count + 1u, sizeof(*c.ops)) };
    c.params = ops_statement(
        w, PG_TAG_CHANGE,
        "WITH d AS (DELETE FROM {b} WHERE first = ANY($7::bytea[]) RETURNING size), i AS ("
        "INSERT INTO {r} SELECT n + 1, ready + $1, scheduled + $2, leased + $3,"
        " bytes + $4 - coalesce((SELECT sum(size) FROM d), 0), greatest(last_id, $5),"
        " greatest(settled, $6) FROM {r} ORDER BY n DESC LIMIT 1 RETURNING 1)"
        " SELECT 1 / count(*)::int4 FROM i");
    if (c.ops == NULL || c.params == NULL) {
        w->b->full = true;
        return;
    }
    for (unsigned i = 0; i < w->last_count; i++)
        if (is_gone(w->last[i].op))
            c.ops[c.count++] = w->last[i].op;
    pg_put_i64(c.params, w->part->ready);
    pg_put_i64(c.params, w->part->scheduled);
    pg_put_i64(c.params, w->part->leased);
    pg_put_i64(c.params, (int64_t)bytes);
    pg_put_id(c.params, last_id);
    pg_put_id(c.params, w->part->settled);
    ops_bytes_column(&c, gone_first);
}

/* Old records go, looked for among the newest only: behind are those that a held snapshot keeps.
 * The few that are missed go at the next own. */
static void part_add_prune(struct part_writer *w)
{
    struct pg_params *params =
        ops_statement(w, PG_TAG_OTHER,
                      "WITH m AS (SELECT max(n) AS n FROM {r}) DELETE FROM {r}"
                      " WHERE n < (SELECT n FROM m) - $1 AND n > (SELECT n FROM m) - $2");
    if (params == NULL)
        return;
    pg_put_i64(params, RECORDS_KEPT);
    pg_put_i64(params, RECORDS_LOOKED_AT);
}

/* One write in 64, spread so that writes taking turns in some order all come to it. */
static bool prune_is_due(struct store_pg *s)
{
    return s->writes++ * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PRUNE_ODDS_BITS) == 0;
}

/* The fence comes first: without ownership nothing else runs. The record comes last, since it
 * deletes the batches that are gone. */
void pg_group_add_part(struct pg_group *g, const struct queue_write_part *part)
{
    struct part_writer w = { .b = g, .part = part };
    struct ksuid last_id = part->last_id;
    uint64_t bytes = 0;
    part_find_last(&w);
    if (g->full)
        return;
    part_add_fence(&w);
    part_add_batches(&w, &bytes, &last_id);
    part_add(&w, is_states, ops_check_batches);
    part_add(&w, has_states, ops_put_states);
    part_add(&w, is_gone, ops_delete_states);
    part_add(&w, is_entry_delete, ops_delete_entries);
    part_add(&w, is_entry_put, ops_put_entries);
    part_add(&w, is_lease_delete, ops_delete_leases);
    part_add(&w, is_lease_put, ops_put_leases);
    part_add(&w, is_key_delete, ops_delete_keys);
    part_add(&w, is_key_put, ops_put_keys);
    part_add_record(&w, bytes, last_id);
    if (prune_is_due(g->s))
        part_add_prune(&w);
    /* params that did not fit are found here, once for all. */
    for (unsigned i = 0; i < g->statements; i++)
        g->full = g->full || (g->list[i].params != NULL && g->list[i].params->failed);
}
