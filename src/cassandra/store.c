/* store.c - opens the store, watches it, and sends each request on its way.
 *
 *   SCHEMA -> POLICIES -> NUMBER -> CLOCK -> open        each step, when it fails, begins at SCHEMA
 * again later
 *
 * Invariants: (1) a request goes to pages.h only while the store is open. (2) Of opening, looking
 * and comparing one exchange each is under way at most. (3) After cassandra_store_close nothing is
 * started any more. */
#include "cassandra/store_impl.h"

#include "base/log.h"
#include "cassandra/incarnation.h"
#include "cassandra/policies.h"
#include "cassandra/schema.h"
#include "cassandra/skew.h"
#include "cassandra/values.h"
#include "cql/cql.h"
#include "loop/loop.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_PERIOD_MS = 1000, LOOK_WAIT_MS = 3000, OPEN_PERIOD_MS = 1000, OPEN_WAIT_MS = 10000 };

/* ---- opening ---- */

static mono in_ms(const struct cassandra_store *s, int64_t ms)
{
    return mono_add_ms(clock_mono(s->opts.clock), ms);
}

static void open_failed(struct cassandra_store *s, const char *why)
{
    bool news = strcmp(s->why.text, why) != 0;
    s->busy = false;
    s->open_at = in_ms(s, OPEN_PERIOD_MS);
    err_note_set(&s->why, "%s", why);
    if (news)
        log_event(s->opts.log, LOG_WARN, "cluster.away", LOG_CSTR("why", why));
}

static void skew_judge(struct cassandra_store *s, int64_t ahead_ns)
{
    if (s->opts.unguarded)
        return;
    bool skewed = ahead_ns > s->opts.max_skew_ns || ahead_ns < -s->opts.max_skew_ns;
    bool was = atomic_exchange(&s->skewed, skewed);
    s->ahead_ns = ahead_ns;
    if (skewed && !was)
        log_event(s->opts.log, LOG_ERROR, "cluster.clock_skew",
                  LOG_INT("ahead_ms", ahead_ns / NS_PER_MS),
                  LOG_INT("max_ms", s->opts.max_skew_ns / NS_PER_MS),
                  LOG_CSTR("what", "this machine's clock is not where those of the cluster are: "
                                   "writes are refused until it is"));
    else if (was && !skewed)
        log_event(s->opts.log, LOG_INFO, "cluster.clock_fine",
                  LOG_INT("ahead_ms", ahead_ns / NS_PER_MS));
}

static void open_compared(void *ctx, err why, int64_t ahead_ns)
{
    struct cassandra_store *s = ctx;
    if (why != ERR_OK) {
        open_failed(s, "no node tells its time");
        return;
    }
    skew_judge(s, ahead_ns);
    s->skew_at = in_ms(s, s->opts.skew_period_ms);
    s->busy = false;
    s->why.text[0] = '\0';
    s->look_at = clock_mono(s->opts.clock);
    atomic_store(&s->ready, true); /* what was read just now was read at a quorum */
    int opening = STORE_OPENING;
    (void)atomic_compare_exchange_strong(&s->state, &opening, STORE_OPEN); /* or it was closed */
    log_event(s->opts.log, LOG_INFO, "cluster.open", LOG_CSTR("keyspace", s->opts.keyspace),
              LOG_INT("server", s->number));
}

static void open_numbered(void *ctx, err why, uint32_t number, const struct err_note *note)
{
    struct cassandra_store *s = ctx;
    if (why != ERR_OK) {
        open_failed(s, note->text);
        return;
    }
    s->number = number;
    cassandra_pages_number(s->pages, number);
    values_number(s->values, number);
    const struct skew_opts o = { .client = s->opts.client,
                                 .clock = s->opts.clock,
                                 .deadline = in_ms(s, OPEN_WAIT_MS) };
    skew_look(&o, open_compared, s);
}

/* Others came: they are known before their instant. */
static void policies_changed(void *ctx, struct catalog_rows *rows)
{
    struct cassandra_store *s = ctx;
    struct err_note note = { .text = "" };
    err e = cassandra_pages_plan(s->pages, rows, &note);
    if (e != ERR_OK)
        log_event(s->opts.log, LOG_ERROR, "policies.refused", LOG_CSTR("why", note.text),
                  LOG_CSTR("what", "requests for pages are refused until the catalogue of the "
                                   "cluster holds policies that this server can keep"));
    else
        log_event(s->opts.log, LOG_INFO, "policies.known",
                  LOG_CSTR("what", "the policies in the catalogue of the cluster have changed"));
}

static void policies_follow(struct cassandra_store *s, struct catalog_rows *rows)
{
    if (s->policies == NULL) {
        s->policies = catalog_watch_new(&(struct catalog_watch_opts){ .catalog = s->catalog,
                                                                      .scope = POLICIES_SCOPE,
                                                                      .changed = policies_changed,
                                                                      .ctx = s });
        cassandra_pages_watch(s->pages, s->policies);
    }
    catalog_watch_take(s->policies, rows);
}

static void open_policies_read(struct store_call *call)
{
    struct cassandra_store *s = CONTAINER_OF(call, struct cassandra_store, load.call);
    struct err_note note = s->load.note;
    err e =
        atomic_load(&s->state) == STORE_CLOSED && call->why == ERR_OK ? ERR_SHUTDOWN : call->why;
    if (call->why == ERR_OK && e != ERR_OK)
        catalog_rows_drop(&s->load.rows);
    if (e == ERR_OK) {
        e = cassandra_pages_same(s->pages, s->load.rows, &note);
        s->denied = e == ERR_CONFLICT;
        if (e == ERR_OK)
            e = cassandra_pages_plan(s->pages, s->load.rows, &note);
        if (e == ERR_OK)
            policies_follow(s, s->load.rows);
        catalog_rows_drop(&s->load.rows);
    }
    if (e != ERR_OK) {
        open_failed(s, note.text);
        return;
    }
    const struct incarnation_opts o = { .client = s->opts.client,
                                        .keyspace = s->opts.keyspace,
                                        .random = s->opts.random,
                                        .deadline = in_ms(s, OPEN_WAIT_MS) };
    incarnation_take(&o, open_numbered, s);
}

static void open_looked(void *ctx, err why, unsigned version, const struct err_note *note)
{
    struct cassandra_store *s = ctx;
    s->denied = why == ERR_OK && version != SCHEMA_VERSION;
    if (why != ERR_OK) {
        open_failed(s, note->text);
        return;
    }
    if (s->denied) {
        struct err_note told;
        if (version == 0)
            err_note_set(&told,
                         "keyspace %s has no tables of this program: palimpsest store schema "
                         "makes them",
                         s->opts.keyspace);
        else
            err_note_set(&told,
                         "the schema of keyspace %s has version %u, this program knows %d: %s",
                         s->opts.keyspace, version, SCHEMA_VERSION,
                         version < SCHEMA_VERSION ? "palimpsest store schema brings it there"
                                                  : "a newer program is needed");
        open_failed(s, told.text);
        return;
    }
    s->load = (struct catalog_load){ .call = { .home = loop_home(s->opts.loop),
                                               .done = open_policies_read,
                                               .deadline = in_ms(s, OPEN_WAIT_MS) },
                                     .scope = STR(POLICIES_SCOPE) };
    store_call_then(catalog_load(s->catalog, &s->load), &s->load.call);
}

static void open_begin(struct cassandra_store *s)
{
    const struct schema_opts o = { .client = s->opts.client,
                                   .clock = s->opts.clock,
                                   .keyspace = s->opts.keyspace,
                                   .deadline = in_ms(s, OPEN_WAIT_MS) };
    s->busy = true;
    schema_look(&o, open_looked, s);
}

/* ---- watching ---- */

static void watch_looked(struct cql_request *q)
{
    struct cassandra_store *s = CONTAINER_OF(q, struct cassandra_store, look);
    bool fine = q->out.why == ERR_OK, was = atomic_exchange(&s->ready, fine);
    if (was && !fine)
        log_event(s->opts.log, LOG_WARN, "cluster.away", LOG_CSTR("why", q->out.note.text));
    else if (fine && !was)
        log_event(s->opts.log, LOG_INFO, "cluster.back", LOG_CSTR("keyspace", s->opts.keyspace));
    err_note_set(&s->why, "%s", fine ? "" : q->out.note.text);
    cql_outcome_fini(&q->out);
    s->looking = false;
    s->look_at = in_ms(s, LOOK_PERIOD_MS);
}

static void watch_look(struct cassandra_store *s)
{
    struct cql_request *q = &s->look;
    s->looking = true;
    *q = (struct cql_request){ .way = CQL_WAY_TEXT,
                               .text = str_of(s->look_text),
                               .done = watch_looked };
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = in_ms(s, LOOK_WAIT_MS);
    cql_start(s->opts.client, q);
}

/* What no node tells changes nothing: nobody knows better. */
static void watch_compared(void *ctx, err why, int64_t ahead_ns)
{
    struct cassandra_store *s = ctx;
    if (why == ERR_OK)
        skew_judge(s, ahead_ns);
    s->comparing = false;
    s->skew_at = in_ms(s, s->opts.skew_period_ms);
}

static void watch_compare(struct cassandra_store *s)
{
    const struct skew_opts o = { .client = s->opts.client,
                                 .clock = s->opts.clock,
                                 .deadline = in_ms(s, OPEN_WAIT_MS) };
    s->comparing = true;
    skew_look(&o, watch_compared, s);
}

/* While the clock is wrong nothing is culled: the horizon would be wrong, too. */
static void sweep_tick(struct cassandra_store *s)
{
    const struct cassandra_sweep_opts o = { .pages = s->pages,
                                            .titles = s->titles,
                                            .clock = s->opts.clock,
                                            .home = loop_home(s->opts.loop),
                                            .srv = s->number,
                                            .seed = s->opts.random,
                                            .dc = s->opts.dc };
    if (s->sweep == NULL)
        s->sweep = cassandra_sweep_new(&o);
    if (!atomic_load(&s->skewed))
        cassandra_sweep_tick(s->sweep);
}

void cassandra_store_tick(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    int64_t now_ns = clock_mono(s->opts.clock).ns;
    int state = atomic_load(&s->state);
    bool first = s->why.text[0] == '\0' && cql_is_ready(s->opts.client);
    if (state == STORE_OPENING && !s->busy && (first || now_ns >= s->open_at.ns))
        open_begin(s);
    if (state != STORE_OPEN)
        return;
    if (!s->looking && now_ns >= s->look_at.ns)
        watch_look(s);
    if (!s->comparing && now_ns >= s->skew_at.ns)
        watch_compare(s);
    sweep_tick(s);
}

/* ---- the gate ---- */

err store_gate_enter(struct cassandra_store *c, bool writes, struct err_note *note)
{
    (void)atomic_fetch_add(&c->starting, 1); /* the old value is of no use */
    int state = atomic_load(&c->state);
    if (state == STORE_OPEN && !(writes && atomic_load(&c->skewed)))
        return ERR_OK;
    (void)atomic_fetch_sub(&c->starting, 1);
    if (state == STORE_CLOSED)
        return ERR_SHUTDOWN;
    if (note != NULL && state == STORE_OPEN)
        err_note_set(note, "clock_skew: this server's clock is not where those of the cluster are");
    else if (note != NULL)
        err_note_set(note, "the store of pages is not open yet");
    return ERR_UNAVAILABLE;
}

enum store_start store_gate_leave(struct cassandra_store *c, enum store_start start)
{
    (void)atomic_fetch_sub(&c->starting, 1);
    return start;
}

/* ---- life ---- */

struct cassandra_store *cassandra_store_new(const struct cassandra_store_opts *o,
                                            struct err_note *note)
{
    struct cassandra_store *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->magic = CASSANDRA_STORE_MAGIC;
    s->opts = *o;
    s->store.ops = &cassandra_store_ops;
    s->tables.ops = &cassandra_tables_ops;
    s->open_at = mono_add_ms(clock_mono(o->clock), OPEN_PERIOD_MS);
    s->titles = titles_new(o->client, o->keyspace, o->clock, note);
    const struct cassandra_pages_opts pages = { .titles = s->titles,
                                                .clock = o->clock,
                                                .log = o->log,
                                                .pool = o->pool,
                                                .max_skew_ns = o->max_skew_ns,
                                                .write_timeout_ns = o->write_timeout_ns,
                                                .making_ns = o->making_ns,
                                                .each_quorum = true,
                                                .renders_max = o->renders_max,
                                                .due_sample = 1,
                                                .dc = o->dc,
                                                .buckets = o->buckets,
                                                .buckets_count = o->buckets_count };
    if (s->titles != NULL)
        s->pages = cassandra_pages_new(&pages, note);
    const struct catalog_opts catalog = { .client = o->client,
                                          .loop = o->loop,
                                          .clock = o->clock,
                                          .keyspace = o->keyspace,
                                          .entropy = o->entropy };
    if (s->pages != NULL)
        s->catalog = catalog_new(&catalog, note);
    if (s->catalog != NULL)
        s->values = cassandra_store_values(s, note);
    if (s->values == NULL) {
        cassandra_store_free(&s);
        return NULL;
    }
    int n = snprintf(s->look_text, sizeof s->look_text,
                     "SELECT value FROM %s.meta WHERE key = 'schema'", o->keyspace);
    INVARIANT(n > 0 && (size_t)n < sizeof s->look_text); /* titles_new looked at the keyspace */
    return s;
}

void cassandra_store_free(struct cassandra_store **sp)
{
    struct cassandra_store *s = *sp;
    *sp = NULL;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    cassandra_sweep_free(&s->sweep);
    values_free(&s->values);
    cassandra_pages_free(&s->pages);
    catalog_watch_free(&s->policies);
    catalog_free(&s->catalog);
    titles_free(&s->titles);
    s->magic = 0;
    free(s);
}

struct page_store *cassandra_store_pages(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return &s->store;
}

struct catalog *cassandra_store_catalog(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return s->catalog;
}

static void policies_stopped(void *ctx)
{
    (void)ctx; /* the copy stays, for requests that still end */
}

void cassandra_store_close(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    atomic_store(&s->state, STORE_CLOSED);
    atomic_store(&s->ready, false);
    while (atomic_load(&s->starting) > 0) /* each for a moment */
        (void)sched_yield();              /* it never fails */
    if (s->sweep != NULL)
        cassandra_sweep_close(s->sweep);
    if (s->policies != NULL)
        catalog_watch_stop(s->policies, policies_stopped, s);
}

void cassandra_store_look(const struct cassandra_store *s, struct cassandra_store_state *out)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    *out = (struct cassandra_store_state){ .open = atomic_load(&s->state) == STORE_OPEN,
                                           .ready = atomic_load(&s->ready),
                                           .denied = s->denied,
                                           .skewed = atomic_load(&s->skewed),
                                           .ahead_ns = s->ahead_ns,
                                           .number = s->number };
    (void)snprintf(out->why, sizeof out->why, "%s", s->why.text); /* as long */
}

bool cassandra_store_ready(const struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return atomic_load(&s->ready);
}
