/* Goal: whoever asks about an event hears what each rule says to it, and where its item is by now.
 * Method: all of change on a stage (stage.h), with rules that are paused. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "change/explain.h"
#include "event/rows.h"
#include "unit/cmocka_all.h"

#include <string.h>

#define EDGE                                                                                       \
    "rules: { edge: { match: { stream: t }, effect: purge, targets: [\"$T\"], urls: "              \
    "[\"/{title}\"], rebound: 0s } }"
#define HOOK "rules: { edge: { match: { stream: t }, effect: http, url: \"$T/{title}\" } }"

static void stage_open_paused(struct stage *s, const char *rules)
{
    struct err_note note;
    stage_open(s, rules);
    assert_int_equal(change_pause(s->change, STR("edge"), true, &note), ERR_OK);
    change_start(s->change);
}

static void resume(struct stage *s)
{
    struct err_note note;
    assert_int_equal(change_pause(s->change, STR("edge"), false, &note), ERR_OK);
    stage_calm(s);
}

/* item 0: there is none. */
static void expect(struct stage *s, uint64_t seq, uint64_t item, uint64_t into)
{
    struct arena a;
    struct err_note note;
    struct change_explanation e;
    arena_init(&a, 64 << 20);
    assert_int_equal(change_explain(s->change, seq, &a, &e, &note), ERR_OK);
    assert_true(e.routed);
    assert_int_equal(e.count, 1);
    assert_true(e.rules[0].matches);
    assert_int_equal(e.rules[0].item == NULL ? 0 : e.rules[0].item->id, item);
    assert_int_equal(e.rules[0].collapsed_into, into);
    arena_fini(&a);
}

static void an_item_that_went_on_to_a_newer_event_is_found(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, EDGE);
    uint64_t first = stage_tell(&s, "d", "A"), other = stage_tell(&s, "d", "B"),
             second = stage_tell(&s, "d", "A");
    stage_calm(&s);
    expect(&s, first, first * CHANGE_SUBS, second);
    expect(&s, other, other * CHANGE_SUBS, 0);
    expect(&s, second, first * CHANGE_SUBS, 0);
    resume(&s);
    expect(&s, first, 0, 0);
    expect(&s, second, 0, 0);
    stage_close(&s);
}

static void each_event_has_its_own_item_where_none_collapse(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, HOOK);
    uint64_t first = stage_tell(&s, "d", "A"), second = stage_tell(&s, "d", "A");
    stage_calm(&s);
    expect(&s, first, first * CHANGE_SUBS, 0);
    expect(&s, second, second * CHANGE_SUBS, 0);
    stage_take(&s, EDGE); /* they are done by the rule as it is when they run */
    expect(&s, second, second * CHANGE_SUBS, 0);
    stage_close(&s);
}

/* An item that a replay made for an older event says nothing of a newer one that was done. */
static void the_item_of_an_older_event_is_not_that_of_a_newer(void **state)
{
    (void)state;
    struct stage s;
    stage_open_paused(&s, EDGE);
    uint64_t first = stage_tell(&s, "d", "A");
    stage_calm(&s);
    expect(&s, first, first * CHANGE_SUBS, 0);
    stage_take(&s, "rules: { edge: { match: { stream: u }, effect: purge, targets: [\"$T\"], urls: "
                   "[\"/{title}\"] } }");
    uint64_t second = stage_tell(&s, "d", "A"); /* nobody wants it */
    stage_calm(&s);
    stage_take(&s, EDGE);
    expect(&s, second, 0, 0);
    expect(&s, first, first * CHANGE_SUBS, 0);
    stage_close(&s);
}

/* The last n events are the newest ones, also when the last row that a look goes over is damaged.
 */
static void a_dry_run_asks_about_the_newest_behind_damage(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct err_note note;
    struct event_key key;
    struct change_dry dry = { .last = 2 };
    uint64_t damaged = 0;
    stage_open(&s, HOOK);
    for (unsigned i = 0; i < CHANGE_LOOKS_MAX; i++)
        damaged = stage_tell(&s, "d", "A");
    (void)stage_tell(&s, "d", "B");
    (void)stage_tell(&s, "d", "C");
    uint64_t last = stage_tell(&s, "d", "D");
    event_key_event(&key, damaged);
    engine_mem_rot(s.engine, SPACE_EVENT, event_key_str(&key));
    arena_init(&a, 16 << 20);
    assert_int_equal(change_dry_run(s.change, NULL, &dry, &a, &note), ERR_OK);
    assert_int_equal(dry.looked, 2);
    assert_int_equal(dry.rules[0].matched, 2);
    assert_int_equal(dry.rules[0].example, last);
    arena_fini(&a);
    stage_close(&s);
}

/* Patterns may take long: the time of a call is bounded, whatever they are. */
static void a_dry_run_ends_in_time(void **state)
{
    (void)state;
    struct stage s;
    struct arena a;
    struct err_note note;
    stage_open(&s, HOOK);
    (void)stage_tell(&s, "d", "A");
    const mono now = clock_mono(&s.clock.clock);
    struct change_dry dry = { .last = 2, .deadline = now };
    arena_init(&a, 16 << 20);
    assert_int_equal(change_dry_run(s.change, NULL, &dry, &a, &note), ERR_OK);
    assert_true(dry.stopped && dry.looked == 0);
    dry.deadline.ns = now.ns + 1;
    assert_int_equal(change_dry_run(s.change, NULL, &dry, &a, &note), ERR_OK);
    assert_true(!dry.stopped && dry.looked == 1);
    arena_fini(&a);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_that_went_on_to_a_newer_event_is_found),
        cmocka_unit_test(each_event_has_its_own_item_where_none_collapse),
        cmocka_unit_test(the_item_of_an_older_event_is_not_that_of_a_newer),
        cmocka_unit_test(a_dry_run_asks_about_the_newest_behind_damage),
        cmocka_unit_test(a_dry_run_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
