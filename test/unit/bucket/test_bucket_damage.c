/* Goal: a row that fails its sum stops nothing that can go on without it: culls, purges, a changed
 * policy; the check tells a latest that is lost. Method: rows of the engine in memory are made to
 * fail theirs, one of each kind; one is taken away. */
#include "bucket/page_write.h"
#include "fixture.h"

#include <string.h>

/* The key of the first row of a space (reversed: the last). */
static str key_of(struct fixture *f, enum engine_space space, bool reversed,
                  char key[ENGINE_KEY_BYTES_MAX])
{
    const struct engine_range all = { .space = space, .reversed = reversed };
    struct engine_view *v = engine_view_begin(f->engine);
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    memcpy(key, row.key.p, row.key.n);
    str out = { .p = key, .n = row.key.n };
    engine_cursor_close(&c);
    engine_view_end(&v);
    return out;
}

static void rot(struct fixture *f, enum engine_space space, bool reversed)
{
    char key[ENGINE_KEY_BYTES_MAX];
    engine_mem_rot(f->engine, space, key_of(f, space, reversed, key));
}

static void due_row_does_not_end_culling(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 4; rev++)
        (void)fix_put(f, rev, -1);
    rot(f, SPACE_DUE, false);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1); /* its key says enough */
    assert_int_equal(traces_stored(f->engine), 3);
    fixture_free(f);
}

static void due_row_without_meaning_goes(void **state)
{
    (void)state; /* unused */
    static const char *const keys[] = { "", "\200short", "\200\0\0\0\0\0\0\0\1no render's key" };
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    for (unsigned i = 0; i < COUNT_OF(keys); i++) {
        str key = { .p = keys[i], .n = i == 2 ? 24 : strlen(keys[i]) };
        engine_mem_damage(f->engine, SPACE_DUE, key, STR(""));
        if (i == 1)
            engine_mem_rot(f->engine, SPACE_DUE, key);
    }
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 1); /* of the trace */
    fixture_free(f);
}

static void due_row_of_a_bucket_never_made_goes(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    char key[ENGINE_KEY_BYTES_MAX];
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    str due = key_of(f, SPACE_DUE, false, key);
    key[9] = 0x7f; /* the bucket's number */
    engine_mem_damage(f->engine, SPACE_DUE, due, STR(""));
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 1);
    fixture_free(f);
}

static void render_row_is_purged_with_its_title(void **state)
{
    (void)state; /* unused */
    for (int newest = 0; newest < 2; newest++) {
        struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
        struct page_order o = { 0 };
        for (uint64_t rev = 1; rev <= 3; rev++)
            (void)fix_put(f, rev, -1);
        rot(f, SPACE_RENDER, newest == 0);
        assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
        assert_int_equal(o.purged, 3);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 0);
        fake_clock_advance(&f->clock, GRACE);
        fix_upkeep(f);
        fixture_free(f);
    }
}

static void render_row_does_not_keep_a_changed_policy_from_the_others(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    for (uint64_t rev = 1; rev <= 3; rev++)
        (void)fix_put(f, rev, -1);
    rot(f, SPACE_RENDER, true);
    fix_restart(f, fix_policy(POLICY_ALL));
    fix_restart(f, fix_policy(POLICY_LATEST)); /* waits until all is planned for the one before */
    fix_upkeep(f);
    struct pages_stats stats;
    pages_stats_get(f->pages, &stats);
    assert_int_equal(stats.replanned, 4); /* the two others, twice */
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    fixture_free(f);
}

static void fence_row_does_not_keep_its_title_from_being_purged(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_put p = { 0 };
    (void)fix_put(f, 1, 0);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    rot(f, SPACE_TITLE, true);
    assert_int_equal(fix_put_as(f, 1, 0, "x", &p),
                     ERR_CORRUPT); /* nobody knows whether it was purged */
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 1);
    assert_int_equal(fix_put_as(f, 1, 0, "x", &p), ERR_GONE);
    fixture_free(f);
}

/* ---- what the check tells ---- */

static err delete_row(struct engine_txn *t, void *ctx)
{
    return engine_txn_delete(t, SPACE_RENDER, *(str *)ctx);
}

static void tell_damage(void *ctx, const char *what)
{
    *(bool *)ctx |= strstr(what, "it is the greatest render, yet superseded") != NULL;
}

static void latest_that_is_lost_is_told(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    char key[ENGINE_KEY_BYTES_MAX];
    bool told = false;
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    str newest = key_of(f, SPACE_RENDER, false, key);
    assert_int_equal(engine_update_wait(f->engine, delete_row, &newest), ERR_OK);
    assert_int_equal(pages_check(f->pages, tell_damage, &told), ERR_CORRUPT);
    assert_true(told);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due_row_does_not_end_culling),
        cmocka_unit_test(due_row_without_meaning_goes),
        cmocka_unit_test(due_row_of_a_bucket_never_made_goes),
        cmocka_unit_test(render_row_is_purged_with_its_title),
        cmocka_unit_test(render_row_does_not_keep_a_changed_policy_from_the_others),
        cmocka_unit_test(fence_row_does_not_keep_its_title_from_being_purged),
        cmocka_unit_test(latest_that_is_lost_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
