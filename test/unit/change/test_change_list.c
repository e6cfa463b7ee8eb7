/* Goal: items are seen, retried and dropped by hand as change.h says, while others of their title
 * run or wait. Method: all of change on a stage (stage.h); a target that holds its answers back. */
#include "stage.h"

#include "change/lanes.h"
#include "rogue.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define HOOK "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }"

static uint64_t drop(struct stage *s, const char *rule, uint64_t id, int state)
{
    struct err_note note;
    uint64_t count = 0;
    assert_int_equal(change_drop(s->change, str_of(rule), id, state, &count, &note), ERR_OK);
    return count;
}

/* Three items: two of title A, one of B; the first of each runs, and is not answered. */
static uint64_t hook_open(struct stage *s)
{
    stage_open(s, HOOK);
    change_start(s->change);
    stage_let(s, 0);
    uint64_t first = stage_tell(s, "d", "A");
    (void)stage_tell(s, "d", "A"); /* their numbers are of no use */
    (void)stage_tell(s, "d", "B");
    stage_calm(s);
    assert_int_equal(stage_running(s), 2);
    return first * CHANGE_SUBS;
}

static void what_runs_is_not_dropped(void **state)
{
    (void)state;
    struct stage s;
    (void)hook_open(&s); /* its id is of no use */
    assert_int_equal(drop(&s, "hook", 0, CHANGE_READY), 0);
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 2); /* the next of A does not run beside the first */
    assert_int_equal(stage_items(&s, "hook", -1), 3);
    stage_check(&s);
    assert_int_equal(drop(&s, "hook", 0, -1), 1);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 2);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    assert_int_equal(stage_items(&s, "hook", -1), 0);
    stage_close(&s);
}

static void one_that_runs_is_refused(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    uint64_t id = hook_open(&s), count = 7;
    assert_int_equal(change_drop(s.change, STR("hook"), id, -1, &count, &note), ERR_CONFLICT);
    assert_int_equal(count, 0);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    assert_int_equal(change_drop(s.change, STR("hook"), id, -1, &count, &note), ERR_NOT_FOUND);
    stage_close(&s);
}

/* It may have become another one since somebody looked. */
static void one_in_another_state_is_not_dropped(void **state)
{
    (void)state;
    struct stage s;
    uint64_t waits = hook_open(&s) + CHANGE_SUBS; /* the numbers of events rise by one */
    assert_int_equal(drop(&s, "hook", waits, CHANGE_DEAD), 0);
    assert_int_equal(stage_items(&s, "hook", CHANGE_WAITING), 1);
    assert_int_equal(drop(&s, "hook", waits, CHANGE_WAITING), 1);
    assert_int_equal(stage_items(&s, "hook", CHANGE_WAITING), 0);
    stage_close(&s);
}

/* A dead one that holds goes, and the next of its title runs, though another title's runs. */
static void a_dead_one_that_holds_is_dropped_and_the_next_goes_on(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\", "
                   "retries: 0, on_failure: hold } }");
    change_start(s.change);
    stage_reply(&s, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    uint64_t id = stage_tell(&s, "d", "A") * CHANGE_SUBS;
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", CHANGE_DEAD), 1);
    assert_int_equal(stage_items(&s, "hook", CHANGE_WAITING), 1);
    stage_reply(&s, NULL);
    stage_let(&s, 0);
    (void)stage_tell(&s, "d", "B");
    stage_calm(&s);
    assert_int_equal(drop(&s, "hook", id, -1), 1);
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 2);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", -1), 0);
    stage_close(&s);
}

/* ---- why an item does not run ---- */

static void item_read(struct stage *s, const char *rule, uint64_t id, struct arena *a,
                      struct change_item *item)
{
    struct err_note note;
    assert_int_equal(change_find(s->change, str_of(rule), id, a, item, &note), ERR_OK);
}

static void target_name(struct stage *s, char name[64])
{
    (void)snprintf(name, 64, "127.0.0.1:%u", rogue_port(s->sink)); /* it fits */
}

#define CALLS "rules: { hook: { match: { stream: t }, effect: "
static const char *const callers[] = {
    (CALLS "http, url: \"$T/{title}\" } }"),
    (CALLS "job, targets: [\"$T/run\"] } }"),
    (CALLS "purge, targets: [\"$T\"], urls: [\"/{title}\"] } }"),
};

/* Whatever calls a target, an item that waits for it says which it is, and what it said last. */
static void an_item_that_waits_for_a_target_says_what_that_said(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        struct stage s;
        struct arena a;
        struct change_item item;
        struct err_note note;
        char name[64], drained[128];
        arena_init(&a, 1 << 20);
        stage_open(&s, callers[i]);
        target_name(&s, name);
        change_start(s.change);
        stage_reply(&s, "HTTP/1.1 503 No\r\nRetry-After: 30\r\nContent-Length: 4\r\n\r\nhush");
        uint64_t id = stage_tell(&s, "d", "A") * CHANGE_SUBS;
        stage_calm(&s);
        item_read(&s, "hook", id, &a, &item);
        assert_int_equal(item.state, CHANGE_READY);
        assert_true(str_find_str(item.why, str_of(name)) < item.why.n);
        assert_true(str_find_str(item.why, STR("left alone")) < item.why.n);
        assert_true(str_find_str(item.why, STR("hush")) < item.why.n);
        assert_int_equal(change_drain_target(s.change, str_of(name), true, NULL, &note), ERR_OK);
        item_read(&s, "hook", id, &a, &item);
        (void)snprintf(drained, sizeof drained, "its target %s is drained", name); /* it fits */
        assert_true(str_eq(item.why, str_of(drained)));
        arena_fini(&a);
        stage_close(&s);
    }
}

static void a_rule_has_its_targets(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        struct stage s;
        struct arena a;
        struct change_status status;
        char name[64];
        arena_init(&a, 1 << 20);
        stage_open(&s, callers[i]);
        target_name(&s, name);
        assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
        assert_int_equal(status.rules[0].targets_count, 1); /* nothing was called yet */
        assert_true(str_eq(status.rules[0].targets[0].name, str_of(name)));
        assert_int_equal(status.targets_count, 0);
        change_start(s.change);
        stage_let(&s, 0);
        (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
        (void)stage_tell(&s, "d", "B");
        stage_calm(&s);
        unsigned running = stage_running(&s);
        assert_true(running > 0);
        assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
        assert_int_equal(status.rules[0].targets[0].running, running);
        stage_reply(&s, "HTTP/1.1 503 No\r\nRetry-After: 30\r\nContent-Length: 4\r\n\r\nhush");
        stage_let(&s, UINT32_MAX);
        stage_calm(&s);
        assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
        assert_int_equal(status.rules[0].targets[0].running, 0);
        assert_true(status.rules[0].targets[0].paused_until.ns > 0);
        assert_non_null(strstr(status.rules[0].targets[0].last_error, "hush"));
        arena_fini(&a);
        stage_close(&s);
    }
}

/* ---- lanes ---- */

static void items_are_counted_by_domain_and_type(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct err_note note;
    struct change_lanes l = { .rule = STR("hook") };
    arena_init(&a, 1 << 20);
    stage_open(&s, HOOK);
    change_start(s.change);
    stage_let(&s, 0);
    for (unsigned i = 0; i < 3; i++)
        (void)stage_tell(&s, "e", "A"); /* their numbers are of no use */
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 2);
    assert_int_equal(change_lanes_get(s.change, &l, &a, &note), ERR_OK);
    assert_int_equal(l.count, 2);
    assert_false(l.cut);
    assert_true(str_eq(l.lanes[0].domain, STR("d")));
    assert_int_equal(l.lanes[0].running, 1);
    assert_int_equal(l.lanes[1].running, 1);
    assert_int_equal(l.lanes[1].counts[CHANGE_READY], 0);
    assert_int_equal(l.lanes[1].counts[CHANGE_WAITING], 2);
    assert_int_equal(l.lanes[1].type.n, 0);
    l.rule = STR("nobody");
    assert_int_equal(change_lanes_get(s.change, &l, &a, &note), ERR_NOT_FOUND);
    arena_fini(&a);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_is_not_dropped),
        cmocka_unit_test(one_that_runs_is_refused),
        cmocka_unit_test(one_in_another_state_is_not_dropped),
        cmocka_unit_test(a_dead_one_that_holds_is_dropped_and_the_next_goes_on),
        cmocka_unit_test(an_item_that_waits_for_a_target_says_what_that_said),
        cmocka_unit_test(a_rule_has_its_targets),
        cmocka_unit_test(items_are_counted_by_domain_and_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
