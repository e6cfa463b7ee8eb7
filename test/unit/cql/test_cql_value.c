/* Goal: bound values have their place and their limits. Method: each limit is met and passed; the
 * bytes of each type are held against another client's by test_cql_golden.c. */
#include "../cmocka_all.h"
#include "cql/value.h"

static void a_value_is_found_by_its_index(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    cql_put_bytes(&v, STR("ab"));
    cql_put_null(&v);
    cql_put_unset(&v);
    cql_put_bytes(&v, STR(""));
    struct cql_open open = cql_put_open(&v, true);
    cql_put_i8(&v, 1);
    cql_put_close(&v, open, false);
    cql_put_i16(&v, 0x0102);
    assert_int_equal(v.count, 6);
    assert_true(str_eq(cql_value_at(&v, 0), STR("ab")));
    assert_null(cql_value_at(&v, 1).p);
    assert_null(cql_value_at(&v, 2).p);
    assert_non_null(cql_value_at(&v, 3).p);
    assert_int_equal(cql_value_at(&v, 3).n, 0);
    assert_true(str_eq(cql_value_at(&v, 4), STR("\0\0\0\1\0\0\0\1\1")));
    assert_true(str_eq(cql_value_at(&v, 5), STR("\1\2")));
    cql_values_clear(&v);
    assert_int_equal(v.count, 0);
    assert_int_equal(v.bytes.n, 0);
    cql_values_fini(&v);
}

static void more_bytes_than_the_limit_are_refused_until_cleared(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 16);
    cql_put_i64(&v, 1);
    assert_int_equal(cql_values_status(&v), ERR_OK);
    struct cql_open open = cql_put_open(&v, true); /* 8 more: too many */
    cql_put_bytes(&v, STR("0123456789"));
    cql_put_bytes(&v, STR("x"));
    cql_put_tid(&v, (struct tid){ .ticks = 1 });
    cql_put_null(&v);
    cql_put_close(&v, open, true);
    assert_int_equal(cql_values_status(&v), ERR_LIMIT);
    cql_values_clear(&v);
    cql_put_bytes(&v, STR("0123456789ab"));
    assert_int_equal(cql_values_status(&v), ERR_OK);
    cql_put_bytes(&v, STR(""));
    assert_int_equal(cql_values_status(&v), ERR_LIMIT);
    cql_values_fini(&v);
}

static void a_list_without_room_is_closed_all_the_same(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4); /* nothing was ever allocated */
    struct cql_open open = cql_put_open(&v, true);
    cql_put_i8(&v, 1);
    cql_put_close(&v, open, false);
    assert_int_equal(v.count, 1);
    assert_int_equal(cql_values_status(&v), ERR_LIMIT);
    cql_values_fini(&v);
}

static void more_values_than_the_protocol_counts_are_refused(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 1 << 20);
    for (unsigned i = 0; i < CQL_VALUES_MAX; i++)
        cql_put_null(&v);
    assert_int_equal(cql_values_status(&v), ERR_OK);
    cql_put_null(&v);
    assert_int_equal(cql_values_status(&v), ERR_LIMIT);
    cql_values_clear(&v);
    assert_int_equal(cql_values_status(&v), ERR_OK);
    struct cql_open open = cql_put_open(&v, true);
    for (unsigned i = 0; i <= CQL_VALUES_MAX; i++)
        cql_put_null(&v); /* the items of one value have no such limit */
    cql_put_close(&v, open, false);
    assert_int_equal(cql_values_status(&v), ERR_OK);
    assert_int_equal(v.count, 1);
    cql_values_fini(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_found_by_its_index),
        cmocka_unit_test(more_bytes_than_the_limit_are_refused_until_cleared),
        cmocka_unit_test(a_list_without_room_is_closed_all_the_same),
        cmocka_unit_test(more_values_than_the_protocol_counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
