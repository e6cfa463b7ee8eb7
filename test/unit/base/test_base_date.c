/* Goal: the three HTTP forms and RFC 3339 both ways over the whole range, and nothing else taken.
 * Method: known instants, timegm as the judge for random ones, tables of bad texts. */
#include "base/date.h"

#include "base/rng.h"

#include "../cmocka_all.h"

#include <string.h>
#include <time.h>

static void rfc3339_is_read_to_the_nanosecond(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "1970-01-01t00:00:00z", 0 },
        { "1970-01-01 00:00:00Z", 0 },
        { "2026-01-01T00:00:00.123456789Z", 1767225600123456789 },
        { "2026-01-01T00:00:00.1234567899Z", 1767225600123456789 },
        { "2026-01-01T00:00:00.5Z", 1767225600500000000 },
        { "2026-01-01T02:00:00+02:00", 1767225600000000000 },
        { "2025-12-31T18:30:00-05:30", 1767225600000000000 },
        { "2016-12-31T23:59:60Z", 1483228800000000000 },
        { "2000-02-29T12:00:00Z", 951825600000000000 },
        { "1969-12-31T23:59:59.999999999Z", -1 },
        { "1677-09-21T00:12:43.145224192Z", INT64_MIN },
        { "2262-04-11T23:47:16.854775807Z", INT64_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ns = 7;
        if (!date_parse_rfc3339(str_of(rows[i].text), &ns) || ns != rows[i].ns)
            fail_msg("%s gives %lld", rows[i].text, (long long)ns);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00Z",
        "2026-1-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+01:60",
        "2026-01-01T00:00:00Zx",
        " 2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z ",
        "0000-01-01T00:00:00Z",
        "-026-01-01T00:00:00Z",
        "+2026-01-01T00:00:00Z",
        "2026-01-01T0a:00:00Z",
        "2026/01/01T00:00:00Z",
        "1677-09-21T00:12:43.145224191Z",
        "2262-04-11T23:47:16.854775808Z",
        "9999-12-31T23:59:59Z",
    };
    int64_t ns = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (date_parse_rfc3339(str_of(bad[i]), &ns))
            fail_msg("taken: %s", bad[i]);
    assert_false(date_parse_rfc3339(STR("2026-01-01T00:00:00Z\0"), &ns));
    assert_int_equal(ns, 7);
}

static void all_three_http_forms_are_one_instant(void **state)
{
    (void)state;
    static const char *const same[] = { "Sun, 06 Nov 1994 08:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994" };
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        int64_t ns = 0;
        assert_true(date_parse_http(str_of(same[i]), &ns));
        assert_true(ns == 784111777000000000);
        assert_true(date_parse_any(str_of(same[i]), &ns));
    }
    int64_t ns;
    assert_true(date_parse_http(STR("Thursday, 01-Jan-26 00:00:00 GMT"), &ns));
    assert_true(ns == 1767225600000000000);
    assert_true(date_parse_http(STR("Wed Nov 16 08:49:37 1994"), &ns));
}

static void other_http_dates_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Xxx, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 9994 08:49:37 GMT",
    };
    int64_t ns = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (date_parse_http(str_of(bad[i]), &ns))
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(ns, 7);
}

static void any_takes_whole_seconds_too(void **state)
{
    (void)state;
    int64_t ns = 7;
    assert_false(date_parse_any(STR(""), &ns));
    assert_false(date_parse_any(STR("9223372037"), &ns));
    assert_false(date_parse_any(STR("1.5"), &ns));
    assert_int_equal(ns, 7);
    assert_true(date_parse_any(STR("1767225600"), &ns));
    assert_true(ns == 1767225600000000000);
    assert_true(date_parse_any(STR("-1"), &ns));
    assert_true(ns == -1000000000);
    assert_true(date_parse_any(STR("2026-01-01T00:00:00Z"), &ns));
    assert_true(ns == 1767225600000000000);
}

static void what_systems_tell_may_have_a_fraction(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",     ".5",   "1.",   "1.5.5", "1.x",           "1e9",
        "1.-5", "-1.5", "1 .5", "true",  "1767225600000", "20260101000000"
    };
    int64_t ns = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (date_parse_told(str_of(bad[i]), &ns))
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(ns, 7);
    assert_true(date_parse_told(STR("1767225600"), &ns));
    assert_true(ns == 1767225600000000000);
    assert_true(date_parse_told(STR("1767225601.987654321987"), &ns));
    assert_true(ns == 1767225601000000000);
    assert_true(date_parse_told(STR("2026-01-01T00:00:00.5Z"), &ns));
    assert_true(ns == 1767225600500000000);
}

static void formats_cut_and_never_round(void **state)
{
    (void)state;
    char ms[DATE_RFC3339_BYTES + 1], ns[DATE_RFC3339_BYTES + 1], http[DATE_HTTP_BYTES + 1];
    date_format_ms(1767225600123999999, ms);
    assert_string_equal(ms, "2026-01-01T00:00:00.123Z");
    date_format_ns(1767225600123999999, ns);
    assert_string_equal(ns, "2026-01-01T00:00:00.123999999Z");
    assert_int_equal(strlen(ns), DATE_RFC3339_BYTES);
    date_format_http(1767225600123999999, http);
    assert_string_equal(http, "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_int_equal(strlen(http), DATE_HTTP_BYTES);
    date_format_ms(-1, ms);
    assert_string_equal(ms, "1969-12-31T23:59:59.999Z");
    date_format_http(-1, http);
    assert_string_equal(http, "Wed, 31 Dec 1969 23:59:59 GMT");
}

static void random_instants_come_back_and_agree_with_timegm(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1582);
    for (unsigned i = 0; i < 50000; i++) {
        int64_t ns = (int64_t)rng_next(&r), back;
        char text[DATE_RFC3339_BYTES + 1], http[DATE_HTTP_BYTES + 1], want[DATE_HTTP_BYTES + 1];
        date_format_ns(ns, text);
        assert_true(date_parse_rfc3339(str_of(text), &back));
        assert_true(back == ns);
        time_t s = ns / 1000000000 - (ns % 1000000000 < 0);
        struct tm tm;
        assert_non_null(gmtime_r(&s, &tm));
        assert_int_equal(strftime(want, sizeof want, "%a, %d %b %Y %H:%M:%S GMT", &tm),
                         DATE_HTTP_BYTES);
        date_format_http(ns, http);
        assert_string_equal(http, want);
        if (s > INT64_MIN / 1000000000) { /* else the whole second is out of range */
            assert_true(date_parse_http(str_of(http), &back));
            assert_true(back == s * 1000000000);
        }
    }
}

static void later_years_are_the_last_second_of_all(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t s;
    } rows[] = {
        { "1970-01-01T00:00:00.999Z", 0 },          { "1969-12-31T23:59:59Z", -1 },
        { "2261-12-31T23:59:58Z", DATE_S_MAX - 1 }, { "2261-12-31T23:59:59Z", DATE_S_MAX },
        { "2262-01-01T00:00:00Z", DATE_S_MAX },     { "9999-12-31T23:59:60-23:59", DATE_S_MAX },
    };
    int64_t s = 7;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(date_parse_rfc3339_s(str_of(rows[i].text), &s));
        assert_int_equal(s, rows[i].s);
    }
    assert_false(date_parse_rfc3339_s(STR("2999-02-29T00:00:00Z"), &s));
    assert_false(date_parse_rfc3339_s(STR("2026-01-01"), &s));
    assert_int_equal(s, DATE_S_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc3339_is_read_to_the_nanosecond),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(all_three_http_forms_are_one_instant),
        cmocka_unit_test(other_http_dates_are_refused),
        cmocka_unit_test(any_takes_whole_seconds_too),
        cmocka_unit_test(later_years_are_the_last_second_of_all),
        cmocka_unit_test(what_systems_tell_may_have_a_fraction),
        cmocka_unit_test(formats_cut_and_never_round),
        cmocka_unit_test(random_instants_come_back_and_agree_with_timegm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
