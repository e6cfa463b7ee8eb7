/* Goal: damage to the rows of items is found, and told in a sentence; whole rows are not complained
 * of. Method: items in each state on an engine in memory, and one damage at a time behind its back.
 */
#include "../bucket/engine_mem.h"
#include "base/buf.h"
#include "change/items.h"
#include "engine/store.h"
#include "lib/clock.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

enum { RULE = 7, LATER = 5, TEXT_BYTES_MAX = 4096 };

/* Items of rule 7, by id; all of one title but those that are dead and alone. */
enum {
    READY = CHANGE_SUBS,
    WAITING = 2 * CHANGE_SUBS,
    DEAD = 3 * CHANGE_SUBS,
    SCHEDULED = 4 * CHANGE_SUBS
};

static const struct change_digest lane = { .p = { 1 } }, title = { .p = { 2 } };

struct stage {
    struct fake_clock clock;
    struct engine *engine;
    char told[TEXT_BYTES_MAX];
};

static void told(void *ctx, const char *what)
{
    struct stage *s = ctx;
    size_t n = strlen(s->told);
    (void)snprintf(s->told + n, sizeof s->told - n, "%s\n", what); /* cut: the test says so */
}

static const char large[CHANGE_OWN_BYTES_MAX + 1];

static struct change_route route(uint64_t id, bool ordered, int64_t due)
{
    struct change_route r = { .rule = RULE,
                              .id = id,
                              .seq = id / CHANGE_SUBS,
                              .due = { .ns = due },
                              .lane = lane,
                              .stream = STR("s"),
                              .domain = STR("d"),
                              .type = STR(""),
                              .bytes = STR("{}") };
    if (ordered)
        r.order = title;
    if (id == READY || id == DEAD)
        r.bytes = (str){ .p = large, .n = sizeof large };
    return r;
}

static err rules_put(struct engine_txn *t)
{
    const struct change_rule_row row = { .number = RULE };
    const struct change_head head = { .cursor = 4, .count = 4 };
    char value[CHANGE_HEAD_BYTES], next[8];
    struct change_key key;
    change_key_rule(&key, STR("hook"));
    err why = engine_txn_put(t, SPACE_CHANGE, change_key_str(&key), change_rule_encode(&row, value),
                             STR_NONE);
    put_be64(next, RULE + 1);
    change_key_next(&key);
    if (why == ERR_OK)
        why = engine_txn_put(t, SPACE_CHANGE, change_key_str(&key),
                             (str){ .p = next, .n = sizeof next }, STR_NONE);
    change_key_head(&key);
    return why != ERR_OK ? why
                         : engine_txn_put(t, SPACE_CHANGE, change_key_str(&key),
                                          change_head_encode(&head, value), STR_NONE);
}

static err stage_fill(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    const struct change_route routes[] = { route(READY, true, 0), route(WAITING, true, 0),
                                           route(DEAD, false, 0),
                                           route(SCHEDULED, false, INT64_MAX) };
    const struct change_settle dies = {
        .rule = RULE, .id = DEAD, .seq = DEAD / CHANGE_SUBS, .how = SETTLED_DEAD, .error = STR("no")
    };
    struct change_edit e;
    enum change_routed how;
    bool died;
    change_edit_begin(&e, t);
    err why = rules_put(t);
    for (unsigned i = 0; i < COUNT_OF(routes) && why == ERR_OK; i++)
        why = change_item_route(&e, &routes[i], &how);
    if (why == ERR_OK)
        why = change_item_settle(&e, &dies, &died);
    if (why == ERR_OK)
        why = change_memory_done(&e, RULE, &title, e.now);
    return why == ERR_OK ? change_edit_end(&e) : why;
}

static void stage_begin(struct stage *s)
{
    *s = (struct stage){ .engine = NULL };
    fake_clock_init(&s->clock, LATER);
    s->engine = engine_mem_new(&s->clock.clock);
    assert_int_equal(engine_update_wait(s->engine, stage_fill, NULL), ERR_OK);
}

static void stage_end(struct stage *s)
{
    engine_close(&s->engine);
}

static void whole_rows_are_fine(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s);
    assert_int_equal(change_check(s.engine, told, &s), ERR_OK);
    assert_string_equal(s.told, "");
    stage_end(&s);
    s.engine = engine_mem_new(&s.clock.clock);
    assert_int_equal(change_check(s.engine, told, &s), ERR_OK);
    stage_end(&s);
}

/* ---- damages ---- */

static void row_lose(struct stage *s, const struct change_key *k)
{
    engine_mem_damage(s->engine, SPACE_CHANGE, change_key_str(k), STR_NONE);
}

static void row_set(struct stage *s, const struct change_key *k, str value)
{
    engine_mem_damage(s->engine, SPACE_CHANGE, change_key_str(k), value);
}

static void item_set(struct stage *s, uint64_t id, enum change_state state)
{
    struct change_item_kept k;
    struct change_key key;
    char value[CHANGE_VALUE_BYTES];
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(change_item_get(v, RULE, id, &k), ERR_OK);
    engine_view_end(&v);
    k.row.state = state;
    change_key_item(&key, RULE, id);
    row_set(s, &key, change_item_encode(&k.row, value));
}

static void no_ready_row(struct stage *s)
{
    struct change_key k;
    change_key_ready(&k, RULE, &lane, READY);
    row_lose(s, &k);
}

static void no_due_row(struct stage *s)
{
    struct change_key k;
    change_key_due(&k, STORE_TIME_NEVER, RULE, SCHEDULED);
    row_lose(s, &k);
}

static void no_dead_row(struct stage *s)
{
    struct change_key k;
    change_key_dead(&k, RULE, DEAD);
    row_lose(s, &k);
}

static void another_dead_row(struct stage *s)
{
    struct change_key k;
    change_key_dead(&k, RULE, READY);
    row_set(s, &k, STR(""));
}

static void a_ready_row_of_nobody(struct stage *s)
{
    struct change_key k;
    change_key_ready(&k, RULE, &title, 9 * CHANGE_SUBS);
    row_set(s, &k, STR(""));
}

static void a_short_ready_row(struct stage *s)
{
    row_set(s, &(struct change_key){ .p = "r123", .n = 4 }, STR(""));
}

static void no_order_row(struct stage *s)
{
    struct change_key k;
    change_key_order(&k, RULE, &title, WAITING);
    row_lose(s, &k);
}

static void an_order_row_of_another_title(struct stage *s)
{
    struct change_key k;
    change_key_order(&k, RULE, &lane, READY);
    row_set(s, &k, STR(""));
}

static void two_that_may_run(struct stage *s)
{
    struct change_key k;
    item_set(s, WAITING, CHANGE_READY);
    change_key_ready(&k, RULE, &lane, WAITING);
    row_set(s, &k, STR(""));
}

static void nobody_that_may_run(struct stage *s)
{
    no_ready_row(s);
    item_set(s, READY, CHANGE_WAITING);
}

static void a_short_item(struct stage *s)
{
    struct change_key k;
    change_key_item(&k, RULE, DEAD);
    row_set(s, &k, STR("\1\3"));
}

static void a_rotten_item(struct stage *s)
{
    struct change_key k;
    change_key_item(&k, RULE, DEAD);
    engine_mem_rot(s->engine, SPACE_CHANGE, change_key_str(&k));
}

static void no_item(struct stage *s)
{
    struct change_key k;
    change_key_item(&k, RULE, DEAD);
    row_lose(s, &k);
}

static void wrong_counts(struct stage *s)
{
    struct change_key k;
    char value[CHANGE_COUNTS_BYTES] = { 0 };
    change_key_counts(&k, RULE);
    row_set(s, &k, (str){ .p = value, .n = sizeof value });
}

static void short_counts(struct stage *s)
{
    struct change_key k;
    change_key_counts(&k, RULE);
    row_set(s, &k, STR("123"));
}

static void no_rule(struct stage *s)
{
    struct change_key k;
    change_key_rule(&k, STR("hook"));
    row_lose(s, &k);
}

static void two_rules_of_a_number(struct stage *s)
{
    const struct change_rule_row row = { .number = RULE };
    struct change_key k;
    char value[CHANGE_RULE_BYTES];
    change_key_rule(&k, STR("other"));
    row_set(s, &k, change_rule_encode(&row, value));
}

static void a_rule_of_the_future(struct stage *s)
{
    const struct change_rule_row row = { .number = RULE + 1 };
    struct change_key k;
    char value[CHANGE_RULE_BYTES];
    change_key_rule(&k, STR("other"));
    row_set(s, &k, change_rule_encode(&row, value));
}

static void a_short_rule(struct stage *s)
{
    struct change_key k;
    change_key_rule(&k, STR("other"));
    row_set(s, &k, STR("\1"));
}

static void a_short_head(struct stage *s)
{
    struct change_key k;
    change_key_head(&k);
    row_set(s, &k, STR("\1"));
}

static void a_short_number(struct stage *s)
{
    struct change_key k;
    change_key_next(&k);
    row_set(s, &k, STR("\1"));
}

static void something_else(struct stage *s)
{
    row_set(s, &(struct change_key){ .p = "?", .n = 1 }, STR(""));
}

static void a_memory_for_ever(struct stage *s)
{
    struct change_key k;
    store_time at, until;
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(change_memory_get(v, RULE, &title, &at, &until), ERR_OK);
    engine_view_end(&v);
    change_key_forget(&k, until, RULE, &title);
    row_lose(s, &k);
}

static void a_memory_of_nothing(struct stage *s)
{
    struct change_key k;
    change_key_memory(&k, RULE, &title);
    row_lose(s, &k);
}

static void shared_set(struct stage *s, uint64_t seq, uint64_t count)
{
    struct change_key k;
    char value[CHANGE_BYTES_BYTES];
    change_key_bytes(&k, seq);
    row_set(s, &k, change_bytes_encode(count, value));
}

static void no_shared_event(struct stage *s)
{
    struct change_key k;
    change_key_bytes(&k, READY / CHANGE_SUBS);
    row_lose(s, &k);
}

static void no_shared_event_of_the_last(struct stage *s)
{
    struct change_key k;
    change_key_bytes(&k, DEAD / CHANGE_SUBS);
    row_lose(s, &k);
}

static void a_shared_event_of_more(struct stage *s)
{
    shared_set(s, DEAD / CHANGE_SUBS, 2);
}

static void a_shared_event_of_nobody(struct stage *s)
{
    shared_set(s, 9, 1);
}

static void a_shared_event_of_none(struct stage *s)
{
    shared_set(s, DEAD / CHANGE_SUBS, 0);
}

static const struct {
    void (*damage)(struct stage *s);
    const char *told;
} damages[] = {
    { no_ready_row,
      "rule hook, item 64: it is missing among those that are ready, scheduled or dead\n" },
    { no_due_row,
      "rule hook, item 256: it is missing among those that are ready, scheduled or dead\n" },
    { no_dead_row,
      "rule hook, item 192: it is missing among those that are ready, scheduled or dead\n" },
    { another_dead_row,
      "rule hook, item 64: it stands in a list that its state does not belong to\n" },
    { a_ready_row_of_nobody, "rule hook, item 576: it has a place in a list, and is not there\n" },
    { a_short_ready_row, "rules: a row of a list of items makes no sense\n" },
    { no_order_row, "rule hook, item 128: it has no place among the items of its title\n" },
    { an_order_row_of_another_title,
      "rule hook, item 64: it stands among the items of a title that is not its own\n" },
    { two_that_may_run, "rule hook: its counts are not those of its items\n" },
    { two_that_may_run, "rule hook: more than one item of a title may run\n" },
    { nobody_that_may_run, "rule hook: all items of a title wait\n" },
    { a_short_item, "rules: the row of an item makes no sense\n" },
    { a_rotten_item, "rules: a row is damaged\n" },
    { no_item, "rule hook, item 192: it has a place in a list, and is not there\n" },
    { no_item, "rule hook: its counts are not those of its items\n" },
    { wrong_counts, "rule hook: its counts are not those of its items\n" },
    { short_counts, "rules: the counts of a rule make no sense\n" },
    { no_rule, "rule number 7: there are items of it, and it is not known\n" },
    { two_rules_of_a_number, "rules: two rules have the same number\n" },
    { a_rule_of_the_future, "rules: a rule has a number that is given to the next one\n" },
    { a_short_rule, "rules: the row of a rule makes no sense\n" },
    { a_short_head, "rules: the place in the event log makes no sense\n" },
    { a_short_number, "rules: the next number of a rule makes no sense\n" },
    { something_else, "rules: there is a row that belongs to nothing\n" },
    { no_shared_event, "rules: the event of an item is not there\n" },
    { no_shared_event_of_the_last, "rules: the event of an item is not there\n" },
    { a_shared_event_of_more,
      "rules: an event says that another number of items share it than do\n" },
    { a_shared_event_of_nobody,
      "rules: an event says that another number of items share it than do\n" },
    { a_shared_event_of_none, "rules: an event that items share makes no sense\n" },
    { a_memory_for_ever, "rules: what is remembered of a job is never forgotten\n" },
    { a_memory_of_nothing,
      "rules: something is to be forgotten of a job that is not remembered\n" },
};

static void each_damage_is_told(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(damages); i++) {
        struct stage s;
        stage_begin(&s);
        damages[i].damage(&s);
        assert_int_equal(change_check(s.engine, told, &s), ERR_CORRUPT);
        if (strstr(s.told, damages[i].told) == NULL)
            fail_msg("damage %u: told is \"%s\", wanted \"%s\"", i, s.told, damages[i].told);
        stage_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_rows_are_fine),
        cmocka_unit_test(each_damage_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
