/* Goal: the limits on bodies, and members that say what is wrong with them. Method: small
 * bodies. */
#include "codec/json.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *parsed(const char *text)
{
    struct err_note note = { .text = "" };
    json_t *root = NULL;
    if (json_body_parse(str_of(text), &root, &note) != ERR_OK)
        fail_msg("%s: %s", text, note.text);
    return root;
}

static void bad_bodies_are_refused_with_a_place(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "1",
        "\"text\"",
        "null",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{'a':1}",
        "{\"a\":1} x",
        "{\"a\":1}{}",
        "{\"a\":1,\"a\":2}",
        "{\"x\":{\"a\":1,\"a\":1}}",
        "[\"\xff\"]",
        "[\"\xc0\x80\"]",
        "[\"\\ud800\"]",
        "[99999999999999999999]",
        "[1e999]",
        "[NaN]",
        "[01]",
        "[\"\n\"]",
        "{\"a\\u0000b\":1}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = { .text = "" };
        json_t *root = NULL;
        if (json_body_parse(str_of(bad[i]), &root, &note) != ERR_BAD)
            fail_msg("taken: %s", bad[i]);
        assert_null(root);
        assert_non_null(strstr(note.text, "line"));
    }
    json_t *root = NULL;
    assert_int_equal(json_body_parse(STR_NONE, &root, NULL), ERR_BAD);
    assert_int_equal(json_body_parse(STR("[]\0"), &root, NULL), ERR_BAD);
}

static void nesting_is_limited_outside_texts_only(void **state)
{
    (void)state;
    char text[4 * JSON_BODY_DEPTH_MAX + 8];
    struct err_note note = { .text = "" };
    json_t *root = NULL;
    for (size_t depth = JSON_BODY_DEPTH_MAX; depth <= JSON_BODY_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        err e = json_body_parse((str){ text, 2 * depth }, &root, &note);
        assert_int_equal(e, depth > JSON_BODY_DEPTH_MAX ? ERR_BAD : ERR_OK);
        json_decref(root);
        root = NULL;
    }
    assert_non_null(strstr(note.text, "nested"));
    memset(text, '[', sizeof text);
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + sizeof text - 2, "\"]", 2);
    assert_int_equal(json_body_parse((str){ text, sizeof text }, &root, NULL), ERR_OK);
    json_decref(root);
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "]]", 2); /* closing without opening is the parser's to refuse */
    assert_int_equal(json_body_parse((str){ text, sizeof text }, &root, NULL), ERR_BAD);
}

static void values_are_counted_outside_texts_before_they_take_memory(void **state)
{
    (void)state;
    struct err_note note;
    json_t *root = NULL;
    assert_int_equal(json_body_parse_few(STR("[{},{\"a,[{\":\",,,\"},3]"), 8, &root, &note),
                     ERR_OK);
    assert_int_equal(json_array_size(root), 3);
    json_decref(root);
    root = NULL;
    assert_int_equal(json_body_parse_few(STR("[{},{},{},{}]"), 8, &root, &note), ERR_LIMIT);
    assert_null(root);
    assert_string_equal(note.text, "JSON of more than 8 values");
    assert_int_equal(json_body_parse_few(STR("{\"a\":1,\"b\":2,\"c\":3}"), 3, &root, &note),
                     ERR_LIMIT);
}

static void members_come_by_type(void **state)
{
    (void)state;
    json_t *root =
        parsed("{\"s\":\"a\\u0000b\",\"t\":true,\"f\":false,\"i\":-7,\"o\":{\"x\":1},\"l\":[1,2]}");
    str s;
    bool flag = false;
    int64_t number;
    const json_t *value;
    assert_int_equal(json_body_str(root, "s", &s, NULL), ERR_OK);
    assert_true(str_eq(s, STR("a\0b")));
    assert_int_equal(json_body_bool(root, "t", &flag, NULL), ERR_OK);
    assert_true(flag);
    assert_int_equal(json_body_bool(root, "f", &flag, NULL), ERR_OK);
    assert_false(flag);
    assert_int_equal(json_body_i64(root, "i", -7, -7, &number, NULL), ERR_OK);
    assert_int_equal(number, -7);
    assert_int_equal(json_body_object(root, "o", &value, NULL), ERR_OK);
    assert_int_equal(json_object_size(value), 1);
    assert_int_equal(json_body_array(root, "l", &value, NULL), ERR_OK);
    assert_int_equal(json_array_size(value), 2);
    assert_true(str_eq(json_body_text(json_object_get(root, "s")), STR("a\0b")));
    assert_null(json_body_text(value).p);
    json_decref(root);
}

static void wrong_members_are_named(void **state)
{
    (void)state;
    json_t *root = parsed("{\"s\":1,\"i\":\"1\",\"r\":1.0,\"n\":null,\"big\":9223372036854775807}");
    struct err_note note = { .text = "" };
    str s = STR("kept");
    int64_t number = 5;
    bool flag = true;
    const json_t *value = NULL;
    assert_int_equal(json_body_str(root, "s", &s, &note), ERR_BAD);
    assert_string_equal(note.text, "s must be a text");
    assert_int_equal(json_body_str(root, "none", &s, &note), ERR_NOT_FOUND);
    assert_string_equal(note.text, "none is missing");
    assert_int_equal(json_body_str(root, "n", &s, &note), ERR_NOT_FOUND);
    assert_true(str_eq(s, STR("kept")));
    assert_int_equal(json_body_i64(root, "i", 0, 9, &number, &note), ERR_BAD);
    assert_int_equal(json_body_i64(root, "r", 0, 9, &number, &note), ERR_BAD);
    assert_int_equal(json_body_i64(root, "s", 2, 9, &number, &note), ERR_BAD);
    assert_string_equal(note.text, "s must be from 2 to 9");
    assert_int_equal(json_body_i64(root, "s", -9, 0, &number, &note), ERR_BAD);
    assert_int_equal(number, 5);
    assert_int_equal(json_body_i64(root, "big", 0, INT64_MAX, &number, &note), ERR_OK);
    assert_true(number == INT64_MAX);
    assert_int_equal(json_body_bool(root, "s", &flag, &note), ERR_BAD);
    assert_int_equal(json_body_object(root, "s", &value, &note), ERR_BAD);
    assert_int_equal(json_body_array(root, "s", &value, &note), ERR_BAD);
    assert_null(value);
    assert_int_equal(json_body_str(NULL, "s", &s, &note), ERR_NOT_FOUND);
    json_decref(root);
}

static void unknown_members_are_named(void **state)
{
    (void)state;
    static const char *const known[] = { "a", "b", NULL };
    struct err_note note = { .text = "" };
    json_t *fine = parsed("{\"b\":1,\"a\":2}"), *wrong = parsed("{\"a\":1,\"c\":2}"),
           *list = parsed("[]");
    assert_int_equal(json_body_only(fine, known, &note), ERR_OK);
    assert_int_equal(json_body_only(list, known, &note), ERR_OK);
    assert_int_equal(json_body_only(wrong, known, &note), ERR_BAD);
    assert_string_equal(note.text, "c is not known here");
    json_decref(fine);
    json_decref(wrong);
    json_decref(list);
}

static unsigned allocations_left;

static void *scarce_malloc(size_t n)
{
    return allocations_left == 0 ? NULL : (allocations_left--, malloc(n));
}

/* A client that is told its JSON is wrong drops it. */
static void want_of_memory_is_not_the_texts_fault(void **state)
{
    static const char text[] = "{\"a\":[1,2.5,\"a text\",{\"b\":null}],\"c\":\"another one\"}";
    (void)state;
    struct err_note note;
    err why = ERR_UNAVAILABLE;
    unsigned refused = 0;
    json_t *root = NULL;
    for (unsigned n = 0; why != ERR_OK; n++) {
        allocations_left = n;
        json_set_alloc_funcs(scarce_malloc, free);
        why = json_body_parse(str_of(text), &root, &note);
        json_set_alloc_funcs(malloc, free);
        if (why == ERR_OK)
            break;
        assert_int_equal(why, ERR_UNAVAILABLE);
        assert_true(++refused < 100);
    }
    assert_true(refused > 5);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_bodies_are_refused_with_a_place),
        cmocka_unit_test(nesting_is_limited_outside_texts_only),
        cmocka_unit_test(values_are_counted_outside_texts_before_they_take_memory),
        cmocka_unit_test(members_come_by_type),
        cmocka_unit_test(wrong_members_are_named),
        cmocka_unit_test(unknown_members_are_named),
        cmocka_unit_test(want_of_memory_is_not_the_texts_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
