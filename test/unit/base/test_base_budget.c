/* Goal: what requests hold together stays below the limit, small requests are not asked, and what
 * ended is given back. Method: parts and arenas of a small budget. */
#include "base/arena.h"

#include "../cmocka_all.h"

#include <string.h>

enum { MAX = 1 << 20, FREE = BUDGET_FREE_BYTES };

static void small_parts_are_free_and_large_ones_add_up(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX };
    struct budget_part small = { .of = &b }, one = { .of = &b }, two = { .of = &b };
    assert_true(budget_part_set(&small, FREE));
    assert_int_equal(budget_held(&b), 0);
    assert_true(budget_part_set(&one, FREE + MAX - 100));
    assert_false(budget_part_set(&two, FREE + 101));
    assert_int_equal(budget_held(&b), MAX - 100);
    assert_int_equal(atomic_load(&b.refused), 1);
    assert_true(budget_part_set(&two, FREE + 100));
    assert_false(budget_part_set(&one, FREE + MAX - 99));
    assert_true(budget_part_set(&one, FREE + 5)); /* less is always true */
    assert_true(
        budget_part_set(&small, FREE)); /* and so is what is free, with others at the limit */
    budget_part_end(&one);
    budget_part_end(&two);
    assert_int_equal(budget_held(&b), 0);
    assert_int_equal(budget_fallen(&b), MAX);
    assert_int_equal(budget_fallen(&b), 0);
}

/* An arena is past its ceiling, not starved, by what its request can never have alone. */
static void what_no_request_can_have_alone_is_no_lack_of_now(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX };
    struct budget_part other = { .of = &b };
    struct arena a;
    arena_init(&a, 4 * MAX);
    arena_share(&a, &b);
    assert_true(budget_part_set(&other, FREE + MAX / 2));
    assert_false(budget_never(&other, FREE + MAX));
    assert_true(budget_never(&other, FREE + MAX + 1));
    assert_null(arena_alloc(&a, MAX));
    assert_true(arena_is_starved(&a) && !arena_is_full(&a));
    arena_reset(&a);
    arena_beside(&a, MAX / 2);
    assert_null(arena_alloc(&a, MAX));
    assert_true(arena_is_full(&a) && !arena_is_starved(&a));
    arena_reset(&a);
    assert_null(arena_alloc(&a, 2 * MAX));
    assert_true(arena_is_full(&a) && !arena_is_starved(&a));
    assert_int_equal(atomic_load(&b.refused), 1);
    budget_part_end(&other);
    arena_fini(&a);
}

static void without_a_limit_or_a_budget_nothing_is_refused(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = 0 };
    struct budget_part none = { .of = NULL }, large = { .of = &b };
    assert_true(budget_part_set(&none, SIZE_MAX));
    assert_true(budget_part_set(&large, SIZE_MAX / 2));
    budget_part_end(&none);
    budget_part_end(&large);
    assert_int_equal(budget_held(&b), 0);
}

static void what_is_kept_counts_beyond_its_own_limit_alone(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX, .kept_max = 1000 };
    struct budget_part h = { .of = &b };
    budget_keep(&b, 1000);
    assert_int_equal(budget_held(&b), 0);
    budget_keep(&b, MAX - 500);
    assert_int_equal(budget_held(&b), MAX - 500);
    assert_false(budget_part_set(&h, FREE + 501));
    assert_true(budget_part_set(&h, FREE + 500));
    budget_keep_end(&b, MAX - 500);
    budget_keep_end(&b, 1000);
    assert_int_equal(budget_held(&b), 500);
    budget_part_end(&h);
}

static void an_arena_that_is_refused_says_so_and_gives_all_back(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX };
    struct arena one, two;
    arena_init(&one, 4 * MAX);
    arena_init(&two, 4 * MAX);
    arena_share(&one, &b);
    arena_share(&two, &b);
    assert_non_null(arena_alloc(&one, MAX));
    assert_int_equal(budget_held(&b), one.total - FREE);
    assert_null(arena_alloc(&two, MAX));
    assert_true(arena_is_starved(&two));
    assert_false(arena_is_starved(&one));
    assert_non_null(arena_alloc(&two, 1000)); /* there is room to say so */
    arena_reset(&two);
    assert_false(arena_is_starved(&two));
    arena_reset(&one);
    assert_int_equal(budget_held(&b), 0);
    assert_non_null(arena_alloc(&two, MAX)); /* it shares still */
    assert_int_equal(budget_held(&b), two.total - FREE);
    arena_fini(&one);
    arena_fini(&two);
    assert_int_equal(budget_held(&b), 0);
}

static void an_arena_at_its_own_ceiling_is_not_starved(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX };
    struct arena a;
    arena_init(&a, 1000);
    arena_share(&a, &b);
    assert_null(arena_alloc(&a, 1001));
    assert_false(arena_is_starved(&a)); /* a second try would end alike */
    arena_fini(&a);
}

static void what_is_urgent_finds_the_reserve(void **state)
{
    (void)state;
    struct budget b = { .bytes_max = MAX, .reserve = 1000 };
    struct budget_part all = { .of = &b }, plain = { .of = &b },
                       urgent = { .of = &b, .urgent = true };
    assert_true(budget_part_set(&all, FREE + MAX));
    assert_false(budget_part_set(&plain, FREE + 1));
    assert_true(budget_part_set(&urgent, FREE + 1000));
    assert_false(budget_part_set(&urgent, FREE + 1001));
    assert_false(budget_part_set(&plain, FREE + 1));
    budget_part_end(&all);
    assert_true(budget_part_set(&plain, FREE + MAX - 1000));
    budget_part_end(&plain);
    budget_part_end(&urgent);
    assert_int_equal(budget_held(&b), 0);
    struct arena a;
    arena_init(&a, SIZE_MAX);
    arena_share(&a, &b);
    arena_urgent(&a);
    assert_non_null(arena_alloc(&a, FREE + MAX + 900));
    arena_reset(&a);
    assert_null(arena_alloc(&a, FREE + MAX + 900)); /* a reset ends it */
    arena_fini(&a);
    b.bytes_max = 0;
    assert_true(budget_part_set(&plain, SIZE_MAX / 2)); /* no limit at all */
    budget_part_end(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_urgent_finds_the_reserve),
        cmocka_unit_test(small_parts_are_free_and_large_ones_add_up),
        cmocka_unit_test(what_no_request_can_have_alone_is_no_lack_of_now),
        cmocka_unit_test(without_a_limit_or_a_budget_nothing_is_refused),
        cmocka_unit_test(what_is_kept_counts_beyond_its_own_limit_alone),
        cmocka_unit_test(an_arena_that_is_refused_says_so_and_gives_all_back),
        cmocka_unit_test(an_arena_at_its_own_ceiling_is_not_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
