/* Goal: a render that was made too soon after its page was touched is given as it is, and made once
 * more behind the answer when that may tell, once. Where the server makes what is old by itself, it
 * does so once for each title, never more at once than it may, and only while nobody waits for the
 * wiki. Method: a service on a real store, in front of a wiki that says what the test says, and
 * whose clock is moved with ours (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "loop/loop.h"
#include "page/check.h"
#include "page/look.h"
#include "page/remake.h"

#include <stdio.h>
#include <string.h>

#define HTML(text) "<html><head></head>" text
enum { SETTLES_S = TITLE_SETTLE_S + 2 };

static bool gives(struct stage *s, const char *text)
{
    char body[256];
    assert_int_equal(ask(s, "T", 0, body), GOT_CONTENT);
    return strstr(body, text) != NULL;
}

static struct page_target target_of(struct stage *s, const char *title)
{
    return (struct page_target){ .domain = &s->domains[0],
                                 .settings = &s->settings,
                                 .title = str_of(title) };
}

static void want(struct stage *s, const char *title)
{
    const struct page_target t = target_of(s, title);
    page_remake(s->service.remakes, &t);
}

static struct remake_place place(struct stage *s, const char *title)
{
    const struct page_target t = target_of(s, title);
    return page_remake_place(s->service.remakes, &t);
}

static struct remake_figures figures(struct stage *s)
{
    struct remake_figures f;
    page_remakes_figures(s->service.remakes, &s->domains[0], &f);
    return f;
}

/* Made in the second in which its page was touched. */
static void begin(struct stage *s, int64_t revised_s)
{
    stage_begin_checked(s);
    struct wiki_word w = wiki_word_now(s);
    w.touched_s = clock_store(s->service.clock).ns / NS_PER_S;
    wiki_word(s, w);
    wiki_say(s, (struct wiki_says){ .rev = 7,
                                    .html = HTML("soon"),
                                    .revised_s = revised_s < 0 ? 0 : w.touched_s - revised_s });
    assert_true(gives(s, "soon"));
    wiki_say(s, (struct wiki_says){ .rev = 7, .html = HTML("settled") });
}

static void what_was_made_too_soon_is_made_once_more(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    assert_true(gives(&s, "soon"));
    assert_int_equal(wiki_asked(&s), 1); /* it could not be settled yet */
    stage_advance(&s, SETTLES_S);
    assert_true(gives(&s, "soon")); /* nobody waits for it */
    WAIT_UNTIL(gives(&s, "settled"));
    for (unsigned i = 0; i < 3; i++)
        assert_true(gives(&s, "settled"));
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void an_equal_render_is_settled_too(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = HTML("soon") });
    stage_advance(&s, SETTLES_S);
    assert_true(gives(&s, "soon"));
    wiki_wait(&s, 2);
    stage_advance(&s, SETTLES_S);
    WAIT_UNTIL(stage_dated(&s, "T") == DATED_NOT);
    assert_true(gives(&s, "soon"));
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void what_its_own_edit_touched_is_settled(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 0);
    stage_advance(&s, SETTLES_S);
    assert_true(gives(&s, "soon"));
    stage_end(&s); /* what was begun would have been asked for */
    begin(&s, 1);  /* touched a second after the edit: by something else */
    assert_int_equal(stage_dated(&s, "T"), DATED_UNSETTLED);
    stage_end(&s);
    begin(&s, 0);
    assert_int_equal(stage_dated(&s, "T"), DATED_NOT);
    stage_end(&s);
}

static void a_wiki_that_fails_is_asked_by_a_later_reader(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_FAILED });
    stage_advance(&s, SETTLES_S);
    assert_true(gives(&s, "soon"));
    wiki_wait(&s, 2);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = HTML("settled") });
    WAIT_UNTIL(gives(&s, "settled"));
    stage_end(&s);
}

static void one_title_is_made_at_a_time_and_once(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    assert_int_equal(ask(&s, "U", 0, (char[256]){ "" }), GOT_CONTENT);
    stage_advance(&s, SETTLES_S);
    wiki_hold(&s, true);
    for (unsigned i = 0; i < 10; i++)
        assert_true(gives(&s, "soon"));
    want(&s, "U");
    wiki_wait(&s, 3);
    WAIT_UNTIL(figures(&s).waiting == 1);
    assert_true(gives(&s, "soon"));
    assert_int_equal(wiki_asked(&s), 3);
    wiki_hold(&s, false);
    wiki_wait(&s, 4); /* U, behind it */
    WAIT_UNTIL(gives(&s, "settled"));
    stage_end(&s);
}

static void what_is_left_at_the_end_is_not_made(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    assert_int_equal(ask(&s, "U", 0, (char[256]){ "" }), GOT_CONTENT);
    stage_advance(&s, SETTLES_S);
    wiki_hold(&s, true);
    assert_true(gives(&s, "soon"));
    wiki_wait(&s, 3);
    want(&s, "U");
    WAIT_UNTIL(figures(&s).waiting == 1);
    for (unsigned i = 0; i < 100; i++) {
        char title[8];
        (void)snprintf(title, sizeof title, "V%u", i);
        want(&s, title); /* these are being looked at, some of them */
    }
    stage_end(&s);
}

/* ---- without a reader ---- */

enum { TITLES = 5 };

static const char *title_of(unsigned i)
{
    static const char *const titles[TITLES] = { "T", "U", "V", "W", "X" };
    return titles[i];
}

/* Stored, and made under the wiki's last word. */
static void begin_titles(struct stage *s, enum page_rerender rerender, unsigned count)
{
    char body[256];
    stage_begin_checked(s);
    s->domains[0].rerender = rerender;
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(ask(s, title_of(i), 0, body), GOT_CONTENT);
    wiki_say(s, (struct wiki_says){ .rev = 7, .html = HTML("anew") });
    assert_int_equal(wiki_asked(s), count);
}

/* A template of all pages changed, so long ago, and somebody told of these. */
static void touch(struct stage *s, int64_t ago_s, unsigned count)
{
    struct wiki_word w = wiki_word_now(s);
    w.touched_s = clock_store(s->service.clock).ns / NS_PER_S - ago_s;
    wiki_word(s, w);
    for (unsigned i = 0; i < count; i++)
        assert_true(page_look(&s->service, &s->domains[0], str_of(title_of(i)), NULL));
}

static void limit_run(void *ctx)
{
    struct stage *s = ctx;
    page_remakes_limit(s->service.remakes, &s->domains[0], s->domains[0].rerenders);
}

static void limit(struct stage *s, unsigned concurrency, unsigned rate)
{
    s->domains[0].rerenders =
        (struct page_rerender_limits){ .concurrency = concurrency, .rate = rate };
    loop_post(s->loop, limit_run, s);
}

static void assert_all_are_new(struct stage *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char body[256];
        assert_int_equal(stage_dated(s, title_of(i)), DATED_NOT);
        assert_int_equal(ask(s, title_of(i), 0, body), GOT_CONTENT);
        assert_non_null(strstr(body, "anew"));
    }
}

static void what_was_touched_is_made_anew_without_a_reader(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 2);
    limit(&s, 2, 1);
    touch(&s, 50, 2);
    WAIT_UNTIL(figures(&s).made == 2);
    assert_all_are_new(&s, 2);
    assert_int_equal(wiki_asked(&s), 4);
    stage_advance(&s, STAGE_RECHECK_NS / NS_PER_S); /* they are looked at once more */
    WAIT_UNTIL(wiki_words_counts(&s).titles >= 4);
    assert_all_are_new(&s, 2);
    assert_int_equal(figures(&s).made, 2);
    stage_end(&s);
}

static void a_newer_revision_is_made_without_a_reader(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 1);
    limit(&s, 2, 1);
    wiki_say(&s, (struct wiki_says){ .rev = 8, .html = HTML("anew") });
    struct wiki_word w = wiki_word_now(&s);
    w.rev = 8;
    wiki_word(&s, w);
    touch(&s, 0, 1); /* a moment ago: it is not waited for */
    WAIT_UNTIL(figures(&s).made == 1);
    stage_end(&s);
}

/* Made at once, it would have to be made once more. */
static void what_was_touched_a_moment_ago_is_made_once_it_settles(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 1);
    limit(&s, 2, 1);
    touch(&s, 0, 1);
    WAIT_UNTIL(figures(&s).waiting == 1);
    assert_int_equal(wiki_asked(&s), 1);
    stage_advance(&s, SETTLES_S);
    WAIT_UNTIL(figures(&s).made == 1);
    assert_all_are_new(&s, 1);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void what_a_reader_had_made_is_not_made_again(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 2);
    limit(&s, 1, 1);
    wiki_full(&s, true);
    touch(&s, 50, 2);
    WAIT_UNTIL(figures(&s).waiting == 2);
    assert_true(gives(&s, "anew")); /* its reader has it made */
    wiki_full(&s, false);
    WAIT_UNTIL(figures(&s).waiting == 0 && figures(&s).making == 0);
    assert_int_equal(figures(&s).made, 1);
    assert_int_equal(wiki_asked(&s), 4);
    stage_end(&s);
}

/* What a reader had made too soon is made once more, and nobody has to read it. */
static void what_a_reader_had_made_too_soon_is_settled(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    s.domains[0].rerender = RERENDER_AT_ONCE;
    limit(&s, 2, 1);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s = clock_store(s.service.clock).ns / NS_PER_S;
    wiki_word(&s, w);
    char body[256];
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    WAIT_UNTIL(figures(&s).waiting == 1);
    stage_advance(&s, SETTLES_S);
    WAIT_UNTIL(figures(&s).made == 1);
    assert_int_equal(stage_dated(&s, "T"), DATED_NOT);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void assert_places(struct stage *s, unsigned of)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < TITLES; i++) {
        const struct remake_place p = place(s, title_of(i));
        assert_int_equal(p.of, p.waits ? of : 0);
        if (p.waits) {
            assert_in_range(p.place, 1, of);
            seen |= UINT64_C(1) << p.place;
        }
    }
    assert_int_equal(seen, (UINT64_C(2) << of) - 2);
}

static void no_more_are_made_at_once_than_may_be(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, TITLES);
    limit(&s, 2, 1);
    wiki_hold(&s, true);
    touch(&s, 50, TITLES);
    WAIT_UNTIL(figures(&s).waiting == TITLES - 2);
    wiki_wait(&s, TITLES + 2);
    assert_int_equal(figures(&s).making, 2);
    assert_places(&s, TITLES - 2);
    limit(&s, 3, 1); /* by SIGHUP */
    WAIT_UNTIL(figures(&s).making == 3);
    assert_places(&s, TITLES - 3);
    wiki_wait(&s, TITLES + 3);
    wiki_hold(&s, false);
    WAIT_UNTIL(figures(&s).made == TITLES);
    assert_int_equal(wiki_asked(&s), 2 * TITLES);
    stage_end(&s);
}

static void who_waits_for_the_wiki_comes_first(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 3);
    limit(&s, 2, 1);
    wiki_full(&s, true);
    touch(&s, 50, 3);
    WAIT_UNTIL(figures(&s).waiting == 3);
    assert_places(&s, 3);
    assert_false(place(&s, "Y").waits);
    assert_int_equal(figures(&s).making, 0);
    wiki_full(&s, false);
    WAIT_UNTIL(figures(&s).made == 3);
    stage_end(&s);
}

static void those_that_are_paced_begin_one_after_the_other(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_PACED, 3);
    limit(&s, 3, 2);
    mono began = clock_mono(s.service.clock);
    touch(&s, 50, 3);
    WAIT_UNTIL(figures(&s).made == 3);
    assert_true(clock_mono(s.service.clock).ns - began.ns >= NS_PER_S); /* two halves of a second */
    assert_all_are_new(&s, 3);
    stage_end(&s);
}

static void a_wiki_that_wants_to_be_left_alone_is(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 2);
    limit(&s, 1, 1);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_BUSY }); /* for 7 s */
    touch(&s, 50, 2);
    WAIT_UNTIL(figures(&s).failed == 1);
    int64_t until_ns = atomic_load(&s.busy_until_ns);
    assert_true(until_ns > clock_mono(s.service.clock).ns);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = HTML("anew") });
    WAIT_UNTIL(figures(&s).made == 2);
    assert_true(clock_mono(s.service.clock).ns >= until_ns);
    assert_int_equal(figures(&s).failed, 1);
    assert_int_equal(figures(&s).dropped, 0);
    stage_end(&s);
}

static void what_fails_again_and_again_is_left_to_its_reader(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 1);
    limit(&s, 1, 1);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_FAILED });
    touch(&s, 50, 1);
    WAIT_UNTIL(figures(&s).dropped == 1);
    assert_int_equal(figures(&s).failed, REMAKE_TRIES_MAX);
    assert_int_equal(wiki_asked(&s), 1 + REMAKE_TRIES_MAX);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = HTML("anew") });
    WAIT_UNTIL(gives(&s, "anew")); /* once the failure is not remembered any more */
    stage_end(&s);
}

struct many {
    struct stage *stage;
    unsigned count;
    struct awaited over;
};

/* Words of so many titles at once, and of "T": on the loop, where no look ends meanwhile. */
static void many_run(void *ctx)
{
    struct many *m = ctx;
    struct stage *s = m->stage;
    s->domains[0].rerender = RERENDER_AT_ONCE;
    for (unsigned i = 0; i < m->count; i++) {
        char title[16];
        (void)snprintf(title, sizeof title, "Many%u", i);
        page_remake_heard(&s->service, &s->domains[0], str_of(title));
    }
    page_remake_heard(&s->service, &s->domains[0], STR("T"));
    page_remake_heard(&s->service, &s->domains[0], STR("T"));
    awaited_tell(&m->over, ERR_OK);
}

static void hear_many(struct stage *s, unsigned count)
{
    struct many m = { .stage = s, .count = count };
    awaited_init(&m.over);
    loop_post(s->loop, many_run, &m);
    assert_int_equal(awaited_wait(&m.over), ERR_OK);
    awaited_fini(&m.over);
}

static uint64_t words_of(struct stage *s)
{
    struct check_figures f;
    page_checks_figures(s->service.checks, &s->domains[0], &f);
    return f.words;
}

/* A word of it was heard, and nobody has it made. */
static void begin_touched(struct stage *s, int64_t ago_s)
{
    begin_titles(s, RERENDER_ON_READ, 1);
    limit(s, 2, 1);
    touch(s, ago_s, 1);
    WAIT_UNTIL(words_of(s) == 1);
    assert_int_equal(stage_dated(s, "T"), DATED_TOUCHED);
}

static void one_word_of_many_is_not_lost(void **state)
{
    (void)state;
    struct stage s;
    begin_touched(&s, 50);
    hear_many(&s, REMAKES_JUDGED_MAX + 100);
    WAIT_UNTIL(page_remakes_idle(s.service.remakes));
    assert_int_equal(figures(&s).dropped, 0);
    assert_int_equal(figures(&s).made, 1);
    assert_all_are_new(&s, 1);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void what_finds_no_place_is_made_when_its_next_word_comes(void **state)
{
    (void)state;
    struct stage s;
    begin_touched(&s, 50);
    hear_many(&s, REMAKES_JUDGED_MAX + REMAKES_DOMAIN_MAX);
    assert_true(figures(&s).dropped > 0);
    assert_int_equal(place(&s, "T").waits, false);
    WAIT_UNTIL(page_remakes_idle(s.service.remakes));
    assert_int_equal(wiki_asked(&s), 1);
    assert_true(page_look(&s.service, &s.domains[0], STR("T"), NULL)); /* as a sweep's word */
    WAIT_UNTIL(figures(&s).made == 1);
    assert_all_are_new(&s, 1);
    stage_end(&s);
}

/* It would have to be made once more. */
static void one_of_many_is_made_once_it_settles(void **state)
{
    (void)state;
    struct stage s;
    begin_touched(&s, 0);
    hear_many(&s, REMAKES_JUDGED_MAX + 100);
    WAIT_UNTIL(figures(&s).waiting == 1 && figures(&s).making == 0);
    assert_int_equal(wiki_asked(&s), 1);
    stage_advance(&s, SETTLES_S);
    WAIT_UNTIL(figures(&s).made == 1);
    assert_int_equal(stage_dated(&s, "T"), DATED_NOT);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

/* While it was on its way the page was touched once more. */
static void a_word_that_comes_meanwhile_has_it_made_once_more(void **state)
{
    (void)state;
    struct stage s;
    begin_titles(&s, RERENDER_AT_ONCE, 1);
    limit(&s, 1, 1);
    wiki_hold(&s, true);
    touch(&s, 50, 1);
    wiki_wait(&s, 2);
    assert_true(place(&s, "T").is_made);
    touch(&s, 40, 1);
    WAIT_UNTIL(wiki_words_counts(&s).titles >= 2);
    wiki_hold(&s, false);
    WAIT_UNTIL(stage_dated(&s, "T") == DATED_NOT && figures(&s).making == 0);
    assert_all_are_new(&s, 1);
    stage_end(&s);
}

static void readers_and_nobody_are_left_to_it_where_the_domain_says_so(void **state)
{
    (void)state;
    static const enum page_rerender others[] = { RERENDER_ON_READ, RERENDER_NEVER };
    for (unsigned i = 0; i < COUNT_OF(others); i++) {
        struct stage s;
        begin_titles(&s, others[i], 1);
        limit(&s, 2, 1);
        touch(&s, 50, 1);
        WAIT_UNTIL(stage_dated(&s, "T") == DATED_TOUCHED);
        stage_end(&s); /* what was begun would have been asked for */
    }
}

static void what_is_told_to_be_redone_is_made_when_its_word_comes(void **state)
{
    (void)state;
    struct stage s;
    _Atomic int64_t redo_ns = 0;
    char body[256];
    stage_begin_checked(&s);
    s.domains[0].rerender = RERENDER_AT_ONCE;
    s.domains[0].redo_ns = &redo_ns;
    s.domains[0].rerender_after_ns = NS_PER_S; /* by its age alone it is not */
    limit(&s, 2, 1);
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    stage_advance(&s, 2);
    assert_true(page_look(&s.service, &s.domains[0], STR("T"), NULL));
    WAIT_UNTIL(wiki_words_counts(&s).titles == 1);
    want(&s, "T");
    WAIT_UNTIL(page_remakes_idle(s.service.remakes));
    assert_int_equal(wiki_asked(&s), 1);
    redo_ns = clock_store(s.service.clock).ns;
    stage_advance(&s, 1);
    want(&s, "T"); /* as a sweep's word */
    WAIT_UNTIL(figures(&s).made == 1);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_made_too_soon_is_made_once_more),
        cmocka_unit_test(an_equal_render_is_settled_too),
        cmocka_unit_test(what_its_own_edit_touched_is_settled),
        cmocka_unit_test(a_wiki_that_fails_is_asked_by_a_later_reader),
        cmocka_unit_test(one_title_is_made_at_a_time_and_once),
        cmocka_unit_test(what_is_left_at_the_end_is_not_made),
        cmocka_unit_test(what_was_touched_is_made_anew_without_a_reader),
        cmocka_unit_test(a_newer_revision_is_made_without_a_reader),
        cmocka_unit_test(what_was_touched_a_moment_ago_is_made_once_it_settles),
        cmocka_unit_test(what_a_reader_had_made_is_not_made_again),
        cmocka_unit_test(what_a_reader_had_made_too_soon_is_settled),
        cmocka_unit_test(no_more_are_made_at_once_than_may_be),
        cmocka_unit_test(who_waits_for_the_wiki_comes_first),
        cmocka_unit_test(those_that_are_paced_begin_one_after_the_other),
        cmocka_unit_test(a_wiki_that_wants_to_be_left_alone_is),
        cmocka_unit_test(what_fails_again_and_again_is_left_to_its_reader),
        cmocka_unit_test(one_word_of_many_is_not_lost),
        cmocka_unit_test(what_finds_no_place_is_made_when_its_next_word_comes),
        cmocka_unit_test(one_of_many_is_made_once_it_settles),
        cmocka_unit_test(a_word_that_comes_meanwhile_has_it_made_once_more),
        cmocka_unit_test(readers_and_nobody_are_left_to_it_where_the_domain_says_so),
        cmocka_unit_test(what_is_told_to_be_redone_is_made_when_its_word_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
