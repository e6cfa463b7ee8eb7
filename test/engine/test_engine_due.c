/* Goal: entries are handed over in the order of their instants, whole, at their instant and not
 * before. Method: two lanes on a fresh engine, one that shares its space with other rows. */
#include "engine/due.h"
#include "engine/store.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TAKE_MAX = 8 };

static const struct due_lane alone = { .space = SPACE_DUE, .flips = true };
static const struct due_lane beside = { .space = SPACE_ROW, .prefix = STR_INIT("\2") };

struct change {
    const struct due_lane *lane;
    enum { FILE_IT, MOVE, UNFILE, DROP } what;
    store_time at, to;
    struct due_row row;
    const struct due_entry *entry;
};

static err change(struct engine_txn *t, void *ctx)
{
    const struct change *c = ctx;
    switch (c->what) {
    case FILE_IT:
        return due_file(t, c->lane, c->at, c->row, STR("value"));
    case MOVE:
        return due_move(t, c->lane, c->at, c->to, c->row);
    case UNFILE:
        return due_unfile(t, c->lane, c->at, c->row);
    case DROP:
        break;
    }
    return due_drop(t, c->lane, c->entry);
}

static void run(struct scratch *s, struct change c)
{
    assert_int_equal(engine_update_wait(s->engine, change, &c), ERR_OK);
}

static void file(struct scratch *s, const struct due_lane *l, int64_t at, const char *key)
{
    run(s, (struct change){ .lane = l,
                            .what = FILE_IT,
                            .at = { .ns = at },
                            .row = { .kind = STR("k"), .key = str_of(key) } });
}

/* What is due by then; how many entries. */
static unsigned take(struct scratch *s, const struct due_lane *l, int64_t now, unsigned max,
                     struct due_entry out[TAKE_MAX])
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct due_batch batch = { .entries = out, .max = max };
    assert_int_equal(due_take(v, l, (store_time){ .ns = now }, &batch), ERR_OK);
    engine_view_end(&v);
    return batch.count;
}

static int64_t next(struct scratch *s, const struct due_lane *l)
{
    struct engine_view *v = engine_view_begin(s->engine);
    store_time at;
    assert_int_equal(due_next(v, l, &at), ERR_OK);
    engine_view_end(&v);
    return at.ns;
}

static void assert_entry(const struct due_entry *e, int64_t at, const char *of)
{
    assert_int_equal(e->at.ns, at);
    assert_true(str_eq(due_of(e), str_of(of)));
}

static void what_is_due_comes_in_order(void **state)
{
    struct scratch *s = *state;
    struct due_entry e[TAKE_MAX];
    file(s, &alone, 30, "c");
    file(s, &alone, -20, "b");
    file(s, &alone, 10, "z");
    file(s, &alone, 10, "a");
    assert_int_equal(next(s, &alone), -20);
    assert_int_equal(take(s, &alone, -21, TAKE_MAX, e), 0);
    assert_int_equal(take(s, &alone, 10, TAKE_MAX, e), 3);
    assert_entry(&e[0], -20, "kb");
    assert_entry(&e[1], 10, "ka");
    assert_entry(&e[2], 10, "kz");
    assert_int_equal(take(s, &alone, INT64_MAX, 2, e), 2);
    run(s, (struct change){ .lane = &alone, .what = DROP, .entry = &e[0] });
    assert_int_equal(next(s, &alone), 10);
    assert_int_equal(take(s, &alone, INT64_MAX, TAKE_MAX, e), 3);
    assert_entry(&e[2], 30, "kc");
}

static void a_row_declares_one_instant_and_may_change_it(void **state)
{
    struct scratch *s = *state;
    const struct due_row row = { .kind = STR("k"), .key = STR("a") };
    const store_time five = { .ns = 5 }, nine = { .ns = 9 };
    struct due_entry e[TAKE_MAX];
    struct engine_row found;
    run(s, (struct change){ .lane = &alone, .what = MOVE, STORE_TIME_NEVER, five, row });
    assert_int_equal(next(s, &alone), 5);
    run(s, (struct change){ .lane = &alone, .what = MOVE, five, nine, row });
    assert_int_equal(take(s, &alone, INT64_MAX, TAKE_MAX, e), 1);
    assert_entry(&e[0], 9, "ka");
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(due_find(v, &alone, nine, row, &found), ERR_OK);
    assert_int_equal(due_find(v, &alone, five, row, &found), ERR_NOT_FOUND);
    assert_int_equal(due_find(v, &alone, STORE_TIME_NEVER, row, &found), ERR_NOT_FOUND);
    engine_view_end(&v);
    run(s, (struct change){ .lane = &alone, .what = MOVE, nine, STORE_TIME_NEVER, row });
    assert_int_equal(next(s, &alone), INT64_MAX);
    file(s, &alone, INT64_MAX, "a"); /* NEVER has no entry */
    assert_int_equal(next(s, &alone), INT64_MAX);
    file(s, &alone, 7, "a");
    run(s, (struct change){ .lane = &alone, .what = UNFILE, .at = { .ns = 7 }, .row = row });
    run(s, (struct change){ .lane = &alone, .what = UNFILE, STORE_TIME_NEVER, .row = row });
    assert_int_equal(take(s, &alone, INT64_MAX, TAKE_MAX, e), 0);
}

static void a_lane_shares_its_space_with_other_rows(void **state)
{
    struct scratch *s = *state;
    struct due_entry e[TAKE_MAX];
    const struct due_row row = { .kind = STR("k"), .key = STR("a") };
    struct engine_row found;
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("\1before"), STR("x"), STR_NONE), ERR_OK);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("\3behind"), STR("x"), STR_NONE), ERR_OK);
    assert_int_equal(next(s, &beside), INT64_MAX);
    file(s, &beside, 5, "a");
    file(s, &beside, 0, "b");
    assert_int_equal(take(s, &beside, INT64_MAX, TAKE_MAX, e), 2);
    assert_entry(&e[0], 0, "kb");
    assert_entry(&e[1], 5, "ka");
    assert_true(str_eq(due_key_str(&e[1].key), ((str){ .p = "\2\0\0\0\0\0\0\0\5ka", .n = 11 })));
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(due_find(v, &beside, (store_time){ .ns = 5 }, row, &found), ERR_OK);
    assert_true(str_eq(found.value, STR("value")));
    engine_view_end(&v);
}

static void an_entry_without_an_instant_is_due_at_once(void **state)
{
    struct scratch *s = *state;
    struct due_entry e[TAKE_MAX];
    file(s, &beside, 5, "a");
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("\2short"), STR("x"), STR_NONE), ERR_OK);
    assert_int_equal(take(s, &beside, 5, TAKE_MAX, e), 2);
    assert_entry(&e[1], 0, "");
    assert_int_equal(e[1].head, 0);
    run(s, (struct change){ .lane = &beside, .what = DROP, .entry = &e[1] });
    assert_int_equal(take(s, &beside, 5, TAKE_MAX, e), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_due_comes_in_order, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_row_declares_one_instant_and_may_change_it, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_lane_shares_its_space_with_other_rows, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(an_entry_without_an_instant_is_due_at_once, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
