/* Goal: a dead item holds up later ones of its title as long as its rule says so, and no longer.
 * Method: all of change on a stage (stage.h), where the rule of one name becomes another one. */
#include "stage.h"

#include "unit/cmocka_all.h"

#include <string.h>

#define HTTP "effect: http, url: \"$T/{title}\", retries: 0"
#define RULE(what) "rules: { hook: { match: { stream: t }, " what " } }"
#define HOLD RULE(HTTP ", on_failure: hold")
#define SKIP RULE(HTTP)
#define LOOK RULE("effect: look")

static void reply_500(struct stage *s)
{
    stage_reply(s, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
}

static void expect(struct stage *s, unsigned dead, unsigned waiting)
{
    assert_int_equal(stage_items(s, "hook", CHANGE_DEAD), dead);
    assert_int_equal(stage_items(s, "hook", CHANGE_WAITING), waiting);
    assert_int_equal(stage_items(s, "hook", -1), dead + waiting);
    stage_check(s);
}

/* A dead one of title A, and two that wait for it. */
static void hold_open(struct stage *s)
{
    stage_open(s, HOLD);
    change_start(s->change);
    reply_500(s);
    for (unsigned i = 0; i < 3; i++)
        (void)stage_tell(s, "d", "A"); /* its number is of no use */
    stage_calm(s);
    expect(s, 1, 2);
    stage_reply(s, NULL);
}

static void a_rule_that_skips_lets_the_others_go_on(void **state)
{
    (void)state;
    struct stage s;
    hold_open(&s);
    stage_take(&s, SKIP);
    stage_calm(&s);
    expect(&s, 1, 0);
    assert_int_equal(stage_seen(&s), 3);
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 4);
    stage_close(&s);
}

static void so_does_one_that_collapses(void **state)
{
    (void)state;
    struct stage s;
    hold_open(&s);
    stage_take(&s, LOOK);
    stage_calm(&s);
    expect(&s, 1, 0);
    stage_close(&s);
}

static void so_does_one_that_is_there_after_a_restart(void **state)
{
    (void)state;
    struct stage s;
    hold_open(&s);
    stage_reopen(&s, SKIP);
    change_start(s.change);
    stage_calm(&s);
    expect(&s, 1, 0);
    stage_close(&s);
}

static void one_that_holds_goes_on_holding(void **state)
{
    (void)state;
    struct stage s;
    hold_open(&s);
    stage_take(&s, RULE(HTTP ", on_failure: hold, concurrency: 2"));
    stage_calm(&s);
    expect(&s, 1, 2);
    stage_close(&s);
}

static bool one_runs(struct stage *s)
{
    return stage_running(s) == 1;
}

static void what_dies_by_the_rule_of_before_holds_up_nobody(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOLD);
    change_start(s.change);
    stage_let(&s, 0);
    reply_500(&s);
    (void)stage_tell(&s, "d", "A");
    (void)stage_tell(&s, "d", "A");
    stage_until(&s, one_runs);
    stage_take(&s, SKIP);
    stage_calm(&s);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    expect(&s, 2, 0);
    stage_close(&s);
}

static err kill_first(struct engine_txn *t, void *ctx)
{
    const uint64_t *seq = ctx;
    struct change_edit e;
    bool died;
    const struct change_settle settle = { .rule = 1,
                                          .id = *seq * CHANGE_SUBS,
                                          .seq = *seq,
                                          .how = SETTLED_DEAD,
                                          .collapses = true,
                                          .error = STR("no") };
    change_edit_begin(&e, t);
    err why = change_item_settle(&e, &settle, &died);
    return why == ERR_OK ? change_edit_end(&e) : why;
}

/* As long as the rule collapses a newer event brings it back; then it steps aside for the newer. */
static void one_that_collapsed_steps_aside_when_its_rule_does_not(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, LOOK);
    assert_int_equal(change_pause(s.change, STR("hook"), true, &note), ERR_OK);
    change_start(s.change);
    uint64_t seq = stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(engine_update_wait(s.engine, kill_first, &seq), ERR_OK);
    stage_take(&s, RULE("effect: look, delay: 1ms"));
    stage_calm(&s);
    expect(&s, 1, 0);
    stage_take(&s, SKIP);
    stage_calm(&s);
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    assert_int_equal(change_pause(s.change, STR("hook"), false, &note), ERR_OK);
    stage_calm(&s);
    expect(&s, 1, 0);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_skips_lets_the_others_go_on),
        cmocka_unit_test(so_does_one_that_collapses),
        cmocka_unit_test(so_does_one_that_is_there_after_a_restart),
        cmocka_unit_test(one_that_holds_goes_on_holding),
        cmocka_unit_test(what_dies_by_the_rule_of_before_holds_up_nobody),
        cmocka_unit_test(one_that_collapsed_steps_aside_when_its_rule_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
