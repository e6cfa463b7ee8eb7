/* Goal: what may run does run, whatever happens while it is looked for; and what may not, waits.
 * Method: all of change on a stage (stage.h); a target that holds its answers back. */
#include "stage.h"

#include "lib/wait.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define EDGE                                                                                       \
    "rules: { edge: { match: { stream: t }, effect: purge, targets: [\"$T\"], urls: "              \
    "[\"/{title}\"], rebound: 0s } }"

static bool one_runs(struct stage *s)
{
    return stage_running(s) >= 1;
}

/* The look that begins when the run ends must not miss the item because the run has not ended. */
static void a_newer_event_is_run_for_when_the_run_before_ends(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, EDGE);
    change_start(s.change);
    stage_let(&s, 0);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_until(&s, one_runs);
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    assert_int_equal(stage_items(&s, "edge", -1), 0);
    stage_close(&s);
}

static bool none_runs(struct stage *s)
{
    return s->change->runners[0]->running == 0;
}

/* A look that began while the only one that may run of its domain did finds nothing; it is over by
 * the time the look ends. */
static void the_end_of_a_run_during_a_look_is_not_missed(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\", "
                   "concurrency_of: { domain: { d: 1 } } } }");
    change_start(s.change);
    stage_let(&s, 0);
    (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
    (void)stage_tell(&s, "d", "B");
    stage_until(&s, one_runs);
    stage_calm(&s);
    stage_hold(&s, STAGE_LOOK);
    (void)stage_tell(&s, "d", "C");
    stage_until_held(&s);
    stage_let(&s, UINT32_MAX);
    stage_until(&s, none_runs);
    stage_let_go(&s);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_run_during_a_look_is_not_missed),
        cmocka_unit_test(a_newer_event_is_run_for_when_the_run_before_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
