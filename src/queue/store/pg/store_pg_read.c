/* store_pg_read.c - single batches and bodies, out of PostgreSQL. */
#include "queue/item.h"
#include "queue/store/pg/store_pg.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_WHOLE_BYTES_MAX = 64 << 10 /* a batch up to this is fetched whole */ };

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

struct batch_ask {
    struct pg_ask ask;
    struct queue_batch_look look;
};

static bool batch_next(struct pg_ask *k)
{
    const struct queue_batch_look *look = &CONTAINER_OF(k, struct batch_ask, ask)->look;
    struct queue_batch b;
    if (k->step == 0) {
        struct pg_params *params = pg_ask_params(k);
        pg_put_id(params, look->first);
        pg_ask_add(k,
                   "SELECT " PG_BATCH_COLUMNS
                   " FROM {b} b LEFT JOIN {s} s ON s.first = b.first WHERE b.first = $1",
                   params);
        return true;
    }
    k->why = pg_rows_count(k->got[0]) == 1 ? pg_batch_at(k->got[0], 0, &b) : ERR_NOT_FOUND;
    if (k->why == ERR_OK)
        k->why = batch_copy(&b, look->arena, look->out);
    return false;
}

static void batch_free(struct pg_ask *k)
{
    free(CONTAINER_OF(k, struct batch_ask, ask));
}

err store_pg_batch(struct queue_store *q, struct queue_part p, const struct queue_batch_look *look)
{
    struct batch_ask *b = calloc(1, sizeof *b);
    INVARIANT(b != NULL);
    *b = (struct batch_ask){ .ask = { .next = batch_next, .free = batch_free }, .look = *look };
    return pg_ask_run(&b->ask, q, p, look->later);
}

/* A batch that bodies are read from; bytes of a small one. */
struct body_batch {
    struct ksuid first;
    unsigned count;
    uint64_t size;
    str bytes;
};

/* Of a large batch the slot of an item is read, which says where its body is, and then that. */
enum body_wait { BODY_NONE, BODY_SLOT, BODY_BYTES };
struct bodies_ask {
    struct pg_ask ask;
    struct queue_bodies *w;
    struct pg_rows *batches; /* all that places name, ordered by id */
    uint64_t bytes;          /* of the bodies that were read */
    enum body_wait waits;    /* what was asked of the next body */
    struct item_span span;   /* of it */
};

/* n bytes at offset of a large batch. */
static void bytes_add(struct pg_ask *k, const struct body_batch *b, struct item_place at)
{
    struct pg_params *params = pg_ask_params(k);
    pg_put_id(params, b->first);
    pg_put_i32(params, (int32_t)at.offset + 1);
    pg_put_i32(params, (int32_t)at.n);
    pg_ask_add(k, "SELECT substring(bytes from $2 for $3) FROM {b} WHERE first = $1", params);
}

/* What bytes_add asked for. */
static err bytes_take(const struct pg_ask *k, str *out)
{
    if (pg_rows_count(k->got[0]) != 1)
        return ERR_NOT_FOUND;
    *out = pg_bytes(k->got[0], 0, 0);
    return ERR_OK;
}

static void batches_add(struct bodies_ask *a)
{
    struct pg_ask *k = &a->ask;
    const struct queue_bodies *w = a->w;
    struct pg_params *params = pg_ask_params(k);
    unsigned char(*ids)[KSUID_BYTES] = arena_calloc(&k->arena, w->count, sizeof(*ids));
    str *firsts = arena_calloc(&k->arena, w->count, sizeof(*firsts));
    params->failed = ids == NULL || firsts == NULL;
    for (unsigned i = 0; i < w->count && !params->failed; i++) {
        ksuid_key(w->at[i].batch, ids[i]);
        firsts[i] = (str){ .p = (const char *)ids[i], .n = KSUID_BYTES };
    }
    if (!params->failed)
        pg_put_bytes_array(params, firsts, w->count);
    pg_put_i32(params, BODY_WHOLE_BYTES_MAX);
    pg_ask_add(
        k,
        "SELECT first, count, size, CASE WHEN size <= $2 AND octet_length(bytes) = size THEN bytes"
        " ELSE ''::bytea END FROM {b} WHERE first = ANY($1) ORDER BY first",
        params);
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

static err body_copy(struct bodies_ask *a, unsigned index, str item)
{
    struct queue_bodies *w = a->w;
    if (!item_fits(item, index, a->span.hash))
        return ERR_CORRUPT;
    str *out = &w->out[w->read];
    *out = arena_copy(w->arena, item);
    if (out->p == NULL)
        return ERR_LIMIT;
    a->bytes += a->span.n;
    w->read++;
    a->waits = BODY_NONE;
    return ERR_OK;
}

/* Where the body is: it is read, unless no more fit. *full: that. */
static err body_locate(struct bodies_ask *a, const struct body_batch *b, unsigned index, str slot,
                       bool *full)
{
    err why = item_slot_decode(slot, index, b->count, b->size, &a->span);
    *full = why == ERR_OK && queue_bodies_full(a->w, a->bytes, a->span.n);
    if (why != ERR_OK || *full)
        return why;
    if (b->size <= BODY_WHOLE_BYTES_MAX)
        return body_copy(a, index, str_take(str_skip(b->bytes, a->span.offset), a->span.n));
    bytes_add(&a->ask, b, (struct item_place){ .offset = a->span.offset, .n = a->span.n });
    a->waits = BODY_BYTES;
    return ERR_OK;
}

/* The next body as far as it goes: a small batch is here whole. */
static err body_next(struct bodies_ask *a, bool *full)
{
    const struct queue_place *place = &a->w->at[a->w->read];
    struct item_place at = item_slot_place(place->index);
    struct body_batch b;
    str bytes = STR_NONE;
    err why = batch_in(a->batches, place->batch, &b);
    if (why == ERR_OK && a->waits != BODY_NONE)
        why = bytes_take(&a->ask, &bytes);
    if (why != ERR_OK)
        return why;
    if (a->waits == BODY_BYTES)
        return body_copy(a, place->index, bytes);
    if (a->waits == BODY_SLOT)
        return body_locate(a, &b, place->index, bytes, full);
    if (place->index >= b.count)
        return ERR_NOT_FOUND;
    if (b.size > BODY_WHOLE_BYTES_MAX) {
        bytes_add(&a->ask, &b, at);
        a->waits = BODY_SLOT;
        return ERR_OK;
    }
    if (b.bytes.n != b.size || at.offset + at.n > b.size)
        return ERR_CORRUPT;
    return body_locate(a, &b, place->index, str_take(str_skip(b.bytes, at.offset), at.n), full);
}

static bool bodies_next(struct pg_ask *k)
{
    struct bodies_ask *a = CONTAINER_OF(k, struct bodies_ask, ask);
    bool full = false;
    if (k->step == 0) {
        batches_add(a);
        return true;
    }
    if (a->batches == NULL) {
        a->batches = k->got[0];
        k->got[0] = NULL;
    }
    while (k->why == ERR_OK && !full && a->w->read < a->w->count && k->count == 0)
        k->why = body_next(a, &full);
    return k->why == ERR_OK && k->count > 0;
}

static void bodies_free(struct pg_ask *k)
{
    struct bodies_ask *a = CONTAINER_OF(k, struct bodies_ask, ask);
    pg_rows_free(&a->batches);
    free(a);
}

err store_pg_bodies(struct queue_store *q, struct queue_part part, struct queue_bodies *b)
{
    b->read = 0;
    if (b->now)
        return ERR_AGAIN;
    struct bodies_ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    *a = (struct bodies_ask){ .ask = { .next = bodies_next, .free = bodies_free }, .w = b };
    return pg_ask_run(&a->ask, q, part, b->later);
}
