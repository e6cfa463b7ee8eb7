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

/* *at: when the last of them were found to be. */
static uint64_t missed_at(struct stage *s, store_time *at)
{
    struct arena a;
    struct change_status status;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    arena_fini(&a);
    *at = status.missed_at;
    return status.missed;
}

static uint64_t missed(struct stage *s)
{
    store_time at;
    return missed_at(s, &at);
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

/* Its items are in the store a moment before the loop learns of it. */
static void an_event_is_behind_or_an_item_but_not_both(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    stage_open_paused(&s, HOOK);
    change_start(s.change);
    tell_many(&s, 2);
    stage_calm(&s);
    stage_hold(&s, STAGE_WRITE);
    tell_many(&s, 5);
    stage_until_held(&s);
    for (unsigned written = 0; written < 2; written++) {
        struct change_status status;
        arena_init(&a, 1 << 20);
        assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
        uint64_t items =
            status.rules[0].counts[CHANGE_READY] + status.rules[0].counts[CHANGE_WAITING];
        assert_int_equal(status.behind, written ? 0 : 5);
        assert_int_equal(items, written ? 7 : 2);
        arena_fini(&a);
        stage_let_go(&s); /* the loop does not run meanwhile */
    }
    stage_calm(&s);
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

static void cull(struct stage *s)
{
    bool more = true;
    store_time next;
    while (more)
        assert_int_equal(event_log_upkeep(s->events, &more, &next), ERR_OK);
}

static void cull_all(struct stage *s)
{
    fake_clock_advance(&s->clock, 7200 * NS_PER_S);
    cull(s);
}

/* It makes room whenever it likes. */
static void what_the_log_removes_while_it_is_read_is_counted(void **state)
{
    (void)state;
    for (unsigned left = 0; left < 2; left++) {
        struct stage s;
        stage_open_paused(&s, HOOK);
        tell_many(&s, 5);
        fake_clock_advance(&s.clock, 7200 * NS_PER_S);
        stage_before_read(&s, cull);
        change_start(s.change);
        stage_calm(&s);
        tell_many(&s, left);
        stage_calm(&s);
        assert_int_equal(missed(&s), 5);
        assert_int_equal(stage_items(&s, "hook", -1), left);
        stage_close(&s);
    }
}

static void what_the_log_removed_before_is_counted(void **state)
{
    (void)state;
    struct stage s;
    store_time at;
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
    store_time noticed = clock_store(&s.clock.clock);
    fake_clock_advance(&s.clock, NS_PER_S);
    stage_reopen(&s, HOOK);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(missed_at(&s, &at), 8);
    assert_int_equal(at.ns, noticed.ns);
    stage_take(&s, NULL); /* the head goes to the end of the log with the next rules */
    stage_take(&s, HOOK);
    assert_int_equal(missed_at(&s, &at), 8);
    assert_int_equal(at.ns, noticed.ns);
    stage_close(&s);
}

/* Nobody wanted them: that they were looked at is written down soon, not with the next that is
 * wanted.
 */
#define OLD                                                                                        \
    "rules: { hook: { match: { stream: t }, effect: http, claim_ttl: 1h, url: \"$T/{title}\" } }"

/* Nobody sees it otherwise: there is no item of it. */
static void events_too_old_for_their_rule_are_counted(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct change_status status;
    stage_open_paused(&s, OLD);
    tell_many(&s, 3);
    fake_clock_advance(&s.clock, 7200 * NS_PER_S);
    tell_many(&s, 2);
    change_start(s.change);
    stage_calm(&s);
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
    assert_int_equal(status.rules[0].matched, 2);
    assert_int_equal(status.rules[0].dropped, 3);
    arena_fini(&a);
    stage_close(&s);
}

#define TITLED "rules: { hook: { match: { title: A }, effect: http, url: \"$T/{title}\" } }"

/* The rule may have wanted it, and does nothing about it. */
static void events_that_cannot_be_decided_are_counted(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct change_status status;
    stage_open_paused(&s, TITLED);
    (void)stage_tell(&s, "d", "A"); /* their numbers are of no use */
    (void)stage_tell(&s, "d", "A\",\"page_title\":\"A");
    change_start(s.change);
    stage_calm(&s);
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s.change, &a, &status), ERR_OK);
    assert_int_equal(status.rules[0].matched, 1);
    assert_int_equal(status.rules[0].refused, 1);
    arena_fini(&a);
    stage_close(&s);
}

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

/* ---- rules that feed each other ---- */

#define BOTH                                                                                       \
    "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}\" }, edge: { match: "  \
    "{ "                                                                                           \
    "stream: t }, effect: purge, targets: [\"$T\"], urls: [\"/{title}\"], rebound: 0s } }"

static void looped_expect(struct stage *s, uint64_t hook, uint64_t edge)
{
    struct arena a;
    struct change_status status;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    assert_int_equal(status.rules_count, 2);
    assert_int_equal(status.rules[0].looped, edge); /* in the order of names */
    assert_int_equal(status.rules[1].looped, hook);
    arena_fini(&a);
}

static unsigned hops_of(struct stage *s, uint64_t seq)
{
    struct change_item_kept k;
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(change_item_get(v, 1, seq * CHANGE_SUBS, &k), ERR_OK);
    engine_view_end(&v);
    return change_item_hops(&k.row);
}

/* What calls nobody that may send events is done all the same. */
static void the_end_of_a_chain_of_effects_is_counted_and_not_done(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, BOTH);
    change_start(s.change);
    uint64_t first = stage_tell_hops(&s, "A", 0),
             last = stage_tell_hops(&s, "A", CHANGE_HOPS_MAX - 1);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", -1), 2);
    assert_int_equal(hops_of(&s, first), 0);
    assert_int_equal(hops_of(&s, last), CHANGE_HOPS_MAX - 1);
    looped_expect(&s, 0, 0);
    unsigned seen = stage_seen(&s);
    (void)stage_tell_hops(&s, "A", CHANGE_HOPS_MAX); /* their numbers are of no use */
    (void)stage_tell_hops(&s, "B", UINT8_MAX);
    stage_calm(&s);
    assert_int_equal(stage_items(&s, "hook", -1), 2);
    assert_int_equal(stage_seen(&s), seen + 2); /* purges */
    looped_expect(&s, 2, 0);
    stage_close(&s);
}

/* ---- large events ---- */

enum { MANY = 12 };

/* MANY rules r0, r1, .. that want each event. */
static void many_rules(char *text, size_t size, const char *more)
{
    size_t n = (size_t)snprintf(text, size, "rules:\n"); /* all of it fits */
    for (unsigned i = 0; i < MANY; i++)
        n += (size_t)snprintf(text + n, size - n,
                              "  r%u: { match: { stream: t }, effect: http, url: \"$T/%u\"%s }\n",
                              i, i, more);
}

static void pause_all(struct stage *s, bool paused)
{
    struct err_note note;
    for (unsigned i = 0; i < MANY; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "r%u", i); /* it fits */
        assert_int_equal(change_pause(s->change, str_of(name), paused, &note), ERR_OK);
    }
}

/* Bytes of events that the items have, and how many of the rows have any. */
static uint64_t bytes_kept(struct stage *s, unsigned *rows)
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_cursor *c = change_rows_open(v, STR(""), STR_NONE);
    struct engine_row row;
    uint64_t bytes = 0;
    *rows = 0;
    while (engine_cursor_next(c, &row) == ERR_OK) {
        bytes += row.blob.n;
        *rows += row.blob.n > 0;
    }
    engine_cursor_close(&c);
    engine_view_end(&v);
    return bytes;
}

static void a_large_event_is_written_once_for_all_that_want_it(void **state)
{
    (void)state;
    static const size_t sizes[] = { EVENT_BYTES_MAX, CHANGE_OWN_BYTES_MAX + 1 };
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        struct stage s;
        char text[MANY * 128];
        unsigned rows;
        many_rules(text, sizeof text, ", body: none");
        stage_open(&s, text);
        pause_all(&s, true);
        change_start(s.change);
        (void)stage_tell_long(&s, "A", sizes[i]); /* its number is of no use */
        stage_calm(&s);
        assert_int_equal(stage_items(&s, "r0", CHANGE_READY), 1);
        assert_int_equal(stage_items(&s, "r11", CHANGE_READY), 1);
        assert_int_equal(bytes_kept(&s, &rows), sizes[i]);
        assert_int_equal(rows, 1);
        cull_all(&s); /* the items have it still */
        stage_reopen(&s, text);
        change_start(s.change);
        pause_all(&s, false);
        stage_calm(&s);
        assert_int_equal(stage_seen(&s), MANY);
        assert_int_equal(bytes_kept(&s, &rows), 0);
        stage_close(&s);
    }
}

static void a_small_event_is_in_the_row_of_each_item(void **state)
{
    (void)state;
    struct stage s;
    char text[MANY * 128];
    unsigned rows;
    many_rules(text, sizeof text, "");
    stage_open(&s, text);
    pause_all(&s, true);
    change_start(s.change);
    (void)stage_tell_long(&s, "A", CHANGE_OWN_BYTES_MAX); /* its number is of no use */
    stage_calm(&s);
    assert_int_equal(bytes_kept(&s, &rows), MANY * CHANGE_OWN_BYTES_MAX);
    assert_int_equal(rows, MANY);
    stage_close(&s);
}

/* However many they are, and whatever an event is like, in the memory that a run has. */
static void large_events_one_after_another_are_all_routed(void **state)
{
    (void)state;
    struct stage s;
    char text[MANY * 128];
    unsigned rows;
    many_rules(text, sizeof text, ", body: none");
    stage_open(&s, text);
    for (unsigned i = 0; i < 3; i++)
        (void)stage_tell_long(&s, "A", EVENT_BYTES_MAX - i * 1000000);
    for (unsigned i = 0; i < 30; i++)
        (void)stage_tell_long(&s, "B", CHANGE_OWN_BYTES_MAX);
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(stage_seen(&s), 33 * MANY);
    assert_int_equal(bytes_kept(&s, &rows), 0);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_is_routed_once_over_batches),
        cmocka_unit_test(an_event_is_behind_or_an_item_but_not_both),
        cmocka_unit_test(an_engine_that_refuses_is_asked_again),
        cmocka_unit_test(what_the_log_removed_before_is_counted),
        cmocka_unit_test(what_the_log_removes_while_it_is_read_is_counted),
        cmocka_unit_test(events_too_old_for_their_rule_are_counted),
        cmocka_unit_test(events_that_cannot_be_decided_are_counted),
        cmocka_unit_test(events_that_nobody_wants_are_not_missed_later),
        cmocka_unit_test(a_replay_asks_about_what_was_routed_alone),
        cmocka_unit_test(the_end_of_a_chain_of_effects_is_counted_and_not_done),
        cmocka_unit_test(a_large_event_is_written_once_for_all_that_want_it),
        cmocka_unit_test(a_small_event_is_in_the_row_of_each_item),
        cmocka_unit_test(large_events_one_after_another_are_all_routed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
