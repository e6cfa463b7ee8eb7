/* Goal: what may begin is found, and nothing is looked for without end, however many lanes wait,
 * whatever limits change meanwhile. Method: all of change on a stage (stage.h), whose looks can be
 * held back. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "change/lanes.h"
#include "rogue.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define JOBS(targets)                                                                              \
    "rules: { job: { match: { stream: \"*\" }, effect: job, targets: [" targets "] } }"
#define HOOK                                                                                       \
    "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\", concurrency: 8 } }"
#define NAME_BYTES 32

static void job(struct stage *s, const char *domain, const char *title)
{
    (void)stage_tell_stream(s, "mediawiki.job.x", domain, title); /* its number is of no use */
}

/* Count titles or domains that differ. */
static const char *numbered(char name[NAME_BYTES], unsigned i)
{
    (void)snprintf(name, NAME_BYTES, "d%u.test", i); /* it fits */
    return name;
}

static void limit(struct stage *s, const char *rule, const char *type, int64_t concurrency)
{
    struct err_note note;
    const struct change_limits l = { .type = str_of(type),
                                     .concurrency = concurrency,
                                     .rate_count = -1 };
    assert_int_equal(change_limit(s->change, str_of(rule), &l, &note), ERR_OK);
}

/* ---- limits that change ---- */

static void the_end_of_limits_ends_those_of_types(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, JOBS("\"$T/\""));
    change_start(s.change);
    stage_let(&s, 0);
    limit(&s, "job", "x", 1);
    job(&s, "d", "A");
    job(&s, "d", "B");
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 1);
    limit(&s, "job", "", 0);
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 2);
    assert_int_equal(s.change->runners[0]->types_count, 0);
    stage_close(&s);
}

/* What was found by the limits of before is looked for again. */
static void a_limit_holds_for_a_look_under_way(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, JOBS("\"$T/\""));
    change_start(s.change);
    stage_calm(&s);
    stage_let(&s, 0);
    stage_hold(&s, STAGE_LOOK);
    for (unsigned i = 0; i < 3; i++)
        job(&s, "d", "A");
    stage_until_held(&s);
    limit(&s, "job", "x", 1);
    stage_let_go(&s);
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 1);
    stage_let(&s, UINT32_MAX);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 3);
    stage_close(&s);
}

/* The runner of before is there as long as its look lasts, and has the name no more. */
static void a_rule_that_is_back_while_it_is_looked_for_is_another_one(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, HOOK);
    stage_hold(&s, STAGE_LOOK);
    change_start(s.change);
    stage_until_held(&s);
    stage_take(&s, NULL);
    stage_take(&s, HOOK);
    assert_int_equal(change_pause(s.change, STR("hook"), true, &note), ERR_OK);
    stage_let_go(&s);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 0);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    stage_close(&s);
}

/* ---- drained targets ---- */

static void drain(struct stage *s, bool drained)
{
    struct err_note note;
    char name[HTTP_ORIGIN_BYTES_MAX];
    struct rule_set *set = stage_rules(s, JOBS("\"$T/\""));
    str url = rule_set_at(set, 0)->targets.p[0];
    assert_int_equal(http_client_origin(url, name), ERR_OK);
    rule_set_unref(&set);
    assert_int_equal(change_drain_target(s->change, str_of(name), drained, NULL, &note), ERR_OK);
}

static void a_job_whose_targets_are_drained_says_so(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct err_note note;
    struct change_listing l = { .rule = STR("job"), .state = -1 };
    stage_open(&s, JOBS("\"$T/\""));
    change_start(s.change);
    drain(&s, true);
    job(&s, "d", "A");
    stage_calm(&s);
    arena_init(&a, 1 << 20);
    assert_int_equal(change_list(s.change, &l, &a, &note), ERR_OK);
    assert_int_equal(l.count, 1);
    assert_true(str_starts(l.items[0].why, STR("its target 127.0.0.1:")));
    assert_true(str_ends(l.items[0].why, STR(" is drained")));
    arena_fini(&a);
    drain(&s, false);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    stage_close(&s);
}

/* The target of a rule of effect http is known when it was called once. */
static void drained_open(struct stage *s)
{
    stage_open(s, HOOK);
    change_start(s->change);
    (void)stage_tell(s, "d", "A"); /* its number is of no use */
    stage_calm(s);
    assert_int_equal(stage_seen(s), 1);
    drain(s, true);
}

/* The loop's thread begins what waits, not the one that steers. */
static void a_drained_target_is_taken_back_on_the_loop(void **state)
{
    (void)state;
    struct stage s;
    drained_open(&s);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    drain(&s, false);
    assert_int_equal(s.change->busy, 0);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    stage_close(&s);
}

/* ---- many lanes ---- */

static void more_lanes_wait_than_can_be_noted(void **state)
{
    (void)state;
    enum { LANES = CHANGE_BLOCKED_MAX + 50 };
    struct stage s;
    char name[NAME_BYTES];
    drained_open(&s);
    for (unsigned i = 0; i < LANES; i++)
        (void)stage_tell(&s, numbered(name, i), "A"); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), LANES);
    stage_later(&s, CHANGE_AGAIN_MS);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), LANES);
    drain(&s, false);
    stage_calm(&s);
    stage_later(&s, CHANGE_AGAIN_MS); /* it rests, though nothing waits any more */
    assert_int_equal(stage_items(&s, "hook", -1), 0);
    assert_int_equal(stage_seen(&s), 1 + LANES);
    stage_close(&s);
}

/* More lanes than one look goes over, and nothing in them may run: looking ends; and the one in the
 * last lane that may run is found. */
static void more_lanes_than_a_look_goes_over(void **state)
{
    (void)state;
    enum { LANES = CHANGE_LOOKS_MAX + 100 };
    struct stage s;
    char name[NAME_BYTES];
    stage_open(&s, JOBS("\"$T/\""));
    limit(&s, "job", "x", 1);
    for (unsigned i = 0; i < LANES; i++)
        job(&s, numbered(name, i), "A");
    change_start(s.change);
    stage_let(&s, 0);
    stage_calm(&s);
    assert_int_equal(stage_running(&s), 1);
    (void)stage_tell_stream(&s, "mediawiki.job.y", "d", "A"); /* its number is of no use */
    for (unsigned i = 0; i < 3 && stage_seen(&s) < 2; i++)
        stage_later(&s, CHANGE_AGAIN_MS);
    assert_int_equal(stage_seen(&s), 2);
    stage_close(&s);
}

/* ---- a target that is away ---- */

#define TWO                                                                                        \
    "rules: { edge: { match: { stream: t }, effect: purge, targets: [\"$L\", \"$T\"], urls: "      \
    "[\"/{title}\"], rebound: 0s } }"

/* More domains have purges for it than lanes are noted. */
static void a_cache_gets_its_purges_while_another_is_away(void **state)
{
    (void)state;
    enum { DOMAINS = CHANGE_BLOCKED_MAX + CHANGE_WINDOW };
    struct stage s;
    struct err_note note;
    char name[NAME_BYTES];
    stage_open(&s, TWO);
    change_start(s.change);
    (void)snprintf(name, sizeof name, "localhost:%u", rogue_port(s.sink)); /* it fits */
    assert_int_equal(change_drain_target(s.change, str_of(name), true, NULL, &note), ERR_OK);
    for (unsigned i = 0; i < DOMAINS; i++)
        (void)stage_tell(&s, numbered(name, i), "A"); /* its number is of no use */
    stage_calm(&s);
    for (unsigned i = 0; i < 10; i++) /* a look over many lanes that wait is followed by a rest */
        stage_later(&s, CHANGE_LOOK_REST_MS);
    assert_int_equal(stage_seen(&s), DOMAINS);
    (void)snprintf(name, sizeof name, "localhost:%u", rogue_port(s.sink)); /* it fits */
    assert_int_equal(change_drain_target(s.change, str_of(name), false, NULL, &note), ERR_OK);
    stage_later(&s, CHANGE_LOOK_REST_MS);
    assert_int_equal(stage_seen(&s), 2 * DOMAINS);
    stage_close(&s);
}

/* ---- damage ---- */

#define LATE                                                                                       \
    "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\", delay: 1s } }"

/* Of the row of the first item of three, of one lane: which key. */
static void key_of_item(struct change_key *k, uint64_t id, const struct change_item_row *r)
{
    (void)r;
    change_key_item(k, 1, id);
}

static void key_of_state(struct change_key *k, uint64_t id, const struct change_item_row *r)
{
    assert_true(change_key_state(k, 1, id, r));
}

static void all_told(struct stage *s, uint64_t listed)
{
    struct arena a;
    struct change_status status;
    struct err_note note;
    struct change_lanes lanes = { .rule = STR("hook") };
    struct change_listing l = { .rule = STR("hook"), .state = -1 };
    arena_init(&a, 16 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    assert_int_equal(
        status.rules[0].counts[CHANGE_READY] + status.rules[0].counts[CHANGE_SCHEDULED], 3);
    assert_int_equal(change_list(s->change, &l, &a, &note), ERR_OK);
    assert_int_equal(l.count, listed);
    assert_int_equal(change_lanes_get(s->change, &lanes, &a, &note), ERR_OK);
    assert_int_equal(lanes.count, 1);
    arena_fini(&a);
}

/* A row that fails its sum is one item's: what stands behind it goes on, and operators are told of
 * the rest. */
static void a_damaged_row_holds_up_no_other(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        void (*key)(struct change_key *k, uint64_t id, const struct change_item_row *r);
        unsigned listed;
    } rows[] = { { HOOK, key_of_item, 2 }, { HOOK, key_of_state, 3 }, { LATE, key_of_state, 3 } };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct stage s;
        struct change_item_kept item;
        struct change_key k;
        struct err_note note;
        char value[CHANGE_VALUE_BYTES];
        stage_open(&s, rows[i].rules);
        assert_int_equal(change_pause(s.change, STR("hook"), true, &note), ERR_OK);
        change_start(s.change);
        uint64_t id = stage_tell(&s, "d", "A") * CHANGE_SUBS;
        (void)stage_tell(&s, "d", "B"); /* their numbers are of no use */
        (void)stage_tell(&s, "d", "C");
        stage_calm(&s);
        struct engine_view *v = engine_view_begin(s.engine);
        assert_int_equal(change_item_get(v, 1, id, &item), ERR_OK);
        engine_view_end(&v);
        rows[i].key(&k, id, &item.row);
        engine_mem_rot(s.engine, SPACE_CHANGE, change_key_str(&k));
        all_told(&s, rows[i].listed);
        assert_int_equal(change_pause(s.change, STR("hook"), false, &note), ERR_OK);
        stage_later(&s, 2000);
        assert_int_equal(stage_seen(&s), 2);
        str whole = rows[i].key == key_of_item ? change_item_encode(&item.row, value) : STR("");
        engine_mem_damage(s.engine, SPACE_CHANGE, change_key_str(&k), whole); /* it is mended */
        stage_later(&s, 2000);
        assert_int_equal(stage_seen(&s), 3);
        stage_close(&s);
    }
}

/* The counts of one rule say nothing of what it has to do, and nothing of the others. */
static void damaged_counts_hold_up_no_rule(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct change_key k;
    struct change_status status;
    char value[CHANGE_COUNTS_BYTES] = { 0 };
    stage_open(&s, "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/1{title}\" }, "
                   "other: { match: { stream: t }, effect: http, url: \"$T/2{title}\" } }");
    change_start(s.change);
    (void)stage_tell(&s, "d", "A");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    change_key_counts(&k, 1);
    engine_mem_rot(s.engine, SPACE_CHANGE, change_key_str(&k));
    (void)stage_tell(&s, "d", "B");
    stage_later(&s, 2000);
    assert_int_equal(stage_seen(&s), 4);
    arena_init(&a, 16 << 20);
    assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
    assert_int_equal(status.rules_count, 2);
    assert_true(status.rules[0].last_error[0] != 0 || status.rules[1].last_error[0] != 0);
    arena_fini(&a);
    stage_take(&s,
               "rules: { third: { match: { stream: t }, effect: http, url: \"$T/3{title}\" } }");
    (void)stage_tell(&s, "d", "C");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 5);
    engine_mem_damage(s.engine, SPACE_CHANGE, change_key_str(&k),
                      (str){ .p = value, .n = sizeof value }); /* all of it was done */
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_limits_ends_those_of_types),
        cmocka_unit_test(a_limit_holds_for_a_look_under_way),
        cmocka_unit_test(a_rule_that_is_back_while_it_is_looked_for_is_another_one),
        cmocka_unit_test(a_job_whose_targets_are_drained_says_so),
        cmocka_unit_test(a_drained_target_is_taken_back_on_the_loop),
        cmocka_unit_test(more_lanes_wait_than_can_be_noted),
        cmocka_unit_test(more_lanes_than_a_look_goes_over),
        cmocka_unit_test(a_cache_gets_its_purges_while_another_is_away),
        cmocka_unit_test(a_damaged_row_holds_up_no_other),
        cmocka_unit_test(damaged_counts_hold_up_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
