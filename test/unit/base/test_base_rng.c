/* Goal: the published generator, equal seeds equal, fair bounds. Method: reference values computed
 * by the definition in the test, counts within wide bounds. */
#include "base/rng.h"

#include "base/check.h"

#include "../cmocka_all.h"

static void the_sequence_is_that_of_xoshiro256starstar(void **state)
{
    (void)state;
    /* From the published C code with state 1, 2, 3, 4. */
    static const uint64_t want[] = { 11520, 0, 1509978240, 1215971899390074240 };
    struct rng r = { .s = { 1, 2, 3, 4 } };
    for (size_t i = 0; i < COUNT_OF(want); i++)
        assert_true(rng_next(&r) == want[i]);
}

static void equal_seeds_repeat_and_others_differ(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_init(&a, 0);
    rng_init(&b, 0);
    rng_init(&c, 1);
    assert_true((a.s[0] | a.s[1] | a.s[2] | a.s[3]) != 0);
    unsigned same = 0;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t v = rng_next(&a);
        assert_true(v == rng_next(&b));
        same += v == rng_next(&c);
    }
    assert_int_equal(same, 0);
}

static void bounds_hold_and_are_fair(void **state)
{
    (void)state;
    struct rng r;
    unsigned counts[6] = { 0 };
    rng_init(&r, 6);
    for (unsigned i = 0; i < 60000; i++)
        counts[rng_below(&r, 6)]++;
    for (unsigned i = 0; i < 6; i++) {
        assert_true(counts[i] > 9500); /* 10,000 expected, deviation 91 */
        assert_true(counts[i] < 10500);
    }
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(rng_below(&r, 1), 0);
        assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
        assert_true(rng_below(&r, (1ull << 63) + 1) <= 1ull << 63);
    }
}

static void the_unit_is_half_open(void **state)
{
    (void)state;
    struct rng r;
    double sum = 0;
    rng_init(&r, 7);
    for (unsigned i = 0; i < 100000; i++) {
        double v = rng_unit(&r);
        assert_true(v >= 0);
        assert_true(v < 1);
        sum += v;
    }
    assert_true(sum > 49000);
    assert_true(sum < 51000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_is_that_of_xoshiro256starstar),
        cmocka_unit_test(equal_seeds_repeat_and_others_differ),
        cmocka_unit_test(bounds_hold_and_are_fair),
        cmocka_unit_test(the_unit_is_half_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
