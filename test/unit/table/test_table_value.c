/* Goal: every type takes what it should from JSON, gives it back, and refuses the rest by name.
 * Method: rows of type, JSON in, JSON out (NULL: refused). */
#include "table/value.h"

#include "table/decimal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct one {
    const char *type, *in, *out;
};

static const struct one ones[] = {
    { "string", "\"a\\u0000\\\"\\n\"", "\"a\\u0000\\\"\\n\"" },
    { "string", "\"\"", "\"\"" },
    { "string", "1", NULL },
    { "blob", "\"blob\"", "{\"base64\":\"YmxvYg==\"}" },
    { "blob", "{\"base64\":\"/+8=\"}", "{\"base64\":\"/+8=\"}" },
    { "blob", "{\"base64\":\"\"}", "{\"base64\":\"\"}" },
    { "blob", "{\"base64\":\"***\"}", NULL },
    { "blob", "{\"base64\":\"YQ==\",\"x\":1}", NULL },
    { "blob", "7", NULL },
    { "int", "-1", "-1" },
    { "int", "2147483647", "2147483647" },
    { "int", "2147483648", NULL },
    { "int", "1.5", NULL },
    { "int", "\"1\"", "1" },
    { "int", "\"-2147483648\"", "-2147483648" },
    { "int", "\"2147483648\"", NULL },
    { "int", "\"1 \"", NULL },
    { "int", "\"\"", NULL },
    { "long", "\"9223372036854775807\"", "\"9223372036854775807\"" },
    { "long", "-9223372036854775808", "\"-9223372036854775808\"" },
    { "long", "\"9223372036854775808\"", NULL },
    { "long", "\"+1\"", NULL },
    { "varint", "-4503599627370496", "\"-4503599627370496\"" },
    { "varint", "\"123456789012345678901234567890\"", "\"123456789012345678901234567890\"" },
    { "varint", "\"1000\"", "\"1000\"" },
    { "varint", "0", "\"0\"" },
    { "varint", "\"1.5\"", NULL },
    { "varint", "\"1e3\"", NULL },
    { "varint", "1.5", NULL },
    { "varint", "\"\"", NULL },
    { "decimal", "\"1.2\"", "\"1.2\"" },
    { "decimal", "\"1.50\"", "\"1.50\"" },
    { "decimal", "\"-0.000123\"", "\"-0.000123\"" },
    { "decimal", "\"100\"", "\"100\"" },
    { "decimal", "\"1e5\"", "\"1E+5\"" },
    { "decimal", "\"1e-9\"", "\"1E-9\"" },
    { "decimal", "\"0.00\"", "\"0.00\"" },
    { "decimal", "\"-0\"", "\"0\"" },
    { "decimal", "\".5\"", "\"0.5\"" },
    { "decimal", "1.25", "\"1.25\"" },
    { "decimal", "7", "\"7\"" },
    { "decimal", "\"1.2.3\"", NULL },
    { "decimal", "\"1e\"", NULL },
    { "decimal", "\"1e99999999\"", NULL },
    { "decimal", "\"abc\"", NULL },
    { "decimal", "\".\"", NULL },
    { "double", "1.2", "1.2" },
    { "double", "-0.1", "-0.1" },
    { "double", "1e300", "1e+300" },
    { "double", "3", "3" },
    { "double", "-0.0", "0" },
    { "float", "-0.0", "0" },
    { "double", "0.30000000000000004", "0.30000000000000004" },
    { "double", "\"1\"", NULL },
    { "float", "-1.1", "-1.1" },
    { "float", "16777217", "16777216" },
    { "float", "1e39", NULL },
    { "boolean", "true", "true" },
    { "boolean", "false", "false" },
    { "boolean", "0", NULL },
    { "uuid", "\"D6938370-c996-4def-96fb-6af7ba9b6f72\"",
      "\"d6938370-c996-4def-96fb-6af7ba9b6f72\"" },
    { "uuid", "\"d6938370c9964def96fb6af7ba9b6f72\"", NULL },
    { "uuid", "\"d6938370-c996-4def-96fb-6af7ba9b6f7g\"", NULL },
    { "timeuuid", "\"c931ec94-6c31-11e4-b6d0-0f67e29867e0\"",
      "\"c931ec94-6c31-11e4-b6d0-0f67e29867e0\"" },
    { "timeuuid", "\"d6938370-c996-4def-96fb-6af7ba9b6f72\"", NULL },
    { "timestamp", "\"2014-11-14T19:10:40.912Z\"", "\"2014-11-14T19:10:40.912Z\"" },
    { "timestamp", "\"2013-08-08 18:43:58-0700\"", "\"2013-08-09T01:43:58.000Z\"" },
    { "timestamp", "\"2014-11-14\"", "\"2014-11-14T00:00:00.000Z\"" },
    { "timestamp", "0", "\"1970-01-01T00:00:00.000Z\"" },
    { "timestamp", "-1", "\"1969-12-31T23:59:59.999Z\"" },
    { "timestamp", "\"yesterday\"", NULL },
    { "timestamp", "\"2014-13-14T19:10:40Z\"", NULL },
    { "json", "{\"foo\":\"bar\",\"a\":[1,2.5,null,true]}",
      "{\"a\":[1,2.5,null,true],\"foo\":\"bar\"}" },
    { "json", "[{\"b\":{\"d\":1,\"c\":{}},\"ab\":2,\"a\":3}]",
      "[{\"a\":3,\"ab\":2,\"b\":{\"c\":{},\"d\":1}}]" },
    { "json", "\"text\"", "\"text\"" },
    { "json", "[-0.0,-0,1.0]", "[0,0,1]" },
    { "set<string>", "[\"b\",\"a\",\"b\"]", "[\"a\",\"b\"]" },
    { "set<int>", "[123456,2567,-5]", "[-5,2567,123456]" },
    { "set<varint>", "[-4503599627370496,12233232]", "[\"-4503599627370496\",\"12233232\"]" },
    { "set<boolean>", "[true,false,true]", "[false,true]" },
    { "set<blob>", "[\"x\"]", "[{\"base64\":\"eA==\"}]" },
    { "set<json>", "[{\"b\":1},{\"a\":1}]", "[{\"a\":1},{\"b\":1}]" },
    { "set<json>", "[{\"b\":1,\"a\":2},{\"a\":2,\"b\":1}]", "[{\"a\":2,\"b\":1}]" },
    { "set<string>", "[]", "null" },
    { "set<string>", "[null]", NULL },
    { "set<string>", "\"a\"", NULL },
    { "set<int>", "[1,\"2\"]", "[1,2]" },
    { "set<int>", "[1,\"two\"]", NULL },
    { "string", "null", "null" },
};

static json_t *load(const char *text)
{
    json_error_t wrong;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
    if (json == NULL)
        fail_msg("%s: %s", text, wrong.text);
    return json;
}

static void check_one(struct arena *a, const struct one *o)
{
    struct table_kind kind;
    struct err_note note = { .text = "" };
    str stored = STR_NONE;
    json_t *json = load(o->in);
    assert_true(value_kind_parse(str_of(o->type), &kind));
    err e = value_from_json(a, kind, json, &stored, &note);
    json_decref(json);
    if (o->out == NULL) {
        if (e == ERR_OK)
            fail_msg("%s took %s", o->type, o->in);
        assert_true(strlen(note.text) > 0);
        return;
    }
    if (e != ERR_OK)
        fail_msg("%s refused %s: %s", o->type, o->in, note.text);
    struct buf b;
    buf_init(&b, 4096);
    assert_int_equal(value_to_json(&b, kind, stored), ERR_OK);
    if (!str_eq(buf_str(&b), str_of(o->out)))
        fail_msg("%s %s gave %.*s", o->type, o->in, STR_ARG(buf_str(&b)));
    buf_fini(&b);
}

static void values_come_back_or_are_refused(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    for (unsigned i = 0; i < COUNT_OF(ones); i++)
        check_one(&a, &ones[i]);
    arena_fini(&a);
}

static void a_number_of_too_many_digits_names_its_limit(void **state)
{
    (void)state;
    struct arena a;
    char digits[DECIMAL_DIGITS_MAX + 2];
    memset(digits, '7', sizeof digits);
    arena_init(&a, 1 << 20);
    for (size_t n = DECIMAL_DIGITS_MAX; n <= DECIMAL_DIGITS_MAX + 1; n++) {
        json_t *json = json_stringn(digits, n);
        struct err_note note = { .text = "" };
        str stored;
        err e =
            value_from_json(&a, (struct table_kind){ .type = TYPE_VARINT }, json, &stored, &note);
        assert_int_equal(e, n > DECIMAL_DIGITS_MAX ? ERR_BAD : ERR_OK);
        assert_true((strstr(note.text, "2048 digits (DECIMAL_DIGITS_MAX)") != NULL) ==
                    (e != ERR_OK));
        json_decref(json);
    }
    arena_fini(&a);
}

static void equal_decimals_are_one_element(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    str stored;
    struct table_kind kind = { .type = TYPE_DECIMAL, .set = true };
    json_t *json = load("[\"1.6\",\"1.2\",\"1.20\"]");
    arena_init(&a, 1 << 20);
    buf_init(&b, 4096);
    assert_int_equal(value_from_json(&a, kind, json, &stored, NULL), ERR_OK);
    assert_int_equal(value_to_json(&b, kind, stored), ERR_OK);
    bool either = str_eq(buf_str(&b), STR("[\"1.2\",\"1.6\"]")) ||
                  str_eq(buf_str(&b), STR("[\"1.20\",\"1.6\"]"));
    assert_true(either);
    json_decref(json);
    buf_fini(&b);
    arena_fini(&a);
}

/* The caller names the limit, once and for all types. */
static void a_full_arena_has_no_note(void **state)
{
    (void)state;
    static const char *const types[] = { "string", "blob", "varint", "decimal", "json" };
    json_t *json = json_string("12");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct arena a;
        struct table_kind kind;
        struct err_note note = { .text = "" };
        str value;
        arena_init(&a, 1);
        assert_true(value_kind_parse(str_of(types[i]), &kind));
        assert_int_equal(value_from_json(&a, kind, json, &value, &note), ERR_LIMIT);
        assert_string_equal(note.text, "");
        arena_fini(&a);
    }
    json_decref(json);
}

static str decimals(struct arena *a, const char *text)
{
    str stored;
    json_t *json = load(text);
    struct table_kind kind = { .type = TYPE_DECIMAL, .set = true };
    assert_int_equal(value_from_json(a, kind, json, &stored, NULL), ERR_OK);
    json_decref(json);
    return stored;
}

static void sets_of_equal_decimals_are_equal(void **state)
{
    (void)state;
    struct arena a;
    struct table_kind kind = { .type = TYPE_DECIMAL, .set = true };
    arena_init(&a, 1 << 20);
    str set = decimals(&a, "[\"0\",\"1.5\",\"-2.0\"]");
    assert_int_equal(value_cmp(kind, set, decimals(&a, "[\"-2\",\"0.0\",\"1.50\"]")), 0);
    static const char *const others[] = { "[]",        "[0,1.5]", "[0,1.51,-2.0]", "[0,1.5,-2.0,7]",
                                          "[0,1.5,7]", "[-2]" };
    for (unsigned i = 0; i < COUNT_OF(others); i++)
        assert_int_not_equal(value_cmp(kind, set, decimals(&a, others[i])), 0);
    assert_int_not_equal(value_cmp(kind, set, STR("\0\0\0\7\1")), 0);
    arena_fini(&a);
}

static void kinds_have_names(void **state)
{
    (void)state;
    struct table_kind kind;
    char name[VALUE_KIND_BYTES];
    assert_true(value_kind_parse(STR("set<timestamp>"), &kind));
    value_kind_name(kind, name);
    assert_string_equal(name, "set<timestamp>");
    assert_false(value_kind_parse(STR("set<set<int>>"), &kind));
    assert_false(value_kind_parse(STR("set<>"), &kind));
    assert_false(value_kind_parse(STR("Int"), &kind));
    assert_false(value_kind_parse(STR(""), &kind));
}

static void damaged_values_are_told(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    assert_int_equal(value_to_json(&b, (struct table_kind){ TYPE_INT, false }, STR("abc")),
                     ERR_CORRUPT);
    assert_int_equal(value_to_json(&b, (struct table_kind){ TYPE_STRING, false }, STR("\xff")),
                     ERR_CORRUPT);
    assert_int_equal(value_to_json(&b, (struct table_kind){ TYPE_DECIMAL, false }, STR("\x02")),
                     ERR_CORRUPT);
    assert_int_equal(value_to_json(&b, (struct table_kind){ TYPE_VARINT, false }, STR("")),
                     ERR_CORRUPT);
    assert_int_equal(value_to_json(&b, (struct table_kind){ TYPE_INT, true }, STR("\0\0\0\4\1\2")),
                     ERR_CORRUPT);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_or_are_refused),
        cmocka_unit_test(a_number_of_too_many_digits_names_its_limit),
        cmocka_unit_test(equal_decimals_are_one_element),
        cmocka_unit_test(a_full_arena_has_no_note),
        cmocka_unit_test(sets_of_equal_decimals_are_equal),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(damaged_values_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
