/* keys.c - see keys.h. A thread turns the loop of the client; ours waits for it, and asks the
 * authority, whose changes wait for the loop.
 *
 *   thread: open the cluster -> tell -> turn the loop -> close the cluster
 *   ours:   wait -> poll until the rows are known -> authority ... -> stop the rows -> join */
#include "cli/keys.h"

#include "app/config.h"
#include "auth/auth.h"
#include "cassandra/rows.h"
#include "cli/config.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "server/cluster.h"
#include "server/options.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { TIMEOUT_MS = 30000, POLL_MS = 20 };

struct keys {
    struct options *options;
    struct sysclock *sysclock;
    struct clock *clock;
    pthread_t thread;
    bool runs; /* the thread */
    /* the thread's, read behind up */
    struct loop *loop;
    struct cluster cluster;
    struct catalog *catalog;
    struct cassandra_rows *rows;
    err why;
    struct err_note note;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool up; /* or failed */
    struct auth *auth;
};

static err thread_open(struct keys *k)
{
    const struct config_cassandra *c = &options_config(k->options)->cassandra;
    const struct cluster_opts o = {
        .config = c, .section = "store", .loop = k->loop, .clock = k->clock
    };
    err e = cluster_open(&k->cluster, &o, &k->note);
    if (e != ERR_OK)
        return e;
    k->catalog = catalog_new(&(struct catalog_opts){ .client = k->cluster.client,
                                                     .loop = k->loop,
                                                     .clock = k->clock,
                                                     .keyspace = c->keyspace,
                                                     .entropy = entropy_bytes },
                             &k->note);
    if (k->catalog == NULL)
        return ERR_BAD;
    k->rows = cassandra_rows_new(&(struct cassandra_rows_opts){
        .catalog = k->catalog, .clock = k->clock, .scope = CASSANDRA_ROWS_AUTH });
    return ERR_OK;
}

static void *thread_run(void *ctx)
{
    struct keys *k = ctx;
    k->loop = loop_new(1);
    k->why = thread_open(k);
    INVARIANT(pthread_mutex_lock(&k->lock) == 0);
    k->up = true;
    INVARIANT(pthread_cond_signal(&k->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&k->lock) == 0);
    if (k->why == ERR_OK)
        loop_run(k->loop);
    cluster_close(&k->cluster);
    cassandra_rows_free(&k->rows);
    catalog_free(&k->catalog);
    loop_free(&k->loop);
    return NULL;
}

static void rows_stopped(void *ctx)
{
    const struct keys *k = ctx;
    loop_stop(k->loop);
}

static void stop_run(void *ctx)
{
    struct keys *k = ctx;
    cassandra_rows_stop(k->rows, rows_stopped, k);
}

void keys_close(struct keys **kp)
{
    struct keys *k = *kp;
    *kp = NULL;
    if (k == NULL)
        return;
    if (k->runs && k->why == ERR_OK)
        loop_post(k->loop, stop_run, k);
    if (k->runs)
        INVARIANT(pthread_join(k->thread, NULL) == 0);
    auth_free(&k->auth); /* whom the rows tell of changes, until then */
    INVARIANT(pthread_cond_destroy(&k->turned) == 0);
    INVARIANT(pthread_mutex_destroy(&k->lock) == 0);
    sysclock_free(&k->sysclock);
    options_free(&k->options);
    free(k);
}

static void thread_start(struct keys *k)
{
    INVARIANT(pthread_create(&k->thread, NULL, thread_run, k) == 0);
    k->runs = true;
    INVARIANT(pthread_mutex_lock(&k->lock) == 0);
    while (!k->up)
        INVARIANT(pthread_cond_wait(&k->turned, &k->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&k->lock) == 0);
}

static bool rows_await(struct keys *k)
{
    struct row_store *rows = cassandra_rows_store(k->rows);
    mono deadline = mono_add_ms(clock_mono(k->clock), TIMEOUT_MS);
    while (!row_store_known(rows) && clock_mono(k->clock).ns < deadline.ns)
        (void)nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * NS_PER_MS }, NULL);
    return row_store_known(rows);
}

static enum cli_exit authority_open(const struct cli_call *call, struct keys *k)
{
    struct err_note note;
    const struct auth_opts o = { .rows = cassandra_rows_store(k->rows),
                                 .clock = k->clock,
                                 .entropy = entropy_bytes,
                                 .enabled = true };
    err e = auth_new(&o, &k->auth, &note);
    if (e == ERR_OK)
        e = auth_begin(k->auth, &note);
    return e == ERR_OK ? CLI_OK : cli_fail(call, CLI_FAILED, "token: %s", note.text);
}

static enum cli_exit keys_start(const struct cli_call *call, struct keys *k)
{
    enum cli_exit code = config_load(k->options, call);
    if (code != CLI_OK)
        return code;
    if (options_config(k->options)->pages != PAGES_CASSANDRA)
        return cli_fail(call, CLI_USAGE,
                        "token: store.kind of these options is not cassandra; --data names a store "
                        "of one server");
    thread_start(k);
    if (k->why != ERR_OK)
        return cli_fail(call, k->why == ERR_BAD ? CLI_USAGE : CLI_FAILED, "token: %s",
                        k->note.text);
    if (!rows_await(k))
        return cli_fail(call, CLI_FAILED,
                        "token: the cluster does not answer, or keyspace %s has no tables: "
                        "palimpsest store schema makes them",
                        options_config(k->options)->cassandra.keyspace);
    return authority_open(call, k);
}

enum cli_exit keys_open(const struct cli_call *call, struct keys **out)
{
    struct keys *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    k->options = options_new();
    k->sysclock = sysclock_new();
    k->clock = sysclock_clock(k->sysclock);
    INVARIANT(pthread_mutex_init(&k->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&k->turned, NULL) == 0);
    enum cli_exit code = keys_start(call, k);
    if (code != CLI_OK)
        keys_close(&k);
    *out = k;
    return code;
}

struct auth *keys_auth(struct keys *k)
{
    return k->auth;
}

struct clock *keys_clock(struct keys *k)
{
    return k->clock;
}
