/* store_pg_read.c - single batches and bodies, out of PostgreSQL. */
#include "queue/item.h"
#include "queue/store/pg/store_pg.h"

#include <string.h>

enum { BODY_WHOLE_BYTES_MAX = 64 << 10 /* a batch up to this is fetched whole */ };

err pg_look_begin(struct pg_look *k, struct queue_store *q, struct queue_part p)
{
    *k = (struct pg_look){ .s = store_pg_of(q), .part = p };
    err why = store_pg_reader(k->s, &k->reader);
    if (why == ERR_OK)
        arena_init(&k->arena, PG_ARENA_BYTES_MAX);
    return why;
}

void pg_look_end(struct pg_look *k)
{
    struct pg_outcome o = { .why = ERR_OK };
    if (k->walking)
        pg_run_one(k->reader->conn, "ROLLBACK", NULL, store_pg_deadline(k->s), NULL, &o);
    if (o.why != ERR_OK)
        pg_close(&k->reader->conn);
    store_pg_reader_back(&k->reader);
    arena_fini(&k->arena);
}

/* A partition that is not there has no tables. */
static err look_err(const struct pg_outcome *o)
{
    if (o->why == ERR_OK)
        return ERR_OK;
    return strcmp(o->state, "42P01") == 0 ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
}

err pg_look_sql(struct pg_look *k, const char *format, const struct pg_params *params,
                struct pg_rows **rows)
{
    struct pg_outcome o;
    const char *sql = store_pg_sql(&k->arena, k->part, format);
    if (sql == NULL || (params != NULL && params->failed))
        return ERR_LIMIT;
    pg_run_one(k->reader->conn, sql, params, store_pg_deadline(k->s), rows, &o);
    store_pg_keep(k->s, &o);
    return look_err(&o);
}

/* ---- batches and bodies ---- */

static err batch_copy(const struct queue_batch *b, struct arena *a, struct queue_batch *out)
{
    str states = arena_copy(a, (str){ .p = (const char *)b->states, .n = b->count });
    str order = arena_copy(a, b->order_key);
    if (states.p == NULL || order.p == NULL)
        return ERR_LIMIT;
    *out = *b;
    out->states = (const unsigned char *)states.p;
    out->order_key = order;
    return ERR_OK;
}

err store_pg_batch(struct queue_store *q, struct queue_part part, struct ksuid first,
                   struct arena *a, struct queue_batch *out)
{
    struct pg_look k;
    struct pg_rows *rows = NULL;
    struct pg_params params;
    struct queue_batch b;
    err why = pg_look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    pg_params_init(&params, &k.arena);
    pg_put_id(&params, first);
    why = pg_look_sql(&k,
                      "SELECT " PG_BATCH_COLUMNS
                      " FROM {b} b LEFT JOIN {s} s ON s.first = b.first WHERE b.first = $1",
                      &params, &rows);
    if (why == ERR_OK)
        why = pg_rows_count(rows) == 1 ? pg_batch_at(rows, 0, &b) : ERR_NOT_FOUND;
    if (why == ERR_OK)
        why = batch_copy(&b, a, out);
    pg_rows_free(&rows);
    pg_look_end(&k);
    return why;
}

/* A batch that bodies are read from; bytes of a small one. */
struct body_batch {
    struct ksuid first;
    unsigned count;
    uint64_t size;
    str bytes;
};

/* n bytes at offset of a large batch, as rows hold them. */
static err bytes_fetch(struct pg_look *k, const struct body_batch *b, struct item_place at,
                       struct pg_rows **rows)
{
    struct pg_params params;
    pg_params_init(&params, &k->arena);
    pg_put_id(&params, b->first);
    pg_put_i32(&params, (int32_t)at.offset + 1);
    pg_put_i32(&params, (int32_t)at.n);
    err why = pg_look_sql(k, "SELECT substring(bytes from $2 for $3) FROM {b} WHERE first = $1",
                          &params, rows);
    if (why == ERR_OK && pg_rows_count(*rows) != 1)
        why = ERR_NOT_FOUND;
    return why;
}

static err span_of(const struct body_batch *b, unsigned index, str slots, struct item_span *out)
{
    return item_slot_decode(slots, index, b->count, b->size, out);
}

static err body_find(struct pg_look *k, const struct body_batch *b, unsigned index,
                     struct item_span *out)
{
    struct item_place at = item_slot_place(index);
    struct pg_rows *slots = NULL;
    if (index >= b->count)
        return ERR_NOT_FOUND;
    if (b->size <= BODY_WHOLE_BYTES_MAX && (b->bytes.n != b->size || at.offset + at.n > b->size))
        return ERR_CORRUPT;
    if (b->size <= BODY_WHOLE_BYTES_MAX)
        return span_of(b, index, str_take(str_skip(b->bytes, at.offset), at.n), out);
    err why = bytes_fetch(k, b, at, &slots);
    if (why == ERR_OK)
        why = span_of(b, index, pg_bytes(slots, 0, 0), out);
    pg_rows_free(&slots);
    return why;
}

static err body_copy(str item, unsigned index, const struct item_span *span, struct arena *a,
                     str *out)
{
    if (!item_fits(item, index, span->hash))
        return ERR_CORRUPT;
    *out = arena_copy(a, item);
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

static err body_read(struct pg_look *k, const struct body_batch *b, unsigned index,
                     const struct item_span *span, struct arena *a, str *out)
{
    struct pg_rows *item = NULL;
    if (b->size <= BODY_WHOLE_BYTES_MAX)
        return body_copy(str_take(str_skip(b->bytes, span->offset), span->n), index, span, a, out);
    err why = bytes_fetch(k, b, (struct item_place){ .offset = span->offset, .n = span->n }, &item);
    if (why == ERR_OK)
        why = body_copy(pg_bytes(item, 0, 0), index, span, a, out);
    pg_rows_free(&item);
    return why;
}

/* The rows of all batches that places name, ordered by id. */
static err batches_fetch(struct pg_look *k, const struct queue_place *at, unsigned count,
                         struct pg_rows **rows)
{
    unsigned char(*ids)[KSUID_BYTES] = arena_calloc(&k->arena, count, sizeof(*ids));
    str *firsts = arena_calloc(&k->arena, count, sizeof(*firsts));
    struct pg_params params;
    if (ids == NULL || firsts == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++) {
        ksuid_key(at[i].batch, ids[i]);
        firsts[i] = (str){ .p = (const char *)ids[i], .n = KSUID_BYTES };
    }
    pg_params_init(&params, &k->arena);
    pg_put_bytes_array(&params, firsts, count);
    pg_put_i32(&params, BODY_WHOLE_BYTES_MAX);
    return pg_look_sql(
        k,
        "SELECT first, count, size, CASE WHEN size <= $2 AND octet_length(bytes) = size THEN bytes"
        " ELSE ''::bytea END FROM {b} WHERE first = ANY($1) ORDER BY first",
        &params, rows);
}

static err batch_in(const struct pg_rows *rows, struct ksuid first, struct body_batch *out)
{
    unsigned low = 0;
    unsigned high = pg_rows_count(rows);
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        struct ksuid id;
        if (!pg_id(rows, mid, 0, &id))
            return ERR_CORRUPT;
        int order = ksuid_cmp(id, first);
        if (order == 0) {
            *out = (struct body_batch){
                .first = first,
                .count = (unsigned)pg_i64(rows, mid, 1),
                .size = (uint64_t)pg_i64(rows, mid, 2),
                .bytes = pg_bytes(rows, mid, 3),
            };
            return ERR_OK;
        }
        low = order < 0 ? mid + 1 : low;
        high = order < 0 ? high : mid;
    }
    return ERR_NOT_FOUND;
}

static err bodies_read(struct pg_look *k, const struct pg_rows *rows, struct queue_bodies *w)
{
    uint64_t bytes = 0;
    for (w->read = 0; w->read < w->count; w->read++) {
        const struct queue_place *at = &w->at[w->read];
        struct body_batch b;
        struct item_span span;
        err why = batch_in(rows, at->batch, &b);
        if (why == ERR_OK)
            why = body_find(k, &b, at->index, &span);
        if (why == ERR_OK && queue_bodies_full(w, bytes, span.n))
            return ERR_OK;
        if (why == ERR_OK)
            why = body_read(k, &b, at->index, &span, w->arena, &w->out[w->read]);
        if (why != ERR_OK)
            return why;
        bytes += span.n;
    }
    return ERR_OK;
}

err store_pg_bodies(struct queue_store *q, struct queue_part part, struct queue_bodies *b)
{
    struct pg_look k;
    struct pg_rows *rows = NULL;
    if (b->now)
        return ERR_AGAIN;
    err why = pg_look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    why = batches_fetch(&k, b->at, b->count, &rows);
    if (why == ERR_OK)
        why = bodies_read(&k, rows, b);
    pg_rows_free(&rows);
    pg_look_end(&k);
    return why;
}
