/* Goal: servers that share a Redis make a missing value once, whoever asks wherever, and all get the same bytes;
 * whatever dies, is late, too large or too full costs what notes flights.md 2.6 allows and no more.
 * Method: four nodes, each with flights and connections of its own, on one loop and one real redis-server. A foreign
 * leader is played by running the scripts by hand. */
#include "base/buf.h"
#include "flight/flight.h"
#include "flight/share_scripts.h"
#include "flight/shared.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "redis_server.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES = 4, WAITERS_MAX = 400, WAIT_S = 120, KEY_BYTES = 64 };
/* Of tests that are about leases, and of all others: there a loop that stands for a while loses none. */
enum { LEASE_SHORT_MS = 1000, LEASE_MS = 60000 };

struct value {
    struct flight_value v;
    char version[80];
    bool refresh;
    size_t bytes_n;
    char *bytes;
};

/* How makers behave; under the world's lock. */
struct plan {
    err why;             /* ERR_OK: a value */
    size_t bytes;        /* of the value; 0: a short text */
    bool hold;           /* do not finish before let_go */
    bool keep_error;
    bool wants_none;     /* of what others made: makes its own */
};

struct world;
struct node {
    struct world *world;
    unsigned number;
    struct flight_shared *shared;
    struct flights *flights;
};
struct asked {
    struct flight_waiter waiter;
    struct world *world;
    err why;
    char note[ERR_NOTE_BYTES];
    struct flight_value *value;
};
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct loop *loop;
    struct sysclock *clock;
    int64_t lease_ms;
    struct redis_server server;
    struct redis *foreign;           /* the test's own connection */
    struct node nodes[NODES];
    struct plan plan;
    unsigned up, downs, made, held_count, done, replies, dropped, told;
    struct flight *held[WAITERS_MAX];
    char told_text[64], reply[4][128];
    bool posted, was_idle;
    struct asked asked[WAITERS_MAX];
    unsigned asked_count;
};

static void lock(struct world *w)
{
    assert_int_equal(pthread_mutex_lock(&w->lock), 0);
}

static void unlock(struct world *w)
{
    pthread_cond_broadcast(&w->changed);
    assert_int_equal(pthread_mutex_unlock(&w->lock), 0);
}

static void wait_for(struct world *w, const unsigned *counter, unsigned wanted)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    lock(w);
    bool fine = true;
    while (fine && *counter < wanted)
        fine = pthread_cond_timedwait(&w->changed, &w->lock, &until) == 0;
    unsigned have = *counter;
    unlock(w);
    if (!fine)
        fail_msg("%u of %u after %d s", have, wanted, WAIT_S);
}

static unsigned count_of(struct world *w, const unsigned *counter)
{
    lock(w);
    unsigned n = *counter;
    unlock(w);
    return n;
}

/* ---- values and makers ---- */

static void value_free(struct flight_value *v)
{
    struct value *value = CONTAINER_OF(v, struct value, v);
    free(value->bytes);
    free(value);
}

static struct flight_value *value_new(str bytes, str version)
{
    struct value *value = calloc(1, sizeof *value);
    *value = (struct value){ .v = { .refs = 1, .free = value_free }, .bytes_n = bytes.n };
    value->bytes = malloc(bytes.n + 1);
    memcpy(value->bytes, bytes.p, bytes.n);
    value->bytes[bytes.n] = 0;
    snprintf(value->version, sizeof value->version, "%.*s", STR_ARG(version));
    return &value->v;
}

static void finish(struct node *n, struct flight *f, unsigned number, struct plan plan)
{
    struct err_note note = { .text = "the plan says so" };
    if (plan.why != ERR_OK) {
        flight_finish(f, plan.why, NULL, plan.keep_error, &note);
        return;
    }
    char text[64];
    int length = snprintf(text, sizeof text, "made %u by node %u", number, n->number);
    char *large = plan.bytes > 0 ? malloc(plan.bytes) : NULL;
    if (large != NULL)
        memset(large, 'a' + (int)(number % 26), plan.bytes);
    str bytes = large != NULL ? (str){ .p = large, .n = plan.bytes } : (str){ .p = text, .n = (size_t)length };
    flight_finish(f, ERR_OK, value_new(bytes, flight_version(f)), false, NULL);
    free(large);
}

static void maker_start(struct flight *f, void *ctx)
{
    struct node *n = ctx;
    struct world *w = n->world;
    lock(w);
    unsigned number = ++w->made;
    struct plan plan = w->plan;
    if (plan.hold)
        w->held[w->held_count++] = f;
    unlock(w);
    if (!plan.hold)
        finish(n, f, number, plan);
}

static err maker_encode(const struct flight_value *v, struct buf *out, void *ctx)
{
    (void)ctx;
    const struct value *value = CONTAINER_OF((struct flight_value *)(uintptr_t)v, struct value, v);
    buf_put(out, (str){ .p = value->bytes, .n = value->bytes_n });
    return ERR_OK;
}

static void maker_accept(struct flight *f, const struct flight_arrival *a, void *ctx)
{
    struct node *n = ctx;
    lock(n->world);
    bool alone = n->world->plan.wants_none;
    unlock(n->world);
    if (alone) {
        flight_alone(f);
        maker_start(f, ctx);
        return;
    }
    struct flight_value *v = value_new(a->bytes, a->version);
    CONTAINER_OF(v, struct value, v)->refresh = a->refresh;
    flight_finish(f, ERR_OK, v, false, NULL);
}

static void waiter_done(struct flight_waiter *waiter, err why, struct flight_value *value, const struct err_note *note)
{
    struct asked *a = CONTAINER_OF(waiter, struct asked, waiter);
    lock(a->world);
    a->why = why;
    a->value = value != NULL ? flight_value_ref(value) : NULL;
    snprintf(a->note, sizeof a->note, "%s", note != NULL ? note->text : "");
    a->world->done++;
    unlock(a->world);
}

struct how { bool fresh, peek, not_alone; double early; int64_t fresh_ms, stale_ms; };
static const struct how plain = { .fresh_ms = 60000 };

static void ask(struct world *w, unsigned node, const char *key, struct how how)
{
    struct node *n = &w->nodes[node];
    struct flight_maker m = {
        .start = maker_start, .ctx = n, .keep_idle = true, .fresh = how.fresh, .travels = true,
        .share = { .fresh_ms = how.fresh_ms, .stale_ms = how.stale_ms, .early = how.early, .peek = how.peek,
                   .not_alone = how.not_alone, .encode = maker_encode, .accept = maker_accept },
    };
    str parts[] = { STR("test"), str_of(key) };
    flight_share_id(parts, COUNT_OF(parts), m.share.id);
    assert_true(w->asked_count < WAITERS_MAX);
    struct asked *a = &w->asked[w->asked_count++];
    *a = (struct asked){ .world = w, .waiter = { .done = waiter_done } };
    a->waiter.deadline = mono_add_ms(clock_mono(sysclock_clock(w->clock)), WAIT_S * 1000);
    assert_int_equal(flight_join(n->flights, str_of(key), &m, &a->waiter), ERR_OK);
}

static const struct value *value_of(const struct asked *a)
{
    assert_int_equal(a->why, ERR_OK);
    return CONTAINER_OF(a->value, struct value, v);
}

static void all_are(struct world *w, const char *text)
{
    for (unsigned i = 0; i < w->asked_count; i++)
        assert_string_equal(value_of(&w->asked[i])->bytes, text);
}

/* Forgets who asked so far. */
static void clear(struct world *w)
{
    wait_for(w, &w->done, w->asked_count);
    for (unsigned i = 0; i < w->asked_count; i++)
        if (w->asked[i].value != NULL)
            flight_value_unref(&w->asked[i].value);
    w->asked_count = w->done = 0;
}

static void let_go(struct world *w)
{
    for (unsigned i = 0; i < w->held_count; i++)
        finish(&w->nodes[0], w->held[i], i + 1, (struct plan){ .why = w->plan.why, .bytes = w->plan.bytes });
    lock(w);
    w->held_count = 0;
    unlock(w);
}

/* ---- the world ---- */

static void on_state(void *ctx, bool up, bool fresh)
{
    struct node *n = ctx;
    (void)fresh;
    lock(n->world);
    n->world->up += up;
    n->world->downs += !up;
    unlock(n->world);
}

static void on_foreign_state(void *ctx, bool up, str run_id)
{
    struct world *w = ctx;
    (void)run_id;
    lock(w);
    w->up += up;
    unlock(w);
}

static void on_dropped(void *ctx, const unsigned char *id)
{
    struct node *n = ctx;
    (void)id;
    lock(n->world);
    n->world->dropped++;
    unlock(n->world);
}

static void on_told(void *ctx, str text)
{
    struct node *n = ctx;
    lock(n->world);
    n->world->told++;
    snprintf(n->world->told_text, sizeof n->world->told_text, "%.*s", STR_ARG(text));
    unlock(n->world);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void node_begin(struct world *w, unsigned number)
{
    struct node *n = &w->nodes[number];
    char name[16];
    *n = (struct node){ .world = w, .number = number };
    snprintf(name, sizeof name, "node%u", number);
    struct flight_shared_opts s = { .loop = w->loop, .clock = sysclock_clock(w->clock), .node = name,
                                    .seed = number + 1, .lease_ms = w->lease_ms, .redis_timeout_ms = 10000,
                                    .error_base_ms = 60000, .error_max_ms = 60000,
                                    .address = { .host = "127.0.0.1", .port = w->server.port },
                                    .dropped = on_dropped, .told = on_told, .state = on_state, .ctx = n };
    n->shared = flight_shared_new(&s);
    struct flight_opts o = { .loop = w->loop, .clock = s.clock, .seed = number, .shared = n->shared,
                             .error_base_ms = 1, .error_max_ms = 1 };
    n->flights = flights_new(&o);
}

static void world_begin_leased(struct world *w, const char *const *extra, int64_t lease_ms)
{
    memset(w, 0, sizeof *w);
    w->lease_ms = lease_ms;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    redis_server_start(&w->server, 0, extra);
    w->loop = loop_new(2);
    w->clock = sysclock_new();
    for (unsigned i = 0; i < NODES; i++)
        node_begin(w, i);
    struct redis_opts f = { .loop = w->loop, .clock = sysclock_clock(w->clock), .timeout_ms = 10000,
                            .address = { .host = "127.0.0.1", .port = w->server.port },
                            .state = on_foreign_state, .ctx = w, .scripts_count = SHARE_SCRIPTS };
    memcpy(f.scripts, share_scripts, sizeof share_scripts);
    w->foreign = redis_new(&f);
    assert_int_equal(pthread_create(&w->thread, NULL, run_loop, w->loop), 0);
    wait_for(w, &w->up, NODES + 1);
}

static void world_begin(struct world *w, const char *const *extra)
{
    world_begin_leased(w, extra, LEASE_MS);
}

/* Again and again on the loop until all is idle, and a turn more. */
static void end_step(void *ctx)
{
    struct world *w = ctx;
    bool idle = true;
    for (unsigned i = 0; i < NODES; i++)
        idle = flights_idle(w->nodes[i].flights) && idle;
    if (!idle || !w->was_idle) {
        w->was_idle = idle;
        loop_post(w->loop, end_step, w);
        return;
    }
    for (unsigned i = 0; i < NODES; i++) {
        flights_free(&w->nodes[i].flights);
        flight_shared_stop(w->nodes[i].shared);
    }
    redis_stop(w->foreign);
    loop_stop(w->loop);
}

static void world_end(struct world *w)
{
    clear(w);
    for (unsigned i = 0; i < NODES; i++)
        flights_drain(w->nodes[i].flights);
    loop_post(w->loop, end_step, w);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    for (unsigned i = 0; i < NODES; i++)
        flight_shared_free(&w->nodes[i].shared);
    redis_free(&w->foreign);
    loop_free(&w->loop);
    sysclock_free(&w->clock);
    redis_server_end(&w->server);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

/* ---- the foreign leader ---- */

struct foreign_call { struct world *w; enum share_script script; const char *key; const char *const *args; };

static void on_reply(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct world *w = ctx;
    (void)note;
    lock(w);
    for (unsigned i = 0; i < COUNT_OF(w->reply); i++) {
        str part = why != ERR_OK ? STR("failed") : STR_NONE;
        if (why == ERR_OK && redis_type(reply) != REDIS_ARRAY && i == 0)
            snprintf(w->reply[0], sizeof w->reply[0], "%lld", (long long)redis_integer(reply));
        else if (why == ERR_OK && i < redis_count(reply))
            part = redis_text(redis_at(reply, i));
        if (why != ERR_OK || redis_type(reply) == REDIS_ARRAY)
            snprintf(w->reply[i], sizeof w->reply[i], "%.*s", STR_ARG(str_take(part, 100)));
    }
    w->replies++;
    unlock(w);
}

static void foreign_step(void *ctx)
{
    struct foreign_call *c = ctx;
    unsigned char id[FLIGHT_ID_BYTES];
    char key[64], text[2 * FLIGHT_ID_BYTES + 1];
    str parts[] = { STR("test"), str_of(c->key) }, args[16];
    flight_share_id(parts, COUNT_OF(parts), id);
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    snprintf(key, sizeof key, "pal:f:{%s}", text);
    unsigned count = 0;
    for (; c->args[count] != NULL; count++)
        args[count] = str_of(c->args[count]);
    assert_int_equal(redis_run(c->w->foreign, c->script, str_of(key), args, count, on_reply, c->w), ERR_OK);
}

static void foreign(struct world *w, enum share_script script, const char *key, const char *const *args)
{
    unsigned before = count_of(w, &w->replies);
    struct foreign_call c = { w, script, key, args };
    loop_post(w->loop, foreign_step, &c);
    wait_for(w, &w->replies, before + 1);
}
/* Arguments of JOIN behind its flags, and of PUT behind its jitter: what is believed. */
#define LIMITS "60000", "60000", "60000", "1048576"
#define FOREIGN(w, script, key, ...) foreign((w), (script), (key), (const char *const[]){ __VA_ARGS__, NULL })

static void foreign_leads(struct world *w, const char *key, char token[128])
{
    FOREIGN(w, SHARE_JOIN, key, "stranger", "300", "600", "30000", "0", "", "0", "0", LIMITS);
    assert_string_equal(w->reply[0], "GRANT");
    snprintf(token, 128, "%s", w->reply[1]);
}

/* Until a shared statistic of all nodes together reaches wanted. */
static uint64_t sum_of(struct world *w, size_t offset)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < NODES; i++) {
        struct flight_shared_stats s;
        flight_shared_stats_get(w->nodes[i].shared, &s);
        sum += *(const uint64_t *)(const void *)((const char *)&s + offset);
    }
    return sum;
}

struct sum_wait { struct world *w; size_t offset; uint64_t wanted; struct loop_timer *timer; };
static void sum_look(void *ctx)
{
    struct sum_wait *s = ctx;
    if (sum_of(s->w, s->offset) < s->wanted)
        return;
    loop_timer_free(&s->timer);
    lock(s->w);
    s->w->posted = true;
    unlock(s->w);
}

static void sum_begin(void *ctx)
{
    struct sum_wait *s = ctx;
    s->timer = loop_timer_new(s->w->loop, sum_look, s);
    loop_timer_start(s->timer, 1, 1);
}

static void wait_for_sum(struct world *w, size_t offset, uint64_t wanted)
{
    struct sum_wait s = { .w = w, .offset = offset, .wanted = wanted };
    w->posted = false;
    loop_post(w->loop, sum_begin, &s);
    lock(w);
    while (!w->posted)
        pthread_cond_wait(&w->changed, &w->lock);
    unlock(w);
}
#define WAIT_FOR_SUM(w, field, wanted) wait_for_sum((w), offsetof(struct flight_shared_stats, field), (wanted))

/* ---- tests ---- */

static void a_storm_over_four_servers_makes_one_value(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan.hold = true;
    for (unsigned i = 0; i < 200; i++)
        ask(&w, i % NODES, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1);
    let_go(&w);
    wait_for(&w, &w.done, 200);
    assert_int_equal(w.made, 1);
    all_are(&w, "made 1 by node 0");
    for (unsigned i = 1; i < w.asked_count; i++)
        assert_string_equal(value_of(&w.asked[i])->version, value_of(&w.asked[0])->version);
    clear(&w);
    for (unsigned i = 0; i < NODES; i++) /* late ones find it */
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    all_are(&w, "made 1 by node 0");
    assert_int_equal(w.made, 1);
    world_end(&w);
}

static void an_error_is_shared_and_remembered(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan = (struct plan){ .why = ERR_BAD, .keep_error = true, .hold = true };
    for (unsigned i = 0; i < 2 * NODES; i++)
        ask(&w, i % NODES, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1); /* the leader may hear of its grant last */
    lock(&w);
    struct flight *f = w.held[0];
    w.held_count = 0;
    unlock(&w);
    finish(&w.nodes[0], f, 1, w.plan);
    wait_for(&w, &w.done, 2 * NODES);
    for (unsigned i = 0; i < w.asked_count; i++) {
        assert_int_equal(w.asked[i].why, ERR_BAD);
        assert_string_equal(w.asked[i].note, "the plan says so");
    }
    clear(&w);
    ask(&w, 3, "key", plain);
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.asked[0].why, ERR_BAD);
    assert_int_equal(w.made, 1);
    world_end(&w);
}

static void a_dead_leader_is_succeeded_by_one(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    foreign_leads(&w, "key", token);
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, 1);
    WAIT_FOR_SUM(&w, takeovers, 1);
    FOREIGN(&w, SHARE_PUT, "key", token, "V", "late", "60000", "0", "1", "30000", "16384", "x", "1", "1", "1",
            "1048576");
    assert_string_equal(w.reply[0], "LOST"); /* and is told whose value stands */
    assert_string_equal(w.reply[1], value_of(&w.asked[0])->version);
    FOREIGN(&w, SHARE_RENEW, "key", token, "300", "30000");
    assert_string_equal(w.reply[0], "0");
    world_end(&w);
}

static void a_slow_leader_keeps_its_lease(void **state)
{
    (void)state;
    struct world w;
    world_begin_leased(&w, NULL, LEASE_SHORT_MS);
    w.plan.hold = true;
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.made, 1);
    ask(&w, 1, "key", plain);
    WAIT_FOR_SUM(&w, waits, 5); /* its timer ran out four times and found the lease renewed */
    let_go(&w);
    wait_for(&w, &w.done, 2);
    assert_int_equal(w.made, 1);
    all_are(&w, "made 1 by node 0");
    world_end(&w);
}

static void what_a_drop_overtook_is_made_again(void **state)
{
    (void)state;
    struct world w;
    unsigned char id[FLIGHT_ID_BYTES];
    str parts[] = { STR("test"), STR("key") };
    world_begin(&w, NULL);
    w.plan.hold = true;
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.made, 1);
    flight_share_id(parts, COUNT_OF(parts), id);
    flight_shared_drop(w.nodes[1].shared, id, NULL, NULL);
    wait_for(&w, &w.dropped, NODES);
    w.plan.hold = false;
    let_go(&w);
    wait_for(&w, &w.done, 1);
    assert_string_equal(value_of(&w.asked[0])->bytes, "made 2 by node 0");
    world_end(&w);
}

static void long_values_are_fetched_and_too_long_ones_made_by_each(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan = (struct plan){ .hold = true, .bytes = 100 << 10 };
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "long", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1);
    let_go(&w);
    wait_for(&w, &w.done, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(value_of(&w.asked[i])->bytes_n, 100 << 10);
    assert_int_equal(w.made, 1);
    clear(&w);
    w.plan = (struct plan){ .bytes = 2 << 20 };
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "too long", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, 1 + NODES);
    world_end(&w);
}

static void without_redis_each_server_works_alone(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    redis_server_signal(&w.server, SIGKILL);
    wait_for(&w, &w.downs, NODES);
    for (unsigned i = 0; i < 2 * NODES; i++)
        ask(&w, i % NODES, "key", plain);
    wait_for(&w, &w.done, 2 * NODES);
    assert_true(w.made <= 2 * NODES);
    for (unsigned i = 0; i < w.asked_count; i++)
        assert_int_equal(w.asked[i].waiter.detail, FLIGHT_DEGRADED);
    clear(&w);
    struct how refuses = { .fresh_ms = 1000, .not_alone = true };
    unsigned made = w.made;
    ask(&w, 0, "other", refuses);
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.asked[0].why, ERR_AGAIN);
    assert_int_equal(w.made, made);
    world_end(&w);
}

static void waiters_go_on_alone_when_redis_dies(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    foreign_leads(&w, "key", token);
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES);
    redis_server_signal(&w.server, SIGKILL);
    wait_for(&w, &w.done, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(w.asked[i].why, ERR_OK);
    world_end(&w);
}

static void a_full_redis_refuses_whole_and_costs_only_sharing(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, (const char *const[]){ "--maxmemory", "1", "--maxmemory-policy", "noeviction", NULL });
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(w.asked[i].waiter.detail, FLIGHT_DEGRADED);
    world_end(&w);
}

static void no_cache_joins_only_what_begins_later(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.done, 1);
    clear(&w);
    struct how again = { .fresh_ms = 60000, .fresh = true };
    ask(&w, 1, "key", again);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    clear(&w);
    ask(&w, 2, "key", plain);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    world_end(&w);
}

static void a_stale_value_is_answered_and_asks_for_its_refresh(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    struct how brief = { .fresh_ms = 1, .stale_ms = 60000 };
    struct how looks = { .fresh_ms = 60000, .stale_ms = 60000, .peek = true };
    ask(&w, 0, "key", brief);
    wait_for(&w, &w.done, 1);
    clear(&w);
    do { /* fresh for a millisecond */
        clear(&w);
        ask(&w, 1, "key", looks);
        wait_for(&w, &w.done, 1);
    } while (!value_of(&w.asked[0])->refresh);
    all_are(&w, "made 1 by node 0");
    clear(&w);
    ask(&w, 1, "key", (struct how){ .fresh_ms = 60000, .stale_ms = 60000 }); /* the refresh itself */
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    clear(&w);
    ask(&w, 2, "key", looks);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    assert_false(value_of(&w.asked[0])->refresh);
    world_end(&w);
}

static void what_came_and_is_of_no_use_is_made_here_and_counted_so(void **state)
{
    (void)state;
    struct world w;
    struct flight_stats made;
    world_begin(&w, NULL);
    ask(&w, 0, "k", plain);
    clear(&w);
    w.plan.wants_none = true;
    ask(&w, 1, "k", plain);
    wait_for(&w, &w.done, 1);
    assert_string_equal(value_of(&w.asked[0])->bytes, "made 2 by node 1");
    assert_string_equal(value_of(&w.asked[0])->version, "");
    assert_int_equal(w.asked[0].waiter.detail, FLIGHT_DEGRADED);
    flights_stats_get(w.nodes[1].flights, &made);
    assert_int_equal(made.made, 1);
    clear(&w);
    w.plan.wants_none = false;
    ask(&w, 2, "k", plain);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 1 by node 0"); /* it stands */
    world_end(&w);
}

static void all_are_told(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    flight_shared_tell(w.nodes[2].shared, STR("purge it"));
    wait_for(&w, &w.told, NODES);
    assert_string_equal(w.told_text, "purge it");
    world_end(&w);
}

/* 1: it was taken, 0: it was not. */
static void offer_is(struct world *w, const char *version, const char *taken)
{
    FOREIGN(w, SHARE_OFFER, "key", version, "60000", "60000", "5", "V", version, "30000");
    assert_string_equal(w->reply[0], taken);
}

static void what_is_given_back_is_taken_for_nothing_and_for_what_is_older(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    FOREIGN(&w, SHARE_JOIN, "key", "stranger", "300", "600", "30000", "0", "", "0", "1", LIMITS);
    assert_string_equal(w.reply[0], "GONE"); /* and no lease was given */
    offer_is(&w, "1000.a", "1");
    offer_is(&w, "1000.a", "0");
    offer_is(&w, "999.b", "0");
    offer_is(&w, "1001.b", "1");
    FOREIGN(&w, SHARE_JOIN, "key", "stranger", "300", "600", "30000", "0", "", "0", "1", LIMITS);
    assert_string_equal(w.reply[0], "HIT");
    assert_string_equal(w.reply[1], "1001.b");
    FOREIGN(&w, SHARE_DROP, "key", "x", "30000");
    offer_is(&w, "1002.c", "0"); /* it was made before the drop */
    foreign_leads(&w, "key", token);
    offer_is(&w, "1002.c", "0"); /* somebody makes it anew */
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_over_four_servers_makes_one_value),
        cmocka_unit_test(an_error_is_shared_and_remembered),
        cmocka_unit_test(a_dead_leader_is_succeeded_by_one),
        cmocka_unit_test(a_slow_leader_keeps_its_lease),
        cmocka_unit_test(what_a_drop_overtook_is_made_again),
        cmocka_unit_test(long_values_are_fetched_and_too_long_ones_made_by_each),
        cmocka_unit_test(without_redis_each_server_works_alone),
        cmocka_unit_test(waiters_go_on_alone_when_redis_dies),
        cmocka_unit_test(a_full_redis_refuses_whole_and_costs_only_sharing),
        cmocka_unit_test(no_cache_joins_only_what_begins_later),
        cmocka_unit_test(a_stale_value_is_answered_and_asks_for_its_refresh),
        cmocka_unit_test(what_came_and_is_of_no_use_is_made_here_and_counted_so),
        cmocka_unit_test(all_are_told),
        cmocka_unit_test(what_is_given_back_is_taken_for_nothing_and_for_what_is_older),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
