/* Goal: what is written is JSON, reads back as it was, and is the same bytes everywhere. Method:
 * each byte on its own and random texts, read back by jansson and by our own reader. */
#include "codec/json_text.h"

#include "base/rng.h"
#include "base/utf8.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void escapes_are_these(void **state)
{
    (void)state;
    static const struct {
        str text, json;
    } each[] = {
        { STR_INIT(""), STR_INIT("\"\"") },
        { STR_INIT("a/b"), STR_INIT("\"a/b\"") },
        { STR_INIT("\"\\"), STR_INIT("\"\\\"\\\\\"") },
        { STR_INIT("\b\f\n\r\t"), STR_INIT("\"\\b\\f\\n\\r\\t\"") },
        { STR_INIT("\0\x01\x1f\x7f"), STR_INIT("\"\\u0000\\u0001\\u001f\\u007f\"") },
        { STR_INIT("\xc3\xa9\xe2\x80\xa8"), STR_INIT("\"\xc3\xa9\xe2\x80\xa8\"") },
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(each); i++) {
        assert_int_equal(json_text_size(each[i].text), each[i].json.n);
        assert_true(str_eq(json_text_quote(&a, each[i].text), each[i].json));
        struct buf b;
        buf_init(&b, 1 << 16);
        json_text_append(&b, each[i].text);
        assert_true(str_eq(buf_str(&b), each[i].json));
        buf_fini(&b);
    }
    arena_fini(&a);
}

static void what_is_no_utf8_is_replaced_byte_by_byte(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    assert_true(str_eq(json_text_quote(&a, STR("a\xff\xc3z\xed\xa0\x80")),
                       STR("\"a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"")));
    assert_true(str_eq(json_text_quote(&a, STR("\xe2\x80")), STR("\"\xef\xbf\xbd\xef\xbf\xbd\"")));
    arena_fini(&a);
    arena_init(&a, 0);
    assert_null(json_text_quote(&a, STR("x")).p);
    assert_null(json_text_quote(&a, STR("\xff")).p);
    arena_fini(&a);
}

static void random_texts_are_read_back_by_two_readers(void **state)
{
    (void)state;
    static const uint32_t ends[] = { 0x80, 0x800, 0xd800 };
    struct rng r;
    rng_init(&r, 8259);
    for (int round = 0; round < 2000; round++) {
        struct arena a;
        char bytes[256];
        str text = { .p = bytes, .n = 0 }, back;
        arena_init(&a, 1 << 16);
        for (uint64_t left = rng_below(&r, 60); left > 0; left--)
            text.n += utf8_put(bytes + text.n, (uint32_t)rng_below(&r, ends[rng_below(&r, 3)]));
        str json = json_text_quote(&a, text);
        json_t *read = json_loadb(json.p, json.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(read);
        assert_true(str_eq((str){ json_string_value(read), json_string_length(read) }, text));
        json_decref(read);
        assert_int_equal(json_text_unescape(&a, str_take(str_skip(json, 1), json.n - 2), &back),
                         ERR_OK);
        assert_true(str_eq(back, text));
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_these),
        cmocka_unit_test(what_is_no_utf8_is_replaced_byte_by_byte),
        cmocka_unit_test(random_texts_are_read_back_by_two_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
