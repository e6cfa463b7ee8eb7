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

err local_batch(struct queue_store *s, struct queue_part p, struct ksuid first, struct arena *a,
                struct queue_batch *out)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    struct local_batch b;
    why = local_batch_find(v, p, first, &b);
    if (why == ERR_OK)
        why = batch_copy(&b, a, out);
    engine_view_end(&v);
    local_leave(l);
    return why;
}

/* ---- walks over rows of one kind ---- */

struct rows {
    struct engine_view *view;
    struct engine_cursor *cursor;
};

static struct rows rows_open(struct engine_view *v, struct queue_part p, enum row_kind kind,
                             const struct row_key *from)
{
    char end[ROW_PREFIX_BYTES];
    struct row_key prefix = row_key_prefix(p, kind);
    struct engine_range range = {
        .space = SPACE_PARTITION,
        .from = row_key_str(from != NULL ? from : &prefix),
        .until = engine_prefix_end(row_key_str(&prefix), end),
    };
    return (struct rows){ .view = v, .cursor = engine_cursor_open(v, &range) };
}

/* ERR_NOT_FOUND at the end. */
static err rows_next(struct rows *r, struct row_key_parts *key, struct engine_row *row)
{
    err why = engine_cursor_next(r->cursor, row);
    return why == ERR_OK ? row_key_parse(row->key, key) : why;
}

static err end_is_fine(err why)
{
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* A walk: enters the store, opens the rows, calls one for each row until it returns false. */
struct walk_call {
    struct queue_part part;
    enum row_kind kind;
    struct row_key from; /* n 0: the first */
    err (*one)(struct walk_call *w, const struct row_key_parts *key, str value, bool *more);
    union {
        bool (*entry)(void *ctx, const struct queue_entry *e);
        bool (*lease)(void *ctx, const struct queue_lease *l);
        bool (*key)(void *ctx, const struct queue_key *k);
    } each;
    void *ctx;
};

static err walk_all(struct queue_store *s, struct walk_call *w)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    struct rows rows = rows_open(v, w->part, w->kind, w->from.n > 0 ? &w->from : NULL);
    bool more = true;
    while (why == ERR_OK && more) {
        struct row_key_parts key;
        struct engine_row row;
        why = rows_next(&rows, &key, &row);
        if (why == ERR_OK)
            why = w->one(w, &key, row.value, &more);
    }
    engine_view_end(&v);
    local_leave(l);
    return end_is_fine(why);
}

static err one_scheduled(struct walk_call *w, const struct row_key_parts *key, str value,
                         bool *more)
{
    struct queue_entry e;
    err why = row_entry_decode(value, &e);
    e.kind = ENTRY_SCHEDULED;
    e.id = key->id;
    e.enqueue_at = key->at;
    if (why == ERR_OK)
        *more = w->each.entry(w->ctx, &e);
    return why;
}

err local_scheduled(struct queue_store *s, struct queue_part p, store_time at, struct ksuid from,
                    bool (*each)(void *ctx, const struct queue_entry *e), void *ctx)
{
    struct walk_call w = {
        .part = p, .kind = ROW_SCHEDULED, .one = one_scheduled, .each.entry = each, .ctx = ctx
    };
    w.from = row_key_scheduled(p, at, from);
    return walk_all(s, &w);
}

static err one_lease(struct walk_call *w, const struct row_key_parts *key, str value, bool *more)
{
    struct queue_lease l;
    err why = row_lease_decode(value, &l);
    l.id = key->id;
    if (why == ERR_OK)
        *more = w->each.lease(w->ctx, &l);
    return why;
}

err local_leases(struct queue_store *s, struct queue_part p,
                 bool (*each)(void *ctx, const struct queue_lease *l), void *ctx)
{
    struct walk_call w = {
        .part = p, .kind = ROW_LEASE, .one = one_lease, .each.lease = each, .ctx = ctx
    };
    return walk_all(s, &w);
}

static err one_key(struct walk_call *w, const struct row_key_parts *key, str value, bool *more)
{
    struct queue_key k;
    err why = row_key_decode(value, &k);
    memcpy(k.hash, key->hash, sizeof(k.hash));
    if (why == ERR_OK)
        *more = w->each.key(w->ctx, &k);
    return why;
}

err local_keys(struct queue_store *s, struct queue_part p,
               bool (*each)(void *ctx, const struct queue_key *k), void *ctx)
{
    struct walk_call w = {
        .part = p, .kind = ROW_KEY, .one = one_key, .each.key = each, .ctx = ctx
    };
    return walk_all(s, &w);
}

/* ---- what is ready: batches and entries, merged by id ---- */

struct merge {
    struct queue_part part;
    struct ksuid from;
    struct rows batches, entries;
    bool has_batch, has_entry;
    unsigned index; /* of the item of the batch that comes next */
    struct queue_batch batch;
    struct queue_entry entry;
    unsigned char states[QUEUE_BATCH_ITEMS_MAX];
    char batch_order[QUEUE_ORDER_KEY_BYTES_MAX], entry_order[QUEUE_ORDER_KEY_BYTES_MAX];
};

/* A slice of a row ends with the next call on its view. */
static void keep_order(str *key, char *buf)
{
    if (key->n > 0)
        memcpy(buf, key->p, key->n);
    key->p = buf;
}

/* The key of the batch that holds from, or of from itself. */
static err batch_from(struct engine_view *v, struct queue_part p, struct ksuid from,
                      struct row_key *out)
{
    struct row_key prefix = row_key_prefix(p, ROW_BATCH);
    struct row_key above = row_key_id(p, ROW_BATCH, from);
    above.bytes[above.n++] = '\0'; /* the bound is exclusive */
    struct engine_range range = {
        .space = SPACE_PARTITION,
        .from = row_key_str(&prefix),
        .until = row_key_str(&above),
        .reversed = true,
    };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct row_key_parts key = { .id = from };
    struct engine_row row;
    err why = engine_cursor_next(c, &row);
    if (why == ERR_OK)
        why = row_key_parse(row.key, &key);
    engine_cursor_close(&c);
    *out = row_key_id(p, ROW_BATCH, key.id);
    return end_is_fine(why);
}

/* To the next item in place at or behind m->from. */
static err next_in_place(struct merge *m)
{
    for (;;) {
        for (; m->has_batch && m->index < m->batch.count; m->index++)
            if (m->states[m->index] == ITEM_IN_PLACE &&
                ksuid_cmp(ksuid_add(m->batch.first, m->index), m->from) >= 0)
                return ERR_OK;
        struct row_key_parts key;
        struct engine_row row;
        m->has_batch = false;
        err why = rows_next(&m->batches, &key, &row);
        if (why != ERR_OK)
            return end_is_fine(why);
        why = row_batch_decode(row.value, m->states, &m->batch);
        if (why != ERR_OK)
            return why;
        m->batch.first = key.id;
        keep_order(&m->batch.order_key, m->batch_order);
        m->index = 0;
        m->has_batch = true;
    }
}

static err next_entry(struct merge *m)
{
    struct row_key_parts key;
    struct engine_row row;
    m->has_entry = false;
    err why = rows_next(&m->entries, &key, &row);
    if (why != ERR_OK)
        return end_is_fine(why);
    why = row_entry_decode(row.value, &m->entry);
    if (why != ERR_OK)
        return why;
    m->entry.kind = ENTRY_READY;
    m->entry.id = key.id;
    keep_order(&m->entry.order_key, m->entry_order);
    m->has_entry = true;
    return ERR_OK;
}

static struct queue_entry entry_in_place(const struct merge *m)
{
    return (struct queue_entry){
        .kind = ENTRY_READY,
        .id = ksuid_add(m->batch.first, m->index),
        .place = { .batch = m->batch.first, .index = (uint16_t)m->index },
        .created_at = m->batch.created_at,
        .expire_at = m->batch.expire_at,
        .order_key = m->batch.order_key,
    };
}

static err merge_open(struct merge *m, struct engine_view *v)
{
    struct row_key first;
    struct row_key entry = row_key_id(m->part, ROW_READY, m->from);
    err why = batch_from(v, m->part, m->from, &first);
    if (why != ERR_OK)
        return why;
    m->batches = rows_open(v, m->part, ROW_BATCH, &first);
    m->entries = rows_open(v, m->part, ROW_READY, &entry);
    why = next_in_place(m);
    return why == ERR_OK ? next_entry(m) : why;
}

static err merge_all(struct merge *m,
                     bool (*each)(void *ctx, const struct queue_entry *e, bool in_place), void *ctx)
{
    err why = ERR_OK;
    while (why == ERR_OK && (m->has_batch || m->has_entry)) {
        struct queue_entry e = m->has_batch ? entry_in_place(m) : m->entry;
        bool in_place = m->has_batch && (!m->has_entry || ksuid_cmp(e.id, m->entry.id) < 0);
        if (!each(ctx, in_place ? &e : &m->entry, in_place))
            return ERR_OK;
        m->index += in_place;
        why = in_place ? next_in_place(m) : next_entry(m);
    }
    return why;
}

err local_ready(struct queue_store *s, struct queue_part p, struct ksuid from,
                bool (*each)(void *ctx, const struct queue_entry *e, bool in_place), void *ctx)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    struct merge m = { .part = p, .from = from };
    why = merge_open(&m, v);
    if (why == ERR_OK)
        why = merge_all(&m, each, ctx);
    engine_view_end(&v);
    local_leave(l);
    return why;
}

/* ---- bodies ---- */

struct body_read {
    struct engine *engine;
    const struct local_batch *batch;
    bool now;
};

static err blob_read(const struct body_read *r, uint64_t offset, uint64_t n, char *dst)
{
    return r->now ? engine_blob_read_now(r->engine, &r->batch->blob, offset, n, dst)
                  : engine_blob_read(r->engine, &r->batch->blob, offset, n, dst);
}

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
    if (b->blob.n > BODY_WHOLE_BYTES_MAX || b->blob.mem != NULL)
        return ERR_OK;
    struct body_read r = { .engine = e, .batch = b, .now = now };
    err why = blob_read(&r, 0, b->blob.n, buf);
    if (why == ERR_OK)
        b->blob.mem = buf;
    return why;
}

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
