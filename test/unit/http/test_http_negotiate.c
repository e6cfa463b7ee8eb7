/* Goal: header fields mean what RFC 9110 says, and ugly ones do no harm.
 * Method: the RFC's own examples and a table of malformed input; all functions are pure. */
#include "http/http.h"
#include "http/negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void accept_is(const char *field, int identity, int gzip, int zstd)
{
    struct http_accept a = http_accept_encoding(str_of(field));
    if (a.weight[CODING_IDENTITY] != identity || a.weight[CODING_GZIP] != gzip ||
        a.weight[CODING_ZSTD] != zstd)
        fail_msg("\"%s\": identity %d gzip %d zstd %d", field == NULL ? "(absent)" : field,
                 a.weight[CODING_IDENTITY], a.weight[CODING_GZIP], a.weight[CODING_ZSTD]);
}

static void accept_encoding_of_the_rfc(void **state)
{
    (void)state;
    accept_is(NULL, 1000, 0, 0);
    accept_is("", 1000, 0, 0);
    accept_is("compress, gzip", 1, 1000, 0);
    accept_is("*", 1000, 1000, 1000);
    accept_is("compress;q=0.5, gzip;q=1.0", 1, 1000, 0);
    accept_is("gzip;q=1.0, identity; q=0.5, *;q=0", 500, 1000, 0);
    accept_is("identity;q=0", 0, 0, 0);
    accept_is("*;q=0", 0, 0, 0);
    accept_is("*;q=0, gzip", 0, 1000, 0);
    accept_is("gzip, deflate, br, zstd", 1, 1000, 1000);
    accept_is("zstd;q=0.001,gzip;q=0.75", 1, 750, 1);
    accept_is("x-gzip", 1, 1000, 0);
    accept_is("GZip;Q=0.3", 1, 300, 0);
}

static void accept_encoding_survives_ugly_input(void **state)
{
    (void)state;
    accept_is(",,, ,gzip,,", 1, 1000, 0);
    accept_is("gzip;q=2", 1, 0, 0);
    accept_is("gzip;q=1.001", 1, 0, 0);
    accept_is("gzip;q=0.1234", 1, 0, 0);
    accept_is("gzip;q=", 1, 0, 0);
    accept_is("gzip;q=-1", 1, 0, 0);
    accept_is("gzip;q=.5", 1, 0, 0);
    accept_is("gzip;q=0.", 1, 0, 0);
    accept_is("gzip;level=9;q=0.5", 1, 500, 0);
    accept_is("gzippy, notgzip", 1, 0, 0);
    accept_is(";q=0.5", 1, 0, 0);
    accept_is(" \t ", 1000, 0, 0);
}

static void coding_names(void **state)
{
    (void)state;
    assert_string_equal(http_coding_name(CODING_IDENTITY), "identity");
    assert_string_equal(http_coding_name(CODING_GZIP), "gzip");
    assert_string_equal(http_coding_name(CODING_ZSTD), "zstd");
}

static void etag_is(const char *field, const char *tag, bool weak, bool wanted)
{
    if (http_etag_matches(str_of(field), str_of(tag), weak) != wanted)
        fail_msg("%s against %s, weak %d: not %d", field == NULL ? "no field" : field, tag, weak,
                 wanted);
}

static void etag_comparison_of_the_rfc(void **state)
{
    (void)state;
    etag_is("W/\"1\"", "1", true, true);
    etag_is("W/\"1\"", "1", false, false);
    etag_is("W/\"1\"", "2", true, false);
    etag_is("\"1\"", "1", true, true);
    etag_is("\"1\"", "1", false, true);
    etag_is("*", "anything", false, true);
    etag_is(" * ", "anything", true, true);
    etag_is("\"xyzzy\", \"r2d2xxxx\", \"c3piozzzz\"", "c3piozzzz", false, true);
    etag_is("W/\"xyzzy\", W/\"r2d2xxxx\", W/\"c3piozzzz\"", "r2d2xxxx", true, true);
    etag_is("\"\"", "", false, true);
    etag_is("\"a,b\",\"c\"", "a,b", false, true);
    etag_is("\"a,b\",\"c\"", "c", false, true);
}

static void bare_is(const char *tag, const char *wanted, bool weak)
{
    bool is_weak;
    str bare = http_etag_bare(str_of(tag), &is_weak);
    if (!str_eq(bare, str_of(wanted)) || is_weak != weak)
        fail_msg("%s: %.*s", tag, STR_ARG(bare));
}

static void a_bare_tag_has_no_quotes(void **state)
{
    (void)state;
    bare_is("\"a\"", "a", false);
    bare_is("W/\"a\"", "a", true);
    bare_is("a", "a", false);
    bare_is("\"a", "\"a", false);
    bare_is("a\"", "a\"", false);
    bare_is("\"", "\"", false);
    bare_is("\"\"", "", false);
    bare_is("W/", "", true);
    bare_is("", "", false);
}

static void etag_lists_that_are_malformed_match_nothing(void **state)
{
    (void)state;
    etag_is("", "a", true, false);
    etag_is(NULL, "a", true, false);
    etag_is("a", "a", true, false);
    etag_is("\"a", "a", true, false);
    etag_is("a\"", "a", true, false);
    etag_is("w/\"a\"", "a", true, false);
    etag_is("W/ \"a\"", "a", true, false);
    etag_is("\"a\"x, \"b\"", "b", true, false);
    etag_is("\"a b\"", "a b", true, false);
    etag_is("*, \"a\"", "zzz", true, false);
    etag_is("\"a\" , , \"b\"", "b", false, true);
}

static void range_is(const char *field, uint64_t size, enum http_range_kind kind, uint64_t first,
                     uint64_t last)
{
    struct http_range r = http_range(str_of(field), size);
    if (r.kind != kind || (kind == RANGE_ONE && (r.first != first || r.last != last)))
        fail_msg("%s of %llu: kind %d, %llu-%llu", field, (unsigned long long)size, (int)r.kind,
                 (unsigned long long)r.first, (unsigned long long)r.last);
}

static void range_of_the_rfc(void **state)
{
    (void)state;
    range_is("bytes=0-499", 10000, RANGE_ONE, 0, 499);
    range_is("bytes=500-999", 10000, RANGE_ONE, 500, 999);
    range_is("bytes=-500", 10000, RANGE_ONE, 9500, 9999);
    range_is("bytes=9500-", 10000, RANGE_ONE, 9500, 9999);
    range_is("bytes=0-0", 1, RANGE_ONE, 0, 0);
    range_is("bytes=0-0,-1", 10000, RANGE_NONE, 0, 0);
    range_is("bytes=10000-", 10000, RANGE_UNSATISFIABLE, 0, 0);
    range_is("bytes=-0", 10000, RANGE_UNSATISFIABLE, 0, 0);
    range_is("bytes=-20000", 10000, RANGE_ONE, 0, 9999);
    range_is("bytes=9999-20000", 10000, RANGE_ONE, 9999, 9999);
    range_is("bytes=0-0", 0, RANGE_UNSATISFIABLE, 0, 0);
    range_is("bytes=-1", 0, RANGE_NONE, 0, 0);
    range_is("BYTES=0-1", 10, RANGE_ONE, 0, 1);
    range_is("bytes= 0-1 ,", 10, RANGE_ONE, 0, 1);
    range_is("items=0-1", 10, RANGE_NONE, 0, 0);
}

static void range_survives_ugly_input(void **state)
{
    (void)state;
    static const char *const ugly[] = { "",          "bytes",      "bytes=",   "bytes=-",
                                        "bytes=5-4", "bytes=a-b",  "bytes=1",  "bytes=1-2-3",
                                        "bytes=--1", "bytes=+1-2", "bytes=,,", "bytes=1 -2",
                                        "0-1",       "bytes=0x1-", NULL };
    for (size_t i = 0; i < COUNT_OF(ugly); i++)
        range_is(ugly[i], 100, RANGE_NONE, 0, 0);
    range_is("bytes=99999999999999999999999-", 100, RANGE_UNSATISFIABLE, 0, 0);
    range_is("bytes=0-99999999999999999999999", 100, RANGE_ONE, 0, 99);
    range_is("bytes=-99999999999999999999999", 100, RANGE_ONE, 0, 99);
    range_is("bytes=18446744073709551616-18446744073709551617", UINT64_MAX, RANGE_UNSATISFIABLE, 0,
             0);
}

static void cache_control_directives(void **state)
{
    (void)state;
    assert_true(http_cache_control_has(STR("no-cache"), STR("no-cache")));
    assert_true(http_cache_control_has(STR("max-age=0, No-Cache"), STR("no-cache")));
    assert_true(
        http_cache_control_has(STR(" , no-cache=\"Set-Cookie, x\" , no-store"), STR("no-store")));
    assert_true(http_cache_control_has(STR("max-age=5"), STR("max-age")));
    assert_false(http_cache_control_has(STR("x=\"no-cache, no-cache\""), STR("no-cache")));
    assert_false(http_cache_control_has(STR("no-cachex, xno-cache"), STR("no-cache")));
    assert_false(http_cache_control_has(STR("x=\"a\\\", no-cache"), STR("no-cache")));
    assert_false(http_cache_control_has(STR_NONE, STR("no-cache")));
}

static void tokens_of_the_rfc(void **state)
{
    (void)state;
    const str every = STR("!#$%&'*+-.^_`|~09azAZ");
    assert_true(http_is_token(every));
    assert_false(http_is_token(STR("")));
    for (unsigned c = 0; c < 256; c++) {
        char text[2] = { 'a', (char)c };
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is = plain || str_find(every, (char)c) < every.n;
        assert_int_equal(http_is_token((str){ text, 2 }), is);
    }
    str rest = STR("text/html");
    assert_true(str_eq(http_token_take(&rest), STR("text")));
    assert_true(str_eq(rest, STR("/html")));
    assert_int_equal(http_token_take(&rest).n, 0);
    assert_true(str_eq(rest, STR("/html")));
}

static void prefer_wait_of_the_rfc(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        uint64_t seconds;
        bool asks;
    } each[] = {
        { "wait=5", 5, true },
        { "respond-async, WAIT = 10", 10, true },
        { "wait=7; foo=1, wait=9", 7, true },
        { "wait=x, wait=9", 9, true },
        { "wait=18446744073709551616", 0, false },
        { "wait=-1", 0, false },
        { "wait", 0, false },
        { "waits=3", 0, false },
        { "return=minimal; wait=3", 0, false },
        { "", 0, false },
        { ",,;=,", 0, false },
    };
    for (size_t i = 0; i < COUNT_OF(each); i++) {
        uint64_t seconds = 0;
        assert_int_equal(http_prefer_wait(str_of(each[i].field), &seconds), each[i].asks);
        if (each[i].asks)
            assert_int_equal(seconds, each[i].seconds);
    }
}

static void percent_round_trip(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    str bytes = { .p = all, .n = sizeof all }, out = STR_NONE;
    str encoded = http_encode(&a, bytes);
    assert_true(str_find(encoded, '/') == encoded.n);
    assert_int_equal(http_decode(&a, encoded, false, &out), ERR_OK);
    assert_true(str_eq(out, bytes));
    assert_true(str_eq(http_encode(&a, STR("a/b~-._é")), STR("a%2Fb~-._%C3%A9")));
    assert_int_equal(http_decode(&a, STR("a+b%2b"), false, &out), ERR_OK);
    assert_true(str_eq(out, STR("a+b+")));
    assert_int_equal(http_decode(&a, STR("a+b%2B"), true, &out), ERR_OK);
    assert_true(str_eq(out, STR("a b+")));
    static const char *const broken[] = { "%", "%1", "a%g0", "%0g", "%%41", "%-1", "% 1" };
    for (size_t i = 0; i < COUNT_OF(broken); i++)
        assert_int_equal(http_decode(&a, str_of(broken[i]), false, &out), ERR_BAD);
    assert_true(str_eq(out, STR("a b+")));
    arena_fini(&a);
}

static void what_needs_no_percent_is_plain(void **state)
{
    (void)state;
    assert_true(percent_is_plain(STR("AZaz09-._~")));
    static const char *const others[] = { "", "a b", "a/b", "%41", "\xc3\xa9", "a+" };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_false(percent_is_plain(str_of(others[i])));
    assert_false(percent_is_plain((str){ .p = "a\0b", .n = 3 }));
}

static void percent_past_the_ceiling_is_a_limit(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 16);
    str out = STR("as it was");
    assert_int_equal(http_decode(&a, STR("12345678901234567890"), false, &out), ERR_LIMIT);
    assert_true(str_eq(out, STR("as it was")));
    assert_null(http_encode(&a, STR("12345678901234567890")).p);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_encoding_of_the_rfc),
        cmocka_unit_test(accept_encoding_survives_ugly_input),
        cmocka_unit_test(coding_names),
        cmocka_unit_test(etag_comparison_of_the_rfc),
        cmocka_unit_test(a_bare_tag_has_no_quotes),
        cmocka_unit_test(etag_lists_that_are_malformed_match_nothing),
        cmocka_unit_test(range_of_the_rfc),
        cmocka_unit_test(range_survives_ugly_input),
        cmocka_unit_test(cache_control_directives),
        cmocka_unit_test(tokens_of_the_rfc),
        cmocka_unit_test(prefer_wait_of_the_rfc),
        cmocka_unit_test(percent_round_trip),
        cmocka_unit_test(what_needs_no_percent_is_plain),
        cmocka_unit_test(percent_past_the_ceiling_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
