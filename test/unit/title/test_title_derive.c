/* Goal: what derive.h and the order of facts say of facts that no single store decided: late and
 * lost, of several servers, of one name. Method: a title written down as facts, in seconds from
 * T0, and looked at by title_find. The equality with the embedded store, and what must not matter,
 * is for test/model/model_facts.c. */
#include "field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- */

static void a_late_render_lives_a_full_grace(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 5, 0);
    (void)add_put(&x, 100, 6, 100);
    (void)add_put(&x, 180, 4, 50);
    derive_at(&x, 201);
    assert_state(&x, name_of(5, 0), PAGE_CULLED);
    assert_state(&x, name_of(4, 50), PAGE_RECENT);
    derive_at(&x, 279);
    assert_state(&x, name_of(4, 50), PAGE_RECENT);
    derive_at(&x, 280);
    assert_state(&x, name_of(4, 50), PAGE_CULLED);
    assert_latest(&x, 6);
    field_end(&x);
}

static void what_is_gone_does_not_come_back_when_a_greater_one_is_purged(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 10, 2, 10);
    (void)add(&x, FACT_PURGE, 200, (struct page_name){ .rev = 2 });
    derive_at(&x, 201);
    assert_latest(&x, 0);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(2, 10), PAGE_PURGED);
    x.facts[2].at = second(50);
    derive_at(&x, 201);
    assert_latest(&x, 1);
    field_end(&x);
}

static void the_first_of_one_name_counts(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct page_row row;
    field_begin(&x, POLICY_APP_TTL);
    add_put(&x, 20, 1, 0)->srv = 2;
    add_put(&x, 10, 1, 0)->srv = 3;
    derive_at(&x, 30);
    assert_int_equal(field_find(&x, SELECT_EXACT, name_of(1, 0), &row, NULL), ERR_OK);
    assert_int_equal(row.r.stored_at.ns, second(10).ns);
    assert_memory_equal(row.digest, x.facts[1].digest, PAGE_DIGEST_BYTES);
    x.facts[0].at = second(10); /* of one instant: the lesser server's */
    derive_at(&x, 30);
    assert_int_equal(field_find(&x, SELECT_EXACT, name_of(1, 0), &row, NULL), ERR_OK);
    assert_memory_equal(row.digest, x.facts[0].digest, PAGE_DIGEST_BYTES);
    assert_int_equal(x.out.rows_count, 1);
    field_end(&x);
}

/* The place of the first is none of the second. */
static void a_name_that_was_gone_as_it_came_may_come_again(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_LATEST_HASH);
    add_put(&x, 10, 1, 9)->behind = 2;
    derive_at(&x, 15);
    assert_state(&x, name_of(1, 9), PAGE_CULLED);
    (void)add_put(&x, 20, 1, 9);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 9), PAGE_CURRENT);
    field_end(&x);
}

static void equal_renders_of_two_servers_both_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 9);
    *add_put(&x, 10, 1, 8) = x.facts[0];
    x.facts[1].srv = 2;
    x.facts[1].name = name_of(1, 8);
    derive_at(&x, 11);
    assert_state(&x, name_of(1, 9), PAGE_CURRENT);
    assert_state(&x, name_of(1, 8), PAGE_RECENT);
    field_end(&x);
}

/* ---- what the wiki says ---- */

static void a_word_holds_against_what_was_asked_before_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    add(&x, FACT_SUPPRESSED, 10, (struct page_name){ .rev = 1 })->said_at = second(8);
    add_put(&x, 20, 1, 20)->said_at = second(7);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 20), PAGE_SUPPRESSED);
    assert_latest(&x, 0);
    x.facts[1].said_at = second(8);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 20), PAGE_CURRENT);
    x.facts[1].said_at = second(7);
    add(&x, FACT_SHOWN, 30, (struct page_name){ .rev = 1 })->said_at = second(7);
    derive_at(&x, 31);
    assert_state(&x, name_of(1, 20), PAGE_SUPPRESSED);
    x.facts[2].said_at = second(8);
    derive_at(&x, 31);
    assert_state(&x, name_of(1, 20), PAGE_RECENT); /* until the wiki says what the latest is */
    (void)add(&x, FACT_WORD, 32, (struct page_name){ .rev = 1 });
    derive_at(&x, 32);
    assert_latest(&x, 1);
    field_end(&x);
}

/* A word that came before a render is to it as if it came after: SUPPRESSED is the stronger. */
static void words_before_a_render_hide_it_as_those_after(void **state)
{
    (void)state; /* unused */
    static const struct {
        enum fact_what first, second;
        int64_t said_s;
        enum page_state state;
    } rows[] = {
        { FACT_SUPPRESSED, FACT_DELETED, 12, PAGE_SUPPRESSED },
        { FACT_DELETED, FACT_SUPPRESSED, 12, PAGE_SUPPRESSED },
        { FACT_DELETED, FACT_SHOWN, 12, PAGE_CURRENT },
        { FACT_DELETED, FACT_SHOWN, 9, PAGE_DELETED },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct field x;
        field_begin(&x, POLICY_ALL);
        add(&x, rows[i].first, 10, (struct page_name){ .rev = 1 })->said_at = second(10);
        add(&x, rows[i].second, 12, (struct page_name){ .rev = 1 })->said_at =
            second(rows[i].said_s);
        add_put(&x, 20, 1, 20)->said_at = second(5);
        derive_at(&x, 21);
        assert_state(&x, name_of(1, 20), rows[i].state);
        field_end(&x);
    }
}

/* Clocks of two servers may put two askings in the wrong order. */
static void within_the_skew_hiding_wins(void **state)
{
    (void)state; /* unused */
    static const struct {
        bool put_first;
        int64_t put_said_s, deleted_said_s, shown_said_s; /* shown 0: not */
        enum page_state state;
    } rows[] = {
        { true, 12, 10, 0, PAGE_DELETED },  { true, 13, 10, 0, PAGE_CURRENT },
        { false, 11, 10, 0, PAGE_DELETED }, { false, 12, 10, 0, PAGE_CURRENT },
        { true, 5, 10, 11, PAGE_DELETED },  { true, 5, 10, 12, PAGE_RECENT },
        { false, 5, 10, 11, PAGE_DELETED }, { false, 5, 10, 12, PAGE_CURRENT },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct field x;
        field_begin(&x, POLICY_APP_TTL);
        x.in.skew_ns = 2 * NS_PER_S;
        add_put(&x, rows[i].put_first ? 20 : 40, 1, 20)->said_at = second(rows[i].put_said_s);
        add(&x, FACT_DELETED, 30, (struct page_name){ .rev = 1 })->said_at =
            second(rows[i].deleted_said_s);
        if (rows[i].shown_said_s != 0)
            add(&x, FACT_SHOWN, 35, (struct page_name){ .rev = 1 })->said_at =
                second(rows[i].shown_said_s);
        derive_at(&x, 41);
        assert_state(&x, name_of(1, 20), rows[i].state);
        field_end(&x);
    }
}

/* It was asked before the wiki last said that the render is hidden. */
static void a_late_word_shows_nothing_that_was_hidden_again(void **state)
{
    (void)state; /* unused */
    static const enum fact_what hides[][2] = { { FACT_DELETED, FACT_DELETED },
                                               { FACT_SUPPRESSED, FACT_DELETED },
                                               { FACT_DELETED, FACT_SUPPRESSED } };
    for (unsigned i = 0; i < COUNT_OF(hides); i++)
        for (int64_t put_s = 1; put_s < 40; put_s += 30) {
            struct field x;
            field_begin(&x, POLICY_ALL);
            add_put(&x, put_s, 1, 1)->said_at = second(1);
            (void)add(&x, hides[i][0], 10, (struct page_name){ .rev = 1 });
            (void)add(&x, hides[i][1], 20, (struct page_name){ .rev = 1 });
            add(&x, FACT_SHOWN, 21, (struct page_name){ .rev = 1 })->said_at = second(15);
            derive_at(&x, 50);
            assert_state(&x, name_of(1, 1), i == 0 ? PAGE_DELETED : PAGE_SUPPRESSED);
            x.facts[3].said_at = second(20);
            derive_at(&x, 50);
            assert_state(&x, name_of(1, 1), put_s == 1 ? PAGE_RECENT : PAGE_CURRENT);
            field_end(&x);
        }
}

/* Then facts of the lesser may be forgotten. */
static void hiding_a_lesser_render_is_nothing_to_the_newest(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct page_row row;
    field_begin(&x, POLICY_ALL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add_put(&x, 2, 3, 2);
    add_put(&x, 3, 3, 3)->behind = 4;
    (void)add(&x, FACT_PURGE, 4, name_of(3, 3));
    (void)add(&x, FACT_PURGE, 5, name_of(3, 2));
    (void)add(&x, FACT_DELETED, 6, (struct page_name){ .rev = 1 });
    derive_at(&x, 6);
    assert_int_equal(field_find(&x, SELECT_EXACT, name_of(2, 1), &row, NULL), ERR_OK);
    assert_int_equal(page_name_cmp(row.r.superseded_by, name_of(3, 2)), 0);
    field_end(&x);
}

/* ---- purges and pins ---- */

static void a_purge_covers_what_arrives_later_with_an_older_name(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add(&x, FACT_PURGE, 10, (struct page_name){ .rev = 1 });
    (void)add_put(&x, 20, 1, 10);
    (void)add_put(&x, 21, 1, 11);
    (void)add_put(&x, 22, 2, 5);
    derive_at(&x, 30);
    assert_state(&x, name_of(1, 10), PAGE_PURGED);
    assert_state(&x, name_of(1, 11), PAGE_RECENT);
    assert_state(&x, name_of(2, 5), PAGE_CURRENT);
    field_end(&x);
}

/* Written later, it says no more than the purges it stands for: puts before it stay. */
static void a_joined_fence_counts_against_what_arrives_after_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 5, 1, 5);
    add(&x, FACT_FENCE, 8, page_name_first)->joined_at = second(10);
    (void)add_put(&x, 9, 2, 7);
    (void)add_put(&x, 11, 3, 8);
    (void)add_put(&x, 12, 3, 9);
    derive_at(&x, 30);
    assert_state(&x, name_of(1, 5), PAGE_RECENT);
    assert_state(&x, name_of(2, 7), PAGE_RECENT);
    assert_state(&x, name_of(3, 8), PAGE_PURGED);
    assert_state(&x, name_of(3, 9), PAGE_CURRENT);
    field_end(&x);
}

static void pins_hold_what_is_there_and_wake_nothing(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    add(&x, FACT_STASH, 50, name_of(1, 0))->until = second(300);
    add(&x, FACT_STASH, 60, name_of(1, 0))->until = second(200); /* the greatest holds */
    derive_at(&x, 299);
    assert_state(&x, name_of(1, 0), PAGE_HELD);
    derive_at(&x, 300);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    add(&x, FACT_HOLD, 300, name_of(1, 0))->until = second(900); /* in the instant it is gone */
    derive_at(&x, 301);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    x.facts[4].at = second(299);
    derive_at(&x, 899);
    assert_state(&x, name_of(1, 0), PAGE_HELD);
    (void)add(&x, FACT_RELEASE, 400, (struct page_name){ .rev = 1 });
    derive_at(&x, 400);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    field_end(&x);
}

/* Who stashes it does not see yet that its hold ended. */
static void a_render_outlives_the_end_of_a_pin_for_those_who_do_not_see_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    add(&x, FACT_HOLD, 50, name_of(1, 0))->until = second(900);
    (void)add(&x, FACT_RELEASE, 200, name_of(1, 0));
    add(&x, FACT_STASH, 202, name_of(1, 0))->until = second(700);
    derive_at(&x, 600);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    x.in.linger_ns = 3 * NS_PER_S;
    derive_at(&x, 600);
    assert_state(&x, name_of(1, 0), PAGE_HELD);
    x.in.facts_count--;
    derive_at(&x, 202);
    assert_state(&x, name_of(1, 0), PAGE_ARCHIVE);
    derive_at(&x, 203);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    field_end(&x);
}

static void a_dropped_render_leaves_its_place_in_its_group(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_LATEST);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    derive_at(&x, 200);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    (void)add(&x, FACT_DROP, 10, name_of(1, 1));
    derive_at(&x, 200);
    assert_state(&x, name_of(1, 0), PAGE_ARCHIVE);
    field_end(&x);
}

static void traces_end_and_nothing_is_known(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    derive_at(&x, 101 + LEDGER_S - 1);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    derive_at(&x, 101 + LEDGER_S);
    assert_state(&x, name_of(1, 0), PAGE_UNKNOWN);
    field_end(&x);
}

/* ---- policies ---- */

static void a_policy_holds_from_its_instant_on(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    (void)add_put(&x, 90, 1, 90);
    x.plans[1] = x.plans[0];
    x.plans[1].plan.policy.kind = POLICY_ALL;
    x.plans[1].plan.number = 2;
    x.plans[1].plan.changed_at = x.plans[1].at = second(150);
    x.in.plans_count = 2;
    derive_at(&x, 149);
    assert_state(&x, name_of(1, 0), PAGE_CULLED); /* at 101, before it */
    assert_state(&x, name_of(1, 1), PAGE_RECENT);
    derive_at(&x, 1000);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(1, 1), PAGE_ARCHIVE);
    field_end(&x);
}

static void policies_come_in_any_order_and_twice(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    (void)add_put(&x, 90, 1, 90);
    const struct title_plan first = x.plans[0];
    struct title_plan second_one = first;
    second_one.plan.policy.kind = POLICY_ALL;
    second_one.plan.number = 2;
    second_one.plan.changed_at = second_one.at = second(150);
    const struct title_plan plans[] = { second_one, first, second_one, first };
    x.in.plans = plans;
    x.in.plans_count = COUNT_OF(plans);
    derive_at(&x, 149);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(1, 1), PAGE_RECENT);
    derive_at(&x, 1000);
    assert_state(&x, name_of(1, 1), PAGE_ARCHIVE);
    field_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_render_lives_a_full_grace),
        cmocka_unit_test(what_is_gone_does_not_come_back_when_a_greater_one_is_purged),
        cmocka_unit_test(the_first_of_one_name_counts),
        cmocka_unit_test(a_name_that_was_gone_as_it_came_may_come_again),
        cmocka_unit_test(equal_renders_of_two_servers_both_stay),
        cmocka_unit_test(a_word_holds_against_what_was_asked_before_it),
        cmocka_unit_test(words_before_a_render_hide_it_as_those_after),
        cmocka_unit_test(within_the_skew_hiding_wins),
        cmocka_unit_test(a_late_word_shows_nothing_that_was_hidden_again),
        cmocka_unit_test(hiding_a_lesser_render_is_nothing_to_the_newest),
        cmocka_unit_test(a_purge_covers_what_arrives_later_with_an_older_name),
        cmocka_unit_test(a_joined_fence_counts_against_what_arrives_after_it),
        cmocka_unit_test(pins_hold_what_is_there_and_wake_nothing),
        cmocka_unit_test(a_render_outlives_the_end_of_a_pin_for_those_who_do_not_see_it),
        cmocka_unit_test(a_dropped_render_leaves_its_place_in_its_group),
        cmocka_unit_test(traces_end_and_nothing_is_known),
        cmocka_unit_test(a_policy_holds_from_its_instant_on),
        cmocka_unit_test(policies_come_in_any_order_and_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
