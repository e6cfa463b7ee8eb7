/* local_scan.c - rows of one kind of a partition, one after the other, in one view of the
 * engine, for the owner's memory. Ready items are two kinds of rows, batches and entries, merged
 * by id. Thread: pool. */
#include "queue/store/local/local.h"

#include <string.h>

/* All rows of a kind from from on; the view closes the cursor. */
static struct engine_cursor *rows_open(struct engine_view *v, struct queue_part p,
                                       enum row_kind kind, const struct row_key *from)
{
    char end[ROW_PREFIX_BYTES];
    struct row_key prefix = row_key_prefix(p, kind);
    struct engine_range range = { .space = SPACE_PARTITION,
                                  .from = row_key_str(from),
                                  .until = engine_prefix_end(row_key_str(&prefix), end) };
    return engine_cursor_open(v, &range);
}

/* ERR_NOT_FOUND at the end. */
static err rows_next(struct engine_cursor *c, struct row_key_parts *key, struct engine_row *row)
{
    err why = engine_cursor_next(c, row);
    return why == ERR_OK ? row_key_parse(row->key, key) : why;
}

/* The end of the rows is no error. */
static err rows_end(err why)
{
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* ---- what is ready: batches and entries, merged by id ---- */

/* A merge under way, on the stack of scan_ready. Order keys are copied: slices of a row end with
 * the next call on the view. */
struct merge {
    struct queue_part part;
    struct ksuid from;
    struct engine_cursor *batches, *entries;
    bool has_batch, has_entry;
    unsigned index; /* of the item of the batch that comes next */
    struct queue_batch batch;
    struct queue_entry entry;
    unsigned char states[QUEUE_BATCH_ITEMS_MAX];
    char batch_order[QUEUE_ORDER_KEY_BYTES_MAX], entry_order[QUEUE_ORDER_KEY_BYTES_MAX];
};

/* A slice of a row ends with the next call on its view. */
static void merge_keep_order(str *key, char *buf)
{
    if (key->n > 0)
        memcpy(buf, key->p, key->n);
    key->p = buf;
}

/* The key of the last batch that begins at or before from: from may lie within it. Without such
 * a batch, the key of from itself. */
static err merge_batch_from(struct engine_view *v, struct queue_part p, struct ksuid from,
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
    return rows_end(why);
}

/* To the next item in place at or behind m->from. */
static err merge_next_in_place(struct merge *m)
{
    for (;;) {
        for (; m->has_batch && m->index < m->batch.count; m->index++)
            if (m->states[m->index] == ITEM_IN_PLACE &&
                ksuid_cmp(ksuid_add(m->batch.first, m->index), m->from) >= 0)
                return ERR_OK;
        struct row_key_parts key;
        struct engine_row row;
        m->has_batch = false;
        err why = rows_next(m->batches, &key, &row);
        if (why != ERR_OK)
            return rows_end(why);
        why = row_batch_decode(row.value, m->states, &m->batch);
        if (why != ERR_OK)
            return why;
        m->batch.first = key.id;
        merge_keep_order(&m->batch.order_key, m->batch_order);
        m->index = 0;
        m->has_batch = true;
    }
}

/* To the next entry; has_entry is false behind the last one. */
static err merge_next_entry(struct merge *m)
{
    struct row_key_parts key;
    struct engine_row row;
    m->has_entry = false;
    err why = rows_next(m->entries, &key, &row);
    if (why != ERR_OK)
        return rows_end(why);
    why = row_entry_decode(row.value, &m->entry);
    if (why != ERR_OK)
        return why;
    m->entry.kind = ENTRY_READY;
    m->entry.id = key.id;
    merge_keep_order(&m->entry.order_key, m->entry_order);
    m->has_entry = true;
    return ERR_OK;
}

static err merge_open(struct merge *m, struct engine_view *v)
{
    struct row_key first;
    struct row_key entry = row_key_id(m->part, ROW_READY, m->from);
    err why = merge_batch_from(v, m->part, m->from, &first);
    if (why != ERR_OK)
        return why;
    m->batches = rows_open(v, m->part, ROW_BATCH, &first);
    m->entries = rows_open(v, m->part, ROW_READY, &entry);
    why = merge_next_in_place(m);
    return why == ERR_OK ? merge_next_entry(m) : why;
}

/* The smaller id first. An item is in place or has an entry, never both. */
static err scan_ready(const struct queue_scan *scan, struct engine_view *v)
{
    struct merge m = { .part = scan->part, .from = scan->from };
    err why = merge_open(&m, v);
    while (why == ERR_OK && (m.has_batch || m.has_entry)) {
        struct queue_row row = { .u.entry = m.entry };
        struct queue_entry e = m.has_batch ? queue_entry_in_place(&m.batch, m.index) : m.entry;
        row.in_place = m.has_batch && (!m.has_entry || ksuid_cmp(e.id, m.entry.id) < 0);
        if (row.in_place)
            row.u.entry = e;
        if (!scan->each(scan->ctx, &row))
            return ERR_OK;
        m.index += row.in_place;
        why = row.in_place ? merge_next_in_place(&m) : merge_next_entry(&m);
    }
    return why;
}

/* ---- the other kinds ---- */

static err row_take(enum queue_scan_kind kind, const struct row_key_parts *key, str value,
                    struct queue_row *out)
{
    err why = ERR_CORRUPT;
    switch (kind) {
    case SCAN_SCHEDULED:
        why = row_entry_decode(value, &out->u.entry);
        out->u.entry.kind = ENTRY_SCHEDULED;
        out->u.entry.id = key->id;
        out->u.entry.enqueue_at = key->at;
        break;
    case SCAN_LEASES:
        why = row_lease_decode(value, &out->u.lease);
        out->u.lease.id = key->id;
        break;
    case SCAN_KEYS:
        why = row_key_decode(value, &out->u.key);
        memcpy(out->u.key.hash, key->hash, sizeof out->u.key.hash);
        break;
    case SCAN_READY:
        INVARIANT(false);
    }
    return why;
}

/* Rows of the other kinds come in the order of their keys, which is the order that is wanted. */
static err scan_kind(const struct queue_scan *scan, struct engine_view *v)
{
    static const enum row_kind kinds[] = {
        [SCAN_SCHEDULED] = ROW_SCHEDULED, [SCAN_LEASES] = ROW_LEASE, [SCAN_KEYS] = ROW_KEY
    };
    struct row_key from = row_key_prefix(scan->part, kinds[scan->kind]);
    if (scan->kind == SCAN_SCHEDULED)
        from = row_key_scheduled(scan->part, scan->at, scan->from);
    struct engine_cursor *rows = rows_open(v, scan->part, kinds[scan->kind], &from);
    for (;;) {
        struct row_key_parts key;
        struct engine_row row;
        struct queue_row out = { .in_place = false };
        err why = rows_next(rows, &key, &row);
        if (why == ERR_OK)
            why = row_take(scan->kind, &key, row.value, &out);
        if (why != ERR_OK)
            return rows_end(why);
        if (!scan->each(scan->ctx, &out))
            return ERR_OK;
    }
}

/* each may end the scan; the view lasts as long, so space is not given back meanwhile. */
err local_scan(struct queue_store *s, const struct queue_scan *scan)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(e);
    why = scan->kind == SCAN_READY ? scan_ready(scan, v) : scan_kind(scan, v);
    engine_view_end(&v);
    local_leave(l);
    return why;
}
