/* Goal: each kind of request says on the wire what its caller said, and brings back what the server
 * answered: texts, batches, pages, conditional writes, warnings, traces.
 * Method: a fake cluster that keeps what came (rig.h, node.h). */
#include "rig.h"

#include "../cmocka_all.h"

#include <string.h>

enum { WRITE, READ, CONDITIONAL, DELETE };

static const struct rig_opts usual = {
    .nodes = { .one_port = true },
    .client = { .retry_min_ms = 20, .retry_max_ms = 100 },
    .statements = {
        [WRITE] = { .name = "write",
                    .text = "INSERT INTO ks.t (k, v) VALUES (?, ?)",
                    .idempotent = true },
        [READ] = { .name = "read", .text = "SELECT v FROM ks.t WHERE k = ?", .idempotent = true },
        [CONDITIONAL] = { .name = "conditional",
                          .text = "UPDATE ks.t SET v = ? WHERE k = ? IF v = ?" },
        [DELETE] = { .name = "delete", .text = "DELETE FROM ks.t WHERE k = ?", .idempotent = true },
    },
};
static const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
static const struct node_match queries = { .ops = BIT(CQL_OP_QUERY), .text = "ks." };
static const struct node_match batches = { .ops = BIT(CQL_OP_BATCH) };

static void start(struct rig *r, unsigned version)
{
    struct rig_opts o = usual;
    o.nodes.version_max = version;
    rig_start(r, &o);
}

static void any_init(struct ask *a, struct rig *r, unsigned statement)
{
    ask_init(a, r, statement);
    for (const char *at = usual.statements[statement].text; *at != '\0'; at++)
        if (*at == '?')
            cql_put_bytes(&a->values, STR("k"));
    if (statement == CONDITIONAL)
        a->request.params.timestamp_us = CQL_NO_TIMESTAMP;
}

static void text_set(struct ask *a, const char *text)
{
    a->request.way = CQL_WAY_TEXT;
    a->request.text = str_of(text);
    a->request.values = &a->values;
    a->request.parts = NULL;
    a->request.parts_count = 0;
}

static void each_version(void (*run)(unsigned version))
{
    run(4);
    run(5);
}

/* ---- texts ---- */

static void texts_of(unsigned version)
{
    struct rig r;
    struct ask a;
    struct node_request got;
    start(&r, version);
    any_init(&a, &r, READ);
    text_set(&a, "SELECT v FROM ks.t WHERE k = ?");
    a.request.params.skip_columns = true; /* nobody knows the columns of a text */
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_non_null(a.request.out.rows.columns);
    assert_true(node_request(r.nodes, NODE_ANY, &queries, 0, &got));
    assert_int_equal(got.values_count, 1);
    assert_int_equal(got.consistency, CQL_LOCAL_QUORUM);
    ask_fini(&a);

    any_init(&a, &r, DELETE);
    text_set(&a, "CREATE TABLE ks.n (k text PRIMARY KEY)");
    cql_values_clear(&a.values);
    a.request.params.timestamp_us = CQL_NO_TIMESTAMP;
    assert_int_equal(ask_run(&a), ERR_OK);
    ask_fini(&a);

    any_init(&a, &r, DELETE); /* a text that may not be run twice is not */
    text_set(&a, "DELETE FROM ks.t WHERE k = ?");
    struct node_match once = queries;
    once.times = 1;
    (void)node_say(r.nodes, NODE_ANY, &once, &(struct node_action){ .fault = NODE_CUT_BEFORE });
    assert_int_equal(ask_run(&a), ERR_IO);
    assert_true(a.request.out.unknown);
    assert_int_equal(a.request.out.sent, 1);
    ask_fini(&a);
    rig_end(&r);
}

static void a_text_is_run_as_it_stands(void **state)
{
    (void)state;
    each_version(texts_of);
}

static void a_text_that_is_no_statement_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    static const char *const wrong[] = { "",
                                         ";",
                                         "SELECT",
                                         "INSERT INTO ks.t (k) VALUES ('",
                                         "SELECT v FROM ks.t; SELECT v FROM ks.t",
                                         "SELECT v FROM ks.t WHERE k = ? AND v = ?" };
    start(&r, 5);
    for (unsigned i = 0; i < COUNT_OF(wrong); i++) {
        any_init(&a, &r, READ);
        text_set(&a, wrong[i]);
        assert_int_equal(ask_run(&a), ERR_BAD);
        assert_true(a.request.out.note.text[0] != '\0');
        ask_fini(&a);
    }
    assert_int_equal(node_requests(r.nodes, NODE_ANY, &queries), 0);
    rig_end(&r);
}

/* ---- batches ---- */

static void batches_of(unsigned version)
{
    static const enum cql_batch_kind kinds[] = { CQL_LOGGED, CQL_UNLOGGED, CQL_COUNTERS };
    struct rig r;
    struct ask a;
    struct node_request got;
    start(&r, version);
    for (unsigned i = 0; i < COUNT_OF(kinds); i++) {
        any_init(&a, &r, DELETE);
        struct cql_part parts[3] = { a.part, a.part, a.part };
        a.request.way = CQL_WAY_BATCH;
        a.request.batch = kinds[i];
        a.request.parts = parts;
        a.request.parts_count = 3;
        a.request.params.serial = CQL_LOCAL_SERIAL;
        a.request.params.page_rows = 100; /* not of batches */
        assert_int_equal(ask_run(&a), ERR_OK);
        assert_true(node_request(r.nodes, NODE_ANY, &batches, i, &got));
        assert_int_equal(got.batch, kinds[i]);
        assert_int_equal(got.statements, 3);
        assert_int_equal(got.values_count, 3);
        assert_int_equal(got.timestamp_us, 1000);
        assert_int_equal(got.serial, CQL_LOCAL_SERIAL);
        ask_fini(&a);
    }
    rig_end(&r);
}

static void a_batch_says_its_kind(void **state)
{
    (void)state;
    each_version(batches_of);
}

static void what_no_batch_may_hold_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 5);
    any_init(&a, &r, READ);
    a.request.way = CQL_WAY_BATCH;
    assert_int_equal(ask_run(&a), ERR_BAD); /* a read */
    a.request.parts_count = 0;
    assert_int_equal(ask_run(&a), ERR_BAD);
    a.request.parts_count = CQL_PARTS_MAX + 1;
    assert_int_equal(ask_run(&a), ERR_BAD);
    a.request.way = CQL_WAY_EXECUTE;
    a.request.parts_count = 2;
    assert_int_equal(ask_run(&a), ERR_BAD);
    a.request.parts_count = 1;
    a.request.params.serial = CQL_QUORUM;
    assert_int_equal(ask_run(&a), ERR_BAD);
    a.request.params.serial = CQL_ANY;
    a.request.params.consistency = CQL_CONSISTENCIES;
    assert_int_equal(ask_run(&a), ERR_BAD);
    ask_fini(&a);
    rig_end(&r);
}

/* ---- pages ---- */

static void pages_of(unsigned version)
{
    enum { ROWS = 7, PAGE = 3, EMPTY = 2 };
    struct rig r;
    struct ask a;
    struct cql_values rows;
    start(&r, version);
    cql_values_init(&rows, 1024);
    for (int64_t i = 0; i < ROWS; i++)
        cql_put_i64(&rows, i);
    (void)node_say(r.nodes, NODE_ANY, &executes,
                   &(struct node_action){ .act = NODE_ROWS,
                                          .columns = "v bigint",
                                          .rows = &rows,
                                          .empty_pages = EMPTY });
    any_init(&a, &r, READ);
    a.request.params.page_rows = PAGE;
    char page_state[256];
    int64_t next = 0;
    unsigned pages = 0, empty = 0;
    bool more = true;
    while (more) {
        assert_int_equal(ask_run(&a), ERR_OK);
        struct cql_rows *got = &a.request.out.rows;
        struct cql_cell cell;
        empty += got->count == 0;
        for (int64_t value; cql_rows_next(got, &cell); next++) {
            assert_true(cql_get_i64(&cell, &value));
            assert_int_equal(value, next);
        }
        more = got->more;
        assert_true(got->page_state.n <= sizeof page_state);
        if (more)
            memcpy(page_state, got->page_state.p, got->page_state.n);
        a.request.params.page_state = (str){ .p = page_state, .n = got->page_state.n };
        cql_outcome_fini(&a.request.out);
        assert_true(++pages < 20);
    }
    assert_int_equal(next, ROWS);
    assert_true(empty >= EMPTY);
    cql_values_fini(&rows);
    ask_fini(&a);
    rig_end(&r);
}

static void empty_pages_are_no_end(void **state)
{
    (void)state;
    each_version(pages_of);
}

/* A condition of one part is that of all: they are written at its ballot. */
static void a_batch_with_a_condition_takes_no_timestamp(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    struct node_request got;
    struct cql_values three;
    start(&r, 5);
    any_init(&a, &r, CONDITIONAL);
    cql_values_init(&three, 64);
    cql_put_bytes(&three, STR("one"));
    struct cql_part parts[2] = { { .statement = r.statements[DELETE], .values = &three }, a.part };
    a.request.way = CQL_WAY_BATCH;
    a.request.batch = CQL_UNLOGGED;
    a.request.parts = parts;
    a.request.parts_count = 2;
    a.request.params.serial = CQL_SERIAL;
    a.request.params.timestamp_us = 1000;
    assert_int_equal(ask_run(&a), ERR_BAD);
    a.request.params.timestamp_us = CQL_NO_TIMESTAMP;
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_true(node_request(r.nodes, NODE_ANY, &batches, 0, &got));
    assert_int_equal(got.timestamp_us, CQL_NO_TIMESTAMP);
    assert_int_equal(got.serial, CQL_SERIAL);
    ask_fini(&a);
    cql_values_fini(&three);
    rig_end(&r);
}

/* ---- what stands beside ---- */

static void conditional_of(unsigned version)
{
    struct rig r;
    struct ask a;
    struct cql_values rows;
    start(&r, version);
    for (unsigned i = 0; i < 6; i++) { /* its columns are others each time */
        bool applied = i & 1;
        cql_values_init(&rows, 64);
        cql_put_bool(&rows, applied);
        if (!applied)
            cql_put_i64(&rows, 5);
        struct node_match once = executes;
        once.times = 1;
        (void)node_say(r.nodes, NODE_ANY, &once,
                       &(struct node_action){ .act = NODE_ROWS,
                                              .columns = applied ? "[applied] boolean"
                                                                 : "[applied] boolean, v bigint",
                                              .rows = &rows });
        any_init(&a, &r, CONDITIONAL);
        a.request.params.serial = CQL_SERIAL;
        assert_int_equal(ask_run(&a), ERR_OK);
        struct cql_cell cells[2];
        bool told = !applied;
        assert_int_equal(a.request.out.rows.columns->count, applied ? 1 : 2);
        assert_true(cql_rows_next(&a.request.out.rows, cells));
        assert_true(cql_get_bool(&cells[0], &told));
        assert_int_equal(told, applied);
        struct node_request got;
        assert_true(node_request(r.nodes, NODE_ANY, &executes, i, &got));
        assert_int_equal(got.serial, CQL_SERIAL);
        assert_int_equal(got.timestamp_us, CQL_NO_TIMESTAMP);
        assert_false(got.skip_columns);
        ask_fini(&a);
        cql_values_fini(&rows);
    }
    rig_end(&r);
}

static void a_conditional_write_reads_its_answer(void **state)
{
    (void)state;
    each_version(conditional_of);
}

static void beside_of(unsigned version)
{
    struct rig r;
    struct ask a;
    start(&r, version);
    (void)node_say(r.nodes, NODE_ANY, &executes,
                   &(struct node_action){ .warnings = { "one", "two" },
                                          .payload = { STR("name"), STR("value") } });
    any_init(&a, &r, READ);
    a.request.traced = true;
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_true(a.request.out.traced);
    static const unsigned char none[CQL_UUID_BYTES];
    assert_memory_not_equal(a.request.out.trace, none, sizeof none);
    assert_int_equal(rig_stats(&r).warnings, 2);
    cql_outcome_fini(&a.request.out);
    a.request.traced = false;
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_false(a.request.out.traced);
    ask_fini(&a);

    struct cql_failure f = { .code = CQL_INVALID, .message = STR("why") };
    (void)node_say(r.nodes, NODE_ANY, &executes,
                   &(struct node_action){
                       .act = NODE_ERROR, .error = f, .traced = true, .warnings = { "three" } });
    any_init(&a, &r, READ);
    assert_int_equal(ask_run(&a), ERR_BAD);
    assert_non_null(strstr(a.request.out.note.text, "why"));
    assert_int_equal(rig_stats(&r).warnings, 5);
    ask_fini(&a);
    rig_end(&r);
}

static void warnings_traces_and_payloads_are_passed_by(void **state)
{
    (void)state;
    each_version(beside_of);
}

static void an_instant_needs_version_5(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 4);
    any_init(&a, &r, READ);
    a.request.params.now_s = 1000;
    assert_int_equal(ask_run(&a), ERR_BAD);
    assert_non_null(strstr(a.request.out.note.text, "protocol 5"));
    text_set(&a, "SELECT v FROM ks.t WHERE k = ?");
    a.request.params.now_s = CQL_NO_NOW;
    a.request.params.keyspace = STR("ks");
    assert_int_equal(ask_run(&a), ERR_BAD);
    ask_fini(&a);
    rig_end(&r);

    start(&r, 5);
    struct node_request got;
    any_init(&a, &r, READ);
    a.request.params.now_s = 1000;
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_true(node_request(r.nodes, NODE_ANY, &executes, 0, &got));
    assert_int_equal(got.now_s, 1000);
    cql_outcome_fini(&a.request.out);
    text_set(&a, "SELECT v FROM ks.t WHERE k = ?");
    a.request.params.keyspace = STR("ks");
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_true(node_request(r.nodes, NODE_ANY, &queries, 0, &got));
    assert_true(str_eq(got.keyspace, STR("ks")));
    cql_outcome_fini(&a.request.out);
    static const char long_name[70000];
    a.request.params.keyspace = (str){ .p = long_name, .n = sizeof long_name };
    assert_int_equal(ask_run(&a), ERR_BAD);
    ask_fini(&a);
    rig_end(&r);
}

static bool both_are_up(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_node_stats nodes[2];
    return cql_nodes(r->client, nodes, 2) == 2 && nodes[0].up && nodes[1].up;
}

static void an_older_node_is_passed_over_where_it_must_be(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    struct rig_opts o = usual;
    o.nodes.nodes = 2;
    o.not_ready = true;
    rig_start(&r, &o);
    node_version_max(r.nodes, 1, 4);
    node_cut(r.nodes, 1, 0, false);
    rig_until(&r, both_are_up, NULL, "both are up");
    for (unsigned i = 0; i < 20; i++) {
        any_init(&a, &r, READ);
        a.request.params.now_s = 1000;
        assert_int_equal(ask_run(&a), ERR_OK);
        ask_fini(&a);
    }
    assert_int_equal(node_requests(r.nodes, 1, &executes), 0);
    rig_end(&r);
}

/* What is no answer to the question is no success. */
static void an_answer_of_another_kind_is_an_error(void **state)
{
    (void)state;
    static const struct {
        enum cql_opcode op;
        str body;
        err read, write;
    } cases[] = {
        { CQL_OP_RESULT, STR_INIT("\0\0\0\1"), ERR_IO, ERR_OK },
        { CQL_OP_RESULT, STR_INIT("\0\0\0\3\0\2ks"), ERR_IO, ERR_OK },
        { CQL_OP_RESULT, STR_INIT("\0\0\0\4\0\1i\0\1c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
          ERR_IO, ERR_IO },
        { CQL_OP_READY, STR_INIT(""), ERR_IO, ERR_IO },
        { CQL_OP_SUPPORTED, STR_INIT("\0\0"), ERR_IO, ERR_IO },
    };
    struct rig r;
    struct ask a;
    start(&r, 5);
    for (unsigned i = 0; i < COUNT_OF(cases); i++)
        for (unsigned write = 0; write < 2; write++) {
            struct node_match once = executes;
            once.times = 1;
            (void)node_say(r.nodes, NODE_ANY, &once,
                           &(struct node_action){
                               .act = NODE_RAW, .op = cases[i].op, .body = cases[i].body });
            any_init(&a, &r, write ? DELETE : READ);
            assert_int_equal(ask_run(&a), write ? cases[i].write : cases[i].read);
            assert_int_equal(a.request.out.unknown, write && cases[i].write != ERR_OK);
            ask_fini(&a);
        }
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_run_as_it_stands),
        cmocka_unit_test(a_text_that_is_no_statement_is_refused),
        cmocka_unit_test(a_batch_says_its_kind),
        cmocka_unit_test(a_batch_with_a_condition_takes_no_timestamp),
        cmocka_unit_test(what_no_batch_may_hold_is_refused),
        cmocka_unit_test(empty_pages_are_no_end),
        cmocka_unit_test(a_conditional_write_reads_its_answer),
        cmocka_unit_test(warnings_traces_and_payloads_are_passed_by),
        cmocka_unit_test(an_instant_needs_version_5),
        cmocka_unit_test(an_older_node_is_passed_over_where_it_must_be),
        cmocka_unit_test(an_answer_of_another_kind_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
