/* store_pg_ops.c - the ops of a write as statements over arrays.
 *
 * Of the rows of one key that a write changes several times only the last change counts, so the
 * deletes and the puts of a table are one statement each, and their order does not matter.
 *   Rows are looked for by key, one subquery each: a join may be turned round when the tables'
 * statistics say that next to nothing is there, and then reads all that a held snapshot keeps. */
#include "queue/store/local/rows.h"
#include "queue/store/pg/store_pg.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS_KEPT = 16, RECORDS_LOOKED_AT = 256, PRUNE_ODDS_BITS = 6 };

/* ---- one partition's part of a write ---- */

/* An op and the row it changes. */
struct keyed {
    struct row_key key;
    unsigned index;
    const struct queue_op *op;
};

struct part_writer {
    struct pg_group *b;
    const struct queue_write_part *part;
    struct keyed *last; /* the last op of each row */
    unsigned last_count;
};

static struct row_key key_of(struct queue_part p, const struct queue_op *op)
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
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* Only the last op of each row. */
static void find_last(struct part_writer *w)
{
    const struct queue_write_part *p = w->part;
    w->last = arena_calloc(&w->b->arena, p->ops_count, sizeof(*w->last));
    if (w->last == NULL) {
        w->b->full = true;
        return;
    }
    for (unsigned i = 0; i < p->ops_count; i++)
        w->last[i] =
            (struct keyed){ .key = key_of(p->part, &p->ops[i]), .index = i, .op = &p->ops[i] };
    qsort(w->last, p->ops_count, sizeof(*w->last), keyed_cmp);
    for (unsigned i = 0; i < p->ops_count; i++)
        if (i + 1 == p->ops_count ||
            !str_eq(row_key_str(&w->last[i].key), row_key_str(&w->last[i + 1].key)))
            w->last[w->last_count++] = w->last[i];
}

/* A new statement; its parameters, to be filled. NULL: the arena is full. */
static struct pg_params *statement_add(struct part_writer *w, enum pg_tag tag, const char *format)
{
    struct pg_group *b = w->b;
    struct pg_params *params = arena_alloc(&b->arena, sizeof(*params));
    const char *sql = store_pg_sql(&b->arena, w->part->part, format);
    if (params == NULL || sql == NULL) {
        b->full = true;
        return NULL;
    }
    pg_params_init(params, &b->arena);
    b->list[b->statements] = (struct pg_statement){ .sql = sql, .params = params };
    b->tags[b->statements++] = tag;
    return params;
}

static str copy_bytes(struct part_writer *w, str bytes)
{
    str copy = arena_copy(&w->b->arena, bytes);
    w->b->full = w->b->full || copy.p == NULL;
    return copy;
}

static str id_bytes(struct part_writer *w, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    return copy_bytes(w, (str){ .p = (const char *)bytes, .n = sizeof(bytes) });
}

/* ---- columns: the same field of many ops ---- */

struct columns {
    struct part_writer *w;
    const struct queue_op **ops;
    unsigned count;
    struct pg_params *params;
};

typedef str bytes_fn(struct part_writer *w, const struct queue_op *op);
typedef int64_t number_fn(const struct queue_op *op);

static void put_bytes_column(struct columns *c, bytes_fn *fn)
{
    str *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = fn(c->w, c->ops[i]);
    if (v != NULL)
        pg_put_bytes_array(c->params, v, c->count);
}

static void put_i64_column(struct columns *c, number_fn *fn)
{
    int64_t *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = fn(c->ops[i]);
    if (v != NULL)
        pg_put_i64s(c->params, v, c->count);
}

static void put_i32_column(struct columns *c, number_fn *fn)
{
    int32_t *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = (int32_t)fn(c->ops[i]);
    if (v != NULL)
        pg_put_i32s(c->params, v, c->count);
}

/* ---- batches ---- */

static bool all_are(const struct queue_batch *b, enum queue_item_state state)
{
    for (unsigned i = 0; i < b->count; i++)
        if (b->states[i] != state)
            return false;
    return true;
}

static str batch_first(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.batch.first);
}

static int64_t batch_count(const struct queue_op *op)
{
    return op->u.batch.count;
}

static int64_t batch_created(const struct queue_op *op)
{
    return op->u.batch.created_at.ns;
}

static int64_t batch_expire(const struct queue_op *op)
{
    return op->u.batch.expire_at.ns;
}

static int64_t batch_aside(const struct queue_op *op)
{
    const struct queue_batch *b = &op->u.batch;
    return memchr(b->states, ITEM_IN_PLACE, b->count) == NULL;
}

static str batch_order(struct part_writer *w, const struct queue_op *op)
{
    (void)w;
    return op->u.batch.order_key;
}

static int64_t batch_size(const struct queue_op *op)
{
    return (int64_t)op->u.batch.bytes.n;
}

static str batch_bytes(struct part_writer *w, const struct queue_op *op)
{
    (void)w;
    return op->u.batch.bytes;
}

static str batch_states(struct part_writer *w, const struct queue_op *op)
{
    (void)w;
    return (str){ .p = (const char *)op->u.batch.states, .n = op->u.batch.count };
}

static void put_batches(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {b} SELECT * FROM unnest($1::bytea[], $2::int4[], $3::int8[], $4::int8[],"
        " $5::int4[], $6::bytea[], $7::int4[], $8::bytea[])");
    if (c->params == NULL)
        return;
    put_bytes_column(c, batch_first);
    put_i32_column(c, batch_count);
    put_i64_column(c, batch_created);
    put_i64_column(c, batch_expire);
    put_i32_column(c, batch_aside);
    put_bytes_column(c, batch_order);
    put_i32_column(c, batch_size);
    put_bytes_column(c, batch_bytes);
}

/* Fails unless all of them are there, of that size. */
static void check_batches(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "SELECT 1 / (count(*) = $3)::int4 FROM unnest($1::bytea[], $2::int4[]) u(f, c)"
        " WHERE (SELECT count FROM {b} WHERE first = f) = c");
    if (c->params == NULL)
        return;
    put_bytes_column(c, batch_first);
    put_i32_column(c, batch_count);
    pg_put_i64(c->params, c->count);
}

static void put_states(struct columns *c)
{
    c->params = statement_add(c->w, PG_TAG_CHANGE,
                              "INSERT INTO {s} SELECT * FROM unnest($1::bytea[], $2::bytea[])"
                              " ON CONFLICT (first) DO UPDATE SET states = excluded.states");
    if (c->params == NULL)
        return;
    put_bytes_column(c, batch_first);
    put_bytes_column(c, batch_states);
}

static void delete_states(struct columns *c)
{
    c->params =
        statement_add(c->w, PG_TAG_CHANGE, "DELETE FROM {s} WHERE first = ANY($1::bytea[])");
    if (c->params != NULL)
        put_bytes_column(c, batch_first);
}

/* ---- entries, leases, keys ---- */

static str entry_id(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.entry.id);
}

static int64_t entry_kind(const struct queue_op *op)
{
    return op->u.entry.kind;
}

static int64_t entry_at(const struct queue_op *op)
{
    return op->u.entry.kind == ENTRY_SCHEDULED ? op->u.entry.enqueue_at.ns : 0;
}

static str entry_batch(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.entry.place.batch);
}

static int64_t entry_index(const struct queue_op *op)
{
    return op->u.entry.place.index;
}

static int64_t entry_attempts(const struct queue_op *op)
{
    return op->u.entry.attempts;
}

static int64_t entry_created(const struct queue_op *op)
{
    return op->u.entry.created_at.ns;
}

static int64_t entry_expire(const struct queue_op *op)
{
    return op->u.entry.expire_at.ns;
}

static str entry_order(struct part_writer *w, const struct queue_op *op)
{
    (void)w;
    return op->u.entry.order_key;
}

static void put_entry_key(struct columns *c)
{
    put_i32_column(c, entry_kind);
    put_i64_column(c, entry_at);
    put_bytes_column(c, entry_id);
}

static void put_entries(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {e} SELECT * FROM unnest($1::int4[], $2::int8[], $3::bytea[], $4::bytea[],"
        " $5::int4[], $6::int8[], $7::int8[], $8::int8[], $9::bytea[])"
        " ON CONFLICT (kind, at, id) DO UPDATE SET batch = excluded.batch, idx = excluded.idx,"
        " attempts = excluded.attempts, created = excluded.created, expire = excluded.expire,"
        " order_key = excluded.order_key");
    if (c->params == NULL)
        return;
    put_entry_key(c);
    put_bytes_column(c, entry_batch);
    put_i32_column(c, entry_index);
    put_i64_column(c, entry_attempts);
    put_i64_column(c, entry_created);
    put_i64_column(c, entry_expire);
    put_bytes_column(c, entry_order);
}

static void delete_entries(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "DELETE FROM {e} WHERE ctid = ANY(ARRAY(SELECT (SELECT x.ctid FROM {e} x WHERE kind = k"
        " AND at = a AND id = i) FROM unnest($1::int4[], $2::int8[], $3::bytea[]) u(k, a, i)))");
    if (c->params != NULL)
        put_entry_key(c);
}

static str lease_id(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.lease.id);
}

static str lease_batch(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.lease.place.batch);
}

static int64_t lease_index(const struct queue_op *op)
{
    return op->u.lease.place.index;
}

static int64_t lease_in_place(const struct queue_op *op)
{
    return op->u.lease.in_place;
}

static int64_t lease_deadline(const struct queue_op *op)
{
    return op->u.lease.deadline.ns;
}

static int64_t lease_attempts(const struct queue_op *op)
{
    return op->u.lease.attempts;
}

static int64_t lease_token(const struct queue_op *op)
{
    return (int64_t)op->u.lease.token;
}

static int64_t lease_created(const struct queue_op *op)
{
    return op->u.lease.created_at.ns;
}

static int64_t lease_expire(const struct queue_op *op)
{
    return op->u.lease.expire_at.ns;
}

static str lease_order(struct part_writer *w, const struct queue_op *op)
{
    (void)w;
    return op->u.lease.order_key;
}

static void put_leases(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {l} SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int4[], $4::int4[],"
        " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::bytea[])"
        " ON CONFLICT (id) DO UPDATE SET deadline = excluded.deadline,"
        " attempts = excluded.attempts, token = excluded.token, batch = excluded.batch,"
        " idx = excluded.idx, in_place = excluded.in_place, created = excluded.created,"
        " expire = excluded.expire, order_key = excluded.order_key");
    if (c->params == NULL)
        return;
    put_bytes_column(c, lease_id);
    put_bytes_column(c, lease_batch);
    put_i32_column(c, lease_index);
    put_i32_column(c, lease_in_place);
    put_i64_column(c, lease_deadline);
    put_i64_column(c, lease_attempts);
    put_i64_column(c, lease_token);
    put_i64_column(c, lease_created);
    put_i64_column(c, lease_expire);
    put_bytes_column(c, lease_order);
}

static void delete_leases(struct columns *c)
{
    c->params = statement_add(c->w, PG_TAG_CHANGE, "DELETE FROM {l} WHERE id = ANY($1::bytea[])");
    if (c->params != NULL)
        put_bytes_column(c, lease_id);
}

static int64_t key_kind(const struct queue_op *op)
{
    (void)op;
    return ROW_KEY;
}

/* What stands behind the prefix in a row's key. */
static str key_name(struct part_writer *w, const struct queue_op *op)
{
    struct row_key key = key_of(w->part->part, op);
    return copy_bytes(w, str_skip(row_key_str(&key), ROW_PREFIX_BYTES));
}

static str key_first(struct part_writer *w, const struct queue_op *op)
{
    unsigned char bytes[KSUID_BYTES + QUEUE_DIGEST_BYTES];
    ksuid_key(op->u.key.first, bytes);
    memcpy(bytes + KSUID_BYTES, op->u.key.digest, QUEUE_DIGEST_BYTES);
    bool digest = queue_key_has_digest(&op->u.key);
    return copy_bytes(w,
                      (str){ .p = (const char *)bytes, .n = digest ? sizeof(bytes) : KSUID_BYTES });
}

static int64_t key_count(const struct queue_op *op)
{
    return op->u.key.count;
}

static int64_t key_expire(const struct queue_op *op)
{
    return op->u.key.expire_at.ns;
}

static void put_keys(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {k} SELECT * FROM unnest($1::int4[], $2::bytea[], $3::bytea[], $4::int8[],"
        " $5::int8[]) ON CONFLICT (kind, name) DO UPDATE SET first = excluded.first,"
        " count = excluded.count, expire = excluded.expire");
    if (c->params == NULL)
        return;
    put_i32_column(c, key_kind);
    put_bytes_column(c, key_name);
    put_bytes_column(c, key_first);
    put_i64_column(c, key_count);
    put_i64_column(c, key_expire);
}

static void delete_keys(struct columns *c)
{
    c->params = statement_add(
        c->w, PG_TAG_CHANGE,
        "DELETE FROM {k} WHERE ctid = ANY(ARRAY(SELECT (SELECT x.ctid FROM {k} x WHERE kind = k"
        " AND name = n) FROM unnest($1::int4[], $2::bytea[]) u(k, n)))");
    if (c->params == NULL)
        return;
    put_i32_column(c, key_kind);
    put_bytes_column(c, key_name);
}

/* ---- the whole part ---- */

/* Adds the statement for those of the last ops that fit. */
static void add_for(struct part_writer *w, bool (*fits)(const struct queue_op *op),
                    void (*add)(struct columns *c))
{
    struct columns c = { .w = w,
                         .ops = arena_calloc(&w->b->arena, w->last_count + 1u, sizeof(*c.ops)) };
    if (c.ops == NULL) {
        w->b->full = true;
        return;
    }
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
    return is_states(op) && all_are(&op->u.batch, ITEM_GONE);
}

static bool has_states(const struct queue_op *op)
{
    if (is_states(op))
        return !all_are(&op->u.batch, ITEM_GONE);
    return op->kind == OP_BATCH_PUT && !all_are(&op->u.batch, ITEM_IN_PLACE);
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

static void add_fence(struct part_writer *w)
{
    struct pg_params *params = statement_add(
        w, PG_TAG_FENCE,
        "SELECT 1 / count(*)::int4 FROM (SELECT FROM queue_part WHERE queue = $1 AND partition = $2"
        " AND epoch = $3 FOR SHARE) o");
    if (params == NULL)
        return;
    pg_put_i64(params, w->part->part.queue);
    pg_put_i32(params, (int32_t)w->part->part.partition);
    pg_put_i64(params, (int64_t)w->part->epoch);
}

/* The batches put by a write: each of them, also one whose states change in the same write. */
static void add_batches(struct part_writer *w, uint64_t *bytes, struct ksuid *last_id)
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
        put_batches(&c);
}

static str gone_first(struct part_writer *w, const struct queue_op *op)
{
    return id_bytes(w, op->u.batch.first);
}

/* Counts from the newest row on, whatever failed before; batches that are gone go with it, for
 * their bytes. */
static void add_record(struct part_writer *w, uint64_t bytes, struct ksuid last_id)
{
    struct columns c = { .w = w,
                         .ops = arena_calloc(&w->b->arena, w->last_count + 1u, sizeof(*c.ops)) };
    c.params = statement_add(
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
    put_bytes_column(&c, gone_first);
}

/* Old records go, looked for among the newest only: behind are those that a held snapshot keeps.
 * The few that are missed go at the next own. */
static void add_prune(struct part_writer *w)
{
    struct pg_params *params =
        statement_add(w, PG_TAG_OTHER,
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

void pg_group_add_part(struct pg_group *g, const struct queue_write_part *part)
{
    struct part_writer w = { .b = g, .part = part };
    struct ksuid last_id = part->last_id;
    uint64_t bytes = 0;
    find_last(&w);
    if (g->full)
        return;
    add_fence(&w);
    add_batches(&w, &bytes, &last_id);
    add_for(&w, is_states, check_batches);
    add_for(&w, has_states, put_states);
    add_for(&w, is_gone, delete_states);
    add_for(&w, is_entry_delete, delete_entries);
    add_for(&w, is_entry_put, put_entries);
    add_for(&w, is_lease_delete, delete_leases);
    add_for(&w, is_lease_put, put_leases);
    add_for(&w, is_key_delete, delete_keys);
    add_for(&w, is_key_put, put_keys);
    add_record(&w, bytes, last_id);
    if (prune_is_due(g->s))
        add_prune(&w);
    for (unsigned i = 0; i < g->statements; i++)
        g->full = g->full || (g->list[i].params != NULL && g->list[i].params->failed);
}
