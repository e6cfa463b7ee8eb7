/* Goal: store_time never falls, leans by 500 ppm at most, never overshoots. Method: given
 * readings. */
#include "base/rng.h"
#include "base/times.h"
#include "loop/slew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void without_an_offset_it_runs_with_the_machine(void **state)
{
    (void)state;
    struct slew s = { .boot_ns = 1000, .store_ns = 50 };
    assert_int_equal(slew_at(&s, 1000), 50);
    assert_int_equal(slew_at(&s, 1001), 51);
    assert_int_equal(slew_at(&s, 1000 + 86400 * NS_PER_S), 50 + 86400 * NS_PER_S);
}

static void a_reading_before_the_anchor_counts_as_the_anchor(void **state)
{
    (void)state;
    struct slew s = { .boot_ns = 1000, .store_ns = 50, .offset_ns = -7 };
    assert_int_equal(slew_at(&s, 999), 50);
    assert_int_equal(slew_at(&s, INT64_MIN), 50);
}

static void it_leans_500_us_a_second_and_stops_at_the_target(void **state)
{
    (void)state;
    struct slew up = { .offset_ns = NS_PER_MS };
    assert_int_equal(slew_at(&up, NS_PER_S), NS_PER_S + 500000);
    assert_int_equal(slew_at(&up, 2 * NS_PER_S), 2 * NS_PER_S + NS_PER_MS);
    assert_int_equal(slew_at(&up, 9 * NS_PER_S), 9 * NS_PER_S + NS_PER_MS);
    struct slew down = { .offset_ns = -NS_PER_MS };
    assert_int_equal(slew_at(&down, NS_PER_S), NS_PER_S - 500000);
    assert_int_equal(slew_at(&down, 9 * NS_PER_S), 9 * NS_PER_S - NS_PER_MS);
}

static void a_new_anchor_continues_the_line(void **state)
{
    (void)state;
    struct slew s = { .offset_ns = -NS_PER_MS };
    struct slew next = slew_towards(&s, NS_PER_S, 5 * NS_PER_S);
    assert_int_equal(slew_at(&next, NS_PER_S), slew_at(&s, NS_PER_S));
    assert_int_equal(next.offset_ns, 4 * NS_PER_S + 500000);
    struct slew back = slew_towards(&next, 0, 0); /* a reading from before the anchor */
    assert_int_equal(back.boot_ns, NS_PER_S);
    assert_int_equal(slew_at(&back, NS_PER_S), slew_at(&s, NS_PER_S));
}

static void the_ends_of_the_range_saturate(void **state)
{
    (void)state;
    struct slew s = { .store_ns = INT64_MAX - 10, .offset_ns = INT64_MAX };
    assert_int_equal(slew_at(&s, 5), INT64_MAX - 5);
    assert_int_equal(slew_at(&s, NS_PER_S), INT64_MAX);
    struct slew low = { .boot_ns = INT64_MIN, .store_ns = INT64_MIN };
    assert_int_equal(slew_at(&low, INT64_MAX), -1); /* elapsed itself saturates */
    struct slew far = slew_towards(&low, 0, INT64_MAX);
    assert_int_equal(far.offset_ns, INT64_MAX);
}

/* The target wanders and steps as a wall clock under a wild NTP would. */
static void under_a_wild_target_it_never_falls_and_never_leans_more(void **state)
{
    (void)state;
    struct rng r;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        rng_init(&r, seed);
        struct slew s = { .store_ns = 1000 * NS_PER_S };
        int64_t boot = 0, before = slew_at(&s, 0);
        for (unsigned step = 0; step < 1000; step++) {
            int64_t passed = (int64_t)rng_below(&r, 2 * NS_PER_S);
            boot += passed;
            int64_t now = slew_at(&s, boot);
            int64_t wrong = now - before - passed;
            assert_true(now >= before);
            assert_true(wrong <= passed / 2000);
            assert_true(-wrong <= passed / 2000);
            before = now;
            int64_t target = now + (int64_t)rng_below(&r, 200 * NS_PER_S) - 100 * NS_PER_S;
            s = slew_towards(&s, boot, rng_below(&r, 4) == 0 ? target : now + 300);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_offset_it_runs_with_the_machine),
        cmocka_unit_test(a_reading_before_the_anchor_counts_as_the_anchor),
        cmocka_unit_test(it_leans_500_us_a_second_and_stops_at_the_target),
        cmocka_unit_test(a_new_anchor_continues_the_line),
        cmocka_unit_test(the_ends_of_the_range_saturate),
        cmocka_unit_test(under_a_wild_target_it_never_falls_and_never_leans_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
