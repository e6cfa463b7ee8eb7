/* Goal: what a generator answers becomes a list of items that differ as the bucket wants, or is
 * refused saying why; a list that travelled reads as the one that was sent.
 * Method: texts and what comes of them. */
#include "list/list_impl.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const char *const fields[] = { "link", "image" };
static const struct list_bucket_opts bucket = {
    .name = "b", .unique_by = fields, .unique_count = 2, .size = 3
};

static struct list_value *parse(str text)
{
    struct list_value *v = NULL;
    struct err_note note = { "" };
    err why = list_value_parse(&bucket, text, &v, &note);
    if (why != ERR_OK)
        fail_msg("%.*s: %s", STR_ARG(str_take(text, 100)), note.text);
    return v;
}

static void refuse(str text, const char *said)
{
    struct list_value *v = NULL;
    struct err_note note = { "" };
    assert_int_not_equal(list_value_parse(&bucket, text, &v, &note), ERR_OK);
    assert_null(v);
    if (strstr(note.text, said) == NULL)
        fail_msg("%.*s: \"%s\" does not say \"%s\"", STR_ARG(str_take(text, 100)), note.text, said);
}

static void unref(struct list_value *v)
{
    struct flight_value *value = &v->v;
    flight_value_unref(&value);
}

static void items_are_compact_and_in_order(void **state)
{
    (void)state;
    struct list_value *v = parse(STR(
        " [ {\"link\": 1, \"image\": \"a\"} ,\n {\"image\":\"b\", \"link\":2, \"x\":[1,null]} ] "));
    assert_int_equal(v->count, 2);
    assert_true(str_eq(v->items[0].text, STR("{\"link\":1,\"image\":\"a\"}")));
    assert_true(str_eq(v->items[1].text, STR("{\"image\":\"b\",\"link\":2,\"x\":[1,null]}")));
    assert_true(
        str_eq(v->json,
               STR("[{\"link\":1,\"image\":\"a\"},{\"image\":\"b\",\"link\":2,\"x\":[1,null]}]")));
    unref(v);
}

static void no_items_are_a_list_too(void **state)
{
    (void)state;
    struct list_value *v = parse(STR("[]"));
    assert_int_equal(v->count, 0);
    assert_true(str_eq(v->json, STR("[]")));
    unref(v);
}

static void a_position_of_the_generators_is_left_out(void **state)
{
    (void)state;
    struct list_value *v = parse(STR("[{\"position\":9,\"link\":\"l\",\"image\":\"i\"}]"));
    assert_true(str_eq(v->items[0].text, STR("{\"link\":\"l\",\"image\":\"i\"}")));
    unref(v);
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    refuse(STR("{}"), "array");
    refuse(STR("[1]"), "item 1");
    refuse(STR("[{\"link\":1,\"image\":1},[]]"), "item 2");
    refuse(STR(""), "");
    refuse(STR("[{\"link\":1"), "");
    refuse(STR("[{\"link\":\"\xff\",\"image\":1}]"), "");
    refuse(STR("[{\"link\":1,\"image\":1},{\"link\":2,\"image\":2},{\"link\":3,\"image\":3},{"
               "\"link\":4,\"image\":4}]"),
           "4 items, 3");
}

static void each_field_is_distinct_by_itself(void **state)
{
    (void)state;
    refuse(STR("[{\"link\":1,\"image\":1},{\"link\":1,\"image\":2}]"), "link");
    refuse(STR("[{\"link\":1,\"image\":1},{\"link\":2,\"image\":1}]"), "image");
    refuse(STR("[{\"link\":1}]"), "image");
    refuse(STR("[{\"link\":null,\"image\":1}]"), "link");
    refuse(
        STR("[{\"link\":{\"a\":1,\"b\":2},\"image\":1},{\"link\":{\"b\":2,\"a\":1},\"image\":2}]"),
        "link");
    unref(parse(STR(
        "[{\"link\":1,\"image\":2},{\"link\":2,\"image\":1},{\"link\":\"1\",\"image\":\"2\"}]")));
}

static void without_fields_no_two_items_are_the_same(void **state)
{
    (void)state;
    const struct list_bucket_opts free_one = { .name = "f", .size = 2 };
    struct list_value *v;
    struct err_note note;
    assert_int_equal(list_value_parse(&free_one, STR("[{},{\"a\":1}]"), &v, &note), ERR_OK);
    assert_int_equal(v->count, 2);
    assert_true(str_eq(v->items[0].text, STR("{}")));
    unref(v);
    static const char *const same[] = { "[{},{}]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]",
                                        "[{\"a\":1,\"position\":1},{\"a\":1,\"position\":2}]" };
    for (unsigned i = 0; i < COUNT_OF(same); i++) {
        assert_int_equal(list_value_parse(&free_one, str_of(same[i]), &v, &note), ERR_BAD);
        assert_non_null(strstr(note.text, "two items are the same"));
    }
}

/* An item of exactly n bytes. */
static str item_of(size_t n, char *out)
{
    static const char before[] = "[{\"link\":1,\"image\":\"", behind[] = "\"}]";
    size_t fill = n + 2 - (sizeof before - 1) - (sizeof behind - 1), at = sizeof before - 1;
    memcpy(out, before, at);
    memset(out + at, 'x', fill);
    memcpy(out + at + fill, behind, sizeof behind - 1);
    return (str){ .p = out, .n = n + 2 };
}

static void an_item_has_a_most_of_bytes(void **state)
{
    (void)state;
    static char text[LIST_ITEM_BYTES_MAX + 64];
    struct list_value *v = parse(item_of(LIST_ITEM_BYTES_MAX, text));
    assert_int_equal(v->items[0].text.n, LIST_ITEM_BYTES_MAX);
    unref(v);
    refuse(item_of(LIST_ITEM_BYTES_MAX + 1, text), "8192");
}

static void what_travelled_reads_the_same(void **state)
{
    (void)state;
    struct list_value *v =
        parse(STR("[{\"link\":\"\\u00fc/\\\"\",\"image\":1.50},{\"link\":\"b\",\"image\":true}]"));
    struct list_value *again = parse(v->json);
    assert_true(str_eq(again->json, v->json));
    assert_int_equal(again->count, v->count);
    unref(again);
    unref(v);
}

static void age_and_what_is_left_count_from_the_arrival(void **state)
{
    (void)state;
    struct list_value *v = parse(STR("[]"));
    v->at = (mono){ 1000 * NS_PER_MS };
    v->age_ms = 50;
    v->fresh_ms = 200;
    assert_int_equal(list_age_ms(v, (mono){ 1100 * NS_PER_MS }), 150);
    assert_int_equal(list_fresh_ms(v, (mono){ 1100 * NS_PER_MS }), 100);
    assert_int_equal(list_fresh_ms(v, (mono){ 1300 * NS_PER_MS }), -100);
    unref(v);
}

static void its_json_says_positions(void **state)
{
    (void)state;
    static const char *const sent[] = { "[]",
                                        "[{\"link\":1,\"image\":2},{\"link\":3,\"image\":4}]" };
    static const char *const whole[] = {
        "{\"version\":\"v\",\"size\":0,\"items\":[]}",
        "{\"version\":\"v\",\"size\":2,\"items\":[{\"position\":1,\"link\":1,\"image\":2},"
        "{\"position\":2,\"link\":3,\"image\":4}]}"
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(sent); i++) {
        struct list_value *v = parse(str_of(sent[i]));
        v->version[0] = 'v';
        v->version[1] = 0;
        assert_true(str_eq(list_json(&a, v, 0), str_of(whole[i])));
        if (v->count == 2)
            assert_true(
                str_eq(list_json(&a, v, 2), STR("{\"position\":2,\"link\":3,\"image\":4}")));
        unref(v);
    }
    struct list_bucket_opts any = { .name = "b", .size = 3 };
    struct list_value *v = NULL;
    assert_int_equal(list_value_parse(&any, STR("[{}]"), &v, NULL), ERR_OK);
    assert_true(str_eq(list_json(&a, v, 1), STR("{\"position\":1}")));
    unref(v);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_compact_and_in_order),
        cmocka_unit_test(no_items_are_a_list_too),
        cmocka_unit_test(a_position_of_the_generators_is_left_out),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(each_field_is_distinct_by_itself),
        cmocka_unit_test(without_fields_no_two_items_are_the_same),
        cmocka_unit_test(an_item_has_a_most_of_bytes),
        cmocka_unit_test(what_travelled_reads_the_same),
        cmocka_unit_test(age_and_what_is_left_count_from_the_arrival),
        cmocka_unit_test(its_json_says_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
