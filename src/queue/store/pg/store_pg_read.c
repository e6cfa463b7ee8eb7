/* store_pg_read.c - what a partition holds, out of PostgreSQL.
 *
 * A walk is one REPEATABLE READ transaction on a reader's connection, with a server-side cursor for
 * each kind of row, so it sees one state and holds a page of it at a time. */
#include "queue/item.h"
#include "queue/store/pg/store_pg.h"

#include <string.h>

enum { PAGE_ROWS = 500, BODY_WHOLE_BYTES_MAX = 64 << 10 /* a batch up to this is fetched whole */ };
#define PAGE_SQL "FETCH FORWARD 500 FROM "

struct look {
    struct store_pg *s;
    struct queue_part part;
    struct pg_reader *reader;
    struct arena arena;
    bool walking; /* a transaction is open */
};

static err look_begin(struct look *k, struct queue_store *q, struct queue_part p)
{
    *k = (struct look){ .s = store_pg_of(q), .part = p };
    err why = store_pg_reader(k->s, &k->reader);
    if (why == ERR_OK)
        arena_init(&k->arena, PG_ARENA_BYTES_MAX);
    return why;
}

static void look_end(struct look *k)
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

static err look_sql(struct look *k, const char *format, const struct pg_params *params,
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

/* ---- walks ---- */

struct pager {
    struct look *k;
    const char *fetch;
    struct pg_rows *rows;
    unsigned at;
    bool ended;
};

static err walk_begin(struct look *k)
{
    err why = look_sql(k, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, NULL);
    k->walking = why == ERR_OK;
    return why;
}

static err pager_open(struct pager *p, const char *declare, const struct pg_params *params)
{
    return look_sql(p->k, declare, params, NULL);
}

/* *more: a row is there, at p->at. */
static err pager_next(struct pager *p, bool *more)
{
    p->at++;
    *more = p->rows != NULL && p->at < pg_rows_count(p->rows);
    if (*more || p->ended)
        return ERR_OK;
    pg_rows_free(&p->rows);
    err why = look_sql(p->k, p->fetch, NULL, &p->rows);
    if (why != ERR_OK)
        return why;
    p->at = 0;
    *more = pg_rows_count(p->rows) > 0;
    p->ended = pg_rows_count(p->rows) < PAGE_ROWS;
    return ERR_OK;
}

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

static err missing_is_empty(err why)
{
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* ---- entries ---- */

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

static err scheduled_walk(struct look *k, store_time at, struct ksuid from,
                          bool (*each)(void *ctx, const struct queue_entry *e), void *ctx)
{
    struct pager p = { .k = k, .fetch = PAGE_SQL "ce" };
    struct pg_params params;
    bool more = true;
    pg_params_init(&params, &k->arena);
    pg_put_i64(&params, at.ns);
    pg_put_id(&params, from);
    err why = walk_begin(k);
    if (why == ERR_OK)
        why = pager_open(&p,
                         "DECLARE ce NO SCROLL CURSOR FOR SELECT " ENTRY_COLUMNS " FROM {e}"
                         " WHERE kind = 1 AND (at, id) >= ($1, $2) ORDER BY at, id",
                         &params);
    while (why == ERR_OK && more) {
        struct queue_entry e;
        why = pager_next(&p, &more);
        if (why == ERR_OK && more)
            why = entry_at(&p, ENTRY_SCHEDULED, &e);
        if (why == ERR_OK && more)
            more = each(ctx, &e);
    }
    pg_rows_free(&p.rows);
    return why;
}

err store_pg_scheduled(struct queue_store *q, struct queue_part part, store_time at,
                       struct ksuid from, bool (*each)(void *ctx, const struct queue_entry *e),
                       void *ctx)
{
    struct look k;
    err why = look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    why = scheduled_walk(&k, at, from, each, ctx);
    look_end(&k);
    return missing_is_empty(why);
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

#define BATCH_COLUMNS "b.first, count, created, expire, order_key, states"

/* states empty: all in place. Slices point into rows. */
static err batch_at(const struct pg_rows *rows, unsigned at, struct queue_batch *out)
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

static err next_in_place(struct merge *m)
{
    for (;;) {
        for (; m->has_batch && m->index < m->batch.count; m->index++)
            if (m->batch.states[m->index] == ITEM_IN_PLACE &&
                ksuid_cmp(ksuid_add(m->batch.first, m->index), m->from) >= 0)
                return ERR_OK;
        err why = pager_next(&m->batches, &m->has_batch);
        if (why == ERR_OK && m->has_batch)
            why = batch_at(m->batches.rows, m->batches.at, &m->batch);
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

static err merge_open(struct merge *m, struct look *k)
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
                       "DECLARE cb NO SCROLL CURSOR FOR SELECT " BATCH_COLUMNS
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

err store_pg_ready(struct queue_store *q, struct queue_part part, struct ksuid from,
                   bool (*each)(void *ctx, const struct queue_entry *e, bool in_place), void *ctx)
{
    struct look k;
    struct merge m = { .from = from };
    err why = look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    why = merge_open(&m, &k);
    if (why == ERR_OK)
        why = merge_all(&m, each, ctx);
    pg_rows_free(&m.batches.rows);
    pg_rows_free(&m.entries.rows);
    look_end(&k);
    return missing_is_empty(why);
}

/* ---- leases, keys ---- */

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

struct walk_call {
    const char *declare;
    err (*one)(const struct walk_call *w, const struct pager *p, bool *more);
    union {
        bool (*lease)(void *ctx, const struct queue_lease *l);
        bool (*key)(void *ctx, const struct queue_key *k);
    } each;
    void *ctx;
};

static err one_lease(const struct walk_call *w, const struct pager *p, bool *more)
{
    struct queue_lease l;
    err why = lease_at(p, &l);
    if (why == ERR_OK)
        *more = w->each.lease(w->ctx, &l);
    return why;
}

static err one_key(const struct walk_call *w, const struct pager *p, bool *more)
{
    struct queue_key k;
    err why = key_at(p, &k);
    if (why == ERR_OK)
        *more = w->each.key(w->ctx, &k);
    return why;
}

static err walk_all(struct queue_store *q, struct queue_part part, const struct walk_call *w)
{
    struct look k;
    err why = look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    struct pager p = { .k = &k, .fetch = PAGE_SQL "c" };
    bool more = true;
    why = walk_begin(&k);
    if (why == ERR_OK)
        why = pager_open(&p, w->declare, NULL);
    while (why == ERR_OK && more) {
        why = pager_next(&p, &more);
        if (why == ERR_OK && more)
            why = w->one(w, &p, &more);
    }
    pg_rows_free(&p.rows);
    look_end(&k);
    return missing_is_empty(why);
}

err store_pg_leases(struct queue_store *q, struct queue_part part,
                    bool (*each)(void *ctx, const struct queue_lease *l), void *ctx)
{
    struct walk_call w = { .one = one_lease, .each.lease = each, .ctx = ctx };
    w.declare = "DECLARE c NO SCROLL CURSOR FOR SELECT id, batch, idx, in_place, deadline, "
                "attempts, token, created,"
                " expire, order_key FROM {l} ORDER BY id";
    return walk_all(q, part, &w);
}

err store_pg_keys(struct queue_store *q, struct queue_part part,
                  bool (*each)(void *ctx, const struct queue_key *k), void *ctx)
{
    struct walk_call w = { .one = one_key, .each.key = each, .ctx = ctx };
    w.declare =
        "DECLARE c NO SCROLL CURSOR FOR SELECT name, first, count, expire FROM {k} WHERE kind = 7"
        " ORDER BY name";
    return walk_all(q, part, &w);
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
    struct look k;
    struct pg_rows *rows = NULL;
    struct pg_params params;
    struct queue_batch b;
    err why = look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    pg_params_init(&params, &k.arena);
    pg_put_id(&params, first);
    why = look_sql(&k,
                   "SELECT " BATCH_COLUMNS
                   " FROM {b} b LEFT JOIN {s} s ON s.first = b.first WHERE b.first = $1",
                   &params, &rows);
    if (why == ERR_OK)
        why = pg_rows_count(rows) == 1 ? batch_at(rows, 0, &b) : ERR_NOT_FOUND;
    if (why == ERR_OK)
        why = batch_copy(&b, a, out);
    pg_rows_free(&rows);
    look_end(&k);
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
static err bytes_fetch(struct look *k, const struct body_batch *b, struct item_place at,
                       struct pg_rows **rows)
{
    struct pg_params params;
    pg_params_init(&params, &k->arena);
    pg_put_id(&params, b->first);
    pg_put_i32(&params, (int32_t)at.offset + 1);
    pg_put_i32(&params, (int32_t)at.n);
    err why = look_sql(k, "SELECT substring(bytes from $2 for $3) FROM {b} WHERE first = $1",
                       &params, rows);
    if (why == ERR_OK && pg_rows_count(*rows) != 1)
        why = ERR_NOT_FOUND;
    return why;
}

static err span_of(const struct body_batch *b, unsigned index, str slots, struct item_span *out)
{
    return item_slot_decode(slots, index, b->count, b->size, out);
}

static err body_find(struct look *k, const struct body_batch *b, unsigned index,
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

static err body_read(struct look *k, const struct body_batch *b, unsigned index,
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
static err batches_fetch(struct look *k, const struct queue_place *at, unsigned count,
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
    return look_sql(
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

static err bodies_read(struct look *k, const struct pg_rows *rows, struct queue_bodies *w)
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
    struct look k;
    struct pg_rows *rows = NULL;
    if (b->now)
        return ERR_AGAIN;
    err why = look_begin(&k, q, part);
    if (why != ERR_OK)
        return why;
    why = batches_fetch(&k, b->at, b->count, &rows);
    if (why == ERR_OK)
        why = bodies_read(&k, rows, b);
    pg_rows_free(&rows);
    look_end(&k);
    return why;
}
