/* Goal: whatever nodes, connections and callers do at the same time, each request ends once, what
 * was not answered is no success, and what may not run twice never does. A client can be stopped in
 * each of its states.
 * Method: threads start requests of all kinds while the main thread breaks nodes by chance; a
 * ledger of what came to the nodes is held against what the callers were told. The seed is printed,
 * and taken from CQL_SEED. */
#include "rig.h"

#include "../cmocka_all.h"
#include "base/rng.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WRITE, READ, COUNT, KINDS };
enum { NODES = 3, THREADS = 3, SLOTS = 24, IDS = 1 << 17, STORM_MS = 4000 };

static const struct rig_opts usual = {
    .nodes = { .nodes = NODES, .one_port = true },
    .client = { .retry_min_ms = 5,
                .retry_max_ms = 50,
                .connect_timeout_ms = 500,
                .inflight_max = 12,
                .orphans_max = 40,
                .waiting_max = 8,
                .heartbeat_ms = 200,
                .answer_timeout_ms = 200,
                .refresh_ms = 500,
                .speculate_min_ms = 2 },
    .statements = {
        [WRITE] = { .name = "write",
                    .text = "INSERT INTO ks.t (v, k) VALUES (?, ?)",
                    .idempotent = true },
        [READ] = { .name = "read",
                   .text = "SELECT v FROM ks.t WHERE a = ? AND k = ?",
                   .idempotent = true },
        [COUNT] = { .name = "count", .text = "UPDATE ks.c SET n = n + ? WHERE k = ?" },
    },
};
static const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };

struct told { /* of one request */
    unsigned char kind, ends;
    bool fine, unknown, never_sent;
    unsigned char came;
};
struct slot {
    struct ask ask;
    struct cql_part parts[2];
    int64_t id; /* 0: none yet */
};
struct storm {
    struct rig rig;
    struct told *told; /* by id */
    int64_t ids;       /* made so far; under the lock */
    pthread_mutex_t lock;
    bool over;          /* under the lock: nobody starts any more */
    unsigned shutdowns; /* under the lock */
    uint64_t seed;
};
struct starter {
    struct storm *storm;
    struct rng rng;
    struct slot slots[SLOTS];
    pthread_t thread;
};

static int64_t id_new(struct storm *s, unsigned kind)
{
    int64_t id = s->ids + 1 < IDS ? ++s->ids : 0;
    s->told[id].kind = (unsigned char)kind;
    return id;
}

static void slot_init(struct starter *t, struct slot *l)
{
    struct storm *s = t->storm;
    struct rng *rng = &t->rng;
    unsigned kind = (unsigned)rng_below(rng, KINDS);
    struct cql_request *q = &l->ask.request;
    ask_init(&l->ask, &s->rig, kind);
    l->id = id_new(s, kind);
    cql_put_i64(&l->ask.values, 1);
    cql_put_i64(&l->ask.values, l->id);
    if (kind == COUNT)
        q->params.timestamp_us = CQL_NO_TIMESTAMP;
    if (kind == WRITE && rng_below(rng, 3) == 0) {
        l->parts[0] = l->parts[1] = l->ask.part;
        q->way = CQL_WAY_BATCH;
        q->parts = l->parts;
        q->parts_count = 2;
    }
    q->speculative = kind == READ && rng_below(rng, 2) == 0;
    q->class = rng_below(rng, 3) == 0 ? CQL_BACKGROUND : CQL_FOREGROUND;
    q->home = rng_below(rng, 2) == 0 ? loop_pool(s->rig.loop) : NULL;
    int64_t ms = rng_below(rng, 50) == 0 ? -1 : 20 + (int64_t)rng_below(rng, 600);
    q->deadline = mono_add_ms(clock_mono(s->rig.clock), ms);
}

/* Until another request is over, or a little later: with no node up all are refused at once. */
static void others_have_a_turn(struct starter *t)
{
    struct rig *r = &t->storm->rig;
    struct timespec until;
    INVARIANT(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_nsec += 2000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    (void)pthread_cond_timedwait(&r->turned, &r->lock, &until); /* whichever comes first */
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

static void slot_end(struct starter *t, struct slot *l)
{
    const struct cql_outcome *out = &l->ask.request.out;
    ask_wait(&l->ask);
    struct told *told = &t->storm->told[l->id];
    INVARIANT(l->ask.told == 1);
    INVARIANT(out->why == ERR_OK || out->note.text[0] != '\0');
    told->ends++;
    told->fine = out->why == ERR_OK;
    told->unknown = out->unknown;
    told->never_sent = out->sent == 0;
    if (out->why == ERR_SHUTDOWN) {
        INVARIANT(pthread_mutex_lock(&t->storm->lock) == 0);
        t->storm->shutdowns++;
        INVARIANT(pthread_mutex_unlock(&t->storm->lock) == 0);
    }
    if (out->sent == 0)
        others_have_a_turn(t);
    ask_fini(&l->ask);
    l->id = 0;
}

static void slot_cancel(struct starter *t, struct slot *l)
{
    struct rig *r = &t->storm->rig;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    if (!l->ask.over)
        cql_cancel(&l->ask.request);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

/* False: nothing is started any more. */
static bool slot_start(struct starter *t, struct slot *l)
{
    struct storm *s = t->storm;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool goes = !s->over && s->ids + 1 < IDS;
    if (goes) {
        slot_init(t, l);
        ask_start(&l->ask);
    }
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return goes;
}

static void *starter_run(void *ctx)
{
    struct starter *t = ctx;
    bool goes = true;
    while (goes)
        for (unsigned i = 0; goes && i < SLOTS; i++) {
            struct slot *l = &t->slots[i];
            if (l->id != 0)
                slot_end(t, l);
            goes = slot_start(t, l);
            if (goes && rng_below(&t->rng, 8) == 0)
                slot_cancel(t, &t->slots[rng_below(&t->rng, i + 1)]);
        }
    for (unsigned i = 0; i < SLOTS; i++)
        if (t->slots[i].id != 0)
            slot_end(t, &t->slots[i]);
    return NULL;
}

/* ---- chance ---- */

static void rule_by_chance(struct node_cluster *c, struct rng *rng)
{
    /* None that brings an answer to another request, which no client can tell. */
    static const enum node_fault faults[] = {
        NODE_CUT_BEFORE, NODE_CUT_MIDDLE, NODE_CUT_AFTER,    NODE_BODY_SHORT,  NODE_BODY_LONG,
        NODE_OPCODE,     NODE_VERSION,    NODE_SEGMENT_HEAD, NODE_SEGMENT_DATA
    };
    static const int32_t codes[] = { CQL_OVERLOADED, CQL_SERVER_ERROR, CQL_WRITE_TIMEOUT,
                                     CQL_WRITE_FAILURE, CQL_READ_TIMEOUT };
    struct node_match m = { .times = 1 + (unsigned)rng_below(rng, 6),
                            .skip = (unsigned)rng_below(rng, 10) };
    struct node_action a = { .reset = rng_below(rng, 2) == 0 };
    switch (rng_below(rng, 5)) {
    case 0:
        a.fault = faults[rng_below(rng, COUNT_OF(faults))];
        break;
    case 1:
        a.act = NODE_ERROR;
        a.error = (struct cql_failure){ .code = codes[rng_below(rng, COUNT_OF(codes))],
                                        .required = 2,
                                        .alive_or_received = 2 };
        m.ops = BIT(CQL_OP_EXECUTE) | BIT(CQL_OP_PREPARE) | BIT(CQL_OP_BATCH);
        break;
    case 2:
        a.act = NODE_SWALLOW;
        m.ops = BIT(CQL_OP_EXECUTE) | BIT(CQL_OP_BATCH);
        break;
    case 3:
        a.delay_ms = 1 + (unsigned)rng_below(rng, 300);
        break;
    default:
        a.act = NODE_FORGETS;
        m.text = "SELECT"; /* what is refused by it would count as having come */
        break;
    }
    (void)node_say(c, (int)rng_below(rng, NODES), &m, &a);
}

static void break_something(struct node_cluster *c, struct rng *rng, bool *down, bool *frozen)
{
    unsigned n = (unsigned)rng_below(rng, NODES);
    switch (down[n] ? 0 : frozen[n] ? 1 : rng_below(rng, 10)) {
    case 0:
        if (down[n])
            node_up(c, n);
        else
            node_down(c, n);
        down[n] = !down[n];
        break;
    case 1:
        if (frozen[n])
            node_thaw(c, n);
        else
            node_freeze(c, n);
        frozen[n] = !frozen[n];
        break;
    case 2:
        node_cut(c, (int)n, 0, rng_below(rng, 2) == 0);
        break;
    case 3:
        node_forget(c, (int)n);
        break;
    default:
        rule_by_chance(c, rng);
        break;
    }
}

/* ---- the ledger ---- */

static void ledger_check(struct storm *s)
{
    static const struct node_match counts = { .ops = BIT(CQL_OP_EXECUTE), .text = "UPDATE" };
    struct node_request got;
    unsigned fine = 0, refused = 0;
    for (unsigned i = 0; node_request(s->rig.nodes, NODE_ANY, &counts, i, &got); i++) {
        str key = node_value(&got, 1);
        assert_int_equal(key.n, 8);
        int64_t id = (int64_t)get_be64(key.p);
        assert_true(id > 0 && id <= s->ids);
        s->told[id].came++;
    }
    for (int64_t id = 1; id <= s->ids; id++) {
        const struct told *t = &s->told[id];
        fine += t->fine;
        assert_int_equal(t->ends, 1);
        assert_false(t->fine && t->unknown);
        assert_false(t->never_sent && t->unknown);
        if (t->kind != COUNT)
            continue;
        assert_true(t->came <= 1); /* never twice */
        assert_true(!t->fine || t->came == 1);
        assert_true(t->fine || t->unknown || t->came == 0); /* what came may have happened */
        refused += t->came == 0;
    }
    print_message("%lld requests, %u of them fine, %u counts never came\n", (long long)s->ids, fine,
                  refused);
    assert_true(fine > 0);
}

static bool all_are_up(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), up = 0;
    for (unsigned i = 0; i < count; i++)
        up += nodes[i].up;
    return up == NODES;
}

static void storm_begin(struct storm *s, const struct rig_opts *o, struct starter *starters)
{
    const char *seed = getenv("CQL_SEED");
    *s = (struct storm){ .seed = (uint64_t)time(NULL) };
    if (seed != NULL)
        assert_true(str_to_u64(str_of(seed), &s->seed));
    print_message("CQL_SEED=%llu\n", (unsigned long long)s->seed);
    s->told = calloc(IDS, sizeof *s->told);
    assert_non_null(s->told);
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    rig_start(&s->rig, o);
    rig_until(&s->rig, all_are_up, NULL, "all nodes are up");
    for (unsigned i = 0; i < THREADS; i++) {
        starters[i] = (struct starter){ .storm = s };
        rng_init(&starters[i].rng, s->seed + 1 + i);
        assert_int_equal(pthread_create(&starters[i].thread, NULL, starter_run, &starters[i]), 0);
    }
}

static void storm_over(struct storm *s, struct starter *starters)
{
    assert_int_equal(pthread_mutex_lock(&s->lock), 0);
    s->over = true;
    assert_int_equal(pthread_mutex_unlock(&s->lock), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(starters[i].thread, NULL), 0);
}

static void storm_free(struct storm *s)
{
    free(s->told);
    assert_int_equal(pthread_mutex_destroy(&s->lock), 0);
}

static void storm_with(unsigned version, bool lz4)
{
    static struct starter starters[THREADS];
    static struct storm s;
    struct rig_opts o = usual;
    o.nodes.version_max = version;
    o.client.lz4 = lz4;
    storm_begin(&s, &o, starters);
    struct rng rng;
    rng_init(&rng, s.seed);
    bool down[NODES] = { false }, frozen[NODES] = { false };
    mono end = mono_add_ms(clock_mono(s.rig.clock), STORM_MS);
    while (clock_mono(s.rig.clock).ns < end.ns) {
        break_something(s.rig.nodes, &rng, down, frozen);
        unsigned came = node_requests(s.rig.nodes, NODE_ANY, NULL);
        (void)node_wait(s.rig.nodes, NODE_ANY, NULL, came + 1 + (unsigned)rng_below(&rng, 100), 50);
    }
    storm_over(&s, starters);
    node_unsay(s.rig.nodes, 0);
    for (unsigned n = 0; n < NODES; n++) {
        if (frozen[n])
            node_thaw(s.rig.nodes, n);
        if (down[n])
            node_up(s.rig.nodes, n);
    }
    ledger_check(&s);
    rig_until(&s.rig, all_are_up, NULL, "all nodes are up again");
    struct cql_stats stats = rig_stats(&s.rig);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.waiting, 0);
    struct ask a;
    ask_init(&a, &s.rig, READ);
    cql_put_i64(&a.values, 1);
    cql_put_i64(&a.values, 1);
    assert_int_equal(ask_run(&a), ERR_OK);
    ask_fini(&a);
    rig_end(&s.rig);
    storm_free(&s);
}

static void a_storm_leaves_a_clean_ledger(void **state)
{
    (void)state;
    storm_with(5, true);
    storm_with(4, false);
}

/* ---- stopping ---- */

static bool some_were_refused(struct rig *r, void *ctx)
{
    struct storm *s = ctx;
    (void)r;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool some = s->shutdowns > 0;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return some;
}

static void threads_may_start_while_it_stops(void **state)
{
    (void)state;
    static struct starter starters[THREADS];
    static struct storm s;
    storm_begin(&s, &usual, starters);
    const struct node_match only = { .ops = BIT(CQL_OP_QUERY), .text = "held" };
    unsigned rule = node_say(s.rig.nodes, NODE_ANY, &only, &(struct node_action){ .held = true });
    struct ask a;
    ask_init(&a, &s.rig, READ); /* while it is under way the client cannot have stopped */
    a.request.way = CQL_WAY_TEXT;
    a.request.text = STR("SELECT held FROM ks.t");
    a.request.deadline = mono_add_ms(clock_mono(s.rig.clock), RIG_WAIT_MS);
    ask_start(&a);
    assert_true(node_wait(s.rig.nodes, NODE_ANY, &only, 1, RIG_WAIT_MS));
    assert_true(node_wait(s.rig.nodes, NODE_ANY, &executes, 500, RIG_WAIT_MS));
    rig_stop(&s.rig, RIG_WAIT_MS);
    struct ask late;
    ask_init(&late, &s.rig, COUNT);
    assert_int_equal(ask_run(&late), ERR_SHUTDOWN);
    ask_fini(&late);
    rig_until(&s.rig, some_were_refused, &s, "a thread is refused too");
    storm_over(&s, starters);
    node_unsay(s.rig.nodes, rule);
    assert_int_equal(node_release(s.rig.nodes, rule), 1);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    ask_fini(&a);
    ledger_check(&s);
    rig_free(&s.rig);
    storm_free(&s);
}

struct held_home { /* keeps what is posted to it */
    struct home home;
    struct task *task; /* under the rig's lock, as posted is waited for */
    struct rig *rig;
};

static void held_post(struct home *h, struct task *t)
{
    struct held_home *held = CONTAINER_OF(h, struct held_home, home);
    INVARIANT(pthread_mutex_lock(&held->rig->lock) == 0);
    held->task = t;
    INVARIANT(pthread_mutex_unlock(&held->rig->lock) == 0);
}

static bool was_posted(struct rig *r, void *ctx)
{
    struct held_home *held = ctx;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    bool posted = held->task != NULL;
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
    return posted;
}

/* Who waits for done may cancel until then: the client is there as long. */
static void it_has_not_stopped_before_done_was_run(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    rig_start(&r, &usual);
    struct held_home held = { .home = { .post = held_post }, .rig = &r };
    ask_init(&a, &r, READ);
    cql_put_i64(&a.values, 1);
    cql_put_i64(&a.values, 1);
    a.request.home = &held.home;
    ask_start(&a);
    rig_until(&r, was_posted, &held, "it is answered");
    rig_stop(&r, 0);
    mono end = mono_add_ms(clock_mono(r.clock), 300);
    while (clock_mono(r.clock).ns < end.ns) { /* some ticks */
        INVARIANT(pthread_mutex_lock(&r.lock) == 0);
        bool stopped = r.stopped;
        INVARIANT(pthread_mutex_unlock(&r.lock) == 0);
        assert_false(stopped);
    }
    cql_cancel(&a.request);
    held.task->run(held.task);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    ask_fini(&a);
    rig_free(&r);
}

static void a_client_may_stop_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct rig r;
        struct rig_opts o = usual;
        o.not_ready = i < 9; /* the others are ready, and read the cluster */
        rig_start(&r, &o);
        if (i % 3 == 1)
            node_freeze(r.nodes, 0);
        if (i % 3 == 2)
            node_cut(r.nodes, NODE_ANY, 0, true);
        rig_end_in(&r, 0);
    }
}

struct stopped_with {
    unsigned ops;  /* that are not answered */
    unsigned asks; /* under way */
    bool sent;     /* all of them */
    bool unknown;
};

static void stop_with(const struct stopped_with *w, bool down)
{
    struct rig r;
    struct rig_opts o = usual;
    o.client.inflight_max = w->sent ? 1000 : 12;
    o.client.waiting_max = 1000;
    o.client.answer_timeout_ms = 20000;
    rig_start(&r, &o);
    rig_until(&r, all_are_up, NULL, "all nodes are up");
    const struct node_match m = { .ops = w->ops };
    (void)node_say(r.nodes, NODE_ANY, &m, &(struct node_action){ .act = NODE_SWALLOW });
    struct ask *asks = calloc(w->asks, sizeof *asks);
    assert_non_null(asks);
    for (unsigned i = 0; i < w->asks; i++) {
        ask_init(&asks[i], &r, WRITE);
        cql_put_i64(&asks[i].values, 1);
        cql_put_i64(&asks[i].values, i);
        asks[i].request.deadline = mono_add_ms(clock_mono(r.clock), RIG_WAIT_MS);
        ask_start(&asks[i]);
    }
    assert_true(node_wait(r.nodes, NODE_ANY, &m, w->sent ? w->asks : 1, RIG_WAIT_MS));
    for (unsigned n = 0; down && n < NODES; n++)
        node_down(r.nodes, n);
    rig_stop(&r, 50);
    for (unsigned i = 0; i < w->asks; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].told, 1);
        const struct cql_outcome *out = &asks[i].request.out;
        assert_true(out->why == ERR_SHUTDOWN || down);
        assert_true(out->why != ERR_OK);
        assert_int_equal(out->unknown, out->sent > 0);
        assert_true(out->unknown || !w->unknown);
        ask_fini(&asks[i]);
    }
    free(asks);
    rig_free(&r);
}

static void a_client_may_stop_in_each_state(void **state)
{
    (void)state;
    static const struct stopped_with states[] = {
        { .ops = BIT(CQL_OP_PREPARE), .asks = 50 },
        { .ops = BIT(CQL_OP_EXECUTE), .asks = 1000, .sent = true, .unknown = true },
        { .ops = BIT(CQL_OP_EXECUTE), .asks = 300 },
    };
    for (unsigned i = 0; i < COUNT_OF(states); i++) {
        stop_with(&states[i], false);
        stop_with(&states[i], true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_leaves_a_clean_ledger),
        cmocka_unit_test(threads_may_start_while_it_stops),
        cmocka_unit_test(it_has_not_stopped_before_done_was_run),
        cmocka_unit_test(a_client_may_stop_at_once),
        cmocka_unit_test(a_client_may_stop_in_each_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
