/* Goal: a render that was made too soon after its page was touched is given as it is, and made once
 * more behind the answer when that may tell, once. Method: a service on a real store, in front of a
 * wiki that says what the test says, and whose clock is moved with ours (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "loop/loop.h"
#include "page/remake.h"

#include <string.h>

#define HTML(text) "<html><head></head>" text
enum { SETTLES_S = TITLE_SETTLE_S + 2 };

static bool gives(struct stage *s, const char *text)
{
    char body[256];
    assert_int_equal(ask(s, "T", 0, body), GOT_CONTENT);
    return strstr(body, text) != NULL;
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
    stage_advance(&s, SETTLES_S);
    wiki_hold(&s, true);
    for (unsigned i = 0; i < 10; i++)
        assert_true(gives(&s, "soon"));
    const struct page_target other = { .domain = &s.domains[0],
                                       .settings = &s.settings,
                                       .title = STR("U") };
    const struct page_seen seen = page_changes_see(s.service.changes, 0, 0, STR("U"));
    page_remake(s.service.remakes, &other, &seen);
    wiki_wait(&s, 2);
    assert_true(gives(&s, "soon"));
    assert_int_equal(wiki_asked(&s), 2);
    wiki_hold(&s, false);
    wiki_wait(&s, 3); /* U, behind it */
    WAIT_UNTIL(gives(&s, "settled"));
    stage_end(&s);
}

static void what_is_left_at_the_end_is_not_made(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, -1);
    stage_advance(&s, SETTLES_S);
    wiki_hold(&s, true);
    assert_true(gives(&s, "soon"));
    wiki_wait(&s, 2);
    const struct page_seen seen = page_changes_see(s.service.changes, 0, 0, STR("U"));
    for (unsigned i = 0; i < REMAKES_MAX + 1; i++) {
        const struct page_target other = { .domain = &s.domains[0],
                                           .settings = &s.settings,
                                           .title = STR("U") };
        page_remake(s.service.remakes, &other, &seen);
    }
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
