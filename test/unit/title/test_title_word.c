/* Goal: which of two words holds, and which renders a word leaves dated. Method: words written
 * down, in seconds of the wiki's clock and of ours. What follows from a word for rows is for
 * test/unit/bucket/test_bucket_hear.c and test/model/model_facts.c. */
#include "title/word.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static store_time asked(int64_t s)
{
    return (store_time){ .ns = s * NS_PER_S };
}

static const struct title_word base = {
    .page_id = 3, .rev = 7, .touched = 1000, .said = 1010, .asked_at = { 50 * NS_PER_S }
};

static void what_was_heard_elsewhere_is_reached_by_a_newer_change(void **state)
{
    (void)state;
    struct title_bound b = { .rev = 8, .touched = 1000 };
    const struct title_bound heard = {
        .heard = { .rev = 8, .touched = 999, .newest = { .at_s = 900, .id = 5 } }
    };
    const struct title_bound gone = { .heard = { .newest = { .at_s = 950, .id = 9 } } };
    struct title_word missing = { .missing = true, .newest = { .at_s = 901, .id = 4 } };
    assert_false(title_word_reaches(&missing, &b)); /* a stranger's says nothing of changes */
    title_bound_join(&b, &heard);
    title_bound_join(&b, &gone); /* that asks for nothing */
    assert_int_equal(b.rev, 0);
    assert_int_equal(b.touched, 1000); /* that nobody heard */
    assert_int_equal(b.heard.newest.id, 5);
    assert_true(title_word_reaches(&missing, &b));
    title_bound_join(&b, &(struct title_bound){ .rev = 9 });
    assert_false(title_word_reaches(&missing, &b));
    assert_false(title_bound_is_none(&b));
    assert_true(title_bound_is_none(&gone));
}

static void the_first_word_is_news(void **state)
{
    (void)state;
    assert_int_equal(title_word_judge(NULL, &base), WORD_NEWS);
}

static void what_is_said_again_is_the_same(void **state)
{
    (void)state;
    struct title_word w = base;
    w.said++;
    w.asked_at = asked(60);
    assert_int_equal(title_word_judge(&base, &w), WORD_SAME);
    assert_true(title_word_hash(&base) == title_word_hash(&w));
}

static void each_part_of_a_word_is_news(void **state)
{
    (void)state;
    struct title_word words[] = { base, base, base, base, base };
    words[0].page_id = 4;
    words[1].rev = 8;
    words[2].touched = 1001;
    words[3].redirect = true;
    words[4] = (struct title_word){ .missing = true, .said = 1020 };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i].asked_at = asked(60);
        assert_int_equal(title_word_judge(&base, &words[i]), WORD_NEWS);
        assert_false(title_word_hash(&base) == title_word_hash(&words[i]));
    }
}

static void a_word_asked_earlier_says_nothing(void **state)
{
    (void)state;
    struct title_word w = base;
    w.rev = 8;
    w.asked_at = asked(49);
    assert_int_equal(title_word_judge(&base, &w), WORD_OLD);
}

static void a_copy_that_is_behind_says_nothing_yet(void **state)
{
    (void)state;
    struct title_word rev = base, touched = base, other = base;
    rev.asked_at = touched.asked_at = other.asked_at = asked(60);
    rev.rev = 6;
    touched.touched = 999;
    other.rev = 6;
    other.page_id = 4;
    assert_int_equal(title_word_judge(&base, &rev), WORD_LAGS);
    assert_int_equal(title_word_judge(&base, &touched), WORD_LAGS);
    assert_int_equal(title_word_judge(&base, &other), WORD_NEWS); /* made anew under the title */
}

static void an_undeleted_page_is_news_though_nothing_else_changed(void **state)
{
    (void)state;
    const struct title_word gone = { .missing = true, .said = 1020, .asked_at = { 60 * NS_PER_S } };
    struct title_word back = base;
    back.asked_at = asked(70);
    assert_int_equal(title_word_judge(&gone, &back), WORD_NEWS);
}

static enum title_dated dated(int64_t touched, int64_t said, int64_t now)
{
    const struct page_render r = { .made = { .touched = touched, .said = said } };
    struct title_word w = base;
    w.touched = now;
    return title_dated(&w, &r);
}

static void a_render_is_dated_when_its_page_was_touched_since(void **state)
{
    (void)state;
    assert_int_equal(dated(1000, 1010, 1000), DATED_NOT);
    assert_int_equal(dated(1000, 1010, 1001), DATED_TOUCHED);
    assert_int_equal(dated(1000, 1000 + TITLE_SETTLE_S, 1000), DATED_NOT);
    assert_int_equal(dated(1000, 1000 + TITLE_SETTLE_S - 1, 1000), DATED_UNSETTLED);
    assert_int_equal(dated(0, 0, 1000), DATED_NOT); /* no wiki made it */
    const struct title_word gone = { .missing = true };
    const struct page_render made = { .made = { .touched = 1000, .said = 1010 } };
    assert_int_equal(title_dated(&gone, &made), DATED_TOUCHED);
}

/* Of a render asked for under a word of 1010 that knew of a touch at 1000, which took so long: the
 * page was touched then. */
static bool astride(int64_t touched, int64_t took_ms)
{
    const struct title_making m = {
        .rev = base.rev,
        .made = { .touched = 1000, .said = 1010, .asked_at = asked(60) },
        .stored_at = { asked(60).ns + took_ms * NS_PER_MS }
    };
    struct title_word w = base;
    w.touched = touched;
    return title_is_astride(&w, &m);
}

static void a_newer_revision_or_a_touch_is_newer_than_a_render(void **state)
{
    (void)state;
    const struct page_render made = { .name = { .rev = 7 },
                                      .made = { .touched = 1000, .said = 1010 } };
    const struct page_render put = { .name = { .rev = 7 } }; /* made by no wiki */
    struct title_word w = base;
    assert_false(title_has_newer(&w, &made));
    w.rev = 8;
    assert_true(title_has_newer(&w, &made));
    assert_true(title_has_newer(&w, &put));
    w.rev = 6; /* of a copy that is behind */
    assert_false(title_has_newer(&w, &made));
    w = base;
    w.touched = 1001;
    assert_true(title_has_newer(&w, &made));
    assert_false(title_has_newer(&w, &put));
    w.missing = true; /* it has nothing */
    w.rev = 0;
    assert_false(title_has_newer(&w, &made));
}

static void a_touch_while_the_wiki_is_at_a_render_is_astride(void **state)
{
    (void)state;
    assert_false(astride(1000, 5000)); /* it was known */
    assert_false(astride(1009, 5000)); /* a late word: it was before */
    assert_true(astride(1010, 0));     /* in the second of the word */
    assert_true(astride(1011, 0));     /* which may have been the last of that second */
    assert_false(astride(1012, 999));
    assert_true(astride(1012, 1000));
    assert_true(astride(1015, 4000));
    assert_false(astride(1016, 4000));
    assert_true(astride(1011, -50000)); /* made once more, and the same: stored before */
    assert_false(astride(1012, -50000));
    assert_true(astride(1010 + TITLE_MAKING_S_MAX, 3600 * 1000));
    assert_false(astride(1011 + TITLE_MAKING_S_MAX, 3600 * 1000));      /* by a clock that jumped */
    assert_false(title_is_astride(&base, &(struct title_making){ 0 })); /* nothing is stored */
    struct title_word edited = base;
    edited.rev++, edited.touched = 1010;
    assert_false(title_is_astride(
        &edited,
        &(struct title_making){ .rev = base.rev, .made = { .touched = 1000, .said = 1010 } }));
}

static void a_render_is_as_old_as_its_word(void **state)
{
    (void)state;
    struct page_render r = { .stored_at = { 90 * NS_PER_S } };
    assert_int_equal(title_made_at(&r).ns, 90 * NS_PER_S); /* no wiki made it */
    r.made = (struct title_under){ .touched = 1000, .said = 1010, .asked_at = asked(60) };
    assert_int_equal(title_made_at(&r).ns, 60 * NS_PER_S);
    struct title_under again = r.made;
    assert_false(title_under_later(again, r.made));
    again.asked_at = asked(61);
    assert_true(title_under_later(again, r.made));
}

static void a_page_that_its_own_edit_touched_is_settled(void **state)
{
    (void)state;
    const struct title_word w = { .page_id = 3, .rev = 7, .touched = 1000, .said = 1001 };
    struct page_render r = { .made = title_under_of(&w, 0) };
    assert_int_equal(title_dated(&w, &r), DATED_UNSETTLED);
    r.made = title_under_of(&w, 999); /* by something else, a second after the edit */
    assert_int_equal(title_dated(&w, &r), DATED_UNSETTLED);
    r.made = title_under_of(&w, 1000);
    assert_int_equal(title_dated(&w, &r), DATED_NOT);
    assert_int_equal(r.made.touched, 1000);
    struct title_word late = w;
    late.said = 2000;
    assert_int_equal(title_under_of(&late, 1000).said, 2000);
    late.asked_at = asked(50);
    assert_int_equal(title_settles_at(&late, TITLE_SETTLE_S).ns, asked(50).ns); /* long ago */
    late.said = late.touched + 1;
    assert_int_equal(title_settles_at(&late, TITLE_SETTLE_S).ns, asked(50 + TITLE_SETTLE_S).ns);
    late.said = late.touched;
    assert_int_equal(title_settles_at(&late, TITLE_SETTLE_S).ns, asked(51 + TITLE_SETTLE_S).ns);
    late.said = late.touched - 1000; /* by a clock that is behind */
    assert_int_equal(title_settles_at(&late, TITLE_SETTLE_S).ns, asked(51 + TITLE_SETTLE_S).ns);
}

static void what_was_asked_for_before_the_page_went_is_denied(void **state)
{
    (void)state;
    const struct title_word gone = { .missing = true, .asked_at = { 60 * NS_PER_S } };
    struct title_word anew = base;
    anew.page_id = 4;
    anew.asked_at = asked(60);
    assert_true(title_word_denies(&gone, &base));
    assert_true(title_word_denies(&anew, &base));
    assert_false(title_word_denies(&base, &anew)); /* asked for later */
    struct title_word edited = base;
    edited.rev = 8;
    edited.asked_at = asked(60);
    assert_false(title_word_denies(&edited, &base));
}

static void what_is_there_of_a_page_is_remembered_for_that_page(void **state)
{
    (void)state;
    const struct title_word gone = { .missing = true };
    struct title_word last = base, next = base;
    assert_true(title_word_there(NULL, &next, 0) == 0);
    assert_true(title_word_there(NULL, &next, 90) == 90);
    last.there = 100;
    next.rev = 8;
    next.touched++;
    assert_true(title_word_there(&last, &next, 0) == 100);
    assert_true(title_word_there(&last, &next, 90) == 100);
    assert_true(title_word_there(&last, &next, 110) == 110);
    next.page_id = 4;
    assert_true(title_word_there(&last, &next, 0) == 0);
    assert_true(title_word_there(&last, &gone, 0) == 0);
    last.missing = true;
    assert_true(title_word_there(&last, &base, 0) == 0);
    last = base;
    last.there = 100; /* it is none of the word itself */
    assert_true(title_word_eq(&last, &base));
    assert_true(title_word_hash(&last) == title_word_hash(&base));
    last.asked_at = asked(60);
    assert_int_equal(title_word_judge(&base, &last), WORD_SAME);
}

/* Whatever copy of the database shows it. */
static void what_is_later_cannot_have_been_there_before(void **state)
{
    (void)state;
    const struct title_word gone = { .missing = true, .said = 1010 };
    const struct {
        const struct title_word *last;
        struct title_word word;
        bool later;
    } rows[] = {
        { &base, { .page_id = 3, .rev = 8, .touched = 1001 }, true },
        { &base, { .page_id = 3, .rev = 8, .touched = 1000 }, true },
        { &base, { .page_id = 3, .rev = 7, .touched = 1001 }, true },
        { &base, { .page_id = 3, .rev = 7, .touched = 1000 }, false },
        { &base, { .page_id = 3, .rev = 8, .touched = 999 }, false },
        { &base, { .page_id = 3, .rev = 6, .touched = 1001 }, false },
        { &base, { .page_id = 4, .rev = 8, .touched = 1001 }, true },
        { &base, { .page_id = 4, .rev = 6, .touched = 1001 }, false }, /* moved or undeleted, */
        { &base, { .page_id = 4, .rev = 8, .touched = 1000 }, false }, /* or the one before it */
        { &base, { .missing = true, .said = 1010 + TITLE_BEHIND_S - 1 }, false },
        { &base,
          { .missing = true, .said = 1010 + TITLE_BEHIND_S },
          true }, /* each copy had heard of it */
        { &gone, { .page_id = 3, .rev = 8, .touched = 1010 }, false },
        { &gone, { .page_id = 3, .rev = 8, .touched = 1011 }, true },
        { &gone, { .missing = true, .said = 2000 }, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (title_word_is_later(rows[i].last, &rows[i].word) != rows[i].later)
            fail_msg("row %zu", i);
}

/* An older release took such from whoever wrote into Redis. */
static void a_touch_at_the_end_of_time_is_unsettled(void **state)
{
    (void)state;
    struct title_word w = base;
    w.touched = INT64_MAX;
    const struct page_render r = { .made = { .touched = INT64_MAX, .said = 1 } };
    assert_int_equal(title_dated(&w, &r), DATED_UNSETTLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_touch_at_the_end_of_time_is_unsettled),
        cmocka_unit_test(the_first_word_is_news),
        cmocka_unit_test(what_was_heard_elsewhere_is_reached_by_a_newer_change),
        cmocka_unit_test(what_is_said_again_is_the_same),
        cmocka_unit_test(each_part_of_a_word_is_news),
        cmocka_unit_test(a_word_asked_earlier_says_nothing),
        cmocka_unit_test(a_copy_that_is_behind_says_nothing_yet),
        cmocka_unit_test(an_undeleted_page_is_news_though_nothing_else_changed),
        cmocka_unit_test(a_render_is_dated_when_its_page_was_touched_since),
        cmocka_unit_test(a_newer_revision_or_a_touch_is_newer_than_a_render),
        cmocka_unit_test(a_touch_while_the_wiki_is_at_a_render_is_astride),
        cmocka_unit_test(a_render_is_as_old_as_its_word),
        cmocka_unit_test(a_page_that_its_own_edit_touched_is_settled),
        cmocka_unit_test(what_was_asked_for_before_the_page_went_is_denied),
        cmocka_unit_test(what_is_there_of_a_page_is_remembered_for_that_page),
        cmocka_unit_test(what_is_later_cannot_have_been_there_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
