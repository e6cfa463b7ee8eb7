/* Goal: none of the ten defects of the published implementation (RESTBase: parsoid_bucket,
 * multi_content_bucket, and its table modules). Method: each is brought about as it was there; a
 * test is named by its defect. */
#include "bucket/page_write.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include <pthread.h>

static void r0001_late_render_never_deletes_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name newest = fix_put(f, 5, 3);
    struct page_name late = fix_put(f, 5, 1);
    assert_name(fix_latest(f).name, newest);
    assert_name(fix_exact(f, late).superseded_by, newest);
    fake_clock_advance(&f->clock, 2 * GRACE);
    fix_upkeep(f);
    struct page_name next = fix_put(f, 5, 4);
    assert_name(fix_latest(f).name, next);
    assert_int_equal(fix_exact(f, newest).state, PAGE_RECENT);
    fixture_free(f);
}

struct racer {
    struct fixture *f;
    uint64_t rev;
    err why;
    bool created;
};

static void *race(void *ctx)
{
    struct racer *r = ctx;
    char text[32];
    struct page_put p = {
        .domain = r->f->domain, .title = STR("T"), .rev = r->rev, .contents_count = 1
    };
    (void)snprintf(text, sizeof(text), "racer %llu", (unsigned long long)r->rev);
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(text) };
    r->why = sync_put(r->f->bucket, &p);
    r->created = p.created;
    return NULL;
}

static void r0002_concurrent_revisions_leave_exactly_one_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    pthread_t threads[16];
    struct racer racers[16];
    for (unsigned i = 0; i < 16; i++) {
        racers[i] = (struct racer){ .f = f, .rev = i + 1 };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(racers[i].why, ERR_OK);
        assert_true(racers[i].created);
    }
    assert_int_equal(fix_latest(f).name.rev, 16);
    assert_int_equal(fix_history(f), 16);
    for (uint64_t rev = 1; rev < 16; rev++) {
        struct page_render r;
        assert_int_equal(fix_find(f, SELECT_REV, (struct page_name){ .rev = rev }, &r, NULL),
                         ERR_OK);
        assert_int_equal(r.superseded_at.ns, T0);
        assert_true(r.superseded_by.rev > rev);
    }
    fixture_free(f);
}

static void r0003_bundle_is_written_whole_or_not_at_all(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put p = { .domain = f->domain, .title = STR("T"), .rev = 1, .contents_count = 2 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("<p>x</p>") };
    p.contents[1] = (struct page_put_content){ .name = STR("data-parsoid"), .raw = STR("{}") };
    static const err refusals[] = { ERR_FULL, ERR_SHUTDOWN, ERR_TIMEOUT, ERR_LIMIT };
    for (unsigned i = 0; i < COUNT_OF(refusals); i++) {
        engine_mem_refuse(f->engine, refusals[i]);
        assert_int_equal(sync_put(f->bucket, &p), refusals[i]);
        assert_int_equal(fix_history(f), 0);
        assert_int_equal(f->told, 0);
    }
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    assert_int_equal(fix_latest(f).contents_count, 2);
    struct page_order o = { 0 };
    engine_mem_refuse(f->engine, ERR_FULL);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_FULL);
    assert_int_equal(fix_latest(f).contents_count, 2);
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(fix_history(f), 0);
    fixture_free(f);
}

static void r0004_seldom_edited_title_leaks_nothing(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 5; rev++) {
        (void)fix_put(f, rev, -1);
        fake_clock_advance(&f->clock, 20 * GRACE);
        fix_upkeep(f);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    }
    fixture_free(f);
}

static void r0005_title_never_edited_again_is_culled(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name old = fix_put(f, 1, -1);
    struct page_trace t;
    (void)fix_put(f, 2, -1);
    fake_clock_advance(&f->clock, GRACE - 1);
    assert_int_equal(fix_exact(f, old).due_at.ns, T0 + GRACE);
    fake_clock_advance(&f->clock, 1);
    assert_int_equal(fix_gone(f, old, &t),
                     ERR_GONE); /* at its due time, not when a cull comes by */
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 2);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(fix_gone(f, old, &t), ERR_GONE);
    assert_int_equal(t.state, PAGE_CULLED);
    assert_int_equal(t.at.ns, T0 + GRACE);
    fake_clock_advance(&f->clock, 240 * HOUR);
    assert_int_equal(fix_gone(f, old, &t), ERR_NOT_FOUND);
    fake_clock_advance(&f->clock, 6 * HOUR); /* traces are removed in steps */
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

static void r0006_burst_then_silence_leaks_nothing(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 700; rev++)
        (void)fix_put(f, rev, -1);
    assert_int_equal(fix_history(f), 700);
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(fix_history(f), 1);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    struct pages_stats stats;
    pages_stats_get(f->pages, &stats);
    assert_int_equal(stats.culled, 699);
    fixture_free(f);
}

static void r0007_updates_of_one_instant_are_all_remembered(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name names[4];
    for (unsigned i = 0; i < 4; i++)
        names[i] = fix_put(f, 1 + i / 2, -1); /* the clock stands still */
    assert_true(tid_cmp(names[0].tid, names[1].tid) < 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fix_exact(f, names[i]).superseded_at.ns, T0);
        assert_name(fix_exact(f, names[i]).superseded_by, names[i + 1]);
    }
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 3);
    fixture_free(f);
}

static void r0008_older_revision_is_stored_beside_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name newest = fix_put(f, 9, -1);
    struct page_put p = { 0 };
    fake_clock_advance(&f->clock, 7 * NS_PER_S);
    assert_int_equal(fix_put_as(f, 4, -1, "an older revision", &p), ERR_OK);
    assert_true(p.created);
    assert_false(p.latest);
    struct page_render r = fix_exact(f, p.stored);
    assert_int_equal(r.superseded_at.ns, T0 + 7 * NS_PER_S);
    assert_int_equal(r.due_at.ns, T0 + 7 * NS_PER_S + GRACE);
    assert_name(r.superseded_by, newest);
    assert_name(fix_latest(f).name, newest);
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_EXTEND, p.stored, &o), ERR_OK);
    assert_int_equal(fix_exact(f, p.stored).due_at.ns, T0 + 7 * NS_PER_S + HOUR + HOUR / 4);
    fixture_free(f);
}

static void r0009_purge_in_one_domain_spares_the_others(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    uint32_t other, first = f->domain;
    assert_int_equal(pages_domain(f->pages, STR("de.example.test"), &other), ERR_OK);
    assert_int_not_equal(first, other);
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    f->domain = other;
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 2);
    assert_int_equal(fix_history(f), 0);
    f->domain = first;
    assert_int_equal(fix_history(f), 2);
    assert_int_equal(fix_latest(f).name.rev, 2);
    fixture_free(f);
}

static void r0010_every_time_to_live_runs_out(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_TTL));
    struct page_name name = fix_put(f, 1, -1);
    struct page_trace t;
    assert_int_equal(fix_latest(f).due_at.ns, T0 + 50 * NS_PER_S);
    fake_clock_advance(&f->clock, 50 * NS_PER_S);
    assert_int_equal(fix_gone(f, name, &t), ERR_GONE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 0);
    assert_int_equal(traces_stored(f->engine), 1);
    fake_clock_advance(&f->clock, (240 + 6) * HOUR); /* traces are removed in steps */
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r0001_late_render_never_deletes_the_latest),
        cmocka_unit_test(r0002_concurrent_revisions_leave_exactly_one_latest),
        cmocka_unit_test(r0003_bundle_is_written_whole_or_not_at_all),
        cmocka_unit_test(r0004_seldom_edited_title_leaks_nothing),
        cmocka_unit_test(r0005_title_never_edited_again_is_culled),
        cmocka_unit_test(r0006_burst_then_silence_leaks_nothing),
        cmocka_unit_test(r0007_updates_of_one_instant_are_all_remembered),
        cmocka_unit_test(r0008_older_revision_is_stored_beside_the_latest),
        cmocka_unit_test(r0009_purge_in_one_domain_spares_the_others),
        cmocka_unit_test(r0010_every_time_to_live_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
