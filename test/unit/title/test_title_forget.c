/* Goal: what a store that keeps facts asks beside derive: the latest without a fold, the time of
 * the next fact, whose bytes are free, which facts may go. Method: as test_title_derive.c. That
 * derive says the same afterwards is for test/model/model_derive.c. */
#include "field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- without a fold ---- */

static void the_latest_is_sure_when_nothing_touched_it(void **state)
{
    (void)state; /* unused */
    static const struct {
        enum fact_what what;
        uint64_t rev;
        bool exact, sure;
    } rows[] = {
        { FACT_HOLD, 2, true, true },      { FACT_SHOWN, 2, false, true },
        { FACT_WORD, 2, false, true },     { FACT_WORD, 3, false, false },
        { FACT_DELETED, 1, false, true },  { FACT_DELETED, 2, false, false },
        { FACT_PURGE, 1, true, true },     { FACT_PURGE, 0, false, false },
        { FACT_DROP, 2, true, false },     { FACT_FENCE, 0, false, false },
        { FACT_FORGOTTEN, 1, true, true }, { FACT_FORGOTTEN, 2, true, false },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct field x;
        field_begin(&x, POLICY_APP_TTL);
        struct page_name name =
            rows[i].exact ? name_of(rows[i].rev, 5) : (struct page_name){ .rev = rows[i].rev };
        (void)add(&x, rows[i].what, 10, name);
        struct fact put = { .what = FACT_PUT, .name = name_of(2, 5), .at = second(5) };
        assert_int_equal(title_is_surely_latest(&x.in, &put), rows[i].sure);
        put.behind = 3;
        assert_false(title_is_surely_latest(&x.in, &put));
        put.behind = 0;
        x.plans[0].plan.policy.kind = POLICY_TTL;
        assert_false(title_is_surely_latest(&x.in, &put));
        field_end(&x);
    }
}

/* ---- times ---- */

static void a_fact_is_later_than_what_its_decision_saw(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    assert_int_equal(title_stamp(&x.in, second(5), second(4)).ns, second(5).ns);
    assert_int_equal(title_stamp(&x.in, second(5), second(5)).ns, second(5).ns + 1);
    (void)add_put(&x, 10, 1, 0);
    (void)add_put(&x, 7, 2, 7);
    assert_int_equal(title_stamp(&x.in, second(5), second(4)).ns, second(10).ns + 1);
    assert_int_equal(title_stamp(&x.in, second(11), second(4)).ns, second(11).ns);
    add(&x, FACT_FENCE, 1, page_name_first)->joined_at = second(20);
    assert_int_equal(title_stamp(&x.in, second(11), second(4)).ns, second(20).ns + 1);
    field_end(&x);
}

/* A server behind pins what one ahead has put: by its own clock the pin would be lost. */
static void a_pin_of_a_server_behind_holds(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 10);
    store_time at = title_stamp(&x.in, second(9), second(8));
    struct fact *pin = add(&x, FACT_HOLD, 9, name_of(1, 10));
    pin->until = second(900);
    pin->srv = 2;
    (void)add_put(&x, 20, 2, 20);
    derive_at(&x, 130);
    assert_state(&x, name_of(1, 10), PAGE_CULLED);
    pin->at = at;
    derive_at(&x, 130);
    assert_state(&x, name_of(1, 10), PAGE_HELD);
    field_end(&x);
}

static void other_bytes_of_a_name_are_counted(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 9);
    *add_put(&x, 0, 1, 9) = x.facts[0]; /* the same fact, given twice */
    (void)add_put(&x, 11, 1, 9);
    memcpy(add_put(&x, 12, 1, 9)->digest, x.facts[0].digest, PAGE_DIGEST_BYTES);
    derive_at(&x, 20);
    assert_int_equal(x.out.conflicts, 1);
    assert_int_equal(x.out.rows_count, 1);
    field_end(&x);
}

/* ---- whose bytes are free ---- */

static void assert_range(const struct title_range *r, struct page_name low, struct page_name high)
{
    assert_int_equal(page_name_cmp(r->low, low), 0);
    assert_int_equal(page_name_cmp(r->high, high), 0);
}

static struct title_cull cull_at(struct field *x, int64_t s)
{
    struct title_cull cull;
    arena_reset(&x->arena);
    assert_int_equal(title_cull(&x->in, second(s), &x->arena, &cull), ERR_OK);
    assert_int_equal(cull.at.ns, second(s).ns);
    return cull;
}

static struct page_name at_tick(uint64_t rev, int64_t tid_s, bool after)
{
    struct page_name name = name_of(rev, tid_s);
    name.tid.low = after ? 0 : UINT64_MAX;
    name.tid.ticks += after ? 1 : (uint64_t)-1;
    return name;
}

static void bytes_go_in_ranges_between_those_that_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    for (int i = 0; i < 6; i++)
        (void)add_put(&x, i, 1 + (uint64_t)i / 2, i);
    add(&x, FACT_HOLD, 10, name_of(2, 2))->until = second(900);
    assert_int_equal(cull_at(&x, 100).count, 0);
    struct title_cull c = cull_at(&x, 200);
    assert_int_equal(c.count, 2);
    assert_range(&c.ranges[0], page_name_first, at_tick(2, 2, false));
    assert_range(&c.ranges[1], at_tick(2, 2, true), at_tick(3, 5, false));
    x.facts[0].contents_count = x.facts[1].contents_count = 0; /* gone already */
    assert_int_equal(cull_at(&x, 200).count, 1);
    assert_int_equal(cull_at(&x, 900).count, 1);
    assert_range(&cull_at(&x, 900).ranges[0], page_name_first, at_tick(3, 5, false));
    field_end(&x);
}

/* Late ones are put behind the horizon: their bytes are not meant, their names are spared. */
static void bytes_of_what_came_later_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 2, 0);
    (void)add_put(&x, 1, 3, 1);
    (void)add_put(&x, 150, 1, 0);
    struct title_cull c = cull_at(&x, 120);
    assert_int_equal(c.count, 1);
    assert_range(&c.ranges[0], at_tick(1, 0, true), at_tick(3, 1, false));
    field_end(&x);
}

/* Stores order renders of one tick in different ways. */
static void bytes_of_one_tick_go_together(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    add_put(&x, 1, 1, 0)->name.tid.low++;
    assert_int_equal(cull_at(&x, 200).count, 0);
    (void)add_put(&x, 2, 2, 2);
    assert_int_equal(cull_at(&x, 200).count, 1);
    field_end(&x);
}

/* ---- what may be forgotten ---- */

static unsigned forgotten_of(struct field *x, int64_t horizon_s, size_t traces_max)
{
    struct title_forget forget;
    unsigned count = 0;
    arena_reset(&x->arena);
    assert_int_equal(title_forget(&x->in, second(horizon_s), traces_max, &x->arena, &forget),
                     ERR_OK);
    for (size_t i = 0; i < x->in.facts_count; i++)
        count += title_forgets(&x->in, &forget, &x->facts[i]);
    return count;
}

static unsigned forgotten(struct field *x, int64_t horizon_s)
{
    return forgotten_of(x, horizon_s, 0);
}

static void of_too_many_traces_the_lowest_go(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    for (unsigned i = 0; i < 4; i++)
        (void)add_put(&x, i, i + 1, i);
    assert_int_equal(forgotten_of(&x, 300, 0), 0);
    assert_int_equal(forgotten_of(&x, 300, 3), 0);
    assert_int_equal(forgotten_of(&x, 300, 2), 1);
    assert_int_equal(forgotten_of(&x, 300, 1), 2); /* the latest is none of them */
    assert_int_equal(forgotten_of(&x, 50, 1), 0);  /* they are stored yet */
    add(&x, FACT_STASH, 4, name_of(2, 1))->until = second(900);
    assert_int_equal(forgotten_of(&x, 300, 1), 1); /* what is stored stays */
    field_end(&x);
}

static void the_lowest_renders_are_forgotten_when_all_of_them_are_unknown(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 200 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    add(&x, FACT_STASH, 1, name_of(1, 0))->until = second(50);
    (void)add_put(&x, 2, 2, 2);
    (void)add_put(&x, 3, 3, 3);
    assert_int_equal(forgotten(&x, all_over - 150), 0);
    assert_int_equal(forgotten(&x, all_over), 3); /* two renders and the pin; the latest stays */
    add(&x, FACT_HOLD, 4, name_of(1, 0))->until = second(2 * all_over);
    assert_int_equal(forgotten(&x, all_over), 0); /* the lowest holds what is above it */
    field_end(&x);
}

static void a_purge_is_forgotten_for_a_later_one_that_covers_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add(&x, FACT_PURGE, 1, (struct page_name){ .rev = 1 });
    assert_int_equal(forgotten(&x, 10), 0);
    (void)add(&x, FACT_PURGE, 2, (struct page_name){ .rev = 2 });
    assert_int_equal(forgotten(&x, 10), 0);
    (void)add(&x, FACT_PURGE, 3, page_name_first);
    assert_int_equal(forgotten(&x, 10), 2);
    assert_int_equal(forgotten(&x, 2), 0); /* what covers it is not behind the horizon */
    (void)add_put(&x, 0, 1, 0);
    assert_int_equal(forgotten(&x, 10), 0); /* it would be purged by the other one */
    field_end(&x);
}

static void of_makings_of_a_render_the_last_counts(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    add(&x, FACT_MADE, 10, name_of(1, 0))->made.said = 10;
    assert_int_equal(forgotten(&x, 30), 0);
    add(&x, FACT_MADE, 20, name_of(1, 0))->made.said = 20;
    assert_int_equal(forgotten(&x, 15), 0); /* the other one is not settled */
    assert_int_equal(forgotten(&x, 30), 1);
    add(&x, FACT_MADE, 25, name_of(1, 0))->made.said = 5;
    add(&x, FACT_MADE, 26, name_of(2, 0))->made.said = 30;
    assert_int_equal(forgotten(&x, 30), 1); /* made before, and another render */
    field_end(&x);
}

static struct fact forget_fact(struct field *x, int64_t horizon_s)
{
    struct title_forget forget;
    arena_reset(&x->arena);
    assert_int_equal(title_forget(&x->in, second(horizon_s), 0, &x->arena, &forget), ERR_OK);
    assert_true(forget.any);
    return title_forget_fact(&forget, second(horizon_s + 1));
}

/* A copy that was away brings back what others deleted, and not what it had missed. */
static void what_is_forgotten_stays_so_when_a_part_of_it_comes_back(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 300 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add(&x, FACT_PURGE, 2, (struct page_name){ .rev = 2 });
    (void)add(&x, FACT_PURGE, 3, page_name_first);
    const struct fact f = forget_fact(&x, all_over);
    assert_int_equal(page_name_cmp(f.name, name_of(2, 1)), 0);
    x.in.facts_count = 1; /* the rest is gone */
    derive_at(&x, all_over + 2);
    assert_latest(&x, 1);
    x.facts[x.in.facts_count++] = f;
    derive_at(&x, all_over + 2);
    assert_latest(&x, 0);
    assert_state(&x, name_of(1, 0), PAGE_UNKNOWN);
    (void)add_put(&x, all_over + 5, 1, 0); /* and what comes later is new */
    derive_at(&x, all_over + 6);
    assert_latest(&x, 1);
    field_end(&x);
}

static void what_says_that_it_is_forgotten_goes_for_what_says_more(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 300 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    x.facts[2] = forget_fact(&x, all_over);
    x.in.facts_count = 3;
    assert_int_equal(forgotten(&x, all_over + 1), 1); /* the put, and not what tells of it */
    (void)add_put(&x, all_over + 10, 3, 3);
    (void)add_put(&x, all_over + 11, 4, 4);
    x.facts[5] = forget_fact(&x, 2 * all_over + 200);
    x.in.facts_count = 6;
    assert_int_equal(forgotten(&x, 2 * all_over + 201), 4);
    field_end(&x);
}

/* A pin that ended says until when its render was there to be the latest again. */
static void a_pin_that_ended_still_counts(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 1000 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add(&x, FACT_PURGE, 200, (struct page_name){ .rev = 2 });
    add(&x, FACT_STASH, 10, name_of(1, 0))->until = second(300);
    assert_int_equal(forgotten(&x, all_over), 0);
    derive_at(&x, all_over);
    assert_latest(&x, 1);
    x.in.facts_count--;
    derive_at(&x, all_over);
    assert_latest(&x, 0);
    field_end(&x);
}

/* What hides within the skew is still awaited by puts for which the wiki was asked since. */
static void a_mark_stays_as_long_as_a_clock_may_be_wrong(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    x.in.skew_ns = 4 * NS_PER_S;
    (void)add(&x, FACT_DELETED, 10, (struct page_name){ .rev = 1 });
    assert_int_equal(forgotten(&x, 13), 0);
    assert_int_equal(forgotten(&x, 14), 1);
    add_put(&x, 20, 1, 20)->said_at = second(13);
    assert_int_equal(forgotten(&x, 15), 0);
    x.facts[1].said_at = second(14);
    assert_int_equal(forgotten(&x, 15), 1);
    field_end(&x);
}

static void too_little_memory_is_told(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct arena small;
    field_begin(&x, POLICY_APP_TTL);
    for (unsigned i = 0; i < FIELD_FACTS_MAX; i++)
        (void)add_put(&x, i, i + 1, i);
    arena_init(&small, 16384);
    assert_int_equal(title_derive(&x.in, second(0), &small, &x.out), ERR_LIMIT);
    struct title_cull cull;
    struct title_forget forget;
    assert_int_equal(title_cull(&x.in, second(0), &small, &cull), ERR_LIMIT);
    assert_int_equal(title_forget(&x.in, second(0), 0, &small, &forget), ERR_LIMIT);
    arena_fini(&small);
    field_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_is_sure_when_nothing_touched_it),
        cmocka_unit_test(a_fact_is_later_than_what_its_decision_saw),
        cmocka_unit_test(a_pin_of_a_server_behind_holds),
        cmocka_unit_test(other_bytes_of_a_name_are_counted),
        cmocka_unit_test(bytes_go_in_ranges_between_those_that_stay),
        cmocka_unit_test(bytes_of_what_came_later_stay),
        cmocka_unit_test(bytes_of_one_tick_go_together),
        cmocka_unit_test(of_too_many_traces_the_lowest_go),
        cmocka_unit_test(the_lowest_renders_are_forgotten_when_all_of_them_are_unknown),
        cmocka_unit_test(of_makings_of_a_render_the_last_counts),
        cmocka_unit_test(a_purge_is_forgotten_for_a_later_one_that_covers_it),
        cmocka_unit_test(what_is_forgotten_stays_so_when_a_part_of_it_comes_back),
        cmocka_unit_test(what_says_that_it_is_forgotten_goes_for_what_says_more),
        cmocka_unit_test(a_pin_that_ended_still_counts),
        cmocka_unit_test(a_mark_stays_as_long_as_a_clock_may_be_wrong),
        cmocka_unit_test(too_little_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
