/* boot_store.c - the page store of store.kind cassandra: its client on the server's loop, opened
 * before the rest of the server is built, and closed when nothing asks it any more.
 *
 * A cluster that does not answer within store.start_timeout is no error, as with stores of queues
 * in PostgreSQL: the server starts, is not ready, and opens the store when the cluster comes. What
 * only an operator can mend ends the start: a schema of another version (exit 2, so that nothing
 * starts the server again and again), and a user whom the nodes do not let in (exit 1: a cluster
 * that lacks replicas lets nobody in, too). */
#include "server/boot.h"

#include "auth/auth.h"
#include "base/log.h"
#include "cassandra/rows.h"
#include "cassandra/store.h"
#include "cql/cql.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "loop/sysclock.h"
#include "server/buckets.h"
#include "server/cluster.h"
#include "server/cluster_figures.h"
#include "server/origins.h"

#include <stdlib.h>

enum { OPENING_POLL_MS = 5, TURN_POLL_MS = 1, BEGIN_PERIOD_MS = 1000 };

struct server_cassandra {
    struct server *server;
    struct cluster cluster;
    struct server_buckets buckets;
    struct cassandra_store *store;
    struct cassandra_rows *keys; /* users, keys and roles */
    struct loop_job begin;       /* of the authority, which writes what they lack */
    bool beginning, begun;
    mono begin_at;
    struct cluster_figures *figures;
    struct loop_timer *tick, *opening;
    mono deadline; /* of the start */
    enum { RECALL_NOT, RECALL_WANTED, RECALL_RUNS } recall;
    struct loop_job job;
};

/* ---- waiting, while nothing else runs the loop ---- */

struct turn {
    struct loop *loop;
    const atomic_bool *over;
};

static void turn_fired(void *ctx)
{
    const struct turn *t = ctx;
    if (atomic_load(t->over))
        loop_stop(t->loop);
}

static bool store_turn(void *ctx, const atomic_bool *over)
{
    const struct server_cassandra *k = ctx;
    struct turn t = { .loop = k->server->app.loop, .over = over };
    if (!loop_is_here(t.loop))
        return false;
    struct loop_timer *timer = loop_timer_new(t.loop, turn_fired, &t);
    loop_timer_start(timer, 0, TURN_POLL_MS);
    loop_run(t.loop);
    loop_timer_free(&timer);
    return true;
}

/* ---- opening ---- */

static err store_new(struct server_cassandra *k, struct err_note *note)
{
    struct server *s = k->server;
    const struct config *c = s->config;
    server_buckets_take(&k->buckets, c);
    const struct cassandra_store_opts o = {
        .client = k->cluster.client,
        .loop = s->app.loop,
        .clock = s->app.clock,
        .log = s->app.log,
        .pool = loop_pool(s->app.loop),
        .keyspace = c->cassandra.keyspace,
        .dc = c->cassandra.local_dc,
        .random = entropy_u64(),
        .entropy = entropy_bytes,
        .max_skew_ns = c->cassandra.max_skew_ns,
        .write_timeout_ns = c->write_timeout_ms * NS_PER_MS,
        .making_ns = c->flight.make_timeout_ms * NS_PER_MS,
        .renders_max = c->page_renders_max,
        .skew_period_ms = c->cassandra.skew_period_ms,
        .sweep_period_ns = c->cassandra.sweep_period_ns,
        .sweep_titles_per_s = c->cassandra.sweep_titles_per_s,
        .due_sample = c->cassandra.due_percent / 100.0,
        .turn = store_turn,
        .ctx = k,
        .unguarded = c->test_hooks,
        .buckets = k->buckets.of,
        .buckets_count = k->buckets.pages,
        .values = k->buckets.of + k->buckets.pages,
        .values_count = k->buckets.count - k->buckets.pages,
    };
    struct err_note why;
    k->store = cassandra_store_new(&o, &why);
    if (k->store == NULL)
        return err_bad(note, "store.kind: cassandra: %s", why.text);
    k->keys = cassandra_rows_new(
        &(struct cassandra_rows_opts){ .catalog = cassandra_store_catalog(k->store),
                                       .clock = s->app.clock,
                                       .log = s->app.log,
                                       .ttl_ms = c->cassandra.auth_ttl_ms,
                                       .scope = CASSANDRA_ROWS_AUTH });
    return ERR_OK;
}

/* ---- the authority ---- */

static void begin_run(struct loop_job *j)
{
    struct server_cassandra *k = CONTAINER_OF(j, struct server_cassandra, begin);
    struct err_note note; /* the rows have logged why */
    k->begun = auth_begin(k->server->app.auth, &note) == ERR_OK;
}

static void begin_done(struct loop_job *j, bool canceled)
{
    struct server_cassandra *k = CONTAINER_OF(j, struct server_cassandra, begin);
    (void)canceled; /* then it has not begun */
    k->beginning = false;
    k->begin_at = mono_add_ms(clock_mono(k->server->app.clock), BEGIN_PERIOD_MS);
}

/* Once, as soon as the store is open: with the cluster away it waits. */
static void begin_look(struct server_cassandra *k)
{
    bool due = k->begin_at.ns <= clock_mono(k->server->app.clock).ns;
    if (k->server->app.auth == NULL || k->begun || k->beginning || !due ||
        !cassandra_store_ready(k->store))
        return;
    k->beginning = true;
    loop_job_start(k->server->app.loop, &k->begin);
}

struct row_store *server_shared_keys(struct server *s)
{
    return s->cassandra == NULL ? NULL : cassandra_rows_store(s->cassandra->keys);
}

static void recall_run(struct loop_job *j)
{
    origins_recall(&CONTAINER_OF(j, struct server_cassandra, job)->server->app);
}

static void recall_done(struct loop_job *j, bool canceled)
{
    struct server_cassandra *k = CONTAINER_OF(j, struct server_cassandra, job);
    (void)canceled; /* then the server ends */
    k->recall = RECALL_NOT;
}

static void recall_begin(struct server_cassandra *k)
{
    struct cassandra_store_state state;
    cassandra_store_look(k->store, &state);
    if (k->recall != RECALL_WANTED || !state.open)
        return;
    k->recall = RECALL_RUNS;
    k->job = (struct loop_job){ .run = recall_run, .done = recall_done };
    loop_job_start(k->server->app.loop, &k->job);
}

void server_recall(struct server *s)
{
    struct server_cassandra *k = s->cassandra;
    if (k == NULL) {
        origins_recall(&s->app);
        return;
    }
    struct cassandra_store_state state;
    cassandra_store_look(k->store, &state);
    if (state.open)
        origins_recall(&s->app);
    else
        k->recall = RECALL_WANTED;
}

static void schema_changed(void *ctx, str target, str keyspace, str name)
{
    struct server_cassandra *k = ctx;
    (void)target;
    (void)name;
    if (k->store != NULL)
        cassandra_store_schema_changed(k->store, keyspace);
}

static void tick_fired(void *ctx)
{
    struct server_cassandra *k = ctx;
    struct cassandra_store_state state;
    cassandra_store_tick(k->store);
    cassandra_store_look(k->store, &state);
    k->server->lost = state.strange;
    begin_look(k);
    cluster_figures_set(k->figures, k->cluster.client, k->store, clock_store(k->server->app.clock));
    recall_begin(k);
}

static void opening_fired(void *ctx)
{
    const struct server_cassandra *k = ctx;
    struct cassandra_store_state state;
    cassandra_store_tick(k->store);
    cassandra_store_look(k->store, &state);
    bool over = clock_mono(k->server->app.clock).ns >= k->deadline.ns;
    if (state.open || state.denied || over || (signals_seen() & SIGNALS_END) != 0)
        loop_stop(k->server->app.loop);
}

/* ERR_SHUTDOWN: a signal asked us to end meanwhile. */
static err store_await(struct server_cassandra *k, struct err_note *note)
{
    struct server *s = k->server;
    struct cassandra_store_state state;
    struct cql_stats stats;
    k->deadline = mono_add_ms(clock_mono(s->app.clock), s->config->cassandra.start_timeout_ms);
    k->figures = cluster_figures_new(s->app.metrics);
    k->tick = loop_timer_new(s->app.loop, tick_fired, k);
    k->opening = loop_timer_new(s->app.loop, opening_fired, k);
    signals_watch(SIGNALS_END, SIGNALS_EACH);
    loop_timer_start(k->tick, 0, CASSANDRA_STORE_TICK_MS);
    loop_timer_start(k->opening, 0, OPENING_POLL_MS);
    loop_run(s->app.loop);
    loop_timer_free(&k->opening);
    cassandra_store_look(k->store, &state);
    cql_stats(k->cluster.client, &stats);
    if ((signals_seen() & SIGNALS_END) != 0) {
        err_note_set(note, "asked to end before the server ran");
        return ERR_SHUTDOWN;
    }
    if (state.open)
        return ERR_OK;
    if (state.denied)
        return err_bad(note, "store.keyspace: %s", state.why);
    if (stats.denied) {
        err_note_set(note, "store.auth: %s", state.why);
        return ERR_DENIED;
    }
    log_event(s->app.log, LOG_WARN, "cluster.unready", LOG_CSTR("why", state.why),
              LOG_CSTR("what", "the server starts without its store of pages, and opens it when "
                               "the cluster answers"));
    return ERR_OK;
}

err server_open_store(struct server *s, enum server_exit *status, struct err_note *note)
{
    struct server_cassandra *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    k->server = s;
    k->begin = (struct loop_job){ .run = begin_run, .done = begin_done };
    s->cassandra = k;
    const struct cluster_opts o = { .config = &s->config->cassandra,
                                    .section = "store",
                                    .loop = s->app.loop,
                                    .clock = s->app.clock,
                                    .log = s->app.log,
                                    .schema = schema_changed,
                                    .ctx = k };
    err e = cluster_open(&k->cluster, &o, note);
    if (e == ERR_OK)
        e = store_new(k, note);
    if (e == ERR_OK)
        e = store_await(k, note);
    if (e == ERR_OK)
        s->app.page.store = cassandra_store_pages(k->store);
    *status = e == ERR_SHUTDOWN ? SERVER_FINE : e == ERR_DENIED ? SERVER_FAILED : SERVER_USAGE;
    return e;
}

struct table_store *server_shared_tables(struct server *s)
{
    return s->cassandra == NULL ? NULL : cassandra_store_tables(s->cassandra->store);
}

/* ---- closing ---- */

static void keys_stopped(void *ctx)
{
    const struct server_cassandra *k = ctx;
    loop_stop(k->server->app.loop);
}

void server_close_store(struct server *s)
{
    struct server_cassandra *k = s->cassandra;
    if (k == NULL)
        return;
    loop_timer_free(&k->tick);
    if (k->keys != NULL) { /* changes that wait for the loop end first */
        cassandra_rows_stop(k->keys, keys_stopped, k);
        loop_run(s->app.loop);
    }
    if (k->store != NULL)
        cassandra_store_close(k->store);
    cluster_close(&k->cluster);
}

void server_free_store(struct server *s)
{
    struct server_cassandra *k = s->cassandra;
    if (k == NULL)
        return;
    cassandra_rows_free(&k->keys);
    cassandra_store_free(&k->store);
    cluster_figures_free(&k->figures);
    free(k);
    s->cassandra = NULL;
}
