/* Goal: a schema of RESTBase's is known for what it is, and headers are read whatever stands in
 * them. Method: the texts that its module writes (test/cassandra/fixtures), and wrong ones. */
#include "cassandra/restbase_impl.h"

#include "../cmocka_all.h"

#include <string.h>

#define INDEX                                                                                      \
    "\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"                                        \
    "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"desc\"},"                               \
    "{\"attribute\":\"tid\",\"type\":\"range\",\"order\":\"desc\"}]"
#define ATTRIBUTES(rev, value)                                                                     \
    "\"attributes\":{\"key\":\"string\",\"rev\":\"" rev                                            \
    "\",\"tid\":\"timeuuid\",\"value\":\"" value "\",\"headers\":\"json\"}"

static err read_schema(const char *text, struct restbase_table *out)
{
    struct err_note note = { .text = "" };
    *out = (struct restbase_table){ .keyspace = "k" };
    err why = restbase_schema_read(str_of(text), out, &note);
    assert_int_equal(why == ERR_OK, note.text[0] == '\0');
    return why;
}

static void a_schema_with_key_rev_tid_and_value_is_taken(void **state)
{
    (void)state;
    struct restbase_table t;
    assert_int_equal(
        read_schema("{" ATTRIBUTES("int", "blob") "," INDEX ",\"table\":\"parsoid_ng.html\"}", &t),
        ERR_OK);
    assert_string_equal(t.table, "parsoid_ng.html");
    assert_string_equal(t.content, "html");
    assert_string_equal(t.keyspace, "k");
    assert_true(t.has_headers);
    assert_false(t.has_type);
    assert_false(t.json);
    assert_int_equal(t.revs, RESTBASE_INT);
    assert_true(restbase_can_look(&t, 1));
    assert_int_equal(
        read_schema("{" ATTRIBUTES("varint", "json") "," INDEX ",\"table\":\"mobile\"}", &t),
        ERR_OK);
    assert_string_equal(t.content, "mobile");
    assert_true(t.json);
    assert_int_equal(t.revs, RESTBASE_VARINT);
    assert_int_equal(
        read_schema("{" ATTRIBUTES("long", "string") "," INDEX ",\"table\":\"p.section.offsets\"}",
                    &t),
        ERR_OK);
    assert_string_equal(t.content, "section.offsets");
    assert_int_equal(t.revs, RESTBASE_LONG);
    assert_int_equal(
        read_schema("{" ATTRIBUTES("string", "blob") "," INDEX ",\"table\":\"t\"}", &t), ERR_OK);
    assert_int_equal(t.revs, RESTBASE_STRING);
    assert_false(restbase_can_look(&t, 1)); /* "9" is greater than "10" */
}

/* As a table of such revisions has it, and back. */
static uint64_t rev_there_and_back(uint64_t rev, enum restbase_revs revs, enum cql_type type)
{
    struct restbase_name name = { .rev = rev, .tid = { .ticks = 5, .low = 6 } };
    struct cql_column column = { .spec = { .type = type } };
    uint64_t back = 0;
    if (!restbase_name_put(&name, revs))
        return 0;
    const struct cql_cell cell = { .column = &column,
                                   .bytes = { .p = name.rev_raw, .n = name.rev_n } };
    return restbase_rev(&cell, &back) ? back : 0;
}

static void a_name_is_written_as_the_table_has_it(void **state)
{
    (void)state;
    static const uint64_t revs[] = { 1,        127,   128,     255,       256,
                                     32767,    32768, 8388608, INT32_MAX, (uint64_t)1 << 32,
                                     INT64_MAX };
    for (size_t i = 0; i < COUNT_OF(revs); i++) {
        uint64_t rev = revs[i];
        assert_int_equal(rev_there_and_back(rev, RESTBASE_LONG, CQL_BIGINT), rev);
        assert_int_equal(rev_there_and_back(rev, RESTBASE_VARINT, CQL_VARINT), rev);
        assert_int_equal(rev_there_and_back(rev, RESTBASE_STRING, CQL_TEXT), rev);
        assert_int_equal(rev_there_and_back(rev, RESTBASE_INT, CQL_INT), rev > INT32_MAX ? 0 : rev);
    }
    struct restbase_name name = { .rev = 0 };
    assert_false(restbase_name_put(&name, RESTBASE_LONG));
    name.rev = (uint64_t)INT64_MAX + 1;
    assert_false(restbase_name_put(&name, RESTBASE_VARINT));
    name.rev = 128; /* the shortest two's complement has a sign */
    assert_true(restbase_name_put(&name, RESTBASE_VARINT));
    assert_int_equal(name.rev_n, 2);
}

static void what_is_of_another_kind_is_told_from_what_is_broken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        err why;
    } cases[] = {
        { "", ERR_BAD },
        { "1", ERR_BAD },
        { "{", ERR_BAD },
        { "{\"table\":\"a\",\"table\":\"b\"}", ERR_BAD },
        { "[]", ERR_NOT_FOUND },
        { "{}", ERR_NOT_FOUND },
        { "{\"table\":\"t\"}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("int", "blob") ",\"table\":\"t\"}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("int", "blob") "," INDEX "}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("int", "blob") "," INDEX ",\"table\":5}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("blob", "blob") "," INDEX ",\"table\":\"t\"}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("int", "set<blob>") "," INDEX ",\"table\":\"t\"}", ERR_NOT_FOUND },
        { "{\"attributes\":7," INDEX ",\"table\":\"t\"}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES("int", "blob") ",\"table\":\"t\",\"index\":[7,{}]}", ERR_NOT_FOUND },
        { "{" ATTRIBUTES(
              "int",
              "blob") ",\"table\":\"t\",\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"
                      "{\"attribute\":\"rev\",\"type\":\"hash\"}]}",
          ERR_NOT_FOUND },
        { "{" ATTRIBUTES(
              "int",
              "blob") ",\"table\":\"t\",\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"
                      "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"asc\"},"
                      "{\"attribute\":\"tid\",\"type\":\"range\",\"order\":\"desc\"}]}",
          ERR_NOT_FOUND },
        { "{" ATTRIBUTES(
              "int",
              "blob") ",\"table\":\"t\",\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"
                      "{\"attribute\":\"tid\",\"type\":\"range\"},{\"attribute\":\"rev\",\"type\":"
                      "\"range\"}]}",
          ERR_NOT_FOUND },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct restbase_table t;
        assert_int_equal(read_schema(cases[i].text, &t), cases[i].why);
        assert_string_equal(t.table, "");
    }
}

static void headers_are_texts_and_numbers_each_once(void **state)
{
    (void)state;
    struct restbase_header h[RESTBASE_HEADERS_MAX];
    unsigned count = 0;
    struct arena a;
    arena_init(&a, 1 << 20);
    str text = STR("{\"Content-Type\":\"text/html\",\"content-type\":\"two\",\"x-n\":-5.5,"
                   "\"x-o\":{\"a\":1},\"x-l\":[1],\"x-z\":null,\"x-t\":true,\"x-u\":\"\\ud800\","
                   "\"x-e\":\"a\\\"b\\u00e4\"}");
    assert_int_equal(restbase_headers_read(&a, text, h, &count), ERR_OK);
    assert_int_equal(count, 3);
    assert_true(str_eq(h[0].name, STR("content-type")) && str_eq(h[0].value, STR("text/html")));
    assert_true(str_eq(h[1].name, STR("x-n")) && str_eq(h[1].value, STR("-5.5")));
    assert_true(str_eq(h[2].name, STR("x-e")) && str_eq(h[2].value, STR("a\"b\xc3\xa4")));
    static const char *const wrong[] = { "", "[]", "\"a\"", "{\"a\":\"b\"", "{\"a\":\"\xff\"}" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(restbase_headers_read(&a, str_of(wrong[i]), h, &count), ERR_BAD);
    arena_fini(&a);
}

static void more_headers_than_are_kept_are_passed_over(void **state)
{
    (void)state;
    struct restbase_header h[RESTBASE_HEADERS_MAX];
    unsigned count = 0;
    struct arena a;
    struct buf b;
    arena_init(&a, 1 << 20);
    buf_init(&b, 1 << 16);
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%s\"n%d\":\"v\"", i == 0 ? "{" : ",", i);
    buf_put_c(&b, '}');
    assert_int_equal(restbase_headers_read(&a, buf_str(&b), h, &count), ERR_OK);
    assert_int_equal(count, RESTBASE_HEADERS_MAX);
    struct arena small;
    arena_init(&small, 16);
    assert_int_equal(restbase_headers_read(&small, buf_str(&b), h, &count), ERR_LIMIT);
    arena_fini(&small);
    buf_fini(&b);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_with_key_rev_tid_and_value_is_taken),
        cmocka_unit_test(a_name_is_written_as_the_table_has_it),
        cmocka_unit_test(what_is_of_another_kind_is_told_from_what_is_broken),
        cmocka_unit_test(headers_are_texts_and_numbers_each_once),
        cmocka_unit_test(more_headers_than_are_kept_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
