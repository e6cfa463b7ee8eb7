/* tables.c - the table store that the embedded engine is (store/table_store.h).
 *
 * A read is tried on the calling thread without blocking. What is cold, long or large is begun anew
 * on the pool. So nothing of the engine outlives a call. */
#include "table/store.h"
#include "table/table.h"

#include <stdlib.h>
#include <string.h>

err tables_new(struct engine *e, struct clock *clock, struct tables **out, struct err_note *note)
{
    struct tables *ts = calloc(1, sizeof *ts);
    if (ts == NULL) {
        err_note_set(note, "out of memory");
        return ERR_LIMIT;
    }
    ts->magic = TABLES_MAGIC;
    ts->engine = e;
    ts->clock = clock;
    ts->pool = home_here();
    *out = ts;
    return ERR_OK;
}

void tables_free(struct tables **tp)
{
    if (*tp == NULL)
        return;
    MAGIC_CHECK(*tp, TABLES_MAGIC);
    (*tp)->magic = 0;
    free(*tp);
    *tp = NULL;
}

void tables_read_on(struct tables *ts, struct home *pool)
{
    MAGIC_CHECK(ts, TABLES_MAGIC);
    ts->pool = pool;
}

/* ---- reads ---- */

/* One try of a request, ERR_AGAIN only when now. */
typedef err read_try_fn(struct tables *ts, struct store_call *c, bool now);

/* Over at once, or run again on the pool, without what the first try left in the arena. */
static enum store_start read_start(struct tables *ts, struct store_call *c, struct arena *a,
                                   read_try_fn *try, void (*cold)(struct task *t))
{
    struct arena_mark mark = arena_mark(a);
    err e = try(ts, c, true);
    if (e != ERR_AGAIN)
        return store_call_done(c, e);
    arena_release(a, mark);
    c->own = ts;
    c->task.run = cold;
    home_post(ts->pool, &c->task);
    return STORE_LATER;
}

static void read_cold(struct task *t, read_try_fn *try)
{
    struct store_call *c = CONTAINER_OF(t, struct store_call, task);
    store_call_end(c, store_call_canceled(c) ? ERR_TIMEOUT : try(c->own, c, false));
}

/* ---- rows ---- */

/* Rows as they are met, kept in the arena of their request. */
struct kept_rows {
    struct arena *arena;
    struct table_row *rows;
    unsigned count, room;
};
struct rows_reading {
    struct kept_rows rows, damaged;
    err why;
};
enum { ROWS_ROOM = 8 }; /* at first */

static bool rows_grow(struct kept_rows *k, unsigned room)
{
    struct table_row *rows = arena_calloc(k->arena, room, sizeof *rows);
    if (rows == NULL)
        return false;
    if (k->count > 0)
        memcpy(rows, k->rows, k->count * sizeof *rows);
    k->rows = rows;
    k->room = room;
    return true;
}

/* Attributes and their bytes in one piece. Names are in the arena: the schema's. False: it is
 * full. */
static bool row_keep(struct kept_rows *k, const struct table_row *row)
{
    size_t bytes = row->count * sizeof *row->attrs;
    for (unsigned i = 0; i < row->count; i++)
        bytes += row->attrs[i].value.n;
    struct table_attr *attrs = arena_alloc(k->arena, bytes);
    if (attrs == NULL || (k->count == k->room && !rows_grow(k, 2 * k->room)))
        return false;
    char *p = (char *)(attrs + row->count);
    for (unsigned i = 0; i < row->count; i++) {
        str value = row->attrs[i].value;
        attrs[i] = row->attrs[i];
        if (value.n == 0)
            continue; /* a null stays one; what is empty needs no bytes */
        memcpy(p, value.p, value.n);
        attrs[i].value.p = p;
        p += value.n;
    }
    k->rows[k->count] = *row;
    k->rows[k->count++].attrs = attrs;
    return true;
}

static bool rows_each(void *ctx, const struct table_row *row)
{
    struct rows_reading *g = ctx;
    g->why = row_keep(&g->rows, row) ? ERR_OK : ERR_LIMIT;
    return g->why == ERR_OK;
}

static bool rows_damaged(void *ctx, const struct table_row *key)
{
    struct rows_reading *g = ctx;
    g->why = row_keep(&g->damaged, key) ? ERR_OK : ERR_LIMIT;
    return g->why == ERR_OK;
}

static err rows_try(struct tables *ts, struct store_call *c, bool now)
{
    struct table_rows *r = CONTAINER_OF(c, struct table_rows, call);
    unsigned room = r->get.limit > 0 && r->get.limit < ROWS_ROOM ? r->get.limit : ROWS_ROOM;
    struct rows_reading g = { .rows.arena = r->arena, .damaged.arena = r->arena };
    struct table_reader reader = { .tables = ts,
                                   .call = c,
                                   .arena = r->arena,
                                   .now = now,
                                   .each = rows_each,
                                   .damaged = r->past_damage ? rows_damaged : NULL,
                                   .ctx = &g,
                                   .note = &r->note };
    if (!rows_grow(&g.rows, room) || (r->past_damage && !rows_grow(&g.damaged, room)))
        return ERR_LIMIT;
    reader.view = engine_view_begin(ts->engine);
    err e = tables_get(&reader, r->domain, &r->get, &r->next);
    engine_view_end(&reader.view);
    e = e == ERR_OK ? g.why : e;
    if (e != ERR_OK)
        return e;
    r->rows = g.rows.rows;
    r->rows_count = g.rows.count;
    r->damaged = g.damaged.rows;
    r->damaged_count = g.damaged.count;
    return ERR_OK;
}

static void rows_cold(struct task *t)
{
    read_cold(t, rows_try);
}

static enum store_start rows_start(struct table_store *s, struct table_rows *r)
{
    return read_start(tables_of(s), &r->call, r->arena, rows_try, rows_cold);
}

/* ---- JSON ---- */

static err query_try(struct tables *ts, struct store_call *c, bool now)
{
    struct table_query *q = CONTAINER_OF(c, struct table_query, call);
    return now && q->query.n > TABLE_NOW_JSON_BYTES ? ERR_AGAIN : tables_query(ts, q, now);
}

static void query_cold(struct task *t)
{
    read_cold(t, query_try);
}

static enum store_start query_start(struct table_store *s, struct table_query *q)
{
    return read_start(tables_of(s), &q->call, q->arena, query_try, query_cold);
}

static err parse_try(struct tables *ts, struct store_call *c, bool now)
{
    struct table_parse *p = CONTAINER_OF(c, struct table_parse, call);
    return now && p->json.n > TABLE_NOW_JSON_BYTES ? ERR_AGAIN : tables_parse(ts, p, now);
}

static void parse_cold(struct task *t)
{
    read_cold(t, parse_try);
}

static enum store_start parse_start(struct table_store *s, struct table_parse *p)
{
    return read_start(tables_of(s), &p->call, p->arena, parse_try, parse_cold);
}

/* ---- schemas ---- */

static err schema_try(struct tables *ts, struct store_call *c, bool now)
{
    struct table_schema_read *r = CONTAINER_OF(c, struct table_schema_read, call);
    struct schema *schema;
    struct store_look look = { .tables = ts,
                               .view = engine_view_begin(ts->engine),
                               .domain = r->domain,
                               .now = now,
                               .arena = r->arena };
    err e = store_schema(&look, r->table, &schema);
    engine_view_end(&look.view);
    if (e == ERR_OK)
        r->json = schema->text;
    return e;
}

static void schema_cold(struct task *t)
{
    read_cold(t, schema_try);
}

static enum store_start schema_start(struct table_store *s, struct table_schema_read *r)
{
    return read_start(tables_of(s), &r->call, r->arena, schema_try, schema_cold);
}

/* ---- the rest ---- */

static err upkeep_run(struct table_store *s, bool *more, store_time *next)
{
    return tables_upkeep(tables_of(s), more, next);
}

static void stats_get(struct table_store *s, struct tables_stats *out)
{
    struct tables *ts = tables_of(s);
    *out = (struct tables_stats){ .puts = ts->puts,
                                  .deletes = ts->deletes,
                                  .gets = ts->gets,
                                  .expired = ts->expired,
                                  .dropped_rows = ts->dropped_rows,
                                  .damaged = ts->damaged };
}

static const struct table_store_ops tables_ops = {
    .rows = rows_start,
    .query = query_start,
    .schema = schema_start,
    .change = tables_change,
    .parse = parse_start,
    .update = tables_update,
    .upkeep = upkeep_run,
    .stats = stats_get,
};

struct table_store *tables_store(struct tables *ts)
{
    MAGIC_CHECK(ts, TABLES_MAGIC);
    ts->store.ops = &tables_ops;
    return &ts->store;
}
