/* Goal: what an operator does to rules and targets holds, whatever else goes on at that moment.
 * Method: all of change on a stage (stage.h); calls of change.h between two steps of the loop, or
 * on the pool while the server goes down. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "rule/edge.h"
#include "unit/cmocka_all.h"

#include <string.h>

#define RULE(name) name ": { match: { stream: t }, effect: http, url: \"$T/" name "/{title}\" }"
#define ONE "rules: { " RULE("one") " }"
#define BOTH "rules: { " RULE("hook") ", " RULE("one") " }"
#define HOOK "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }"

static void paused(struct stage *s, bool yes)
{
    struct err_note note;
    assert_int_equal(change_pause(s->change, STR("hook"), yes, &note), ERR_OK);
}

/* ---- replay ---- */

/* Whether or not there are events to ask it about. */
static void who_cannot_be_replayed_is_told_so(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, HOOK);
    paused(&s, true);
    change_start(s.change);
    (void)stage_tell(&s, "d", "A"); /* its number is of no use */
    stage_calm(&s);
    store_time never = { .ns = clock_store(&s.clock.clock).ns + NS_PER_S };
    store_time instants[] = { STORE_TIME_ZERO, never };
    for (unsigned i = 0; i < COUNT_OF(instants); i++)
        assert_int_equal(change_replay(s.change, STR("other"), instants[i], &note), ERR_NOT_FOUND);
    assert_int_equal(change_replay(s.change, STR("hook"), never, &note), ERR_OK);
    assert_int_equal(change_replay(s.change, STR("hook"), STORE_TIME_ZERO, &note), ERR_OK);
    for (unsigned i = 0; i < COUNT_OF(instants); i++)
        assert_int_equal(change_replay(s.change, STR("hook"), instants[i], &note), ERR_CONFLICT);
    assert_true(str_find_str(str_of(note.text), STR("replayed already")) < strlen(note.text));
    stage_calm(&s);
    stage_take(&s, ONE);
    for (unsigned i = 0; i < COUNT_OF(instants); i++)
        assert_int_equal(change_replay(s.change, STR("hook"), instants[i], &note), ERR_CONFLICT);
    assert_true(str_find_str(str_of(note.text), STR("not in the conf")) < strlen(note.text));
    stage_close(&s);
}

/* ---- what caches may keep ---- */

#define EDGE                                                                                       \
    "rules: { edge: { match: { stream: \"palimpsest.*\" }, effect: purge, targets: [\"$T\"], "     \
    "urls: [\"/{domain}/v1/page/html/{title}\"], edge_ttl: 1h } }"

static unsigned told; /* how often answers were to be built anew */

static void edge_told(void *ctx)
{
    (void)ctx;
    told++;
}

static bool edge_is_told(struct stage *s)
{
    (void)s;
    return told > 0;
}

static void edge_expect(struct stage *s, int64_t ttl_s)
{
    const struct rule_page page = { STR("d"), STR("page"), STR("A"), STR("/d/v1/page/html/A") };
    stage_until(s, edge_is_told);
    told = 0;
    assert_int_equal(change_edge_ttl_s(s->change, &page), ttl_s);
}

static void a_page_is_kept_for_a_rule_that_purges_soon(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    struct change_limits limits = { .type = STR(""),
                                    .rate_count = 59,
                                    .rate_per_ns = 3600 * NS_PER_S };
    stage_open(&s, EDGE);
    change_start(s.change);
    s.change->opts.took = edge_told;
    told = 1;
    edge_expect(&s, 3600);
    assert_int_equal(change_pause(s.change, STR("edge"), true, &note), ERR_OK);
    edge_expect(&s, 0);
    assert_int_equal(change_pause(s.change, STR("edge"), false, &note), ERR_OK);
    edge_expect(&s, 3600);
    assert_int_equal(change_limit(s.change, STR("edge"), &limits, &note), ERR_OK);
    edge_expect(&s, 0);
    limits.rate_count = 60;
    assert_int_equal(change_limit(s.change, STR("edge"), &limits, &note), ERR_OK);
    edge_expect(&s, 3600);
    stage_close(&s);
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

/* ---- while rules are taken over ---- */

static bool is_taken(struct stage *s)
{
    return !s->change->taking && s->change->wanted_count == 0;
}

/* The store has taken those rules over; here they are not in force yet. */
static void take_half(struct stage *s, const char *rules)
{
    stage_hold(s, STAGE_TAKEN);
    struct rule_set *set = stage_rules(s, rules);
    change_rules_take(s->change, set);
    rule_set_unref(&set);
    stage_until_held(s);
}

static void expect_paused(struct stage *s, unsigned seen)
{
    stage_let_go(s);
    stage_until(s, is_taken);
    (void)stage_tell(s, "d", "A"); /* its number is of no use */
    stage_calm(s);
    assert_int_equal(stage_seen(s), seen); /* those of the other rule */
    assert_int_equal(stage_items(s, "hook", CHANGE_READY), 1);
}

static void a_rule_that_is_just_coming_is_paused(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, ONE);
    change_start(s.change);
    stage_calm(&s);
    take_half(&s, BOTH);
    paused(&s, true);
    expect_paused(&s, 1);
    paused(&s, false);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    stage_close(&s);
}

/* It was away, with an item. */
static void so_is_one_that_is_just_coming_back(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, BOTH);
    change_start(s.change);
    paused(&s, true);
    (void)stage_tell(&s, "d", "B"); /* its number is of no use */
    stage_calm(&s);
    stage_take(&s, ONE);
    paused(&s, false);
    stage_calm(&s);
    take_half(&s, BOTH);
    paused(&s, true);
    stage_let_go(&s);
    stage_until(&s, is_taken);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 1);
    assert_int_equal(stage_items(&s, "hook", CHANGE_READY), 1);
    stage_close(&s);
}

static void a_rule_that_is_just_coming_is_replayed(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_open(&s, ONE);
    change_start(s.change);
    (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
    (void)stage_tell(&s, "d", "B");
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 2);
    take_half(&s, BOTH);
    assert_int_equal(change_replay(s.change, STR("hook"), STORE_TIME_ZERO, &note), ERR_OK);
    stage_let_go(&s);
    stage_until(&s, is_taken);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 4);
    stage_close(&s);
}

/* What fails is whatever call of the engine comes: the rules of before go on, or those come. */
static void rules_that_are_not_taken_over_stop_no_events(void **state)
{
    (void)state;
    bool faulted = true;
    for (int64_t n = 0; faulted; n++) {
        struct stage s;
        stage_open(&s, ONE);
        change_start(s.change);
        stage_calm(&s);
        engine_mem_fault(s.engine, n);
        struct rule_set *set = stage_rules(&s, BOTH);
        change_rules_take(s.change, set);
        rule_set_unref(&set);
        stage_calm(&s);
        faulted = engine_mem_faulted(s.engine);
        engine_mem_fault(s.engine, -1);
        unsigned taken = is_taken(&s);
        (void)stage_tell(&s, "d", "A");   /* its number is of no use */
        stage_later(&s, CHANGE_AGAIN_MS); /* the router's reading may have failed */
        assert_in_range(stage_seen(&s), 1 + taken, 2);
        assert_true(faulted || taken);
        stage_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_is_just_coming_is_paused),
        cmocka_unit_test(so_is_one_that_is_just_coming_back),
        cmocka_unit_test(a_rule_that_is_just_coming_is_replayed),
        cmocka_unit_test(rules_that_are_not_taken_over_stop_no_events),
        cmocka_unit_test(who_cannot_be_replayed_is_told_so),
        cmocka_unit_test(a_page_is_kept_for_a_rule_that_purges_soon),
        cmocka_unit_test(who_steers_while_the_server_goes_down_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
