/* Goal: a thread is full when it ran nearly all of a window and a processor was left; never else, and not for long
 * after it went to sleep. Method: given samples; once the thread itself. */
#include "loop/busy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define WINDOW_NS (BUSY_WINDOW_MS * NS_PER_MS)
#define PERCENT_NS (WINDOW_NS / 100)

/* A window from the sample before, of which so many percent. */
static bool next(struct busy *b, unsigned ran, unsigned idle)
{
    struct busy_sample s = b->last;
    s.at.ns += WINDOW_NS;
    s.ran_ns += ran * PERCENT_NS;
    s.idle_ns += idle * PERCENT_NS;
    return busy_add(b, &s);
}

static struct busy begun(void)
{
    struct busy b = { .full = false };
    assert_false(busy_add(&b, &(struct busy_sample){ .at = { .ns = 5000 }, .ran_ns = 70, .idle_ns = 1000000 }));
    return b;
}

static void full_is_who_never_rests_beside_an_idle_processor(void **state)
{
    (void)state;
    struct busy b = begun();
    assert_false(next(&b, BUSY_FULL_PERCENT - 1, 100));
    assert_false(next(&b, 100, BUSY_SPARE_PERCENT - 1));
    assert_false(next(&b, 0, 0));
    assert_false(busy_full(&b, b.last.at));
    assert_true(next(&b, BUSY_FULL_PERCENT, BUSY_SPARE_PERCENT));
    assert_true(busy_full(&b, b.last.at));
    assert_int_equal(busy_percent(&b, b.last.at), BUSY_FULL_PERCENT);
    assert_true(next(&b, 100, 800));
    assert_false(next(&b, 20, 800));
    assert_int_equal(busy_percent(&b, b.last.at), 20);
}

static void nothing_is_known_before_a_window_has_ended(void **state)
{
    (void)state;
    struct busy b = begun();
    assert_false(busy_full(&b, b.last.at));
    assert_int_equal(busy_percent(&b, b.last.at), 0);
    assert_false(busy_add(&b, &b.last)); /* the same moment again */
}

static void who_sleeps_is_not_full_for_long(void **state)
{
    (void)state;
    struct busy b = begun();
    assert_true(next(&b, 100, 100));
    mono later = mono_add_ms(b.last.at, 3 * BUSY_WINDOW_MS);
    assert_true(busy_full(&b, mono_add_ms(later, -1)));
    assert_false(busy_full(&b, later));
    assert_int_equal(busy_percent(&b, later), 0);
}

static void without_a_figure_there_is_something_to_spare(void **state)
{
    (void)state;
    struct busy b = begun();
    b.last.idle_ns = -1;
    assert_true(next(&b, 100, 0));
    assert_true(next(&b, 100, BUSY_SPARE_PERCENT - 1)); /* known from here on */
    assert_false(next(&b, 100, 0));
}

static void the_figure_is_read_to_the_hundredth(void **state)
{
    (void)state;
    assert_int_equal(busy_idle_ns("12.34 56.78\n"), 56780 * NS_PER_MS);
    assert_int_equal(busy_idle_ns("0.00 0.00\n"), 0);
    assert_int_equal(busy_idle_ns("9.00 1234567890.01"), 1234567890 * NS_PER_S + 10 * NS_PER_MS);
    static const char *const wrong[] = {
        "", "\n", "12.34", "12.34 ", "12.34 56", "12.34 56.", "12.34 .78", "12.34 x.78", "12.34 56.100", "12.34 -5.00",
        "12.34 9999999999.00", "12.34 99999999999999999999.00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(busy_idle_ns(wrong[i]), -1);
}

static void a_thread_that_runs_is_seen_running(void **state)
{
    (void)state;
    struct busy b = { .full = false };
    mono now = { .ns = WINDOW_NS };
    assert_false(busy_look(&b, now));
    int64_t began = b.last.ran_ns;
    assert_false(busy_look(&b, mono_add_ms(now, BUSY_WINDOW_MS - 1))); /* not over yet */
    assert_int_equal(b.last.at.ns, now.ns);
    now = mono_add_ms(now, BUSY_WINDOW_MS);
    (void)busy_look(&b, now);
    assert_int_equal(b.last.at.ns, now.ns);
    assert_true(b.last.ran_ns > began);
    assert_true(b.last.idle_ns >= 0);     /* Linux has the figure */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_who_never_rests_beside_an_idle_processor),
        cmocka_unit_test(nothing_is_known_before_a_window_has_ended),
        cmocka_unit_test(who_sleeps_is_not_full_for_long),
        cmocka_unit_test(without_a_figure_there_is_something_to_spare),
        cmocka_unit_test(the_figure_is_read_to_the_hundredth),
        cmocka_unit_test(a_thread_that_runs_is_seen_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
