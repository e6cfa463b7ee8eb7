/* real.c - see real.h. */
#include "real.h"

#include "../cmocka_all.h"
#include "cql/cql.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct real the;

static struct {
    struct loop *loop;
    struct sysclock *time;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool up, ready, over, stopped;
} rig;

static void told(bool *what)
{
    INVARIANT(pthread_mutex_lock(&rig.lock) == 0);
    *what = true;
    INVARIANT(pthread_cond_broadcast(&rig.turned) == 0);
    INVARIANT(pthread_mutex_unlock(&rig.lock) == 0);
}

static void wait_for(bool *what, const char *name)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    t.tv_sec += REAL_WAIT_S;
    assert_int_equal(pthread_mutex_lock(&rig.lock), 0);
    while (!*what)
        if (pthread_cond_timedwait(&rig.turned, &rig.lock, &t) != 0 && !*what)
            fail_msg("not within %d s: %s", REAL_WAIT_S, name);
    *what = false;
    assert_int_equal(pthread_mutex_unlock(&rig.lock), 0);
}

static void on_ready(void *ctx, bool ready)
{
    (void)ctx;
    if (ready)
        told(&rig.ready);
}

static const char *env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

static void *thread_run(void *ctx)
{
    (void)ctx;
    struct err_note note = { .text = "" };
    rig.loop = loop_new(1);
    const struct cql_opts o = { .loop = rig.loop,
                                .clock = the.clock,
                                .contact_points = { env("CASSANDRA_POINT", "127.0.0.1:9042") },
                                .contact_points_count = 1,
                                .local_dc = env("CASSANDRA_DC", "dc1"),
                                .lz4 = true,
                                .ready = on_ready };
    the.client = cql_new(&o, &note);
    the.titles = the.client == NULL ? NULL : titles_new(the.client, the.keyspace, the.clock, &note);
    if (the.titles != NULL)
        the.catalog = catalog_new(&(struct catalog_opts){ .client = the.client,
                                                          .loop = rig.loop,
                                                          .clock = the.clock,
                                                          .keyspace = the.keyspace,
                                                          .entropy = entropy_bytes },
                                  &note);
    if (the.catalog == NULL)
        check_failed(__FILE__, __LINE__, note.text);
    told(&rig.up);
    loop_run(rig.loop);
    return NULL;
}

static void schema_told(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    (void)ctx;
    the.why = why;
    the.version = found->version;
    (void)snprintf(the.note, sizeof the.note, "%s", note->text);
    told(&rig.over);
}

static struct schema_opts schema_opts(void)
{
    static char replication[100];
    (void)snprintf(replication, sizeof replication,
                   "{'class': 'NetworkTopologyStrategy', '%.40s': %.2s}",
                   env("CASSANDRA_DC", "dc1"), env("CASSANDRA_REPLICAS", "1"));
    return (struct schema_opts){ .client = the.client,
                                 .clock = the.clock,
                                 .keyspace = the.keyspace,
                                 .replication = replication,
                                 .deadline = mono_add_ms(clock_mono(the.clock), 50000) };
}

static void look_run(void *ctx)
{
    (void)ctx;
    const struct schema_opts o = schema_opts();
    schema_look(&o, schema_told, NULL);
}

static void apply_run(void *ctx)
{
    (void)ctx;
    const struct schema_opts o = schema_opts();
    schema_apply(&o, schema_told, NULL);
}

static void on_loop(void (*run)(void *ctx))
{
    loop_post(rig.loop, run, NULL);
    wait_for(&rig.over, "the schema");
}

int real_setup(void **state)
{
    (void)state;
    assert_int_equal(pthread_mutex_init(&rig.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&rig.turned, NULL), 0);
    rig.time = sysclock_new();
    the.clock = sysclock_clock(rig.time);
    (void)snprintf(the.keyspace, sizeof the.keyspace, "t%llx",
                   (unsigned long long)clock_wall(the.clock).ns);
    assert_int_equal(pthread_create(&rig.thread, NULL, thread_run, NULL), 0);
    wait_for(&rig.up, "the client's thread");
    wait_for(&rig.ready, "the cluster");
    return 0;
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    cql_free(&the.client);
    loop_stop(rig.loop);
    told(&rig.stopped);
}

static void stop_run(void *ctx)
{
    (void)ctx;
    cql_stop(the.client, mono_add_ms(clock_mono(the.clock), 2000), on_stopped, NULL);
}

static void drop_done(struct cql_request *q)
{
    cql_outcome_fini(&q->out);
    told(&rig.over);
}

int real_teardown(void **state)
{
    (void)state;
    char text[100];
    (void)snprintf(text, sizeof text, "DROP KEYSPACE IF EXISTS %s", the.keyspace);
    struct cql_request q = { .way = CQL_WAY_TEXT, .text = str_of(text), .done = drop_done };
    q.params.consistency = CQL_LOCAL_QUORUM;
    q.params.timestamp_us = CQL_NO_TIMESTAMP;
    q.params.now_s = CQL_NO_NOW;
    q.deadline = mono_add_ms(clock_mono(the.clock), 30000);
    cql_start(the.client, &q);
    wait_for(&rig.over, "the keyspace is dropped");
    loop_post(rig.loop, stop_run, NULL);
    wait_for(&rig.stopped, "the client has stopped");
    assert_int_equal(pthread_join(rig.thread, NULL), 0);
    loop_free(&rig.loop);
    titles_free(&the.titles);
    catalog_free(&the.catalog);
    sysclock_free(&rig.time);
    return 0;
}

/* ---- calls ---- */

void real_look(void)
{
    on_loop(look_run);
}

void real_apply(void)
{
    on_loop(apply_run);
}

static void call_told(struct store_call *c)
{
    (void)c;
    told(&rig.over);
}

struct store_call real_call(void)
{
    return (struct store_call){ .home = home_here(), .done = call_told };
}

void real_wait(const char *what)
{
    wait_for(&rig.over, what);
}

void real_until(bool (*look)(void *ctx), void *ctx, const char *what)
{
    for (unsigned i = 0; i < REAL_WAIT_S * 200; i++) {
        if (look(ctx))
            return;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    fail_msg("not within %d s: %s", REAL_WAIT_S, what);
}

struct post {
    void (*run)(void *ctx);
    void *ctx;
};

static void post_run(void *ctx)
{
    const struct post *p = ctx;
    p->run(p->ctx);
    told(&rig.over);
}

struct loop *real_loop(void)
{
    return rig.loop;
}

void real_on_loop(void (*run)(void *ctx), void *ctx)
{
    struct post p = { run, ctx };
    loop_post(rig.loop, post_run, &p);
    wait_for(&rig.over, "the loop");
}

static void rows_done(struct cql_request *q)
{
    (void)q;
    told(&rig.over);
}

static void text_run(struct cql_request *q, const char *text)
{
    *q = (struct cql_request){ .way = CQL_WAY_TEXT, .text = str_of(text), .done = rows_done };
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = mono_add_ms(clock_mono(the.clock), 30000);
    cql_start(the.client, q);
    wait_for(&rig.over, text);
    if (q->out.why != ERR_OK)
        fail_msg("%s: %s", text, q->out.note.text);
}

void real_run(const char *text)
{
    struct cql_request q;
    text_run(&q, text);
    cql_outcome_fini(&q.out);
}

unsigned real_rows(const char *text)
{
    struct cql_request q;
    text_run(&q, text);
    unsigned count = q.out.rows.count;
    cql_outcome_fini(&q.out);
    return count;
}
