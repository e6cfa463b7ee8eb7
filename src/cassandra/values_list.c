/* values_list.c - the keys of a bucket, in order, for values_rows with `distinct`: keys of all
 * shards, each looked at for a row that is alive.
 *
 * A round asks each shard for some keys behind the last one. A shard that had more says nothing of
 * what is behind its last key. So a round ends at the least of the last keys of such shards. The
 * keys up to there are sorted, and their rows are looked at, PROBES at a time.
 * Invariants:
 *   1 all keys up to `from` were looked at;
 *   2 exchanges of one step are under way together, and the last that ends goes on. */
#include "cassandra/values_impl.h"

#include <stdlib.h>
#include <string.h>

/* KEYS_SPARE: keys that a shard is asked for beyond its share. PROBE_ROWS: most keys have a live
 * row among their newest. */
enum { PROBES = 32, KEYS_SPARE = 4, PROBE_ROWS = 20, WORK_BYTES_MAX = 64 << 20 };

struct listing;
struct exchange { /* the keys of one shard, or the rows of one key */
    struct listing *list;
    struct cql_part part;
    struct cql_values values;
    struct cql_request request;
    struct arena arena; /* of a shard's keys; of a probe's pages */
    err why;
    struct err_note note;
    str *keys; /* of a shard */
    unsigned count;
    bool cut; /* it had more */
    str key;  /* of a probe */
    bool alive;
};
/* One listing. It frees itself in list_end. */
struct listing {
    struct values *values;
    struct table_rows *rows;
    struct values_find find;
    struct exchange exchanges[VALUES_SHARDS];
    atomic_uint left; /* under way */
    /* started: exchanges of this step; per_shard: keys asked of one shard */
    unsigned started, per_shard;
    str from;  /* behind it; n 0: the beginning */
    str *keys; /* of this round, in order */
    size_t count, at;
    bool cut;          /* there are more behind this round */
    struct arena work; /* of one round */
    struct table_row *out;
    unsigned out_count;
    uint32_t limit;
    char from_bytes[VALUES_KEY_BYTES_MAX];
};

/* All exchanges are over. The rows that were found lie in the caller's arena. */
static void list_end(struct listing *l, err why)
{
    struct table_rows *r = l->rows;
    if (why == ERR_OK) {
        r->rows = l->out;
        r->rows_count = l->out_count;
    }
    for (unsigned i = 0; i < VALUES_SHARDS; i++)
        arena_fini(&l->exchanges[i].arena);
    arena_fini(&l->work);
    free(l);
    store_call_end(&r->call, why);
}

/* ---- exchanges, some at a time ---- */

/* Takes an exchange into use for one more question; its arena is empty again. Table, domain and id
 * begin every key's name. */
static struct cql_values *exchange_begin(struct listing *l, struct exchange *x,
                                         enum values_statement s, size_t bytes)
{
    x->list = l;
    x->why = ERR_OK;
    x->note.text[0] = 0;
    x->count = 0;
    x->cut = x->alive = false;
    arena_reset(&x->arena);
    cql_values_init(&x->values, VALUES_KEY_BYTES_MAX + bytes);
    x->part = (struct cql_part){ .statement = l->values->statements[s], .values = &x->values };
    cql_put_bytes(&x->values, l->rows->get.table);
    cql_put_bytes(&x->values, l->find.domain_name);
    values_put_id(&x->values, &l->find.bucket.made);
    return &x->values;
}

static void exchange_set(struct exchange *x, void (*done)(struct cql_request *q))
{
    const struct listing *l = x->list;
    x->request = (struct cql_request){ .way = CQL_WAY_EXECUTE,
                                       .parts = &x->part,
                                       .parts_count = 1,
                                       .deadline = values_deadline(l->values, &l->rows->call),
                                       .home = l->rows->call.home,
                                       .speculative = true,
                                       .done = done };
    x->request.params.consistency = CQL_LOCAL_QUORUM;
    x->request.params.timestamp_us = CQL_NO_TIMESTAMP;
    x->request.params.now_s = CQL_NO_NOW;
}

/* Notes how the exchange ended. On any thread: the listing is only read. */
static void exchange_take(struct exchange *x)
{
    const struct listing *l = x->list;
    x->note = x->request.out.note;
    x->why = values_blame(l->values, &l->rows->call, x->request.out.why, false, l->rows->get.table,
                          &x->note);
}

/* An exchange is over. The exchange that ends last goes on with `then`, on its thread, or ends the
 * listing by the first failure. */
static void exchange_over(struct exchange *x, void (*then)(struct listing *l, err why))
{
    struct listing *l = x->list;
    cql_values_fini(&x->values);
    if (atomic_fetch_sub(&l->left, 1) > 1)
        return;
    /* A canceled listing needs no more answers, however good these are. */
    err why = store_call_canceled(&l->rows->call) ? ERR_TIMEOUT : ERR_OK;
    for (unsigned i = 0; why == ERR_OK && i < l->started; i++) {
        why = l->exchanges[i].why;
        if (why != ERR_OK)
            l->rows->note = l->exchanges[i].note;
    }
    if (why != ERR_OK)
        list_end(l, why);
    else
        then(l, ERR_OK);
}

/* ---- is a key's row alive? ---- */

static void probes_start(struct listing *l);
static void round_start(struct listing *l);

/* A key without anything else: its value was not asked for. */
static bool row_keep(struct listing *l, str key)
{
    struct arena *a = l->rows->arena;
    if (l->out == NULL)
        l->out = arena_calloc(a, (size_t)l->limit, sizeof *l->out);
    const struct values_row none = { .rev = 0 };
    const struct values_shown shown = { .key = key, .row = &none };
    return l->out != NULL && values_row_table(a, &shown, &l->out[l->out_count++]);
}

static err token_make(struct listing *l)
{
    /* The last key that was given: the next listing begins behind it. */
    const struct table_row *last = &l->out[l->out_count - 1];
    str key = last->attrs[0].value;
    l->rows->next = arena_printf(l->rows->arena, "k%.*s", STR_ARG(key));
    return l->rows->next.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* Keys stand in the order of probes, so rows are kept in order of keys. */
static void probes_over(struct listing *l, err why)
{
    for (unsigned i = 0; i < l->started; i++) {
        if (!l->exchanges[i].alive)
            continue;
        /* One more key is alive than fit in: so there is a next page. Its key comes again then. */
        if (l->out_count == l->limit) {
            list_end(l, token_make(l));
            return;
        }
        if (!row_keep(l, l->exchanges[i].key)) {
            list_end(l, ERR_LIMIT);
            return;
        }
    }
    (void)why;
    if (l->at < l->count)
        probes_start(l);
    else if (l->cut)
        round_start(l);
    else
        list_end(l, ERR_OK);
}

/* Rows of one key. Goes on to the next page until a row is alive. */
static void probe_done(struct cql_request *q)
{
    struct exchange *x = CONTAINER_OF(q, struct exchange, request);
    struct cql_rows rows = q->out.rows;
    struct cql_cell cells[VALUES_META_COLUMNS];
    store_time now = clock_store(x->list->values->opts.clock);
    exchange_take(x);
    while (x->why == ERR_OK && !x->alive && cql_rows_next(&rows, cells)) {
        struct values_got got;
        x->why = values_row_get(cells, false, &got);
        x->alive = x->why == ERR_OK && got.has_row && store_time_before(now, got.row.expires);
    }
    bool more = x->why == ERR_OK && !x->alive && rows.more;
    if (more) {
        x->request.params.page_state = arena_copy(&x->arena, rows.page_state);
        x->why = x->request.params.page_state.p == NULL ? ERR_LIMIT : ERR_OK;
    }
    cql_outcome_fini(&q->out);
    if (more && x->why == ERR_OK)
        cql_start(x->list->values->opts.client, q);
    else
        exchange_over(x, probes_over);
}

/* Looks at the next keys, as many at once as may be. */
static void probes_start(struct listing *l)
{
    struct cql *client = l->values->opts.client;
    unsigned n = l->count - l->at < PROBES ? (unsigned)(l->count - l->at) : PROBES;
    l->started = n;
    atomic_store(&l->left, n);
    for (unsigned i = 0; i < n; i++) {
        struct exchange *x = &l->exchanges[i];
        x->key = l->keys[l->at + i];
        cql_put_bytes(exchange_begin(l, x, VALUES_META, 0), x->key);
        exchange_set(x, probe_done);
        x->request.params.page_rows = PROBE_ROWS;
    }
    l->at += n;
    /* no exchange is looked at behind the last start: its end may free the listing */
    for (unsigned i = 0; i < n; i++)
        cql_start(client, &l->exchanges[i].request);
}

/* ---- a round ---- */

static int key_order(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

/* Where the round ends: at the least of the last keys of shards that had more. p NULL: no shard had
 * more. */
static str round_until(const struct listing *l)
{
    str until = STR_NONE;
    for (unsigned i = 0; i < VALUES_SHARDS; i++) {
        const struct exchange *x = &l->exchanges[i];
        if (x->cut && (until.p == NULL || str_cmp(x->keys[x->count - 1], until) < 0))
            until = x->keys[x->count - 1];
    }
    return until;
}

/* Puts the round's keys in order. Keys behind its end are asked for again by the next round. */
static bool round_gather(struct listing *l)
{
    str until = round_until(l);
    size_t all = 0;
    for (unsigned i = 0; i < VALUES_SHARDS; i++)
        all += l->exchanges[i].count;
    l->cut = until.p != NULL;
    l->count = l->at = 0;
    l->keys = arena_alloc(&l->work, all * sizeof *l->keys + 1);
    if (l->keys == NULL)
        return false;
    for (unsigned i = 0; i < VALUES_SHARDS; i++)
        for (unsigned k = 0; k < l->exchanges[i].count; k++)
            if (!l->cut || str_cmp(l->exchanges[i].keys[k], until) <= 0) {
                /* Copied: the exchanges' arenas are reset by the probes. */
                str key = arena_copy(&l->work, l->exchanges[i].keys[k]);
                if (key.p == NULL)
                    return false;
                l->keys[l->count++] = key;
            }
    qsort(l->keys, l->count, sizeof *l->keys, key_order);
    if (l->cut) { /* the next round goes on behind the last key of this one */
        memcpy(l->from_bytes, until.p, until.n);
        l->from = (str){ .p = l->from_bytes, .n = until.n };
    }
    return true;
}

static void shards_over(struct listing *l, err why)
{
    (void)why;
    arena_reset(&l->work);
    if (!round_gather(l))
        list_end(l, ERR_LIMIT);
    else if (l->count > 0)
        probes_start(l);
    else
        list_end(l, ERR_OK);
}

static err keys_take(struct exchange *x, struct cql_rows rows, unsigned max)
{
    struct cql_cell cell;
    x->keys = arena_alloc(&x->arena, max * sizeof *x->keys);
    if (x->keys == NULL)
        return ERR_LIMIT;
    while (x->count < max && cql_rows_next(&rows, &cell)) {
        str key;
        if (!cql_get_bytes(&cell, &key) || key.n > VALUES_KEY_BYTES_MAX)
            return ERR_CORRUPT;
        x->keys[x->count] = arena_copy(&x->arena, key);
        if (x->keys[x->count++].p == NULL)
            return ERR_LIMIT;
    }
    /* A shard that gave as many keys as it was asked for may have more. */
    x->cut = x->count == max;
    return rows.rest.failed ? ERR_CORRUPT : ERR_OK;
}

static void shard_done(struct cql_request *q)
{
    struct exchange *x = CONTAINER_OF(q, struct exchange, request);
    exchange_take(x);
    if (x->why == ERR_OK)
        x->why = keys_take(x, q->out.rows, x->list->per_shard);
    cql_outcome_fini(&q->out);
    exchange_over(x, shards_over);
}

/* Asks all shards at once. All are set before the first is started: the last that ends goes on with
 * the listing. */
static void round_start(struct listing *l)
{
    struct cql *client = l->values->opts.client;
    l->started = VALUES_SHARDS;
    atomic_store(&l->left, VALUES_SHARDS);
    for (unsigned i = 0; i < VALUES_SHARDS; i++) {
        struct cql_values *v = exchange_begin(l, &l->exchanges[i], VALUES_KEY_LIST, 64);
        cql_put_i8(v, (int8_t)i);
        cql_put_bytes(v, l->from.p == NULL ? STR("") : l->from);
        cql_put_i32(v, (int32_t)l->per_shard);
        exchange_set(&l->exchanges[i], shard_done);
    }
    for (unsigned i = 0; i < VALUES_SHARDS; i++)
        cql_start(client, &l->exchanges[i].request);
}

/* ---- the start ---- */

static void list_found(struct store_call *c)
{
    struct listing *l = CONTAINER_OF(c, struct listing, find.call);
    if (c->why != ERR_OK) {
        l->rows->note = l->find.note;
        list_end(l, c->why);
        return;
    }
    round_start(l);
}

enum store_start values_list(struct values *v, struct table_rows *r)
{
    str token = r->get.next;
    /* The value service asks for keys in their order alone. */
    if (r->get.predicates_count > 0 || r->get.reversed || r->get.with_ttl ||
        (token.n > 0 && (token.p[0] != 'k' || token.n > VALUES_KEY_BYTES_MAX))) {
        err_note_set(&r->note, "next is not a token of an answer to this query");
        return store_call_done(&r->call, ERR_BAD);
    }
    struct listing *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->values = v;
    l->rows = r;
    l->from = str_skip(token, 1);
    l->limit = r->get.limit == 0 || r->get.limit > TABLE_LIMIT_MAX ? TABLE_LIMIT_MAX : r->get.limit;
    /* Keys are spread evenly, so most rounds have enough for the page. */
    l->per_shard = l->limit / VALUES_SHARDS + KEYS_SPARE;
    arena_init(&l->work, WORK_BYTES_MAX);
    for (unsigned i = 0; i < VALUES_SHARDS; i++)
        arena_init(&l->exchanges[i].arena, WORK_BYTES_MAX / VALUES_SHARDS);
    l->find = (struct values_find){ .call = { .home = r->call.home,
                                              .deadline = r->call.deadline,
                                              .done = list_found,
                                              .part_of = &r->call },
                                    .domain = r->domain,
                                    .table = r->get.table };
    store_call_then(values_find(v, &l->find), &l->find.call);
    return STORE_LATER;
}
