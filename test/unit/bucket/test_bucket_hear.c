/* Goal: what the wiki says of a title holds for all that is stored of it, in whatever order words,
 * renders and their makings come. Method: words and puts on a clock the test moves; reads as the
 * page service reads; the store is checked at the end of each. */
#include "bucket/word.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

/* The wiki's clock is the store's, in seconds. */
static int64_t wiki_now(const struct fixture *f)
{
    return f->clock.now_ns / NS_PER_S;
}

static struct title_word word_of(const struct fixture *f, uint64_t rev)
{
    return (struct title_word){
        .page_id = 3, .rev = rev, .touched = T0 / NS_PER_S, .said = wiki_now(f)
    };
}

static struct page_hear hear(struct fixture *f, struct title_word w)
{
    struct page_hear h = { .marks_count = 0 };
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    return h;
}

/* A render that the wiki made under a word, which it said now. */
static err put_under(struct fixture *f, uint64_t rev, struct title_word under, const char *text,
                     struct page_put *p)
{
    if (under.asked_at.ns == 0)
        under.asked_at.ns = f->clock.now_ns;
    *p = (struct page_put){ .heeds = true, .word = &under, .said_at = under.asked_at };
    err e = fix_put_as(f, rev, -1, text, p);
    p->word = NULL;
    return e;
}

static struct page_name made(struct fixture *f, uint64_t rev, const char *text)
{
    struct page_put p;
    assert_int_equal(put_under(f, rev, word_of(f, rev), text, &p), ERR_OK);
    return p.stored;
}

struct seen {
    err why;
    struct page_name name;
    bool heard;
    struct title_word word;
    enum title_dated dated;
};

static struct seen see(struct fixture *f, struct page_which which)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    which.domain = f->domain;
    which.title = STR("T");
    struct page_read r = { .bucket = f->bucket, .which = which, .arena = &a, .heeds = true };
    assert_int_equal(page_store_read(pages_store(f->pages), &r), STORE_DONE);
    arena_fini(&a);
    return (struct seen){
        .why = r.call.why, .name = r.render.name, .heard = r.heard, .word = r.word, .dated = r.dated
    };
}

static struct seen see_latest(struct fixture *f)
{
    return see(f, (struct page_which){ .select = SELECT_LATEST });
}

static void assert_rev(struct fixture *f, uint64_t rev, err why)
{
    struct seen s = see(f, (struct page_which){ .select = SELECT_REV, .name = { .rev = rev } });
    assert_int_equal(s.why, why);
}

static void wait_s(struct fixture *f, int64_t s)
{
    fake_clock_advance(&f->clock, s * NS_PER_S);
}

static struct fixture *begin(void)
{
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    wait_s(f, 100);
    return f;
}

static void a_render_is_stored_with_the_word_before_it(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct page_name name = made(f, 5, "five");
    struct seen s = see_latest(f);
    assert_int_equal(s.why, ERR_OK);
    assert_name(s.name, name);
    assert_true(s.heard);
    assert_int_equal(s.word.rev, 5);
    assert_int_equal(s.dated, DATED_NOT);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    assert_true(see_latest(f).heard);
    fixture_free(f);
}

/* From another server, whose clock may differ: then it is as old as its arrival, also when it was
 * there already. */
static void a_render_that_came_with_its_word_is_as_old_as_its_arrival(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (unsigned i = 0; i < 2; i++) {
        struct title_word under = word_of(f, 5);
        struct page_put p = { .heeds = true, .word = &under, .said_at = { f->clock.now_ns } };
        assert_int_equal(fix_put_as(f, 5, -1, "five", &p), ERR_OK);
        assert_int_equal(p.applied, i == 0);
        struct page_render r = fix_latest(f);
        assert_int_equal(title_made_at(&r).ns, f->clock.now_ns);
        wait_s(f, 10);
    }
    fixture_free(f);
}

static void a_newer_revision_leaves_what_is_stored_within_reach(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct page_name name = made(f, 5, "five");
    wait_s(f, 1);
    unsigned told = f->told;
    struct page_hear h = hear(f, word_of(f, 6));
    assert_int_equal(h.is, WORD_NEWS);
    assert_false(h.changed);
    assert_true(f->told > told); /* ready answers end */
    assert_name(see_latest(f).name, name);
    assert_int_equal(see_latest(f).word.rev, 6);
    h = hear(f, word_of(f, 6));
    assert_int_equal(h.is, WORD_SAME);
    struct page_name newer = made(f, 6, "six");
    assert_name(fix_exact(f, name).superseded_by, newer);
    fixture_free(f);
}

static void a_missing_page_is_hidden_and_comes_back_with_the_page(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 4, "four");
    struct page_name name = made(f, 5, "five");
    wait_s(f, 1);
    (void)hear(f, (struct title_word){ .missing = true, .said = wiki_now(f) });
    assert_int_equal(see_latest(f).why, ERR_GONE);
    assert_rev(f, 4, ERR_GONE);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    wait_s(f, 1);
    (void)hear(f, word_of(f, 5)); /* undeleted: neither touched nor revision changed */
    assert_int_equal(see_latest(f).why, ERR_OK);
    assert_name(see_latest(f).name, name);
    assert_rev(f, 4, ERR_GONE); /* nobody has said yet that it is there */
    fixture_free(f);
}

static void another_page_under_the_title_has_none_of_its_revisions(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    struct page_put p;
    assert_int_equal(put_under(f, 9, word_of(f, 9), "nine", &p), ERR_OK);
    wait_s(f, 1);
    struct title_word other = word_of(f, 7);
    other.page_id = 4;
    (void)hear(f, other);
    assert_rev(f, 5, ERR_GONE);
    assert_rev(f, 9, ERR_GONE);
    assert_int_equal(see_latest(f).why, ERR_GONE);
    fixture_free(f);
}

static void the_newest_revision_of_another_page_is_its_own(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    struct page_put p = { 0 };
    assert_int_equal(fix_put_as(f, 7, -1, "seven, by somebody", &p), ERR_OK);
    wait_s(f, 1);
    struct title_word other = word_of(f, 7);
    other.page_id = 4;
    (void)hear(f, other);
    assert_rev(f, 5, ERR_GONE);
    assert_name(see_latest(f).name, p.stored);
    fixture_free(f);
}

static void a_word_that_lags_is_believed_when_it_is_said_to_be(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    (void)hear(f, word_of(f, 6));
    (void)made(f, 6, "six");
    wait_s(f, 1);
    struct page_hear h = hear(f, word_of(f, 5));
    assert_int_equal(h.is, WORD_LAGS);
    assert_int_equal(h.above, 6);
    assert_int_equal(see_latest(f).name.rev, 6);
    const struct title_mark gone = { .state = PAGE_DELETED,
                                     .first = 6,
                                     .last = PAGE_REV_MAX,
                                     .said_at = { .ns = f->clock.now_ns } };
    struct title_word w = word_of(f, 5);
    h = (struct page_hear){ .believe = true, .marks = &gone, .marks_count = 1 };
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    assert_int_equal(h.above, 0);
    assert_rev(f, 6, ERR_GONE);
    assert_int_equal(see_latest(f).name.rev, 5);
    fixture_free(f);
}

/* Revision 9 is of an imported history: it is there, and was made long before 5. */
static void what_is_there_above_the_newest_is_asked_for_once(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct page_put p = { 0 };
    (void)made(f, 5, "five");
    assert_int_equal(fix_put_as(f, 9, -1, "nine", &p), ERR_OK);
    wait_s(f, 1);
    assert_int_equal(hear(f, word_of(f, 5)).above, 9);
    struct title_word w = word_of(f, 5);
    struct page_hear h = { .believe = true, .there = 9 };
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    assert_int_equal(h.is, WORD_SAME);
    assert_int_equal(h.above, 0);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    wait_s(f, 1);
    assert_int_equal(hear(f, word_of(f, 5)).above, 0);
    w = word_of(f, 6); /* the page goes on */
    w.touched++;
    h = hear(f, w);
    assert_int_equal(h.is, WORD_NEWS);
    assert_int_equal(h.above, 0);
    assert_int_equal(fix_put_as(f, 10, -1, "ten", &p), ERR_OK);
    wait_s(f, 1);
    assert_int_equal(hear(f, w).above, 10); /* of which nothing is known */
    w.page_id = 4;
    w.rev = 3;
    (void)hear(f, w); /* another page has none of that */
    assert_int_equal(see_latest(f).word.there, 0);
    fixture_free(f);
}

static void a_word_asked_earlier_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct title_word early = { .missing = true, .asked_at = { .ns = f->clock.now_ns } };
    wait_s(f, 1);
    (void)made(f, 5, "five");
    struct page_hear h = hear(f, early);
    assert_int_equal(h.is, WORD_OLD);
    assert_false(h.echoes);
    struct title_word echo = word_of(f, 5);
    echo.asked_at = early.asked_at;
    h = hear(f, echo);
    assert_int_equal(h.is, WORD_OLD);
    assert_true(h.echoes);
    assert_int_equal(see_latest(f).why, ERR_OK);
    fixture_free(f);
}

static void a_touched_page_leaves_its_render_dated_until_it_is_made_again(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct page_name name = made(f, 5, "five");
    wait_s(f, 60);
    struct title_word touched = word_of(f, 5);
    touched.touched = wiki_now(f) - 10;
    unsigned told = f->told;
    (void)hear(f, touched);
    assert_true(f->told > told); /* ready answers end */
    assert_name(see_latest(f).name, name);
    assert_int_equal(see_latest(f).dated, DATED_TOUCHED);
    struct page_put p;
    assert_int_equal(put_under(f, 5, touched, "five", &p), ERR_OK); /* and it is the same */
    assert_false(p.created);
    assert_name(p.stored, name);
    assert_int_equal(see_latest(f).dated, DATED_NOT);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    assert_int_equal(see_latest(f).dated, DATED_NOT);
    fixture_free(f);
}

static void a_render_made_right_after_the_touch_is_unsettled(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct title_word w = word_of(f, 5);
    struct page_put p;
    w.touched = wiki_now(f);
    assert_int_equal(put_under(f, 5, w, "five", &p), ERR_OK);
    assert_int_equal(see_latest(f).dated, DATED_UNSETTLED);
    wait_s(f, TITLE_SETTLE_S);
    w.said = wiki_now(f);
    assert_int_equal(put_under(f, 5, w, "five", &p), ERR_OK);
    assert_int_equal(see_latest(f).dated, DATED_NOT);
    fixture_free(f);
}

static void hidden_text_stays_hidden_whatever_is_said_of_the_page(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    (void)made(f, 6, "six");
    wait_s(f, 1);
    assert_int_equal(fix_mark(f, (struct title_mark){ PAGE_SUPPRESSED, 5, 5, { 0 } }), ERR_OK);
    wait_s(f, 1);
    (void)hear(f, word_of(f, 6));
    assert_rev(f, 5, ERR_GONE);
    (void)hear(f, (struct title_word){ .missing = true, .said = wiki_now(f) });
    wait_s(f, 1);
    (void)hear(f, word_of(f, 5));
    assert_rev(f, 5, ERR_GONE);
    fixture_free(f);
}

static void what_was_asked_for_before_the_page_went_is_not_stored(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    struct title_word before = word_of(f, 6);
    before.asked_at.ns = f->clock.now_ns;
    wait_s(f, 1);
    (void)hear(f, (struct title_word){ .missing = true, .said = wiki_now(f) });
    wait_s(f, 1);
    struct page_put p;
    assert_int_equal(put_under(f, 6, before, "six", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_DELETED);
    assert_int_equal(see_latest(f).why, ERR_GONE);
    fixture_free(f);
}

static void a_late_render_of_an_older_revision_is_superseded_at_birth(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)made(f, 5, "five");
    struct title_word before = word_of(f, 5);
    before.asked_at.ns = f->clock.now_ns;
    wait_s(f, 1);
    (void)hear(f, word_of(f, 7));
    struct page_put p;
    assert_int_equal(put_under(f, 6, before, "six", &p), ERR_OK);
    assert_false(p.latest);
    p = (struct page_put){ .heeds = true };
    assert_int_equal(fix_put_as(f, 6, -1, "six, by somebody", &p), ERR_OK);
    assert_false(p.latest);
    fixture_free(f);
}

static void of_what_is_not_stored_nothing_is_written(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct title_word w = word_of(f, 5), found;
    w.asked_at.ns = f->clock.now_ns;
    struct page_hear h = { .domain = f->domain, .title = STR("T"), .word = &w };
    assert_int_equal(page_hear_start(f->pages, &h), STORE_DONE);
    assert_int_equal(h.call.why, ERR_OK);
    assert_int_equal(h.is, WORD_NEWS);
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(word_get(v, f->domain, STR("T"), &found), ERR_NOT_FOUND);
    engine_view_end(&v);
    fixture_free(f);
}

static void a_title_of_many_renders_is_heard_of_in_several_updates(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    (void)made(f, 1, "one");
    for (uint64_t rev = 2; rev <= 1100; rev++)
        (void)fix_put(f, rev, -1);
    wait_s(f, 1);
    assert_true(hear(f, (struct title_word){ .missing = true, .said = wiki_now(f) }).changed);
    assert_rev(f, 1, ERR_GONE);
    assert_int_equal(see_latest(f).why, ERR_GONE);
    assert_true(see_latest(f).word.missing);
    fixture_free(f);
}

/* What is shown by one part of a hearing lies within what another part hides. */
static void a_hearing_of_many_renders_comes_to_its_end(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    (void)made(f, 5, "five");
    for (unsigned i = 0; i < 1100; i++)
        (void)fix_put(f, 5, -1);
    wait_s(f, 1);
    struct title_word other = word_of(f, 20);
    other.page_id = 4;
    const struct title_mark shown = {
        .state = PAGE_CURRENT, .first = 5, .last = 5, .said_at = { .ns = f->clock.now_ns }
    };
    struct page_hear h = { .marks = &shown, .marks_count = 1 };
    assert_int_equal(fix_hear(f, &other, &h), ERR_OK);
    assert_rev(f, 5, ERR_OK);
    const struct seen s = see_latest(f);
    assert_true(title_word_eq(&s.word, &other));
    fixture_free(f);
}

static void many_marks_are_heard_in_several_updates(void **state)
{
    (void)state;
    enum { REVS = 17 };
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct title_mark marks[REVS];
    for (unsigned i = 0; i < REVS; i++) {
        for (unsigned k = 0; k < 300; k++)
            (void)fix_put(f, i + 1, -1);
        marks[i] = (struct title_mark){ .state = PAGE_SUPPRESSED, .first = i + 1, .last = i + 1 };
    }
    wait_s(f, 1);
    for (unsigned i = 0; i < REVS; i++)
        marks[i].said_at.ns = f->clock.now_ns;
    struct page_hear h = { .marks = marks, .marks_count = REVS };
    assert_int_equal(fix_hear(f, NULL, &h), ERR_OK);
    for (unsigned i = 0; i < REVS; i++)
        assert_rev(f, i + 1, ERR_GONE);
    fixture_free(f);
}

/* A copy that is behind takes nothing back, and shows nothing again. What it says as it is known
 * holds. */
static void what_a_copy_that_is_behind_says_otherwise_lags(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name first = made(f, 5, "first"), second = made(f, 6, "second");
    (void)hear(f, word_of(f, 6));
    struct title_word older = word_of(f, 5), newer = word_of(f, 7), same = word_of(f, 6),
                      none = { .missing = true, .said = wiki_now(f) }, other = word_of(f, 4);
    other.page_id = 4;
    const struct title_word *words[] = { &older, &newer, &none, &other };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct page_hear h = { .behind = true };
        assert_int_equal(fix_hear(f, words[i], &h), ERR_OK);
        assert_int_equal(h.is, WORD_LAGS);
        assert_int_equal(h.above, 0);
        assert_false(h.changed);
    }
    const store_time now = { .ns = f->clock.now_ns };
    struct title_mark marks[] = {
        { .state = PAGE_DELETED, .first = 6, .last = PAGE_REV_MAX, .said_at = now },
        { .state = PAGE_SUPPRESSED, .first = 5, .last = 5, .said_at = now },
    };
    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        struct page_hear h = { .behind = true, .marks = &marks[i], .marks_count = 1 };
        assert_int_equal(fix_hear(f, NULL, &h), ERR_OK);
        assert_int_equal(h.is, WORD_LAGS);
    }
    assert_int_equal(see_latest(f).name.rev, second.rev);
    assert_rev(f, first.rev, ERR_OK);
    struct page_hear h = { .behind = true };
    assert_int_equal(fix_hear(f, &same, &h), ERR_OK);
    assert_int_equal(h.is, WORD_SAME);
    fixture_free(f);
}

/* One that has not heard of what is known to have happened takes nothing back; what it shows that
 * is newer counts. */
static void a_doubted_word_counts_for_what_is_newer(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name first = made(f, 5, "first");
    (void)hear(f, word_of(f, 5));
    struct title_word older = word_of(f, 4), other = word_of(f, 4), same = word_of(f, 5),
                      newer = word_of(f, 7);
    other.page_id = 4;
    const struct {
        const struct title_word *word;
        enum title_word_is is;
    } rows[] = { { &older, WORD_LAGS },
                 { &other, WORD_LAGS },
                 { &same, WORD_SAME },
                 { &newer, WORD_NEWS },
                 { &same, WORD_LAGS } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct page_hear h = { .doubted = true };
        assert_int_equal(fix_hear(f, rows[i].word, &h), ERR_OK);
        assert_int_equal(h.is, rows[i].is);
        assert_false(h.changed);
        assert_rev(f, first.rev, ERR_OK);
    }
    fixture_free(f);
}

/* A copy of the database that is behind may not have heard of a page that was just made. */
static void a_doubted_page_is_missing_when_it_was_there_for_long(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name first = made(f, 5, "first");
    struct title_word there = word_of(f, 5), gone = word_of(f, 5);
    gone.missing = true;
    gone.page_id = gone.rev = 0;
    gone.touched = 0;
    struct page_hear h = { .doubted = true };
    assert_int_equal(fix_hear(f, &gone, &h), ERR_OK);
    assert_int_equal(h.is, WORD_LAGS); /* nobody has said yet that it is there */
    (void)hear(f, there);
    gone.said = there.said + TITLE_BEHIND_S - 1;
    h = (struct page_hear){ .doubted = true };
    assert_int_equal(fix_hear(f, &gone, &h), ERR_OK);
    assert_int_equal(h.is, WORD_LAGS);
    assert_rev(f, first.rev, ERR_OK);
    gone.said++;
    h = (struct page_hear){ .doubted = true };
    assert_int_equal(fix_hear(f, &gone, &h), ERR_OK);
    assert_int_equal(h.is, WORD_NEWS);
    assert_true(h.changed);
    assert_rev(f, first.rev, ERR_GONE);
    fixture_free(f);
}

/* Nobody knows whether what is stored above it went, or came after it. */
static void a_doubted_word_below_what_is_stored_lags(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name second = made(f, 6, "second");
    struct title_word last = word_of(f, 4), w = word_of(f, 5);
    struct page_hear h = { .believe = true };
    assert_int_equal(fix_hear(f, &last, &h), ERR_OK);
    assert_int_equal(h.above, second.rev);
    h = (struct page_hear){ .doubted = true };
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    assert_int_equal(h.is, WORD_LAGS);
    assert_int_equal(h.above, 0);
    assert_int_equal(see_latest(f).word.rev, last.rev);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_render_is_stored_with_the_word_before_it),
        cmocka_unit_test(a_render_that_came_with_its_word_is_as_old_as_its_arrival),
        cmocka_unit_test(a_newer_revision_leaves_what_is_stored_within_reach),
        cmocka_unit_test(a_missing_page_is_hidden_and_comes_back_with_the_page),
        cmocka_unit_test(another_page_under_the_title_has_none_of_its_revisions),
        cmocka_unit_test(the_newest_revision_of_another_page_is_its_own),
        cmocka_unit_test(a_word_that_lags_is_believed_when_it_is_said_to_be),
        cmocka_unit_test(what_is_there_above_the_newest_is_asked_for_once),
        cmocka_unit_test(a_word_asked_earlier_changes_nothing),
        cmocka_unit_test(a_touched_page_leaves_its_render_dated_until_it_is_made_again),
        cmocka_unit_test(a_render_made_right_after_the_touch_is_unsettled),
        cmocka_unit_test(hidden_text_stays_hidden_whatever_is_said_of_the_page),
        cmocka_unit_test(what_was_asked_for_before_the_page_went_is_not_stored),
        cmocka_unit_test(a_late_render_of_an_older_revision_is_superseded_at_birth),
        cmocka_unit_test(of_what_is_not_stored_nothing_is_written),
        cmocka_unit_test(a_title_of_many_renders_is_heard_of_in_several_updates),
        cmocka_unit_test(a_hearing_of_many_renders_comes_to_its_end),
        cmocka_unit_test(many_marks_are_heard_in_several_updates),
        cmocka_unit_test(a_doubted_word_counts_for_what_is_newer),
        cmocka_unit_test(a_doubted_word_below_what_is_stored_lags),
        cmocka_unit_test(a_doubted_page_is_missing_when_it_was_there_for_long),
        cmocka_unit_test(what_a_copy_that_is_behind_says_otherwise_lags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
