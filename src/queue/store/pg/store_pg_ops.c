/* store_pg_ops.c - ops of one kind as one statement over arrays: a column for each field. For
 * store_pg_part.c.
 *   The functions of one op name its fields; the statements say in which order columns stand.
 * Rows are looked for by key, one subquery each: a join may be turned round when the tables'
 * statistics say that next to nothing is there, and then reads all that a held snapshot keeps. */
#include "queue/store/pg/store_pg_ops.h"

#include <string.h>

/* ---- statements ---- */

/* tag says what a failure of the statement means (result_of in store_pg_write.c). */
struct pg_params *ops_statement(struct part_writer *w, enum pg_tag tag, const char *format)
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

str ops_bytes(struct part_writer *w, str bytes)
{
    str copy = arena_copy(&w->b->arena, bytes);
    w->b->full = w->b->full || copy.p == NULL;
    return copy;
}

/* In the arena: parameters are sent when the group goes. */
str ops_id(struct part_writer *w, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    return ops_bytes(w, (str){ .p = (const char *)bytes, .n = sizeof(bytes) });
}

/* ---- columns: the same field of many ops ---- */

/* NULL columns are left out: full stops the group anyway. */
void ops_bytes_column(struct columns *c, bytes_fn *fn)
{
    str *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = fn(c->w, c->ops[i]);
    if (v != NULL)
        pg_put_bytes_array(c->params, v, c->count);
}

static void columns_put_i64(struct columns *c, number_fn *fn)
{
    int64_t *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = fn(c->ops[i]);
    if (v != NULL)
        pg_put_i64s(c->params, v, c->count);
}

static void columns_put_i32(struct columns *c, number_fn *fn)
{
    int32_t *v = arena_calloc(&c->w->b->arena, c->count, sizeof(*v));
    c->w->b->full = c->w->b->full || v == NULL;
    for (unsigned i = 0; v != NULL && i < c->count; i++)
        v[i] = (int32_t)fn(c->ops[i]);
    if (v != NULL)
        pg_put_i32s(c->params, v, c->count);
}

/* ---- batches ---- */

bool ops_states_are(const struct queue_batch *b, enum queue_item_state state)
{
    for (unsigned i = 0; i < b->count; i++)
        if (b->states[i] != state)
            return false;
    return true;
}

static str batch_first(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.batch.first);
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

/* 1: no item in place, so no walk over those in place meets it. */
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

/* size stands beside bytes, so that bytes that were cut off are found. */
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

/* An id that is there already fails by the primary key, as damage. */
void ops_put_batches(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {b} SELECT * FROM unnest($1::bytea[], $2::int4[], $3::int8[], $4::int8[],"
        " $5::int4[], $6::bytea[], $7::int4[], $8::bytea[])");
    if (c->params == NULL)
        return;
    ops_bytes_column(c, batch_first);
    columns_put_i32(c, batch_count);
    columns_put_i64(c, batch_created);
    columns_put_i64(c, batch_expire);
    columns_put_i32(c, batch_aside);
    ops_bytes_column(c, batch_order);
    columns_put_i32(c, batch_size);
    ops_bytes_column(c, batch_bytes);
}

void ops_check_batches(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        /* Division by zero when one is missing or has another count: the transaction fails. */
        "SELECT 1 / (count(*) = $3)::int4 FROM unnest($1::bytea[], $2::int4[]) u(f, c)"
        " WHERE (SELECT count FROM {b} WHERE first = f) = c");
    if (c->params == NULL)
        return;
    ops_bytes_column(c, batch_first);
    columns_put_i32(c, batch_count);
    pg_put_i64(c->params, c->count);
}

/* A batch whose items are all in place has no row here: its first change inserts one. */
void ops_put_states(struct columns *c)
{
    c->params = ops_statement(c->w, PG_TAG_CHANGE,
                              "INSERT INTO {s} SELECT * FROM unnest($1::bytea[], $2::bytea[])"
                              " ON CONFLICT (first) DO UPDATE SET states = excluded.states");
    if (c->params == NULL)
        return;
    ops_bytes_column(c, batch_first);
    ops_bytes_column(c, batch_states);
}

void ops_delete_states(struct columns *c)
{
    /* The batch itself goes in part_add_record, which needs its size. */
    c->params =
        ops_statement(c->w, PG_TAG_CHANGE, "DELETE FROM {s} WHERE first = ANY($1::bytea[])");
    if (c->params != NULL)
        ops_bytes_column(c, batch_first);
}

/* ---- entries, leases, keys ---- */

static str entry_id(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.entry.id);
}

static int64_t entry_kind(const struct queue_op *op)
{
    return op->u.entry.kind;
}

/* Ready entries have no instant in their key. */
static int64_t entry_at(const struct queue_op *op)
{
    return op->u.entry.kind == ENTRY_SCHEDULED ? op->u.entry.enqueue_at.ns : 0;
}

static str entry_batch(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.entry.place.batch);
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
    columns_put_i32(c, entry_kind);
    columns_put_i64(c, entry_at);
    ops_bytes_column(c, entry_id);
}

void ops_put_entries(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {e} SELECT * FROM unnest($1::int4[], $2::int8[], $3::bytea[], $4::bytea[],"
        " $5::int4[], $6::int8[], $7::int8[], $8::int8[], $9::bytea[])"
        /* The same entry may be put again. */
        " ON CONFLICT (kind, at, id) DO UPDATE SET batch = excluded.batch, idx = excluded.idx,"
        " attempts = excluded.attempts, created = excluded.created, expire = excluded.expire,"
        " order_key = excluded.order_key");
    if (c->params == NULL)
        return;
    put_entry_key(c);
    ops_bytes_column(c, entry_batch);
    columns_put_i32(c, entry_index);
    columns_put_i64(c, entry_attempts);
    columns_put_i64(c, entry_created);
    columns_put_i64(c, entry_expire);
    ops_bytes_column(c, entry_order);
}

void ops_delete_entries(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        /* ctid: each row is found by its key, and deleted where it stands. */
        "DELETE FROM {e} WHERE ctid = ANY(ARRAY(SELECT (SELECT x.ctid FROM {e} x WHERE kind = k"
        " AND at = a AND id = i) FROM unnest($1::int4[], $2::int8[], $3::bytea[]) u(k, a, i)))");
    if (c->params != NULL)
        put_entry_key(c);
}

static str lease_id(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.lease.id);
}

static str lease_batch(struct part_writer *w, const struct queue_op *op)
{
    return ops_id(w, op->u.lease.place.batch);
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

void ops_put_leases(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {l} SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int4[], $4::int4[],"
        " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::bytea[])"
        " ON CONFLICT (id) DO UPDATE SET deadline = excluded.deadline,"
        " attempts = excluded.attempts, token = excluded.token, batch = excluded.batch,"
        " idx = excluded.idx, in_place = excluded.in_place, created = excluded.created,"
        " expire = excluded.expire, order_key = excluded.order_key");
    if (c->params == NULL)
        return;
    ops_bytes_column(c, lease_id);
    ops_bytes_column(c, lease_batch);
    columns_put_i32(c, lease_index);
    columns_put_i32(c, lease_in_place);
    columns_put_i64(c, lease_deadline);
    columns_put_i64(c, lease_attempts);
    columns_put_i64(c, lease_token);
    columns_put_i64(c, lease_created);
    columns_put_i64(c, lease_expire);
    ops_bytes_column(c, lease_order);
}

/* Leases are few for each write: a plain list of ids. */
void ops_delete_leases(struct columns *c)
{
    c->params = ops_statement(c->w, PG_TAG_CHANGE, "DELETE FROM {l} WHERE id = ANY($1::bytea[])");
    if (c->params != NULL)
        ops_bytes_column(c, lease_id);
}

static int64_t key_kind(const struct queue_op *op)
{
    (void)op;
    return ROW_KEY;
}

/* What stands behind the prefix in a local row's key: the hash. */
static str key_name(struct part_writer *w, const struct queue_op *op)
{
    struct row_key key = part_row_of(w->part->part, op);
    return ops_bytes(w, str_skip(row_key_str(&key), ROW_PREFIX_BYTES));
}

/* The digest stands behind the id, if there is one. */
static str key_first(struct part_writer *w, const struct queue_op *op)
{
    unsigned char bytes[KSUID_BYTES + QUEUE_DIGEST_BYTES];
    ksuid_key(op->u.key.first, bytes);
    memcpy(bytes + KSUID_BYTES, op->u.key.digest, QUEUE_DIGEST_BYTES);
    bool digest = queue_key_has_digest(&op->u.key);
    return ops_bytes(w,
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

void ops_put_keys(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        "INSERT INTO {k} SELECT * FROM unnest($1::int4[], $2::bytea[], $3::bytea[], $4::int8[],"
        " $5::int8[]) ON CONFLICT (kind, name) DO UPDATE SET first = excluded.first,"
        " count = excluded.count, expire = excluded.expire");
    if (c->params == NULL)
        return;
    columns_put_i32(c, key_kind);
    ops_bytes_column(c, key_name);
    ops_bytes_column(c, key_first);
    columns_put_i64(c, key_count);
    columns_put_i64(c, key_expire);
}

void ops_delete_keys(struct columns *c)
{
    c->params = ops_statement(
        c->w, PG_TAG_CHANGE,
        "DELETE FROM {k} WHERE ctid = ANY(ARRAY(SELECT (SELECT x.ctid FROM {k} x WHERE kind = k"
        " AND name = n) FROM unnest($1::int4[], $2::bytea[]) u(k, n)))");
    if (c->params == NULL)
        return;
    columns_put_i32(c, key_kind);
    ops_bytes_column(c, key_name);
}
