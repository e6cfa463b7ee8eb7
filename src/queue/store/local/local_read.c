/* local_read.c - single rows of a local store, and bodies: from the pages in memory when they
 * are wanted at once, else from the disk. Thread: any; what is not wanted at once blocks.
 * Invariant: between local_enter and local_leave the engine is not exchanged. */
#include "queue/item.h"
#include "queue/store/local/local.h"

#include <string.h>

enum { BODY_WHOLE_BYTES_MAX = 4096 }; /* a batch up to this is read at once */

/* ---- single rows ---- */

err local_record_get(struct engine_view *v, struct queue_part p, struct queue_part_record *out)
{
    struct row_key key = row_key_prefix(p, ROW_RECORD);
    struct engine_row row;
    err why = engine_get(v, SPACE_PARTITION, row_key_str(&key), &row);
    return why == ERR_OK ? row_record_decode(row.value, out) : why;
}

/* A batch is of one of two kinds by what it was when it was put: both are tried. */
err local_batch_find(struct engine_view *v, struct queue_part p, struct ksuid first,
                     struct local_batch *out)
{
    struct engine_row row;
    err why = ERR_NOT_FOUND;
    for (enum row_kind kind = ROW_BATCH; kind <= ROW_ASIDE && why == ERR_NOT_FOUND; kind++) {
        struct row_key key = row_key_id(p, kind, first);
        out->kind = kind;
        why = engine_get(v, SPACE_PARTITION, row_key_str(&key), &row);
    }
    if (why != ERR_OK)
        return why;
    out->blob = row.blob;
    why = row_batch_decode(row.value, out->states, &out->batch);
    out->batch.first = first;
    return why;
}

/* A view is one consistent state; it is held for the call alone. */
err local_record(struct queue_store *s, struct queue_part p, struct queue_part_record *out)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    why = local_record_get(v, p, out);
    engine_view_end(&v);
    local_leave(l);
    return why;
}

/* The row's slices end with the view. */
static err batch_copy(const struct local_batch *b, struct arena *a, struct queue_batch *out)
{
    str states = arena_copy(a, (str){ .p = (const char *)b->states, .n = b->batch.count });
    str order = arena_copy(a, b->batch.order_key);
    if (states.p == NULL || order.p == NULL)
        return ERR_LIMIT;
    *out = b->batch;
    out->states = (const unsigned char *)states.p;
    out->order_key = order;
    return ERR_OK;
}

err local_batch(struct queue_store *s, struct queue_part p, const struct queue_batch_look *look)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    struct local_batch b;
    why = local_batch_find(v, p, look->first, &b);
    if (why == ERR_OK)
        why = batch_copy(&b, look->arena, look->out);
    engine_view_end(&v);
    local_leave(l);
    return why;
}

/* ---- bodies ---- */

/* Where the bodies of a batch are read from; batch is exchanged as the places go on. */
struct body_read {
    struct engine *engine;
    const struct local_batch *batch;
    bool now;
};

/* now: ERR_AGAIN when the bytes are not in memory. */
static err blob_read(const struct body_read *r, uint64_t offset, uint64_t n, char *dst)
{
    return r->now ? engine_blob_read_now(r->engine, &r->batch->blob, offset, n, dst)
                  : engine_blob_read(r->engine, &r->batch->blob, offset, n, dst);
}

/* The slots of an item say where the item is. */
static err body_find(const struct body_read *r, unsigned index, struct item_span *out)
{
    char slots[ITEM_SLOTS_BYTES];
    struct item_place at = item_slot_place(index);
    if (index >= r->batch->batch.count)
        return ERR_NOT_FOUND;
    if (at.offset + at.n > r->batch->blob.n)
        return ERR_CORRUPT;
    err why = blob_read(r, at.offset, at.n, slots);
    str found = { .p = slots, .n = at.n };
    if (why != ERR_OK)
        return why;
    return item_slot_decode(found, index, r->batch->batch.count, r->batch->blob.n, out);
}

/* Verified: a body that does not fit its slot is damage. */
static err body_read(const struct body_read *r, unsigned index, const struct item_span *span,
                     struct arena *a, str *out)
{
    char *item = arena_alloc(a, span->n);
    if (item == NULL)
        return ERR_LIMIT;
    err why = blob_read(r, span->offset, span->n, item);
    if (why != ERR_OK)
        return why;
    *out = (str){ .p = item, .n = span->n };
    return item_fits(*out, index, span->hash) ? ERR_OK : ERR_CORRUPT;
}

/* Small batches at once: one read from the disk instead of two. buf: BODY_WHOLE_BYTES_MAX. */
static err batch_load(struct local_batch *b, struct engine *e, bool now, char *buf)
{
    /* Already in memory: nothing is gained. */
    if (b->blob.n > BODY_WHOLE_BYTES_MAX || b->blob.mem != NULL)
        return ERR_OK;
    struct body_read r = { .engine = e, .batch = b, .now = now };
    err why = blob_read(&r, 0, b->blob.n, buf);
    if (why == ERR_OK)
        b->blob.mem = buf;
    return why;
}

/* Places in a row of one batch use the same row, and the same bytes. */
static err bodies_read(struct engine *e, struct engine_view *v, struct queue_part p,
                       struct queue_bodies *w)
{
    char whole[BODY_WHOLE_BYTES_MAX];
    struct local_batch b;
    const struct body_read r = { .engine = e, .batch = &b, .now = w->now };
    uint64_t bytes = 0;
    for (w->read = 0; w->read < w->count; w->read++) {
        const struct queue_place *at = &w->at[w->read];
        struct item_span span;
        err why = ERR_OK;
        if (w->read == 0 || ksuid_cmp(at->batch, at[-1].batch) != 0) {
            why = local_batch_find(v, p, at->batch, &b);
            if (why == ERR_OK)
                why = batch_load(&b, e, w->now, whole);
        }
        if (why == ERR_OK)
            why = body_find(&r, at->index, &span);
        /* The reply is full: those before it are the answer. */
        if (why == ERR_OK && queue_bodies_full(w, bytes, span.n))
            return ERR_OK;
        if (why == ERR_OK)
            why = body_read(&r, at->index, &span, w->arena, &w->out[w->read]);
        if (why != ERR_OK)
            return why;
        bytes += span.n;
    }
    return ERR_OK;
}

/* now: never blocks; otherwise it reads the disk on the caller's thread. */
err local_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    why = bodies_read(e, v, p, b);
    engine_view_end(&v);
    local_leave(l);
    return why;
}
