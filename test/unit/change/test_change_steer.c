/* Goal: what an operator does to rules and targets holds, whatever else goes on at that moment.
 * Method: all of change on a stage (stage.h); calls of change.h between two steps of the loop, or
 * on the pool while the server goes down. */
#include "stage.h"

#include "unit/cmocka_all.h"

#include <string.h>

#define HOOK "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }"

static void paused(struct stage *s, bool yes)
{
    struct err_note note;
    assert_int_equal(change_pause(s->change, STR("hook"), yes, &note), ERR_OK);
}

/* ---- the end ---- */

struct late {
    struct task task;
    struct stage *stage;
    err paused, limited, retried, dropped;
    uint64_t count;
};

/* On the pool, as for a request whose client has gone: change has stopped. */
static void late_run(struct task *t)
{
    struct late *l = CONTAINER_OF(t, struct late, task);
    struct change *c = l->stage->change;
    struct err_note note;
    const struct change_limits limits = { .type = STR(""), .concurrency = 3, .rate_count = -1 };
    l->limited = change_limit(c, STR("hook"), &limits, &note);
    l->paused = change_pause(c, STR("hook"), false, &note);
    l->retried = change_retry(c, STR("hook"), 0, &l->count, &note);
    l->dropped = change_drop(c, STR("hook"), 0, -1, &l->count, &note);
    change_upkeep_all(c);
}

static void who_steers_while_the_server_goes_down_is_answered(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK);
    struct late l = { .task = { .run = late_run }, .stage = &s, .paused = ERR_IO };
    paused(&s, true);
    change_start(s.change);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    s.late = &l.task;
    stage_close(&s);
    assert_int_equal(l.paused, ERR_OK);
    assert_int_equal(l.limited, ERR_OK);
    assert_int_equal(l.retried, ERR_OK);
    assert_int_equal(l.dropped, ERR_OK);
    assert_int_equal(l.count, 1);
    assert_int_equal(stage_seen(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_steers_while_the_server_goes_down_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
