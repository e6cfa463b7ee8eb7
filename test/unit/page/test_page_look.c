/* Goal: what somebody said changed is asked for at once, and nothing older is trusted; who says it
 * knows or does not know what the wiki's word must reach. Method: as test_page_check.c; the clock
 * of what is stored is moved. */
#include "stage.h"

#include "loop/loop.h"
#include "loop/sysclock.h"
#include "page/behind.h"
#include "page/check.h"
#include "page/look.h"

#include <stdio.h>
#include <string.h>

struct got {
    enum page_outcome outcome;
    enum page_get_trusted trusted;
    err why;
    char body[256];
};

static struct got get_as(struct stage *s, uint64_t rev, unsigned flags)
{
    struct asked a;
    asked_init(&a, s, "T");
    a.get.target.has_rev = rev != 0;
    a.get.target.name.rev = rev;
    a.get.flags |= flags;
    asked_start(&a);
    struct got g = { .outcome = asked_wait(&a) };
    g.trusted = a.get.trusted;
    g.why = a.get.why;
    memcpy(g.body, a.body, sizeof g.body);
    asked_fini(&a);
    return g;
}

static struct got get(struct stage *s, uint64_t rev)
{
    return get_as(s, rev, 0);
}

static bool look(struct stage *s, const char *title, uint64_t rev, int64_t touched)
{
    const struct title_bound b = { .rev = rev, .touched = touched };
    return page_look(&s->service, &s->domains[0], str_of(title), &b);
}

static struct look_figures figures(struct stage *s)
{
    struct look_figures f;
    page_looks_figures(s->service.looks, &f);
    return f;
}

static void advance(struct stage *s, int64_t ns)
{
    assert_int_equal(sysclock_advance(s->sysclock, ns, NULL), ERR_OK);
}

static void wiki_edit(struct stage *s, uint64_t rev)
{
    struct wiki_word w = wiki_word_now(s);
    w.rev = rev;
    w.touched_s += 10;
    wiki_word(s, w);
    wiki_say(s, (struct wiki_says){ .rev = rev, .html = "<html><head></head>made" });
}

static uint64_t words_heard(struct stage *s)
{
    struct check_figures f;
    page_checks_figures(s->service.checks, &s->domains[0], &f);
    return f.words;
}

static void what_is_stored_is_asked_for_at_once(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    assert_int_equal(get(&s, 0).trusted, GET_CHECKED);
    assert_int_equal(get(&s, 0).trusted, GET_TRUSTED);
    assert_true(look(&s, "T", 0, 0));
    WAIT_UNTIL(words_heard(&s) == 2);
    assert_int_equal(get(&s, 0).trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 2);
    assert_int_equal(figures(&s).looked, 1);
    stage_end(&s);
}

static void what_the_wiki_has_anew_is_given_to_the_next_reader(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    wiki_edit(&s, 8);
    assert_string_equal(get(&s, 0).body, "stored");
    assert_true(look(&s, "T", 8, 0));
    assert_non_null(strstr(get(&s, 0).body, "made"));
    stage_end(&s);
}

static void what_is_not_stored_costs_no_question(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    assert_true(look(&s, "U", 0, 0));
    WAIT_UNTIL(figures(&s).unknown == 1);
    assert_true(page_look(&s.service, &s.domains[1], STR("T"), NULL)); /* it has no wiki */
    WAIT_UNTIL(figures(&s).waiting == 0);
    assert_int_equal(wiki_words_asked(&s), 0);
    struct trust_figures f;
    page_trust_figures(s.service.trust, &f);
    assert_int_equal(f.cells, 0);
    stage_end(&s);
}

enum { MANY = 40 };

static void look_at_many(void *ctx)
{
    struct stage *s = ctx;
    char title[16];
    for (unsigned i = 0; i < 2 * MANY; i++) {
        (void)snprintf(title, sizeof title, "T%u", i % MANY);
        assert_true(look(s, title, 7, 0));
    }
}

static void what_comes_together_is_asked_for_together(void **state)
{
    (void)state;
    struct stage s;
    char title[16];
    stage_begin_checked(&s);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(title, sizeof title, "T%u", i);
        (void)stage_put(&s, title, 7, "stored");
    }
    loop_post(s.loop, look_at_many, &s); /* no call begins before all were said */
    WAIT_UNTIL(figures(&s).looked >= MANY && figures(&s).waiting == 0);
    WAIT_UNTIL(words_heard(&s) >= MANY);
    assert_in_range(wiki_words_asked(&s), 1, 2);
    stage_end(&s);
}

static void without_a_bound_it_is_looked_at_once_more(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    assert_true(look(&s, "T", 0, 0));
    WAIT_UNTIL(words_heard(&s) == 1);
    assert_int_equal(figures(&s).waiting, 1);
    wiki_edit(&s, 8); /* the copy of the database has caught up */
    assert_int_equal(get(&s, 0).trusted, GET_TRUSTED);
    advance(&s, STAGE_RECHECK_NS);
    WAIT_UNTIL(words_heard(&s) == 2);
    assert_non_null(strstr(get(&s, 0).body, "made"));
    assert_int_equal(figures(&s).rechecked, 1);
    assert_int_equal(figures(&s).waiting, 0);
    stage_end(&s);
}

static void who_says_it_again_meanwhile_brings_no_second_recheck(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(look(&s, "T", i == 3 ? 7 : 0, 0)); /* nor does who knows a bound end it */
        WAIT_UNTIL(words_heard(&s) == i);
        WAIT_UNTIL(figures(&s).waiting == 1);
        advance(&s, STAGE_RECHECK_NS / 2);
    }
    advance(&s, STAGE_RECHECK_NS);
    WAIT_UNTIL(figures(&s).waiting == 0);
    WAIT_UNTIL(words_heard(&s) == 4);
    assert_int_equal(figures(&s).rechecked, 1);
    stage_end(&s);
}

static void a_word_that_does_not_reach_the_bound_is_not_trusted(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    assert_true(look(&s, "T", 8, 0));
    WAIT_UNTIL(words_heard(&s) == 2);
    const unsigned readers[] = { 0, GET_STASH };
    for (unsigned i = 0; i < COUNT_OF(readers); i++) {
        struct got g = get_as(&s, 0, readers[i]);
        assert_string_equal(g.body, "stored");
        assert_int_equal(g.trusted, GET_CHECKED); /* by that word; it is no outage */
        assert_int_equal(words_heard(&s), 2 + i); /* who edits has it asked for once more */
    }
    wiki_edit(&s, 8);
    advance(&s, NS_PER_S);
    WAIT_UNTIL(words_heard(&s) == 4);
    assert_non_null(strstr(get(&s, 0).body, "made"));
    assert_int_equal(figures(&s).waiting, 0);
    stage_end(&s);
}

static void it_is_believed_in_the_end(void **state)
{
    (void)state;
    static const int64_t rests_s[] = { 1, 5, 30 };
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    assert_true(look(&s, "T", 8, 0));
    for (unsigned i = 0; i < COUNT_OF(rests_s); i++) {
        WAIT_UNTIL(words_heard(&s) == i + 1);
        assert_int_equal(get(&s, 0).trusted, GET_CHECKED);
        advance(&s, rests_s[i] * NS_PER_S);
    }
    WAIT_UNTIL(words_heard(&s) == 4);
    assert_int_equal(get(&s, 0).trusted, GET_TRUSTED);
    stage_end(&s);
}

static void a_page_just_made_is_not_missing(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    s.domains[0].check_wait_ms = 50;
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    assert_true(look(&s, "T", 7, 0));
    WAIT_UNTIL(words_heard(&s) == 1);
    assert_string_equal(get(&s, 0).body, "stored");
    stage_end(&s);
}

static void a_deletion_is_reached_when_it_is_missing(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    assert_true(look(&s, "T", 0, wiki_word_now(&s).touched_s + 50));
    WAIT_UNTIL(words_heard(&s) == 2);
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    advance(&s, NS_PER_S);
    WAIT_UNTIL(words_heard(&s) == 3);
    assert_int_equal(get(&s, 0).outcome, GOT_ORIGIN_FAILED);
    stage_end(&s);
}

static void older_revisions_are_asked_for_anew(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 6, "secret");
    (void)stage_put(&s, "T", 7, "stored");
    assert_string_equal(get(&s, 6).body, "secret");
    assert_string_equal(get(&s, 6).body, "secret");
    assert_int_equal(wiki_words_asked(&s), 1);
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_HIDDEN;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_SUPPRESSED });
    assert_true(look(&s, "T", 0, 0));
    assert_int_equal(get(&s, 6).outcome, GOT_GONE);
    stage_end(&s);
}

static void what_was_asked_for_before_is_asked_for_again(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    wiki_hold_words(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    WAIT_UNTIL(wiki_words_asked(&s) == 1);
    assert_true(look(&s, "T", 7, 0));
    WAIT_UNTIL(figures(&s).looked == 1);
    wiki_hold_words(&s, false);
    (void)asked_wait(&a);
    asked_fini(&a);
    WAIT_UNTIL(words_heard(&s) == 2); /* though nobody waits for it */
    assert_int_equal(get(&s, 0).trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 2);
    stage_end(&s);
}

/* The title's word was asked for, and now whether the greater revision is still there. */
static void what_waits_for_another_answer_is_asked_for_again(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "eight");
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING;
    wiki_word(&s, w);
    wiki_hold_words(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    WAIT_UNTIL(wiki_words_asked(&s) == 1);
    wiki_hold_words(&s, true);
    WAIT_UNTIL(wiki_words_asked(&s) == 2);
    assert_true(look(&s, "T", 7, 0));
    WAIT_UNTIL(figures(&s).looked == 1);
    wiki_hold_words(&s, false);
    (void)asked_wait(&a);
    asked_fini(&a);
    WAIT_UNTIL(words_heard(&s) == 3);
    struct got g = get(&s, 0);
    assert_string_equal(g.body, "seven");
    assert_int_equal(g.trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 3);
    stage_end(&s);
}

static void what_was_in_the_making_is_not_trusted_either(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    wiki_hold(&s, true);
    struct asked a;
    asked_init(&a, &s, "T");
    asked_start(&a);
    wiki_wait(&s, 1);
    assert_true(look(&s, "T", 0, 0));
    WAIT_UNTIL(figures(&s).unknown == 1); /* else it asks the wiki itself, once T is stored */
    wiki_hold(&s, false);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    asked_fini(&a);
    assert_int_equal(get(&s, 0).trusted, GET_CHECKED);
    stage_end(&s);
}

/* Whoever says again and again what never comes true holds up what the wiki says, but no longer
 * than one who says it once. */
static void what_is_never_reached_does_not_hide_what_the_wiki_says(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    s.domains[0].check_wait_ms = 200;
    (void)stage_put(&s, "T", 7, "stored");
    assert_int_equal(get(&s, 0).outcome, GOT_CONTENT);
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    for (unsigned i = 0; i < 6; i++) {
        uint64_t before = words_heard(&s);
        assert_true(look(&s, "T", 100, 0));
        WAIT_UNTIL(words_heard(&s) > before);
        advance(&s, 10 * NS_PER_S);
        WAIT_UNTIL(words_heard(&s) > before + 1 || get(&s, 0).outcome != GOT_CONTENT);
    }
    struct got g = get(&s, 0);
    assert_int_equal(g.outcome, GOT_ORIGIN_FAILED);
    assert_int_equal(g.why, ERR_NOT_FOUND);
    stage_end(&s);
}

enum { NEVER_REV = INT32_MAX, NEVER_S = INT32_MAX };

/* Who says what never comes true holds up nothing that the wiki shows. */
static void what_is_newer_than_stored_counts_whatever_was_to_be_reached(void **state)
{
    (void)state;
    static const struct title_bound never[] = { { .rev = NEVER_REV }, { .touched = NEVER_S } };
    for (unsigned i = 0; i < COUNT_OF(never); i++) {
        struct stage s;
        stage_begin_checked(&s);
        (void)stage_put(&s, "T", 7, "stored");
        (void)get(&s, 0);
        assert_true(look(&s, "T", never[i].rev, never[i].touched));
        WAIT_UNTIL(words_heard(&s) == 2);
        wiki_edit(&s, 8);
        assert_true(look(&s, "T", 0, 0)); /* as of a PURGE */
        struct got g = get(&s, 0);
        assert_int_equal(g.outcome, GOT_CONTENT);
        assert_non_null(strstr(g.body, "made"));
        stage_end(&s);
    }
}

/* Nobody tells of the edit: who reads asks, every 2 s at most, and does not wait for the rest. */
static void who_reads_while_it_rests_asks(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    assert_true(look(&s, "T", NEVER_REV, 0));
    WAIT_UNTIL(words_heard(&s) == 2);
    advance(&s, NS_PER_S);
    WAIT_UNTIL(words_heard(&s) == 3);
    wiki_edit(&s, 8); /* it rests for 5 s */
    assert_string_equal(get(&s, 0).body, "stored");
    assert_int_equal(words_heard(&s), 3);
    advance(&s, TRUST_RECENT_NS + NS_PER_S);
    assert_non_null(strstr(get(&s, 0).body, "made"));
    assert_int_equal(words_heard(&s), 4);
    stage_end(&s);
}

/* A deletion stays doubted for 36 s, however often it is read and looked at; then it is believed.
 */
static void who_reads_often_makes_no_word_believed(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_true(look(&s, "T", NEVER_REV, 0));
    WAIT_UNTIL(words_heard(&s) == 2);
    for (unsigned i = 0; i < 11; i++) {
        advance(&s, 3 * NS_PER_S);
        if (i == 4)
            assert_true(look(&s, "T", 0, 0)); /* its rests begin anew */
        struct got g = get(&s, 0);
        assert_int_equal(g.outcome, GOT_CONTENT);
        assert_int_equal(g.trusted, GET_UNCHECKED);
    }
    advance(&s, 4 * NS_PER_S);
    WAIT_UNTIL(get(&s, 0).outcome == GOT_ORIGIN_FAILED);
    stage_end(&s);
}

/* Deleted before the word of its latest edit was heard: no word reaches that. The page was there so
 * long that each copy of the database has heard of it. */
static void a_page_long_known_is_missing_whatever_was_to_be_reached(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0);
    advance(&s, BEHIND_S * NS_PER_S);
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_true(look(&s, "T", 8, 0));
    WAIT_UNTIL(words_heard(&s) == 2);
    struct got g = get(&s, 0);
    assert_int_equal(g.outcome, GOT_ORIGIN_FAILED);
    assert_int_equal(g.why, ERR_NOT_FOUND);
    advance(&s, NS_PER_S); /* it is asked for again all the same: it may have come back */
    WAIT_UNTIL(words_heard(&s) == 3);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_is_asked_for_at_once),
        cmocka_unit_test(what_the_wiki_has_anew_is_given_to_the_next_reader),
        cmocka_unit_test(what_is_not_stored_costs_no_question),
        cmocka_unit_test(what_comes_together_is_asked_for_together),
        cmocka_unit_test(without_a_bound_it_is_looked_at_once_more),
        cmocka_unit_test(who_says_it_again_meanwhile_brings_no_second_recheck),
        cmocka_unit_test(a_word_that_does_not_reach_the_bound_is_not_trusted),
        cmocka_unit_test(it_is_believed_in_the_end),
        cmocka_unit_test(a_page_just_made_is_not_missing),
        cmocka_unit_test(a_deletion_is_reached_when_it_is_missing),
        cmocka_unit_test(older_revisions_are_asked_for_anew),
        cmocka_unit_test(what_was_asked_for_before_is_asked_for_again),
        cmocka_unit_test(what_waits_for_another_answer_is_asked_for_again),
        cmocka_unit_test(what_was_in_the_making_is_not_trusted_either),
        cmocka_unit_test(what_is_never_reached_does_not_hide_what_the_wiki_says),
        cmocka_unit_test(what_is_newer_than_stored_counts_whatever_was_to_be_reached),
        cmocka_unit_test(who_reads_while_it_rests_asks),
        cmocka_unit_test(who_reads_often_makes_no_word_believed),
        cmocka_unit_test(a_page_long_known_is_missing_whatever_was_to_be_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
