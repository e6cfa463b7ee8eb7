/* pace: a public address gets so many a second, each address its own. Method: time is an
 * argument. */
#include "app/page/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static mono at_ms(int64_t ms)
{
    return (mono){ .ns = (1000 + ms) * NS_PER_MS };
}

static unsigned granted(struct pace *p, str address, unsigned asked, mono now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < asked; i++)
        count += pace_take(p, address, 5, now);
    return count;
}

static void five_a_second_are_five_a_second(void **state)
{
    (void)state;
    struct pace *p = pace_new(1, 0, 0);
    const str one = STR("203.0.113.9"), other = STR("2001:db8::9");
    assert_int_equal(granted(p, one, 20, at_ms(0)), 5);
    assert_int_equal(granted(p, other, 20, at_ms(0)), 5);
    assert_int_equal(granted(p, one, 20, at_ms(199)), 0);
    assert_int_equal(granted(p, one, 20, at_ms(200)), 1);
    assert_int_equal(granted(p, one, 20, at_ms(900)), 3);
    assert_int_equal(granted(p, one, 20, at_ms(5000)), 5);
    assert_true(pace_take(p, one, 0, at_ms(5000)));
    pace_free(&p);
}

static void a_table_that_is_full_goes_on(void **state)
{
    (void)state;
    struct pace *p = pace_new(1, 0, 0);
    char text[32];
    for (int i = 0; i < 5 * PACE_SLOTS; i++) {
        int n = snprintf(text, sizeof text, "203.0.%d.%d", i / 256, i % 256);
        assert_true(pace_take(p, (str){ .p = text, .n = (size_t)n }, 5, at_ms(0)));
    }
    pace_free(&p);
}

static void one_client_has_one_pace_however_it_is_written(void **state)
{
    (void)state;
    struct pace *p = pace_new(1, 0, 0);
    assert_int_equal(granted(p, STR("203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("::ffff:203.0.113.9"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:1::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("2001:db8:0:1:ffff::2"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:2::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("203.0.113.8, 203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("anything"), 5, at_ms(0)), 0);
    pace_free(&p);
}

static void what_is_kept_is_bounded_and_given_back_over_its_time(void **state)
{
    (void)state;
    const int64_t day = 86400 * NS_PER_S;
    store_time now = { .ns = 100 * day };
    struct pace *p = pace_new(1, 1000, day);
    assert_true(pace_keep(p, 600, now));
    assert_false(pace_keep(p, 500, now));
    assert_false(pace_keep(p, 1001, now));
    assert_true(pace_keep(p, 400, now));
    assert_false(pace_keep(p, 1, now));
    now.ns += day / 2;
    assert_false(pace_keep(p, 501, now));
    assert_true(pace_keep(p, 500, now));
    now.ns += day;
    assert_true(pace_keep(p, 1000, now));
    for (int i = 0; i < 100000;
         i++) { /* who asks without end keeps nothing from being given back */
        now.ns += day / 100000;
        (void)pace_keep(p, 1001, now);
    }
    assert_true(pace_keep(p, 999, now)); /* of a byte a part may be on its way */
    pace_give(p, 400);
    assert_false(pace_keep(p, 402, now));
    assert_true(pace_keep(p, 400, now));
    pace_give(p, UINT64_MAX); /* never more than was taken */
    assert_true(pace_keep(p, 1000, now));
    assert_false(pace_keep(p, 1, now));
    pace_free(&p);
}

static void what_is_kept_without_room_counts_all_the_same(void **state)
{
    (void)state;
    const int64_t day = 86400 * NS_PER_S;
    store_time now = { .ns = 100 * day };
    struct pace *p = pace_new(1, 1000, day);
    pace_keep_too(p, 1500, now);
    assert_true(pace_keep(p, 0, now));
    assert_false(pace_keep(p, 1, now));
    now.ns += day / 2;
    assert_false(pace_keep(p, 1, now));
    pace_give(p, 400);
    assert_true(pace_keep(p, 400, now));
    now.ns += 10 * day; /* what comes after a long rest is not given back with it */
    pace_keep_too(p, 1000, now);
    assert_false(pace_keep(p, 1, now));
    pace_free(&p);
}

static void without_a_bound_everything_is_kept(void **state)
{
    (void)state;
    const store_time now = { .ns = NS_PER_S };
    struct pace *p = pace_new(1, 0, NS_PER_S);
    pace_keep_too(p, UINT64_MAX, now);
    assert_true(pace_keep(p, UINT64_MAX, now));
    pace_give(p, 1);
    assert_true(pace_keep(p, UINT64_MAX, now));
    pace_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_a_second_are_five_a_second),
        cmocka_unit_test(a_table_that_is_full_goes_on),
        cmocka_unit_test(one_client_has_one_pace_however_it_is_written),
        cmocka_unit_test(what_is_kept_is_bounded_and_given_back_over_its_time),
        cmocka_unit_test(what_is_kept_without_room_counts_all_the_same),
        cmocka_unit_test(without_a_bound_everything_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
