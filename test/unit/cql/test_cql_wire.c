/* Goal: what another client of the golden bytes cannot say is said right, and limits hold. Method:
 * bytes by hand from the protocol's text; buffers and values that fail. */
#include "cql/wire.h"

#include "../cmocka_all.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct cql_params plain = { .consistency = CQL_ONE,
                                         .timestamp_us = CQL_NO_TIMESTAMP,
                                         .now_s = CQL_NO_NOW };

static void a_head_comes_back(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 64);
    size_t begun = cql_wire_begin(&out, 5, CQL_FLAG_TRACING, 0x7ffe, CQL_OP_OPTIONS);
    cql_wire_end(&out, begun);
    struct cql_head head = cql_head_get(out.p);
    assert_int_equal(head.version, 5);
    assert_false(head.answer);
    assert_int_equal(head.flags, CQL_FLAG_TRACING);
    assert_int_equal(head.opcode, CQL_OP_OPTIONS);
    assert_int_equal(head.stream, 0x7ffe);
    assert_int_equal(head.body_bytes, 0);
    buf_fini(&out);
    head = cql_head_get("\x84\xff\xff\xff\x0c\xff\xff\xff\xfe");
    assert_int_equal(head.version, 4);
    assert_true(head.answer);
    assert_int_equal(head.flags, 0xff);
    assert_int_equal(head.stream, CQL_STREAM_EVENT);
    assert_int_equal(head.opcode, CQL_OP_EVENT);
    assert_true(head.body_bytes == 0xfffffffe);
}

static void assert_body(struct buf *out, str expect)
{
    assert_int_equal(buf_status(out), ERR_OK);
    assert_int_equal(out->n, expect.n);
    assert_memory_equal(out->p, expect.p, expect.n);
    buf_fini(out);
}

static void the_instant_of_version_5_is_said_last(void **state)
{
    (void)state;
    struct cql_params p = plain;
    p.now_s = 0x01020304;
    p.keyspace = STR("k");
    p.timestamp_us = -2;
    struct buf out;
    buf_init(&out, 256);
    cql_body_query(&out, 5, STR("Q"), NULL, &p);
    assert_body(&out, STR("\0\0\0\1Q\0\1\0\0\1\xa0\xff\xff\xff\xff\xff\xff\xff\xfe\0\1k\1\2\3\4"));
    cql_body_execute(&out, 5, STR("i"), STR("c"), NULL, &p); /* its id says the keyspace */
    assert_body(&out, STR("\0\1i\0\1c\0\1\0\0\1\x20\xff\xff\xff\xff\xff\xff\xff\xfe\1\2\3\4"));
    p.page_rows = 9; /* a batch says nothing of these */
    p.page_state = STR("s");
    p.skip_columns = true;
    cql_batch_begin(&out, CQL_UNLOGGED, 0);
    cql_batch_end(&out, 5, &p);
    assert_body(&out, STR("\1\0\0\0\1\0\0\1\xa0\xff\xff\xff\xff\xff\xff\xff\xfe\0\1k\1\2\3\4"));
}

static void a_query_has_values_in_both_versions(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 64);
    cql_put_i8(&v, 7);
    struct buf out;
    buf_init(&out, 256);
    cql_body_query(&out, 4, STR("Q"), &v, &plain);
    assert_body(&out, STR("\0\0\0\1Q\0\1\1\0\1\0\0\0\1\7"));
    cql_body_query(&out, 5, STR("Q"), &v, &plain);
    assert_body(&out, STR("\0\0\0\1Q\0\1\0\0\0\1\0\1\0\0\0\1\7"));
    cql_values_fini(&v);
}

static void metadata_is_left_out_when_asked(void **state)
{
    (void)state;
    struct cql_params p = plain;
    p.skip_columns = true;
    p.page_rows = 3;
    struct buf out;
    buf_init(&out, 256);
    cql_body_execute(&out, 4, STR("i"), STR("c"), NULL, &p);
    assert_body(&out, STR("\0\1i\0\1\6\0\0\0\3"));
    cql_body_execute(&out, 5, STR("i"), STR("c"), NULL, &p);
    assert_body(&out, STR("\0\1i\0\1c\0\1\0\0\0\6\0\0\0\3"));
}

static void values_that_failed_fail_the_request(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4);
    cql_put_i8(&v, 7);
    struct buf out;
    buf_init(&out, 256);
    cql_body_execute(&out, 4, STR("i"), STR_NONE, &v, &plain);
    assert_int_equal(buf_status(&out), ERR_LIMIT);
    buf_clear(&out);
    cql_batch_begin(&out, CQL_UNLOGGED, 1);
    cql_batch_text(&out, STR("Q"), &v);
    assert_int_equal(buf_status(&out), ERR_LIMIT);
    cql_values_fini(&v);
    buf_fini(&out);
}

static void no_values_are_not_said(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4);
    struct buf out;
    buf_init(&out, 256);
    cql_body_query(&out, 4, STR("Q"), &v, &plain);
    assert_body(&out, STR("\0\0\0\1Q\0\1\0"));
    cql_values_fini(&v);
}

static void bodies_are_no_larger_than_the_protocol_has_them(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, SIZE_MAX / 4);
    /* refused before a byte of it is read */
    cql_body_prepare(&out, 4, (str){ .p = "x", .n = CQL_BODY_BYTES_MAX + 1u }, STR_NONE);
    assert_int_equal(buf_status(&out), ERR_LIMIT);
    buf_clear(&out);
    size_t begun = cql_wire_begin(&out, 4, 0, 1, CQL_OP_QUERY);
    (void)buf_extend(&out, CQL_BODY_BYTES_MAX + 1u); /* not touched: no memory is used */
    cql_wire_end(&out, begun);
    assert_int_equal(buf_status(&out), ERR_LIMIT);
    buf_fini(&out);
}

/* How a request of version 4 ends the process: 0, or a signal. */
static int signal_of(const struct cql_params *p, str prepare_in)
{
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ .rlim_cur = 0 });
        (void)close(STDERR_FILENO);
        struct buf out;
        buf_init(&out, 256);
        cql_body_query(&out, 4, STR("Q"), NULL, p);
        cql_batch_end(&out, 4, p);
        cql_body_prepare(&out, 4, STR("Q"), prepare_in);
        _exit(0);
    }
    assert_true(child > 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void what_version_4_cannot_say_is_not_left_out_in_silence(void **state)
{
    (void)state;
    struct cql_params p = plain;
    assert_int_equal(signal_of(&p, STR_NONE), 0);
    assert_int_equal(signal_of(&p, STR("k")), SIGABRT);
    p.keyspace = STR("k");
    assert_int_equal(signal_of(&p, STR_NONE), SIGABRT);
    p.keyspace = STR_NONE;
    p.now_s = 0;
    assert_int_equal(signal_of(&p, STR_NONE), SIGABRT);
}

static void a_buffer_that_is_full_stays_so(void **state)
{
    (void)state;
    struct buf out;
    for (size_t bytes_max = 0; bytes_max < 30; bytes_max++) {
        buf_init(&out, bytes_max);
        size_t begun = cql_wire_begin(&out, 4, 0, 1, CQL_OP_QUERY);
        cql_body_query(&out, 4, STR("SELECT 0123456789"), NULL, &plain);
        cql_wire_end(&out, begun);
        assert_int_equal(buf_status(&out), ERR_LIMIT);
        buf_fini(&out);
    }
}

static void consistencies_have_names(void **state)
{
    (void)state;
    assert_string_equal(cql_consistency_name(CQL_ANY), "ANY");
    assert_string_equal(cql_consistency_name(CQL_LOCAL_QUORUM), "LOCAL_QUORUM");
    assert_string_equal(cql_consistency_name(CQL_LOCAL_ONE), "LOCAL_ONE");
    assert_string_equal(cql_consistency_name((enum cql_consistency)11), "?");
    assert_string_equal(cql_consistency_name((enum cql_consistency)0xffff), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_comes_back),
        cmocka_unit_test(the_instant_of_version_5_is_said_last),
        cmocka_unit_test(a_query_has_values_in_both_versions),
        cmocka_unit_test(metadata_is_left_out_when_asked),
        cmocka_unit_test(values_that_failed_fail_the_request),
        cmocka_unit_test(no_values_are_not_said),
        cmocka_unit_test(bodies_are_no_larger_than_the_protocol_has_them),
        cmocka_unit_test(what_version_4_cannot_say_is_not_left_out_in_silence),
        cmocka_unit_test(a_buffer_that_is_full_stays_so),
        cmocka_unit_test(consistencies_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
