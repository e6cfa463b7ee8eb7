/* quota: what is kept stays within its bound, and is given back over its time. Method: time is an
 * argument. */
#include "page/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_kept_is_bounded_and_given_back_over_its_time(void **state)
{
    (void)state;
    const int64_t day = 86400 * NS_PER_S;
    store_time now = { .ns = 100 * day };
    struct page_quota *q = page_quota_new(1000, day);
    assert_true(page_quota_take(q, 600, now));
    assert_false(page_quota_take(q, 500, now));
    assert_false(page_quota_take(q, 1001, now));
    assert_true(page_quota_take(q, 400, now));
    assert_false(page_quota_take(q, 1, now));
    now.ns += day / 2;
    assert_false(page_quota_take(q, 501, now));
    assert_true(page_quota_take(q, 500, now));
    now.ns += day;
    assert_true(page_quota_take(q, 1000, now));
    for (int i = 0; i < 100000;
         i++) { /* who asks without end keeps nothing from being given back */
        now.ns += day / 100000;
        assert_false(page_quota_take(q, 1001, now));
    }
    assert_true(page_quota_take(q, 999, now)); /* of a byte a part may be on its way */
    page_quota_give(q, 400);
    assert_false(page_quota_take(q, 402, now));
    assert_true(page_quota_take(q, 400, now));
    page_quota_give(q, UINT64_MAX); /* never more than was taken */
    assert_true(page_quota_take(q, 1000, now));
    assert_false(page_quota_take(q, 1, now));
    page_quota_free(&q);
}

static void what_is_kept_without_room_counts_all_the_same(void **state)
{
    (void)state;
    const int64_t day = 86400 * NS_PER_S;
    store_time now = { .ns = 100 * day };
    struct page_quota *q = page_quota_new(1000, day);
    page_quota_take_too(q, 1500, now);
    assert_true(page_quota_take(q, 0, now));
    assert_false(page_quota_take(q, 1, now));
    now.ns += day / 2;
    assert_false(page_quota_take(q, 1, now));
    page_quota_give(q, 400);
    assert_true(page_quota_take(q, 400, now));
    now.ns += 10 * day; /* what comes after a long rest is not given back with it */
    page_quota_take_too(q, 1000, now);
    assert_false(page_quota_take(q, 1, now));
    page_quota_free(&q);
}

static void without_a_bound_everything_is_kept(void **state)
{
    (void)state;
    const store_time now = { .ns = NS_PER_S };
    struct page_quota *q = page_quota_new(0, NS_PER_S);
    page_quota_take_too(q, UINT64_MAX, now);
    assert_true(page_quota_take(q, UINT64_MAX, now));
    page_quota_give(q, 1);
    assert_true(page_quota_take(q, UINT64_MAX, now));
    page_quota_free(&q);
}

static void another_bound_counts_what_is_kept_already(void **state)
{
    (void)state;
    const int64_t day = 86400 * NS_PER_S;
    store_time now = { .ns = 100 * day };
    struct page_quota *q = page_quota_new(1000, day);
    assert_true(page_quota_take(q, 600, now));
    page_quota_set(q, 500, day);
    assert_false(page_quota_take(q, 1, now));
    page_quota_set(q, 800, day / 2);
    assert_true(page_quota_take(q, 200, now));
    assert_false(page_quota_take(q, 1, now));
    now.ns += day / 2;
    assert_true(page_quota_take(q, 800, now));
    page_quota_set(q, 0, day);
    assert_true(page_quota_take(q, UINT64_MAX, now));
    page_quota_set(q, 100, day); /* nothing was counted meanwhile */
    assert_true(page_quota_take(q, 100, now));
    assert_false(page_quota_take(q, 1, now));
    page_quota_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_bounded_and_given_back_over_its_time),
        cmocka_unit_test(what_is_kept_without_room_counts_all_the_same),
        cmocka_unit_test(without_a_bound_everything_is_kept),
        cmocka_unit_test(another_bound_counts_what_is_kept_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
