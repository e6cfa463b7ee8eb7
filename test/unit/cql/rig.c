/* rig.c - see rig.h. */
#include "rig.h"

#include "../cmocka_all.h"
#include "base/log.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct timespec until(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    t.tv_sec += RIG_WAIT_MS / 1000;
    return t;
}

static void wait_for(struct rig *r, const bool *what, const char *name)
{
    struct timespec t = until();
    assert_int_equal(pthread_mutex_lock(&r->lock), 0);
    while (!*what)
        if (pthread_cond_timedwait(&r->turned, &r->lock, &t) != 0 && !*what)
            fail_msg("not within %d ms: %s", RIG_WAIT_MS, name);
    assert_int_equal(pthread_mutex_unlock(&r->lock), 0);
}

static void set(struct rig *r, bool *what)
{
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    *what = true;
    INVARIANT(pthread_cond_broadcast(&r->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

static void on_ready(void *ctx, bool ready)
{
    struct rig *r = ctx;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    r->ready = ready;
    r->ready_changes++;
    INVARIANT(pthread_cond_broadcast(&r->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

static void on_schema(void *ctx, str target, str keyspace, str name)
{
    struct rig *r = ctx;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    r->schema_told++;
    (void)snprintf(r->schema, sizeof r->schema, "%.*s %.*s.%.*s", STR_ARG(target),
                   STR_ARG(keyspace), STR_ARG(name));
    INVARIANT(pthread_cond_broadcast(&r->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

static void client_new(struct rig *r)
{
    struct cql_opts o = r->opts.client;
    struct err_note note = { .text = "" };
    o.loop = r->loop;
    o.clock = r->clock;
    o.ready = on_ready;
    o.schema = on_schema;
    o.ctx = r;
    if (o.local_dc == NULL)
        o.local_dc = "dc1";
    unsigned count = r->opts.nodes.nodes == 0 ? 1 : r->opts.nodes.nodes;
    unsigned points = r->opts.by_name ? 1 : 3;
    for (unsigned i = 0; i < count && i < points; i++) {
        (void)snprintf(r->points[i], sizeof r->points[i], "%s:%u",
                       r->opts.by_name ? "localhost" : node_host(r->nodes, i),
                       node_port(r->nodes, i));
        o.contact_points[o.contact_points_count++] = r->points[i];
    }
    r->client = cql_new(&o, &note);
    if (r->client == NULL)
        check_failed(__FILE__, __LINE__, note.text);
    for (unsigned i = 0; i < RIG_STATEMENTS_MAX && r->opts.statements[i].text != NULL; i++) {
        r->statements[i] = cql_statement_new(r->client, &r->opts.statements[i], &note);
        if (r->statements[i] == NULL)
            check_failed(__FILE__, __LINE__, note.text);
    }
}

static void *rig_thread(void *ctx)
{
    struct rig *r = ctx;
    r->loop = loop_new(2);
    client_new(r);
    set(r, &r->up);
    loop_run(r->loop);
    return NULL;
}

void rig_start(struct rig *r, const struct rig_opts *opts)
{
    *r = (struct rig){ .opts = *opts };
    assert_int_equal(pthread_mutex_init(&r->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&r->turned, NULL), 0);
    r->nodes = node_new(&opts->nodes);
    r->time = sysclock_new();
    r->clock = sysclock_clock(r->time);
    assert_int_equal(pthread_create(&r->thread, NULL, rig_thread, r), 0);
    wait_for(r, &r->up, "the client's thread runs");
    if (!opts->not_ready)
        wait_for(r, &r->ready, "the client is ready");
}

static void on_stopped(void *ctx)
{
    struct rig *r = ctx;
    cql_free(&r->client);
    loop_stop(r->loop);
    set(r, &r->stopped);
}

static void stop_it(struct rig *r, void *ctx)
{
    int64_t *ms = ctx;
    cql_stop(r->client, mono_add_ms(clock_mono(r->clock), *ms), on_stopped, r);
}

void rig_stop(struct rig *r, int64_t ms)
{
    rig_on_loop(r, stop_it, &ms);
}

void rig_wait_stopped(struct rig *r)
{
    wait_for(r, &r->stopped, "the client has stopped");
}

void rig_free(struct rig *r)
{
    rig_wait_stopped(r);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    loop_free(&r->loop);
    const char *complaint = node_complaint(r->nodes);
    if (complaint != NULL)
        fail_msg("the nodes complain: %s", complaint);
    node_free(&r->nodes);
    sysclock_free(&r->time);
    assert_int_equal(pthread_cond_destroy(&r->turned), 0);
    assert_int_equal(pthread_mutex_destroy(&r->lock), 0);
}

void rig_end_in(struct rig *r, int64_t ms)
{
    rig_stop(r, ms);
    rig_free(r);
}

void rig_end(struct rig *r)
{
    rig_end_in(r, 2000);
}

/* ---- the loop's thread ---- */

struct turn {
    struct rig *rig;
    void (*fn)(struct rig *r, void *ctx);
    void *ctx;
    bool over;
};

static void turn_run(void *ctx)
{
    struct turn *t = ctx;
    t->fn(t->rig, t->ctx);
    set(t->rig, &t->over);
}

void rig_on_loop(struct rig *r, void (*fn)(struct rig *r, void *ctx), void *ctx)
{
    struct turn t = { .rig = r, .fn = fn, .ctx = ctx };
    loop_post(r->loop, turn_run, &t);
    wait_for(r, &t.over, "a turn of the loop");
}

static void stats_get(struct rig *r, void *ctx)
{
    cql_stats(r->client, ctx);
}

struct cql_stats rig_stats(struct rig *r)
{
    struct cql_stats s;
    rig_on_loop(r, stats_get, &s);
    return s;
}

struct look {
    bool (*look)(struct rig *r, void *ctx);
    void *ctx;
    bool seen;
};

static void look_once(struct rig *r, void *ctx)
{
    struct look *l = ctx;
    l->seen = l->look(r, l->ctx);
}

void rig_until(struct rig *r, bool (*look)(struct rig *r, void *ctx), void *ctx, const char *what)
{
    struct look l = { .look = look, .ctx = ctx };
    mono end = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    while (rig_on_loop(r, look_once, &l), !l.seen)
        if (clock_mono(r->clock).ns > end.ns)
            fail_msg("not within %d ms: %s", RIG_WAIT_MS, what);
}

struct wanted {
    unsigned up, nodes;
};

static bool cluster_is(struct rig *r, void *ctx)
{
    const struct wanted *w = ctx;
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), up = 0;
    for (unsigned i = 0; i < count && i < NODE_MAX; i++)
        up += nodes[i].up;
    return up == w->up && (w->nodes == 0 || count == w->nodes);
}

void rig_wait_up(struct rig *r, unsigned up, unsigned nodes)
{
    struct wanted w = { .up = up, .nodes = nodes };
    rig_until(r, cluster_is, &w, "so many nodes are up");
}

static bool cluster_was_looked_at(struct rig *r, void *ctx)
{
    const uint64_t *looks = ctx;
    struct cql_stats s;
    cql_stats(r->client, &s);
    return s.refreshes >= *looks;
}

void rig_wait_looked(struct rig *r, uint64_t looks)
{
    rig_until(r, cluster_was_looked_at, &looks, "the cluster was looked at again");
}

void rig_wait_looks(struct rig *r, unsigned more)
{
    rig_wait_looked(r, rig_stats(r).refreshes + more);
}

/* ---- requests ---- */

static void ask_done(struct cql_request *q)
{
    struct ask *a = CONTAINER_OF(q, struct ask, request);
    INVARIANT(pthread_mutex_lock(&a->rig->lock) == 0);
    a->told++;
    a->over = true;
    INVARIANT(pthread_cond_broadcast(&a->rig->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&a->rig->lock) == 0);
}

void ask_init(struct ask *a, struct rig *r, unsigned statement)
{
    *a = (struct ask){ .rig = r };
    cql_values_init(&a->values, 64 << 20);
    a->part = (struct cql_part){ .statement = r->statements[statement], .values = &a->values };
    struct cql_request *q = &a->request;
    q->way = CQL_WAY_EXECUTE;
    q->parts = &a->part;
    q->parts_count = 1;
    q->params.consistency = CQL_LOCAL_QUORUM;
    bool reads = strncmp(r->opts.statements[statement].text, "SELECT", 6) == 0;
    q->params.timestamp_us = reads ? CQL_NO_TIMESTAMP : 1000;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = mono_add_ms(clock_mono(r->clock), 10000);
    q->done = ask_done;
}

void ask_start(struct ask *a)
{
    a->over = false;
    cql_start(a->rig->client, &a->request);
}

void ask_wait(struct ask *a)
{
    wait_for(a->rig, &a->over, "a request is over");
}

err ask_run(struct ask *a)
{
    ask_start(a);
    ask_wait(a);
    return a->request.out.why;
}

void ask_fini(struct ask *a)
{
    cql_outcome_fini(&a->request.out);
    cql_values_fini(&a->values);
}

int64_t ask_i64(struct ask *a)
{
    struct cql_rows rows = a->request.out.rows;
    struct cql_cell cells[16];
    int64_t value;
    assert_non_null(rows.columns);
    assert_true(rows.columns->count <= COUNT_OF(cells));
    assert_true(cql_rows_next(&rows, cells));
    assert_true(cql_get_i64(&cells[0], &value));
    return value;
}
