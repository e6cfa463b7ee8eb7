/* Slices of JSON: values stay as they were sent, whatever is not JSON is refused. Method: texts and
 * their slices. */
#include "codec/json.h"
#include "lib/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void value_is_the_text_without_blanks(void **state)
{
    (void)state;
    static const char *const good[] = { "0",
                                        "-0.5e+10",
                                        "123456789012345678901234567890",
                                        "true",
                                        "false",
                                        "null",
                                        "\"\"",
                                        "\"a\\u00e9\\\"\\\\/\\n\"",
                                        "[]",
                                        "{}",
                                        "[1,[2,{\"a\":[]}],{}]",
                                        "{\"a\" : 1 , \"b\":{\"c\":[null]}}",
                                        "1E5" };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        str padded = arena_printf(&memory, " \t\r\n%s \n", good[i]), value;
        assert_true(json_slice_value(padded, &value));
        assert_int_equal(value.n, strlen(good[i]));
        assert_memory_equal(value.p, good[i], value.n);
    }
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       " ",
                                       "01",
                                       "-",
                                       "1.",
                                       ".5",
                                       "1e",
                                       "+1",
                                       "tru",
                                       "nul",
                                       "\"",
                                       "\"\\x\"",
                                       "\"\\u12g4\"",
                                       "\"\\u123\"",
                                       "\"a\nb\"",
                                       "[",
                                       "]",
                                       "[1,]",
                                       "[,1]",
                                       "[1 2]",
                                       "{",
                                       "}",
                                       "{\"a\"}",
                                       "{\"a\":}",
                                       "{a:1}",
                                       "{\"a\":1,}",
                                       "{\"a\":1 \"b\":2}",
                                       "[1}",
                                       "{\"a\":1]",
                                       "1 2",
                                       "{}{}",
                                       "'a'",
                                       "NaN",
                                       "[1]x",
                                       "\"\\",
                                       "{\"a\":1,,\"b\":2}",
                                       "[[1]",
                                       "// 1" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        str value = STR("untouched");
        assert_false(json_slice_value(str_of(bad[i]), &value));
        assert_true(str_eq(value, STR("untouched")));
    }
}

static void every_cut_of_a_value_is_refused(void **state)
{
    (void)state;
    str whole = STR("{\"a\":[1.5e3,\"\\ud83d\\ude00\",{\"b\":null}],\"c\":true}"), value;
    assert_true(json_slice_value(whole, &value));
    for (size_t n = 0; n < whole.n; n++)
        assert_false(json_slice_value(str_take(whole, n), &value));
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[2 * JSON_SLICE_DEPTH_MAX + 8];
    str value;
    memset(text, '[', JSON_SLICE_DEPTH_MAX);
    text[JSON_SLICE_DEPTH_MAX] = '1';
    memset(text + JSON_SLICE_DEPTH_MAX + 1, ']', JSON_SLICE_DEPTH_MAX);
    assert_true(json_slice_value((str){ .p = text, .n = 2 * JSON_SLICE_DEPTH_MAX + 1 }, &value));
    memset(text, '[', JSON_SLICE_DEPTH_MAX + 1);
    text[JSON_SLICE_DEPTH_MAX + 1] = '1';
    memset(text + JSON_SLICE_DEPTH_MAX + 2, ']', JSON_SLICE_DEPTH_MAX + 1);
    assert_false(json_slice_value((str){ .p = text, .n = 2 * JSON_SLICE_DEPTH_MAX + 3 }, &value));
}

static void members_come_in_order_with_decoded_names(void **state)
{
    (void)state;
    struct json_member m[3];
    unsigned count = 99;
    str value;
    assert_true(json_slice_value(STR("{\"\\u0061\" : [1, 2] ,\"b\":\"x\"}"), &value));
    assert_int_equal(json_slice_members(&memory, value, m, 3, &count), ERR_OK);
    assert_int_equal(count, 2);
    assert_true(str_eq(m[0].name, STR("a")));
    assert_true(str_eq(m[0].value, STR("[1, 2]")));
    assert_ptr_equal(json_slice_find(m, count, "b"), &m[1]);
    assert_null(json_slice_find(m, count, "c"));
    assert_int_equal(json_slice_members(&memory, STR("{}"), m, 0, &count), ERR_OK);
    assert_int_equal(count, 0);
}

static void a_name_twice_and_too_many_are_refused(void **state)
{
    (void)state;
    struct json_member m[2];
    unsigned count;
    assert_int_equal(json_slice_members(&memory, STR("{\"a\":1,\"\\u0061\":2}"), m, 2, &count),
                     ERR_BAD);
    assert_int_equal(json_slice_members(&memory, STR("{\"a\":1,\"b\":2,\"c\":3}"), m, 2, &count),
                     ERR_LIMIT);
    assert_int_equal(json_slice_members(&memory, STR("[1]"), m, 2, &count), ERR_BAD);
    assert_int_equal(json_slice_members(&memory, STR("1"), m, 2, &count), ERR_BAD);
}

static void strings_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        str text;
    } cases[] = {
        { "\"plain\"", { "plain", 5 } },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", { "\"\\/\b\f\n\r\t", 8 } },
        { "\"\\u0000x\"", { "\0x", 2 } },
        { "\"\\u00e9\\u20ac\\ud83d\\ude00\"", { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 } },
        { "\"\"", { "", 0 } },
    };
    str out;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(json_slice_string(&memory, str_of(cases[i].json), &out), ERR_OK);
        assert_true(str_eq(out, cases[i].text));
    }
    static const char *const bad[] = {
        "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\u0041\"", "\"\\ud83dx12345\"", "1",
        "\"",          "[\"a\"]"
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(json_slice_string(&memory, str_of(bad[i]), &out), ERR_BAD);
}

static void an_object_of_one_text_gives_it_and_all_else_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "{}",
                                       "[]",
                                       "{\"to\":1}",
                                       "{\"at\":\"x\"}",
                                       "{\"to\":\"\xff\"}",
                                       "{\"to\":\"x\"} x",
                                       "{\"to\":\"\\ud83d\"}" };
    str out = STR("as it was");
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(json_slice_only(&memory, str_of(bad[i]), "to", &out), ERR_BAD);
    assert_int_equal(json_slice_only(&memory, STR("{\"to\":\"x\",\"b\":1}"), "to", &out),
                     ERR_LIMIT);
    assert_true(str_eq(out, STR("as it was")));
    assert_int_equal(json_slice_only(&memory, STR(" {\"\\u0074o\": \"a\\n\"} "), "to", &out),
                     ERR_OK);
    assert_true(str_eq(out, STR("a\n")));
}

static void items_come_in_order(void **state)
{
    (void)state;
    str rest = STR("[ 1 , [2,[3]], {\"a\":[4,5]} ,\"]\" ]"), item;
    static const char *const items[] = { "1", "[2,[3]]", "{\"a\":[4,5]}", "\"]\"" };
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        assert_true(json_slice_item(&rest, &item));
        assert_true(str_eq(item, str_of(items[i])));
    }
    assert_false(json_slice_item(&rest, &item));
    static const char *const none[] = { "[]", "[ ]", "{}", "{\"a\":1}", "7", "\"x\"" };
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        rest = str_of(none[i]);
        assert_false(json_slice_item(&rest, &item));
    }
}

static void pairs_come_in_order_with_names_as_they_are_written(void **state)
{
    (void)state;
    str rest = STR("{ \"a\" : 1 , \"\\u0061\":{\"b\":[2]}, \"a\":\"}\" }"), name, value, decoded;
    static const struct {
        const char *name, *value;
    } pairs[] = { { "\"a\"", "1" }, { "\"\\u0061\"", "{\"b\":[2]}" }, { "\"a\"", "\"}\"" } };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        assert_true(json_slice_pair(&rest, &name, &value));
        assert_true(str_eq(name, str_of(pairs[i].name)));
        assert_true(str_eq(value, str_of(pairs[i].value)));
        assert_int_equal(json_slice_string(&memory, name, &decoded), ERR_OK);
        assert_true(str_eq(decoded, STR("a")));
    }
    assert_false(json_slice_pair(&rest, &name, &value));
    static const char *const none[] = { "{}", "{ }", "[]", "[\"a\",1]", "7", "\"x\"" };
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        rest = str_of(none[i]);
        assert_false(json_slice_pair(&rest, &name, &value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_is_the_text_without_blanks),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(every_cut_of_a_value_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(members_come_in_order_with_decoded_names),
        cmocka_unit_test(a_name_twice_and_too_many_are_refused),
        cmocka_unit_test(items_come_in_order),
        cmocka_unit_test(pairs_come_in_order_with_names_as_they_are_written),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(an_object_of_one_text_gives_it_and_all_else_nothing),
    };
    return cmocka_run_group_tests(tests, memory_setup, memory_teardown);
}
