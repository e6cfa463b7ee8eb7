/* Goal: a target is called as often as it takes, by whoever has something for it, and left alone
 * when it asks for that. Method: all of change on a stage (stage.h), with one target under two
 * names; others are put there without anything that runs. */
#include "stage.h"

#include "rogue.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define JOB(stream, targets, what)                                                                 \
    "{ match: { stream: " stream " }, effect: job, targets: [" targets "]" what " }"
#define HOOK(what)                                                                                 \
    "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\"" what " } }"
#define ONE_EACH ", concurrency_of: { target: { \"*\": 1 } }"
#define READ_ONLY "HTTP/1.1 423 Locked\r\nContent-Length: 0\r\n\r\n"

static void tell(struct stage *s, const char *stream, const char *title)
{
    (void)stage_tell_stream(s, stream, "d", title); /* its number is of no use */
}

static bool one_seen(struct stage *s)
{
    return stage_seen(s) >= 1;
}

/* Count targets of no rule, in use. */
static void others_run(struct stage *s, unsigned count)
{
    change_lock(s->change);
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "h%u:80", i); /* it fits */
        struct change_target *t = change_target_of(s->change, str_of(name));
        assert_non_null(t);
        t->running = 1;
    }
    change_unlock(s->change);
}

static struct change_target *target_at(struct stage *s, unsigned i)
{
    char name[32];
    (void)snprintf(name, sizeof name, "h%u:80", i); /* it fits */
    struct change_target *t = map_get(s->change->targets, str_of(name));
    assert_non_null(t);
    return t;
}

/* ---- too many of them ---- */

/* Nobody tells of the end of a call of others: the runner looks again by itself. */
static void a_job_waits_for_room_among_targets(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { job: " JOB("t", "\"$T/\"", "") " }");
    change_start(s.change);
    others_run(&s, CHANGE_TARGETS_MAX);
    tell(&s, "t", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 0);
    target_at(&s, 7)->running = 0;
    fake_clock_advance(&s.clock, CHANGE_AGAIN_MS * NS_PER_MS);
    stage_until(&s, one_seen);
    stage_close(&s);
}

/* A target that was paused, and nobody has anything for any more, takes no room for ever. */
static void a_target_whose_pause_is_over_makes_room(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { job: " JOB("t", "\"$T/\"", "") " }");
    change_start(s.change);
    others_run(&s, CHANGE_TARGETS_MAX);
    target_at(&s, 7)->running = 0;
    target_at(&s, 7)->paused_until = mono_add_ms(clock_mono(&s.clock.clock), 10);
    fake_clock_advance(&s.clock, 10 * NS_PER_MS);
    tell(&s, "t", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
}

static void one_that_cannot_be_drained_for_want_of_room_is_known(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, "rules: { job: " JOB("t", "\"http://away:80/\"", "") " }");
    others_run(&s, CHANGE_TARGETS_MAX);
    assert_int_equal(change_drain_target(s.change, STR("away:80"), true, NULL, &note), ERR_LIMIT);
    assert_int_equal(change_drain_target(s.change, STR("other:80"), true, NULL, &note),
                     ERR_NOT_FOUND);
    stage_close(&s);
}

/* The status of its rule names it before anything was sent there. */
static void one_that_was_never_called_is_drained(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    char name[64];
    stage_open(&s, HOOK(""));
    change_start(s.change);
    (void)snprintf(name, sizeof name, "127.0.0.1:%u", rogue_port(s.sink)); /* it fits */
    assert_int_equal(change_drain_target(s.change, str_of(name), true, NULL, &note), ERR_OK);
    tell(&s, "t", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 0);
    assert_int_equal(change_drain_target(s.change, str_of(name), false, NULL, &note), ERR_OK);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
}

/* One an hour may call; that the target was not called before has cost nothing of that. */
static void what_is_put_off_costs_nothing_of_the_rate(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    char name[64];
    stage_open(&s, HOOK(", rate: 1/h"));
    change_start(s.change);
    (void)snprintf(name, sizeof name, "127.0.0.1:%u", rogue_port(s.sink)); /* it fits */
    assert_int_equal(change_drain_target(s.change, str_of(name), true, NULL, &note), ERR_OK);
    tell(&s, "t", "A");
    tell(&s, "t", "B");
    stage_calm(&s);
    assert_int_equal(change_drain_target(s.change, str_of(name), false, NULL, &note), ERR_OK);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
}

/* The first may have been made a moment ago, and runs nothing yet. */
static void room_for_a_target_is_not_made_by_the_one_that_was_chosen(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { job: " JOB("t", "\"$T/\", \"$L/\"", "") " }");
    change_start(s.change);
    others_run(&s, CHANGE_TARGETS_MAX - 1);
    tell(&s, "t", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
}

/* ---- as often as it takes ---- */

static bool three_run(struct stage *s)
{
    return stage_running(s) >= 3;
}

/* The first rule that is asked still waits for its own target. */
static void the_end_of_a_call_is_told_to_each_rule_that_waits(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { a: " JOB("a", "\"$L/a\"", ONE_EACH) ", b: " JOB(
                       "b", "\"$T/b\"", ONE_EACH) ", c: " JOB("c", "\"$T/c\"", ONE_EACH) " }");
    change_start(s.change);
    stage_stick(&s, "/a");
    stage_let(&s, 0);
    tell(&s, "a", "A");
    tell(&s, "a", "B");
    tell(&s, "b", "A");
    stage_calm(&s);
    tell(&s, "c", "A");
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 2);
    stage_let(&s, 1); /* b's */
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    assert_string_equal(s.paths[2], "/c");
    stage_close(&s);
}

static void the_limit_of_a_target_holds_for_http_and_purge(void **state)
{
    (void)state;
    static const char *const rules[] = {
        HOOK(ONE_EACH),
        "rules: { hook: { match: { stream: t }, effect: purge, targets: [\"$T\"], urls: "
        "[\"/{title}\"], rebound: 0s" ONE_EACH " } }",
    };
    for (unsigned i = 0; i < COUNT_OF(rules); i++) {
        struct stage s;
        stage_open(&s, rules[i]);
        change_start(s.change);
        stage_let(&s, 0);
        (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
        (void)stage_tell(&s, "e", "B");
        stage_calm(&s);
        assert_int_equal(stage_seen(&s), 1);
        stage_let(&s, UINT32_MAX);
        stage_calm(&s); /* the clock stands: it is the end of the first that lets the second in */
        assert_int_equal(stage_seen(&s), 2);
        stage_close(&s);
    }
}

/* ---- left alone ---- */

static int64_t pause_ms(struct stage *s)
{
    struct arena a;
    struct change_status status;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    assert_int_equal(status.targets_count, 1);
    int64_t ns = status.targets[0].paused_until.ns - clock_store(&s->clock.clock).ns;
    arena_fini(&a);
    return ns / NS_PER_MS;
}

static void calls_that_end_together_pause_a_target_once(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK(""));
    change_start(s.change);
    stage_let(&s, 0);
    for (unsigned i = 0; i < 3; i++)
        tell(&s, "t", i == 0 ? "A" : i == 1 ? "B" : "C");
    stage_until(&s, three_run);
    stage_reply(&s, READ_ONLY);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_in_range(pause_ms(&s), 1, CHANGE_PAUSE_MS);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 3);
    stage_later(&s, CHANGE_PAUSE_MS); /* the next one counts */
    assert_in_range(pause_ms(&s), CHANGE_PAUSE_MS + 1, 2 * CHANGE_PAUSE_MS);
    assert_int_equal(stage_seen(&s), 4); /* one probe */
    stage_reply(&s, NULL);
    stage_later(&s, 2 * CHANGE_PAUSE_MS);
    assert_int_equal(stage_seen(&s), 7);
    stage_close(&s);
}

/* Nor does it double it: it began before. */
static void a_call_from_before_a_pause_does_not_end_it(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK(""));
    change_start(s.change);
    stage_stick(&s, "/A");
    tell(&s, "t", "A");
    stage_until(&s, one_seen);
    stage_reply(&s, READ_ONLY);
    tell(&s, "t", "B");
    stage_calm(&s);
    stage_reply(&s, NULL);
    stage_stick(&s, NULL);
    stage_calm(&s);
    assert_in_range(pause_ms(&s), 1, CHANGE_PAUSE_MS);
    assert_int_equal(stage_seen(&s), 2);
    stage_later(&s, CHANGE_PAUSE_MS);
    assert_int_equal(stage_seen(&s), 3);
    stage_close(&s);
}

/* The answer to a probe is for all rules that have something for that target. */
static void a_target_that_answers_is_open_to_each_rule_at_once(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "rules: { a: " JOB("a", "\"$T/a\"", "") ", b: " JOB("b", "\"$T/b\"", "") " }");
    change_start(s.change);
    stage_reply(&s, READ_ONLY);
    tell(&s, "a", "A");
    stage_calm(&s);
    tell(&s, "b", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_reply(&s, NULL);
    stage_let(&s, 0);
    stage_later(&s, CHANGE_PAUSE_MS);
    assert_int_equal(stage_seen(&s), 2);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    stage_close(&s);
}

/* ---- opened by hand ---- */

static struct change_target_status undrain(struct stage *s)
{
    struct arena a;
    struct change_status status;
    struct change_target_status was;
    struct err_note note;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    assert_int_equal(status.targets_count, 1);
    assert_int_equal(change_drain_target(s->change, status.targets[0].name, false, &was, &note),
                     ERR_OK);
    was.name = STR("");
    arena_fini(&a);
    return was;
}

static void a_target_that_wants_an_hour_is_opened_by_hand(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK(""));
    change_start(s.change);
    stage_reply(&s, "HTTP/1.1 503 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n");
    tell(&s, "t", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_reply(&s, NULL);
    struct change_target_status was = undrain(&s);
    assert_false(was.drained);
    assert_true(was.paused_until.ns > clock_store(&s.clock.clock).ns + 3599 * NS_PER_S);
    assert_non_null(strstr(was.last_error, "503"));
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    assert_int_equal(stage_items(&s, "hook", -1), 0);
    was = undrain(&s);
    assert_int_equal(was.paused_until.ns, 0);
    stage_close(&s);
}

/* Its probe was sent before; what that says is old. */
static void a_probe_from_before_does_not_pause_it_again(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, HOOK(""));
    others_run(&s, 1);
    struct change_target *t = target_at(&s, 0);
    t->paused_until = mono_add_ms(clock_mono(&s.clock.clock), 10);
    change_lock(s.change);
    change_target_begin(s.change, t);
    unsigned pauses = t->pauses;
    change_target_open(s.change, t);
    const struct change_result refused = { .fate = CHANGE_PAUSED, .text = "HTTP 423" };
    change_target_end(s.change, t, pauses, &refused);
    assert_int_equal(t->paused_until.ns, 0);
    change_unlock(s.change);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_waits_for_room_among_targets),
        cmocka_unit_test(a_target_whose_pause_is_over_makes_room),
        cmocka_unit_test(one_that_cannot_be_drained_for_want_of_room_is_known),
        cmocka_unit_test(one_that_was_never_called_is_drained),
        cmocka_unit_test(what_is_put_off_costs_nothing_of_the_rate),
        cmocka_unit_test(room_for_a_target_is_not_made_by_the_one_that_was_chosen),
        cmocka_unit_test(the_end_of_a_call_is_told_to_each_rule_that_waits),
        cmocka_unit_test(the_limit_of_a_target_holds_for_http_and_purge),
        cmocka_unit_test(calls_that_end_together_pause_a_target_once),
        cmocka_unit_test(a_call_from_before_a_pause_does_not_end_it),
        cmocka_unit_test(a_target_that_answers_is_open_to_each_rule_at_once),
        cmocka_unit_test(a_target_that_wants_an_hour_is_opened_by_hand),
        cmocka_unit_test(a_probe_from_before_does_not_pause_it_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
