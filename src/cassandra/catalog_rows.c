/* catalog_rows.c - copies of scopes: read page by page, put in order, held by their readers.
 *
 * Each page is a reading of its own. When the generation differs between two pages, another server
 * has changed the scope meanwhile, and the scope is read again.
 * Invariants:
 *   1 a copy is of one instant;
 *   2 a copy never changes once a caller has it, so readers need no lock. The last holder frees it.
 */
#include "cassandra/catalog_impl.h"

#include <stdlib.h>
#include <string.h>

/* TIMES_MAX: readings of one scope that changes all the time, before the load gives up. */
enum { PAGE_ROWS = 1000, CELLS_AT_FIRST = 64, TIMES_MAX = 10, COLUMNS = 5 };

/* ---- copies ---- */

struct catalog_rows *catalog_rows_hold(struct catalog_rows *r)
{
    atomic_fetch_add_explicit(&r->holders, 1, memory_order_relaxed);
    return r;
}

void catalog_rows_drop(struct catalog_rows **rp)
{
    struct catalog_rows *r = *rp;
    *rp = NULL;
    /* acq_rel: what other holders read of the copy is over before it is freed. */
    if (r == NULL || atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->count; i++)
        free((char *)(uintptr_t)r->cells[i].key.p); /* and its value, behind it */
    free(r->cells);
    free(r);
}

/* Cells are in order of their keys, so a prefix is a range that begins here. */
size_t catalog_rows_from(const struct catalog_rows *r, str key)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (str_cmp(r->cells[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct catalog_cell *catalog_rows_find(const struct catalog_rows *r, str key)
{
    size_t i = catalog_rows_from(r, key);
    return i < r->count && str_eq(r->cells[i].key, key) ? &r->cells[i] : NULL;
}

/* ---- reading ---- */

/* One load under way. It frees itself in load_end, at the caller's home. */
struct load {
    struct catalog *catalog;
    struct catalog_load *load;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    mono deadline;
    struct catalog_rows *rows; /* being filled; the caller's once the load is over */
    size_t size;               /* of cells */
    char *page_state;
    unsigned times;
    bool torn, any; /* torn: pages of two generations; any: a row was seen */
};

/* Begins a reading, and drops the cells of the reading before. */
static void rows_begin(struct load *l)
{
    catalog_rows_drop(&l->rows);
    l->rows = calloc(1, sizeof *l->rows);
    INVARIANT(l->rows != NULL);
    atomic_init(&l->rows->holders, 1);
    l->rows->asked_at = clock_mono(l->catalog->clock);
    l->size = 0;
    l->torn = l->any = false;
}

/* Gives the copy to the caller, or drops it. Frees the load before the caller goes on. */
static void load_end(struct load *l, err why)
{
    struct catalog_load *out = l->load;
    if (why == ERR_OK)
        out->rows = l->rows;
    else
        catalog_rows_drop(&l->rows);
    cql_values_fini(&l->values);
    free(l->page_state);
    free(l);
    out->call.why = why;
    out->call.done(&out->call);
}

/* Copies a cell into one allocation, key and value, which catalog_rows_drop frees by its key. */
static err cell_add(struct load *l, str key, str value, const struct catalog_id *version)
{
    struct catalog_rows *r = l->rows;
    size_t bytes = key.n + value.n;
    /* The limits bound what a scope costs each server that keeps a copy. */
    if (r->count == CATALOG_CELLS_MAX || r->bytes + bytes > CATALOG_SCOPE_BYTES_LIMIT) {
        err_note_set(&l->load->note, "the scope %.*s of the catalogue is larger than it may be",
                     STR_ARG(l->load->scope));
        return ERR_LIMIT;
    }
    if (r->count == l->size) {
        l->size = l->size == 0 ? CELLS_AT_FIRST : 2 * l->size;
        r->cells = realloc(r->cells, l->size * sizeof *r->cells);
        INVARIANT(r->cells != NULL);
    }
    char *p = malloc(bytes + 1);
    INVARIANT(p != NULL);
    if (key.n > 0)
        memcpy(p, key.p, key.n);
    if (value.n > 0)
        memcpy(p + key.n, value.p, value.n);
    r->cells[r->count++] = (struct catalog_cell){ .key = { .p = p, .n = key.n },
                                                  .value = { .p = p + key.n, .n = value.n },
                                                  .version = *version };
    r->bytes += bytes;
    return ERR_OK;
}

/* One row of the partition. A scope without cells has one row, of the static generation alone.
 * Notes of changes (kind 1) are gone past. */
static err row_take(struct load *l, const struct cql_cell *cells)
{
    struct catalog_id generation, version;
    int64_t kind;
    str key, value = STR("");
    if (!catalog_get_id(&cells[4], &generation))
        return ERR_CORRUPT;
    /* The generation is static: each row of one page says the same, so another one means another
     * page. */
    l->torn |= l->any && !catalog_id_eq(&generation, &l->rows->generation);
    l->any = true;
    l->rows->generation = generation;
    if (cells[0].null)
        return ERR_OK;
    if (!cql_get_i64(&cells[0], &kind))
        return ERR_CORRUPT;
    if (kind != 0)
        return ERR_OK;
    bool fine = cql_get_bytes(&cells[1], &key) && catalog_get_id(&cells[2], &version) &&
                (cells[3].null || cql_get_bytes(&cells[3], &value));
    return fine ? cell_add(l, key, value, &version) : ERR_CORRUPT;
}

static err rows_take(struct load *l)
{
    struct cql_rows rows = l->request.out.rows;
    struct cql_cell cells[COLUMNS];
    err e = ERR_OK;
    if (rows.columns == NULL || rows.columns->count != COLUMNS)
        return ERR_CORRUPT;
    while (e == ERR_OK && cql_rows_next(&rows, cells))
        e = row_take(l, cells);
    if (e == ERR_OK && rows.rest.failed)
        e = ERR_CORRUPT;
    if (e == ERR_CORRUPT)
        err_note_set(&l->load->note, "the scope %.*s of the catalogue cannot be read",
                     STR_ARG(l->load->scope));
    return e;
}

/* False: that was the last page. */
static bool page_next(struct load *l)
{
    const struct cql_rows *rows = &l->request.out.rows;
    if (!rows->more)
        return false;
    char *state = malloc(rows->page_state.n + 1);
    INVARIANT(state != NULL);
    memcpy(state, rows->page_state.p, rows->page_state.n);
    l->request.params.page_state = (str){ .p = state, .n = rows->page_state.n };
    free(l->page_state);
    l->page_state = state;
    return true;
}

/* Cassandra gives cells in order of their bytes; sorting makes sure, whatever the table's order is.
 */
static int cell_cmp(const void *a, const void *b)
{
    const struct catalog_cell *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

/* A page came. Another page, another reading, or the end. */
static void load_done(struct cql_request *q)
{
    struct load *l = CONTAINER_OF(q, struct load, request);
    err e = q->out.why;
    if (e != ERR_OK)
        l->load->note = q->out.note;
    else
        e = rows_take(l);
    bool more = e == ERR_OK && page_next(l);
    cql_outcome_fini(&q->out);
    /* A torn reading is judged at its last page; the next one begins without a page state. */
    if (e == ERR_OK && !more && l->torn) {
        more = ++l->times < TIMES_MAX;
        /* A scope that changes faster than it can be read is not known: that is no damage. */
        e = more ? ERR_OK : ERR_UNAVAILABLE;
        q->params.page_state = STR_NONE;
        rows_begin(l);
    }
    if (more) {
        cql_start(l->catalog->client, q);
        return;
    }
    if (e == ERR_OK && l->rows->count > 1)
        qsort(l->rows->cells, l->rows->count, sizeof *l->rows->cells, cell_cmp);
    load_end(l, e);
}

enum store_start catalog_load(struct catalog *c, struct catalog_load *out)
{
    MAGIC_CHECK(c, CATALOG_MAGIC);
    struct load *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->catalog = c;
    l->load = out;
    out->rows = NULL;
    rows_begin(l);
    cql_values_init(&l->values, CATALOG_SCOPE_BYTES_MAX + CATALOG_KEY_BYTES_MAX + 32);
    cql_put_bytes(&l->values, out->scope);
    if (out->key.p != NULL)
        cql_put_bytes(&l->values, out->key);
    l->part = (struct cql_part){ .statement =
                                     c->statements[out->key.p != NULL ? CATALOG_GET : CATALOG_LIST],
                                 .values = &l->values };
    l->request = catalog_request(out->call.home, catalog_deadline(c, &out->call), load_done);
    l->request.parts = &l->part;
    l->request.params.page_rows = PAGE_ROWS;
    if (out->serial)
        l->request.params.consistency = CQL_SERIAL;
    /* A reading at SERIAL is a round of its own over all replicas: a second one would only contend
     * with it. */
    l->request.speculative = !out->serial;
    cql_start(c->client, &l->request);
    return STORE_LATER;
}
