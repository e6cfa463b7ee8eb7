/* Goal: answers that say what cannot be are refused with a note, limits hold, and columns outlive
 * their answer. Method: bytes by hand; those that are right are read by test_cql_golden_answers.c.
 */
#include "cql/answer.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#define SHORT(n) "\0" n
#define INT(n) "\0\0\0" n
#define ROWS INT("\2")
#define PREPARED INT("\4") SHORT("\1") "i"

static err parse(unsigned version, unsigned op, str body, struct cql_answer *a,
                 struct err_note *note)
{
    struct cql_head head = { .version = version, .answer = true, .opcode = (uint8_t)op };
    char *p = malloc(body.n == 0 ? 1 : body.n);
    assert_non_null(p);
    if (body.n > 0)
        memcpy(p, body.p, body.n);
    err why = cql_answer_parse(&head, (str){ .p = p, .n = body.n }, a, note);
    free(p);
    return why;
}

struct refusal {
    unsigned version, op;
    str body;
    const char *note;
};
static const struct refusal refusals[] = {
    { 4, 0x01, STR_INIT(""), "opcode 1 is no answer" },
    { 4, 0x04, STR_INIT(""), "opcode 4 is no answer" },
    { 4, 0xff, STR_INIT(""), "opcode 255 is no answer" },
    { 4, CQL_OP_RESULT, STR_INIT(""), "a result of no known kind: 0" },
    { 4, CQL_OP_RESULT, STR_INIT(INT("\0")), "a result of no known kind: 0" },
    { 4, CQL_OP_RESULT, STR_INIT(INT("\6")), "a result of no known kind: 6" },
    { 4, CQL_OP_RESULT, STR_INIT("\x80\0\0\1"), "a result of no known kind: 2147483649" },
    { 4, CQL_OP_RESULT, STR_INIT(INT("\3") SHORT("\4") "abc"), "the name of a keyspace is cut" },
    { 4, CQL_OP_ERROR, STR_INIT(INT("\0")), "an error is cut" },
    { 4, CQL_OP_SUPPORTED, STR_INIT("\xff\xff"), "what a server supports is cut" },
    { 4, CQL_OP_SUPPORTED, STR_INIT("\0\1\0\1a\xff\xff"), "what a server supports is cut" },
    { 4, CQL_OP_AUTHENTICATE, STR_INIT("\0\5abc"), "the name of an authenticator is cut" },
    { 4, CQL_OP_AUTH_SUCCESS, STR_INIT("\x7f\xff\xff\xff"), "a token is cut" },
    /* metadata of rows */
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\1") "\x7f\xff\xff\xff"),
      "metadata says 2147483647 columns in 0 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\4") "\xff\xff\xff\xff" INT("\0")),
      "metadata says 4294967295 columns in 4 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\1") INT("\2") "1234567"),
      "metadata says 2 columns in 7 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\2") INT("\0") "\xff\xff\xff\xff" INT("\0")),
      "there are more pages, and no state to ask for them" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\2") INT("\0") INT("\0") INT("\0")),
      "there are more pages, and no state to ask for them" },
    { 5, CQL_OP_RESULT, STR_INIT(ROWS INT("\x0c") INT("\0") SHORT("\1") "i" INT("\0")),
      "metadata changed, and is not there" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\1") INT("\1") "\0\1k\0\1t\0\1c\0\x0a" INT("\0")),
      "metadata of 1 columns is cut, or has a type of no known kind" },
    { 5, CQL_OP_RESULT, STR_INIT(ROWS INT("\4") INT("\2") INT("\2") INT("\0") INT("\0") INT("\0")),
      "2 rows of 2 columns in 12 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\4") INT("\0") "\xff\xff\xff\xff"),
      "4294967295 rows of 0 columns in 0 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\4") INT("\0") INT("\1")),
      "1 rows of 0 columns in 0 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(ROWS INT("\1") INT("\1") "\0\1k\0\1t\0\1c\0\x09" INT("\1")),
      "1 rows of 1 columns in 0 bytes" },
    /* prepared */
    { 4, CQL_OP_RESULT,
      STR_INIT(PREPARED INT("\0") INT("\0") "\x7f\xff\xff\xff"
                                            "\0\0"),
      "a partition key of 2147483647 markers in 2 bytes" },
    { 4, CQL_OP_RESULT, STR_INIT(PREPARED INT("\0") INT("\0") INT("\1") "\0\0" INT("\4") INT("\0")),
      "a partition key has marker 0 of 0" },
    { 4, CQL_OP_RESULT,
      STR_INIT(PREPARED INT("\1") INT("\1") INT("\0") "\0\1k\0\1t\0\1c\0\x09" INT("\1")
                   INT("\1") "\0\1k"),
      "metadata says 1 columns in 3 bytes" },
    /* events */
    { 4, CQL_OP_EVENT, STR_INIT("\0\x0dSTATUS_CHANGE\0\2UP\5\1\2\3\4\5\0\0\0\1"),
      "an event of a node is cut or makes no sense" },
    { 4, CQL_OP_EVENT, STR_INIT("\0\x0dSTATUS_CHANGE\0\2UP\4\1\2\3\4\0\1\0\0"),
      "an event of a node is cut or makes no sense" },
    { 4, CQL_OP_EVENT, STR_INIT("\0\x0dSTATUS_CHANGE\0\2UP\4\1\2\3\4\xff\xff\xff\xff"),
      "an event of a node is cut or makes no sense" },
    { 4, CQL_OP_EVENT, STR_INIT("\0\x0dSCHEMA_CHANGE\0\5MOVED\0\x08KEYSPACE\0\1k"),
      "a change of the schema is cut or makes no sense" },
};

static void what_cannot_be_is_refused_with_a_note(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *r = &refusals[i];
        struct cql_answer a = { .op = CQL_OP_READY };
        struct err_note note = { .text = "" };
        assert_int_equal(parse(r->version, r->op, r->body, &a, &note), ERR_CORRUPT);
        assert_string_equal(note.text, r->note);
        assert_int_equal(a.op, CQL_OP_READY);
        assert_null(a.rows.columns);
        assert_int_equal(parse(r->version, r->op, r->body, &a, NULL), ERR_CORRUPT);
    }
}

static void a_request_is_no_answer(void **state)
{
    (void)state;
    struct cql_head head = { .version = 5, .opcode = CQL_OP_READY };
    struct cql_answer a;
    struct err_note note;
    assert_int_equal(cql_answer_parse(&head, STR(""), &a, &note), ERR_CORRUPT);
    assert_string_equal(note.text, "a request came as an answer");
}

static void what_is_before_an_answer_is_not_trusted(void **state)
{
    (void)state;
    static const struct {
        uint8_t flags;
        str body;
    } bad[] = {
        { CQL_FLAG_TRACING, STR_INIT("0123456789abcde") },
        { CQL_FLAG_WARNING, STR_INIT("\xff\xff\0\0") },
        { CQL_FLAG_WARNING, STR_INIT("\0\1\xff\xff") },
        { CQL_FLAG_PAYLOAD, STR_INIT("\xff\xff\0\0\0\0\0\0") },
        { CQL_FLAG_PAYLOAD, STR_INIT("\0\1\0\1a\x7f\xff\xff\xff") },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cql_head head = {
            .version = 5, .answer = true, .opcode = CQL_OP_READY, .flags = bad[i].flags
        };
        struct cql_answer a;
        struct err_note note;
        assert_int_equal(cql_answer_parse(&head, bad[i].body, &a, &note), ERR_CORRUPT);
        assert_string_equal(note.text, "what stands before an answer is cut");
    }
}

/* Metadata of count columns of one name, then no rows. */
static void put_columns(struct buf *out, unsigned count)
{
    buf_put_be32(out, CQL_RESULT_ROWS);
    buf_put_be32(out, 1);
    buf_put_be32(out, count);
    buf_put(out, STR("\0\1k\0\1t"));
    for (unsigned i = 0; i < count; i++)
        buf_put(out, STR("\0\1c\0\x09"));
    buf_put_be32(out, 0);
}

static void columns_have_a_limit(void **state)
{
    (void)state;
    struct cql_answer a;
    struct err_note note;
    struct buf body;
    buf_init(&body, 1 << 20);
    put_columns(&body, CQL_COLUMNS_MAX);
    assert_int_equal(parse(5, CQL_OP_RESULT, buf_str(&body), &a, &note), ERR_OK);
    assert_int_equal(a.rows.columns->count, CQL_COLUMNS_MAX);
    cql_answer_fini(&a);
    buf_clear(&body);
    put_columns(&body, CQL_COLUMNS_MAX + 1);
    assert_int_equal(parse(5, CQL_OP_RESULT, buf_str(&body), &a, &note), ERR_LIMIT);
    assert_string_equal(note.text, "1025 columns, at most 1024");
    buf_fini(&body);
}

static void columns_outlive_their_answer(void **state)
{
    (void)state;
    struct cql_answer a;
    struct err_note note;
    str body = STR(PREPARED INT("\1") INT("\1") INT("\0") "\0\1k\0\1t\0\1c\0\x20\0\x09" INT("\0")
                       INT("\1") "\0\1K\0\1T\0\1C\0\x0d");
    assert_int_equal(parse(4, CQL_OP_RESULT, body, &a, &note), ERR_OK); /* the body is gone */
    struct cql_columns *markers = cql_columns_hold(a.prepared.markers);
    struct cql_columns *columns = cql_columns_hold(a.prepared.columns);
    cql_answer_fini(&a);
    cql_answer_fini(&a); /* once more does nothing */
    assert_true(str_eq(markers->at[0].keyspace, STR("k")));
    assert_true(str_eq(markers->at[0].table, STR("t")));
    assert_true(str_eq(markers->at[0].name, STR("c")));
    assert_true(str_eq(markers->at[0].spec.rest, STR("\0\x09")));
    assert_int_equal(markers->at[0].spec.type, CQL_LIST);
    assert_true(str_eq(columns->at[0].table, STR("T")));
    assert_int_equal(columns->at[0].spec.type, CQL_TEXT);
    cql_columns_drop(&markers);
    cql_columns_drop(&columns);
}

static void a_result_of_no_columns_is_none(void **state)
{
    (void)state;
    struct cql_answer a;
    str body = STR(PREPARED INT("\0") INT("\0") INT("\0") INT("\0") INT("\0"));
    assert_int_equal(parse(4, CQL_OP_RESULT, body, &a, NULL), ERR_OK);
    assert_int_equal(a.prepared.markers->count, 0);
    assert_null(a.prepared.columns);
    cql_answer_fini(&a);
}

static void a_key_of_too_many_markers_is_not_known(void **state)
{
    (void)state;
    for (unsigned keys = CQL_PARTITION_COLUMNS_MAX; keys <= CQL_PARTITION_COLUMNS_MAX + 1; keys++) {
        struct buf body;
        buf_init(&body, 4096);
        buf_put(&body, STR(PREPARED INT("\1") INT("\1")));
        buf_put_be32(&body, keys);
        for (unsigned i = 0; i < keys; i++)
            buf_put_be16(&body, 0);
        buf_put(&body, STR("\0\1k\0\1t\0\1c\0\x09" INT("\4") INT("\0")));
        struct cql_answer a;
        assert_int_equal(parse(4, CQL_OP_RESULT, buf_str(&body), &a, NULL), ERR_OK);
        assert_int_equal(a.prepared.partition_count, keys > CQL_PARTITION_COLUMNS_MAX ? 0 : keys);
        assert_null(a.prepared.columns);
        cql_answer_fini(&a);
        buf_fini(&body);
    }
}

static void rows_without_metadata_take_that_of_their_number(void **state)
{
    (void)state;
    struct cql_answer a, other;
    struct err_note note;
    struct buf body;
    buf_init(&body, 4096);
    put_columns(&body, 3);
    assert_int_equal(parse(5, CQL_OP_RESULT, buf_str(&body), &other, &note), ERR_OK);
    assert_false(other.no_columns);
    str bare = STR(ROWS INT("\4") INT("\2") INT("\0"));
    assert_int_equal(parse(5, CQL_OP_RESULT, bare, &a, &note), ERR_OK);
    assert_true(a.no_columns);
    assert_int_equal(a.columns_count, 2);
    assert_int_equal(cql_answer_describe(&a, other.rows.columns, &note), ERR_CORRUPT);
    assert_string_equal(note.text, "rows of 2 columns where 3 were told");
    assert_null(a.rows.columns);
    bare = STR(ROWS INT("\4") INT("\3") INT("\0"));
    assert_int_equal(parse(5, CQL_OP_RESULT, bare, &a, &note), ERR_OK);
    assert_int_equal(cql_answer_describe(&a, other.rows.columns, &note), ERR_OK);
    cql_answer_fini(&other);
    assert_int_equal(a.rows.columns->count, 3);
    cql_answer_fini(&a);
    buf_fini(&body);
}

static void a_changed_metadata_is_of_version_5(void **state)
{
    (void)state;
    struct cql_answer a;
    struct err_note note;
    str body = STR(ROWS INT("\x8") INT("\1") "\0\2id"
                                             "\0\1k\0\1t\0\1c\0\x09" INT("\0"));
    assert_int_equal(parse(5, CQL_OP_RESULT, body, &a, &note), ERR_OK);
    assert_int_equal(a.new_columns_id.n, 2);
    cql_answer_fini(&a);
    body = STR(ROWS INT("\x8") INT("\1") "\0\1k\0\1t\0\1c\0\x09" INT("\0"));
    assert_int_equal(parse(4, CQL_OP_RESULT, body, &a, &note), ERR_OK);
    assert_int_equal(a.new_columns_id.n, 0);
    cql_answer_fini(&a);
}

static void what_is_newer_than_this_client_is_passed_on(void **state)
{
    (void)state;
    struct cql_answer a;
    struct err_note note;
    str body = STR("\0\x0cTABLE_HEATED\xff\xff");
    assert_int_equal(parse(5, CQL_OP_EVENT, body, &a, &note), ERR_OK);
    assert_int_equal(a.event.kind, CQL_EVENT_OTHER);
    body = STR("\0\x0dSCHEMA_CHANGE\0\7UPDATED\0\4ROLE\xff\xff");
    assert_int_equal(parse(5, CQL_OP_EVENT, body, &a, &note), ERR_OK);
    assert_int_equal(a.event.kind, CQL_EVENT_SCHEMA);
    assert_int_equal(a.event.schema.change, CQL_CHANGE_UPDATED);
    assert_int_equal(a.event.schema.target.n, 4);
    assert_int_equal(a.event.schema.keyspace.n, 0);
    /* an older server refuses a version in its own */
    struct cql_head head = { .version = 3, .answer = true, .opcode = CQL_OP_ERROR };
    body = STR(INT("\x0a") "\0\3old");
    assert_int_equal(cql_answer_parse(&head, body, &a, &note), ERR_OK);
    assert_int_equal(a.failure.code, CQL_PROTOCOL_ERROR);
}

static void a_token_may_be_null(void **state)
{
    (void)state;
    struct cql_answer a;
    assert_int_equal(parse(5, CQL_OP_AUTH_SUCCESS, STR("\xff\xff\xff\xff"), &a, NULL), ERR_OK);
    assert_null(a.token.p);
    assert_int_equal(parse(5, CQL_OP_AUTH_CHALLENGE, STR("\0\0\0\0"), &a, NULL), ERR_OK);
    assert_non_null(a.token.p);
    assert_int_equal(a.token.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused_with_a_note),
        cmocka_unit_test(a_request_is_no_answer),
        cmocka_unit_test(what_is_before_an_answer_is_not_trusted),
        cmocka_unit_test(columns_have_a_limit),
        cmocka_unit_test(columns_outlive_their_answer),
        cmocka_unit_test(a_result_of_no_columns_is_none),
        cmocka_unit_test(a_key_of_too_many_markers_is_not_known),
        cmocka_unit_test(rows_without_metadata_take_that_of_their_number),
        cmocka_unit_test(a_changed_metadata_is_of_version_5),
        cmocka_unit_test(what_is_newer_than_this_client_is_passed_on),
        cmocka_unit_test(a_token_may_be_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
