/* Goal: other policies come into force while a store runs as a start with them would bring them:
 * for what is read at once, for rows by and by, for all buckets or none. Method: a bucket on an
 * engine in memory, which runs each decision twice, on a clock that the test moves. */
#include "fixture.h"

#include "bucket/page.h"

#include <string.h>

static void live(struct fixture *f, struct page_policy policy)
{
    struct err_note note = { "" };
    const struct pages_policy one = { .bucket = STR("page"), .policy = policy };
    if (pages_policies(f->pages, &one, 1, NULL, &note) != ERR_OK)
        fail_msg("%s", note.text);
}

static void a_policy_holds_at_once_and_is_planned(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name names[300];
    struct page_trace t;
    for (unsigned i = 0; i < COUNT_OF(names); i++)
        names[i] = fix_put(f, i + 1, -1);
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(fix_exact(f, names[0]).state, PAGE_ARCHIVE);
    live(f, fix_policy(POLICY_APP_TTL));
    assert_int_equal(fix_gone(f, names[0], &t), ERR_GONE); /* before any row was written anew */
    assert_int_equal(fix_history(f), 1);
    bool more;
    store_time next;
    assert_int_equal(pages_upkeep(f->pages, &more, &next), ERR_OK);
    assert_true(more);
    live(f, fix_policy(POLICY_APP_TTL)); /* the same: nothing begins anew */
    fix_upkeep(f);
    assert_int_equal(fix_history(f), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    live(f, fix_policy(POLICY_ALL));
    (void)fix_put(f, 1000, -1);
    assert_int_equal(fix_exact(f, names[COUNT_OF(names) - 1]).due_at.ns, INT64_MAX);
    fixture_free(f);
}

static void a_window_is_longer_or_shorter_from_then_on(void **state)
{
    (void)state;
    struct page_policy policy = fix_policy(POLICY_APP_TTL);
    struct fixture *f = fixture_new(policy);
    struct page_trace t;
    struct page_name first = fix_put(f, 1, -1), second = fix_put(f, 2, -1);
    (void)fix_put(f, 3, -1);
    policy.grace_ttl_ns = 2 * GRACE;
    live(f, policy);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(fix_exact(f, first).due_at.ns, T0 + 2 * GRACE);
    policy.grace_ttl_ns = GRACE / 2; /* it would have gone before: it goes now */
    live(f, policy);
    assert_int_equal(fix_gone(f, first, &t), ERR_GONE);
    assert_int_equal(t.at.ns, T0 + GRACE);
    fix_upkeep(f);
    assert_int_equal(fix_gone(f, second, &t), ERR_GONE);
    assert_int_equal(t.at.ns, T0 + GRACE);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    policy.grace_ttl_ns = 10 * GRACE; /* what was gone stays gone */
    live(f, policy);
    assert_int_equal(fix_gone(f, first, &t), ERR_GONE);
    fix_restart(f, policy); /* and a start finds what is in force */
    assert_int_equal(page_bucket_plan(f->bucket)->number, 4);
    fixture_free(f);
}

/* What no row holds changes without a planning: the life of pins, of requests, of traces. */
static void a_field_that_no_row_holds_is_in_force_at_once(void **state)
{
    (void)state;
    struct page_policy policy = fix_policy(POLICY_APP_TTL);
    struct fixture *f = fixture_new(policy);
    policy.historical_ttl_ns = 3 * HOUR;
    policy.stash_ttl_ns = 4 * HOUR;
    policy.ledger_ttl_ns = 5 * HOUR;
    live(f, policy);
    assert_int_equal(page_bucket_plan(f->bucket)->number, 1);
    assert_int_equal(page_bucket_policy(f->bucket)->stash_ttl_ns, 4 * HOUR);
    struct page_trace t;
    struct page_name first = fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(fix_gone(f, first, &t), ERR_GONE);
    fake_clock_advance(&f->clock, 5 * HOUR);
    fix_upkeep(f);
    assert_int_equal(fix_gone(f, first, &t), ERR_NOT_FOUND);
    fixture_free(f);
}

static void a_store_that_refuses_keeps_all_as_it_was(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct err_note note = { "" };
    const struct pages_policy one = { .bucket = STR("page"),
                                      .policy = fix_policy(POLICY_LATEST_HASH) };
    struct page_name first = fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    engine_mem_refuse(f->engine, ERR_FULL);
    assert_int_equal(pages_policies(f->pages, &one, 1, NULL, &note), ERR_FULL);
    assert_non_null(strstr(note.text, "policies of pages"));
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(fix_exact(f, first).due_at.ns, INT64_MAX);
    fix_upkeep(f);
    assert_int_equal(page_bucket_plan(f->bucket)->number, 1);
    fix_restart(f, fix_policy(POLICY_ALL));
    assert_int_equal(page_bucket_plan(f->bucket)->number, 1);
    fixture_free(f);
}

/* Those of several buckets come in one update. */
static void of_several_buckets_all_come_or_none(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct err_note note = { "" };
    const struct page_bucket_opts opts[] = {
        { .name = "page", .policy = fix_policy(POLICY_ALL) },
        { .name = "other", .policy = fix_policy(POLICY_ALL) },
    };
    const struct pages_opts two = { f->engine, &f->clock.clock, 1, opts, COUNT_OF(opts) };
    pages_free(&f->pages);
    assert_int_equal(pages_new(&two, &f->pages, &note), ERR_OK);
    struct pages_policy all[] = { { STR("page"), fix_policy(POLICY_TTL) },
                                  { STR("other"), fix_policy(POLICY_INTERVAL) } };
    const struct page_bucket *page = pages_find(f->pages, STR("page")),
                             *other = pages_find(f->pages, STR("other"));
    all[1].policy.interval_ns = 0;
    assert_int_equal(pages_policies(f->pages, all, COUNT_OF(all), NULL, &note), ERR_BAD);
    assert_int_equal(page_bucket_policy(page)->kind, POLICY_ALL);
    all[1].policy.interval_ns = HOUR;
    all[1].bucket = STR("third");
    assert_int_equal(pages_policies(f->pages, all, COUNT_OF(all), NULL, &note), ERR_BAD);
    all[1].bucket = STR("other");
    engine_mem_refuse(f->engine, ERR_IO);
    assert_int_equal(pages_policies(f->pages, all, COUNT_OF(all), NULL, &note), ERR_IO);
    assert_int_equal(page_bucket_policy(page)->kind, POLICY_ALL);
    assert_int_equal(page_bucket_policy(other)->kind, POLICY_ALL);
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(pages_policies(f->pages, all, COUNT_OF(all), NULL, &note), ERR_OK);
    assert_int_equal(page_bucket_policy(page)->kind, POLICY_TTL);
    assert_int_equal(page_bucket_policy(other)->kind, POLICY_INTERVAL);
    f->bucket = pages_find(f->pages, STR("page"));
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_holds_at_once_and_is_planned),
        cmocka_unit_test(a_window_is_longer_or_shorter_from_then_on),
        cmocka_unit_test(a_field_that_no_row_holds_is_in_force_at_once),
        cmocka_unit_test(a_store_that_refuses_keeps_all_as_it_was),
        cmocka_unit_test(of_several_buckets_all_come_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
