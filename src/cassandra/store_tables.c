/* store_tables.c - the table store of a server on Cassandra: buckets of values (values.h), behind
 * the same gate as pages.
 *
 * Queries in JSON and their parsing need no gate: values.h refuses both. */
#include "cassandra/store_impl.h"

#include "cassandra/pages_impl.h"
#include "cassandra/values.h"

enum { CLOSED_PAUSE_S = 10 }; /* of the upkeep, while the store is not open */

static struct cassandra_store *store_of(struct table_store *s)
{
    struct cassandra_store *c = CONTAINER_OF(s, struct cassandra_store, tables);
    MAGIC_CHECK(c, CASSANDRA_STORE_MAGIC);
    return c;
}

static struct table_store *values_of(const struct cassandra_store *c)
{
    return values_store(c->values);
}

static enum store_start ops_rows(struct table_store *s, struct table_rows *r)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, &r->note);
    return e != ERR_OK ? store_call_done(&r->call, e)
                       : store_gate_leave(c, table_store_rows(values_of(c), r));
}

static enum store_start ops_query(struct table_store *s, struct table_query *q)
{
    return table_store_query(values_of(store_of(s)), q);
}

static enum store_start ops_schema(struct table_store *s, struct table_schema_read *r)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&r->call, e)
                       : store_gate_leave(c, table_store_schema(values_of(c), r));
}

static enum store_start ops_change(struct table_store *s, struct table_schema_change *q)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, &q->note);
    return e != ERR_OK ? store_call_done(&q->call, e)
                       : store_gate_leave(c, table_store_change(values_of(c), q));
}

static enum store_start ops_parse(struct table_store *s, struct table_parse *p)
{
    return table_store_parse(values_of(store_of(s)), p);
}

static enum store_start ops_update(struct table_store *s, struct table_update *u)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, &u->note);
    return e != ERR_OK ? store_call_done(&u->call, e)
                       : store_gate_leave(c, table_store_update(values_of(c), u));
}

/* The upkeep blocks its thread for long. It does not count as being started, or a closing store
 * would wait. Its requests to a client that was stopped fail at once. */
static err ops_upkeep(struct table_store *s, bool *more, store_time *next)
{
    struct cassandra_store *c = store_of(s);
    /* A store that is not open yet, or whose clock is wrong, has no upkeep: come again soon. */
    if (store_gate_enter(c, true, NULL) != ERR_OK) {
        *more = false;
        *next = store_time_add(clock_store(c->opts.clock), CLOSED_PAUSE_S * NS_PER_S);
        return ERR_OK;
    }
    (void)store_gate_leave(c, STORE_DONE);
    return table_store_upkeep(values_of(c), more, next);
}

static void ops_stats(struct table_store *s, struct tables_stats *out)
{
    table_store_stats(values_of(store_of(s)), out);
}

const struct table_store_ops cassandra_tables_ops = {
    .rows = ops_rows,
    .query = ops_query,
    .schema = ops_schema,
    .change = ops_change,
    .parse = ops_parse,
    .update = ops_update,
    .upkeep = ops_upkeep,
    .stats = ops_stats,
};

/* Numbers come from cassandra_pages_domain, so each number that a request has is known. */
static bool domain_name(void *ctx, uint32_t number, str *name)
{
    const struct cassandra_store *c = ctx;
    *name = pages_domain_name(c->pages, number);
    return true;
}

struct values *cassandra_store_values(struct cassandra_store *c, struct err_note *note)
{
    const struct values_opts o = { .client = c->opts.client,
                                   .catalog = c->catalog,
                                   .loop = c->opts.loop,
                                   .clock = c->opts.clock,
                                   .log = c->opts.log,
                                   .keyspace = c->opts.keyspace,
                                   .dc = c->opts.dc,
                                   .period_ns = c->opts.sweep_period_ns,
                                   .domain = domain_name,
                                   .ctx = c };
    return values_new(&o, note);
}

struct table_store *cassandra_store_tables(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return &s->tables;
}
