/* store_pg_scan.c - rows of one kind of a partition, out of PostgreSQL.
 *
 * A scan is one REPEATABLE READ transaction on a reader's connection, with a server-side cursor for
 * each kind of row, so it sees one state and holds a page of it at a time. */
#include "queue/store/local/rows.h"
#include "queue/store/pg/store_pg.h"

#include <string.h>

enum { PAGE_ROWS = 500 };
#define PAGE_SQL "FETCH FORWARD 500 FROM "

/* ---- pages ---- */

struct pager {
    struct pg_look *k;
    const char *fetch;
    struct pg_rows *rows;
    unsigned at;
    bool ended;
};

static err walk_begin(struct pg_look *k)
{
    err why = pg_look_sql(k, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, NULL);
    k->walking = why == ERR_OK;
    return why;
}

static err pager_open(struct pager *p, const char *declare, const struct pg_params *params)
{
    return pg_look_sql(p->k, declare, params, NULL);
}

/* *more: a row is there, at p->at. */
static err pager_next(struct pager *p, bool *more)
{
    p->at++;
    *more = p->rows != NULL && p->at < pg_rows_count(p->rows);
    if (*more || p->ended)
        return ERR_OK;
    pg_rows_free(&p->rows);
    err why = pg_look_sql(p->k, p->fetch, NULL, &p->rows);
    if (why != ERR_OK)
        return why;
    p->at = 0;
    *more = pg_rows_count(p->rows) > 0;
    p->ended = pg_rows_count(p->rows) < PAGE_ROWS;
    return ERR_OK;
}

/* ---- rows ---- */

/* Columns of a row, each within its limits; out of them once, the row is damage. */
struct row {
    const struct pg_rows *rows;
    unsigned at;
    bool damaged;
};

static struct row row_of(const struct pager *p)
{
    return (struct row){ .rows = p->rows, .at = p->at };
}

static err row_status(const struct row *r)
{
    return r->damaged ? ERR_CORRUPT : ERR_OK;
}

static int64_t row_number(struct row *r, unsigned column, int64_t least, int64_t most)
{
    int64_t n = pg_i64(r->rows, r->at, column);
    r->damaged |= n < least || n > most || !pg_is_i64(r->rows, r->at, column);
    return n;
}

static struct ksuid row_id(struct row *r, unsigned column)
{
    struct ksuid id = KSUID_NIL;
    r->damaged |= !pg_id(r->rows, r->at, column, &id);
    return id;
}

static store_time row_time(struct row *r, unsigned column)
{
    return (store_time){ .ns = row_number(r, column, 0, INT64_MAX) };
}

static struct queue_place row_place(struct row *r, unsigned batch, unsigned index)
{
    return (struct queue_place){ .batch = row_id(r, batch),
                                 .index =
                                     (uint16_t)row_number(r, index, 0, QUEUE_BATCH_ITEMS_MAX - 1) };
}

/* Borrowed of the rows. */
static str row_order(struct row *r, unsigned column)
{
    str key = pg_bytes(r->rows, r->at, column);
    r->damaged |= key.n > QUEUE_ORDER_KEY_BYTES_MAX;
    return key;
}

#define ENTRY_COLUMNS "id, batch, idx, attempts, created, expire, order_key, at"

static err entry_at(const struct pager *p, enum queue_entry_kind kind, struct queue_entry *out)
{
    struct row r = row_of(p);
    *out = (struct queue_entry){
        .kind = kind,
        .id = row_id(&r, 0),
        .place = row_place(&r, 1, 2),
        .attempts = (uint32_t)row_number(&r, 3, 0, UINT32_MAX),
        .created_at = row_time(&r, 4),
        .expire_at = row_time(&r, 5),
        .order_key = row_order(&r, 6),
        .enqueue_at = kind == ENTRY_SCHEDULED ? row_time(&r, 7) : STORE_TIME_ZERO,
    };
    return row_status(&r);
}

static err lease_at(const struct pager *p, struct queue_lease *out)
{
    struct row r = row_of(p);
    *out = (struct queue_lease){
        .id = row_id(&r, 0),
        .place = row_place(&r, 1, 2),
        .in_place = row_number(&r, 3, 0, 1) != 0,
        .deadline = row_time(&r, 4),
        .attempts = (uint32_t)row_number(&r, 5, 0, UINT32_MAX),
        .token = (uint64_t)pg_i64(p->rows, p->at, 6),
        .created_at = row_time(&r, 7),
        .expire_at = row_time(&r, 8),
        .order_key = row_order(&r, 9),
    };
    return row_status(&r);
}

static err key_at(const struct pager *p, struct queue_key *out)
{
    struct row r = row_of(p);
    struct queue_key k = { .count = (uint32_t)row_number(&r, 2, 0, UINT32_MAX),
                           .expire_at = row_time(&r, 3) };
    str name = pg_bytes(p->rows, p->at, 0), first = pg_bytes(p->rows, p->at, 1);
    str digest = str_skip(first, KSUID_BYTES);
    r.damaged |= name.n != sizeof(k.hash) || first.n < KSUID_BYTES ||
                 (digest.n != 0 && digest.n != sizeof(k.digest));
    if (r.damaged)
        return ERR_CORRUPT;
    memcpy(k.hash, name.p, name.n);
    k.first = ksuid_from_key((const unsigned char *)first.p);
    if (digest.n > 0)
        memcpy(k.digest, digest.p, digest.n);
    *out = k;
    return ERR_OK;
}

/* states empty: all in place. Slices point into rows. */
err pg_batch_at(const struct pg_rows *rows, unsigned at, struct queue_batch *out)
{
    static const unsigned char in_place[QUEUE_BATCH_ITEMS_MAX] = { 0 };
    struct row r = { .rows = rows, .at = at };
    struct queue_batch b = {
        .first = row_id(&r, 0),
        .count = (uint16_t)row_number(&r, 1, 1, QUEUE_BATCH_ITEMS_MAX),
        .created_at = row_time(&r, 2),
        .expire_at = row_time(&r, 3),
        .order_key = row_order(&r, 4),
        .states = in_place,
    };
    str states = pg_bytes(rows, at, 5);
    r.damaged |= states.n != 0 && states.n != b.count;
    for (size_t i = 0; i < states.n && !r.damaged; i++)
        r.damaged |= (unsigned char)states.p[i] >= ITEM_STATES;
    if (states.n > 0)
        b.states = (const unsigned char *)states.p;
    *out = b;
    return row_status(&r);
}

/* ---- ready: batches and entries, merged ---- */

struct merge {
    struct pager batches, entries;
    bool has_batch, has_entry;
    unsigned index;
    struct ksuid from;
    struct queue_batch batch;
    struct queue_entry entry;
};

static err next_in_place(struct merge *m)
{
    for (;;) {
        for (; m->has_batch && m->index < m->batch.count; m->index++)
            if (m->batch.states[m->index] == ITEM_IN_PLACE &&
                ksuid_cmp(ksuid_add(m->batch.first, m->index), m->from) >= 0)
                return ERR_OK;
        err why = pager_next(&m->batches, &m->has_batch);
        if (why == ERR_OK && m->has_batch)
            why = pg_batch_at(m->batches.rows, m->batches.at, &m->batch);
        if (why != ERR_OK || !m->has_batch)
            return why;
        m->index = 0;
    }
}

static err next_entry(struct merge *m)
{
    err why = pager_next(&m->entries, &m->has_entry);
    return why == ERR_OK && m->has_entry ? entry_at(&m->entries, ENTRY_READY, &m->entry) : why;
}

static err merge_open(struct merge *m, struct pg_look *k)
{
    struct pg_params params;
    pg_params_init(&params, &k->arena);
    pg_put_id(&params, m->from);
    m->batches = (struct pager){ .k = k, .fetch = PAGE_SQL "cb" };
    m->entries = (struct pager){ .k = k, .fetch = PAGE_SQL "ce" };
    err why = walk_begin(k);
    if (why == ERR_OK) /* from may lie within a batch */
        why =
            pager_open(&m->batches,
                       "DECLARE cb NO SCROLL CURSOR FOR SELECT " PG_BATCH_COLUMNS
                       " FROM {b} b LEFT JOIN {s} s ON s.first = b.first WHERE aside = 0 AND "
                       "b.first >= coalesce("
                       "(SELECT first FROM {b} WHERE first <= $1 ORDER BY first DESC LIMIT 1), $1)"
                       " ORDER BY b.first",
                       &params);
    if (why == ERR_OK)
        why = pager_open(&m->entries,
                         "DECLARE ce NO SCROLL CURSOR FOR SELECT " ENTRY_COLUMNS
                         " FROM {e} WHERE kind = 0 AND at = 0 AND id >= $1 ORDER BY id",
                         &params);
    if (why == ERR_OK)
        why = next_in_place(m);
    return why == ERR_OK ? next_entry(m) : why;
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

static err merge_all(struct merge *m, const struct queue_scan *scan)
{
    err why = ERR_OK;
    while (why == ERR_OK && (m->has_batch || m->has_entry)) {
        struct queue_row row = { .u.entry = m->entry };
        struct queue_entry e = m->has_batch ? entry_in_place(m) : m->entry;
        row.in_place = m->has_batch && (!m->has_entry || ksuid_cmp(e.id, m->entry.id) < 0);
        if (row.in_place)
            row.u.entry = e;
        if (!scan->each(scan->ctx, &row))
            return ERR_OK;
        m->index += row.in_place;
        why = row.in_place ? next_in_place(m) : next_entry(m);
    }
    return why;
}

static err scan_ready(struct pg_look *k, const struct queue_scan *scan)
{
    struct merge m = { .from = scan->from };
    err why = merge_open(&m, k);
    if (why == ERR_OK)
        why = merge_all(&m, scan);
    pg_rows_free(&m.batches.rows);
    pg_rows_free(&m.entries.rows);
    return why;
}

/* ---- the other kinds ---- */

static const char *const DECLARE[] = {
    [SCAN_SCHEDULED] = "DECLARE c NO SCROLL CURSOR FOR SELECT " ENTRY_COLUMNS
                       " FROM {e} WHERE kind = 1 AND (at, id) >= ($1, $2) ORDER BY at, id",
    [SCAN_LEASES] = "DECLARE c NO SCROLL CURSOR FOR SELECT id, batch, idx, in_place, deadline, "
                    "attempts, token, created, expire, order_key FROM {l} ORDER BY id",
    [SCAN_KEYS] = "DECLARE c NO SCROLL CURSOR FOR SELECT name, first, count, expire FROM {k}"
                  " WHERE kind = 7 ORDER BY name",
};

static err row_take(enum queue_scan_kind kind, const struct pager *p, struct queue_row *out)
{
    switch (kind) {
    case SCAN_SCHEDULED:
        return entry_at(p, ENTRY_SCHEDULED, &out->u.entry);
    case SCAN_LEASES:
        return lease_at(p, &out->u.lease);
    case SCAN_KEYS:
        return key_at(p, &out->u.key);
    case SCAN_READY:
        break;
    }
    return ERR_CORRUPT;
}

static err scan_kind(struct pg_look *k, const struct queue_scan *scan)
{
    struct pager p = { .k = k, .fetch = PAGE_SQL "c" };
    struct pg_params params;
    pg_params_init(&params, &k->arena);
    if (scan->kind == SCAN_SCHEDULED) {
        pg_put_i64(&params, scan->at.ns);
        pg_put_id(&params, scan->from);
    }
    err why = walk_begin(k);
    if (why == ERR_OK)
        why = pager_open(&p, DECLARE[scan->kind], &params);
    for (bool more = true; why == ERR_OK && more;) {
        struct queue_row row = { .in_place = false };
        why = pager_next(&p, &more);
        if (why == ERR_OK && more)
            why = row_take(scan->kind, &p, &row);
        if (why == ERR_OK && more)
            more = scan->each(scan->ctx, &row);
    }
    pg_rows_free(&p.rows);
    return why;
}

err store_pg_scan(struct queue_store *q, const struct queue_scan *scan)
{
    struct pg_look k;
    err why = pg_look_begin(&k, q, scan->part);
    if (why != ERR_OK)
        return why;
    why = scan->kind == SCAN_READY ? scan_ready(&k, scan) : scan_kind(&k, scan);
    pg_look_end(&k);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
