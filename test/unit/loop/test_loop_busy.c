/* Goal: a thread is full when it hardly rests and another would carry work on: a processor is left,
 * or others take its own for long. Never else, and not for long after it went to sleep. Method:
 * given samples; once a thread itself. */
#include "loop/busy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define WINDOW_NS (BUSY_WINDOW_MS * NS_PER_MS)
#define PERCENT_NS (WINDOW_NS / 100)
enum { PERCENT_MS = BUSY_WINDOW_MS / 100, LAST = BUSY_WAITED_WINDOWS - 1 };

/* A window from the sample before, of which so many percent. */
static bool next(struct busy *b, unsigned ran, unsigned waited, unsigned idle)
{
    struct busy_sample s = b->last;
    s.at.ns += WINDOW_NS;
    s.ran_ns += ran * PERCENT_NS;
    s.waited_ns += waited * PERCENT_NS;
    s.idle_ms += idle * PERCENT_MS;
    return busy_add(b, &s);
}

static struct busy begun(void)
{
    struct busy b = { .full = false };
    const struct busy_sample first = {
        .at = { .ns = 5000 }, .ran_ns = 70, .waited_ns = 9000000, .idle_ms = 1000
    };
    assert_false(busy_add(&b, &first));
    return b;
}

static void full_is_who_never_rests_beside_an_idle_processor(void **state)
{
    (void)state;
    struct busy b = begun();
    assert_false(next(&b, BUSY_FULL_PERCENT - 1, 0, 100));
    assert_false(next(&b, 100, 0, BUSY_SPARE_PERCENT - 1));
    assert_false(next(&b, 0, 0, 0));
    assert_false(busy_full(&b, b.last.at));
    assert_true(next(&b, BUSY_FULL_PERCENT, 0, BUSY_SPARE_PERCENT));
    assert_true(busy_full(&b, b.last.at));
    assert_int_equal(busy_percent(&b, b.last.at), BUSY_FULL_PERCENT);
    assert_true(next(&b, 100, 0, 800));
    assert_false(next(&b, 20, 0, 800));
    assert_int_equal(busy_percent(&b, b.last.at), 20);
    assert_true(
        next(&b, 40, BUSY_FULL_PERCENT - 40, BUSY_SPARE_PERCENT)); /* to wait is not to rest */
    assert_int_equal(busy_percent(&b, b.last.at), BUSY_FULL_PERCENT);
}

/* Two threads on two processors, one of them no lane: what a second lane would have to share
 * with. */
static void who_has_a_processor_alone_stays_alone_when_none_is_left(void **state)
{
    (void)state;
    struct busy b = begun();
    for (unsigned i = 0; i < 50; i++)
        assert_false(next(&b, 100, 0, 0));
    for (unsigned i = 0; i < 50; i++)
        assert_false(next(&b, 100 - (BUSY_WAITED_PERCENT - 1), BUSY_WAITED_PERCENT - 1, 3));
}

static void who_shares_its_processor_for_long_is_full(void **state)
{
    (void)state;
    struct busy b = begun();
    for (unsigned i = 0; i < LAST; i++)
        assert_false(next(&b, 50, 50, 0));
    assert_true(next(&b, 50, 50, 0));
    assert_true(busy_full(&b, b.last.at));
    assert_int_equal(busy_percent(&b, b.last.at), 100);
    assert_true(next(&b, 12, 88, 0)); /* however little it is left */
    assert_true(next(&b, 100 - BUSY_WAITED_PERCENT, BUSY_WAITED_PERCENT, 0));
    assert_false(next(&b, 100, 0, 0)); /* the others have ended */
    assert_false(busy_full(&b, b.last.at));
}

static void a_burst_of_others_is_waited_for(void **state)
{
    (void)state;
    struct busy b = begun();
    for (unsigned n = 0; n < 3; n++) {
        for (unsigned i = 0; i < LAST; i++)
            assert_false(next(&b, 50, 50, 0));
        assert_false(next(&b, 100, 0, 0));
    }
    for (unsigned i = 0; i < 20; i++)
        assert_false(next(&b, 10, 50, 0)); /* it rests for the other 40 */
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
    assert_true(next(&b, 100, 0, 100));
    mono later = mono_add_ms(b.last.at, 3 * BUSY_WINDOW_MS);
    assert_true(busy_full(&b, mono_add_ms(later, -1)));
    assert_false(busy_full(&b, later));
    assert_int_equal(busy_percent(&b, later), 0);
}

/* The idle time is read of restless windows alone: of the second it is known what it was at the
 * begin. */
static void a_figure_that_was_not_read_counts_as_none(void **state)
{
    (void)state;
    struct busy b = begun();
    struct busy_sample s = b.last;
    s.at.ns += WINDOW_NS;
    s.ran_ns += BUSY_FULL_PERCENT * PERCENT_NS;
    assert_true(busy_is_restless(&b, &s));
    s.ran_ns--;
    assert_false(busy_is_restless(&b, &s));
    s.waited_ns++;
    assert_true(busy_is_restless(&b, &s));
    b.last.idle_ms = -1;
    s.idle_ms = 100000;
    assert_false(busy_add(&b, &s));
    s.at.ns += WINDOW_NS;
    s.ran_ns += WINDOW_NS;
    s.idle_ms = -1;
    assert_false(busy_add(&b, &s));
}

/* The wait is a sum since the thread began: one that was not read is no zero, of which the next
 * would be minutes. */
static void a_wait_that_was_not_read_counts_as_none(void **state)
{
    (void)state;
    struct busy b = begun();
    b.blind = true;
    int64_t sum = b.last.waited_ns = 300 * NS_PER_S;
    struct busy_sample s = b.last;
    s.at.ns += WINDOW_NS;
    s.ran_ns += BUSY_FULL_PERCENT * PERCENT_NS;
    s.waited_ns = -1;
    assert_true(busy_add(&b, &s)); /* what it ran still counts */
    assert_int_equal(busy_percent(&b, s.at), BUSY_FULL_PERCENT);
    s.at.ns += WINDOW_NS;
    s.waited_ns = sum;
    assert_false(busy_is_restless(&b, &s));
    assert_false(busy_add(&b, &s));
    assert_int_equal(busy_percent(&b, s.at), 0);
    assert_int_equal(b.waited_windows, 0);
}

static void where_the_idle_time_cannot_be_read_there_is_something_to_spare(void **state)
{
    (void)state;
    struct busy b = begun();
    b.blind = true;
    assert_true(next(&b, BUSY_FULL_PERCENT, 0, 0));
    assert_false(next(&b, BUSY_FULL_PERCENT - 1, 0, 0));
}

static void the_wait_is_the_second_figure(void **state)
{
    (void)state;
    assert_int_equal(busy_waited_ns(STR("9054 66574 1\n")), 66574);
    assert_int_equal(busy_waited_ns(STR("0 9223372036854775807 0")), INT64_MAX);
    static const char *const wrong[] = { "",      "\n",     "1",     "1 ",
                                         "1 \n2", "1 -2 3", "x 2 3", "1 9223372036854775808 1" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(busy_waited_ns(str_of(wrong[i])), -1);
}

static void who_waits_for_a_disk_leaves_its_processor(void **state)
{
    (void)state;
    unsigned number = 0;
    int64_t ticks = 0;
    assert_true(busy_processor(STR("cpu0 3482827 424421 1092851 2345202 99126 0 97829 45169 0 0"),
                               &number, &ticks));
    assert_int_equal(number, 0);
    assert_int_equal(ticks, 2345202 + 99126);
    assert_true(busy_processor(STR("cpu1023 0 0 0 7 5"), &number, &ticks));
    assert_int_equal(number, 1023);
    assert_int_equal(ticks, 12);
    static const char *const wrong[] = {
        "",
        "cpu",
        "cpu  1 2 3 4 5",
        "cpu0",
        "cpu0 1 2 3 4",
        "cpu0 1 2 3 4 ",
        "cpu0 1 2 3 x 5",
        "cpux 1 2 3 4 5",
        "intr 1 2 3 4 5",
        "cpu0  1 2 3 4 5",
        "cpu0 1 2 3 -4 5",
        "cpu99999999999 1 2 3 4 5",
        "cpu0 1 2 3 4 100000000001",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(busy_processor(str_of(wrong[i]), &number, &ticks));
    assert_int_equal(number, 1023);
    assert_int_equal(ticks, 12);
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
    b.last.ran_ns -= WINDOW_NS;
    (void)busy_look(&b, now);
    assert_int_equal(b.last.at.ns, now.ns);
    assert_true(b.last.ran_ns > began);
    assert_true(b.last.waited_ns >= -1);         /* a kernel may have no such figure, */
    assert_true(b.last.idle_ms >= 0 || b.blind); /* or zeroes */
    now = mono_add_ms(now, BUSY_WINDOW_MS * 1000);
    assert_false(busy_look(&b, now)); /* it rested, by that clock */
    assert_int_equal(b.last.idle_ms, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_who_never_rests_beside_an_idle_processor),
        cmocka_unit_test(who_has_a_processor_alone_stays_alone_when_none_is_left),
        cmocka_unit_test(who_shares_its_processor_for_long_is_full),
        cmocka_unit_test(a_burst_of_others_is_waited_for),
        cmocka_unit_test(nothing_is_known_before_a_window_has_ended),
        cmocka_unit_test(who_sleeps_is_not_full_for_long),
        cmocka_unit_test(a_figure_that_was_not_read_counts_as_none),
        cmocka_unit_test(a_wait_that_was_not_read_counts_as_none),
        cmocka_unit_test(where_the_idle_time_cannot_be_read_there_is_something_to_spare),
        cmocka_unit_test(the_wait_is_the_second_figure),
        cmocka_unit_test(who_waits_for_a_disk_leaves_its_processor),
        cmocka_unit_test(a_thread_that_runs_is_seen_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
