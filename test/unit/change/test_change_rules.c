/* Goal: rules are taken over as rules.c says: each has its number for ever, begins where it may,
 * and is forgotten with its last item. Method: all of change on a stage (stage.h); the rows are
 * read. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "unit/cmocka_all.h"

#include <string.h>

#define HOOK "  hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" }\n"
#define OTHER "  other: { match: { stream: t }, effect: http, url: \"$T/other/{title}\" }\n"
#define THIRD "  third: { match: { stream: t }, effect: http, url: \"$T/third/{title}\" }\n"
#define ONE "rules:\n" HOOK
#define BOTH "rules:\n" HOOK OTHER

/* 0: no row has that name. */
static uint32_t number_of(struct stage *s, const char *rule)
{
    struct change_rule_row row;
    struct engine_view *v = engine_view_begin(s->engine);
    err why = change_rule_get(v, str_of(rule), &row);
    engine_view_end(&v);
    return why == ERR_OK ? row.number : 0;
}

static struct change_head head_of(struct stage *s)
{
    struct change_head head;
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(change_head_get(v, &head), ERR_OK);
    engine_view_end(&v);
    return head;
}

static void paused(struct stage *s, const char *rule, bool yes)
{
    struct err_note note;
    assert_int_equal(change_pause(s->change, str_of(rule), yes, &note), ERR_OK);
}

static void numbers_are_never_given_again(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, BOTH);
    change_start(s.change);
    assert_int_equal(number_of(&s, "hook"), 1);
    assert_int_equal(number_of(&s, "other"), 2);
    stage_take(&s, NULL); /* both are forgotten: they have no items */
    assert_int_equal(number_of(&s, "hook"), 0);
    assert_int_equal(number_of(&s, "other"), 0);
    stage_take(&s, "rules:\n" THIRD HOOK);
    assert_int_equal(number_of(&s, "third"), 3);
    assert_int_equal(number_of(&s, "hook"), 4);
    stage_reopen(&s, BOTH);
    change_start(s.change);
    assert_int_equal(number_of(&s, "hook"), 4);
    assert_int_equal(number_of(&s, "other"), 5);
    assert_int_equal(number_of(&s, "third"), 0);
    stage_close(&s);
}

static void a_rule_with_items_that_comes_back_is_itself(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, BOTH);
    paused(&s, "hook", true);
    change_start(s.change);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    stage_take(&s, "rules:\n" OTHER);
    (void)stage_tell(&s, "d", "B"); /* nobody asks the rule about this one */
    stage_calm(&s);
    assert_int_equal(number_of(&s, "hook"), 1);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    stage_take(&s, BOTH);
    stage_calm(&s);
    assert_int_equal(number_of(&s, "hook"), 1);
    assert_int_equal(stage_seen(&s), 2); /* it is still paused */
    paused(&s, "hook", false);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    assert_string_equal(s.paths[2], "/A");
    stage_close(&s);
}

static void a_new_rule_begins_at_the_end_of_the_log(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, NULL);
    change_start(s.change);
    (void)stage_tell(&s, "d", "before"); /* their numbers are of no use */
    stage_take(&s, ONE);
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    stage_take(&s, BOTH);
    (void)stage_tell(&s, "d", "B");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    assert_string_equal(s.paths[0], "/A");
    assert_true(strstr(s.paths[1], "B") != NULL);
    assert_true(strstr(s.paths[2], "B") != NULL);
    stage_close(&s);
}

static void the_head_moves_when_no_rule_was_in_force(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    uint64_t first = stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(head_of(&s).cursor, first);
    stage_take(&s, NULL);
    uint64_t second = stage_tell(&s, "d", "B");
    stage_calm(&s);
    assert_int_equal(head_of(&s).cursor, first);
    stage_take(&s, ONE);
    assert_int_equal(head_of(&s).cursor, second);
    assert_int_equal(head_of(&s).count, 2);
    assert_int_equal(head_of(&s).missed, 0);
    stage_close(&s);
}

/* One of its name, with another number, was there before. */
static void a_rule_that_was_forgotten_and_is_back_can_be_paused(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    stage_take(&s, NULL);
    stage_take(&s, ONE);
    paused(&s, "hook", true);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 0);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    stage_close(&s);
}

static bool is_taken(struct stage *s)
{
    return !s->change->taking && s->change->wanted_count == 0;
}

/* Its sender was told that it is taken, and the rule was in force then: also when the router, or
 * its update, is late. */
static void a_rule_that_goes_is_asked_about_what_was_told_before(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct stage s;
        stage_open(&s, BOTH);
        paused(&s, "hook", true);
        change_start(s.change);
        stage_calm(&s);
        stage_hold(&s, i == 0 ? STAGE_READ : STAGE_WRITE);
        (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
        stage_until_held(&s);
        stage_want(&s, "rules:\n" OTHER);
        (void)stage_tell(&s, "d", "B");
        stage_let_go(&s);
        stage_until(&s, is_taken);
        stage_calm(&s);
        assert_int_equal(number_of(&s, "hook"), 1);
        assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
        assert_int_equal(stage_seen(&s), 2); /* A and B, for the other */
        stage_close(&s);
    }
}

static void a_rule_that_comes_is_asked_about_what_is_told_then(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct stage s;
        stage_open(&s, ONE);
        change_start(s.change);
        stage_calm(&s);
        stage_hold(&s, i == 0 ? STAGE_READ : STAGE_WRITE);
        (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
        stage_until_held(&s);
        stage_want(&s, BOTH);
        (void)stage_tell(&s, "d", "B");
        stage_let_go(&s);
        stage_until(&s, is_taken);
        stage_calm(&s);
        assert_int_equal(stage_seen(&s), 3); /* A and B for one, B for the other */
        stage_close(&s);
    }
}

/* Rules were read twice more before the first ones were in force. Who told something in between was
 * told what the ones in between say. */
static void rules_that_others_follow_at_once_are_asked_about_what_came_between(void **state)
{
    (void)state;
    static const char *const firsts[] = { NULL, "rules:\n" OTHER };
    for (unsigned i = 0; i < COUNT_OF(firsts); i++) {
        struct stage s;
        stage_open(&s, firsts[i]);
        change_start(s.change);
        stage_calm(&s);
        stage_hold(&s, STAGE_TAKEN);
        stage_want(&s, "rules:\n" THIRD);
        stage_until_held(&s);
        stage_want(&s, ONE);
        (void)stage_tell(&s, "d", "A"); /* its number is of no use */
        stage_want(&s, NULL);
        stage_let_go(&s);
        stage_until(&s, is_taken);
        stage_take(&s, ONE);
        stage_calm(&s);
        assert_int_equal(stage_seen(&s), 1);
        assert_string_equal(s.paths[0], "/A");
        stage_close(&s);
    }
}

/* However often rules are read before the first are in force: each event is for those that were the
 * newest in line then. */
static void rules_wait_in_line_and_the_rest_for_a_place(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules:\n" OTHER);
    change_start(s.change);
    stage_calm(&s);
    stage_hold(&s, STAGE_TAKEN);
    unsigned before = change_reloads(s.change);
    for (unsigned i = 0; i < 3 * CHANGE_WANTED_MAX; i++) {
        stage_want(&s, i % 2 == 0 ? ONE : "rules:\n" OTHER);
        (void)stage_tell(&s, "d", "A"); /* its number is of no use */
        assert_int_equal(change_reloads(s.change) - before,
                         i < CHANGE_WANTED_MAX ? i + 1 : CHANGE_WANTED_MAX);
    }
    stage_until_held(&s);
    stage_want(&s, BOTH);
    stage_let_go(&s);
    stage_until(&s, is_taken);
    assert_int_equal(change_reloads(s.change) - before, CHANGE_WANTED_MAX + 1);
    (void)stage_tell(&s, "d", "B");
    stage_calm(&s);
    unsigned hooked = 0, others = 0, last = 0;
    for (unsigned i = 0; i < stage_seen(&s); i++) {
        hooked += strcmp(s.paths[i], "/A") == 0;
        others += strcmp(s.paths[i], "/other/A") == 0;
        last += s.paths[i][strlen(s.paths[i]) - 1] == 'B';
    }
    assert_int_equal(hooked, CHANGE_WANTED_MAX / 2);
    assert_int_equal(others, 3 * CHANGE_WANTED_MAX - CHANGE_WANTED_MAX / 2);
    assert_int_equal(last, 2);
    stage_close(&s);
}

/* More than the router takes in two turns; and the second one reads what is told behind the reload,
 * too. */
static void a_rule_that_goes_is_asked_about_all_that_was_told_before(void **state)
{
    (void)state;
    enum { TOLD = 1200 };
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    stage_calm(&s);
    stage_hold(&s, STAGE_READ);
    for (unsigned i = 0; i < TOLD; i++)
        (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_until_held(&s);
    stage_want(&s, "rules:\n" OTHER);
    (void)stage_tell(&s, "d", "B");
    stage_let_go(&s);
    stage_until(&s, is_taken);
    stage_take(&s, BOTH);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), TOLD + 1);
    unsigned asked = 0;
    for (unsigned i = 0; i < TOLD + 1; i++)
        asked += strcmp(s.paths[i], "/A") == 0;
    assert_int_equal(asked, TOLD);
    stage_close(&s);
}

/* An update may have looked at the clock before it took the event in; or the clock was set back. */
static void what_is_told_behind_a_reload_is_for_the_new_rules_whatever_the_time(void **state)
{
    (void)state;
    static const int64_t back_ns[] = { NS_PER_US, NS_PER_S };
    for (unsigned i = 0; i < COUNT_OF(back_ns); i++) {
        struct stage s;
        stage_open(&s, "rules:\n" OTHER);
        change_start(s.change);
        stage_calm(&s);
        fake_clock_advance(&s.clock, 10 * NS_PER_S);
        stage_hold(&s, STAGE_READ);
        stage_want(&s, ONE);
        stage_until_held(&s);
        fake_clock_advance(&s.clock, -back_ns[i]);
        (void)stage_tell(&s, "d", "A"); /* its number is of no use */
        stage_let_go(&s);
        stage_until(&s, is_taken);
        stage_calm(&s);
        assert_int_equal(stage_seen(&s), 1);
        assert_string_equal(s.paths[0], "/A");
        stage_close(&s);
    }
}

/* Numbers of many events at once, or behind a clock that was set back, are ahead of the clock. */
static void what_was_told_before_a_reload_is_for_the_old_rules_whatever_the_time(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules:\n" OTHER);
    change_start(s.change);
    fake_clock_advance(&s.clock, 10 * NS_PER_S);
    (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
    stage_calm(&s);
    stage_hold(&s, STAGE_READ);
    fake_clock_advance(&s.clock, -NS_PER_S);
    (void)stage_tell(&s, "d", "B");
    stage_until_held(&s);
    stage_want(&s, ONE);
    stage_let_go(&s);
    stage_until(&s, is_taken);
    stage_take(&s, BOTH); /* the item of a rule that goes may have to wait for it */
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    assert_true(strcmp(s.paths[0], "/other/B") == 0 || strcmp(s.paths[1], "/other/B") == 0);
    stage_close(&s);
}

/* Each event is for one of the two: none for both, and none for nobody. */
static void a_rule_with_another_name_goes_on_where_the_first_one_ends(void **state)
{
    (void)state;
    static const char *const sets[] = { "rules:\n" OTHER, "rules:\n" THIRD, ONE };
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    unsigned told = 0;
    for (unsigned i = 0; i < 30; i++) {
        for (unsigned n = 0; n < 7; n++, told++)
            (void)stage_tell(&s, n % 2 == 0 ? "d" : "e", "A"); /* its number is of no use */
        stage_want(&s, sets[i % COUNT_OF(sets)]);
        if (i % 3 == 2)
            stage_until(&s, is_taken);
    }
    stage_until(&s, is_taken);
    stage_take(&s, "rules:\n" HOOK OTHER THIRD);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), told);
    stage_close(&s);
}

/* The server ends before the router has come to the end of the log. */
static void a_rule_with_another_name_goes_on_behind_a_restart(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    stage_calm(&s);
    change_drain(s.change);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_reopen(&s, "rules:\n" OTHER);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    assert_string_equal(s.paths[0], "/other/A");
    stage_close(&s);
}

/* An operator may take a rule away because its items find no room. */
static void rules_do_not_wait_for_items_that_cannot_be_written(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    stage_calm(&s);
    stage_hold(&s, STAGE_WRITE);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_until_held(&s);
    stage_want(&s, "rules:\n" OTHER);
    engine_mem_refuse(s.engine, ERR_FULL);
    stage_let_go(&s);
    stage_calm(&s);
    engine_mem_refuse(s.engine, ERR_OK);
    fake_clock_advance(&s.clock, CHANGE_AGAIN_MS * NS_PER_MS);
    stage_until(&s, is_taken);
    stage_later(&s, CHANGE_AGAIN_MS);
    assert_int_equal(stage_seen(&s), 1);
    assert_true(strstr(s.paths[0], "A") != NULL);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_never_given_again),
        cmocka_unit_test(a_rule_with_items_that_comes_back_is_itself),
        cmocka_unit_test(a_new_rule_begins_at_the_end_of_the_log),
        cmocka_unit_test(the_head_moves_when_no_rule_was_in_force),
        cmocka_unit_test(a_rule_that_was_forgotten_and_is_back_can_be_paused),
        cmocka_unit_test(a_rule_that_goes_is_asked_about_what_was_told_before),
        cmocka_unit_test(a_rule_that_comes_is_asked_about_what_is_told_then),
        cmocka_unit_test(a_rule_that_goes_is_asked_about_all_that_was_told_before),
        cmocka_unit_test(rules_that_others_follow_at_once_are_asked_about_what_came_between),
        cmocka_unit_test(rules_wait_in_line_and_the_rest_for_a_place),
        cmocka_unit_test(what_is_told_behind_a_reload_is_for_the_new_rules_whatever_the_time),
        cmocka_unit_test(what_was_told_before_a_reload_is_for_the_old_rules_whatever_the_time),
        cmocka_unit_test(a_rule_with_another_name_goes_on_where_the_first_one_ends),
        cmocka_unit_test(a_rule_with_another_name_goes_on_behind_a_restart),
        cmocka_unit_test(rules_do_not_wait_for_items_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
