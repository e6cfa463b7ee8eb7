/* Goal: timelines answer "what was superseded long enough ago", lose no entry of one instant, and
 * forget no entry that was not applied. Method: entries in a real engine, found and forgotten. */
#include "timeline/timeline.h"

#include "../cmocka_all.h"
#include "../scratch.h"
#include "engine/store.h"

struct fixture {
    char dir[FOLDER_PATH_BYTES];
    struct fake_clock clock;
    struct engine *engine;
};

static int set_up(void **state)
{
    static struct fixture f; /* one at a time: cmocka runs tests in turn */
    folder_make(f.dir);
    fake_clock_init(&f.clock, 1000 * NS_PER_S);
    f.engine = scratch_engine(f.dir, &f.clock.clock);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    engine_close(&f->engine);
    folder_remove(f->dir);
    return 0;
}

struct job {
    struct timeline_where where;
    struct timeline_entry entry;
    store_time before;
    unsigned count;
};

static err add_decide(struct engine_txn *t, void *ctx)
{
    struct job *j = ctx;
    return timeline_add(t, &j->where, &j->entry);
}

static err applied_decide(struct engine_txn *t, void *ctx)
{
    struct job *j = ctx;
    return timeline_applied(t, &j->where, &j->entry, &j->count);
}

static err expire_decide(struct engine_txn *t, void *ctx)
{
    struct job *j = ctx;
    return timeline_expire(t, &j->where, j->before, &j->count);
}

static void add(struct fixture *f, const struct timeline_where *w, int64_t at_s, uint64_t rev)
{
    struct job j = { .where = *w, .entry = { .at = { .ns = at_s * NS_PER_S }, .rev = rev } };
    assert_int_equal(engine_update_wait(f->engine, add_decide, &j), ERR_OK);
}

static err find(struct fixture *f, const struct timeline_where *w, int64_t not_after_s,
                struct timeline_entry *out)
{
    struct engine_view *v = engine_view_begin(f->engine);
    err why = timeline_find(v, w, (store_time){ .ns = not_after_s * NS_PER_S }, out);
    engine_view_end(&v);
    return why;
}

static uint64_t count(struct fixture *f, enum timeline_kind kind, uint32_t domain)
{
    uint64_t n = 0;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(timeline_count(v, kind, domain, &n), ERR_OK);
    engine_view_end(&v);
    return n;
}

static const struct timeline_where page = { .kind = TIMELINE_REVISION,
                                            .domain = 1,
                                            .title = { "Page", 4 } };

static void the_newest_old_enough_entry_is_found(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    add(f, &page, 10, 1);
    add(f, &page, 30, 3);
    add(f, &page, 20, 2);
    assert_int_equal(find(f, &page, 9, &e), ERR_NOT_FOUND);
    assert_int_equal(find(f, &page, 29, &e), ERR_OK);
    assert_int_equal(e.rev, 2);
    assert_int_equal(find(f, &page, 30, &e), ERR_OK);
    assert_int_equal(e.rev, 3);
}

static void two_entries_of_one_instant_are_both_kept(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    add(f, &page, 10, 1);
    add(f, &page, 10, 2);
    assert_int_equal(count(f, TIMELINE_REVISION, 1), 2);
    assert_int_equal(find(f, &page, 10, &e), ERR_OK);
    assert_int_equal(e.rev, 2);
}

static void titles_domains_and_kinds_are_apart(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    struct timeline_where longer = { .kind = TIMELINE_REVISION,
                                     .domain = 1,
                                     .title = { "Page2", 5 } };
    struct timeline_where other = { .kind = TIMELINE_REVISION,
                                    .domain = 2,
                                    .title = { "Page", 4 } };
    struct timeline_where render = {
        .kind = TIMELINE_RENDER, .domain = 1, .title = { "Page", 4 }, .rev = 7
    };
    struct timeline_where next = {
        .kind = TIMELINE_RENDER, .domain = 1, .title = { "Page", 4 }, .rev = 8
    };
    add(f, &longer, 5, 1);
    add(f, &other, 5, 1);
    add(f, &render, 5, 7);
    assert_int_equal(find(f, &page, 100, &e), ERR_NOT_FOUND);
    assert_int_equal(find(f, &next, 100, &e), ERR_NOT_FOUND);
    assert_int_equal(find(f, &render, 100, &e), ERR_OK);
}

static void what_was_applied_is_forgotten_with_all_older(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    struct job j = { .where = page };
    for (int i = 1; i <= 5; i++)
        add(f, &page, 10 * i, (uint64_t)i);
    assert_int_equal(find(f, &page, 30, &j.entry), ERR_OK);
    assert_int_equal(engine_update_wait(f->engine, applied_decide, &j), ERR_OK);
    assert_int_equal(j.count, 3);
    assert_int_equal(find(f, &page, 30, &e), ERR_NOT_FOUND);
    assert_int_equal(count(f, TIMELINE_REVISION, 1), 2);
}

static void age_never_forgets_the_newest_unapplied_entry(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    struct job j = { .where = page, .before = { .ns = 1000 * NS_PER_S } };
    for (int i = 1; i <= 3; i++)
        add(f, &page, 10 * i, (uint64_t)i);
    assert_int_equal(engine_update_wait(f->engine, expire_decide, &j), ERR_OK);
    assert_int_equal(j.count, 2);
    assert_int_equal(find(f, &page, 1000, &e), ERR_OK);
    assert_int_equal(e.rev, 3);
}

static void a_title_past_its_limit_is_refused(void **state)
{
    struct fixture *f = *state;
    char title[TIMELINE_TITLE_BYTES_MAX + 1] = { 0 };
    struct timeline_entry e;
    struct timeline_where w = { .kind = TIMELINE_REVISION, .title = { title, sizeof title } };
    assert_int_equal(find(f, &w, 1, &e), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_old_enough_entry_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_entries_of_one_instant_are_both_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(titles_domains_and_kinds_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_applied_is_forgotten_with_all_older, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(age_never_forgets_the_newest_unapplied_entry, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_title_past_its_limit_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
