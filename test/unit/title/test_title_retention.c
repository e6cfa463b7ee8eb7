/* Goal: the pure rules of retention.h at their edges. Method: tables of one render, and random
 * names for groups. */
#include "base/rng.h"
#include "title/retention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define S NS_PER_S

static struct page_policy policy(enum page_policy_kind kind)
{
    return (struct page_policy){ .kind = kind,
                                 .grace_ttl_ns = 100 * S,
                                 .historical_ttl_ns = 40 * S,
                                 .count = 2,
                                 .interval_ns = 60 * S,
                                 .ttl_ns = 50 * S };
}

static struct page_render latest_at(int64_t s)
{
    return (struct page_render){ .name = { .rev = 1 },
                                 .stored_at = { s * S },
                                 .superseded_at = STORE_TIME_NEVER,
                                 .out_at = STORE_TIME_NEVER,
                                 .due_at = STORE_TIME_NEVER };
}

static void due_is_as_each_policy_says(void **state)
{
    (void)state; /* unused */
    static const struct {
        int64_t latest_s, superseded_s;
    } due[POLICY_KINDS] = {
        [POLICY_APP_TTL] = { -1, 120 },    [POLICY_ALL] = { -1, -1 },
        [POLICY_LATEST_HASH] = { -1, 20 }, [POLICY_LATEST] = { -1, -1 },
        [POLICY_INTERVAL] = { -1, -1 },    [POLICY_TTL] = { 60, 60 },
    };
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        struct page_policy p = policy((enum page_policy_kind)kind);
        struct page_render r = latest_at(10);
        retention_make_latest(&p, &r);
        assert_int_equal(r.due_at.ns, due[kind].latest_s < 0 ? INT64_MAX : due[kind].latest_s * S);
        retention_supersede(&p, &r, (struct page_name){ .rev = 2 }, (store_time){ 20 * S });
        assert_int_equal(r.due_at.ns,
                         due[kind].superseded_s < 0 ? INT64_MAX : due[kind].superseded_s * S);
        assert_int_equal(r.superseded_by.rev, 2);
        if (!retention_grouped(&p))
            continue;
        retention_drop(&p, &r, (store_time){ 30 * S });
        assert_int_equal(r.due_at.ns, 130 * S);
        retention_keep(&p, &r);
        assert_int_equal(r.due_at.ns, INT64_MAX);
    }
}

static void pins_only_ever_lengthen(void **state)
{
    (void)state; /* unused */
    struct page_policy p = policy(POLICY_APP_TTL);
    struct page_render r = latest_at(10);
    retention_supersede(&p, &r, (struct page_name){ .rev = 2 }, (store_time){ 20 * S });
    r.hold_until.ns = 50 * S;
    assert_int_equal(retention_due(&p, &r).ns, 120 * S);
    r.stash_until.ns = 200 * S;
    assert_int_equal(retention_due(&p, &r).ns, 200 * S);
    r.requested_until.ns = 300 * S;
    assert_int_equal(retention_due(&p, &r).ns, 300 * S);
    r.requested_until = r.stash_until = STORE_TIME_ZERO;
    retention_repin(&p, &r,
                    (store_time){ 150 * S }); /* released: gone from now on, not from before */
    assert_int_equal(r.due_at.ns, 150 * S);
    p.grace_ttl_ns = DURATION_NEVER;
    assert_int_equal(retention_due(&p, &r).ns, INT64_MAX);
}

static void states_are_the_first_that_keeps_it(void **state)
{
    (void)state; /* unused */
    struct page_policy p = policy(POLICY_APP_TTL), all = policy(POLICY_ALL),
                       ttl = policy(POLICY_TTL);
    struct page_render r = latest_at(10);
    store_time now = { 20 * S };
    assert_int_equal(retention_state(&p, &r, now), PAGE_CURRENT);
    retention_supersede(&p, &r, (struct page_name){ .rev = 2 }, now);
    r.requested_until.ns = 300 * S;
    r.hold_until.ns = 400 * S;
    r.due_at = retention_due(&p, &r);
    const struct {
        int64_t s;
        enum page_state state;
    } rows[] = {
        { 119, PAGE_RECENT }, { 120, PAGE_HISTORICAL }, { 299, PAGE_HISTORICAL },
        { 300, PAGE_HELD },   { 399, PAGE_HELD },       { 400, PAGE_CULLED },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(retention_state(&p, &r, (store_time){ rows[i].s * S }), rows[i].state);
    r = latest_at(10);
    retention_supersede(&all, &r, (struct page_name){ .rev = 2 }, now);
    assert_int_equal(retention_state(&all, &r, (store_time){ 119 * S }), PAGE_RECENT);
    assert_int_equal(retention_state(&all, &r, (store_time){ 120 * S }), PAGE_ARCHIVE);
    retention_supersede(&ttl, &r, (struct page_name){ .rev = 2 }, now);
    assert_int_equal(retention_state(&ttl, &r, (store_time){ 59 * S }), PAGE_RECENT);
    assert_int_equal(retention_state(&ttl, &r, (store_time){ 60 * S }), PAGE_CULLED);
    for (int s = 0; s < PAGE_STATES; s++)
        for (int kind = 0; kind < POLICY_KINDS; kind++) {
            p = policy((enum page_policy_kind)kind);
            assert_non_null(retention_reason(&p, (enum page_state)s));
        }
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static void intervals_hold_exactly_their_tids(void **state)
{
    (void)state; /* unused */
    struct rng rng;
    struct page_name low, high;
    rng_init(&rng, 11);
    for (int i = 0; i < 5000; i++) {
        struct page_policy p = policy(POLICY_INTERVAL);
        p.interval_ns = 1 + (int64_t)rng_below(&rng, 1000);
        if (i % 2 == 0)
            p.interval_ns *= S;
        int64_t at = (int64_t)rng_below(&rng, (uint64_t)4000000000 * (uint64_t)S) - 2000000000 * S;
        struct page_name name = { 5, { tid_ticks((store_time){ at }), rng_next(&rng) } };
        retention_group(&p, name, &low, &high);
        assert_true(page_name_cmp(low, name) <= 0);
        assert_true(page_name_cmp(name, high) <= 0);
        int64_t own = floor_div(tid_time(name.tid).ns, p.interval_ns);
        const struct tid edges[] = {
            low.tid, high.tid, { low.tid.ticks - 1, 0 }, { high.tid.ticks + 1, 0 }
        };
        for (unsigned j = 0; j < COUNT_OF(edges); j++)
            assert_int_equal(floor_div(tid_time(edges[j]).ns, p.interval_ns) == own, j < 2);
    }
}

static void replanning_is_as_of_the_change(void **state)
{
    (void)state; /* unused */
    struct page_plan plan = { .policy = policy(POLICY_APP_TTL),
                              .number = 2,
                              .changed_at = { 500 * S } };
    struct page_render r = latest_at(10);
    retention_replan(&plan, POLICY_ALL, &r, false);
    assert_int_equal(r.due_at.ns, INT64_MAX);
    r.superseded_at.ns = 450 * S;
    retention_replan(&plan, POLICY_ALL, &r, false);
    assert_int_equal(r.due_at.ns, 550 * S);
    r.superseded_at.ns = 100 * S;
    retention_replan(&plan, POLICY_ALL, &r, false);
    assert_int_equal(r.due_at.ns, 500 * S); /* gone with the change, not before it */
    plan.policy = policy(POLICY_LATEST);
    r.out_at.ns = 480 * S;
    retention_replan(&plan, POLICY_INTERVAL, &r, true);
    assert_int_equal(r.out_at.ns, 480 * S);
    retention_replan(&plan, POLICY_APP_TTL, &r, true);
    assert_int_equal(r.out_at.ns, 500 * S);
    retention_replan(&plan, POLICY_APP_TTL, &r, false);
    assert_int_equal(r.due_at.ns, INT64_MAX);
}

static void extension_is_wanted_where_the_window_is_too_short(void **state)
{
    (void)state; /* unused */
    static const struct {
        enum page_policy_kind kind;
        int64_t grace_s;
        bool wants;
    } rows[] = {
        { POLICY_APP_TTL, 40, false }, { POLICY_APP_TTL, 39, true },
        { POLICY_LATEST, 40, false },  { POLICY_LATEST, 39, true },
        { POLICY_INTERVAL, 39, true }, { POLICY_LATEST_HASH, 100, true },
        { POLICY_ALL, 0, false },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct page_policy p = policy(rows[i].kind);
        struct page_render r = latest_at(10);
        p.grace_ttl_ns = rows[i].grace_s * S;
        r.stash_until.ns = r.hold_until.ns = 1000 * S; /* both can be released */
        retention_make_latest(&p, &r);
        assert_int_equal(retention_wants_extension(&p, &r, (store_time){ 20 * S }), rows[i].wants);
        if (!rows[i].wants)
            continue;
        retention_extend(&p, &r, (store_time){ 20 * S });
        assert_int_equal(r.requested_until.ns, 70 * S);
        assert_int_equal(r.due_at.ns, INT64_MAX);
        assert_int_equal(retention_lasts_until(&p, &r).ns,
                         30 * S); /* a quarter of historical_ttl */
        assert_false(retention_wants_extension(&p, &r, (store_time){ 30 * S }));
        assert_true(retention_wants_extension(&p, &r, (store_time){ 30 * S + 1 }));
    }
}

static void extension_goes_by_the_end_that_is_known(void **state)
{
    (void)state; /* unused */
    struct page_policy p = policy(POLICY_TTL);
    struct page_render r = latest_at(0);
    retention_make_latest(&p, &r);
    assert_false(retention_wants_extension(&p, &r, (store_time){ 10 * S }));
    assert_true(retention_wants_extension(
        &p, &r, (store_time){ 10 * S + 1 })); /* the latest runs out as well */
    retention_supersede(&p, &r, (struct page_name){ .rev = 2 }, (store_time){ S });
    assert_false(retention_wants_extension(&p, &r, (store_time){ 10 * S }));
    assert_true(retention_wants_extension(&p, &r, (store_time){ 10 * S + 1 }));
    retention_extend(&p, &r, (store_time){ 45 * S });
    assert_int_equal(r.due_at.ns, 95 * S);
    p.historical_ttl_ns = DURATION_NEVER;
    assert_true(retention_wants_extension(&p, &r, (store_time){ 45 * S }));
    retention_extend(&p, &r, (store_time){ 45 * S });
    assert_int_equal(r.due_at.ns, INT64_MAX);
    assert_false(retention_wants_extension(&p, &r, (store_time){ 46 * S }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due_is_as_each_policy_says),
        cmocka_unit_test(pins_only_ever_lengthen),
        cmocka_unit_test(states_are_the_first_that_keeps_it),
        cmocka_unit_test(intervals_hold_exactly_their_tids),
        cmocka_unit_test(replanning_is_as_of_the_change),
        cmocka_unit_test(extension_is_wanted_where_the_window_is_too_short),
        cmocka_unit_test(extension_goes_by_the_end_that_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
