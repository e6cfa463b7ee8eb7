/* store_pg_scan.c - rows of one kind of a partition, out of PostgreSQL, for the owner's memory.
 *   A scan is one REPEATABLE READ transaction on a reader's connection, with a server-side
 * cursor for each kind of row, so it sees one state and holds a page of it at a time. A page
 * is looked at on the pool, and the next one is asked for when it is used up. */
#include "queue/store/local/rows.h"
#include "queue/store/pg/store_pg.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_ROWS = 500 };
#define PAGE_SQL "FETCH FORWARD 500 FROM "

/* ---- pages ---- */

/* What a cursor has shown so far: rows of one page, the row that is looked at. */
struct pager {
    const char *fetch;
    struct pg_rows *rows;
    unsigned at;
    bool asked, ended; /* the next page is on its way; there is none */
};

static void page_add(struct pg_ask *k, struct pager *p)
{
    pg_ask_add(k, p->fetch, NULL);
    p->asked = true;
}

/* The page of p came, as the answer to that statement. The rows of the page before go: slices
 * into them must not be used any more. */
static void page_take(struct pg_ask *k, struct pager *p, unsigned statement)
{
    pg_rows_free(&p->rows);
    p->rows = k->got[statement];
    k->got[statement] = NULL;
    p->at = 0;
    p->asked = false;
    /* A short page is the last. */
    p->ended = pg_rows_count(p->rows) < PAGE_ROWS;
}

/* ERR_OK: a row is there, at p->at. ERR_NOT_FOUND: no more. ERR_AGAIN: the next page has to come.
 */
static err page_row(const struct pager *p)
{
    if (p->rows != NULL && p->at < pg_rows_count(p->rows))
        return ERR_OK;
    return p->ended ? ERR_NOT_FOUND : ERR_AGAIN;
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

/* Restored or edited tables may hold anything: each number is checked. */
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
        /* Any 64 bits: a token has no limits. */
        .token = (uint64_t)pg_i64(p->rows, p->at, 6),
        .created_at = row_time(&r, 7),
        .expire_at = row_time(&r, 8),
        .order_key = row_order(&r, 9),
    };
    return row_status(&r);
}

/* The id and, behind it, the digest if there is one. */
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
    /* ITEM_IN_PLACE is 0. */
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

/* One scan. batches: of READY alone. */
struct scan_ask {
    struct pg_ask ask;
    struct queue_scan scan;
    struct pager batches, rows;
    bool has_batch; /* the one that is gone through, of the row before batches.at */
    unsigned index; /* in it */
    struct queue_batch batch;
};

/* The next item that stands in its place. As page_row. */
static err in_place_find(struct scan_ask *a)
{
    for (;;) {
        for (; a->has_batch && a->index < a->batch.count; a->index++)
            if (a->batch.states[a->index] == ITEM_IN_PLACE &&
                ksuid_cmp(ksuid_add(a->batch.first, a->index), a->scan.from) >= 0)
                return ERR_OK;
        a->has_batch = false;
        err why = page_row(&a->batches);
        if (why == ERR_OK)
            why = pg_batch_at(a->batches.rows, a->batches.at, &a->batch);
        /* The batch's slices point into the page: it is used up before the next page comes. */
        if (why != ERR_OK)
            return why;
        a->batches.at++;
        a->has_batch = true;
        a->index = 0;
    }
}

/* The least of both; it is taken. As page_row. */
static err ready_take(struct scan_ask *a, struct queue_row *out)
{
    struct queue_entry entry = { .kind = ENTRY_READY };
    /* Both have to be known before the smaller one can be taken; ERR_AGAIN of either waits. */
    err batch = in_place_find(a), row = page_row(&a->rows);
    if (row == ERR_OK)
        row = entry_at(&a->rows, ENTRY_READY, &entry);
    if (batch != ERR_OK && batch != ERR_NOT_FOUND)
        return batch;
    if (row != ERR_OK && row != ERR_NOT_FOUND)
        return row;
    if (batch == ERR_NOT_FOUND && row == ERR_NOT_FOUND)
        return ERR_NOT_FOUND;
    out->u.entry = batch == ERR_OK ? queue_entry_in_place(&a->batch, a->index) : entry;
    out->in_place = batch == ERR_OK && (row != ERR_OK || ksuid_cmp(out->u.entry.id, entry.id) < 0);
    if (!out->in_place)
        out->u.entry = entry;
    a->index += out->in_place;
    a->rows.at += !out->in_place;
    return ERR_OK;
}

/* from may lie within a batch. */
static const char DECLARE_BATCHES[] =
    "DECLARE cb NO SCROLL CURSOR FOR SELECT " PG_BATCH_COLUMNS
    " FROM {b} b LEFT JOIN {s} s ON s.first = b.first WHERE aside = 0 AND b.first >= coalesce("
    "(SELECT first FROM {b} WHERE first <= $1 ORDER BY first DESC LIMIT 1), $1)"
    " ORDER BY b.first";

/* ---- all kinds ---- */

static const char *const DECLARE[] = {
    [SCAN_READY] = "DECLARE c NO SCROLL CURSOR FOR SELECT " ENTRY_COLUMNS
                   " FROM {e} WHERE kind = 0 AND at = 0 AND id >= $1 ORDER BY id",
    [SCAN_SCHEDULED] = "DECLARE c NO SCROLL CURSOR FOR SELECT " ENTRY_COLUMNS
                       " FROM {e} WHERE kind = 1 AND (at, id) >= ($1, $2) ORDER BY at, id",
    [SCAN_LEASES] = "DECLARE c NO SCROLL CURSOR FOR SELECT id, batch, idx, in_place, deadline, "
                    "attempts, token, created, expire, order_key FROM {l} ORDER BY id",
    [SCAN_KEYS] = "DECLARE c NO SCROLL CURSOR FOR SELECT name, first, count, expire FROM {k}"
                  " WHERE kind = 7 ORDER BY name",
};

static err row_take(struct scan_ask *a, struct queue_row *out)
{
    if (a->scan.kind == SCAN_READY)
        return ready_take(a, out);
    err why = page_row(&a->rows);
    if (why != ERR_OK)
        return why;
    if (a->scan.kind == SCAN_SCHEDULED)
        why = entry_at(&a->rows, ENTRY_SCHEDULED, &out->u.entry);
    else if (a->scan.kind == SCAN_LEASES)
        why = lease_at(&a->rows, &out->u.lease);
    else
        why = key_at(&a->rows, &out->u.key);
    a->rows.at++;
    return why;
}

/* The transaction, its cursors, and the first page of each: one round trip. */
static void scan_begin(struct scan_ask *a)
{
    struct pg_ask *k = &a->ask;
    const struct queue_scan *scan = &a->scan;
    bool is_ready = scan->kind == SCAN_READY;
    struct pg_params *params = pg_ask_params(k);
    if (scan->kind == SCAN_SCHEDULED)
        pg_put_i64(params, scan->at.ns);
    if (scan->kind == SCAN_SCHEDULED || is_ready)
        pg_put_id(params, scan->from);
    pg_ask_add(k, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL);
    pg_ask_add(k, DECLARE[scan->kind], params);
    if (is_ready)
        pg_ask_add(k, DECLARE_BATCHES, params);
    page_add(k, &a->rows);
    if (is_ready)
        page_add(k, &a->batches);
    k->walking = true;
}

/* Pages that were asked for are the last answers, those of rows before those of batches. */
static void pages_take(struct scan_ask *a)
{
    /* The first answers are those of BEGIN and of the cursors. */
    unsigned at = a->ask.step > 1 ? 0 : a->scan.kind == SCAN_READY ? 3 : 2;
    if (a->rows.asked)
        page_take(&a->ask, &a->rows, at++);
    if (a->batches.asked)
        page_take(&a->ask, &a->batches, at);
}

/* Pool: rows are given out until a page ends. */
static bool scan_next(struct pg_ask *k)
{
    struct scan_ask *a = CONTAINER_OF(k, struct scan_ask, ask);
    struct queue_row row = { .in_place = false };
    if (k->step == 0) {
        scan_begin(a);
        return true;
    }
    pages_take(a);
    err why;
    while ((why = row_take(a, &row)) == ERR_OK)
        if (!a->scan.each(a->scan.ctx, &row))
            /* The transaction is still open: the reader ends it. */
            return false;
    if (why == ERR_NOT_FOUND)
        return false;
    k->why = why == ERR_AGAIN ? ERR_OK : why;
    if (why != ERR_AGAIN)
        return false;
    if (page_row(&a->rows) == ERR_AGAIN)
        page_add(k, &a->rows);
    /* A batch that is being gone through needs no page yet. */
    if (a->scan.kind == SCAN_READY && !a->has_batch && page_row(&a->batches) == ERR_AGAIN)
        page_add(k, &a->batches);
    return true;
}

/* A partition that is not there has no rows. */
static err scan_failed(const struct pg_outcome *o)
{
    return strcmp(o->state, "42P01") == 0 ? ERR_OK : ERR_UNAVAILABLE;
}

static void scan_free(struct pg_ask *k)
{
    struct scan_ask *a = CONTAINER_OF(k, struct scan_ask, ask);
    pg_rows_free(&a->batches.rows);
    pg_rows_free(&a->rows.rows);
    free(a);
}

err store_pg_scan(struct queue_store *q, const struct queue_scan *scan)
{
    struct scan_ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    *a = (struct scan_ask){ .ask = { .next = scan_next, .failed = scan_failed, .free = scan_free },
                            .scan = *scan,
                            .batches = { .fetch = PAGE_SQL "cb" },
                            .rows = { .fetch = PAGE_SQL "c" } };
    return pg_ask_run(&a->ask, q, scan->part, scan->later);
}
