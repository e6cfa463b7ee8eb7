/* Goal: slices with NULL, empty, NUL and overlapping content, and numbers at their ends. Method:
 * tables. */
#include "base/check.h"
#include "base/str.h"

#include "../cmocka_all.h"

#include <string.h>

static void empty_slices_of_any_kind_are_equal(void **state)
{
    (void)state;
    str none = str_of(NULL), empty = STR("");
    assert_null(none.p);
    assert_int_equal(none.n, 0);
    assert_true(str_eq(none, empty));
    assert_true(str_eq_nocase(none, empty));
    assert_int_equal(str_cmp(none, empty), 0);
    assert_true(str_starts(none, empty));
    assert_true(str_ends(empty, none));
    assert_int_equal(str_find(none, 'a'), 0);
    assert_int_equal(str_find_str(none, none), 0);
    assert_int_equal(str_skip(none, 3).n, 0);
    assert_int_equal(str_take(none, 3).n, 0);
    assert_int_equal(str_trim(none).n, 0);
}

static void comparison_is_of_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(STR("a\0b"), STR("a\0b")));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_false(str_eq(STR("a"), STR("a\0")));
    assert_true(str_cmp(STR("a"), STR("a\0")) < 0);
    assert_true(str_cmp(STR("\x7f"), STR("\x80")) < 0); /* unsigned */
    assert_true(str_cmp(STR("b"), STR("ab")) > 0);
    assert_true(str_eq_nocase(STR("Content-TYPE"), STR("content-type")));
    assert_false(str_eq_nocase(STR("\xc4"), STR("\xe4"))); /* ASCII only */
    assert_false(str_eq_nocase(STR("@"), STR("`")));
    assert_false(str_eq_nocase(STR("["), STR("{")));
}

static void ends_and_beginnings(void **state)
{
    (void)state;
    assert_true(str_starts(STR("abc"), STR("ab")));
    assert_false(str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")));
    assert_false(str_ends(STR("bc"), STR("abc")));
    assert_true(str_eq(str_skip(STR("abc"), 1), STR("bc")));
    assert_int_equal(str_skip(STR("abc"), SIZE_MAX).n, 0);
    assert_true(str_eq(str_take(STR("abc"), SIZE_MAX), STR("abc")));
    assert_true(str_eq(str_trim(STR(" \t a b\t ")), STR("a b")));
    assert_true(str_eq(str_trim(STR("\na\n")), STR("\na\n")));
    assert_int_equal(str_trim(STR(" \t ")).n, 0);
}

static void finding(void **state)
{
    (void)state;
    assert_int_equal(str_find(STR("abcb"), 'b'), 1);
    assert_int_equal(str_find(STR("abc"), 'x'), 3);
    assert_int_equal(str_find(STR("a\0b"), 0), 1);
    assert_int_equal(str_find_str(STR("aab"), STR("ab")), 1);
    assert_int_equal(str_find_str(STR("aaaab"), STR("aab")), 2);
    assert_int_equal(str_find_str(STR("ab"), STR("abc")), 2);
    assert_int_equal(str_find_str(STR("abab"), STR("ba")), 1);
    assert_int_equal(str_find_str(STR("abx"), STR("xb")), 3);
    assert_int_equal(str_find_str(STR("abc"), STR("c")), 2);
    assert_int_equal(str_find_str(STR("abc"), STR("")), 0);
}

static void splitting_gives_each_piece_once(void **state)
{
    (void)state;
    str rest = STR("a,,b,");
    assert_true(str_eq(str_split(&rest, ','), STR("a")));
    assert_true(str_eq(str_split(&rest, ','), STR("")));
    assert_true(str_eq(str_split(&rest, ','), STR("b")));
    assert_non_null(rest.p); /* an empty piece is still to come */
    assert_true(str_eq(str_split(&rest, ','), STR("")));
    assert_null(rest.p);
    rest = STR("whole");
    assert_true(str_eq(str_split(&rest, ','), STR("whole")));
    assert_null(rest.p);
}

static void numbers_are_digits_only_and_fit(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "0x1",
                                       "1a",
                                       "--",
                                       "-+",
                                       "١",
                                       "18446744073709551616",
                                       "99999999999999999999999" };
    uint64_t u = 7;
    int64_t i = 7;
    for (size_t n = 0; n < COUNT_OF(bad); n++) {
        assert_false(str_to_u64(str_of(bad[n]), &u));
        assert_false(str_to_i64(str_of(bad[n]), &i));
    }
    assert_false(str_to_u64(STR("-1"), &u));
    assert_false(str_to_u64(STR("1\0"), &u));
    assert_false(str_to_i64(STR("9223372036854775808"), &i));
    assert_false(str_to_i64(STR("-9223372036854775809"), &i));
    assert_int_equal(u, 7);
    assert_int_equal(i, 7);
    assert_true(str_to_u64(STR("18446744073709551615"), &u));
    assert_true(u == UINT64_MAX);
    assert_true(str_to_u64(STR("000"), &u));
    assert_int_equal(u, 0);
    assert_true(str_to_i64(STR("9223372036854775807"), &i));
    assert_true(i == INT64_MAX);
    assert_true(str_to_i64(STR("-9223372036854775808"), &i));
    assert_true(i == INT64_MIN);
    assert_true(str_to_i64(STR("-0"), &i));
    assert_int_equal(i, 0);
}

static void a_c_string_must_fit_and_hold_no_nul(void **state)
{
    (void)state;
    char dst[4] = "xyz";
    assert_false(str_to_cstr(STR("abcd"), dst, sizeof dst));
    assert_false(str_to_cstr(STR("a\0"), dst, sizeof dst));
    assert_string_equal(dst, "xyz");
    assert_true(str_to_cstr(STR("abc"), dst, sizeof dst));
    assert_string_equal(dst, "abc");
    assert_true(str_to_cstr(STR_NONE, dst, sizeof dst));
    assert_string_equal(dst, "");
    assert_false(str_to_cstr(STR_NONE, dst, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_slices_of_any_kind_are_equal),
        cmocka_unit_test(comparison_is_of_bytes),
        cmocka_unit_test(ends_and_beginnings),
        cmocka_unit_test(finding),
        cmocka_unit_test(splitting_gives_each_piece_once),
        cmocka_unit_test(numbers_are_digits_only_and_fit),
        cmocka_unit_test(a_c_string_must_fit_and_hold_no_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
