/* Goal: schemas are checked, migrated and stored by the rules of schema.h. Method: pairs of JSON
 * and verdict. */
#include "table/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *const good =
    "{\"attributes\":{\"key\":\"string\",\"rev\":\"int\",\"tid\":\"timeuuid\",\"latest\":"
    "\"timeuuid\","
    "\"body\":\"blob\"},"
    "\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},{\"attribute\":\"latest\",\"type\":"
    "\"static\"},"
    "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"desc\"},"
    "{\"attribute\":\"tid\",\"type\":\"range\",\"order\":\"desc\"}],"
    "\"options\":{\"compression\":[{\"algorithm\":\"deflate\",\"block_size\":256}],"
    "\"updates\":{\"pattern\":\"timeseries\"},"
    "\"default_time_to_live\":60,\"durability\":\"low\"}}";

#define ATTRS "\"attributes\":{\"k\":\"string\",\"r\":\"int\",\"v\":\"blob\",\"s\":\"set<int>\"}"
#define HASH "{\"attribute\":\"k\",\"type\":\"hash\"}"

#define INDEXED(indexes)                                                                           \
    "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"r\",\"type\":\"range\"},"                     \
    "{\"attribute\":\"v\",\"type\":\"static\"}],\"secondaryIndexes\":" indexes "}"

static const struct {
    const char *json, *says;
} bad[] = {
    { "[]", "object" },
    { "{", "JSON" },
    { "{}", "attributes" },
    { "{\"attributes\":{},\"index\":[]}", "attributes" },
    { "{" ATTRS "}", "index" },
    { "{" ATTRS ",\"index\":[]}", "hash" },
    { "{" ATTRS ",\"index\":{}}", "index" },
    { "{\"attributes\":{\"k\":\"strin\"},\"index\":[" HASH "]}", "unknown type: strin" },
    { "{\"attributes\":{\"k\":\"string\",\"_x\":\"int\"},\"index\":[" HASH "]}", "_x" },
    { "{" ATTRS ",\"index\":[{\"attribute\":\"r\",\"type\":\"range\"}]}", "hash" },
    { "{" ATTRS ",\"index\":[" HASH "," HASH "]}", "twice" },
    { "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"k\",\"type\":\"static\"}]}", "twice" },
    { "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"x\",\"type\":\"range\"}]}",
      "is not in attributes" },
    { "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"r\",\"type\":\"range\",\"order\":\"up\"}]}",
      "asc or desc" },
    { "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"r\",\"type\":\"proj\"}]}", "proj" },
    { "{" ATTRS ",\"index\":[" HASH ",{\"attribute\":\"v\",\"type\":\"static\"}]}",
      "range attribute" },
    { "{" ATTRS ",\"index\":[{\"attribute\":\"s\",\"type\":\"hash\"}]}", "set" },
    { "{" ATTRS ",\"index\":[" HASH "],\"secondaryIndexes\":{\"by_r\":[]}}",
      "secondaryIndexes.by_r" },
    { "{" ATTRS ",\"index\":[" HASH
      "],\"secondaryIndexes\":{\"i\":[{\"attribute\":\"x\",\"type\":\"hash\"}]}}",
      "secondaryIndexes.i" },
    { INDEXED("[]"), "secondaryIndexes must" },
    { INDEXED("{\"i\":{}}"), "i: must be an array" },
    { INDEXED("{\"\":[" HASH "]}"), "name must have" },
    { INDEXED("{\"i\":[7]}"), "is not in attributes" },
    { INDEXED("{\"i\":[{\"attribute\":\"k\",\"type\":\"range\"}]}"), "at least one hash" },
    { INDEXED("{\"i\":[" HASH "," HASH "]}"), "named twice: k" },
    { INDEXED("{\"i\":[" HASH ",{\"attribute\":\"k\",\"type\":\"proj\"}]}"), "named twice: k" },
    { INDEXED("{\"i\":[{\"attribute\":\"s\",\"type\":\"hash\"}]}"), "a set cannot" },
    { INDEXED("{\"i\":[{\"attribute\":\"v\",\"type\":\"hash\"}]}"), "static" },
    { INDEXED("{\"i\":[" HASH ",{\"attribute\":\"r\",\"type\":\"range\",\"order\":\"up\"}]}"),
      "asc or desc: r" },
    { INDEXED("{\"i\":[" HASH ",{\"attribute\":\"r\",\"type\":\"index\"}]}"), "type must be" },
    { INDEXED("{\"a\":[" HASH "],\"b\":[" HASH "],\"c\":[" HASH "],\"d\":[" HASH "],\"e\":[" HASH
              "],\"f\":[" HASH "],\"g\":[" HASH "],\"h\":[" HASH "],\"i\":[" HASH "]}"),
      "at most 8" },
    { "{" ATTRS ",\"index\":[" HASH "],\"revisionRetentionPolicy\":{\"type\":\"latest\"}}",
      "revisionRetentionPolicy" },
    { "{" ATTRS ",\"index\":[" HASH
      "],\"options\":{\"compression\":[{\"algorithm\":\"zip\",\"block_size\":64}]}}",
      "compression" },
    { "{" ATTRS ",\"index\":[" HASH
      "],\"options\":{\"compression\":[{\"algorithm\":\"lz4\",\"block_size\":32}]}}",
      "block_size" },
    { "{" ATTRS ",\"index\":[" HASH "],\"options\":{\"default_time_to_live\":-1}}",
      "default_time_to_live" },
    { "{" ATTRS ",\"index\":[" HASH "],\"options\":{\"speed\":1}}", "speed" },
    { "{" ATTRS ",\"index\":[" HASH "],\"colour\":1}", "colour" },
    { "{" ATTRS ",\"index\":[" HASH "],\"version\":0}", "version" },
    { "{" ATTRS ",\"index\":[" HASH "],\"table\":\"other\"}", "path" },
    /* texts are not cut at a NUL */
    { "{" ATTRS ",\"index\":[" HASH "],\"table\":\"t\\u0000x\"}", "path" },
    { "{\"attributes\":{\"k\":\"string\\u0000\"},\"index\":[" HASH "]}", "unknown type" },
    { "{" ATTRS ",\"index\":[{\"attribute\":\"k\",\"type\":\"hash\\u0000x\"}]}", "must be hash" },
    { INDEXED("{\"i\":[{\"attribute\":\"k\\u0000\",\"type\":\"hash\"}]}"), "is not in attributes" },
    { "{" ATTRS ",\"index\":[" HASH "],\"options\":{\"durability\":\"low\\u0000\"}}",
      "durability" },
    { "{" ATTRS ",\"index\":[" HASH "],\"revisionRetentionPolicy\":{\"type\":\"all\\u0000\"}}",
      "type must be" },
};

static struct arena arena;

static struct schema *parse(const char *json)
{
    struct err_note note = { .text = "" };
    struct schema *s = NULL;
    if (schema_parse(&arena, STR("t"), str_of(json), &s, &note) != ERR_OK)
        fail_msg("%s: %s", json, note.text);
    return s;
}

static void wrong_schemas_are_named(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = { .text = "" };
        struct schema *s;
        if (schema_parse(&arena, STR("t"), str_of(bad[i].json), &s, &note) != ERR_BAD)
            fail_msg("taken: %s", bad[i].json);
        if (strstr(note.text, bad[i].says) == NULL)
            fail_msg("%s: note is \"%s\"", bad[i].json, note.text);
    }
}

static void names_that_no_path_can_have_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = { ".", "..", "", "a/b", "a\nb" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_false(schema_name_valid(str_of(names[i])));
    assert_true(schema_name_valid(STR("...")));
    assert_true(schema_name_valid(STR("a.b")));
}

static void a_schema_is_read_and_stored(void **state)
{
    (void)state;
    struct schema *s = parse(good), *again;
    struct buf b;
    schema_first(s, 7);
    assert_int_equal(s->hash_count, 1);
    assert_int_equal(s->range_count, 2);
    assert_int_equal(s->statics_count, 1);
    assert_int_equal(s->ttl_s, 60);
    assert_true(s->attrs[s->range[0]].desc);
    buf_init(&b, 65536);
    schema_pack(&b, s);
    assert_int_equal(schema_unpack(&arena, s->name, buf_str(&b), &again), ERR_OK);
    assert_int_equal(again->number, 7);
    assert_int_equal(again->attrs_count, 5);
    assert_int_equal(again->statics_count, 1);
    assert_true(str_eq(again->text, s->text));
    assert_true(str_ends(s->text, STR("\"table\":\"t\",\"version\":1}")));
    for (size_t n = 0; n < b.n; n++) /* every cut is told */
        assert_int_equal(schema_unpack(&arena, s->name, str_take(buf_str(&b), n), &again),
                         ERR_CORRUPT);
    buf_fini(&b);
}

static struct schema *stored(const char *json)
{
    struct schema *s = parse(json);
    schema_first(s, 1);
    return s;
}

static err migrate(const char *from, const char *to, bool *changed)
{
    struct err_note note;
    return schema_migrate(stored(from), parse(to), changed, &note);
}

#define WITH(version, attrs, index)                                                                \
    "{\"version\":" version ",\"attributes\":{\"k\":\"string\",\"r\":\"int\"" attrs                \
    "},\"index\":[" HASH ",{\"attribute\":\"r\",\"type\":\"range\",\"order\":\"desc\"}" index "]}"

static void options_and_secondary_indexes_need_a_version_to_change(void **state)
{
    (void)state;
    bool changed;
#define OPTIONS(version, options, indexes)                                                         \
    "{\"version\":" version ",\"attributes\":{\"k\":\"string\"},\"index\":[" HASH                  \
    "],\"options\":{" options "},\"secondaryIndexes\":{" indexes "}}"
#define BY_K "\"by_k\":[{\"attribute\":\"k\",\"type\":\"hash\"}]"
    const char *old = OPTIONS("1", "\"durability\":\"low\",\"default_time_to_live\":5", BY_K);
    const char *turned = OPTIONS("1", "\"default_time_to_live\":5,\"durability\":\"low\"", BY_K);
    assert_int_equal(migrate(old, turned, &changed), ERR_OK);
    assert_false(changed);
    assert_int_equal(migrate(old, OPTIONS("1", "\"durability\":\"low\"", BY_K), &changed), ERR_BAD);
    assert_int_equal(migrate(old,
                             OPTIONS("1", "\"durability\":\"low\",\"default_time_to_live\":5", ""),
                             &changed),
                     ERR_BAD);
    assert_int_equal(migrate(old, OPTIONS("2", "", ""), &changed), ERR_OK);
    assert_true(changed);
}

#define STATIC_W ",{\"attribute\":\"w\",\"type\":\"static\"}"

static void migrations_keep_the_key(void **state)
{
    (void)state;
    bool changed;
    const char *old = WITH("2", ",\"v\":\"blob\"", "");
    assert_int_equal(migrate(old, old, &changed), ERR_OK);
    assert_false(changed);
    assert_int_equal(migrate(old, WITH("2", "", ""), &changed), ERR_BAD); /* same version */
    assert_int_equal(migrate(old, WITH("1", "", ""), &changed), ERR_BAD); /* lower */
    assert_int_equal(migrate(old, WITH("3", "", ""), &changed), ERR_OK);  /* attribute gone */
    assert_true(changed);
    assert_int_equal(migrate(old, WITH("3", ",\"v\":\"blob\",\"w\":\"int\"", ""), &changed),
                     ERR_OK);
    assert_int_equal(migrate(old, WITH("3", ",\"v\":\"string\"", ""), &changed),
                     ERR_BAD); /* type */
    const char *with_static = WITH("3", ",\"v\":\"blob\",\"w\":\"int\"", STATIC_W);
    assert_int_equal(migrate(old, with_static, &changed), ERR_OK);
    assert_int_equal(
        migrate(old, WITH("3", ",\"v\":\"blob\"", ",{\"attribute\":\"v\",\"type\":\"static\"}"),
                &changed),
        ERR_BAD); /* plain to static */
    assert_int_equal(
        migrate(old, WITH("3", ",\"v\":\"blob\"", ",{\"attribute\":\"v\",\"type\":\"range\"}"),
                &changed),
        ERR_BAD); /* longer key */
    assert_int_equal(
        migrate(old,
                "{\"version\":3,\"attributes\":{\"k\":\"string\",\"r\":\"int\"},\"index\":[" HASH
                ",{\"attribute\":\"r\",\"type\":\"range\"}]}",
                &changed),
        ERR_BAD); /* order */
    assert_int_equal(
        migrate(old, "{\"version\":3,\"attributes\":{\"k\":\"string\"},\"index\":[" HASH "]}",
                &changed),
        ERR_BAD); /* shorter key */
}

static void numbers_of_removed_attributes_are_not_used_again(void **state)
{
    (void)state;
    struct err_note note;
    bool changed;
    struct schema *first = stored(WITH("1", ",\"v\":\"blob\"", ""));
    uint16_t number = schema_find(first, STR("v"))->number;
    struct schema *second = parse(WITH("2", "", "")),
                  *third = parse(WITH("3", ",\"v\":\"int\"", ""));
    assert_int_equal(schema_migrate(first, second, &changed, &note), ERR_OK);
    assert_int_equal(schema_migrate(second, third, &changed, &note), ERR_OK);
    assert_true(schema_find(third, STR("v"))->number > number);
    assert_int_equal(schema_find(third, STR("k"))->number, schema_find(first, STR("k"))->number);
    assert_int_equal(third->changes, 3);
}

static int arena_up(void **state)
{
    (void)state;
    arena_init(&arena, 64 << 20);
    return 0;
}

static int arena_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_schemas_are_named),
        cmocka_unit_test(names_that_no_path_can_have_are_refused),
        cmocka_unit_test(a_schema_is_read_and_stored),
        cmocka_unit_test(options_and_secondary_indexes_need_a_version_to_change),
        cmocka_unit_test(migrations_keep_the_key),
        cmocka_unit_test(numbers_of_removed_attributes_are_not_used_again),
    };
    return cmocka_run_group_tests(tests, arena_up, arena_down);
}
