/* Goal: what configuration writes, nothing else, and no silent overflow. Method: tables, round
 * trips. */
#include "base/units.h"

#include "base/times.h"

#include "../cmocka_all.h"

static const struct {
    const char *text;
    int64_t ns;
} durations[] = {
    { "0", 0 },
    { "1ms", 1000000 },
    { "500ms", 500000000 },
    { "2s", 2000000000 },
    { "90s", 90000000000 },
    { "5m", 300000000000 },
    { "1h", 3600000000000 },
    { "7d", 604800000000000 },
    { "106751d", 9223286400000000000 },
    { "never", DURATION_NEVER },
};

static void durations_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        int64_t ns = 7;
        char text[UNITS_TEXT_BYTES];
        assert_true(units_parse_duration(str_of(durations[i].text), &ns));
        assert_true(ns == durations[i].ns);
        units_format_duration(ns, text);
        assert_string_equal(text, durations[i].text);
    }
    int64_t ns;
    assert_true(units_parse_duration(STR("0s"), &ns));
    assert_int_equal(ns, 0);
    assert_true(units_parse_duration(STR("007d"), &ns));
    assert_true(ns == 604800000000000);
}

static void other_durations_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "1",
                                       "d",
                                       "-1d",
                                       "+1d",
                                       "1 d",
                                       "1D",
                                       "1d ",
                                       "1.5h",
                                       "1w",
                                       "1us",
                                       "1h30m",
                                       "Never",
                                       "00",
                                       "106752d",
                                       "9999999999999999999999s",
                                       "18446744073709551616ms",
                                       "1sec" };
    int64_t ns = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (units_parse_duration(str_of(bad[i]), &ns))
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(ns, 7);
}

static void sizes_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        { "0", 0 },
        { "1", 1 },
        { "1023", 1023 },
        { "1k", 1024 },
        { "64k", 65536 },
        { "8M", 8388608 },
        { "1G", 1073741824 },
        { "1T", 1099511627776 },
        { "1025k", 1049600 },
        { "16777215T", 18446742974197923840u },
        { "18446744073709551615", UINT64_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t bytes = 7;
        char text[UNITS_TEXT_BYTES];
        assert_true(units_parse_size(str_of(rows[i].text), &bytes));
        assert_true(bytes == rows[i].bytes);
        units_format_size(bytes, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void other_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",     "k",    "-1",        "1K",
                                       "1m",   "1g",   "1kB",       "1 k",
                                       "1.5k", "0x10", "16777216T", "18446744073709551616" };
    uint64_t bytes = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (units_parse_size(str_of(bad[i]), &bytes))
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(bytes, 7);
}

static void odd_durations_are_shown_exactly(void **state)
{
    (void)state;
    char text[UNITS_TEXT_BYTES];
    units_format_duration(1500000, text);
    assert_string_equal(text, "1500000ns");
    units_format_duration(-2000000000, text);
    assert_string_equal(text, "-2s");
    units_format_duration(INT64_MIN, text);
    assert_string_equal(text, "-9223372036854775808ns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_both_ways),
        cmocka_unit_test(other_durations_are_refused),
        cmocka_unit_test(sizes_both_ways),
        cmocka_unit_test(other_sizes_are_refused),
        cmocka_unit_test(odd_durations_are_shown_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
