/* Goal: whatever order JOINs, answers, pushes, timers and ends come in, and whatever is lost on the
 * way, a node's part in a flight across servers (share_core.h) holds S1-S8 and L1, L2 of
 * docs/flights.md, 7. Method: nodes with the machine under test, a record that runs the transitions
 * of the scripts (record.h), a clock of our own, and schedules drawn from a seed: in each step
 * something is delivered, runs out, dies, is lost or ends early. What must hold is asserted in each
 * step; then faults cease and everybody who lives has to get an answer. The seed is in what a
 * failure says; SHARE_SEED runs that one alone, SHARE_RUNS so many. */
#include "base/rng.h"
#include "base/str.h"
#include "flight/share_core.h"
#include "record.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, QUEUE_MAX = 64, STEPS = 400, CALLS_MAX = 120, SETTLE_MS = 200000, RUNS = 3000 };
enum { LEASE_MS = 300, JITTER_MS = 20, GEN_MS = 3000, FRESH_MS = 800, STALE_MS = 500 };

enum op { OP_JOIN, OP_PUT, OP_RENEW, OP_ABORT };
struct message { /* to the record, or its answer */
    enum op op;
    uint64_t epoch; /* losses of the record so far, when it was done */
    unsigned call;
    uint64_t token, bytes;
    bool is_error, failed;
    struct joined joined;
    struct put put;
};
struct queue {
    struct message m[QUEUE_MAX];
    unsigned first, count;
};

struct call {
    bool exists, over;
    struct share_machine machine;
    uint64_t token, bytes, kept_fence;
    int64_t timer, renewal, made_at; /* 0: not set */
    bool is_error, has_kept;
    struct record_push kept;
    unsigned answers, degraded, commands;
};
/* A process; when it dies another takes its place, under a new name. */
struct place {
    unsigned name, call; /* call: index into calls; CALLS_MAX: none */
    struct queue out, in;
    struct record_push pushed[QUEUE_MAX];
    unsigned pushed_count;
    bool stopped; /* SIGSTOP: nothing of it runs, the world goes on */
    uint64_t seen,
        epoch; /* newest version it was given, and how often the record had been lost by then */
};
struct world {
    struct record record;
    struct rng rng;
    struct place places[PLACES];
    struct call calls[CALLS_MAX];
    unsigned calls_count, names, faults, alone, crashes, pushes_lost, outages;
    bool down, calm;
    int64_t now;
    uint64_t bytes;         /* names of what is made */
    uint64_t made_of[1024]; /* bytes of the version at that place of versions */
    uint64_t versions[1024];
    unsigned versions_count;
};

static uint64_t below(struct world *w, uint64_t bound)
{
    return rng_below(&w->rng, bound);
}

static bool one_in(struct world *w, uint64_t n)
{
    return below(w, n) == 0;
}

static void must(const struct world *w, bool holds, const char *what)
{
    if (!holds)
        fail_msg("seed %llu, step %llu: %s", (unsigned long long)w->record.opts.seed,
                 (unsigned long long)w->record.step, what);
}

static void push_message(struct world *w, struct queue *q, const struct message *m)
{
    must(w, q->count < QUEUE_MAX, "S5: more commands of one node than it may have");
    q->m[(q->first + q->count++) % QUEUE_MAX] = *m;
}

static struct message pop_message(struct queue *q)
{
    struct message m = q->m[q->first % QUEUE_MAX];
    q->first++;
    q->count--;
    return m;
}

/* ---- what a call is told and does ---- */

static void act(struct world *w, struct place *p, unsigned actions);

static void answer(struct world *w, struct call *c, bool degraded)
{
    must(w, ++c->answers == 1, "S4: answered twice");
    c->degraded = degraded;
    c->over = true;
}

/* Equal versions are equal bytes; a node never goes back. */
static void answer_theirs(struct world *w, struct place *p, uint64_t version, uint64_t bytes,
                          uint64_t epoch)
{
    unsigned i = 0;
    while (i < w->versions_count && w->versions[i] != version)
        i++;
    if (i == w->versions_count && i < COUNT_OF(w->versions)) {
        w->versions[i] = version;
        w->made_of[i] = bytes;
        w->versions_count++;
    }
    must(w, i >= w->versions_count || w->made_of[i] == bytes, "S1: two values of one version");
    must(w, epoch != p->epoch || version >= p->seen,
         "S7: a node was given an older version than before");
    if (epoch >= p->epoch) {
        p->seen = version;
        p->epoch = epoch;
    }
    answer(w, &w->calls[p->call], false);
}

static void send(struct world *w, struct place *p, struct message m)
{
    struct call *c = &w->calls[p->call];
    m.call = p->call;
    c->commands++;
    must(w, c->commands <= 32, "S5: one call has too many commands under way");
    if (w->down)
        m.failed = true;
    push_message(w, w->down ? &p->in : &p->out, &m);
}

static void make(struct world *w, struct call *c)
{
    c->made_at = w->now + 1 + (int64_t)below(w, one_in(w, 4) ? 4 * LEASE_MS : LEASE_MS / 2);
    c->bytes = ++w->bytes;
    c->is_error = !w->calm && one_in(w, 6);
    c->renewal = c->machine.state == SHARE_LEADING ? w->now + LEASE_MS / 3 : 0;
    w->alone += c->machine.state == SHARE_ALONE;
}

static void act(struct world *w, struct place *p, unsigned actions)
{
    struct call *c = &w->calls[p->call];
    if ((actions & (SHARE_DO_JOIN | SHARE_DO_PUT)) != 0)
        c->timer = c->renewal = 0;
    if ((actions & SHARE_DO_ABORT) != 0)
        send(w, p, (struct message){ .op = OP_ABORT, .token = c->token });
    if ((actions & SHARE_DO_JOIN) != 0) {
        c->has_kept = false;
        send(w, p, (struct message){ .op = OP_JOIN });
    }
    if ((actions & SHARE_DO_PUT) != 0)
        send(w, p,
             (struct message){
                 .op = OP_PUT, .token = c->token, .bytes = c->bytes, .is_error = c->is_error });
    if ((actions & SHARE_DO_MAKE) != 0)
        make(w, c);
    if ((actions & SHARE_DO_CANCEL) != 0)
        c->renewal = 0;
    if ((actions & (SHARE_ANSWER_OURS | SHARE_ANSWER_STOPPED)) != 0)
        answer(w, c, (actions & SHARE_MARK_DEGRADED) != 0);
    must(w, (actions & SHARE_ANSWER_THEIRS) == 0, "told to answer with what did not come");
}

static void step(struct world *w, struct place *p, enum share_event e)
{
    act(w, p, share_step(&w->calls[p->call].machine, e));
}

/* What came for a call; the machine says whether it is wanted. */
struct news {
    enum share_event event;
    uint64_t version, bytes, epoch;
};

static void deliver(struct world *w, struct place *p, struct news n)
{
    struct call *c = &w->calls[p->call];
    unsigned actions = share_step(&c->machine, n.event);
    if ((actions & SHARE_ANSWER_THEIRS) == 0)
        act(w, p, actions);
    else if (n.event == SHARE_GOT_ERROR)
        answer(w, c, false);
    else
        answer_theirs(w, p, n.version, n.bytes, n.epoch);
}

static void deliver_push(struct world *w, struct place *p, const struct record_push *n)
{
    static const enum share_event events[] = { [PUSH_VALUE] = SHARE_GOT_VALUE,
                                               [PUSH_ERROR] = SHARE_GOT_ERROR,
                                               [PUSH_RETRY] = SHARE_GOT_RETRY };
    deliver(w, p, (struct news){ events[n->kind], n->fence, n->bytes, n->epoch });
}

static void got_wait(struct world *w, struct place *p, const struct joined *j)
{
    struct call *c = &w->calls[p->call];
    if (c->machine.state != SHARE_JOINING)
        return;
    step(w, p, SHARE_GOT_WAIT);
    c->token = j->token;
    if (c->has_kept && c->kept.fence >= j->token) {
        c->has_kept = false;
        deliver_push(w, p, &c->kept);
        return;
    }
    int64_t left = j->left_ms < 1 ? 1 : j->left_ms > LEASE_MS ? LEASE_MS : j->left_ms;
    c->timer = w->now + left + 1 + (int64_t)below(w, JITTER_MS);
}

static void got_joined(struct world *w, struct place *p, const struct message *m)
{
    const struct joined *j = &m->joined;
    struct call *c = &w->calls[p->call];
    if (j->answer == JOIN_GRANT && c->machine.state != SHARE_JOINING) {
        send(w, p, (struct message){ .op = OP_ABORT, .token = j->token });
        return;
    }
    switch (j->answer) {
    case JOIN_HIT:
    case JOIN_STALE:
        deliver(w, p, (struct news){ SHARE_GOT_VALUE, j->version, j->bytes, m->epoch });
        return;
    case JOIN_ERROR:
        deliver(w, p, (struct news){ .event = SHARE_GOT_ERROR });
        return;
    case JOIN_WAIT:
        got_wait(w, p, j);
        return;
    case JOIN_GRANT:
        c->token = j->token;
        step(w, p, SHARE_GOT_GRANT);
        return;
    }
}

static void got_put(struct world *w, struct place *p, const struct message *m)
{
    if (m->failed)
        step(w, p, SHARE_PUT_FAILED);
    else if (m->put.answer == PUT_OK)
        step(w, p, SHARE_STORED);
    else if (m->put.answer == PUT_LOST_VALUE)
        deliver(w, p, (struct news){ SHARE_LOST_VALUE, m->put.version, m->put.bytes, m->epoch });
    else
        step(w, p, SHARE_LOST);
}

static void take_reply(struct world *w, struct place *p)
{
    struct message m = pop_message(&p->in);
    struct call *c = &w->calls[m.call];
    c->commands--;
    if (m.call != p->call)
        return; /* of a call that is over; a grant for it was given back by the abort of its end, or
                   runs out */
    if (m.op == OP_JOIN && m.failed)
        step(w, p, SHARE_NO_REDIS);
    else if (m.op == OP_JOIN)
        got_joined(w, p, &m);
    else if (m.op == OP_PUT && c->machine.state == SHARE_PUBLISHING)
        got_put(w, p, &m);
}

static void take_push(struct world *w, struct place *p)
{
    struct record_push n = p->pushed[0];
    memmove(p->pushed, p->pushed + 1, --p->pushed_count * sizeof *p->pushed);
    struct call *c = &w->calls[p->call];
    if (p->call == CALLS_MAX)
        return;
    if (c->machine.state == SHARE_WAITING && n.fence >= c->token)
        deliver_push(w, p, &n);
    else if (c->machine.state == SHARE_JOINING) {
        c->has_kept = true;
        c->kept = n;
    }
}

/* ---- the record's side ---- */

static void spread(struct world *w)
{
    for (unsigned i = 0; i < w->record.pushes_count; i++) {
        const struct record_push *n = &w->record.pushes[i];
        bool lost = !w->calm && one_in(w, 6);
        w->pushes_lost += lost;
        for (unsigned k = 0; k < PLACES && !lost; k++)
            if (w->places[k].name == n->node && w->places[k].pushed_count < QUEUE_MAX)
                w->places[k].pushed[w->places[k].pushed_count++] = *n;
    }
    w->record.pushes_count = 0;
}

static void execute(struct world *w, struct place *p)
{
    struct message m = pop_message(&p->out);
    record_at(&w->record, w->now);
    switch (m.op) {
    case OP_JOIN:
        m.joined = record_join(&w->record, p->name);
        break;
    case OP_PUT:
        m.put = record_put(&w->record, m.token, m.is_error, m.bytes);
        break;
    case OP_RENEW:
        (void)record_renew(&w->record, m.token); /* PUT will tell */
        break;
    case OP_ABORT:
        (void)record_abort(&w->record, m.token);
        break;
    }
    m.epoch = w->record.losses;
    spread(w);
    push_message(w, &p->in, &m);
}

/* ---- time and makers ---- */

/* Whatever of this call is due by now. True: something was. */
static bool due(struct world *w, struct place *p)
{
    struct call *c = &w->calls[p->call];
    if (p->call == CALLS_MAX || p->stopped)
        return false;
    if (c->made_at != 0 && c->made_at <= w->now) {
        c->made_at = 0;
        step(w, p, SHARE_MADE);
        return true;
    }
    if (c->timer != 0 && c->timer <= w->now) {
        c->timer = 0;
        step(w, p, SHARE_LEASE_RAN_OUT);
        return true;
    }
    if (c->renewal != 0 && c->renewal <= w->now && c->machine.state == SHARE_LEADING) {
        c->renewal = w->now + LEASE_MS / 3;
        send(w, p, (struct message){ .op = OP_RENEW, .token = c->token });
        return true;
    }
    return false;
}

static void leave_call(struct place *p)
{
    p->call = CALLS_MAX;
}

static void begin(struct world *w, struct place *p)
{
    if (p->call != CALLS_MAX || p->stopped || w->calls_count == CALLS_MAX)
        return;
    p->call = w->calls_count++;
    struct call *c = &w->calls[p->call];
    *c = (struct call){ .exists = true };
    act(w, p, share_begin(&c->machine));
}

/* ---- faults ---- */

static void crash(struct world *w, struct place *p)
{
    if (w->names == RECORD_NODES_MAX)
        return;
    w->crashes++;
    if (p->call != CALLS_MAX)
        w->calls[p->call].exists = false;
    while (p->out.count > 0 && one_in(w, 2)) /* what was sent may still arrive */
        execute(w, p);
    *p = (struct place){ .name = w->names++, .call = CALLS_MAX };
}

static void fail_commands(struct world *w, struct place *p)
{
    while (p->out.count > 0) {
        if (one_in(w, 2)) { /* it was done, only nobody heard */
            execute(w, p);
            p->in.m[(p->in.first + p->in.count - 1) % QUEUE_MAX].failed = true;
            continue;
        }
        struct message m = pop_message(&p->out);
        m.failed = true;
        push_message(w, &p->in, &m);
    }
}

static void redis_dies(struct world *w)
{
    w->down = true;
    w->outages++;
    for (unsigned i = 0; i < PLACES; i++) {
        struct place *p = &w->places[i];
        fail_commands(w, p);
        p->pushed_count = 0;
        if (p->call != CALLS_MAX && w->calls[p->call].machine.state == SHARE_WAITING)
            step(w, p, SHARE_NO_REDIS);
    }
}

static void fault(struct world *w)
{
    struct place *p = &w->places[below(w, PLACES)];
    record_at(&w->record, w->now);
    w->faults++;
    switch (below(w, 8)) {
    case 0:
        crash(w, p);
        break;
    case 1:
        record_lose(&w->record);
        break;
    case 2:
        record_end_lease(&w->record);
        break;
    case 3:
        record_drop(&w->record);
        spread(w);
        break;
    case 4:
        if (!w->down)
            redis_dies(w);
        break;
    case 5:
        w->down = false;
        break;
    case 6:
        p->stopped = !p->stopped;
        break;
    default:
        if (p->call != CALLS_MAX && !p->stopped)
            step(w, p, SHARE_STOP);
    }
}

/* ---- schedules ---- */

static void check_all(struct world *w)
{
    for (unsigned i = 0; i < PLACES; i++) {
        struct place *p = &w->places[i];
        if (p->call == CALLS_MAX)
            continue;
        struct call *c = &w->calls[p->call];
        bool makes = c->machine.state == SHARE_LEADING || c->machine.state == SHARE_ALONE;
        must(w, !makes || c->machine.making, "leads or works alone, and makes nothing");
        must(w, c->over == c->machine.answered, "S4: the machine and who was answered differ");
        must(w, c->machine.state != SHARE_WAITING || c->timer != 0, "L3: waits without a timer");
        if (c->over && c->made_at == 0)
            leave_call(p);
    }
}

static bool move_one(struct world *w, struct place *p)
{
    if (p->out.count > 0 && (p->in.count == 0 || one_in(w, 2)))
        execute(w, p);
    else if (p->in.count > 0 && !p->stopped)
        take_reply(w, p);
    else if (p->pushed_count > 0 && !p->stopped)
        take_push(w, p);
    else
        return false;
    return true;
}

static void random_step(struct world *w)
{
    struct place *p = &w->places[below(w, PLACES)];
    w->record.step++;
    switch (below(w, 12)) {
    case 0:
        w->now += (int64_t)below(w, one_in(w, 8) ? one_in(w, 8) ? 2 * GEN_MS : FRESH_MS : 40);
        break;
    case 1:
        begin(w, p);
        break;
    case 2:
        (void)due(w, p);
        break;
    case 3:
        if (one_in(w, 4))
            fault(w);
        break;
    case 4:
        if (p->pushed_count > 0 && !p->stopped)
            take_push(w, p);
        break;
    default:
        if (!move_one(w, p))
            (void)due(w, p);
    }
    check_all(w);
}

static bool busy(const struct world *w)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (w->places[i].call != CALLS_MAX)
            return true;
    return false;
}

/* A millisecond in which everything arrives. */
static void calm_tick(struct world *w)
{
    bool moved = true;
    w->record.step++;
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < PLACES; i++)
            moved = move_one(w, &w->places[i]) || due(w, &w->places[i]) || moved;
        check_all(w);
    }
    w->now++;
}

static void settle(struct world *w)
{
    w->calm = true;
    w->down = false;
    for (unsigned i = 0; i < PLACES; i++)
        w->places[i].stopped = false;
    int64_t until = w->now + SETTLE_MS;
    while (busy(w) && w->now < until)
        calm_tick(w);
    must(w, !busy(w), "L1: somebody still waits, though nothing fails any more");
    for (unsigned i = 0; i < w->calls_count; i++)
        must(w, !w->calls[i].exists || w->calls[i].answers == 1,
             "S4: a call of a living node has no answer");
}

static void world_init(struct world *w, uint64_t seed)
{
    struct record_opts opts = { .lease_ms = LEASE_MS,
                                .gen_ms = GEN_MS,
                                .fresh_ms = FRESH_MS,
                                .stale_ms = STALE_MS,
                                .neg_base_ms = 100,
                                .neg_max_ms = 1000,
                                .seed = seed };
    *w = (struct world){ .now = 1000 };
    rng_init(&w->rng, seed);
    record_init(&w->record, &opts);
    for (; w->names < PLACES; w->names++)
        w->places[w->names] = (struct place){ .name = w->names, .call = CALLS_MAX };
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t n;
    return text != NULL && str_to_u64(str_of(text), &n) ? n : otherwise;
}

/* ---- tests ---- */

static struct world *world_new(void)
{
    struct world *w = malloc(sizeof *w);
    assert_non_null(w);
    return w;
}

static void the_invariants_hold_in_every_order(void **state)
{
    (void)state;
    uint64_t only = number_of("SHARE_SEED", 0),
             runs = only != 0 ? 1 : number_of("SHARE_RUNS", RUNS);
    uint64_t granted = 0, accepted = 0, refused = 0, takeovers = 0, losses = 0, errors = 0,
             lost = 0, alone = 0;
    struct world *w = world_new();
    for (uint64_t i = 0; i < runs; i++) {
        world_init(w, only != 0 ? only : i + 1);
        for (unsigned k = 0; k < STEPS; k++)
            random_step(w);
        settle(w);
        granted += w->record.granted;
        accepted += w->record.accepted;
        refused += w->record.refused;
        takeovers += w->record.takeovers;
        losses += w->record.losses;
        errors += w->record.errors_put;
        lost += w->pushes_lost;
        alone += w->alone;
    }
    free(w);
    if (only != 0)
        return;
    /* The schedules came where they should. */
    assert_true(granted > runs && accepted > runs);
    assert_true(refused > 0 && takeovers > 0 && losses > 0 && errors > 0 && lost > 0 && alone > 0);
}

static void a_storm_without_faults_is_made_once(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world_init(w, seed);
        w->calm = true;
        for (unsigned i = 0; i < PLACES; i++)
            begin(w, &w->places[i]);
        settle(w);
        assert_int_equal(w->record.granted, 1);
        assert_int_equal(w->record.accepted, 1);
        assert_int_equal(w->alone, 0);
    }
    free(w);
}

/* L2: lease + jitter + two round trips, here two ticks each. */
static void a_dead_leader_is_succeeded_in_time(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world_init(w, seed);
        w->calm = true;
        begin(w, &w->places[0]);
        calm_tick(w);
        assert_int_equal(w->calls[0].machine.state, SHARE_LEADING);
        w->calls[0].made_at = w->now + GEN_MS;
        for (unsigned i = 1; i < PLACES; i++)
            begin(w, &w->places[i]);
        int64_t dies = w->now + 1 + (int64_t)below(w, 2 * LEASE_MS);
        while (w->now < dies)
            calm_tick(w);
        int64_t lease_end = w->record.lease_until;
        w->places[0] = (struct place){ .name = w->names++, .call = CALLS_MAX };
        w->calls[0].exists = false;
        while (w->record.granted == 1 && w->now < lease_end + 10 * LEASE_MS)
            calm_tick(w);
        assert_int_equal(w->record.granted, 2);
        assert_in_range(w->now - lease_end, 0, JITTER_MS + 4);
        settle(w);
        assert_int_equal(w->record.accepted, 1);
    }
    free(w);
}

/* L3: what no push told, the timer finds. */
static void a_lost_push_costs_the_rest_of_the_lease(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world_init(w, seed);
        w->calm = true;
        for (unsigned i = 0; i < PLACES; i++)
            begin(w, &w->places[i]);
        calm_tick(w);
        int64_t lease_end = w->record.lease_until;
        w->record.waits = 0; /* nobody is told */
        while (busy(w) && w->now < lease_end + 10 * LEASE_MS) {
            w->record.waits = 0;
            calm_tick(w);
            lease_end = w->record.lease != 0 ? w->record.lease_until : lease_end;
        }
        assert_false(busy(w));
        assert_in_range(w->now, 0, lease_end + JITTER_MS + 4);
        assert_int_equal(w->record.granted, 1);
    }
    free(w);
}

static void a_stopped_leader_stores_nothing_behind_its_successor(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world_init(w, seed);
        w->calm = true;
        begin(w, &w->places[0]);
        calm_tick(w);
        w->calls[0].made_at = w->now + 1;
        w->places[0].stopped = true; /* before it is made */
        begin(w, &w->places[1]);
        while (w->places[1].call != CALLS_MAX && w->now < SETTLE_MS)
            calm_tick(w);
        uint64_t version = w->record.version;
        assert_int_equal(w->record.accepted, 1);
        w->places[0].stopped = false;
        settle(w);
        assert_int_equal(w->record.accepted, 1);
        assert_int_equal(w->record.refused, 1);
        assert_true(w->record.version == version || !w->record.has_value);
        assert_int_equal(w->calls[0].degraded, 0);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_invariants_hold_in_every_order),
        cmocka_unit_test(a_storm_without_faults_is_made_once),
        cmocka_unit_test(a_dead_leader_is_succeeded_in_time),
        cmocka_unit_test(a_lost_push_costs_the_rest_of_the_lease),
        cmocka_unit_test(a_stopped_leader_stores_nothing_behind_its_successor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
