/* Goal: items are seen, retried and dropped by hand as change.h says, while others of their title
 * run or wait. Method: all of change on a stage (stage.h); a target that holds its answers back. */
#include "stage.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_is_not_dropped),
        cmocka_unit_test(one_that_runs_is_refused),
        cmocka_unit_test(a_dead_one_that_holds_is_dropped_and_the_next_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
