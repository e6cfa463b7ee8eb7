/* Goal: every type is taken and printed as CQL writes it, and bytes that are no type are refused
 * wherever they go wrong. Method: tables of bytes, and each good one cut at every byte. */
#include "../cmocka_all.h"
#include "cql/value.h"

#include <stdlib.h>
#include <string.h>

struct spec_case {
    str bytes;
    const char *text;
};
static const struct spec_case fine[] = {
    { STR_INIT("\0\1"), "ascii" },
    { STR_INIT("\0\2"), "bigint" },
    { STR_INIT("\0\3"), "blob" },
    { STR_INIT("\0\4"), "boolean" },
    { STR_INIT("\0\5"), "counter" },
    { STR_INIT("\0\6"), "decimal" },
    { STR_INIT("\0\7"), "double" },
    { STR_INIT("\0\10"), "float" },
    { STR_INIT("\0\11"), "int" },
    { STR_INIT("\0\13"), "timestamp" },
    { STR_INIT("\0\14"), "uuid" },
    { STR_INIT("\0\15"), "text" },
    { STR_INIT("\0\16"), "varint" },
    { STR_INIT("\0\17"), "timeuuid" },
    { STR_INIT("\0\20"), "inet" },
    { STR_INIT("\0\21"), "date" },
    { STR_INIT("\0\22"), "time" },
    { STR_INIT("\0\23"), "smallint" },
    { STR_INIT("\0\24"), "tinyint" },
    { STR_INIT("\0\25"), "duration" },
    { STR_INIT("\0\0\0\3a.B"), "'a.B'" },
    { STR_INIT("\0\x20\0\x09"), "list<int>" },
    { STR_INIT("\0\x22\0\x0d"), "set<text>" },
    { STR_INIT("\0\x21\0\x0d\0\x20\0\x02"), "map<text, list<bigint>>" },
    { STR_INIT("\0\x31\0\3\0\x09\0\x21\0\x0d\0\x0d\0\x0c"), "tuple<int, map<text, text>, uuid>" },
    { STR_INIT("\0\x31\0\0"), "tuple<>" },
    { STR_INIT("\0\x30\0\1k\0\4addr\0\2\0\1a\0\x09\0\1b\0\x20\0\x0d"), "addr" },
    { STR_INIT("\0\x21\0\x30\0\1k\0\1u\0\1\0\1a\0\x31\0\1\0\x0d\0\x22\0\0\0\1X"),
      "map<u, set<'X'>>" },
    { STR_INIT("\0\x20\0\x20\0\x20\0\x20\0\x20\0\x20\0\x20\0\x09"),
      "list<list<list<list<list<list<list<int>>>>>>>" },
};

static char *exactly(str s)
{
    char *p = malloc(s.n == 0 ? 1 : s.n); /* so that ASan sees a read behind the end */
    assert_non_null(p);
    memcpy(p, s.p, s.n);
    return p;
}

static void each_type_is_taken_whole_and_printed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        struct cql_spec spec;
        struct cursor c = { .rest = fine[i].bytes };
        assert_true(cql_spec_take(&c, &spec));
        assert_true(cursor_done(&c));
        assert_int_equal(spec.rest.n, fine[i].bytes.n - 2);
        struct buf text;
        buf_init(&text, 1024);
        cql_spec_print(&spec, &text);
        buf_put_c(&text, 0);
        assert_string_equal(text.p, fine[i].text);
        buf_fini(&text);
    }
}

static void what_is_behind_a_type_stays(void **state)
{
    (void)state;
    struct cursor c = { .rest = STR("\0\x20\0\x0d\0\x09\x55") };
    struct cql_spec spec;
    assert_true(cql_spec_take(&c, &spec));
    assert_int_equal(spec.type, CQL_LIST);
    assert_true(cql_spec_take(&c, &spec));
    assert_int_equal(spec.type, CQL_INT);
    assert_int_equal(c.rest.n, 1);
}

static void a_type_that_is_cut_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fine); i++)
        for (size_t n = 0; n < fine[i].bytes.n; n++) {
            char *p = exactly(str_take(fine[i].bytes, n));
            struct cursor c = { .rest = { .p = p, .n = n } };
            struct cql_spec spec;
            assert_false(cql_spec_take(&c, &spec));
            assert_true(c.failed);
            free(p);
        }
}

static void what_is_no_type_is_refused(void **state)
{
    (void)state;
    static const str bad[] = {
        STR_INIT("\0\x0a"),         /* no number of a type */
        STR_INIT("\0\x16"),         /* the first behind those that hold none */
        STR_INIT("\0\x23"),         /* behind set */
        STR_INIT("\0\x32"),         /* behind tuple */
        STR_INIT("\xff\xff"),       /* the greatest */
        STR_INIT("\0\x20\0\x0a"),   /* inside of another */
        STR_INIT("\0\x31\xff\xff"), /* more types than bytes */
        STR_INIT("\0\x30\0\0\0\0\xff\xff\0\0\0\x09"),
        STR_INIT("\0\0\xff\xff"
                 "a"), /* a class longer than what is there */
        /* eight around one */
        STR_INIT("\0\x20\0\x20\0\x20\0\x20\0\x20\0\x20\0\x20\0\x20\0\x09"),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cursor c = { .rest = bad[i] };
        struct cql_spec spec = { .type = CQL_DATE };
        assert_false(cql_spec_take(&c, &spec));
        assert_true(c.failed);
        assert_int_equal(spec.type, CQL_DATE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_is_taken_whole_and_printed),
        cmocka_unit_test(what_is_behind_a_type_stays),
        cmocka_unit_test(a_type_that_is_cut_is_refused),
        cmocka_unit_test(what_is_no_type_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
