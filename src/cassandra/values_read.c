/* values_read.c - rows of one key, for values_rows: the first live row with its bytes; or names of
 * many rows, from where an earlier answer ended.
 *
 * A token is 'r', the revision and the tid of the last row that was given. A listing's token is 'k'
 * and the key.
 * Invariant: a request reads either one full row, or names. */
#include "cassandra/values_impl.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

/* FULL_ROWS: rows with their values in one page. A few, since rows before the first that is alive
 * are passed over. */
enum { TOKEN_BYTES = 1 + 8 + TID_KEY_BYTES, FULL_ROWS = 4, ROWS_AT_FIRST = 8 };

/* One request. It frees itself in get_end. */
struct get {
    struct values *values;
    struct table_rows *rows;
    struct values_find find;
    struct values_key key;
    struct values_ask ask;
    struct values_body body;
    struct values_head head;
    struct table_row *out;
    unsigned count, size, tries; /* tries: readings of a row whose chunks were gone */
    uint32_t limit;
    bool full, has_rev, has_tid;
    int64_t rev;
    str tid;
    bool met; /* a row is under way: the first that is alive, of a full one */
    struct values_row row, last;
};

static void get_end(struct get *g, err why)
{
    struct table_rows *r = g->rows;
    values_ask_clear(&g->ask);
    if (why == ERR_OK) {
        r->rows = g->out;
        r->rows_count = g->count;
    }
    atomic_fetch_add(&g->values->gets, 1);
    if (why == ERR_CORRUPT)
        atomic_fetch_add(&g->values->damaged, 1);
    free(g);
    store_call_end(&r->call, why);
}

/* Room for one more row of the answer; the old array stays in the caller's arena. */
static bool get_room(struct get *g)
{
    if (g->count < g->size)
        return true;
    unsigned size = g->size == 0 ? ROWS_AT_FIRST : 2 * g->size;
    struct table_row *out = arena_calloc(g->rows->arena, size, sizeof *out);
    if (out == NULL)
        return false;
    if (g->count > 0)
        memcpy(out, g->out, g->count * sizeof *out);
    g->out = out;
    g->size = size;
    return true;
}

static bool get_keep(struct get *g, const struct values_row *r, const struct values_head *h,
                     str value)
{
    const struct values_shown shown = { .revs = g->find.bucket.revs,
                                        .key = g->full ? g->key.key : STR_NONE,
                                        .row = r,
                                        .head = h,
                                        .value = value };
    return get_room(g) && values_row_table(g->rows->arena, &shown, &g->out[g->count++]);
}

/* ---- the bytes ---- */

static void get_send(struct get *g);

static void get_bytes(struct store_call *c)
{
    struct get *g = CONTAINER_OF(c, struct get, body.call);
    err e = c->why;
    if (e == ERR_NOT_FOUND && ++g->tries < VALUES_TRIES_MAX &&
        !store_call_canceled(&g->rows->call)) {
        /* another write has taken the row's place meanwhile, and its chunks are gone */
        get_send(g);
        return;
    }
    /* Missing again and again: the row names chunks that are not there. */
    if (e == ERR_NOT_FOUND)
        e = ERR_CORRUPT;
    if (e == ERR_OK && !get_keep(g, &g->row, &g->head, g->body.bytes))
        e = ERR_LIMIT;
    if (e != ERR_OK)
        g->rows->note = g->body.note;
    get_end(g, e);
}

static void get_body(struct get *g)
{
    g->body = (struct values_body){
        .call = { .home = g->rows->call.home, .done = get_bytes, .part_of = &g->rows->call },
        .values = g->values,
        .key = g->key,
        .row = g->row,
        .arena = g->rows->arena
    };
    store_call_then(values_body(&g->body), &g->body.call);
}

/* ---- rows ---- */

/* Keeps the row whose bytes are wanted. It is copied out of the answer, since the bytes are read
 * after the answer has gone. */
static err row_meet(struct get *g, const struct values_row *r)
{
    struct arena *a = g->rows->arena;
    struct values_head h;
    g->row = *r;
    g->row.head = arena_copy(a, r->head);
    g->row.bytes = r->bytes.p == NULL ? STR_NONE : arena_copy(a, r->bytes);
    if (g->row.head.p == NULL || (r->bytes.p != NULL && g->row.bytes.p == NULL))
        return ERR_LIMIT;
    if (!values_head_read(g->row.head, &h))
        return ERR_CORRUPT;
    g->head = h;
    g->met = true;
    return ERR_OK;
}

static err token_make(struct get *g)
{
    char token[TOKEN_BYTES];
    token[0] = 'r';
    put_be64(token + 1, (uint64_t)g->last.rev);
    memcpy(token + 9, g->last.tid, sizeof g->last.tid);
    g->rows->next = arena_copy(g->rows->arena, (str){ .p = token, .n = sizeof token });
    return g->rows->next.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* Takes one row, when it is alive. *over: no more rows are wanted, because this is the one, or the
 * page is full. */
static err row_take(struct get *g, const struct cql_cell *cells, bool *over)
{
    struct values_got got;
    err e = values_row_get(cells, g->full, &got);
    if (e != ERR_OK || !got.has_row ||
        !store_time_before(clock_store(g->values->opts.clock), got.row.expires))
        return e;
    /* A row behind a full page only says that there is a next page. */
    *over = g->full || g->count == g->limit;
    if (g->full)
        return row_meet(g, &got.row);
    if (*over)
        return token_make(g);
    g->last = got.row;
    return get_keep(g, &got.row, NULL, STR_NONE) ? ERR_OK : ERR_LIMIT;
}

/* A page of rows. The rest of the row's way depends on what was met. */
static void get_done(struct cql_request *q)
{
    struct get *g = CONTAINER_OF(q, struct get, ask.request);
    struct cql_rows rows = q->out.rows;
    struct cql_cell cells[VALUES_FULL_COLUMNS];
    bool over = false;
    g->rows->note = q->out.note;
    err e = values_blame(g->values, &g->rows->call, q->out.why, false, g->key.key, &g->rows->note);
    while (e == ERR_OK && !over && cql_rows_next(&rows, cells))
        e = row_take(g, cells, &over);
    if (e == ERR_OK && rows.rest.failed)
        e = ERR_CORRUPT;
    bool more = !over && values_ask_more(&g->ask, g->rows->arena, &e);
    cql_outcome_fini(&q->out);
    if (e == ERR_OK && more && store_call_canceled(&g->rows->call))
        e = ERR_TIMEOUT;
    if (e == ERR_OK && more)
        cql_start(g->values->opts.client, q);
    else if (e == ERR_OK && g->met)
        get_body(g);
    else
        get_end(g, e);
}

static bool token_read(str token, int64_t *rev, str *tid)
{
    if (token.n != TOKEN_BYTES || token.p[0] != 'r')
        return false;
    *rev = (int64_t)get_be64(token.p + 1);
    *tid = str_skip(token, 9);
    return true;
}

/* Chooses the statement by what is named, and where the answer begins. */
static err get_ask(struct get *g)
{
    bool after = g->rows->get.next.n > 0;
    int64_t rev = g->rev;
    str tid = g->tid;
    /* A token of another revision, or of a request that gives one row: it was made for another
     * query. */
    if (after && (g->full || g->has_tid || !token_read(g->rows->get.next, &rev, &tid) ||
                  (g->has_rev && rev != g->rev)))
        return err_bad(&g->rows->note, "next is not a token of an answer to this query");
    enum values_statement s = g->full      ? (g->has_tid   ? VALUES_FULL_ROW
                                              : g->has_rev ? VALUES_FULL_REV
                                                           : VALUES_FULL)
                              : g->has_tid ? VALUES_META_ROW
                              : g->has_rev ? (after ? VALUES_META_REV_AFTER : VALUES_META_REV)
                              : after      ? VALUES_META_AFTER
                                           : VALUES_META;
    struct cql_values *v = values_ask_key(&g->ask, s, &g->key, 64);
    if (g->has_rev || after)
        cql_put_i64(v, rev);
    if (g->has_tid || after)
        cql_put_bytes(v, tid);
    return ERR_OK;
}

/* Sends the question, from its beginning. Also again, when a row's chunks were gone. */
static void get_send(struct get *g)
{
    g->met = false;
    values_ask_clear(&g->ask);
    err e = get_ask(g);
    if (e != ERR_OK) {
        get_end(g, e);
        return;
    }
    values_ask_set(&g->ask, g->rows->call.home, values_deadline(g->values, &g->rows->call),
                   get_done);
    /* One row more than the limit shows whether there is a next page. */
    g->ask.request.params.page_rows = g->full || g->limit < FULL_ROWS ? FULL_ROWS
                                      : g->limit < VALUES_PAGE_ROWS   ? (int32_t)g->limit + 1
                                                                      : VALUES_PAGE_ROWS;
    g->ask.request.speculative = true;
    cql_start(g->values->opts.client, &g->ask.request);
}

static void get_found(struct store_call *c)
{
    struct get *g = CONTAINER_OF(c, struct get, find.call);
    if (c->why != ERR_OK) {
        g->rows->note = g->find.note;
        get_end(g, c->why);
        return;
    }
    g->key.domain = g->find.domain_name;
    g->key.made = g->find.bucket.made;
    get_send(g);
}

/* Reads what is asked for: key, rev and tid, each equal. False: a query that the value service does
 * not make. */
static bool get_plan(struct get *g, const struct table_get *t)
{
    for (unsigned i = 0; i < t->predicates_count; i++) {
        const struct table_predicate *p = &t->predicates[i];
        if (p->op != OP_EQ)
            return false;
        if (str_eq(p->name, STR("key"))) {
            g->key.key = p->value;
        } else if (str_eq(p->name, STR("rev")) && p->value.n == 8) {
            g->has_rev = true;
            g->rev = table_long(p->value);
        } else if (str_eq(p->name, STR("tid")) && p->value.n == TID_KEY_BYTES) {
            g->has_tid = true;
            g->tid = p->value;
        } else {
            return false;
        }
    }
    g->limit = t->limit == 0 ? TABLE_LIMIT_MAX : t->limit;
    /* No projection means the whole row. */
    g->full = t->proj_count == 0;
    return g->key.key.p != NULL && (!g->has_tid || g->has_rev) && !t->reversed && !t->with_ttl &&
           t->index.n == 0 && (!g->full || g->limit == 1);
}

/* Listings of keys go by partitions of their own; all other rows are of one key. */
enum store_start values_rows(struct table_store *s, struct table_rows *r)
{
    struct values *v = CONTAINER_OF(s, struct values, store);
    r->rows = r->damaged = NULL;
    r->rows_count = r->damaged_count = 0;
    r->next = STR_NONE;
    r->note.text[0] = 0;
    if (r->get.distinct)
        return values_list(v, r);
    struct get *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    g->values = v;
    g->rows = r;
    g->ask.values = v;
    g->key.bucket = r->get.table;
    if (!get_plan(g, &r->get)) {
        free(g);
        err_note_set(&r->note, "only values by key, rev and tid are kept on Cassandra yet");
        return store_call_done(&r->call, ERR_BAD);
    }
    g->find = (struct values_find){ .call = { .home = r->call.home,
                                              .deadline = r->call.deadline,
                                              .done = get_found,
                                              .part_of = &r->call },
                                    .domain = r->domain,
                                    .table = r->get.table };
    store_call_then(values_find(v, &g->find), &g->find.call);
    return STORE_LATER;
}
