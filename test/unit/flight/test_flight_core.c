/* Goal: the invariants of flights (S3 to S6, L1 of the design notes) after every step of random
 * schedules, and single facts. Method: the decisions alone, a clock that is a number, makers that
 * are entries of a table; what ought to hold is kept beside in a model that knows only joins,
 * starts, ends and times. The seed is printed. */
#include "../cmocka_all.h"

#include "base/rng.h"
#include "flight/core.h"
#include "loop/limiter.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 6, SOURCES = 3, GUESTS = 120, MAKES = 4000, STEPS = 6000, SCHEDULES = 60 };
enum { BASE_MS = 500, MAX_MS = 4000, MAKE_MS = 3000 };

struct thing {
    struct flight_value value;
    unsigned make;
};
enum guest_state { GUEST_OUT, GUEST_IN };
struct make {
    unsigned key;
    struct flight *flight; /* once started */
    unsigned start_step;   /* 0: not yet */
    bool begun, canceled, finished, released;
    unsigned fresh; /* 0: not; else one more than it insists */
};
struct guest {
    struct flight_waiter waiter;
    enum guest_state state;
    unsigned key, join_step;
    uint64_t order;
    unsigned fresh;
};
struct row {              /* what is known of one key */
    int64_t silent_until; /* no computation may begin before: the shortest life of its last error */
    int64_t error_until;  /* and the longest one */
    unsigned failures_min,
        failures_max; /* in a row; whether old ones count is known only before and after a while */
};
struct world {
    struct flight_core *core;
    struct rng rng;
    mono now;
    unsigned step, makes_count, alive, done_now;
    uint64_t orders;
    struct make makes[MAKES];
    struct guest guests[GUESTS];
    struct row rows[KEYS];
    struct flight_opts opts;
    struct clock clock;
};

static struct world *world; /* of the running test: free functions have no other way to it */

static void thing_free(struct flight_value *v)
{
    world->alive--;
    free(CONTAINER_OF(v, struct thing, value));
}

static struct flight_value *thing_new(unsigned make)
{
    struct thing *t = calloc(1, sizeof *t);
    assert_non_null(t);
    atomic_store(&t->value.refs, 1);
    t->value.free = thing_free;
    t->make = make;
    world->alive++;
    return &t->value;
}

static void never_start(struct flight *f, void *ctx)
{
    (void)f, (void)ctx;
    fail_msg("the decisions called a maker");
}

static void never_cancel(struct flight *f, void *ctx)
{
    (void)f, (void)ctx;
    fail_msg("the decisions called a maker");
}

static void release(void *ctx)
{
    struct make *m = ctx;
    assert_false(m->released);
    assert_true(!m->begun || m->finished);
    m->released = true;
}

static str key_of(unsigned key)
{
    static const char *const keys[KEYS] = { "", "a", "b", "c", "dd", "e" };
    return str_of(keys[key]);
}

static const struct limiter_key *source_of(unsigned key)
{
    static const struct limiter_key sources[SOURCES] = { { .origin = STR_INIT("one") },
                                                         { .origin = STR_INIT("two") },
                                                         { .origin = STR_INIT("three") } };
    return &sources[key % SOURCES];
}

static unsigned below(struct world *w, unsigned bound)
{
    return (unsigned)rng_below(&w->rng, bound);
}

static mono world_now(struct clock *c)
{
    return CONTAINER_OF(c, struct world, clock)->now;
}

static void turn_came(struct limiter_pass *p, bool in)
{
    assert_true(in);
    flight_core_admit(world->core, flight_of_pass(p));
}

static struct world *world_new(uint64_t seed, const struct flight_opts *opts)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->opts = *opts;
    w->opts.seed = seed;
    w->now.ns = NS_PER_S;
    rng_init(&w->rng, seed);
    w->clock.mono_now = world_now;
    w->opts.limiter = limiter_new(NULL, &w->clock);
    w->core = flight_core_new(&w->opts, w, turn_came);
    world = w;
    return w;
}

static void world_free(struct world *w)
{
    assert_true(flight_core_idle(w->core));
    for (unsigned i = 0; i < w->makes_count; i++)
        assert_true(w->makes[i].released);
    flight_core_free(&w->core);
    limiter_free(&w->opts.limiter);
    assert_int_equal(w->alive, 0);
    free(w);
}

static const struct flight_opts roomy = { .flights_max = 100,
                                          .waiters_max = 1000,
                                          .waiters_all_max = 1000,
                                          .makes_max = 10,
                                          .makes_source_max = 10,
                                          .flights_source_max = 100,
                                          .errors_max = 100,
                                          .make_timeout_ms = MAKE_MS,
                                          .error_base_ms = BASE_MS,
                                          .error_max_ms = MAX_MS };

/* ---- what waiters get ---- */

static void check_value(const struct guest *g, struct flight_value *v)
{
    const struct thing *t = CONTAINER_OF(v, struct thing, value);
    const struct make *m = &world->makes[t->make];
    assert_int_equal(m->key, g->key);
    assert_false(m->canceled);
    if (g->fresh > 0)
        assert_true(m->start_step >= g->join_step); /* begun from its join on */
    assert_true(m->fresh >= g->fresh);
}

static void guest_done(struct flight_waiter *waiter, err why, struct flight_value *v,
                       const struct err_note *note)
{
    struct guest *g = CONTAINER_OF(waiter, struct guest, waiter);
    assert_int_equal(g->state, GUEST_IN); /* exactly once */
    g->state = GUEST_OUT;
    world->done_now++;
    assert_int_equal(why == ERR_OK, v != NULL);
    assert_int_equal(why == ERR_OK, note == NULL);
    if (why == ERR_OK)
        check_value(g, v);
    if (why == ERR_TIMEOUT && waiter->retry_after_ms == 0)
        assert_true(waiter->deadline.ns <= world->now.ns);
    if (waiter->retry_after_ms > 0)
        assert_true(waiter->retry_after_ms <= MAX_MS * 12 / 10 + 1);
}

/* ---- steps ---- */

static bool guest_join(struct world *w, struct guest *g, unsigned key, int64_t wait_ms,
                       unsigned fresh, bool keep_idle)
{
    assert_true(w->makes_count < MAKES);
    struct make *m = &w->makes[w->makes_count++];
    *m = (struct make){ .key = key, .fresh = fresh };
    struct flight_maker maker = { .start = never_start,
                                  .cancel = never_cancel,
                                  .release = release,
                                  .ctx = m,
                                  .keep_idle = keep_idle,
                                  .fresh = fresh > 0,
                                  .insists = fresh > 0 ? fresh - 1 : 0,
                                  .source = source_of(key) };
    struct flight_maker spare = maker;
    g->waiter =
        (struct flight_waiter){ .deadline = mono_add_ms(w->now, wait_ms), .done = guest_done };
    g->key = key, g->fresh = fresh, g->join_step = w->step, g->order = ++w->orders;
    struct flight_join j = { .key = key_of(key), .maker = &maker, .waiter = &g->waiter };
    err e = flight_core_join(w->core, w->now, &j, &spare);
    if (spare.release != NULL)
        spare.release(spare.ctx);
    g->state = e == ERR_OK ? GUEST_IN : GUEST_OUT;
    if (e == ERR_OK && g->waiter.detail == FLIGHT_NEGATIVE)
        assert_true(w->now.ns < w->rows[key].error_until); /* never after its life */
    if (e == ERR_OK && g->waiter.detail != FLIGHT_NEGATIVE)
        assert_true(w->now.ns >= w->rows[key].silent_until);
    return e == ERR_OK;
}

static unsigned active(const struct world *w, unsigned key)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->makes_count; i++) {
        const struct make *m = &w->makes[i];
        n += m->key == key && m->begun && !m->finished && !m->canceled;
    }
    return n;
}

/* What a source is making; what was told to stop goes on until it has ended. */
static unsigned making(const struct world *w, const struct limiter_key *source)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->makes_count; i++) {
        const struct make *m = &w->makes[i];
        n += m->begun && !m->finished && source_of(m->key) == source;
    }
    return n;
}

static void perform(struct world *w, const struct flight_todo *todo)
{
    struct make *m = flight_maker_of(todo->flight)->ctx;
    switch (todo->what) {
    case FLIGHT_START:
        assert_false(m->begun);
        assert_false(m->released);
        assert_int_equal(active(w, m->key), 0); /* one leader of a key */
        assert_true(making(w, source_of(m->key)) < w->opts.makes_source_max);
        assert_true(w->now.ns >= w->rows[m->key].silent_until);
        assert_true(str_eq(flight_key(todo->flight), key_of(m->key)));
        m->begun = true;
        m->start_step = w->step;
        m->flight = todo->flight;
        break;
    case FLIGHT_CANCEL:
        assert_true(m->begun);
        assert_false(m->released);
        m->canceled = true;
        break;
    case FLIGHT_RELEASE:
        release(m);
        break;
    case FLIGHT_DOES:
        fail();
    }
}

static void turn(struct world *w, unsigned max)
{
    struct flight_todo todo[64];
    struct flight_call calls[64];
    limiter_turn(w->opts.limiter);
    flight_core_tick(w->core, w->now);
    unsigned n = flight_core_todo(w->core, todo, max),
             calls_count = flight_core_calls(w->core, calls, max);
    for (unsigned i = 0; i < n; i++)
        perform(w, &todo[i]);
    for (unsigned i = 0; i < calls_count; i++)
        flight_call(&calls[i]);
    for (unsigned i = 0; i < n; i++)
        if (todo[i].what == FLIGHT_RELEASE)
            flight_core_released(w->core, todo[i].flight);
    flight_core_called(w->core, calls, calls_count);
    flight_outcomes_free(flight_core_spent(w->core));
}

static void settle(struct world *w)
{
    for (unsigned i = 0; i < 1000 && (flight_core_busy(w->core) || i < 2); i++)
        turn(w, 64);
    assert_false(flight_core_busy(w->core));
}

static int64_t life_ms(unsigned in_a_row)
{
    int64_t ms = BASE_MS;
    for (unsigned i = 1; i < in_a_row && ms < MAX_MS; i++)
        ms *= 2;
    return ms < MAX_MS ? ms : MAX_MS;
}

/* Of a failure at now: how long no computation may begin, and how long it may be told. */
static void note_failure(struct world *w, unsigned key)
{
    struct row *r = &w->rows[key];
    if (w->now.ns >= r->silent_until + MAX_MS * NS_PER_MS)
        r->failures_min = 0;
    if (w->now.ns >= r->error_until + MAX_MS * NS_PER_MS)
        r->failures_max = 0;
    r->silent_until = w->now.ns + life_ms(++r->failures_min) * NS_PER_MS * 8 / 10;
    r->error_until = w->now.ns + life_ms(++r->failures_max) * NS_PER_MS * 12 / 10;
}

static void make_finish(struct world *w, struct make *m, err why, bool keep)
{
    m->finished = true;
    bool heard = !m->canceled;
    if (why == ERR_OK)
        w->rows[m->key] = (struct row){ 0 };
    else if (heard && keep && why != ERR_SHUTDOWN)
        note_failure(w, m->key);
    else if (heard && why != ERR_SHUTDOWN)
        w->rows[m->key] = (struct row){ 0 };
    struct flight_result r = { .why = why,
                               .keep_error = keep,
                               .value =
                                   why == ERR_OK ? thing_new((unsigned)(m - w->makes)) : NULL };
    flight_core_finish(w->core, w->now, m->flight, &r);
}

/* ---- the simulation ---- */

static void step_join(struct world *w)
{
    struct guest *g = &w->guests[below(w, GUESTS)];
    const unsigned fresh = below(w, 10);
    if (g->state == GUEST_OUT)
        (void)guest_join(w, g, below(w, KEYS), (int64_t)below(w, 6000), fresh < 3 ? fresh : 0,
                         below(w, 2) == 0); /* refused: nothing to do */
}

static void step_leave(struct world *w)
{
    struct guest *g = &w->guests[below(w, GUESTS)];
    bool left = flight_core_leave(w->core, &g->waiter);
    assert_int_equal(left,
                     g->state == GUEST_IN); /* in this world nobody is between taken and called */
    g->state = GUEST_OUT;
}

static void step_finish(struct world *w)
{
    static const struct {
        err why;
        bool keep;
    } ends[] = {
        { ERR_OK, false },        { ERR_OK, false },      { ERR_UNAVAILABLE, true },
        { ERR_NOT_FOUND, false }, { ERR_SHUTDOWN, true },
    };
    unsigned from = below(w, w->makes_count + 1), kind = below(w, COUNT_OF(ends));
    for (unsigned i = 0; i < w->makes_count; i++) {
        struct make *m = &w->makes[(from + i) % w->makes_count];
        if (!m->begun || m->finished)
            continue;
        bool counts = ends[kind].why != ERR_OK && ends[kind].why != ERR_SHUTDOWN;
        /* whether it is heard depends on a cancel that may be on its way: let it arrive */
        if (counts)
            settle(w);
        make_finish(w, m, ends[kind].why, ends[kind].keep);
        return;
    }
}

/* A computation out of time is canceled by the tick; the model learns of it here, before START of
 * another. */
static void step_time(struct world *w)
{
    settle(w);
    w->now = mono_add_ms(w->now, (int64_t)below(w, 800));
    for (unsigned i = 0; i < w->makes_count; i++) {
        struct make *m = &w->makes[i];
        if (m->begun && !m->finished && !m->canceled &&
            flight_deadline(m->flight).ns <= w->now.ns) {
            m->canceled = true;
            note_failure(w, m->key);
        }
    }
    settle(w);
    for (unsigned i = 0; i < GUESTS; i++) /* every wait has its end */
        assert_true(w->guests[i].state == GUEST_OUT || w->guests[i].waiter.deadline.ns > w->now.ns);
}

/* Lower ones, too: what is there goes on. */
static void step_limit(struct world *w)
{
    w->opts.makes_max++;
    w->opts.makes_source_max++;
    w->opts.flights_max = 4 + below(w, 8);
    w->opts.flights_source_max = 2 + below(w, 4);
    w->opts.waiters_max = 10 + below(w, 20);
    w->opts.waiters_all_max = 30 + below(w, 60);
    flight_core_limit(w->core, &w->opts);
}

static void step(struct world *w)
{
    unsigned dice = below(w, 100);
    if (dice < 45)
        step_join(w);
    else if (dice < 55)
        step_leave(w);
    else if (dice < 70)
        step_finish(w);
    else if (dice < 75)
        step_time(w);
    else if (dice < 99)
        turn(w, 1 + below(w, 64));
    else
        step_limit(w);
    flight_core_check(w->core);
    limiter_check(w->opts.limiter);
}

/* L1: when every computation ends, every waiter is called. */
static void run_out(struct world *w)
{
    for (unsigned i = 0; i < MAKES && !flight_core_idle(w->core); i++) {
        settle(w);
        step_finish(w);
        flight_core_check(w->core);
    }
    settle(w);
    for (unsigned i = 0; i < GUESTS; i++)
        assert_int_equal(w->guests[i].state, GUEST_OUT);
}

static void simulate(uint64_t seed)
{
    struct flight_opts tight = roomy;
    tight.flights_max = 8, tight.waiters_max = 20, tight.waiters_all_max = 60, tight.makes_max = 3;
    tight.makes_source_max = 2, tight.flights_source_max = 4;
    struct world *w = world_new(seed, seed % 2 == 0 ? &tight : &roomy);
    for (w->step = 1; w->step <= STEPS && w->makes_count < MAKES - 1; w->step++)
        step(w);
    if (seed % 3 == 0) {
        struct guest late = { .state = GUEST_OUT };
        flight_core_drain(w->core);
        flight_core_check(w->core);
        assert_false(guest_join(w, &late, 1, 100, 0, false));
    }
    run_out(w);
    world_free(w);
}

static void invariants_hold_after_every_step(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        simulate(seed);
    }
}

/* ---- sources ---- */

enum { HUNG = 0, WELL = 1, FROM_EACH = 20, PLACES = 6, PLACES_OF_ONE = 4 };
struct line {
    char key[2];
    struct make make;
    struct guest guest;
};

static err line_join(struct world *w, struct line *l, char name, unsigned source)
{
    *l = (struct line){ .key = { name }, .make = { .key = source } };
    struct flight_maker maker = { .start = never_start,
                                  .release = release,
                                  .ctx = &l->make,
                                  .keep_idle = true,
                                  .source = source_of(source) };
    struct flight_maker spare = maker;
    l->guest = (struct guest){ .state = GUEST_IN,
                               .key = source,
                               .waiter = { .deadline = mono_add_ms(w->now, MAKE_MS),
                                           .done = guest_done } };
    struct flight_join j = { .key = str_of(l->key), .maker = &maker, .waiter = &l->guest.waiter };
    err why = flight_core_join(w->core, w->now, &j, &spare);
    if (spare.release != NULL)
        spare.release(spare.ctx);
    return why;
}

/* Takes what is to be started; returns how many. */
static unsigned lines_start(struct world *w)
{
    struct flight_todo todo[64];
    unsigned started = 0;
    limiter_turn(w->opts.limiter);
    flight_core_tick(w->core, w->now);
    unsigned n = flight_core_todo(w->core, todo, COUNT_OF(todo));
    for (unsigned i = 0; i < n; i++) {
        struct make *m = flight_maker_of(todo[i].flight)->ctx;
        if (todo[i].what == FLIGHT_START)
            m->begun = true, m->flight = todo[i].flight, started++;
        else if (todo[i].what == FLIGHT_RELEASE)
            release(m), flight_core_released(w->core, todo[i].flight);
    }
    flight_core_check(w->core);
    return started;
}

static void line_end(struct world *w, struct line *l)
{
    assert_true(l->make.begun);
    l->make.finished = true;
    flight_core_finish(w->core, w->now, l->make.flight,
                       &(struct flight_result){ .why = ERR_UNAVAILABLE, .keep_error = false });
}

static void lines_call(struct world *w)
{
    struct flight_call calls[64];
    for (unsigned n = 1; n > 0;) {
        n = flight_core_calls(w->core, calls, COUNT_OF(calls));
        for (unsigned i = 0; i < n; i++)
            flight_call(&calls[i]);
        flight_core_called(w->core, calls, n);
    }
    flight_outcomes_free(flight_core_spent(w->core));
}

static unsigned begun_of(const struct line *lines)
{
    unsigned n = 0;
    for (unsigned i = 0; i < FROM_EACH; i++)
        n += lines[i].make.begun;
    return n;
}

/* All that a hung source has was asked for first: the other one's are made all the same, in
 * order. */
static void a_source_that_hangs_delays_no_other(void **state)
{
    (void)state;
    struct flight_opts opts = roomy;
    opts.makes_max = PLACES, opts.makes_source_max = PLACES_OF_ONE;
    struct world *w = world_new(1, &opts);
    struct line hung[FROM_EACH], well[FROM_EACH];
    for (unsigned i = 0; i < FROM_EACH; i++)
        assert_int_equal(line_join(w, &hung[i], (char)('a' + i), HUNG), ERR_OK);
    assert_int_equal(lines_start(w), PLACES_OF_ONE);
    assert_false(flight_core_busy(w->core)); /* no turn of the loop for what may not begin */
    for (unsigned i = 0; i < FROM_EACH; i++)
        assert_int_equal(line_join(w, &well[i], (char)('A' + i), WELL), ERR_OK);
    assert_int_equal(lines_start(w), PLACES - PLACES_OF_ONE);
    for (unsigned i = 0; i < FROM_EACH; i++) {
        line_end(w, &well[i]);
        (void)lines_start(w);
    }
    lines_call(w);
    assert_int_equal(begun_of(hung), PLACES_OF_ONE);
    for (unsigned i = 0; i < FROM_EACH; i++) {
        line_end(w, &hung[i]);
        (void)lines_start(w);
    }
    lines_call(w);
    (void)lines_start(w); /* releases */
    world_free(w);
}

/* Two that both want all there is get it in turn. */
static void sources_take_turns(void **state)
{
    (void)state;
    struct flight_opts opts = roomy;
    opts.makes_max = 1, opts.makes_source_max = 1;
    struct world *w = world_new(1, &opts);
    struct line first[FROM_EACH], second[FROM_EACH];
    for (unsigned i = 0; i < FROM_EACH; i++)
        assert_int_equal(line_join(w, &first[i], (char)('a' + i), HUNG), ERR_OK);
    for (unsigned i = 0; i < FROM_EACH; i++)
        assert_int_equal(line_join(w, &second[i], (char)('A' + i), WELL), ERR_OK);
    for (unsigned i = 0; i < FROM_EACH; i++) {
        assert_int_equal(lines_start(w), 1);
        line_end(w, &first[i]);
        assert_int_equal(lines_start(w), 1);
        line_end(w, &second[i]);
    }
    lines_call(w);
    (void)lines_start(w); /* releases */
    world_free(w);
}

static void one_source_leaves_keys_to_the_others(void **state)
{
    (void)state;
    struct flight_opts opts = roomy;
    opts.flights_max = 5, opts.flights_source_max = 3;
    struct world *w = world_new(1, &opts);
    struct line lines[7];
    for (unsigned i = 0; i < COUNT_OF(lines); i++) {
        err want = i == 3 || i == 6 ? ERR_LIMIT : ERR_OK; /* of one source; of all */
        assert_int_equal(line_join(w, &lines[i], (char)('a' + i), i < 4 ? HUNG : WELL), want);
    }
    (void)lines_start(w);
    for (unsigned i = 0; i < COUNT_OF(lines); i++)
        if (lines[i].make.begun)
            line_end(w, &lines[i]);
    lines_call(w);
    (void)lines_start(w); /* releases */
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_after_every_step),
        cmocka_unit_test(a_source_that_hangs_delays_no_other),
        cmocka_unit_test(sources_take_turns),
        cmocka_unit_test(one_source_leaves_keys_to_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
