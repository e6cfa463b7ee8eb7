#include "strategy/strategy.h"

#include "base/buf.h"
#include "strategy/statement.h"

#include <stdlib.h>
#include <string.h>

enum { EXPIRE_ROWS = 4096 };

static const char *const strategy_names[STRATEGY_KINDS] = {
    [STRATEGY_APP_TTL] = "app_ttl",
    [STRATEGY_TWO_TABLE] = "two_table",
    [STRATEGY_PER_QUERY_A] = "table_per_query_a",
    [STRATEGY_PER_QUERY_B] = "table_per_query_b",
};

const char *strategy_name(enum strategy_kind k)
{
    INVARIANT(k < STRATEGY_KINDS);
    return strategy_names[k];
}

struct strategy *strategy_new(const struct strategy_opts *opts)
{
    INVARIANT(opts->contents >= 1 && opts->contents <= STRATEGY_CONTENTS_MAX);
    struct strategy *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->opts = *opts;
    rng_init(&s->rng, opts->seed);
    return s;
}

void strategy_free(struct strategy **sp)
{
    free(*sp);
    *sp = NULL;
}

const struct strategy_counts *strategy_counts_of(const struct strategy *s)
{
    return &s->counts;
}

err strategy_put(struct strategy *s, const struct strategy_render *r, store_time now)
{
    static err (*const put[STRATEGY_KINDS])(struct strategy *, const struct strategy_render *,
                                            store_time) = {
        [STRATEGY_APP_TTL] = app_ttl_put,
        [STRATEGY_TWO_TABLE] = two_table_put,
        [STRATEGY_PER_QUERY_A] = per_query_put,
        [STRATEGY_PER_QUERY_B] = per_query_put,
    };
    s->counts.updates++;
    return put[s->opts.kind](s, r, now);
}

/* Where what is asked for may lie, in the order it is looked for. */
struct place {
    enum strategy_table table;
    enum key_depth depth;
};

static unsigned places_of(const struct strategy *s, const struct strategy_which *w,
                          struct place out[2])
{
    static const enum key_depth depths[] = {
        [STRATEGY_LATEST] = KEY_TITLE, [STRATEGY_REV] = KEY_REV, [STRATEGY_EXACT] = KEY_TID
    };
    bool per_query = s->opts.kind == STRATEGY_PER_QUERY_A || s->opts.kind == STRATEGY_PER_QUERY_B;
    enum key_depth depth = depths[w->select];
    if (!per_query) {
        out[0] = (struct place){ TABLE_CURRENT, depth };
        out[1] = (struct place){ TABLE_HISTORICAL, depth };
        return w->select == STRATEGY_LATEST ? 1 : 2;
    }
    if (w->select == STRATEGY_LATEST) {
        out[0] = (struct place){ TABLE_CURRENT, KEY_TITLE };
        return 1;
    }
    /* What is asked for may be the latest whose copies have expired. */
    out[0] = (struct place){ w->select == STRATEGY_REV ? TABLE_BY_REV : TABLE_BY_TID, depth };
    out[1] = (struct place){ TABLE_CURRENT, KEY_TITLE };
    return 2;
}

static bool is_wanted(const struct strategy_which *w, const struct strategy_row *row)
{
    if (w->select != STRATEGY_LATEST && row->name.rev != w->name.rev)
        return false;
    return w->select != STRATEGY_EXACT || tid_cmp(row->name.tid, w->name.tid) == 0;
}

/* The seed's footnote 3: a historical hit with less than half its time left is written again. */
static err refresh(struct strategy *s, const struct strategy_key *k, const struct strategy_row *row,
                   store_time now)
{
    if (k->table != TABLE_HISTORICAL)
        return ERR_OK;
    if (row->expires_at.ns - now.ns >= s->opts.historical_ttl_ns / 2)
        return ERR_OK;
    struct strategy_batch b = { .s = s };
    struct statement *st = batch_add(&b);
    st->kind = STATEMENT_INSERT;
    st->key = *k;
    st->key.depth = KEY_TID;
    st->key.name = row->name;
    st->name = row->name;
    st->value = row->value;
    st->expires_at = store_time_add(now, s->opts.historical_ttl_ns);
    return batch_run(&b);
}

err strategy_get(struct strategy *s, const struct strategy_which *w, store_time now,
                 struct arena *a, struct strategy_name_of *name, str *value)
{
    struct place places[2];
    unsigned count = places_of(s, w, places);
    s->counts.gets++;
    for (unsigned i = 0; i < count; i++) {
        struct strategy_row row;
        struct strategy_key k = { .table = places[i].table,
                                  .content = w->content,
                                  .depth = places[i].depth,
                                  .domain = w->domain,
                                  .title = w->title,
                                  .name = w->name };
        err why = select_first(s, &k, now, a, &row);
        if (why == ERR_NOT_FOUND || (why == ERR_OK && !is_wanted(w, &row)))
            continue;
        if (why == ERR_OK)
            why = refresh(s, &k, &row, now);
        if (why != ERR_OK)
            return why;
        s->counts.hits++;
        *name = row.name;
        *value = row.value;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}

err strategy_put_historical(struct strategy *s, const struct strategy_render *r, store_time now)
{
    bool per_query = s->opts.kind == STRATEGY_PER_QUERY_A || s->opts.kind == STRATEGY_PER_QUERY_B;
    struct strategy_batch b = { .s = s };
    for (unsigned i = 0; i < s->opts.contents; i++) {
        struct statement *st = batch_add(&b);
        st->kind = STATEMENT_INSERT;
        st->key = (struct strategy_key){ .table = per_query ? TABLE_BY_TID : TABLE_HISTORICAL,
                                         .content = i,
                                         .depth = KEY_TID,
                                         .domain = r->domain,
                                         .title = r->title,
                                         .name = r->name };
        st->name = r->name;
        st->value = r->contents[i];
        st->expires_at = store_time_add(now, s->opts.historical_ttl_ns);
        if (per_query) {
            struct statement *by_rev = batch_add(&b);
            *by_rev = *st;
            by_rev->kind = STATEMENT_INSERT_GREATEST;
            by_rev->key.table = TABLE_BY_REV;
            by_rev->key.depth = KEY_REV;
        }
    }
    return batch_run(&b);
}

struct expiry {
    struct strategy *s;
    store_time now;
    char at[ENGINE_KEY_BYTES_MAX],
        next[ENGINE_KEY_BYTES_MAX]; /* this batch begins, the next one begins */
    size_t at_bytes, next_bytes;
    uint64_t removed, rows, bytes;
    bool more;
};

static bool is_over(str value, store_time now)
{
    return value.n >= 8 && (int64_t)get_be64(value.p) <= now.ns;
}

static struct engine_cursor *rows_of(struct strategy *s, struct engine_view *v, str from)
{
    char first = (char)s->opts.instance, end[1];
    str prefix = { .p = &first, .n = 1 };
    struct engine_range range = { .space = SPACE_COMPARE,
                                  .from = from.n == 0 ? prefix : from,
                                  .until = engine_prefix_end(prefix, end) };
    return engine_cursor_open(v, &range);
}

static err expire_some(struct engine_txn *t, void *ctx)
{
    struct expiry *x = ctx;
    struct engine_row row;
    unsigned seen = 0;
    uint64_t removed = 0;
    x->next_bytes = 0;
    struct engine_cursor *c =
        rows_of(x->s, engine_txn_view(t), (str){ .p = x->at, .n = x->at_bytes });
    err why = ERR_OK;
    while (seen < EXPIRE_ROWS && (why = engine_cursor_next(c, &row)) == ERR_OK) {
        memcpy(x->next, row.key.p, row.key.n);
        x->next_bytes = row.key.n;
        seen++;
        if (!is_over(row.value, x->now))
            continue;
        why = engine_txn_delete(t, SPACE_COMPARE, (str){ .p = x->next, .n = x->next_bytes });
        if (why != ERR_OK)
            break;
        removed++;
    }
    engine_cursor_close(&c);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    x->more = why == ERR_OK;
    x->removed = removed;
    return ERR_OK;
}

err strategy_expire(struct strategy *s, store_time now, uint64_t *removed)
{
    struct expiry x = { .s = s, .now = now, .more = true };
    *removed = 0;
    while (x.more) {
        err why = engine_update_wait(s->opts.engine, expire_some, &x);
        if (why != ERR_OK)
            return why;
        *removed += x.removed;
        memcpy(x.at, x.next, x.next_bytes);
        x.at_bytes = x.next_bytes;
    }
    return ERR_OK;
}

err strategy_size(struct strategy *s, uint64_t *rows, uint64_t *bytes)
{
    struct engine_view *v = engine_view_begin(s->opts.engine);
    struct engine_cursor *c = rows_of(s, v, STR_NONE);
    struct engine_row row;
    uint64_t n = 0, sum = 0;
    err why;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK) {
        n++;
        sum += row.key.n + row.value.n + row.blob.n;
    }
    engine_cursor_close(&c);
    engine_view_end(&v);
    if (why != ERR_NOT_FOUND)
        return why;
    *rows = n;
    *bytes = sum;
    return ERR_OK;
}
