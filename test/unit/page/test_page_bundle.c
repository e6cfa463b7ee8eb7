/* bundle and headers: what a PUT of a bundle stores, and what of its headers. Method: bodies and
 * their contents. */
#include "base/buf.h"
#include "bucket/page_write.h"
#include "page/bundle.h"
#include "page/content.h"
#include "page/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct arena memory;
static struct page_put_content contents[PAGE_CONTENTS_MAX];
static unsigned count;
static struct err_note note;

static int setup(void **state)
{
    (void)state;
    arena_init(&memory, 1 << 20);
    note.text[0] = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static err parse(const char *body)
{
    return bundle_parse(&memory, str_of(body), contents, &count, &note);
}

static void text_value_and_bytes_are_stored(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"html\":{\"headers\":{\"Content-Type\":\"text/html\"},\"body\":\"<p>\\u00e9\"},"
              "\"data-parsoid\":{\"body\":{ \"n\": 1.10, \"n2\":12345678901234567890123 }},"
              "\"bytes\":{\"body\":\"AP8=\",\"encoding\":\"base64\"}}"),
        ERR_OK);
    assert_int_equal(count, 3);
    assert_true(str_eq(contents[0].name, STR("html")));
    assert_true(str_eq(contents[0].headers, STR("content-type: text/html\n")));
    assert_true(str_eq(contents[0].raw, STR("<p>\xc3\xa9")));
    assert_true(
        str_eq(contents[1].headers, STR("content-type: application/json; charset=utf-8\n")));
    assert_true(str_eq(contents[1].raw, STR("{ \"n\": 1.10, \"n2\":12345678901234567890123 }")));
    assert_true(str_eq(contents[2].headers, STR("content-type: application/octet-stream\n")));
    assert_true(str_eq(contents[2].raw, STR("\0\xff")));
}

static void what_is_no_bundle_is_refused_with_a_note(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "{}",
        "{\"html\":1}",
        "{\"html\":{}}",
        "{\"html\":{\"headers\":{}}}",
        "{\"html\":{\"body\":\"a\",\"extra\":1}}",
        "{\"html\":{\"body\":\"a\",\"encoding\":\"hex\"}}",
        "{\"html\":{\"body\":\"a=b\",\"encoding\":\"base64\"}}",
        "{\"html\":{\"body\":{},\"encoding\":\"base64\"}}",
        "{\"html\":{\"body\":\"\\ud800\"}}",
        "{\"html\":{\"body\":\"a\",\"headers\":[]}}",
        "{\"html\":{\"body\":\"a\",\"headers\":{\"a\":1}}}",
        "{\"html\":{\"body\":\"a\",\"headers\":{\"a\":\"b\\nc\"}}}",
        "{\"html\":{\"body\":\"a\",\"headers\":{\"content-encoding\":\"gzip\"}}}",
        "{\"all\":{\"body\":\"a\"}}",
        "{\"history\":{\"body\":\"a\"}}",
        "{\"HTML\":{\"body\":\"a\"}}",
        "{\"\":{\"body\":\"a\"}}",
        "{\"a/b\":{\"body\":\"a\"}}",
        "{\"html\":{\"body\":\"a\"},\"html\":{\"body\":\"b\"}}",
        "{\"a23456789012345678901234567890123\":{\"body\":\"a\"}}",
        "{\"html\":{\"body\":\"\xff\"}}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        note.text[0] = 0;
        assert_int_equal(parse(bad[i]), ERR_BAD);
        assert_true(note.text[0] != 0);
    }
}

static void one_content_too_many_is_a_limit(void **state)
{
    (void)state;
    struct buf body;
    buf_init(&body, 4096);
    for (int i = 0; i <= PAGE_CONTENTS_MAX; i++)
        buf_printf(&body, "%c\"c%d\":{\"body\":1}", i == 0 ? '{' : ',', i);
    buf_put_c(&body, '}');
    assert_int_equal(bundle_parse(&memory, buf_str(&body), contents, &count, &note), ERR_LIMIT);
    buf_fini(&body);
}

static void what_tells_of_the_writer_or_the_server_is_not_kept(void **state)
{
    (void)state;
    static const char *const dropped[] = {
        "Host",
        "Cookie",
        "Authorization",
        "User-Agent",
        "X-Client-IP",
        "x-forwarded-for",
        "X-Request-Id",
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "ETag",
        "Date",
        "Cache-Control",
        "Vary",
        "Content-Security-Policy",
        "Strict-Transport-Security",
        "Access-Control-Allow-Origin",
        "X-Frame-Options",
        "Set-Cookie",
        "If-Match",
        "Accept",
        "Accept-Encoding",
        "Server",
        "Proxy-Authorization",
        "X-Store-Thing",
        "a b",
        "",
        "a:b",
        "caf\xc3\xa9",
    };
    for (size_t i = 0; i < COUNT_OF(dropped); i++)
        assert_false(headers_may_keep(str_of(dropped[i]), HEADERS_ALL));
    static const char *const kept[] = { "content-type", "Content-Language",   "a", "b",
                                        "x-foo",        "content-disposition" };
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        assert_true(headers_may_keep(str_of(kept[i]), HEADERS_ALL));
}

static void kept_lines_are_lower_case_first_wins_and_read_back(void **state)
{
    (void)state;
    const struct http_pair in[] = { { STR("A"), STR(" one ") },
                                    { STR("Host"), STR("x") },
                                    { STR("a"), STR("two") },
                                    { STR("Empty"), STR("") } };
    str lines, value;
    assert_int_equal(headers_keep(&memory, in, COUNT_OF(in), HEADERS_ALL, &lines, &note), ERR_OK);
    assert_true(str_eq(lines, STR("a: one\nempty: \n")));
    assert_true(headers_find(lines, STR("EMPTY"), &value));
    assert_int_equal(value.n, 0);
    assert_false(headers_find(lines, STR("host"), &value));
}

static void x_store_names_win_over_the_requests_own(void **state)
{
    (void)state;
    const struct http_pair in[] = { { STR("Content-Type"), STR("text/plain") },
                                    { STR("X-Store-Etag"), STR("\"1/2\"") },
                                    { STR("X-Store-Content-Type"), STR("text/html") },
                                    { STR("B"), STR("x") },
                                    { STR("x-store-b"), STR("y") } };
    str lines;
    assert_int_equal(headers_keep(&memory, in, COUNT_OF(in), HEADERS_X_STORE, &lines, &note),
                     ERR_OK);
    assert_true(str_eq(lines, STR("content-type: text/html\nb: y\n")));
    assert_int_equal(headers_keep(&memory, in, 1, HEADERS_X_STORE, &lines, &note), ERR_OK);
    assert_true(str_eq(lines, STR("content-type: text/plain\n")));
}

static void headers_have_limits(void **state)
{
    (void)state;
    struct http_pair in[PAGE_HEADERS_MAX + 1];
    for (unsigned i = 0; i <= PAGE_HEADERS_MAX; i++)
        in[i] = (struct http_pair){ .name = arena_printf(&memory, "n%u", i), .value = STR("v") };
    str lines = STR("untouched");
    assert_int_equal(headers_keep(&memory, in, PAGE_HEADERS_MAX, HEADERS_ALL, &lines, &note),
                     ERR_OK);
    assert_int_equal(headers_keep(&memory, in, PAGE_HEADERS_MAX + 1, HEADERS_ALL, &lines, &note),
                     ERR_LIMIT);
    char *big = arena_alloc(&memory, PAGE_HEADERS_BYTES_MAX);
    assert_non_null(big);
    memset(big, 'x', PAGE_HEADERS_BYTES_MAX);
    in[0].value = (str){ .p = big, .n = PAGE_HEADERS_BYTES_MAX - 5 };
    assert_int_equal(headers_keep(&memory, in, 1, HEADERS_ALL, &lines, &note), ERR_OK);
    in[0].value.n++;
    assert_int_equal(headers_keep(&memory, in, 1, HEADERS_ALL, &lines, &note), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_value_and_bytes_are_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_bundle_is_refused_with_a_note, setup, teardown),
        cmocka_unit_test_setup_teardown(one_content_too_many_is_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(what_tells_of_the_writer_or_the_server_is_not_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(kept_lines_are_lower_case_first_wins_and_read_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(x_store_names_win_over_the_requests_own, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_have_limits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
