/* Goal: durations are read and written as Go does, its errors to the letter. Method: a table of
 * what Go 1.26 said. */
#include "codec/goduration.h"

#include "base/check.h"

#include "../cmocka_all.h"

static const struct {
    const char *text;
    int64_t ns;
    const char *printed; /* or the error, which begins with "time:" */
} rows[] = {
    { "foo", 0, "time: invalid duration \"foo\"" },
    { "", 0, "time: invalid duration \"\"" },
    { "0", INT64_C(0), "0s" },
    { "+0", INT64_C(0), "0s" },
    { "-0", INT64_C(0), "0s" },
    { "5", 0, "time: missing unit in duration \"5\"" },
    { "5x", 0, "time: unknown unit \"x\" in duration \"5x\"" },
    { "1h", INT64_C(3600000000000), "1h0m0s" },
    { "1h30m", INT64_C(5400000000000), "1h30m0s" },
    { "900ms", INT64_C(900000000), "900ms" },
    { "-1.5h", INT64_C(-5400000000000), "-1h30m0s" },
    { "1.5h", INT64_C(5400000000000), "1h30m0s" },
    { ".5s", INT64_C(500000000), "500ms" },
    { "5.s", INT64_C(5000000000), "5s" },
    { ".", 0, "time: invalid duration \".\"" },
    { "s", 0, "time: invalid duration \"s\"" },
    { "3000000h", 0, "time: invalid duration \"3000000h\"" },
    { "9223372036854775807ns", INT64_C(9223372036854775807), "2562047h47m16.854775807s" },
    { "9223372036854775808ns", 0, "time: invalid duration \"9223372036854775808ns\"" },
    { "-9223372036854775808ns", INT64_MIN, "-2562047h47m16.854775808s" },
    { "-9223372036854775809ns", 0, "time: invalid duration \"-9223372036854775809ns\"" },
    { "2562047h47m16.854775807s", INT64_C(9223372036854775807), "2562047h47m16.854775807s" },
    { "0.100000000000000000000h", INT64_C(360000000000), "6m0s" },
    { "0.9223372036854775807h", INT64_C(3320413933267), "55m20.413933267s" },
    { "0.9223372036854775808h", INT64_C(3320413933267), "55m20.413933267s" },
    { "0.9223372036854775809h", INT64_C(3320413933267), "55m20.413933267s" },
    { "1us", INT64_C(1000), "1\xc2\xb5s" },
    { "1\xc2\xb5s", INT64_C(1000), "1\xc2\xb5s" },
    { "1\xce\xbcs", INT64_C(1000), "1\xc2\xb5s" },
    { "12.34\xc2\xb5s", INT64_C(12340), "12.34\xc2\xb5s" },
    { "5\"s", 0, "time: unknown unit \"\\\"s\" in duration \"5\\\"s\"" },
    { "5\\s", 0, "time: unknown unit \"\\\\s\" in duration \"5\\\\s\"" },
    { "1h1", 0, "time: missing unit in duration \"1h1\"" },
    { "1\xc3\xa9", 0, "time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\"" },
    { "39h9m14.425s", INT64_C(140954425000000), "39h9m14.425s" },
    { "0.3333333333333333333h", INT64_C(1200000000000), "20m0s" },
    { "10ns10us10ms10s10m10h", INT64_C(36610010010010), "10h10m10.01001001s" },
    { "-", 0, "time: invalid duration \"-\"" },
    { "+", 0, "time: invalid duration \"+\"" },
    { "+5s", INT64_C(5000000000), "5s" },
    { "-5s-5s", 0, "time: unknown unit \"s-\" in duration \"-5s-5s\"" },
    { "1.0000000001s", INT64_C(1000000000), "1s" },
    { "100.00100s", INT64_C(100001000000), "1m40.001s" },
    { "1.004s", INT64_C(1004000000), "1.004s" },
    { "0.1ns", INT64_C(0), "0s" },
    { "1.1.1s", 0, "time: missing unit in duration \"1.1.1s\"" },
    { "1e3s", 0, "time: unknown unit \"e\" in duration \"1e3s\"" },
    { "15m", INT64_C(900000000000), "15m0s" },
    { "16m", INT64_C(960000000000), "16m0s" },
    { "24h", INT64_C(86400000000000), "24h0m0s" },
    { "60m", INT64_C(3600000000000), "1h0m0s" },
    { "10ms", INT64_C(10000000), "10ms" },
    { "1 h", 0, "time: unknown unit \" h\" in duration \"1 h\"" },
    { " 1h", 0, "time: invalid duration \" 1h\"" },
    { "9007199254740993ns", INT64_C(9007199254740993), "2501h59m59.254740993s" },
    { "9223372036s", INT64_C(9223372036000000000), "2562047h47m16s" },
    { "9223372037s", 0, "time: invalid duration \"9223372037s\"" },
    { "0.000000001h", INT64_C(3600), "3.6\xc2\xb5s" },
};

static void durations_read_and_print_as_in_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena a;
        char printed[GODURATION_BYTES_MAX + 1];
        str why = STR_NONE, wanted = str_of(rows[i].printed);
        int64_t ns = -1;
        arena_init(&a, 4096);
        err e = goduration_parse(str_of(rows[i].text), &ns, &a, &why);
        if (str_starts(wanted, STR("time: "))) {
            assert_int_equal(e, ERR_BAD);
            if (!str_eq(why, wanted))
                fail_msg("%s: %.*s", rows[i].text, STR_ARG(why));
        } else {
            assert_int_equal(e, ERR_OK);
            goduration_format(ns, printed);
            if (ns != rows[i].ns || !str_eq(str_of(printed), wanted))
                fail_msg("%s: %s", rows[i].text, printed);
        }
        arena_fini(&a);
    }
}

static void a_full_arena_is_said(void **state)
{
    (void)state;
    struct arena a;
    str why = STR_NONE;
    int64_t ns = -1;
    arena_init(&a, 0);
    assert_int_equal(goduration_parse(STR("foo"), &ns, &a, &why), ERR_LIMIT);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_read_and_print_as_in_go),
        cmocka_unit_test(a_full_arena_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
