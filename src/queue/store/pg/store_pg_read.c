/* store_pg_read.c - single batches and bodies, out of PostgreSQL, for leases and listings.
 *   Bodies of one call take two statements, however many they are:
 *   1. The first one reads the batches: small batches whole, of large ones the slots, which say
 *      where the bodies are.
 *   2. The second one reads the bodies of large batches, as many as the call may have.
 *   A call that may have more than BODY_UNIT_BYTES_MAX repeats the second statement: each answer
 * has a deadline, and is in memory as a whole. The slots of a large batch are 12 kB at most,
 * so those of a call whose bodies are in 1,000 batches are 12 MB. */
#include "queue/item.h"
#include "queue/store/pg/store_pg.h"

#include <stdlib.h>
#include <string.h>

enum {
    BODY_WHOLE_BYTES_MAX = 64 << 10, /* a batch up to this is fetched whole */
    BODY_UNIT_BYTES_MAX = 4 << 20,   /* whole batches, or bodies, of one statement */
};

/* ---- batches and bodies ---- */

/* The rows are freed after the call. */
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

/* A look at one batch. */
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

/* A batch that bodies are read from: all of it, or its front with the slots. */
struct body_batch {
    unsigned count;
    uint64_t size;
    str bytes;
};

/* One body of the call. */
struct body {
    struct item_span span;
    unsigned index;
    bool is_here;
    str bytes; /* if it is here */
};

/* A call for bodies under way; batches are kept from the first answer to the end. */
struct bodies_ask {
    struct pg_ask ask;
    struct queue_bodies *w;
    struct pg_rows *batches; /* all that places name, ordered by id */
    uint64_t bytes;          /* of the bodies that were read */
    unsigned until;          /* bodies before this one were asked for */
};

/* The first unit: each batch once. Places of one batch stand side by side, as a rule; a batch
 * that is named twice comes once, too. */
static void batches_add(struct bodies_ask *a)
{
    struct pg_ask *k = &a->ask;
    const struct queue_bodies *w = a->w;
    struct pg_params *params = pg_ask_params(k);
    unsigned char(*ids)[KSUID_BYTES] = arena_calloc(&k->arena, w->count, sizeof(*ids));
    str *firsts = arena_calloc(&k->arena, w->count, sizeof(*firsts));
    unsigned count = 0;
    params->failed = ids == NULL || firsts == NULL;
    for (unsigned i = 0; i < w->count && !params->failed; i++) {
        if (i > 0 && ksuid_cmp(w->at[i].batch, w->at[i - 1].batch) == 0)
            continue;
        ksuid_key(w->at[i].batch, ids[count]);
        firsts[count] = (str){ .p = (const char *)ids[count], .n = KSUID_BYTES };
        count++;
    }
    if (!params->failed)
        pg_put_bytes_array(params, firsts, count);
    pg_put_i32(params, BODY_WHOLE_BYTES_MAX);
    pg_put_i32(params, BODY_UNIT_BYTES_MAX);
    pg_put_i32(params, ITEM_BATCH_HEAD_BYTES);
    pg_put_i32(params, ITEM_SLOT_BYTES);
    pg_put_i32(params, QUEUE_BATCH_ITEMS_MAX);
    /* Small batches come whole until their sum has BODY_UNIT_BYTES_MAX. A batch whose size is not
     * that of its bytes comes as slots. */
    pg_ask_add(k,
               "SELECT first, count, size, CASE WHEN size <= $2 AND octet_length(bytes) = size"
               " AND sum(size) FILTER (WHERE size <= $2) OVER (ORDER BY first) <= $3 THEN bytes"
               " ELSE substring(bytes for $4 + $5 * least(greatest(count, 0), $6)) END"
               " FROM {b} WHERE first = ANY($1) ORDER BY first",
               params);
}

/* Rows are in order of ids: a binary search. */
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

/* Where body i of the call is. */
static err body_find(const struct bodies_ask *a, unsigned i, struct body *out)
{
    const struct queue_place *place = &a->w->at[i];
    struct item_place at = item_slot_place(place->index);
    struct body_batch b;
    err why = batch_in(a->batches, place->batch, &b);
    if (why == ERR_OK && place->index >= b.count)
        why = ERR_NOT_FOUND;
    /* Fewer bytes than the slots need: cut off. */
    if (why == ERR_OK && (b.size > QUEUE_BATCH_BYTES_MAX || at.offset + at.n > b.bytes.n))
        why = ERR_CORRUPT;
    if (why != ERR_OK)
        return why;
    str slots = str_take(str_skip(b.bytes, at.offset), at.n);
    *out = (struct body){ .index = place->index, .is_here = b.bytes.n == b.size };
    why = item_slot_decode(slots, place->index, b.count, b.size, &out->span);
    if (why == ERR_OK && out->is_here)
        out->bytes = str_take(str_skip(b.bytes, out->span.offset), out->span.n);
    return why;
}

/* Gives the caller its next body. */
static err body_copy(struct bodies_ask *a, const struct body *b)
{
    /* Verified before the caller has it. */
    struct queue_bodies *w = a->w;
    if (!item_fits(b->bytes, b->index, b->span.hash))
        return ERR_CORRUPT;
    str *out = &w->out[w->read];
    *out = arena_copy(w->arena, b->bytes);
    if (out->p == NULL)
        return ERR_LIMIT;
    a->bytes += b->span.n;
    w->read++;
    return ERR_OK;
}

/* Reads the bodies that were asked for. rows: a row of each body that was not here. */
static err bodies_take(struct bodies_ask *a, const struct pg_rows *rows)
{
    struct body b;
    err why = ERR_OK;
    /* body_find again: it says which of the rows belongs to which body. */
    for (unsigned row = 0; why == ERR_OK && a->w->read < a->until;) {
        why = body_find(a, a->w->read, &b);
        if (why == ERR_OK && !b.is_here) {
            bool is_gone = row >= pg_rows_count(rows) || pg_is_null(rows, row, 0);
            why = is_gone ? ERR_NOT_FOUND : ERR_OK;
            b.bytes = is_gone ? STR_NONE : pg_bytes(rows, row, 0);
            row++;
        }
        if (why == ERR_OK)
            why = body_copy(a, &b);
    }
    return why;
}

/* The parameters of a statement that reads bodies: of each its batch, where it begins, its size. */
struct bodies_list {
    unsigned char (*ids)[KSUID_BYTES];
    str *firsts;
    int32_t *offsets, *sizes;
    unsigned count;
};

static bool bodies_list_begin(struct bodies_list *l, struct arena *a, unsigned room)
{
    *l = (struct bodies_list){ .ids = arena_calloc(a, room, sizeof *l->ids),
                               .firsts = arena_calloc(a, room, sizeof *l->firsts),
                               .offsets = arena_calloc(a, room, sizeof *l->offsets),
                               .sizes = arena_calloc(a, room, sizeof *l->sizes) };
    return l->ids != NULL && l->firsts != NULL && l->offsets != NULL && l->sizes != NULL;
}

static void bodies_list_put(struct bodies_list *l, struct ksuid batch, const struct item_span *span)
{
    ksuid_key(batch, l->ids[l->count]);
    l->firsts[l->count] = (str){ .p = (const char *)l->ids[l->count], .n = KSUID_BYTES };
    /* substring counts from 1. */
    l->offsets[l->count] = (int32_t)span->offset + 1;
    l->sizes[l->count] = (int32_t)span->n;
    l->count++;
}

/* One row for each body, in the order of the list; NULL where the batch is gone. */
static void bodies_list_add(struct pg_ask *k, const struct bodies_list *l)
{
    struct pg_params *params = pg_ask_params(k);
    pg_put_bytes_array(params, l->firsts, l->count);
    pg_put_i32s(params, l->offsets, l->count);
    pg_put_i32s(params, l->sizes, l->count);
    pg_ask_add(k,
               "SELECT (SELECT substring(b.bytes from w.at for w.n) FROM {b} b WHERE"
               " b.first = w.first) FROM unnest($1, $2, $3) WITH ORDINALITY w(first, at, n, i)"
               " ORDER BY w.i",
               params);
}

/* Reads the next bodies that are here, and asks for those behind them, as far as they fit. */
static err bodies_plan(struct bodies_ask *a)
{
    const struct queue_bodies *w = a->w;
    struct bodies_list list;
    struct body b;
    err why = bodies_list_begin(&list, &a->ask.arena, w->count - w->read) ? ERR_OK : ERR_LIMIT;
    uint64_t more = 0; /* bytes of those that wait */
    for (a->until = w->read; why == ERR_OK && a->until < w->count; a->until++) {
        why = body_find(a, a->until, &b);
        if (why != ERR_OK || queue_bodies_full(w, a->bytes + more, b.span.n))
            break;
        /* In order: what stands behind a body that has to be asked for waits for that one. */
        if (b.is_here && list.count == 0) {
            why = body_copy(a, &b);
            if (why != ERR_OK)
                break;
            continue;
        }
        if (more > 0 && more + b.span.n > BODY_UNIT_BYTES_MAX)
            break;
        if (!b.is_here)
            bodies_list_put(&list, w->at[a->until].batch, &b.span);
        more += b.span.n;
    }
    if (list.count == 0)
        return why;
    /* An error behind those that are asked for is met again once they came. */
    bodies_list_add(&a->ask, &list); /* the next plan meets why again */
    return ERR_OK;
}

/* The first answer has the batches, all later ones bodies. */
static bool bodies_next(struct pg_ask *k)
{
    struct bodies_ask *a = CONTAINER_OF(k, struct bodies_ask, ask);
    if (k->step == 0) {
        batches_add(a);
        return true;
    }
    if (a->batches == NULL) {
        a->batches = k->got[0];
        k->got[0] = NULL;
    } else {
        k->why = bodies_take(a, k->got[0]);
    }
    if (k->why == ERR_OK)
        k->why = bodies_plan(a);
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
        /* Nothing of PostgreSQL is in memory: a job asks. */
        return ERR_AGAIN;
    struct bodies_ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    *a = (struct bodies_ask){ .ask = { .next = bodies_next, .free = bodies_free }, .w = b };
    return pg_ask_run(&a->ask, q, part, b->later);
}
