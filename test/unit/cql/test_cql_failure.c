/* Goal: each code of an error has its name, its meaning for a caller, and what may be done about
 * it; what only version 5 says is read; numbers are told. Method: a table of all codes; bytes by
 * hand. */
#include "cql/failure.h"

#include "../cmocka_all.h"

#include <string.h>

static const struct meaning {
    int32_t code;
    const char *name;
    err why;
    enum cql_reaction idempotent, otherwise;
} meanings[] = {
    { 0x0000, "server_error", ERR_UNAVAILABLE, CQL_NEXT_NODE, CQL_GIVE_UP },
    { 0x000a, "protocol_error", ERR_IO, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x0100, "bad_credentials", ERR_DENIED, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x1000, "unavailable", ERR_UNAVAILABLE, CQL_NEXT_NODE, CQL_NEXT_NODE },
    { 0x1001, "overloaded", ERR_UNAVAILABLE, CQL_NEXT_NODE, CQL_GIVE_UP },
    { 0x1002, "bootstrapping", ERR_UNAVAILABLE, CQL_NEXT_NODE, CQL_NEXT_NODE },
    { 0x1003, "truncate_error", ERR_UNAVAILABLE, CQL_NEXT_NODE, CQL_GIVE_UP },
    { 0x1100, "write_timeout", ERR_TIMEOUT, CQL_NEXT_NODE, CQL_GIVE_UP },
    { 0x1200, "read_timeout", ERR_TIMEOUT, CQL_SAME_NODE, CQL_GIVE_UP },
    { 0x1300, "read_failure", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x1400, "function_failure", ERR_BAD, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x1500, "write_failure", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x1600, "cdc_write_failure", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x1700, "cas_unknown", ERR_TIMEOUT, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2000, "syntax_error", ERR_BAD, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2100, "unauthorized", ERR_DENIED, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2200, "invalid", ERR_BAD, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2300, "config_error", ERR_BAD, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2400, "already_exists", ERR_CONFLICT, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2500, "unprepared", ERR_UNAVAILABLE, CQL_PREPARE_AGAIN, CQL_PREPARE_AGAIN },
    { 0x0001, "unknown", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
    { 0x2600, "unknown", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
    { -1, "unknown", ERR_UNAVAILABLE, CQL_GIVE_UP, CQL_GIVE_UP },
};

static void each_code_has_its_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        const struct meaning *m = &meanings[i];
        struct cql_failure f = { .code = m->code };
        assert_string_equal(cql_code_name(m->code), m->name);
        assert_int_equal(cql_failure_err(&f), m->why);
        assert_int_equal(cql_failure_reaction(&f, true), m->idempotent);
        assert_int_equal(cql_failure_reaction(&f, false), m->otherwise);
    }
}

static void a_timeout_is_judged_by_what_it_says(void **state)
{
    (void)state;
    struct cql_failure read = { .code = CQL_READ_TIMEOUT, .alive_or_received = 2, .required = 2 };
    assert_int_equal(cql_failure_reaction(&read, true), CQL_SAME_NODE);
    read.data_present = true;
    assert_int_equal(cql_failure_reaction(&read, true), CQL_GIVE_UP);
    read.data_present = false;
    read.alive_or_received = 1;
    assert_int_equal(cql_failure_reaction(&read, true), CQL_GIVE_UP);
    for (unsigned k = 0; k <= CQL_WRITE_OTHER; k++) {
        struct cql_failure write = { .code = CQL_WRITE_TIMEOUT, .write = (enum cql_write_kind)k };
        assert_int_equal(cql_failure_reaction(&write, true),
                         k == CQL_WRITE_BATCH_LOG ? CQL_SAME_NODE : CQL_NEXT_NODE);
        assert_int_equal(cql_failure_reaction(&write, false), CQL_GIVE_UP);
    }
}

static struct cql_failure take(unsigned version, str body)
{
    struct cursor c = { .rest = body };
    struct cql_failure f;
    assert_true(cql_failure_take(&c, version, &f));
    assert_true(cursor_done(&c));
    return f;
}

static void assert_printed(const struct cql_failure *f, const char *text)
{
    struct buf out;
    buf_init(&out, 1024);
    cql_failure_print(f, &out);
    buf_put_c(&out, 0);
    assert_string_equal(out.p, text);
    buf_fini(&out);
}

/* LOCAL_QUORUM, 1 received of 2. */
#define REPLICAS "\0\6\0\0\0\1\0\0\0\2"

static void numbers_are_told(void **state)
{
    (void)state;
    struct cql_failure f = take(4, STR("\0\0\x10\0\0\1m\0\4\0\0\0\3\0\0\0\1"));
    assert_int_equal(f.required, 3);
    assert_int_equal(f.alive_or_received, 1);
    assert_true(str_eq(f.message, STR("m")));
    assert_printed(&f, "QUORUM: 1 of 3 replicas are alive");
    f = take(4, STR("\0\0\x11\0\0\0" REPLICAS "\0\6SIMPLE"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, SIMPLE");
    f = take(4, STR("\0\0\x11\0\0\0" REPLICAS "\0\6FUTURE"));
    assert_int_equal(f.write, CQL_WRITE_OTHER);
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, OTHER");
    f = take(4, STR("\0\0\x11\0\0\0" REPLICAS "\0\3CAS"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, CAS");
    f = take(5, STR("\0\0\x11\0\0\0" REPLICAS "\0\3CAS\0\5"));
    assert_int_equal(f.contentions, 5);
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, CAS, 5 contentions");
    f = take(5, STR("\0\0\x12\0\0\0" REPLICAS "\1"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, data present");
    f = take(5, STR("\0\0\x12\0\0\0" REPLICAS "\0"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, no data");
    f = take(5, STR("\0\0\x17\0\0\0" REPLICAS));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered");
    f = take(4, STR("\0\0\x24\0\0\0\0\1k\0\1t"));
    assert_printed(&f, "k.t");
    f = take(4, STR("\0\0\x24\0\0\0\0\1k\0\0"));
    assert_printed(&f, "k");
    f = take(4, STR("\0\0\x14\0\0\0\0\1k\0\1f\0\2\0\1a\0\1b"));
    assert_printed(&f, "k.f");
    f = take(4, STR("\0\0\x22\0\0\0"));
    assert_printed(&f, "");
}

static void replicas_that_failed_are_counted_in_both_versions(void **state)
{
    (void)state;
    struct cql_failure f = take(4, STR("\0\0\x13\0\0\0" REPLICAS "\0\0\0\2\1"));
    assert_int_equal(f.failed, 2);
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, 2 failed, data present");
    f = take(5, STR("\0\0\x13\0\0\0" REPLICAS "\0\0\0\2\4\1\2\3\4\0\1\4\1\2\3\5\0\2\0"));
    assert_int_equal(f.failed, 2);
    assert_int_equal(f.reason, 1);
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, 2 failed (too many tombstones), "
                       "no data");
    f = take(4, STR("\0\0\x15\0\0\0" REPLICAS "\0\0\0\1\0\3CDC"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, 1 failed, CDC");
    f = take(5, STR("\0\0\x15\0\0\0" REPLICAS "\0\0\0\1\4\1\2\3\4\0\x63\0\4VIEW"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, 1 failed (reason 99), VIEW");
    f = take(5, STR("\0\0\x15\0\0\0" REPLICAS "\0\0\0\0\0\4VIEW"));
    assert_printed(&f, "LOCAL_QUORUM: 1 of 2 replicas answered, 0 failed, VIEW");
}

static void counts_that_pass_the_bytes_are_refused(void **state)
{
    (void)state;
    static const str bad[] = {
        STR_INIT("\0\0\x13\0\0\0" REPLICAS "\x7f\xff\xff\xff\4\1\2\3\4\0\1\0"),
        STR_INIT("\0\0\x13\0\0\0" REPLICAS "\xff\xff\xff\xff\4\1\2\3\4\0\1\0"),
        STR_INIT("\0\0\x13\0\0\0" REPLICAS "\0\0\0\2\4\1\2\3\4\0\1\0"),
        STR_INIT("\0\0\x13\0\0\0" REPLICAS "\0\0\0\1\xff\1\2\3\4\0\1\0"),
        STR_INIT("\0\0\x14\0\0\0\0\1k\0\1f\xff\xff\0\0"),
        STR_INIT("\0\0\x25\0\0\0\xff\xff\0\0"),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cursor c = { .rest = bad[i] };
        struct cql_failure f = { .code = 7 };
        assert_false(cql_failure_take(&c, 5, &f));
        assert_int_equal(f.code, 7);
    }
}

static void kinds_of_writes_have_names(void **state)
{
    (void)state;
    assert_string_equal(cql_write_kind_name(CQL_WRITE_UNLOGGED_BATCH), "UNLOGGED_BATCH");
    assert_string_equal(cql_write_kind_name(CQL_WRITE_OTHER), "OTHER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_code_has_its_meaning),
        cmocka_unit_test(a_timeout_is_judged_by_what_it_says),
        cmocka_unit_test(numbers_are_told),
        cmocka_unit_test(replicas_that_failed_are_counted_in_both_versions),
        cmocka_unit_test(counts_that_pass_the_bytes_are_refused),
        cmocka_unit_test(kinds_of_writes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
