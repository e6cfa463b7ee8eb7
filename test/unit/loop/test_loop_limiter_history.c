/* Goal: whatever happens in whatever order, counts are right, limits hold, and nobody waits who
 * could be let in. Method: random histories beside counts made anew from all passes (the seed is
 * printed); threads on a real loop. */
#include "limiter_world.h"

#include "../cmocka_all.h"

#include "base/rng.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- random histories ---- */

enum { ORIGINS = 3, DOMAINS = 2, KINDS = 2, KEYS = ORIGINS * DOMAINS * KINDS };
enum { STEPS = 2000, HISTORIES = 12 };

struct history {
    struct rng rng;
    struct limiter_key keys[KEYS];
    struct limiter_limits levels[LIMITER_LEVELS], own[LIMITER_LEVELS][KEYS];
};

static bool same_place(const struct limiter_key *a, const struct limiter_key *b,
                       enum limiter_level level)
{
    return (level < LIMITER_ORIGIN || str_eq(a->origin, b->origin)) &&
           (level < LIMITER_DOMAIN || str_eq(a->domain, b->domain)) &&
           (level < LIMITER_KIND || str_eq(a->kind, b->kind));
}

static unsigned or_else(unsigned own, unsigned otherwise)
{
    return own != 0 ? own : otherwise != 0 ? otherwise : UINT32_MAX;
}

static struct limiter_limits limits_of(const struct history *h, enum limiter_level level,
                                       const struct limiter_key *key)
{
    struct limiter_limits own = { 0 };
    for (unsigned k = 0; level > LIMITER_ALL && k < KEYS; k++)
        if (same_place(&h->keys[k], key, level))
            own = h->own[level][k]; /* all that are the same place have the same */
    const struct limiter_limits *all = &h->levels[level];
    return (struct limiter_limits){ .running_max = or_else(own.running_max, all->running_max),
                                    .held_max = or_else(own.held_max, all->held_max),
                                    .waiting_max = or_else(own.waiting_max, all->waiting_max) };
}

static struct limiter_figures count(const struct world *w, enum limiter_level level,
                                    const struct limiter_key *key)
{
    struct limiter_figures f = { 0 };
    for (unsigned i = 0; i < GUESTS; i++) {
        const struct guest *g = &w->guests[i];
        enum limiter_state s = g->pass.state;
        if (s == LIMITER_OUT || !same_place(g->key, key, level))
            continue;
        f.waiting += s == LIMITER_WAITING;
        f.running += s == LIMITER_GRANTED || s == LIMITER_IN;
        f.held += s != LIMITER_WAITING && (g->pass.flags & LIMITER_HOLDS) != 0;
    }
    return f;
}

/* Those that wait and may be refused. */
static unsigned bounded(const struct world *w, enum limiter_level level,
                        const struct limiter_key *key)
{
    unsigned n = 0;
    for (unsigned i = 0; i < GUESTS; i++) {
        const struct guest *g = &w->guests[i];
        n += g->pass.state == LIMITER_WAITING && (g->pass.flags & LIMITER_UNREFUSED) == 0 &&
             same_place(g->key, key, level);
    }
    return n;
}

/* Whether g could be let in, were nobody of its key before it. */
static bool has_room(const struct world *w, const struct history *h, const struct guest *g)
{
    for (unsigned level = 0; level < LIMITER_LEVELS; level++) {
        struct limiter_figures f = count(w, (enum limiter_level)level, g->key);
        struct limiter_limits max = limits_of(h, (enum limiter_level)level, g->key);
        if (f.running >= max.running_max)
            return false;
        if ((g->pass.flags & LIMITER_HOLDS) != 0 && f.held >= max.held_max)
            return false;
    }
    return true;
}

static bool is_first(const struct world *w, const struct guest *g)
{
    for (unsigned i = 0; i < GUESTS; i++) {
        const struct guest *o = &w->guests[i];
        if (o->pass.state == LIMITER_WAITING && same_place(o->key, g->key, LIMITER_KIND) &&
            o->arrived < g->arrived)
            return false;
    }
    return true;
}

static void check_all(const struct world *w, const struct history *h)
{
    limiter_check(w->limiter);
    for (unsigned level = 0; level < LIMITER_LEVELS; level++)
        for (unsigned k = 0; k < KEYS; k++) {
            const struct limiter_key *key = level == LIMITER_ALL ? NULL : &h->keys[k];
            struct limiter_figures is = figures(w, (enum limiter_level)level, key);
            struct limiter_figures want = count(w, (enum limiter_level)level, &h->keys[k]);
            assert_int_equal(is.running, want.running);
            assert_int_equal(is.held, want.held);
            assert_int_equal(is.waiting, want.waiting);
        }
    for (unsigned i = 0; i < GUESTS; i++) {
        const struct guest *g = &w->guests[i];
        if (g->pass.state == LIMITER_WAITING)
            assert_false(is_first(w, g) && has_room(w, h, g));
        else if (g->pass.state != LIMITER_OUT)
            assert_true(is_first(w, g)); /* who came before it waits no longer */
    }
}

static struct limiter_limits limits_draw(struct rng *r)
{
    struct limiter_limits l = { 0 };
    if (rng_below(r, 3) > 0)
        l.running_max = 1 + (unsigned)rng_below(r, 8);
    if (rng_below(r, 3) == 0)
        l.held_max = 1 + (unsigned)rng_below(r, 6);
    if (rng_below(r, 3) == 0)
        l.waiting_max = 1 + (unsigned)rng_below(r, 12);
    return l;
}

static void step_limit(struct world *w, struct history *h)
{
    enum limiter_level level = (enum limiter_level)rng_below(&h->rng, LIMITER_LEVELS);
    struct limiter_limits limits = limits_draw(&h->rng);
    if (level == LIMITER_ALL || rng_below(&h->rng, 2) == 0) {
        h->levels[level] = limits;
        limiter_limit(w->limiter, level, NULL, limits);
        return;
    }
    const struct limiter_key *key = &h->keys[rng_below(&h->rng, KEYS)];
    for (unsigned k = 0; k < KEYS; k++)
        if (same_place(&h->keys[k], key, level))
            h->own[level][k] = limits;
    limiter_limit(w->limiter, level, key, limits);
}

static void step_enter(struct world *w, struct history *h, struct guest *g)
{
    static const unsigned flags[] = { 0, 0, LIMITER_HOLDS, LIMITER_HOLDS | LIMITER_UNREFUSED };
    if (g->pass.state != LIMITER_OUT)
        return;
    g->key = &h->keys[rng_below(&h->rng, KEYS)];
    g->arrived = w->arrivals + 1;
    g->pass.flags = flags[rng_below(&h->rng, COUNT_OF(flags))];
    g->pass.deadline = (mono){ .ns = w->now_ns + (int64_t)rng_below(&h->rng, NS_PER_S) };
    bool free_now = is_first(w, g) && has_room(w, h, g), many = false;
    for (unsigned level = 0; level < LIMITER_LEVELS; level++)
        many = many || bounded(w, (enum limiter_level)level, g->key) >=
                           limits_of(h, (enum limiter_level)level, g->key).waiting_max;
    many = many && (g->pass.flags & LIMITER_UNREFUSED) == 0;
    enum limiter_state want = free_now ? LIMITER_IN : many ? LIMITER_OUT : LIMITER_WAITING;
    assert_int_equal(guest_enter(w, g, g->key), want);
}

static void step(struct world *w, struct history *h)
{
    struct guest *g = &w->guests[rng_below(&h->rng, GUESTS)];
    unsigned dice = (unsigned)rng_below(&h->rng, 100);
    if (dice < 50) {
        step_enter(w, h, g);
    } else if (dice < 70) {
        enum limiter_state s = g->pass.state;
        bool waited = limiter_leave(w->limiter, &g->pass);
        assert_int_equal(waited, s == LIMITER_WAITING || s == LIMITER_GRANTED);
    } else if (dice < 80) {
        if (g->pass.state == LIMITER_IN)
            limiter_rest(w->limiter, &g->pass);
    } else if (dice < 85) {
        step_limit(w, h);
    } else {
        w->now_ns += (int64_t)rng_below(&h->rng, 50 * NS_PER_MS);
        limiter_turn(w->limiter);
        for (unsigned i = 0; i < GUESTS; i++) {
            const struct guest *o = &w->guests[i];
            assert_true(o->pass.state != LIMITER_GRANTED);
            assert_true(o->pass.state != LIMITER_WAITING || o->pass.deadline.ns > w->now_ns);
        }
    }
    check_all(w, h);
}

static void random_histories_agree_with_a_count(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "b", "c" };
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        struct history h = { 0 };
        struct world *w = world_new();
        print_message("seed %llu\n", (unsigned long long)seed);
        rng_init(&h.rng, seed);
        for (unsigned k = 0; k < KEYS; k++)
            h.keys[k] = (struct limiter_key){ str_of(names[k % ORIGINS]),
                                              str_of(names[k / ORIGINS % DOMAINS]),
                                              str_of(names[k / ORIGINS / DOMAINS]) };
        for (unsigned i = 0; i < STEPS; i++)
            step(w, &h);
        w->count = GUESTS;
        for (unsigned level = LIMITER_ORIGIN; level < LIMITER_LEVELS; level++)
            for (unsigned k = 0; k < KEYS; k++)
                limiter_limit(w->limiter, (enum limiter_level)level, &h.keys[k],
                              (struct limiter_limits){ 0 });
        for (unsigned i = 0; i < GUESTS; i++)
            (void)limiter_leave(w->limiter, &w->guests[i].pass);
        assert_int_equal(figures(w, LIMITER_ALL, NULL).places, 0); /* all memory is given back */
        world_free(w);
    }
}

/* ---- on a loop ---- */

enum { THREADS = 4, EACH = 400, ROOM = 3 };

struct visitor {
    struct limiter_pass pass;
    struct crowd *crowd;
};
struct crowd {
    struct loop *loop;
    struct clock *clock;
    struct limiter *limiter;
    atomic_uint in, most, went, late, ended;
    struct visitor visitors[THREADS][EACH];
};

static void visitor_end(struct visitor *v)
{
    if (atomic_fetch_add(&v->crowd->ended, 1) + 1 == THREADS * EACH)
        loop_stop(v->crowd->loop);
}

static void visitor_in(struct visitor *v)
{
    struct crowd *c = v->crowd;
    unsigned in = atomic_fetch_add(&c->in, 1) + 1, most = atomic_load(&c->most);
    while (most < in && !atomic_compare_exchange_weak(&c->most, &most, in)) {
    }
    (void)atomic_fetch_add(&c->went, 1);
    (void)atomic_fetch_sub(&c->in, 1);
    INVARIANT(!limiter_leave(c->limiter, &v->pass));
    visitor_end(v);
}

static void visitor_go(struct limiter_pass *p, bool in)
{
    struct visitor *v = CONTAINER_OF(p, struct visitor, pass);
    loop_assert_here(v->crowd->loop);
    if (in) {
        visitor_in(v);
        return;
    }
    (void)atomic_fetch_add(&v->crowd->late, 1);
    visitor_end(v);
}

static void *visitors_main(void *ctx)
{
    static const struct limiter_key keys[] = {
        { STR_INIT("one:80"), STR_INIT("a.test"), STR_INIT("render") },
        { STR_INIT("one:80"), STR_INIT("a.test"), STR_INIT("meta") },
        { STR_INIT("one:80"), STR_INIT("b.test"), STR_INIT("render") },
        { STR_INIT("two:80"), STR_INIT("c.test"), STR_INIT("render") },
    };
    struct visitor *all = ctx;
    struct crowd *c = all->crowd;
    for (unsigned i = 0; i < EACH; i++) {
        struct visitor *v = &all[i];
        int64_t ms = i % 5 == 0 ? 0 : 60000;
        v->pass = (struct limiter_pass){ .deadline = mono_add_ms(clock_mono(c->clock), ms),
                                         .flags = i % 3 == 0 ? LIMITER_HOLDS : 0,
                                         .go = visitor_go };
        if (limiter_enter(c->limiter, &keys[i % COUNT_OF(keys)], &v->pass) == LIMITER_IN)
            visitor_in(v);
    }
    return NULL;
}

static void any_thread_may_enter_and_leave(void **state)
{
    (void)state;
    struct sysclock *clock = sysclock_new();
    struct crowd *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->loop = loop_new(1);
    c->clock = sysclock_clock(clock);
    c->limiter = limiter_new(c->loop, c->clock);
    limiter_limit(c->limiter, LIMITER_ALL, NULL, (struct limiter_limits){ .running_max = ROOM });
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned j = 0; j < EACH; j++)
            c->visitors[i][j].crowd = c;
        assert_int_equal(pthread_create(&threads[i], NULL, visitors_main, c->visitors[i]), 0);
    }
    loop_run(c->loop);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&c->went) + atomic_load(&c->late), THREADS * EACH);
    assert_true(atomic_load(&c->most) <= ROOM);
    limiter_free(&c->limiter); /* a turn may be posted still */
    loop_free(&c->loop);
    free(c);
    sysclock_free(&clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_agree_with_a_count),
        cmocka_unit_test(any_thread_may_enter_and_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
