/* Goal: the hooks of docs/api.md, 9, and readers that never see time fall beside a writer.
 * Method: the real kernel clocks, CLOCK_REALTIME set by a shift of the test; bounds instead of
 * exact readings. */
#include "loop/sysclock.h"

#include "base/check.h"
#include "loop/entropy.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const store_time past = { .ns = 1767225600123456789 }; /* 2026-01-01T00:00:00.123456789Z */

#define HOUR_NS (3600 * NS_PER_S)
#define DAY_NS (24 * HOUR_NS)
#define YEAR_NS (365 * DAY_NS)

static _Atomic int64_t wall_shift_ns; /* how far somebody has set the machine's clock */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int got = __real_clock_gettime(id, t);
    if (id == CLOCK_REALTIME) {
        int64_t ns = (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec + atomic_load(&wall_shift_ns);
        t->tv_sec = ns / NS_PER_S;
        t->tv_nsec = ns % NS_PER_S;
    }
    return got;
}

static int wall_is_right(void **state)
{
    (void)state;
    atomic_store(&wall_shift_ns, 0);
    return 0;
}

static int64_t store_ns(struct sysclock *c)
{
    return clock_store(sysclock_clock(c)).ns;
}

static int64_t wall_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void it_starts_at_wall_and_runs(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    int64_t before = wall_ns();
    sysclock_start(c, STORE_TIME_ZERO);
    int64_t now = store_ns(c);
    assert_true(now >= before);
    assert_true(now < before + 60 * NS_PER_S);
    mono began = clock_mono(sysclock_clock(c));
    while (store_ns(c) == now)
        assert_true(clock_mono(sysclock_clock(c)).ns < began.ns + 10 * NS_PER_S);
    sysclock_free(&c);
    assert_null(c);
}

static void it_starts_no_earlier_than_what_is_stored(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    int64_t stored = wall_ns() + 3600 * NS_PER_S;
    sysclock_start(c, (store_time){ .ns = stored });
    assert_true(store_ns(c) >= stored);
    sysclock_tick(c);
    int64_t now = store_ns(c);
    assert_true(now >= stored); /* leaning back, not stepping back */
    assert_true(now < stored + 60 * NS_PER_S);
    sysclock_free(&c);
}

static void frozen_it_stands_to_the_nanosecond(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    sysclock_start(c, STORE_TIME_ZERO);
    assert_int_equal(sysclock_freeze(c, past, NULL), ERR_OK); /* the first may go back */
    assert_int_equal(store_ns(c), past.ns);
    sysclock_tick(c);
    assert_int_equal(store_ns(c), past.ns);
    assert_int_equal(sysclock_advance(c, 90 * NS_PER_S, NULL), ERR_OK);
    assert_int_equal(store_ns(c), past.ns + 90 * NS_PER_S);
    assert_int_equal(sysclock_advance(c, 0, NULL), ERR_OK);
    assert_int_equal(store_ns(c), past.ns + 90 * NS_PER_S);
    sysclock_free(&c);
}

static void later_freezes_do_not_go_back(void **state)
{
    (void)state;
    struct err_note note = { .text = "" };
    struct sysclock *c = sysclock_new();
    sysclock_start(c, STORE_TIME_ZERO);
    assert_int_equal(sysclock_freeze(c, past, &note), ERR_OK);
    assert_int_equal(sysclock_freeze(c, past, &note), ERR_OK);
    assert_int_equal(sysclock_freeze(c, (store_time){ .ns = past.ns - 1 }, &note), ERR_BAD);
    assert_non_null(strstr(note.text, "2026-01-01T00:00:00.123456789Z"));
    assert_int_equal(sysclock_freeze(c, (store_time){ .ns = past.ns + 1 }, NULL), ERR_OK);
    assert_int_equal(store_ns(c), past.ns + 1);
    sysclock_resume(c);
    assert_int_equal(sysclock_freeze(c, past, NULL), ERR_BAD);
    sysclock_free(&c);
}

static void bad_advances_change_nothing(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    assert_int_equal(sysclock_freeze(c, past, NULL), ERR_OK);
    assert_int_equal(sysclock_advance(c, -1, NULL), ERR_BAD);
    assert_int_equal(sysclock_advance(c, INT64_MAX, NULL), ERR_BAD);
    assert_int_equal(store_ns(c), past.ns);
    sysclock_free(&c);
}

static void resumed_it_runs_from_there_or_from_wall(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    sysclock_start(c, STORE_TIME_ZERO);
    int64_t before = wall_ns();
    assert_int_equal(sysclock_freeze(c, past, NULL), ERR_OK);
    sysclock_resume(c);
    assert_true(store_ns(c) >= before);
    store_time ahead = { .ns = wall_ns() + 3600 * NS_PER_S };
    assert_int_equal(sysclock_freeze(c, ahead, NULL), ERR_OK);
    sysclock_resume(c);
    sysclock_resume(c); /* not frozen any more: nothing */
    int64_t now = store_ns(c);
    assert_true(now >= ahead.ns);
    assert_true(now < ahead.ns + 60 * NS_PER_S);
    assert_int_equal(sysclock_advance(c, 3600 * NS_PER_S, NULL), ERR_OK);
    assert_true(store_ns(c) >= now + 3600 * NS_PER_S);
    sysclock_free(&c);
}

static void frozen_before_the_store_it_stands_at_least_where_that_ends(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    assert_int_equal(sysclock_freeze(c, past, NULL), ERR_OK);
    sysclock_start(c, (store_time){ .ns = past.ns - 5 });
    assert_int_equal(store_ns(c), past.ns);
    sysclock_start(c, (store_time){ .ns = past.ns + 5 });
    assert_int_equal(store_ns(c), past.ns + 5);
    sysclock_free(&c);
}

/* Started on what was stored at this time, a leap of 90 days believed. */
static struct sysclock *started_after(int64_t stored_ns)
{
    struct sysclock *c = sysclock_new();
    sysclock_believe(c, 90 * DAY_NS);
    sysclock_start(c, (store_time){ .ns = stored_ns });
    return c;
}

static void assert_at(struct sysclock *c, int64_t ns)
{
    int64_t now = store_ns(c);
    assert_true(now >= ns);
    assert_true(now < ns + HOUR_NS); /* the slowest machine */
}

static void set_forward_it_follows_and_says_so(void **state)
{
    (void)state;
    struct sysclock *c = started_after(wall_ns() - DAY_NS);
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_NEAR);
    atomic_store(&wall_shift_ns, 2 * DAY_NS);
    int64_t at_wall = wall_ns();
    struct sysclock_look look = sysclock_tick(c);
    assert_int_equal(look.verdict, SYSCLOCK_STEPPED);
    assert_true(look.lead_ns > DAY_NS);
    assert_at(c, at_wall);
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_NEAR);
    sysclock_free(&c);
}

static void set_back_it_runs_on_until_wall_has_come_up(void **state)
{
    (void)state;
    struct sysclock *c = started_after(0);
    int64_t before = store_ns(c);
    atomic_store(&wall_shift_ns, -3 * DAY_NS);
    struct sysclock_look look = sysclock_tick(c);
    assert_int_equal(look.verdict, SYSCLOCK_BEHIND);
    assert_true(look.lead_ns <= -2 * DAY_NS);
    assert_at(c, before);
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_BEHIND);
    atomic_store(&wall_shift_ns, 0);
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_NEAR);
    assert_at(c, before);
    sysclock_free(&c);
}

static void years_ahead_at_the_start_it_goes_on_from_what_is_stored(void **state)
{
    (void)state;
    int64_t stored = wall_ns() - HOUR_NS;
    atomic_store(&wall_shift_ns, 10 * YEAR_NS);
    struct sysclock *c = started_after(stored);
    assert_at(c, stored);
    struct sysclock_look look = sysclock_tick(c);
    assert_int_equal(look.verdict, SYSCLOCK_LEAP);
    assert_true(look.lead_ns > 9 * YEAR_NS);
    assert_at(c, stored);
    sysclock_start(c, (store_time){ .ns = stored - DAY_NS }); /* a further store */
    assert_at(c, stored);
    atomic_store(&wall_shift_ns, 0); /* set right */
    int64_t at_wall = wall_ns();
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_STEPPED);
    assert_at(c, at_wall);
    sysclock_free(&c);
}

static void years_ahead_later_it_runs_on_as_if_nothing_was(void **state)
{
    (void)state;
    struct sysclock *c = started_after(wall_ns() - HOUR_NS);
    int64_t before = store_ns(c);
    atomic_store(&wall_shift_ns, 10 * YEAR_NS);
    assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_LEAP);
    assert_at(c, before);
    sysclock_free(&c);
}

static void told_that_it_is_right_years_ahead_is_believed(void **state)
{
    (void)state;
    struct sysclock *c = sysclock_new();
    sysclock_believe(c, DURATION_NEVER);
    int64_t at_wall = wall_ns();
    sysclock_start(c, (store_time){ .ns = at_wall - 10 * YEAR_NS });
    assert_at(c, at_wall);
    sysclock_free(&c);
}

/* As a machine without a battery starts, with an empty store or one that was made like this. */
static void a_clock_that_nobody_had_set_is_left_for_any_other(void **state)
{
    (void)state;
    int64_t at_wall = wall_ns();
    for (int64_t stored = 0; stored <= HOUR_NS; stored += HOUR_NS) {
        atomic_store(&wall_shift_ns, HOUR_NS - at_wall);
        struct sysclock *c = started_after(stored);
        assert_true(store_ns(c) < DAY_NS); /* 1970 */
        assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_NEAR);
        atomic_store(&wall_shift_ns, 0);
        assert_int_equal(sysclock_tick(c).verdict, SYSCLOCK_STEPPED);
        assert_at(c, at_wall);
        sysclock_free(&c);
    }
}

struct watch {
    struct sysclock *clock;
    atomic_bool stop;
    atomic_uint reads;
    _Atomic int64_t greatest; /* seen by anybody, before anybody's next reading began */
};

static void *watch_main(void *ctx)
{
    struct watch *w = ctx;
    while (!atomic_load(&w->stop)) {
        int64_t floor = atomic_load(&w->greatest);
        int64_t now = store_ns(w->clock);
        assert_true(now >= floor);
        int64_t seen = atomic_load(&w->greatest);
        while (seen < now && !atomic_compare_exchange_weak(&w->greatest, &seen, now)) {
        }
        atomic_fetch_add(&w->reads, 1);
    }
    return NULL;
}

static void readers_never_see_it_fall_beside_ticks_and_hooks(void **state)
{
    (void)state;
    struct watch w = { .clock = sysclock_new() };
    pthread_t threads[3];
    sysclock_start(w.clock, (store_time){ .ns = wall_ns() + NS_PER_S });
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch_main, &w), 0);
    for (unsigned i = 0; i < 3000 || atomic_load(&w.reads) < 3000; i++) {
        sysclock_tick(w.clock);
        if (i % 100 == 0) {
            store_time next = { .ns = store_ns(w.clock) + NS_PER_S };
            assert_int_equal(sysclock_freeze(w.clock, next, NULL), ERR_OK);
            assert_int_equal(sysclock_advance(w.clock, 1, NULL), ERR_OK);
            sysclock_resume(w.clock);
        }
    }
    atomic_store(&w.stop, true);
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    sysclock_free(&w.clock);
}

static void entropy_fills_what_it_is_given(void **state)
{
    (void)state;
    unsigned char bytes[600] = { 0 };
    entropy_bytes(bytes + 1, sizeof bytes - 2);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[sizeof bytes - 1], 0);
    unsigned zeros = 0;
    for (size_t i = 1; i < sizeof bytes - 1; i++)
        zeros += bytes[i] == 0;
    assert_true(zeros < 60); /* 2.3 expected */
    entropy_bytes(bytes, 0);
    assert_true(entropy_u64() != entropy_u64());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_at_wall_and_runs),
        cmocka_unit_test(it_starts_no_earlier_than_what_is_stored),
        cmocka_unit_test(frozen_it_stands_to_the_nanosecond),
        cmocka_unit_test(later_freezes_do_not_go_back),
        cmocka_unit_test(bad_advances_change_nothing),
        cmocka_unit_test(resumed_it_runs_from_there_or_from_wall),
        cmocka_unit_test(frozen_before_the_store_it_stands_at_least_where_that_ends),
        cmocka_unit_test_teardown(set_forward_it_follows_and_says_so, wall_is_right),
        cmocka_unit_test_teardown(set_back_it_runs_on_until_wall_has_come_up, wall_is_right),
        cmocka_unit_test_teardown(years_ahead_at_the_start_it_goes_on_from_what_is_stored,
                                  wall_is_right),
        cmocka_unit_test_teardown(years_ahead_later_it_runs_on_as_if_nothing_was, wall_is_right),
        cmocka_unit_test_teardown(told_that_it_is_right_years_ahead_is_believed, wall_is_right),
        cmocka_unit_test_teardown(a_clock_that_nobody_had_set_is_left_for_any_other, wall_is_right),
        cmocka_unit_test(readers_never_see_it_fall_beside_ticks_and_hooks),
        cmocka_unit_test(entropy_fills_what_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
