/* Goal: answers of copies of the wiki's database that are behind are told from others, and no
 * answer is doubted for ever. Method: answers with their newest change, at instants. */
#include "page/behind.h"

#include "title/word.h"

#include "../cmocka_all.h"

static struct page_behind all;

static int setup(void **state)
{
    (void)state;
    page_behind_init(&all);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    page_behind_fini(&all);
    return 0;
}

static bool news;

static store_time at(int64_t s)
{
    return (store_time){ .ns = s * NS_PER_S };
}

static bool behind_late(int64_t at_s, uint64_t id, int64_t asked_s, int64_t now_s)
{
    const struct wiki_newest n = { .at_s = at_s, .id = id };
    return page_behind_judge(&all, &n, at(asked_s), at(now_s), &news);
}

static bool behind(int64_t at_s, uint64_t id, int64_t asked_s)
{
    return behind_late(at_s, id, asked_s, asked_s);
}

/* Another server has seen it. */
static void told(int64_t at_s, uint64_t id, int64_t now_s)
{
    const struct wiki_newest n = { .at_s = at_s, .id = id };
    page_behind_know(&all, &n, at(now_s));
}

static void who_shows_an_older_change_is_behind(void **state)
{
    (void)state;
    assert_false(behind(100, 5, 1000));
    assert_true(news);
    assert_false(behind(100, 5, 1001));
    assert_false(news);
    assert_false(behind(100, 6, 1002)); /* of the same second */
    assert_true(news);
    assert_true(behind(100, 5, 1003));
    assert_true(behind(99, 7, 1003)); /* the list goes by its instants */
    assert_false(news);
    assert_false(behind(101, 3, 1004));
    assert_true(news);
}

static void an_answer_without_changes_says_nothing(void **state)
{
    (void)state;
    assert_false(behind(0, 0, 1000));
    assert_false(news);
    assert_false(behind(100, 5, 1000));
    assert_false(behind(0, 0, 1001));
    assert_true(behind(100, 4, 1002));
}

/* A greater one that was seen meanwhile says nothing of whether the one before it was known. */
static void who_was_asked_before_is_behind_too(void **state)
{
    (void)state;
    assert_false(behind(100, 5, 1000));
    assert_false(behind(110, 6, 1002));
    assert_true(behind(90, 4, 1001));
    assert_true(behind(100, 5, 999));
    assert_false(news);
}

/* It was deleted with its page, or the wiki was brought back from a backup. */
static void a_change_that_is_gone_counts_for_a_while(void **state)
{
    (void)state;
    assert_false(behind(100, 5, 1000));
    assert_true(behind(90, 4, 1000 + BEHIND_S - 1));
    assert_false(behind(90, 4, 1000 + BEHIND_S));
    assert_true(news);
    assert_false(behind(90, 4, 1000 + BEHIND_S + 1));
    assert_false(behind(95, 6, 1000 + BEHIND_S + 2));
    assert_true(news);
    assert_true(behind(90, 4, 1000 + BEHIND_S + 3));
}

static int64_t settle_s(int64_t now_s)
{
    return page_behind_settle_s(&all, (store_time){ .ns = now_s * NS_PER_S });
}

static void renders_settle_later_while_copies_are_behind(void **state)
{
    (void)state;
    assert_false(behind(100, 5, 1000));
    assert_int_equal(settle_s(1000), TITLE_SETTLE_S);
    assert_true(behind(90, 4, 1001));
    assert_int_equal(settle_s(1001), BEHIND_S);
    assert_int_equal(settle_s(1000 + BEHIND_RECENT_S), BEHIND_S);
    assert_int_equal(settle_s(1001 + BEHIND_RECENT_S), TITLE_SETTLE_S);
}

/* No copy is behind: the wiki was asked, then changed, and another call saw that first. */
static void who_was_asked_before_a_change_was_seen_shows_no_copy_behind(void **state)
{
    (void)state;
    assert_false(behind(100, 5, 1000));
    assert_false(behind_late(110, 6, 1001, 1003));
    assert_true(behind_late(100, 5, 1002, 1004)); /* what it says takes nothing back */
    assert_int_equal(settle_s(1004), TITLE_SETTLE_S);
    assert_true(behind_late(100, 5, 1003, 1004));
    assert_int_equal(settle_s(1004), BEHIND_S);
}

static void what_another_server_has_seen_is_known(void **state)
{
    (void)state;
    told(110, 6, 1000);
    assert_true(behind_late(100, 5, 999, 1001));
    assert_int_equal(settle_s(1001), TITLE_SETTLE_S); /* that was asked before */
    assert_true(behind(100, 5, 1002));
    assert_int_equal(settle_s(1002), BEHIND_S);
    assert_false(behind(110, 6, 1003));
    assert_false(news);
    told(0, 0, 1004);
    assert_true(behind(100, 5, 1005));
}

/* It knew less when it told of that, or its message was long on its way: no answer of the wiki. */
static void what_another_server_has_seen_before_says_nothing(void **state)
{
    (void)state;
    assert_false(behind(110, 6, 1000));
    told(100, 5, 1001);
    assert_int_equal(settle_s(1001), TITLE_SETTLE_S);
    told(100, 5, 1000 + BEHIND_S + 1);
    assert_false(behind(110, 6, 1000 + BEHIND_S + 2));
    assert_false(news); /* it was not forgotten */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_shows_an_older_change_is_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_without_changes_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_was_asked_before_is_behind_too, setup, teardown),
        cmocka_unit_test_setup_teardown(who_was_asked_before_a_change_was_seen_shows_no_copy_behind,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_another_server_has_seen_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(what_another_server_has_seen_before_says_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(renders_settle_later_while_copies_are_behind, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_change_that_is_gone_counts_for_a_while, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
