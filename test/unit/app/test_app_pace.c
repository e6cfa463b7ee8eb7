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
    struct pace *p = pace_new(1);
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
    struct pace *p = pace_new(1);
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
    struct pace *p = pace_new(1);
    assert_int_equal(granted(p, STR("203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("::ffff:203.0.113.9"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:1::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("2001:db8:0:1:ffff::2"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:2::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("203.0.113.8, 203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("anything"), 5, at_ms(0)), 0);
    pace_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_a_second_are_five_a_second),
        cmocka_unit_test(a_table_that_is_full_goes_on),
        cmocka_unit_test(one_client_has_one_pace_however_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
