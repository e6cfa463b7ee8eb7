/* Goal: on a full disk what is there comes to its end: items fall due, end, are dropped and brought
 * back, and rules are steered and taken over; new items wait for room. Method: all of change on a
 * stage (stage.h), with an engine that has its reserve alone, or not even that. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define HTTP "match: { stream: t }, effect: http, url: \"$T/{title}\", "
#define RULE(what) "rules: { hook: { " HTTP what " } }"
#define AGAIN RULE("retries: 1, backoff: 1s")
#define HOLD RULE("retries: 0, on_failure: hold")
#define SKIP RULE("retries: 0")

static void reply_500(struct stage *s)
{
    stage_reply(s, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
}

static void expect(struct stage *s, enum change_state state, unsigned count)
{
    assert_int_equal(stage_items(s, "hook", (int)state), count);
    assert_int_equal(stage_items(s, "hook", -1), count);
    stage_check(s);
}

/* Count items whose first attempt has failed; from then on the target is well, and the disk full.
 */
static void failed_open(struct stage *s, const char *rules, unsigned count)
{
    static const char *const titles[] = { "A", "B", "C" };
    stage_open(s, rules);
    change_start(s->change);
    reply_500(s);
    for (unsigned i = 0; i < count; i++)
        (void)stage_tell(s, "d", titles[i]); /* its number is of no use */
    stage_calm(s);
    assert_int_equal(stage_seen(s), count);
    stage_reply(s, NULL);
    engine_mem_full(s->engine, true);
}

static void full_close(struct stage *s)
{
    engine_mem_full(s->engine, false);
    stage_close(s);
}

static void what_is_due_falls_due(void **state)
{
    (void)state;
    struct stage s;
    failed_open(&s, AGAIN, 3);
    expect(&s, CHANGE_SCHEDULED, 3);
    fake_clock_advance(&s.clock, 2 * NS_PER_S);
    change_upkeep_all(s.change);
    stage_calm(&s);
    expect(&s, CHANGE_SCHEDULED, 0);
    assert_int_equal(stage_seen(&s), 6);
    full_close(&s);
}

static bool is_done(struct stage *s)
{
    return stage_items(s, "hook", -1) == 0;
}

/* By the timer, as nobody moves the clock. */
static void what_is_due_after_a_restart_falls_due(void **state)
{
    (void)state;
    struct stage s;
    failed_open(&s, AGAIN, 3);
    stage_reopen(&s, AGAIN);
    fake_clock_advance(&s.clock, 2 * NS_PER_S);
    change_start(s.change);
    stage_until(&s, is_done);
    assert_int_equal(stage_seen(&s), 6);
    full_close(&s);
}

static void items_are_dropped(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    uint64_t count;
    failed_open(&s, HOLD, 2);
    expect(&s, CHANGE_DEAD, 2);
    assert_int_equal(change_drop(s.change, STR("hook"), 0, -1, &count, &note), ERR_OK);
    assert_int_equal(count, 2);
    expect(&s, CHANGE_DEAD, 0);
    full_close(&s);
}

static void items_are_brought_back(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    uint64_t count;
    failed_open(&s, HOLD, 2);
    assert_int_equal(change_retry(s.change, STR("hook"), 0, &count, &note), ERR_OK);
    assert_int_equal(count, 2);
    stage_calm(&s);
    expect(&s, CHANGE_DEAD, 0);
    assert_int_equal(stage_seen(&s), 4);
    full_close(&s);
}

static void rules_are_paused(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    failed_open(&s, AGAIN, 1);
    assert_int_equal(change_pause(s.change, STR("hook"), true, &note), ERR_OK);
    stage_later(&s, 2000);
    expect(&s, CHANGE_READY, 1);
    assert_int_equal(change_pause(s.change, STR("hook"), false, &note), ERR_OK);
    stage_calm(&s);
    expect(&s, CHANGE_READY, 0);
    full_close(&s);
}

/* In a server that runs, and by one that starts. */
static void rules_are_taken_over(void **state)
{
    (void)state;
    struct stage s;
    for (unsigned i = 0; i < 2; i++) {
        failed_open(&s, HOLD, 1);
        engine_mem_full(s.engine, false);
        (void)stage_tell(&s, "d", "A"); /* its number is of no use */
        stage_calm(&s);
        engine_mem_full(s.engine, true);
        assert_int_equal(stage_items(&s, "hook", CHANGE_WAITING), 1);
        if (i == 0) {
            stage_take(&s, SKIP);
        } else {
            stage_reopen(&s, SKIP);
            change_start(s.change);
        }
        stage_calm(&s);
        expect(&s, CHANGE_DEAD, 1); /* it let the other one go before it */
        assert_int_equal(stage_seen(&s), 2);
        full_close(&s);
    }
}

static void new_items_wait_for_room(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, SKIP);
    change_start(s.change);
    (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
    stage_calm(&s);
    (void)stage_tell(&s, "d", "B");
    engine_mem_full(s.engine, true);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    engine_mem_full(s.engine, false);
    stage_later(&s, CHANGE_AGAIN_MS);
    assert_int_equal(stage_seen(&s), 2);
    stage_close(&s);
}

static bool one_runs(struct stage *s)
{
    return stage_running(s) == 1;
}

static bool is_idle(struct stage *s)
{
    return change_idle(s->change);
}

/* Not even the reserve is left: a drain does not wait for room. */
static void what_cannot_be_settled_while_the_server_goes_down_is_done_again(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, SKIP);
    change_start(s.change);
    stage_let(&s, 0);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_until(&s, one_runs);
    engine_mem_refuse(s.engine, ERR_FULL);
    change_drain(s.change);
    stage_let(&s, UINT32_MAX);
    stage_until(&s, is_idle);
    engine_mem_refuse(s.engine, ERR_OK);
    expect(&s, CHANGE_READY, 1);
    stage_reopen(&s, SKIP);
    change_start(s.change);
    stage_calm(&s);
    expect(&s, CHANGE_READY, 0);
    assert_int_equal(stage_seen(&s), 2);
    stage_close(&s);
}

/* ---- the log ---- */

static unsigned lines_of(FILE *f)
{
    unsigned lines = 0;
    rewind(f);
    for (int c = getc(f); c != EOF; c = getc(f))
        lines += c == '\n';
    return lines;
}

/* It is tried each second, for as long as the disk is full. */
static void what_goes_on_failing_is_logged_once_a_minute(void **state)
{
    (void)state;
    struct stage s;
    FILE *f = tmpfile();
    assert_non_null(f);
    stage_open(&s, "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }");
    struct log *log = log_new(fileno(f), LOG_INFO, LOG_TEXT, &s.clock.clock);
    s.change->opts.log = log;
    (void)stage_tell(&s, "d", "A");
    engine_mem_full(s.engine, true);
    change_start(s.change);
    for (unsigned i = 0; i < 50; i++)
        stage_later(&s, 1000);
    assert_int_equal(lines_of(f), 1);
    for (unsigned i = 0; i < 20; i++)
        stage_later(&s, 1000);
    assert_int_equal(lines_of(f), 2);
    engine_mem_full(s.engine, false);
    stage_later(&s, 2000);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
    log_free(&log);
    assert_int_equal(fclose(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_due_falls_due),
        cmocka_unit_test(what_is_due_after_a_restart_falls_due),
        cmocka_unit_test(items_are_dropped),
        cmocka_unit_test(items_are_brought_back),
        cmocka_unit_test(rules_are_paused),
        cmocka_unit_test(rules_are_taken_over),
        cmocka_unit_test(new_items_wait_for_room),
        cmocka_unit_test(what_cannot_be_settled_while_the_server_goes_down_is_done_again),
        cmocka_unit_test(what_goes_on_failing_is_logged_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
