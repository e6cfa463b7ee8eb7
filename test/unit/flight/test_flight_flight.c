/* Goal: flights on a real loop with real threads: one computation for ten thousand, exactly one
 * outcome each, nobody starved meanwhile, nothing leaked when it is refused, left, timed out or
 * drained. Method: makers that hold their flight until the test lets it go; waiting is polling with
 * a deadline. Off the main thread an INVARIANT is the assertion. */
#include "../cmocka_all.h"

#include "base/metrics.h"
#include "base/rng.h"
#include "flight/flight.h"
#include "lib/wait.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, FAR_MS = 600000, CROWD = 10000, THREADS = 4 };

struct bench {
    struct sysclock *sysclock;
    struct clock *clock;
    struct loop *loop;
    struct metrics *metrics;
    struct flights *flights;
    struct limiter *limiter; /* NULL: the flights' own */
    pthread_t thread;
    bool running;
};

struct value {
    struct flight_value base;
    atomic_int *alive;
};
struct maker {
    atomic_int starts, cancels, releases, alive; /* alive: values */
    _Atomic(struct flight *) flight;
    err answer; /* given by start at once, when instant */
    bool instant, keep_error;
};
struct caller {
    struct flight_waiter waiter;
    atomic_int done;
    err why;
    enum flight_detail detail;
    unsigned order; /* in which it was called */
};
static atomic_uint called;

static struct bench *bench_new(const struct flight_opts *opts)
{
    struct bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->sysclock = sysclock_new();
    b->clock = sysclock_clock(b->sysclock);
    b->loop = loop_new(2);
    b->metrics = metrics_new("t_");
    struct flight_opts o = *opts;
    o.loop = b->loop, o.clock = b->clock, o.metrics = b->metrics;
    b->flights = flights_new(&o);
    atomic_store(&called, 0);
    return b;
}

static void *run(void *ctx)
{
    struct bench *b = ctx;
    loop_run(b->loop);
    return NULL;
}

static void bench_run(struct bench *b)
{
    assert_int_equal(pthread_create(&b->thread, NULL, run, b), 0);
    b->running = true;
}

static void bench_stop(struct bench *b)
{
    if (!b->running)
        return;
    loop_stop(b->loop);
    assert_int_equal(pthread_join(b->thread, NULL), 0);
    b->running = false;
}

static void free_here(void *ctx)
{
    struct bench *b = ctx;
    flights_free(&b->flights);
    limiter_free(&b->limiter);
    loop_stop(b->loop);
}

/* The flights are freed on the loop, and then all else. */
static void bench_free(struct bench *b)
{
    bench_stop(b);
    loop_post(b->loop, free_here, b);
    loop_run(b->loop);
    loop_free(&b->loop);
    metrics_free(&b->metrics);
    sysclock_free(&b->sysclock);
    free(b);
}

static mono in_ms(struct bench *b, int64_t ms)
{
    return mono_add_ms(clock_mono(b->clock), ms);
}

static void value_free(struct flight_value *v)
{
    struct value *value = CONTAINER_OF(v, struct value, base);
    atomic_fetch_sub(value->alive, 1);
    free(value);
}

static struct flight_value *value_new(struct maker *m)
{
    struct value *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    atomic_store(&v->base.refs, 1);
    v->base.free = value_free;
    v->alive = &m->alive;
    atomic_fetch_add(&m->alive, 1);
    return &v->base;
}

static void finish(struct maker *m, struct flight *f, err why)
{
    static const struct err_note note = { .text = "as the test wished" };
    flight_finish(f, why, why == ERR_OK ? value_new(m) : NULL, m->keep_error,
                  why == ERR_OK ? NULL : &note);
}

static void start(struct flight *f, void *ctx)
{
    struct maker *m = ctx;
    atomic_fetch_add(&m->starts, 1);
    if (m->instant)
        finish(m, f, m->answer);
    else
        atomic_store(&m->flight, f);
}

static void cancel(struct flight *f, void *ctx)
{
    struct maker *m = ctx;
    (void)f;
    atomic_fetch_add(&m->cancels, 1);
}

static void release(void *ctx)
{
    struct maker *m = ctx;
    atomic_fetch_add(&m->releases, 1);
}

static struct flight_maker maker_of(struct maker *m)
{
    return (struct flight_maker){ .start = start, .cancel = cancel, .release = release, .ctx = m };
}

static void done(struct flight_waiter *w, err why, struct flight_value *v,
                 const struct err_note *note)
{
    struct caller *c = CONTAINER_OF(w, struct caller, waiter);
    INVARIANT((why == ERR_OK) == (v != NULL));
    INVARIANT((why == ERR_OK) == (note == NULL));
    c->why = why;
    c->detail = w->detail;
    c->order = atomic_fetch_add(&called, 1);
    INVARIANT(atomic_fetch_add(&c->done, 1) == 0);
}

static err join(struct bench *b, struct caller *c, const char *key, struct maker *m,
                int64_t wait_ms)
{
    struct flight_maker maker = maker_of(m);
    c->waiter = (struct flight_waiter){ .deadline = in_ms(b, wait_ms), .done = done };
    return flight_join(b->flights, str_of(key), &maker, &c->waiter);
}

static uint64_t waiters(struct bench *b)
{
    struct flight_stats s;
    flights_stats_get(b->flights, &s);
    return s.waiters;
}

static struct flight *held(struct maker *m)
{
    WAIT_UNTIL(atomic_load(&m->flight) != NULL);
    return atomic_exchange(&m->flight, NULL);
}

/* ---- the storm ---- */

struct gang {
    struct bench *bench;
    struct maker *maker;
    struct caller *callers;
    unsigned count;
    atomic_int refused;
};

static void *gang_join(void *ctx)
{
    struct gang *g = ctx;
    for (unsigned i = 0; i < g->count; i++)
        if (join(g->bench, &g->callers[i], "storm", g->maker, FAR_MS) != ERR_OK)
            atomic_fetch_add(&g->refused, 1);
    return NULL;
}

static void join_all(struct bench *b, struct maker *m, struct caller *callers)
{
    struct gang gangs[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        gangs[i] = (struct gang){ .bench = b,
                                  .maker = m,
                                  .callers = callers + i * (CROWD / THREADS),
                                  .count = CROWD / THREADS };
        assert_int_equal(pthread_create(&threads[i], NULL, gang_join, &gangs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(atomic_load(&gangs[i].refused), 0);
    }
}

static void ten_thousand_share_one_computation(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller *callers = calloc(CROWD, sizeof *callers), other = { 0 };
    struct maker slow = { 0 }, quick = { .instant = true };
    assert_non_null(callers);
    bench_run(b);
    join_all(b, &slow, callers);
    assert_int_equal(waiters(b), CROWD);
    struct caller more = { 0 };
    assert_int_equal(join(b, &more, "storm", &slow, FAR_MS), ERR_LIMIT);
    finish(&slow, held(&slow), ERR_OK);
    assert_int_equal(join(b, &other, "other", &quick, FAR_MS), ERR_OK);
    WAIT_UNTIL(atomic_load(&called) == CROWD + 1 && flights_idle(b->flights));
    unsigned led = 0;
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(callers[i].why, ERR_OK);
        led += callers[i].detail == FLIGHT_LED;
        if (i % (CROWD / THREADS) > 0) /* of one thread: in order of joining */
            assert_true(callers[i].order > callers[i - 1].order);
    }
    assert_int_equal(led, 1);
    assert_int_equal(atomic_load(&slow.starts), 1);
    assert_int_equal(atomic_load(&slow.alive), 0);
    assert_int_equal(atomic_load(&slow.releases), CROWD + 1);
    free(callers);
    bench_free(b);
}

/* Everything is posted before the loop runs, so the turns are the same each time. */
static void others_are_served_while_many_are_released(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller *callers = calloc(CROWD, sizeof *callers), other = { 0 };
    struct maker many = { .instant = true }, one = { .instant = true };
    assert_non_null(callers);
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(join(b, &callers[i], "many", &many, FAR_MS), ERR_OK);
    assert_int_equal(join(b, &other, "other", &one, FAR_MS), ERR_OK);
    bench_run(b);
    WAIT_UNTIL(atomic_load(&called) == CROWD + 1 && flights_idle(b->flights));
    assert_true(other.order < FLIGHT_RELEASE_MAX);
    free(callers);
    bench_free(b);
}

/* ---- outcomes ---- */

static void errors_are_shared_and_remembered(void **state)
{
    (void)state;
    struct bench *b =
        bench_new(&(struct flight_opts){ .error_base_ms = FAR_MS, .error_max_ms = FAR_MS });
    struct caller a = { 0 }, c = { 0 }, late = { 0 }, fine = { 0 };
    struct maker m = { .keep_error = true }, again = { .instant = true };
    bench_run(b);
    assert_int_equal(join(b, &a, "k", &m, FAR_MS), ERR_OK);
    assert_int_equal(join(b, &c, "k", &m, FAR_MS), ERR_OK);
    finish(&m, held(&m), ERR_UNAVAILABLE);
    WAIT_UNTIL(a.done + c.done == 2);
    assert_int_equal(a.why, ERR_UNAVAILABLE);
    assert_int_equal(c.why, ERR_UNAVAILABLE);
    assert_int_equal(join(b, &late, "k", &again, FAR_MS), ERR_OK);
    assert_int_equal(join(b, &fine, "other", &again, FAR_MS), ERR_OK);
    WAIT_UNTIL(late.done + fine.done == 2 && flights_idle(b->flights));
    assert_int_equal(late.why, ERR_UNAVAILABLE);
    assert_int_equal(late.detail, FLIGHT_NEGATIVE);
    assert_true(late.waiter.retry_after_ms > 0);
    assert_true(late.waiter.retry_after_ms <= FAR_MS * 12 / 10);
    assert_int_equal(fine.why, ERR_OK);
    assert_int_equal(atomic_load(&again.starts), 1);
    bench_free(b);
}

static void who_asked_first_may_leave(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller first = { 0 }, second = { 0 };
    struct maker m = { 0 };
    bench_run(b);
    assert_int_equal(join(b, &first, "k", &m, FAR_MS), ERR_OK);
    assert_int_equal(join(b, &second, "k", &m, FAR_MS), ERR_OK);
    struct flight *f = held(&m);
    assert_true(flight_leave(b->flights, &first.waiter));
    assert_false(flight_leave(b->flights, &first.waiter));
    finish(&m, f, ERR_OK);
    WAIT_UNTIL(second.done == 1 && flights_idle(b->flights));
    assert_int_equal(second.why, ERR_OK);
    assert_int_equal(first.done, 0);
    assert_int_equal(atomic_load(&m.cancels), 0);
    assert_false(flight_leave(b->flights, &second.waiter));
    bench_free(b);
}

static void what_nobody_wants_is_stopped_unless_kept(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller c = { 0 }, k = { 0 };
    struct maker m = { 0 }, kept = { 0 };
    struct flight_maker keep = maker_of(&kept);
    keep.keep_idle = true;
    bench_run(b);
    assert_int_equal(join(b, &c, "k", &m, FAR_MS), ERR_OK);
    struct flight *f = held(&m);
    assert_true(flight_leave(b->flights, &c.waiter));
    WAIT_UNTIL(atomic_load(&m.cancels) == 1);
    finish(&m, f, ERR_SHUTDOWN);
    k.waiter = (struct flight_waiter){ .deadline = in_ms(b, FAR_MS), .done = done };
    assert_int_equal(flight_join(b->flights, STR("kept"), &keep, &k.waiter), ERR_OK);
    f = held(&kept);
    assert_true(flight_leave(b->flights, &k.waiter));
    finish(&kept, f, ERR_OK);
    WAIT_UNTIL(flights_idle(b->flights));
    assert_int_equal(atomic_load(&kept.cancels), 0);
    assert_int_equal(atomic_load(&kept.alive), 0);
    assert_int_equal(c.done + k.done, 0);
    bench_free(b);
}

static void each_waiter_has_its_own_deadline(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller brief = { 0 }, patient = { 0 };
    struct maker m = { 0 };
    bench_run(b);
    assert_int_equal(join(b, &patient, "k", &m, FAR_MS), ERR_OK);
    assert_int_equal(join(b, &brief, "k", &m, 5), ERR_OK);
    WAIT_UNTIL(brief.done == 1);
    assert_int_equal(brief.why, ERR_TIMEOUT);
    assert_true(clock_mono(b->clock).ns >= brief.waiter.deadline.ns);
    assert_int_equal(patient.done, 0);
    finish(&m, held(&m), ERR_OK);
    WAIT_UNTIL(patient.done == 1 && flights_idle(b->flights));
    assert_int_equal(patient.why, ERR_OK);
    bench_free(b);
}

static void a_computation_has_a_deadline_too(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){
        .make_timeout_ms = 5, .error_base_ms = FAR_MS, .error_max_ms = FAR_MS });
    struct caller c = { 0 }, late = { 0 };
    struct maker m = { 0 };
    bench_run(b);
    assert_int_equal(join(b, &c, "k", &m, FAR_MS), ERR_OK);
    WAIT_UNTIL(c.done == 1 && atomic_load(&m.cancels) == 1);
    assert_int_equal(c.why, ERR_TIMEOUT);
    assert_int_equal(join(b, &late, "k", &m, FAR_MS), ERR_OK);
    WAIT_UNTIL(late.done == 1);
    assert_int_equal(late.detail, FLIGHT_NEGATIVE);
    finish(&m, held(&m), ERR_SHUTDOWN);
    WAIT_UNTIL(flights_idle(b->flights));
    bench_free(b);
}

static void drain_answers_all_and_refuses_more(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .makes_max = 1 });
    struct caller c = { 0 }, queued = { 0 }, late = { 0 };
    struct maker m = { 0 }, never = { 0 };
    bench_run(b);
    assert_int_equal(join(b, &c, "k", &m, FAR_MS), ERR_OK);
    struct flight *f = held(&m);
    assert_int_equal(join(b, &queued, "q", &never, FAR_MS), ERR_OK);
    flights_drain(b->flights);
    assert_int_equal(join(b, &late, "k", &m, FAR_MS), ERR_SHUTDOWN);
    WAIT_UNTIL(c.done + queued.done == 2 && atomic_load(&m.cancels) == 1);
    assert_int_equal(c.why, ERR_SHUTDOWN);
    assert_int_equal(queued.why, ERR_SHUTDOWN);
    assert_false(flights_idle(b->flights));
    finish(&m, f, ERR_SHUTDOWN);
    WAIT_UNTIL(flights_idle(b->flights));
    assert_int_equal(atomic_load(&never.starts), 0);
    assert_int_equal(atomic_load(&never.releases), 1);
    bench_free(b);
}

/* ---- a limiter that others call through, too ---- */

static const struct limiter_key wiki = { .origin = STR_INIT("wiki:80"),
                                         .domain = STR_INIT("a.test"),
                                         .kind = STR_INIT("render") };

static struct bench *bench_with_limiter(unsigned makes_source_max)
{
    struct bench *b = bench_new(&(struct flight_opts){ .makes_max = 9 });
    flights_free(&b->flights);
    b->limiter = limiter_new(b->loop, b->clock);
    limiter_limit(b->limiter, LIMITER_KIND, &wiki, (struct limiter_limits){ .running_max = 1 });
    b->flights = flights_new(&(struct flight_opts){ .loop = b->loop,
                                                    .clock = b->clock,
                                                    .limiter = b->limiter,
                                                    .makes_source_max = makes_source_max });
    bench_run(b);
    return b;
}

static err join_wiki(struct bench *b, struct caller *c, const char *key, struct maker *m)
{
    struct flight_maker maker = maker_of(m);
    maker.source = &wiki;
    c->waiter = (struct flight_waiter){ .deadline = in_ms(b, FAR_MS), .done = done, .ctx = c };
    return flight_join(b->flights, str_of(key), &maker, &c->waiter);
}

/* One runs at the wiki. It stores what it got, and the next runs; two are held, so the third waits
 * until one has ended. Who left while it waited never begins. */
static void a_maker_that_rests_lets_the_next_begin(void **state)
{
    (void)state;
    struct bench *b = bench_with_limiter(2);
    struct caller c[4] = { 0 };
    struct maker m[4] = { 0 };
    static const char *const keys[] = { "a", "b", "c", "d" };
    assert_int_equal(join_wiki(b, &c[0], keys[0], &m[0]), ERR_OK);
    struct flight *first = held(&m[0]);
    for (unsigned i = 1; i < COUNT_OF(c); i++)
        assert_int_equal(join_wiki(b, &c[i], keys[i], &m[i]), ERR_OK);
    assert_true(flight_leave(b->flights, &c[1].waiter));
    WAIT_UNTIL(atomic_load(&m[1].releases) == 1);
    assert_int_equal(flight_pass(first)->state, LIMITER_IN);
    limiter_rest(b->limiter, flight_pass(first));
    struct flight *second = held(&m[2]);
    limiter_rest(b->limiter, flight_pass(second));
    struct limiter_figures f;
    limiter_figures_get(b->limiter, LIMITER_KIND, &wiki, &f);
    assert_int_equal(f.held, 2);
    assert_int_equal(f.running, 0);
    assert_int_equal(f.waiting, 1);
    finish(&m[0], first, ERR_OK);
    finish(&m[3], held(&m[3]), ERR_OK);
    finish(&m[2], second, ERR_OK);
    WAIT_UNTIL(flights_idle(b->flights));
    assert_int_equal(c[0].done + c[2].done + c[3].done, 3);
    assert_int_equal(atomic_load(&m[1].starts), 0);
    limiter_figures_get(b->limiter, LIMITER_ALL, NULL, &f);
    assert_int_equal(f.running + f.held + f.waiting, 0);
    bench_free(b);
}

/* What others run of the same kind is counted with the flights. */
static void flights_wait_for_others_of_their_kind(void **state)
{
    (void)state;
    struct bench *b = bench_with_limiter(2);
    struct limiter_pass other = { .deadline = LIMITER_NEVER };
    struct caller c = { 0 };
    struct maker m = { .instant = true };
    assert_int_equal(limiter_enter(b->limiter, &wiki, &other), LIMITER_IN);
    assert_int_equal(join_wiki(b, &c, "a", &m), ERR_OK);
    struct limiter_figures f;
    limiter_figures_get(b->limiter, LIMITER_KIND, &wiki, &f);
    assert_int_equal(f.waiting, 1);
    assert_int_equal(atomic_load(&m.starts), 0);
    assert_false(limiter_leave(b->limiter, &other));
    WAIT_UNTIL(c.done == 1 && flights_idle(b->flights));
    bench_free(b);
}

/* ---- limits: refused at every place, nothing is left behind ---- */

enum { PLACES = 12 };

static void check_limits(const struct flight_opts *opts, unsigned keys)
{
    static const char *const names[] = {
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"
    };
    struct bench *b = bench_new(opts);
    struct caller callers[PLACES] = { 0 };
    struct maker m = { .instant = true };
    unsigned in = 0;
    for (unsigned i = 0; i < PLACES; i++) {
        err e = join(b, &callers[i], names[i % keys], &m, FAR_MS);
        assert_true(e == ERR_OK || e == ERR_LIMIT);
        in += e == ERR_OK;
        if (e == ERR_LIMIT)
            assert_false(flight_leave(b->flights, &callers[i].waiter));
    }
    unsigned most = opts->flights_max < keys ? opts->flights_max : keys;
    unsigned room = most * opts->waiters_max;
    assert_int_equal(in, room < opts->waiters_all_max ? room : opts->waiters_all_max);
    bench_run(b);
    WAIT_UNTIL(atomic_load(&called) == in && flights_idle(b->flights));
    assert_int_equal(atomic_load(&m.releases), PLACES);
    assert_int_equal(atomic_load(&m.alive), 0);
    bench_free(b);
}

static void joins_are_refused_at_every_limit(void **state)
{
    (void)state;
    for (unsigned n = 1; n < PLACES; n++) {
        check_limits(
            &(struct flight_opts){ .flights_max = n, .waiters_max = 1, .waiters_all_max = PLACES },
            PLACES);
        check_limits(
            &(struct flight_opts){ .flights_max = 1, .waiters_max = n, .waiters_all_max = PLACES },
            1);
        check_limits(&(struct flight_opts){ .flights_max = 2,
                                            .waiters_max = PLACES / 2,
                                            .waiters_all_max = n },
                     2);
    }
    char key[FLIGHT_KEY_BYTES_MAX + 2];
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = 0;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1 });
    struct caller c = { 0 };
    struct maker m = { 0 };
    assert_int_equal(join(b, &c, key, &m, FAR_MS), ERR_LIMIT);
    assert_int_equal(atomic_load(&m.releases), 1);
    bench_free(b);
}

/* ---- many threads at once ---- */

enum { CHURN_KEYS = 5, CHURN_EACH = 400 };
struct churner {
    struct bench *bench;
    uint64_t seed;
    struct caller *callers;
    struct maker *makers;
    atomic_int left;
};

static void *churn(void *ctx)
{
    static const char *const keys[CHURN_KEYS] = { "a", "b", "c", "d", "e" };
    struct churner *h = ctx;
    struct rng rng;
    rng_init(&rng, h->seed);
    for (unsigned i = 0; i < CHURN_EACH; i++) {
        struct maker *m = &h->makers[i];
        *m = (struct maker){ .instant = true,
                             .answer = rng_below(&rng, 4) == 0 ? ERR_UNAVAILABLE : ERR_OK };
        INVARIANT(join(h->bench, &h->callers[i], keys[rng_below(&rng, CHURN_KEYS)], m, FAR_MS) ==
                  ERR_OK);
        struct caller *any = &h->callers[rng_below(&rng, i + 1)];
        if (rng_below(&rng, 3) == 0 && flight_leave(h->bench->flights, &any->waiter)) {
            INVARIANT(atomic_fetch_add(&any->done, 1) == 0);
            atomic_fetch_add(&h->left, 1);
        }
    }
    return NULL;
}

static void threads_join_and_leave_at_will(void **state)
{
    (void)state;
    struct bench *b = bench_new(&(struct flight_opts){ .seed = 1, .makes_max = 2 });
    struct churner churners[THREADS];
    pthread_t threads[THREADS];
    int left = 0;
    bench_run(b);
    for (unsigned i = 0; i < THREADS; i++) {
        churners[i] = (struct churner){ .bench = b,
                                        .seed = i,
                                        .callers = calloc(CHURN_EACH, sizeof(struct caller)),
                                        .makers = calloc(CHURN_EACH, sizeof(struct maker)) };
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        left += atomic_load(&churners[i].left);
    }
    WAIT_UNTIL(flights_idle(b->flights));
    assert_int_equal(atomic_load(&called) + (unsigned)left, THREADS * CHURN_EACH);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 0; k < CHURN_EACH; k++) {
            assert_int_equal(atomic_load(&churners[i].callers[k].done), 1);
            assert_int_equal(atomic_load(&churners[i].makers[k].releases), 1);
            assert_int_equal(atomic_load(&churners[i].makers[k].alive), 0);
        }
        free(churners[i].callers);
        free(churners[i].makers);
    }
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_share_one_computation),
        cmocka_unit_test(others_are_served_while_many_are_released),
        cmocka_unit_test(errors_are_shared_and_remembered),
        cmocka_unit_test(who_asked_first_may_leave),
        cmocka_unit_test(what_nobody_wants_is_stopped_unless_kept),
        cmocka_unit_test(each_waiter_has_its_own_deadline),
        cmocka_unit_test(a_computation_has_a_deadline_too),
        cmocka_unit_test(drain_answers_all_and_refuses_more),
        cmocka_unit_test(a_maker_that_rests_lets_the_next_begin),
        cmocka_unit_test(flights_wait_for_others_of_their_kind),
        cmocka_unit_test(joins_are_refused_at_every_limit),
        cmocka_unit_test(threads_join_and_leave_at_will),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
