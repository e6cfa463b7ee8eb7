/* Goal: a sweep is paced evenly, and what it notes is what it reads. Method: laps by hand. */
#include "page/sweep_lap.h"

#include "../cmocka_all.h"

#include <string.h>

#define DAY (86400 * NS_PER_S)

static store_time day(double n)
{
    return (store_time){ .ns = 1000 * DAY + (int64_t)(n * (double)DAY) };
}

static struct sweep_text text(const char *s)
{
    struct sweep_text t = { .n = 0 };
    sweep_text_set(&t, str_of(s));
    return t;
}

static void titles_are_spread_over_the_period(void **state)
{
    (void)state;
    struct lap l = { .over = false };
    assert_int_equal(lap_due(&l, DAY, false).ns, 0); /* at once */
    lap_begin(&l, day(0), 200);
    struct sweep_text at = text("A");
    for (unsigned call = 0; call < 4; call++) {
        assert_int_equal(lap_due(&l, DAY, false).ns, day(call / 4.0).ns);
        lap_advance(&l, &at, 50, call == 3);
    }
    assert_true(l.over);
    assert_int_equal(lap_due(&l, DAY, false).ns, day(1).ns); /* the next lap */
    lap_begin(&l, day(1), 200);
    assert_int_equal(l.before.ns, day(0).ns);
    assert_int_equal(l.at.n, 0);
}

/* More were stored meanwhile than were counted. */
static void a_lap_that_grows_is_due_at_the_end_of_its_period(void **state)
{
    (void)state;
    struct lap l = { .over = false };
    struct sweep_text at = text("A");
    lap_begin(&l, day(0), 50);
    lap_advance(&l, &at, 50, false);
    lap_advance(&l, &at, 50, false);
    assert_int_equal(lap_due(&l, DAY, false).ns, day(1).ns);
    lap_begin(&l, day(1), 0);
    assert_int_equal(lap_due(&l, DAY, false).ns, day(1).ns);
}

static void without_a_period_a_lap_goes_only_when_it_hurries(void **state)
{
    (void)state;
    static const int64_t none[] = { 0, INT64_MAX };
    for (unsigned i = 0; i < COUNT_OF(none); i++) {
        struct lap l = { .over = false };
        struct sweep_text at = text("A");
        assert_int_equal(lap_due(&l, none[i], false).ns, INT64_MAX);
        lap_begin(&l, day(0), 100);
        assert_int_equal(lap_due(&l, none[i], false).ns, INT64_MAX);
        assert_int_equal(lap_due(&l, none[i], true).ns, day(0).ns);
        lap_advance(&l, &at, 100, true);
        assert_int_equal(lap_due(&l, none[i], true).ns, INT64_MAX);
    }
}

/* One that was broken off for another says nothing of the titles behind it. */
static void only_laps_that_came_to_their_end_count_as_before(void **state)
{
    (void)state;
    struct lap l = { .over = false };
    struct sweep_text at = text("Z");
    lap_begin(&l, day(0), 10);
    assert_int_equal(lap_all_since(&l).ns, INT64_MAX);
    l.said = 5000;
    lap_advance(&l, &at, 10, true);
    assert_int_equal(lap_all_since(&l).ns, day(0).ns);
    lap_begin(&l, day(1), 10);
    l.said = 6000;
    lap_begin(&l, day(2), 10);
    assert_int_equal(l.before.ns, day(0).ns);
    assert_int_equal(l.said_before, 5000);
    assert_int_equal(lap_all_since(&l).ns, day(0).ns);
}

static void older_revisions_are_asked_for_when_the_page_was_touched(void **state)
{
    (void)state;
    struct lap l = { .over = false };
    struct title_word w = { .touched = 1000 };
    struct sweep_text at = text("Z");
    lap_begin(&l, day(0), 10);
    assert_int_equal(lap_history_since(&l, &w).ns, 0); /* nobody has asked before */
    l.said = 5000;
    lap_advance(&l, &at, 10, true);
    lap_begin(&l, day(1), 10);
    assert_int_equal(lap_history_since(&l, &w).ns, day(0).ns); /* what came since */
    w.touched = 5001;
    assert_int_equal(lap_history_since(&l, &w).ns, 0);
    w.touched = 5000 - SWEEP_MARGIN_S;
    assert_int_equal(lap_history_since(&l, &w).ns, 0);
    w.touched--;
    assert_int_equal(lap_history_since(&l, &w).ns, day(0).ns);
    l.said_before = 0; /* the lap before met no title */
    assert_int_equal(lap_history_since(&l, &w).ns, 0);
}

static void a_note_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct lap l = { .over = true,
                     .began = day(1),
                     .before = day(0),
                     .said = 6000,
                     .said_before = 5000,
                     .titles = 7,
                     .asked = 5 },
               read;
    char bytes[PAGE_NOTE_BYTES_MAX], longest[PAGE_TITLE_BYTES_MAX + 1];
    memset(longest, 'x', sizeof longest);
    longest[PAGE_TITLE_BYTES_MAX] = 0;
    const char *const titles[] = { "", "A", longest };
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        l.at = text(titles[i]);
        l.over = i == 0;
        size_t n = lap_encode(&l, bytes);
        assert_int_equal(lap_decode((str){ .p = bytes, .n = n }, &read), ERR_OK);
        assert_int_equal(read.over, l.over);
        assert_int_equal(read.began.ns, l.began.ns);
        assert_int_equal(read.before.ns, l.before.ns);
        assert_int_equal(read.said, l.said);
        assert_int_equal(read.said_before, l.said_before);
        assert_int_equal(read.titles, l.titles);
        assert_int_equal(read.asked, l.asked);
        assert_true(str_eq(sweep_text_str(&read.at), str_of(titles[i])));
        for (size_t cut = 0; cut < n && i == 0; cut++)
            assert_int_equal(lap_decode((str){ .p = bytes, .n = cut }, &read), ERR_CORRUPT);
        bytes[0]++;
        assert_int_equal(lap_decode((str){ .p = bytes, .n = n }, &read), ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(titles_are_spread_over_the_period),
        cmocka_unit_test(a_lap_that_grows_is_due_at_the_end_of_its_period),
        cmocka_unit_test(without_a_period_a_lap_goes_only_when_it_hurries),
        cmocka_unit_test(only_laps_that_came_to_their_end_count_as_before),
        cmocka_unit_test(older_revisions_are_asked_for_when_the_page_was_touched),
        cmocka_unit_test(a_note_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
