/* Goal: the router asks the rules about each event once, whatever fails meanwhile, and counts what
 * it missed. Method: all of change on a stage (stage.h), with an engine that refuses, a log that
 * culls, and a rule that is paused, so that its items can be counted. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define HOOK "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }"

static void stage_open_paused(struct stage *s, const char *rules)
{
    struct err_note note;
    stage_open(s, rules);
    assert_int_equal(change_pause(s->change, STR("hook"), true, &note), ERR_OK);
}

static void tell_many(struct stage *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char title[32];
        (void)snprintf(title, sizeof title, "T%u", i % 7);  /* it fits */
        (void)stage_tell(s, i % 2 == 0 ? "d" : "e", title); /* its number is of no use */
    }
}

static uint64_t missed(struct stage *s)
{
    struct arena a;
    struct change_status status;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    arena_fini(&a);
    return status.missed;
}

static void each_event_is_routed_once_over_batches(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, HOOK);
    tell_many(&s, 1500); /* more than one batch */
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", -1), 1500);
    tell_many(&s, 3);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", -1), 1503);
    assert_int_equal(stage_items(&s, "hook", CHANGE_WAITING), 1503 - 14); /* 7 titles, 2 domains */
    assert_int_equal(missed(&s), 0);
    stage_close(&s);
}

static void an_engine_that_refuses_is_asked_again(void **state)
{
    (void)state;
    static const err refusals[] = { ERR_FULL, ERR_IO, ERR_LIMIT };
    for (unsigned i = 0; i < COUNT_OF(refusals); i++) {
        struct stage s;
        stage_open_paused(&s, HOOK);
        tell_many(&s, 700);
        engine_mem_refuse(s.engine, refusals[i]);
        change_start(s.change);
        stage_calm(&s);
        assert_int_equal(stage_items(&s, "hook", -1), 0);
        engine_mem_refuse(s.engine, ERR_OK);
        stage_later(&s, CHANGE_AGAIN_MS);
        assert_int_equal(stage_items(&s, "hook", -1), 700);
        stage_close(&s);
    }
}

static void cull_all(struct stage *s)
{
    bool more = true;
    store_time next;
    fake_clock_advance(&s->clock, 7200 * NS_PER_S);
    while (more)
        assert_int_equal(event_log_upkeep(s->events, &more, &next), ERR_OK);
}

static void what_the_log_removed_before_is_counted(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, HOOK); /* from an empty log on */
    tell_many(&s, 5);
    cull_all(&s);
    tell_many(&s, 2);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(missed(&s), 5);
    assert_int_equal(stage_items(&s, "hook", -1), 2);
    engine_mem_refuse(s.engine, ERR_FULL); /* a batch that is read twice counts once */
    tell_many(&s, 0);
    engine_mem_refuse(s.engine, ERR_OK);
    stage_reopen(&s, HOOK);
    tell_many(&s, 3);
    cull_all(&s);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(missed(&s), 8); /* though nothing is left behind them */
    stage_reopen(&s, HOOK);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(missed(&s), 8);
    stage_close(&s);
}

/* Nobody wanted them: that they were looked at is written down soon, not with the next that is
 * wanted.
 */
static void events_that_nobody_wants_are_not_missed_later(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK);
    change_start(s.change);
    for (unsigned i = 0; i < 5; i++)
        (void)stage_tell_stream(&s, "other", "d", "A"); /* its number is of no use */
    stage_calm(&s);
    stage_later(&s, 6000);
    stage_reopen(&s, HOOK);
    cull_all(&s);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(missed(&s), 0);
    stage_close(&s);
}

static void a_replay_asks_about_what_was_routed_alone(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, HOOK);
    change_start(s.change);
    tell_many(&s, 10);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 10);
    stage_hold(&s, STAGE_READ);
    tell_many(&s, 10);
    stage_until_held(&s);
    assert_int_equal(change_replay(s.change, STR("hook"), STORE_TIME_ZERO, &note), ERR_OK);
    stage_let_go(&s);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 30); /* the first ten twice, the others once */
    assert_int_equal(stage_items(&s, "hook", -1), 0);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_is_routed_once_over_batches),
        cmocka_unit_test(an_engine_that_refuses_is_asked_again),
        cmocka_unit_test(what_the_log_removed_before_is_counted),
        cmocka_unit_test(events_that_nobody_wants_are_not_missed_later),
        cmocka_unit_test(a_replay_asks_about_what_was_routed_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
