/* Goal: sums saturate, never stays never. Method: the ends of the range. */
#include "base/times.h"

#include "../cmocka_all.h"

static void store_times_saturate(void **state)
{
    (void)state;
    store_time t = { .ns = 5 };
    assert_int_equal(store_time_add(t, 7).ns, 12);
    assert_int_equal(store_time_add(t, -7).ns, -2);
    assert_true(store_time_add(t, DURATION_NEVER).ns == INT64_MAX);
    assert_true(store_time_add((store_time){ .ns = -5 }, DURATION_NEVER).ns == INT64_MAX);
    assert_true(store_time_add(STORE_TIME_NEVER, -7).ns == INT64_MAX);
    assert_true(store_time_add((store_time){ .ns = INT64_MAX - 1 }, 7).ns == INT64_MAX);
    assert_true(store_time_add((store_time){ .ns = INT64_MIN + 1 }, -7).ns == INT64_MIN);
}

static void deadlines_saturate(void **state)
{
    (void)state;
    mono t = { .ns = 5 };
    assert_int_equal(mono_add_ms(t, 2).ns, 2000005);
    assert_true(mono_add_ms(t, DURATION_NEVER).ns == INT64_MAX);
    assert_true(mono_add_ms((mono){ .ns = INT64_MAX - 1 }, 1).ns == INT64_MAX);
    assert_true(mono_add_ms(t, INT64_MIN).ns == INT64_MIN);
}

static void order(void **state)
{
    (void)state;
    store_time a = { .ns = -1 }, b = { .ns = 1 };
    assert_true(store_time_before(a, b));
    assert_false(store_time_before(b, a));
    assert_false(store_time_before(a, a));
    assert_int_equal(store_time_max(a, b).ns, 1);
    assert_int_equal(store_time_max(b, a).ns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_times_saturate),
        cmocka_unit_test(deadlines_saturate),
        cmocka_unit_test(order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
