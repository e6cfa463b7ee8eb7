/* Goal: timelines answer "what was superseded long enough ago", lose no entry of one instant, keep
 * domains apart, and forget by age alone. Method: entries in a real engine, found and forgotten. */
#include "timeline/timeline.h"

#include "../cmocka_all.h"
#include "../scratch.h"
#include "base/buf.h"
#include "engine/store.h"

#include <string.h>
#include <time.h>

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
    struct timeline_expiry expiry;
    unsigned count;
    str raw; /* a row to delete */
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
    return timeline_expire(t, &j->expiry);
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

static void found_count(void *ctx, const char *what)
{
    (void)what;
    ++*(unsigned *)ctx;
}

static bool whole(struct fixture *f)
{
    unsigned damages = 0;
    err why = timeline_check(f->engine, found_count, &damages);
    assert_int_equal(why, damages == 0 ? ERR_OK : ERR_CORRUPT);
    return damages == 0;
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
    assert_true(whole(f));
}

static void expire(struct fixture *f, int64_t before_s, unsigned *count, unsigned *updates)
{
    struct job j = { .expiry = { .before = { .ns = before_s * NS_PER_S }, .more = true } };
    *count = *updates = 0;
    while (j.expiry.more) {
        assert_int_equal(engine_update_wait(f->engine, expire_decide, &j), ERR_OK);
        assert_true(j.expiry.count <= TIMELINE_EXPIRE_MAX);
        *count += j.expiry.count;
        assert_true(++*updates < 100);
    }
}

static bool has_old(struct fixture *f, int64_t before_s)
{
    bool old = false;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(timeline_has_old(v, (store_time){ .ns = before_s * NS_PER_S }, &old), ERR_OK);
    engine_view_end(&v);
    return old;
}

static void age_removes_entries_of_every_domain(void **state)
{
    struct fixture *f = *state;
    struct timeline_entry e;
    struct timeline_where far = {
        .kind = TIMELINE_RENDER, .domain = UINT32_MAX, .title = { "Far", 3 }, .rev = 1
    };
    unsigned n, updates;
    assert_false(has_old(f, 1000));
    for (int i = 1; i <= 3; i++)
        add(f, &page, 10 * i, (uint64_t)i);
    add(f, &far, 15, 1);
    add(f, &far, 25, 1);
    assert_false(has_old(f, 10));
    assert_true(has_old(f, 11));
    expire(f, 21, &n, &updates);
    assert_int_equal(n, 3);
    assert_false(has_old(f, 21));
    assert_int_equal(find(f, &page, 1000, &e), ERR_OK);
    assert_int_equal(e.rev, 3);
    assert_int_equal(count(f, TIMELINE_RENDER, UINT32_MAX), 1);
    expire(f, 1000, &n, &updates);
    assert_int_equal(n, 2);
    assert_int_equal(count(f, TIMELINE_REVISION, 1), 0);
    assert_true(whole(f));
}

struct many {
    unsigned from, until;
};

static err many_decide(struct engine_txn *t, void *ctx)
{
    const struct many *m = ctx;
    err why = ERR_OK;
    for (unsigned i = m->from; i < m->until && why == ERR_OK; i++)
        why = timeline_add(t, &page,
                           &(struct timeline_entry){ .at = { .ns = i * NS_PER_S }, .rev = i });
    return why;
}

static void one_update_expires_so_many_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct many m = { .from = 1, .until = 3 * TIMELINE_EXPIRE_MAX };
    unsigned n, updates;
    assert_int_equal(engine_update_wait(f->engine, many_decide, &m), ERR_OK);
    expire(f, m.until - 1, &n, &updates);
    assert_int_equal(n, m.until - 2);
    assert_true(updates >= 3);
    assert_int_equal(count(f, TIMELINE_REVISION, 1), 1);
}

/* Of this thread, whatever else the machine does. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

struct timed {
    err (*decide)(struct engine_txn *t, void *ctx);
    void *ctx;
    int64_t ns;
};

static err timed_decide(struct engine_txn *t, void *ctx)
{
    struct timed *d = ctx;
    int64_t began = cpu_ns();
    err why = d->decide(t, d->ctx);
    d->ns = cpu_ns() - began;
    return why;
}

/* Other writes wait meanwhile. An update that looked from the first deleted entry on each time
 * cost forty times as much. */
static void expiring_entries_costs_about_what_adding_them_did(void **state)
{
    enum { DEARER = 12 };
    struct fixture *f = *state;
    int64_t adding = 0, expiring = 0;
    for (unsigned turn = 0; turn < 4; turn++) {
        struct many m = { .from = 1, .until = 1 + TIMELINE_EXPIRE_MAX };
        struct job j = { .expiry = { .before = { .ns = m.until * NS_PER_S } } };
        struct timed add = { .decide = many_decide, .ctx = &m };
        struct timed gone = { .decide = expire_decide, .ctx = &j };
        assert_int_equal(engine_update_wait(f->engine, timed_decide, &add), ERR_OK);
        assert_int_equal(engine_flush(f->engine), ERR_OK);
        assert_int_equal(engine_update_wait(f->engine, timed_decide, &gone), ERR_OK);
        assert_int_equal(j.expiry.count, TIMELINE_EXPIRE_MAX);
        adding += add.ns;
        expiring += gone.ns;
    }
    assert_true(expiring < DEARER * adding);
}

static bool has(struct fixture *f, const struct timeline_where *w, int64_t at_s, uint64_t rev,
                uint64_t tid)
{
    bool out = false;
    struct timeline_entry e = { .at = { .ns = at_s * NS_PER_S }, .rev = rev, .tid.ticks = tid };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(timeline_has(v, w, &e, &out), ERR_OK);
    engine_view_end(&v);
    return out;
}

static void the_same_supersession_told_later_is_known(void **state)
{
    struct fixture *f = *state;
    struct timeline_where renders = { .kind = TIMELINE_RENDER,
                                      .domain = 1,
                                      .title = { "Page", 4 } };
    add(f, &page, 10, 1);
    add(f, &renders, 10, 5);
    for (int i = 0; i < TIMELINE_LOOK_BACK - 1; i++)
        add(f, &page, 20 + i, (uint64_t)(10 + i));
    assert_true(has(f, &page, 10, 1, 0));
    assert_true(has(f, &page, 10000, 1, 0));
    assert_false(has(f, &page, 9, 1, 0)); /* it was not noted then */
    assert_false(has(f, &page, 10000, 2, 0));
    assert_true(has(f, &renders, 11, 5, 0));
    assert_false(has(f, &renders, 11, 5, 1)); /* another render */
    assert_false(has(f, &renders, 11, 1, 0));
    add(f, &page, 5000, 100);
    assert_false(has(f, &page, 10000, 1, 0)); /* too far back to be looked for */
}

static err raw_decide(struct engine_txn *t, void *ctx)
{
    const struct job *j = ctx;
    return engine_txn_delete(t, SPACE_TIMELINE, j->raw);
}

static err junk_decide(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    return engine_txn_put(t, SPACE_TIMELINE, STR("\x01junk"), STR_NONE, STR_NONE);
}

static void the_check_sees_what_is_missing(void **state)
{
    struct fixture *f = *state;
    char key[5 + 8 + 1 + 4 + 1 + 24] = { 2, 0, 0, 0, 1 };
    put_be64(key + 5, 10 * NS_PER_S);
    memcpy(key + 14, "Page", 4);
    put_be64(key + 19, 1);
    struct job j = { .raw = { .p = key, .n = sizeof key } };
    add(f, &page, 10, 1);
    assert_true(whole(f));
    assert_int_equal(engine_update_wait(f->engine, raw_decide, &j), ERR_OK);
    assert_false(whole(f));
    add(f, &page, 10, 1);
    assert_true(whole(f));
    assert_int_equal(engine_update_wait(f->engine, junk_decide, &j), ERR_OK);
    assert_false(whole(f));
}

static void a_title_past_its_limit_is_refused(void **state)
{
    struct fixture *f = *state;
    char title[TIMELINE_TITLE_BYTES_MAX + 1] = { 0 };
    struct timeline_entry e;
    struct timeline_where w = { .kind = TIMELINE_RENDER, .title = { title, sizeof title } };
    memset(title, 'x', sizeof title);
    assert_int_equal(find(f, &w, 1, &e), ERR_LIMIT);
    w.title.n--;
    assert_int_equal(find(f, &w, 1, &e), ERR_NOT_FOUND);
    add(f, &w, 10, 0);
    assert_int_equal(find(f, &w, 10, &e), ERR_OK);
    assert_true(whole(f));
    title[7] = '\0'; /* it would end the title within its key */
    assert_int_equal(find(f, &w, 10, &e), ERR_LIMIT);
    w.title.n = 0;
    assert_int_equal(find(f, &w, 10, &e), ERR_LIMIT);
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
        cmocka_unit_test_setup_teardown(age_removes_entries_of_every_domain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_update_expires_so_many_and_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expiring_entries_costs_about_what_adding_them_did, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_same_supersession_told_later_is_known, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_check_sees_what_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_title_past_its_limit_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
