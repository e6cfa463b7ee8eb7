/* Goal: each of the seed's strategies answers as it promises (latest; recent within grace; gone
 * after) and does as many operations as the seed's table says. Method: a short edit history through
 * each on a real engine, with the clock given. */
#include "strategy/strategy.h"

#include "../cmocka_all.h"
#include "../scratch.h"
#include "engine/store.h"

enum { CONTENTS = 3, ARENA_BYTES = 1 << 20 };
#define GRACE_NS (86400 * NS_PER_S)
#define START_NS (1767225600 * NS_PER_S)

struct fixture {
    char dir[FOLDER_PATH_BYTES];
    struct fake_clock clock;
    struct engine *engine;
    struct arena arena;
};

static int set_up(void **state)
{
    static struct fixture f; /* one at a time: cmocka runs tests in turn */
    folder_make(f.dir);
    fake_clock_init(&f.clock, START_NS);
    f.engine = scratch_engine(f.dir, &f.clock.clock);
    arena_init(&f.arena, ARENA_BYTES);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_fini(&f->arena);
    engine_close(&f->engine);
    folder_remove(f->dir);
    return 0;
}

static struct strategy *make(struct fixture *f, enum strategy_kind kind, bool together)
{
    return strategy_new(
        &(struct strategy_opts){ .engine = f->engine,
                                 .kind = kind,
                                 .instance = (uint8_t)(kind * 2u + (together ? 1u : 0u)),
                                 .contents = CONTENTS,
                                 .together = together,
                                 .delete_probability = 1.0,
                                 .grace_ttl_ns = GRACE_NS,
                                 .historical_ttl_ns = GRACE_NS,
                                 .seed = 1 });
}

static store_time hour(int n)
{
    return (store_time){ .ns = START_NS + n * (3600 * NS_PER_S) };
}

static struct strategy_name_of name(uint64_t rev, int h)
{
    return (struct strategy_name_of){ .rev = rev, .tid = tid_make(tid_ticks(hour(h)), rev) };
}

/* Revision i of 1..count at hour i * step; each content says which it is. */
static void edit(struct fixture *f, struct strategy *s, int i, int step)
{
    struct strategy_render r = { .domain = 1,
                                 .title = STR("Page"),
                                 .name = name((uint64_t)i, i * step),
                                 .has_previous = i > 1,
                                 .previous = name((uint64_t)i - 1, (i - 1) * step) };
    for (int c = 0; c < CONTENTS; c++)
        r.contents[c] = arena_printf(&f->arena, "content %d of %d", c, i);
    assert_int_equal(strategy_put(s, &r, hour(i * step)), ERR_OK);
}

static err get(struct fixture *f, struct strategy *s, enum strategy_select select,
               struct strategy_name_of n, int h, str *value)
{
    struct strategy_name_of got;
    struct strategy_which w = {
        .domain = 1, .title = STR("Page"), .select = select, .name = n, .content = 1
    };
    return strategy_get(s, &w, hour(h), &f->arena, &got, value);
}

static void reads_hold(struct fixture *f, struct strategy *s)
{
    str value;
    for (int i = 1; i <= 5; i++)
        edit(f, s, i, 10);
    assert_int_equal(get(f, s, STRATEGY_LATEST, name(0, 0), 50, &value), ERR_OK);
    assert_true(str_eq(value, STR("content 1 of 5")));
    assert_int_equal(get(f, s, STRATEGY_REV, name(4, 40), 51, &value), ERR_OK);
    assert_true(str_eq(value, STR("content 1 of 4")));
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(3, 30), 51, &value), ERR_OK);
    assert_true(str_eq(value, STR("content 1 of 3")));
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(4, 30), 51, &value), ERR_NOT_FOUND);
    assert_int_equal(get(f, s, STRATEGY_REV, name(9, 0), 51, &value), ERR_NOT_FOUND);
    strategy_free(&s);
}

static void app_ttl_serves_latest_and_recent(void **state)
{
    reads_hold(*state, make(*state, STRATEGY_APP_TTL, true));
    reads_hold(*state, make(*state, STRATEGY_APP_TTL, false));
}

static void two_table_serves_latest_and_recent(void **state)
{
    reads_hold(*state, make(*state, STRATEGY_TWO_TABLE, false));
}

static void table_per_query_serves_latest_and_recent(void **state)
{
    reads_hold(*state, make(*state, STRATEGY_PER_QUERY_A, false));
    reads_hold(*state, make(*state, STRATEGY_PER_QUERY_B, false));
}

static void app_ttl_culls_what_was_superseded_before_the_window(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_APP_TTL, true);
    str value;
    for (int i = 1; i <= 5; i++)
        edit(f, s, i, 20);
    /* At hour 100: rev 3 was superseded at 80 (inside), rev 2 at 60 (outside), rev 1 at 40
     * (outside). */
    assert_int_equal(get(f, s, STRATEGY_REV, name(1, 20), 100, &value), ERR_NOT_FOUND);
    assert_int_equal(get(f, s, STRATEGY_REV, name(2, 40), 100, &value), ERR_NOT_FOUND);
    assert_int_equal(get(f, s, STRATEGY_REV, name(3, 60), 100, &value), ERR_OK);
    strategy_free(&s);
}

static void renders_of_one_revision_are_culled_apart(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_APP_TTL, true);
    str value;
    for (int i = 1; i <= 4; i++) {
        struct strategy_render r = { .domain = 1,
                                     .title = STR("Page"),
                                     .name = name(7, 20 * i),
                                     .has_previous = i > 1,
                                     .previous = name(7, 20 * (i - 1)) };
        for (int c = 0; c < CONTENTS; c++)
            r.contents[c] = STR("x");
        assert_int_equal(strategy_put(s, &r, hour(20 * i)), ERR_OK);
    }
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(7, 20), 80, &value), ERR_NOT_FOUND);
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(7, 60), 80, &value), ERR_OK);
    assert_int_equal(get(f, s, STRATEGY_LATEST, name(0, 0), 80, &value), ERR_OK);
    strategy_free(&s);
}

static void ttl_tables_forget_after_their_time(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_TWO_TABLE, false);
    str value;
    uint64_t removed;
    edit(f, s, 1, 1);
    edit(f, s, 2, 1);
    assert_int_equal(get(f, s, STRATEGY_REV, name(1, 1), 25, &value), ERR_OK);
    assert_int_equal(get(f, s, STRATEGY_REV, name(1, 1), 60, &value), ERR_NOT_FOUND);
    assert_int_equal(strategy_expire(s, hour(60), &removed), ERR_OK);
    assert_int_equal(removed, 2 * CONTENTS);
    assert_int_equal(get(f, s, STRATEGY_LATEST, name(0, 0), 60, &value), ERR_OK);
    strategy_free(&s);
}

static void a_historical_hit_near_its_end_is_written_again(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_TWO_TABLE, false);
    str value;
    edit(f, s, 1, 1);
    edit(f, s, 2, 1);
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(1, 1), 20, &value), ERR_OK);
    assert_int_equal(get(f, s, STRATEGY_EXACT, name(1, 1), 40, &value), ERR_OK);
    strategy_free(&s);
}

/* The seed's table, for one update of a bundle that replaces another. */
static void operations_are_those_of_the_seed(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_APP_TTL, true);
    edit(f, s, 1, 48);
    edit(f, s, 2, 48);
    struct strategy_counts before = *strategy_counts_of(s);
    edit(f, s, 3, 48);
    const struct strategy_counts *c = strategy_counts_of(s);
    assert_int_equal(c->batches - before.batches, 2);
    assert_int_equal(c->writes - before.writes, CONTENTS);
    assert_int_equal(c->index_writes - before.index_writes, 1);
    assert_int_equal(c->index_reads - before.index_reads, 1);
    assert_int_equal(c->range_deletes - before.range_deletes, CONTENTS);
    assert_int_equal(c->reads - before.reads, 0);
    strategy_free(&s);

    s = make(f, STRATEGY_TWO_TABLE, false);
    edit(f, s, 1, 48);
    before = *strategy_counts_of(s);
    edit(f, s, 2, 48);
    c = strategy_counts_of(s);
    assert_int_equal(c->reads - before.reads, CONTENTS);
    assert_int_equal(c->writes - before.writes, 3 * CONTENTS);
    assert_int_equal(c->range_deletes - before.range_deletes, CONTENTS);
    strategy_free(&s);
}

static void option_a_keeps_the_greatest_when_writes_come_late(void **state)
{
    struct fixture *f = *state;
    struct strategy *s = make(f, STRATEGY_PER_QUERY_A, false);
    str value;
    edit(f, s, 2, 10);
    edit(f, s, 1, 10);
    assert_int_equal(get(f, s, STRATEGY_LATEST, name(0, 0), 21, &value), ERR_OK);
    assert_true(str_eq(value, STR("content 1 of 2")));
    strategy_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(app_ttl_serves_latest_and_recent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_table_serves_latest_and_recent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(table_per_query_serves_latest_and_recent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(app_ttl_culls_what_was_superseded_before_the_window, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(renders_of_one_revision_are_culled_apart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ttl_tables_forget_after_their_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_historical_hit_near_its_end_is_written_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(operations_are_those_of_the_seed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(option_a_keeps_the_greatest_when_writes_come_late, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
