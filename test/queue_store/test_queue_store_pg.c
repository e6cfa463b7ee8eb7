/* Goal: the store in PostgreSQL is a store (suite.h); a lost owner changes nothing; a server that
 * is killed or stopped leaves every write there whole or not at all, and is used again when it is
 * back. Method: PostgreSQL 15 of the test's own. */
#include "pg_bodies.h"
#include "pg_damage.h"
#include "pg_lock.h"
#include "pg_many.h"
#include "pg_server.h"
#include "suite.h"

#include "lib/wait.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "pg/pg.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    WRITE_TIMEOUT_MS = 60000,
    STOPPED_TIMEOUT_MS = 1500,
    LOCKED_TIMEOUT_MS = 4000,
    RECOVER_TRIES = 12000
};

struct fixture {
    struct pg_server server;
    struct suite suite;
    struct sysclock *sysclock;
    struct loop *loop;
    pthread_t thread;
    int64_t timeout_ms;
};

static struct fixture fixture;

static void *run_loop(void *loop)
{
    loop_run(loop);
    return NULL;
}

static err store_try(struct fixture *f, const char *deployment, struct queue_store **out,
                     struct err_note *note)
{
    struct queue_pg_opts opts = {
        .name = "p",
        .url = f->server.url,
        .deployment = deployment,
        .loop = f->loop,
        .clock = sysclock_clock(f->sysclock),
        .write_timeout_ms = f->timeout_ms,
    };
    return queue_pg_open(&opts, out, note);
}

static struct queue_store *store_new(struct fixture *f)
{
    struct queue_store *s = NULL;
    struct err_note note = { .text = "" };
    if (store_try(f, "test", &s, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return s;
}

static void reopen(struct suite *s)
{
    struct fixture *f = s->ctx;
    s->store->ops->close(&s->store);
    s->store = store_new(f);
}

static int setup(void **state)
{
    struct fixture *f = &fixture;
    *state = f;
    f->timeout_ms = WRITE_TIMEOUT_MS;
    f->sysclock = sysclock_new();
    sysclock_start(f->sysclock, STORE_TIME_ZERO);
    f->loop = loop_new(4);
    pg_server_init(&f->server, sysclock_clock(f->sysclock));
    return pthread_create(&f->thread, NULL, run_loop, f->loop);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    loop_stop(f->loop);
    pthread_join(f->thread, NULL);
    loop_free(&f->loop);
    pg_server_fini(&f->server);
    sysclock_free(&f->sysclock);
    return 0;
}

static void it_is_a_store(void **state)
{
    struct fixture *f = *state;
    f->suite = (struct suite){ .store = store_new(f), .reopen = reopen, .ctx = f, .steps = 400 };
    suite_run(&f->suite);
    f->suite.store->ops->close(&f->suite.store);
}

/* ---- owners ---- */

/* While the first lives the second stands by; when it has gone the second takes over and the first,
 * if it were still there, could change nothing. */
static void a_second_owner_waits_for_the_first_to_go(void **state)
{
    struct fixture *f = *state;
    struct queue_part p = { .queue = 500, .partition = 0 };
    struct queue_store *a = store_new(f);
    struct queue_store *b = store_new(f);
    struct queue_part_record of_a, of_b;
    assert_int_equal(model_own_one(a, p, &of_a), ERR_OK);
    assert_int_equal(model_own_one(b, p, &of_b), ERR_CONFLICT);
    assert_int_equal(model_write_nothing(b, p, of_a.epoch + 1), ERR_CONFLICT);
    assert_int_equal(model_write_nothing(a, p, of_a.epoch), ERR_OK);
    a->ops->close(&a);
    int tries = 0;
    while (model_own_one(b, p, &of_b) != ERR_OK) {
        assert_true(tries++ < RECOVER_TRIES); /* the server sees the connection go */
        wait_pause(10);
    }
    assert_true(of_b.epoch > of_a.epoch);
    assert_int_equal(model_write_nothing(b, p, of_a.epoch), ERR_CONFLICT);
    assert_int_equal(model_write_nothing(b, p, of_b.epoch), ERR_OK);
    b->ops->close(&b);
}

/* ---- a server that goes and comes ---- */

static void own_again(struct queue_store *s, struct model *m)
{
    for (int tries = 0;; tries++) {
        err why = s->ops->recover(s, NULL, NULL);
        if (why == ERR_OK)
            why = model_own(m, s);
        if (why == ERR_OK)
            return;
        assert_true(tries < RECOVER_TRIES);
        wait_pause(10);
    }
}

static void own_again_part(struct queue_store *s, struct queue_part p,
                           struct queue_part_record *out)
{
    for (int tries = 0;
         s->ops->recover(s, NULL, NULL) != ERR_OK || model_own_one(s, p, out) != ERR_OK; tries++) {
        assert_true(tries < RECOVER_TRIES);
        wait_pause(10);
    }
}

enum { STATES = 12 };
static struct model now;
static struct model
    states[STATES]; /* that the store may show: since the last write that was synced */
static unsigned states_count;
static struct model_write one_write;

/* One step of now; its states follow. What was early only a server that goes may take back. */
static err step(struct queue_store *s)
{
    if (states_count == 0)
        states[states_count++] = now;
    struct model *after = &states[states_count++];
    *after = now;
    model_step(after, &one_write);
    one_write.write.early = one_write.write.early && states_count < STATES;
    bool early = one_write.write.early;
    err why = model_write_run(s, &one_write.write);
    model_write_fini(&one_write);
    if (why == ERR_OK)
        now = *after;
    now.rng = after->rng;
    if (why == ERR_OK && !early)
        states_count = 0;
    if (why != ERR_OK && why != ERR_IO)
        states_count--;
    return why;
}

/* now becomes the state that the store shows, one of those it may. */
static void settle(struct queue_store *s)
{
    char why[MODEL_WHY_BYTES] = "";
    unsigned i = states_count == 0 ? 1 : states_count;
    if (states_count == 0)
        states[0] = now;
    for (; i > 0; i--) {
        struct model *m = &states[i - 1];
        m->rng = now.rng;
        for (unsigned k = 0; k < MODEL_PARTS; k++)
            m->parts[k].epoch = now.parts[k].epoch;
        if (model_shown(m, s, why))
            break;
    }
    if (i == 0)
        fail_msg("none of %u states is shown; of the first: %s", states_count, why);
    now = states[i - 1];
    states_count = 0;
}

struct killing {
    struct fixture *f;
    int64_t delay_ns;
};

static void *kill_later(void *ctx)
{
    struct killing *k = ctx;
    struct timespec ts = { .tv_nsec = k->delay_ns };
    (void)nanosleep(&ts, NULL);
    pg_server_kill(&k->f->server);
    return NULL;
}

static void a_killed_server_leaves_writes_whole(void **state)
{
    struct fixture *f = *state;
    struct queue_store *s = store_new(f);
    model_init(&now, 21, 600);
    own_again(s, &now);
    for (unsigned cycle = 0; cycle < 8; cycle++) {
        struct killing k = { .f = f, .delay_ns = 1000000 * (int64_t)(1 + cycle * 7) };
        pthread_t killer;
        err why = ERR_OK;
        assert_int_equal(pthread_create(&killer, NULL, kill_later, &k), 0);
        while (why == ERR_OK)
            why = step(s);
        pthread_join(killer, NULL);
        assert_true(why == ERR_IO || why == ERR_UNAVAILABLE);
        assert_int_equal(model_write_nothing(s, now.parts[0].part, now.parts[0].epoch),
                         ERR_UNAVAILABLE);
        assert_int_not_equal(s->ops->recover(s, NULL, NULL), ERR_OK); /* it is still away */
        pg_server_start(&f->server);
        own_again(s, &now);
        settle(s);
    }
    s->ops->close(&s);
}

static void a_stopped_server_is_given_up_in_time(void **state)
{
    struct fixture *f = *state;
    f->timeout_ms = STOPPED_TIMEOUT_MS;
    struct queue_store *s = store_new(f);
    f->timeout_ms = WRITE_TIMEOUT_MS;
    model_init(&now, 22, 700);
    own_again(s, &now);
    pg_server_pause(&f->server, true);
    assert_int_equal(step(s), ERR_IO); /* it may have got it */
    assert_int_equal(model_write_nothing(s, now.parts[0].part, now.parts[0].epoch),
                     ERR_UNAVAILABLE);
    assert_int_equal(s->ops->recover(s, NULL, NULL), ERR_UNAVAILABLE);
    pg_server_pause(&f->server, false);
    own_again(s, &now);
    settle(s);
    s->ops->close(&s);
}

static void a_store_that_is_away_at_start_is_recovered(void **state)
{
    struct fixture *f = *state;
    struct queue_part p = { .queue = 800, .partition = 0 };
    struct queue_part_record r;
    pg_server_kill(&f->server);
    struct queue_store *s = store_new(f);
    assert_int_equal(model_own_one(s, p, &r), ERR_UNAVAILABLE);
    assert_int_equal(s->ops->heartbeat(s, (mono){ .ns = 0 }, NULL), ERR_IO); /* recover it */
    pg_server_start(&f->server);
    int tries = 0;
    while (s->ops->recover(s, NULL, NULL) != ERR_OK) {
        assert_true(tries++ < RECOVER_TRIES);
        wait_pause(10);
    }
    assert_int_equal(model_own_one(s, p, &r), ERR_OK);
    s->ops->close(&s);
}

/* ---- whose database it is ---- */

static void a_database_of_another_deployment_is_refused(void **state)
{
    struct fixture *f = *state;
    struct queue_part p = { .queue = 810, .partition = 0 };
    struct queue_part_record r;
    struct err_note note = { .text = "" };
    struct queue_store *s = store_new(f);
    s->ops->close(&s);
    assert_int_equal(store_try(f, "other", &s, &note), ERR_BAD);
    assert_null(s);
    assert_non_null(strstr(note.text, "belongs to the deployment 'test'"));
    assert_non_null(strstr(note.text, "queue.deployment"));
    pg_server_kill(&f->server);
    assert_int_equal(store_try(f, "other", &s, &note), ERR_OK); /* nobody knows yet */
    pg_server_start(&f->server);
    err why = ERR_UNAVAILABLE;
    for (int tries = 0; why == ERR_UNAVAILABLE; tries++) {
        assert_true(tries < RECOVER_TRIES);
        why = s->ops->recover(s, &note, NULL);
    }
    assert_int_equal(why, ERR_BAD);
    assert_non_null(strstr(note.text, "'other'"));
    assert_int_equal(model_own_one(s, p, &r), ERR_UNAVAILABLE);
    s->ops->close(&s);
}

static void names_of_deployments_have_limits(void **state)
{
    static const char *const bad[] = {
        "",         "a b", "a'b",
        "\xc3\xa4", "a/b", "0123456789012345678901234567890123456789012345678901234567890123x"
    };
    struct queue_store *s = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = { .text = "" };
        assert_int_equal(store_try(*state, bad[i], &s, &note), ERR_BAD);
        assert_non_null(strstr(note.text, "queue.deployment"));
    }
}

/* ---- many at once, and beside a snapshot ---- */

enum { READERS = 30, WAITS_MAX = 5 };
static void *look(void *store)
{
    struct queue_store *s = store;
    struct queue_part_record r;
    return s->ops->record(s, (struct queue_part){ .queue = 899 }, &r) == ERR_UNAVAILABLE ? store
                                                                                         : NULL;
}

/* Many want one of few connections to a server that does not answer: one deadline for all, not one
 * after the other. */
static void who_waits_for_a_connection_waits_for_one_deadline(void **state)
{
    struct fixture *f = *state;
    struct clock *clock = sysclock_clock(f->sysclock);
    pthread_t threads[READERS];
    f->timeout_ms = STOPPED_TIMEOUT_MS;
    struct queue_store *s = store_new(f);
    f->timeout_ms = WRITE_TIMEOUT_MS;
    pg_server_pause(&f->server, true);
    mono before = clock_mono(clock);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, s), 0);
    for (unsigned i = 0; i < READERS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_ptr_equal(failed, s);
    }
    int64_t waited_ms = (clock_mono(clock).ns - before.ns) / NS_PER_MS;
    pg_server_pause(&f->server, false);
    assert_true(waited_ms <
                WAITS_MAX * STOPPED_TIMEOUT_MS); /* one after the other would be twice that */
    s->ops->close(&s);
}

/* Every tenth is refused; the others, which went along in its transaction, are there. */
static void one_refused_write_harms_no_other(void **state)
{
    struct fixture *f = *state;
    static struct many m;
    static const unsigned char in_place[1] = { ITEM_IN_PLACE };
    struct queue_store *s = store_new(f);
    struct queue_part p = { .queue = 900, .partition = 1 };
    struct queue_part_record own, r;
    struct item it = { .bytes = STR("x") };
    struct arena a;
    arena_init(&a, 1 << 20);
    many_begin(&m);
    assert_int_equal(model_own_one(s, p, &own), ERR_OK);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t id = i % 10 == 9 ? i : i + 1; /* the one before, again */
        m.ops[i] = (struct queue_op){ .kind = OP_BATCH_PUT };
        m.ops[i].u.batch =
            (struct queue_batch){ .first = { .low = id }, .count = 1, .states = in_place };
        assert_int_equal(item_batch_encode(&it, 1, &a, &m.ops[i].u.batch.bytes), ERR_OK);
        m.writes[i].parts[0] = (struct queue_write_part){
            .part = p, .epoch = own.epoch, .ready = 1, .ops = &m.ops[i], .ops_count = 1
        };
    }
    for (unsigned i = 0; i < MANY; i++)
        many_start(&m, s, i);
    many_wait(&m, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(m.results[i], i % 10 == 9 ? ERR_CORRUPT : ERR_OK);
    assert_int_equal(s->ops->record(s, p, &r), ERR_OK);
    assert_int_equal(r.ready, MANY - MANY / 10);
    arena_fini(&a);
    s->ops->close(&s);
}

/* ---- beside others ---- */

/* Index entries that were read of the partition's tables, live or dead. */
#define READ_SQL                                                                                   \
    "SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes WHERE relname LIKE "                 \
    "'queue\\_950\\_%'"

#define CONNECTED_SQL "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'p'"
enum { ROUNDS = 150 };

/* A produce, a lease, a completion. */
static void one_round(struct queue_store *s, struct queue_part p, uint64_t epoch, uint64_t id)
{
    static const unsigned char in_place[1] = { ITEM_IN_PLACE }, gone[1] = { ITEM_GONE };
    struct item it = { .bytes = STR("x") };
    struct arena a;
    struct queue_op op = { .kind = OP_BATCH_PUT };
    struct queue_op ops[2] = { { .kind = OP_LEASE_DELETE }, { .kind = OP_BATCH_STATES } };
    arena_init(&a, 1 << 16);
    op.u.batch = (struct queue_batch){ .first = { .low = id }, .count = 1, .states = in_place };
    assert_int_equal(item_batch_encode(&it, 1, &a, &op.u.batch.bytes), ERR_OK);
    struct queue_write_part w = {
        .part = p, .epoch = epoch, .ready = 1, .ops = &op, .ops_count = 1
    };
    struct queue_write produce = { .parts = { w }, .parts_count = 1, .unsynced = true };
    assert_int_equal(model_write_run(s, &produce), ERR_OK);
    op = (struct queue_op){ .kind = OP_LEASE_PUT,
                            .u.lease = { .id = { .low = id }, .in_place = true } };
    op.u.lease.place.batch.low = id;
    w.ready = -1;
    w.leased = 1;
    struct queue_write lease = { .parts = { w }, .parts_count = 1, .early = true };
    assert_int_equal(model_write_run(s, &lease), ERR_OK);
    ops[0].u.lease.id.low = id;
    ops[1].u.batch = (struct queue_batch){ .first = { .low = id }, .count = 1, .states = gone };
    w = (struct queue_write_part){
        .part = p, .epoch = epoch, .leased = -1, .ops = ops, .ops_count = 2
    };
    struct queue_write complete = { .parts = { w }, .parts_count = 1, .unsynced = true };
    assert_int_equal(model_write_run(s, &complete), ERR_OK);
    arena_fini(&a);
}

/* Opens, takes over, does so many rounds, closes; how many entries all that read. */
static int64_t reads_of(struct fixture *f, struct pg *c, uint64_t *id, unsigned rounds)
{
    struct queue_part p = { .queue = 950, .partition = 0 };
    struct queue_part_record own;
    int64_t before = pg_server_number(&f->server, c, READ_SQL);
    struct queue_store *s = store_new(f);
    assert_int_equal(model_own_one(s, p, &own), ERR_OK); /* the one before has gone */
    for (unsigned i = 0; i < rounds; i++)
        one_round(s, p, own.epoch, ++*id);
    s->ops->close(&s);
    for (int tries = 0; pg_server_number(&f->server, c, CONNECTED_SQL) > 0;
         tries++) { /* they tell their figures when they end */
        assert_true(tries < RECOVER_TRIES);
        wait_pause(10);
    }
    return pg_server_number(&f->server, c, READ_SQL) - before;
}

/* What was deleted stays, as long as somebody may still look at it; writes must not look at it
 * too. */
static void a_held_snapshot_makes_no_write_read_more(void **state)
{
    struct fixture *f = *state;
    struct pg *holder = pg_server_connect(&f->server);
    struct pg *c = pg_server_connect(&f->server);
    uint64_t id = 0;
    (void)reads_of(f, c, &id, 0); /* makes the tables */
    pg_server_run(&f->server, holder, "BEGIN ISOLATION LEVEL REPEATABLE READ", NULL);
    (void)pg_server_number(&f->server, holder, "SELECT count(*) FROM pg_class");
    int64_t start = reads_of(f, c, &id, 0);
    int64_t first = reads_of(f, c, &id, ROUNDS) - start;
    (void)reads_of(f, c, &id, 10 * ROUNDS);
    pg_server_run(&f->server, c, "ANALYZE",
                  NULL); /* as autovacuum does: it finds next to nothing alive */
    int64_t start_late = reads_of(f, c, &id, 0);
    int64_t late = reads_of(f, c, &id, ROUNDS) - start_late;
    print_message("%d rounds read %lld index entries at first, %lld behind %d that are gone\n",
                  ROUNDS, (long long)first, (long long)late, 11 * ROUNDS);
    assert_true(first > 0);
    assert_true(late <= 3 * first); /* it does not grow; by then ten times as much is gone */
    pg_close_wait(&holder);
    pg_close_wait(&c);
}

/* ---- bodies ---- */

static void bodies_of_a_call_take_few_statements(void **state)
{
    struct fixture *f = *state;
    struct pg *c = pg_server_connect(&f->server);
    pg_server_run(&f->server, c, "ALTER DATABASE postgres SET log_statement = 'all'", NULL);
    struct queue_store *s = store_new(f); /* its connections come after that */
    pg_bodies_statements(s, &f->server);
    s->ops->close(&s);
    pg_server_run(&f->server, c, "ALTER DATABASE postgres RESET log_statement", NULL);
    pg_close_wait(&c);
}

/* ---- what others do to its tables ---- */

static void assert_said(struct queue_store *s, const char *words)
{
    struct err_note note = { .text = "" };
    s->ops->said(s, &note);
    if (strstr(note.text, words) == NULL)
        fail_msg("said: %s", note.text);
}

static void a_heartbeat_counts_the_row_it_writes(void **state)
{
    struct fixture *f = *state;
    struct pg *c = pg_server_connect(&f->server);
    struct queue_store *s = store_new(f);
    assert_int_equal(s->ops->heartbeat(s, (mono){ .ns = 0 }, NULL), ERR_OK);
    pg_server_run(&f->server, c, "DELETE FROM queue_store", NULL);
    assert_int_equal(s->ops->heartbeat(s, (mono){ .ns = 0 }, NULL), ERR_CORRUPT);
    assert_said(s, "a row that a write needs is gone");
    assert_int_equal(s->ops->recover(s, NULL, NULL), ERR_OK); /* puts it there again */
    assert_int_equal(s->ops->heartbeat(s, (mono){ .ns = 0 }, NULL), ERR_OK);
    pg_close_wait(&c);
    s->ops->close(&s);
}

/* A reader's connection lives on: it says nothing of writes. */
static void a_heartbeat_takes_the_connection_of_writes(void **state)
{
    struct fixture *f = *state;
    struct pg *c = pg_server_connect(&f->server);
    struct queue_part p = { .queue = 960, .partition = 0 };
    struct queue_part_record r;
    struct queue_store *s = store_new(f);
    assert_int_equal(model_own_one(s, p, &r), ERR_OK);
    assert_int_equal(model_write_nothing(s, p, r.epoch), ERR_OK);
    pg_server_run(&f->server, c,
                  "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = "
                  "'advisory' AND granted",
                  NULL);
    err why = s->ops->heartbeat(s, (mono){ .ns = 0 }, NULL);
    assert_true(why == ERR_IO || why == ERR_UNAVAILABLE);
    assert_int_equal(s->ops->record(s, p, &r),
                     ERR_UNAVAILABLE); /* until recover: another may own it meanwhile */
    own_again_part(s, p, &r);
    assert_int_equal(model_write_nothing(s, p, r.epoch), ERR_OK);
    pg_close_wait(&c);
    s->ops->close(&s);
}

static void rows_that_a_write_needs_are_missed(void **state)
{
    struct fixture *f = *state;
    struct pg *c = pg_server_connect(&f->server);
    struct queue_part p = { .queue = 961, .partition = 0 }, q = { .queue = 961, .partition = 1 };
    struct queue_part_record r, other;
    struct queue_store *s = store_new(f);
    assert_int_equal(model_own_one(s, p, &r), ERR_OK);
    assert_int_equal(model_own_one(s, q, &other), ERR_OK);
    pg_server_run(&f->server, c, "TRUNCATE queue_961_0_r", NULL);
    assert_int_equal(model_write_nothing(s, p, r.epoch), ERR_CORRUPT);
    assert_int_equal(model_own_one(s, p, &r), ERR_CORRUPT);
    pg_server_run(&f->server, c, "DELETE FROM queue_part WHERE queue = 961", NULL);
    assert_int_equal(model_write_nothing(s, q, other.epoch), ERR_CONFLICT);
    assert_int_equal(model_own_one(s, q, &other),
                     ERR_GONE); /* its tables are there, and nobody knows whose they are */
    pg_close_wait(&c);
    s->ops->close(&s);
}

static void a_right_that_is_missing_is_named(void **state)
{
    struct fixture *f = *state;
    struct pg *c = pg_server_connect(&f->server);
    struct queue_part p = { .queue = 962, .partition = 0 };
    struct queue_part_record r;
    char url[PG_SERVER_PATH_BYTES];
    pg_server_run(&f->server, c, "CREATE ROLE modest LOGIN", NULL);
    pg_server_run(&f->server, c, "CREATE DATABASE modest OWNER modest", NULL);
    (void)snprintf(url, sizeof(url), "postgresql://modest@127.0.0.1:%u/modest", f->server.port);
    struct queue_pg_opts opts = { .name = "p",
                                  .url = url,
                                  .deployment = "test",
                                  .loop = f->loop,
                                  .clock = sysclock_clock(f->sysclock),
                                  .write_timeout_ms = WRITE_TIMEOUT_MS };
    struct queue_store *s = NULL;
    assert_int_equal(queue_pg_open(&opts, &s, NULL), ERR_OK);
    assert_int_equal(model_own_one(s, p, &r), ERR_OK);
    struct pg *owner = NULL;
    struct pg_opts as = {
        .url = url, .application = "test", .loop = opts.loop, .clock = opts.clock
    };
    assert_int_equal(
        pg_open(&as, mono_add_ms(clock_mono(opts.clock), WRITE_TIMEOUT_MS), &owner, NULL), ERR_OK);
    pg_server_run(&f->server, owner, "REVOKE INSERT ON queue_962_0_r FROM modest", NULL);
    assert_int_equal(model_write_nothing(s, p, r.epoch), ERR_UNAVAILABLE);
    assert_said(s, "permission denied for table queue_962_0_r");
    assert_said(s, "needs SELECT, INSERT, UPDATE or DELETE there");
    pg_close_wait(&owner);
    pg_close_wait(&c);
    s->ops->close(&s);
}

static void what_postgresql_says_is_one_clean_line(void **state)
{
    struct fixture *f = *state;
    struct queue_store *s = store_new(f);
    struct err_note note = { .text = "" };
    pg_server_kill(&f->server);
    assert_int_equal(s->ops->recover(s, &note, NULL), ERR_UNAVAILABLE);
    pg_server_start(&f->server);
    assert_non_null(strstr(note.text, "refused"));
    assert_null(strstr(note.text, "  "));
    assert_null(strpbrk(note.text, "\r\n\t"));
    s->ops->close(&s);
}

/* One that takes the connection and says nothing. */
/* What is acknowledged is as durable as the cluster makes it, whatever stands for a role or a
 * database. */
static void writes_are_synced_where_the_database_says_off(void **state)
{
    struct fixture *f = *state;
    struct queue_part p = { .queue = 900, .partition = 0 };
    struct pg *c = pg_server_connect(&f->server);
    pg_server_run(&f->server, c, "ALTER DATABASE postgres SET synchronous_commit = off", NULL);
    struct queue_store *s = store_new(f);
    struct queue_part_record owned;
    assert_int_equal(model_own_one(s, p, &owned), ERR_OK);
    pg_server_run(&f->server, c,
                  "CREATE FUNCTION synced() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN"
                  " IF current_setting('synchronous_commit') = 'off' THEN RAISE 'not synced'; END "
                  "IF; RETURN NEW; END $f$",
                  NULL);
    pg_server_run(&f->server, c,
                  "CREATE TRIGGER synced BEFORE INSERT ON queue_900_0_r FOR EACH ROW EXECUTE "
                  "FUNCTION synced()",
                  NULL);
    assert_int_equal(model_write_nothing(s, p, owned.epoch), ERR_OK);
    struct queue_write lazy = { .parts = { { .part = p, .epoch = owned.epoch } },
                                .parts_count = 1,
                                .unsynced = true };
    assert_int_not_equal(model_write_run(s, &lazy), ERR_OK); /* the trigger sees it */
    s->ops->close(&s);
    pg_server_run(&f->server, c, "ALTER DATABASE postgres RESET synchronous_commit", NULL);
    pg_close_wait(&c);
}

static void others_harm(struct fixture *f,
                        void (*harm)(struct queue_store *s, struct pg_server *server, struct pg *c))
{
    struct queue_store *s = store_new(f);
    struct pg *c = pg_server_connect(&f->server);
    harm(s, &f->server, c);
    s->ops->close(&s);
    pg_close_wait(&c);
}

static void rows_beyond_their_limits_are_damage(void **state)
{
    others_harm(*state, pg_damage_rows);
}

static void a_damaged_body_is_told_alone(void **state)
{
    others_harm(*state, pg_bodies_harmed);
}

static void others_lock(struct fixture *f,
                        void (*lock)(struct queue_store *s, struct pg_server *server, struct pg *c,
                                     int64_t timeout_ms))
{
    f->timeout_ms = LOCKED_TIMEOUT_MS;
    struct queue_store *s = store_new(f);
    f->timeout_ms = WRITE_TIMEOUT_MS;
    struct pg *c = pg_server_connect(&f->server);
    lock(s, &f->server, c, LOCKED_TIMEOUT_MS);
    s->ops->close(&s);
    pg_close_wait(&c);
}

static void a_lock_of_another_session_is_no_unknown_outcome(void **state)
{
    others_lock(*state, pg_lock_alone);
}

static void writes_beside_a_locked_partition_are_written(void **state)
{
    others_lock(*state, pg_lock_beside);
}

static void a_first_connection_that_is_not_over_is_given_up_by_close(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    char url[64];
    (void)snprintf(url, sizeof(url), "postgresql://u@127.0.0.1:%u/q", ntohs(at.sin_port));
    struct clock *clock = sysclock_clock(f->sysclock);
    struct queue_pg_opts opts = { .name = "p",
                                  .url = url,
                                  .deployment = "test",
                                  .loop = f->loop,
                                  .clock = clock,
                                  .write_timeout_ms = WRITE_TIMEOUT_MS,
                                  .later = true };
    struct queue_store *s = NULL;
    struct err_note note = { .text = "" };
    mono began = clock_mono(clock);
    assert_int_equal(queue_pg_open(&opts, &s, &note), ERR_OK);
    int client = accept(listener, NULL, NULL);
    assert_true(client >= 0);
    assert_int_equal(queue_pg_opened(s, &note), ERR_AGAIN);
    s->ops->close(&s);
    assert_true(clock_mono(clock).ns - began.ns < WRITE_TIMEOUT_MS * NS_PER_MS);
    assert_int_equal(close(client), 0);
    assert_int_equal(close(listener), 0);
}

static void names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "postgresql://localhost/db",
        "postgresql://u:p@db.example:5432/x",
        "postgresql:///db",
        "http://127.0.0.1/",
        "postgresql://127.0.0.1,db.example/x",
        "",
        "postgresql://127.0.0.1/db?nonsense=1",
        "host=127.0.0.1",
        "postgresql://127.0.0.1.example/x",
    };
    static const char *const good[] = {
        "postgresql://127.0.0.1/db",          "postgres://u:p@10.0.0.1:5433/x?sslmode=disable",
        "postgresql://[::1]:5432/x",          "postgresql://127.0.0.1,127.0.0.2/x",
        "postgresql://%2Frun%2Fpostgresql/x",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = { .text = "" };
        assert_int_equal(pg_url_check(bad[i], &note), ERR_BAD);
        assert_true(note.text[0] != '\0');
    }
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(pg_url_check(good[i], NULL), ERR_OK);
}

int main(void)
{
    pg_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_refused),
        cmocka_unit_test(it_is_a_store),
        cmocka_unit_test(a_second_owner_waits_for_the_first_to_go),
        cmocka_unit_test(one_refused_write_harms_no_other),
        cmocka_unit_test(a_held_snapshot_makes_no_write_read_more),
        cmocka_unit_test(bodies_of_a_call_take_few_statements),
        cmocka_unit_test(a_heartbeat_counts_the_row_it_writes),
        cmocka_unit_test(a_heartbeat_takes_the_connection_of_writes),
        cmocka_unit_test(rows_that_a_write_needs_are_missed),
        cmocka_unit_test(a_right_that_is_missing_is_named),
        cmocka_unit_test(what_postgresql_says_is_one_clean_line),
        cmocka_unit_test(writes_are_synced_where_the_database_says_off),
        cmocka_unit_test(rows_beyond_their_limits_are_damage),
        cmocka_unit_test(a_damaged_body_is_told_alone),
        cmocka_unit_test(a_lock_of_another_session_is_no_unknown_outcome),
        cmocka_unit_test(writes_beside_a_locked_partition_are_written),
        cmocka_unit_test(a_killed_server_leaves_writes_whole),
        cmocka_unit_test(a_stopped_server_is_given_up_in_time),
        cmocka_unit_test(a_store_that_is_away_at_start_is_recovered),
        cmocka_unit_test(a_first_connection_that_is_not_over_is_given_up_by_close),
        cmocka_unit_test(a_database_of_another_deployment_is_refused),
        cmocka_unit_test(names_of_deployments_have_limits),
        cmocka_unit_test(who_waits_for_a_connection_waits_for_one_deadline),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
