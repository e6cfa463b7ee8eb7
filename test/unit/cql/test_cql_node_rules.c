/* test_cql_node_rules.c - the fake cluster hurts what it is told to hurt, and nothing else.
 *
 * Goal: each fault of a rule shows on the wire, each verb on the connections, each mistake of a
 * client as a complaint. Method: as in test_cql_node.c. */
#include "unit/cql/dial.h"

#include "lib/wait.h"
#include "unit/cmocka_all.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LATER_MS = 150 };

static const struct way {
    unsigned version;
    bool lz4;
} ways[] = { { 4, false }, { 4, true }, { 5, false }, { 5, true } };

static const struct node_match any_query = { .ops = BIT(CQL_OP_QUERY) };
static const struct node_match one_query = { .ops = BIT(CQL_OP_QUERY), .times = 1 };
static const char write_text[] = "INSERT INTO ks.t (k) VALUES (1)";

/* One node, and a connection to it. */
struct pair {
    struct node_cluster *c;
    struct dial d;
};
static void pair_open(struct pair *p, const struct way *way)
{
    p->c = node_new(&(struct node_opts){ .nodes = 2 });
    dial_start(&p->d, p->c, 0, way->version, way->lz4);
}

static void pair_close(struct pair *p)
{
    const char *complaint = node_complaint(p->c);
    if (complaint != NULL)
        fail_msg("%s", complaint);
    dial_close(&p->d);
    node_free(&p->c);
}

/* ---- errors ---- */

static const struct cql_failure failures[] = {
    { .code = CQL_SERVER_ERROR, .message = STR_INIT("boom") },
    { .code = CQL_PROTOCOL_ERROR },
    { .code = CQL_BAD_CREDENTIALS },
    { .code = CQL_UNAVAILABLE,
      .consistency = CQL_LOCAL_QUORUM,
      .required = 2,
      .alive_or_received = 1 },
    { .code = CQL_OVERLOADED },
    { .code = CQL_BOOTSTRAPPING },
    { .code = CQL_TRUNCATE_ERROR },
    { .code = CQL_WRITE_TIMEOUT,
      .consistency = CQL_TWO,
      .required = 2,
      .alive_or_received = 1,
      .write = CQL_WRITE_BATCH_LOG },
    { .code = CQL_WRITE_TIMEOUT, .write = CQL_WRITE_CAS },
    { .code = CQL_READ_TIMEOUT, .required = 3, .alive_or_received = 2, .data_present = true },
    { .code = CQL_READ_FAILURE, .required = 3, .failed = 2, .data_present = true },
    { .code = CQL_FUNCTION_FAILURE, .keyspace = STR_INIT("ks"), .table = STR_INIT("f") },
    { .code = CQL_WRITE_FAILURE, .required = 3, .failed = 1, .write = CQL_WRITE_UNLOGGED_BATCH },
    { .code = CQL_CDC_WRITE_FAILURE },
    { .code = CQL_CAS_UNKNOWN, .required = 3, .alive_or_received = 1 },
    { .code = CQL_SYNTAX_ERROR },
    { .code = CQL_UNAUTHORIZED },
    { .code = CQL_INVALID },
    { .code = CQL_CONFIG_ERROR },
    { .code = CQL_ALREADY_EXISTS, .keyspace = STR_INIT("ks"), .table = STR_INIT("t") },
    { .code = CQL_UNPREPARED, .id = STR_INIT("an id") },
    { .code = 0x7777 },
};

static void failure_is(const struct cql_failure *got, const struct cql_failure *want)
{
    assert_int_equal(got->code, want->code);
    assert_true(str_eq(got->message, want->message));
    assert_int_equal(got->consistency, want->consistency);
    assert_int_equal(got->required, want->required);
    assert_int_equal(got->alive_or_received, want->alive_or_received);
    assert_int_equal(got->failed, want->failed);
    assert_int_equal(got->data_present, want->data_present);
    assert_int_equal(got->write, want->write);
    assert_true(str_eq(got->id, want->id));
    assert_true(str_eq(got->keyspace, want->keyspace));
    assert_true(str_eq(got->table, want->table));
}

static void every_error_arrives_with_its_fields(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        pair_open(&p, &ways[w]);
        for (size_t i = 0; i < COUNT_OF(failures); i++) {
            struct cql_answer a;
            (void)node_say(p.c, 0, &one_query,
                           &(struct node_action){ .act = NODE_ERROR, .error = failures[i] });
            dial_query(&p.d, 1, write_text);
            dial_expect(&p.d, 1, CQL_OP_ERROR, &a);
            failure_is(&a.failure, &failures[i]);
            cql_answer_fini(&a);
        }
        dial_query(&p.d, 1, write_text);
        dial_expect_void(&p.d, 1);
        pair_close(&p);
    }
}

static void the_numbers_of_version_5_arrive(void **state)
{
    (void)state;
    struct pair p;
    struct cql_answer a;
    struct cql_failure cas = { .code = CQL_WRITE_TIMEOUT,
                               .write = CQL_WRITE_CAS,
                               .contentions = 9 };
    struct cql_failure tombs = { .code = CQL_READ_FAILURE, .failed = 2, .reason = 1 };
    pair_open(&p, &ways[2]);
    (void)node_say(p.c, 0, &one_query, &(struct node_action){ .act = NODE_ERROR, .error = cas });
    (void)node_say(p.c, 0, &one_query, &(struct node_action){ .act = NODE_ERROR, .error = tombs });
    dial_query(&p.d, 1, write_text);
    dial_expect(&p.d, 1, CQL_OP_ERROR, &a);
    assert_int_equal(a.failure.contentions, 9);
    dial_query(&p.d, 1, write_text);
    dial_expect(&p.d, 1, CQL_OP_ERROR, &a);
    assert_int_equal(a.failure.reason, 1);
    pair_close(&p);
}

/* ---- which rule decides ---- */

static void rules_for_some_times_come_first(void **state)
{
    (void)state;
    static const int32_t want[] = { CQL_SYNTAX_ERROR, CQL_INVALID, CQL_INVALID, CQL_OVERLOADED };
    struct pair p;
    pair_open(&p, &ways[0]);
    struct node_match some = { .text = "ks.t", .times = 2, .skip = 1 };
    struct node_action action = { .act = NODE_ERROR, .error = { .code = CQL_UNAUTHORIZED } };
    unsigned ever = node_say(p.c, NODE_ANY, &any_query, &action);
    action.error.code = CQL_OVERLOADED;
    unsigned newer = node_say(p.c, 0, NULL, &action);
    action.error.code = CQL_INVALID;
    unsigned twice = node_say(p.c, 0, &some, &action);
    action.error.code = CQL_SYNTAX_ERROR;
    (void)node_say(p.c, 0, &one_query, &action);
    action.error.code = CQL_CONFIG_ERROR;
    (void)node_say(p.c, 1, &one_query, &action); /* of another node */
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        dial_query(&p.d, 1, write_text);
        dial_expect_error(&p.d, 1, want[i]);
    }
    assert_int_equal(node_said(p.c, twice), 2);
    assert_int_equal(node_said(p.c, newer), 1);
    node_unsay(p.c, newer);
    dial_query(&p.d, 1, write_text);
    dial_expect_error(&p.d, 1, CQL_UNAUTHORIZED);
    node_unsay(p.c, 0);
    dial_query(&p.d, 1, write_text);
    dial_expect_void(&p.d, 1);
    assert_int_equal(node_said(p.c, ever), 1);
    pair_close(&p);
}

static void a_swallowed_request_stays_in_flight(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, &ways[2]);
    (void)node_say(p.c, 0, &one_query, &(struct node_action){ .act = NODE_SWALLOW });
    dial_query(&p.d, 1, write_text);
    dial_query(&p.d, 2, write_text);
    dial_expect_void(&p.d, 2);
    struct node_counts counts = node_counts(p.c, 0);
    assert_int_equal(counts.in_flight, 1);
    assert_true(counts.in_flight_max >= 1);
    assert_int_equal(node_counts(p.c, NODE_ANY).in_flight, 1);
    node_cut(p.c, 0, 0, false);
    assert_int_equal(node_counts(p.c, 0).in_flight, 0);
    pair_close(&p);
}

static void a_delayed_answer_comes_behind_a_later_one(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct node_request r;
        pair_open(&p, &ways[w]);
        (void)node_say(p.c, 0, &one_query, &(struct node_action){ .delay_ms = LATER_MS });
        dial_query(&p.d, 1, write_text);
        dial_query(&p.d, 2, write_text);
        dial_expect_void(&p.d, 2);
        dial_expect_void(&p.d, 1);
        dial_query(&p.d, 3, write_text);
        dial_expect_void(&p.d, 3);
        struct node_request later;
        assert_true(node_request(p.c, 0, &any_query, 0, &r));
        assert_true(node_request(p.c, 0, &any_query, 2, &later));
        assert_true(later.at_ms - r.at_ms >= LATER_MS - 1);
        pair_close(&p);
    }
}

static void a_held_answer_waits_for_the_word(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct node_match two = { .ops = BIT(CQL_OP_QUERY), .times = 2 };
        struct node_action hold = { .held = true };
        struct node_action cut = { .held = true, .fault = NODE_CUT_BEFORE };
        struct cql_head head;
        str body;
        pair_open(&p, &ways[w]);
        unsigned rule = node_say(p.c, 0, &two, &hold);
        dial_query(&p.d, 1, write_text);
        dial_query(&p.d, 2, write_text);
        dial_query(&p.d, 3, write_text);
        dial_expect_void(&p.d, 3);
        assert_int_equal(node_counts(p.c, 0).in_flight, 2);
        assert_int_equal(node_release(p.c, rule + 1), 0);
        assert_int_equal(node_release(p.c, rule), 2);
        dial_expect_void(&p.d, 1);
        dial_expect_void(&p.d, 2);
        (void)node_say(p.c, 0, &one_query, &cut);
        dial_query(&p.d, 1, write_text);
        dial_query(&p.d, 2, write_text);
        dial_expect_void(&p.d, 2);
        assert_int_equal(node_release(p.c, 0), 1);
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_END);
        pair_close(&p);
    }
}

/* ---- faults ---- */

static void hurt(struct pair *p, const struct way *way, const struct node_action *action)
{
    pair_open(p, way);
    (void)node_say(p->c, 0, &one_query, action);
    dial_query(&p->d, 1, write_text);
}

static void cuts_come_before_within_and_behind_an_answer(void **state)
{
    (void)state;
    for (size_t w = 0; w < 2 * COUNT_OF(ways); w++) {
        const struct way *way = &ways[w / 2];
        bool reset = w % 2 == 1;
        struct pair p;
        struct cql_head head;
        str body;
        hurt(&p, way, &(struct node_action){ .fault = NODE_CUT_BEFORE, .reset = reset });
        assert_int_equal(dial_take(&p.d, &head, &body), reset ? DIAL_RESET : DIAL_END);
        assert_int_equal(node_counts(p.c, 0).open, 0);
        pair_close(&p);
        hurt(&p, way, &(struct node_action){ .fault = NODE_CUT_MIDDLE });
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_END);
        assert_true(p.d.in.n + p.d.plain.n > 0);
        pair_close(&p);
        hurt(&p, way, &(struct node_action){ .fault = NODE_CUT_AFTER });
        dial_expect_void(&p.d, 1);
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_END);
        pair_close(&p);
    }
}

static void answers_go_astray_or_come_twice(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_OTHER_STREAM, .stream = 77 });
        dial_expect_void(&p.d, 77);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_TWICE });
        dial_expect_void(&p.d, 1);
        dial_expect_void(&p.d, 1);
        pair_close(&p);
    }
}

static void bodies_are_too_short_or_too_long(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_head head;
        struct cql_answer a;
        struct err_note note;
        str body;
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_BODY_LONG });
        dial_expect_void(&p.d, 1);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_BODY_SHORT });
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_ANSWER);
        assert_int_equal(body.n, 2);
        assert_int_equal(cql_answer_parse(&head, body, &a, &note), ERR_CORRUPT);
        pair_close(&p);
    }
}

static void heads_are_wrong(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_head head;
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_LENGTH });
        assert_int_equal(dial_head(&p.d, &head), DIAL_ANSWER);
        assert_int_equal(head.body_bytes, INT32_MAX);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_LENGTH, .length = -1 });
        assert_int_equal(dial_head(&p.d, &head), DIAL_ANSWER);
        assert_int_equal(head.body_bytes, UINT32_MAX);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_OPCODE });
        assert_int_equal(dial_head(&p.d, &head), DIAL_ANSWER);
        assert_int_equal(head.opcode, 0x1f);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_VERSION });
        assert_int_equal(dial_head(&p.d, &head), DIAL_ANSWER);
        assert_int_equal(head.version, 7);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_DIRECTION });
        assert_int_equal(dial_head(&p.d, &head), DIAL_ANSWER);
        assert_false(head.answer);
        pair_close(&p);
    }
}

static void segments_are_corrupt(void **state)
{
    (void)state;
    for (size_t w = 2; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_head head;
        str body;
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_SEGMENT_HEAD });
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_BAD);
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .fault = NODE_SEGMENT_DATA });
        assert_int_equal(dial_take(&p.d, &head, &body), DIAL_BAD);
        pair_close(&p);
    }
}

static void what_stands_before_an_answer_and_raw_ones(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_answer a;
        hurt(&p, &ways[w],
             &(struct node_action){ .warnings = { "first", "second" },
                                    .traced = true,
                                    .payload = { STR_INIT("key"), STR_INIT("value") } });
        dial_expect(&p.d, 1, CQL_OP_RESULT, &a);
        assert_true(a.traced);
        assert_int_equal(a.warnings_count, 2);
        assert_true(str_eq(cql_answer_warning(&a), STR("first")));
        assert_true(str_eq(cql_answer_warning(&a), STR("second")));
        assert_true(str_ends(a.payload, STR("value")));
        pair_close(&p);
        hurt(&p, &ways[w], &(struct node_action){ .act = NODE_RAW, .op = CQL_OP_READY });
        dial_expect(&p.d, 1, CQL_OP_READY, &a);
        pair_close(&p);
    }
}

/* ---- events ---- */

static void registered(struct dial *d, const char *kind)
{
    struct cql_answer a;
    str kinds[] = { str_of(kind) };
    size_t begun = dial_begin(d, 4, CQL_OP_REGISTER);
    cql_body_register(&d->out, kinds, 1);
    dial_send(d, begun);
    dial_expect(d, 4, CQL_OP_READY, &a);
}

static void events_go_to_those_who_registered(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_answer a;
        pair_open(&p, &ways[w]);
        assert_int_equal(node_event_of(p.c, NODE_ANY, "UP", 1), 0);
        registered(&p.d, "STATUS_CHANGE");
        assert_int_equal(node_event_of(p.c, 1, "UP", 1), 0);
        assert_int_equal(node_event_of(p.c, NODE_ANY, "NEW_NODE", 1), 0);
        assert_int_equal(node_event_of(p.c, 0, "DOWN", 1), 1);
        dial_expect(&p.d, CQL_STREAM_EVENT, CQL_OP_EVENT, &a);
        assert_int_equal(a.event.kind, CQL_EVENT_STATUS);
        assert_true(str_eq(a.event.change, STR("DOWN")));
        assert_string_equal(a.event.address, "127.0.0.1");
        assert_int_equal(a.event.port, node_port(p.c, 1));
        struct cql_event newer = { .kind = CQL_EVENT_OTHER, .change = STR("WEATHER_CHANGE") };
        assert_int_equal(node_event(p.c, 0, &newer), 1);
        dial_expect(&p.d, CQL_STREAM_EVENT, CQL_OP_EVENT, &a);
        assert_int_equal(a.event.kind, CQL_EVENT_OTHER);
        assert_int_equal(node_counts(p.c, 0).registered, 1);
        pair_close(&p);
    }
}

static void a_schema_change_is_answered_and_told(void **state)
{
    (void)state;
    struct pair p;
    struct cql_answer a;
    pair_open(&p, &ways[3]);
    registered(&p.d, "SCHEMA_CHANGE");
    dial_query(&p.d, 1, "CREATE TABLE IF NOT EXISTS ks.other (k text PRIMARY KEY)");
    dial_expect(&p.d, 1, CQL_OP_RESULT, &a);
    assert_int_equal(a.result, CQL_RESULT_SCHEMA);
    assert_int_equal(a.schema.change, CQL_CHANGE_CREATED);
    assert_true(str_eq(a.schema.name, STR("other")));
    dial_expect(&p.d, CQL_STREAM_EVENT, CQL_OP_EVENT, &a);
    assert_int_equal(a.event.kind, CQL_EVENT_SCHEMA);
    assert_true(str_eq(a.event.schema.target, STR("TABLE")));
    dial_query(&p.d, 1, "DROP KEYSPACE ks");
    dial_expect(&p.d, 1, CQL_OP_RESULT, &a);
    assert_true(str_eq(a.schema.target, STR("KEYSPACE")));
    assert_true(str_eq(a.schema.keyspace, STR("ks")));
    dial_expect(&p.d, CQL_STREAM_EVENT, CQL_OP_EVENT, &a);
    dial_query(&p.d, 1, "USE ks");
    dial_expect(&p.d, 1, CQL_OP_RESULT, &a);
    assert_int_equal(a.result, CQL_RESULT_KEYSPACE);
    pair_close(&p);
}

/* ---- verbs ---- */

static bool refused(struct node_cluster *c, unsigned node)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(node_port(c, node)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool failed = connect(fd, (struct sockaddr *)&at, sizeof at) != 0;
    if (failed)
        assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    return failed;
}

static void a_node_goes_down_and_comes_up(void **state)
{
    (void)state;
    struct pair p;
    struct cql_head head;
    str body;
    pair_open(&p, &ways[2]);
    uint16_t port = node_port(p.c, 0);
    node_down(p.c, 0);
    assert_true(dial_take(&p.d, &head, &body) != DIAL_ANSWER);
    assert_true(refused(p.c, 0));
    node_down(p.c, 0);
    node_up(p.c, 0);
    assert_int_equal(node_port(p.c, 0), port);
    dial_close(&p.d);
    dial_start(&p.d, p.c, 0, 5, false);
    node_move(p.c, 0);
    assert_int_not_equal(node_port(p.c, 0), port);
    assert_false(refused(p.c, 0));
    pair_close(&p);
}

static bool two_accepted(struct node_cluster *c, void *ctx)
{
    (void)ctx;
    return node_counts(c, 0).accepted >= 2;
}

static void a_frozen_node_accepts_and_reads_nothing(void **state)
{
    (void)state;
    struct pair p;
    struct dial other, awake;
    pair_open(&p, &ways[3]);
    dial_start(&awake, p.c, 1, 5, false);
    node_freeze(p.c, 0);
    dial_query(&p.d, 1, write_text);
    dial_query(&p.d, 2, write_text);
    dial_open(&other, p.c, 0, 5); /* the kernel does */
    dial_query(&awake, 1, write_text);
    dial_expect_void(&awake, 1); /* the thread has looked since */
    assert_int_equal(node_requests(p.c, 0, &any_query), 0);
    assert_int_equal(node_counts(p.c, 0).accepted, 1);
    node_thaw(p.c, 0);
    dial_expect_void(&p.d, 1);
    dial_expect_void(&p.d, 2);
    assert_true(node_wait_for(p.c, two_accepted, NULL, WAIT_MS));
    assert_true(node_wait(p.c, 0, &any_query, 2, WAIT_MS));
    assert_false(node_wait(p.c, 0, &any_query, 3, 0));
    dial_close(&awake);
    dial_close(&other);
    pair_close(&p);
}

/* ---- what was sent ---- */

static void a_batch_is_read_back(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct pair p;
        struct cql_answer prepared;
        struct cql_values values;
        struct node_request r;
        struct node_match match = { .ops = BIT(CQL_OP_BATCH), .text = "ks.two" };
        struct cql_params params = { .consistency = CQL_QUORUM,
                                     .serial = CQL_LOCAL_SERIAL,
                                     .timestamp_us = 1234567890123,
                                     .now_s = CQL_NO_NOW };
        pair_open(&p, &ways[w]);
        size_t begun = dial_begin(&p.d, 1, CQL_OP_PREPARE);
        cql_body_prepare(&p.d.out, p.d.version, STR("INSERT INTO ks.one (k) VALUES (?)"), STR_NONE);
        dial_send(&p.d, begun);
        dial_expect(&p.d, 1, CQL_OP_RESULT, &prepared);
        cql_values_init(&values, 1 << 16);
        cql_put_null(&values);
        begun = dial_begin(&p.d, 1, CQL_OP_BATCH);
        cql_batch_begin(&p.d.out, CQL_UNLOGGED, 2);
        cql_batch_prepared(&p.d.out, prepared.prepared.id, &values);
        cql_values_clear(&values);
        cql_put_bytes(&values, STR("x"));
        cql_batch_text(&p.d.out, STR("INSERT INTO ks.two (k) VALUES (?)"), &values);
        cql_batch_end(&p.d.out, p.d.version, &params);
        dial_send(&p.d, begun);
        dial_expect_void(&p.d, 1);
        assert_true(node_request(p.c, NODE_ANY, &match, 0, &r));
        assert_int_equal(r.batch, CQL_UNLOGGED);
        assert_int_equal(r.statements, 2);
        assert_int_equal(r.values_count, 2);
        assert_true(node_value(&r, 0).p == NULL);
        assert_true(str_eq(node_value(&r, 1), STR("x")));
        assert_int_equal(r.consistency, CQL_QUORUM);
        assert_int_equal(r.serial, CQL_LOCAL_SERIAL);
        assert_true(r.timestamp_us == 1234567890123);
        assert_true(str_find_str(r.text, STR("ks.one")) < r.text.n);
        assert_true(str_eq(r.id, prepared.prepared.id) || r.id.n == 16);
        node_clear(p.c);
        assert_int_equal(node_requests(p.c, NODE_ANY, NULL), 0);
        cql_values_fini(&values);
        cql_answer_fini(&prepared);
        pair_close(&p);
    }
}

static void complaint_has(struct pair *p, const char *part)
{
    struct cql_head head;
    str body;
    enum dial_got got;
    do
        got = dial_take(&p->d, &head, &body);
    while (got == DIAL_ANSWER); /* a refusal, and the end */
    const char *complaint = node_complaint(p->c);
    assert_non_null(complaint);
    if (strstr(complaint, part) == NULL)
        fail_msg("%s", complaint);
    dial_close(&p->d);
    node_free(&p->c);
}

static void what_a_client_may_not_do_is_complained_of(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, &ways[2]);
    (void)node_say(p.c, 0, &one_query, &(struct node_action){ .act = NODE_SWALLOW });
    dial_query(&p.d, 5, write_text);
    dial_query(&p.d, 5, write_text);
    dial_expect_void(&p.d, 5);
    (void)shutdown(p.d.fd, SHUT_WR);
    complaint_has(&p, "stream 5 has a request in flight");

    pair_open(&p, &ways[2]);
    size_t begun = dial_begin(&p.d, 1, CQL_OP_OPTIONS);
    p.d.out.p[begun + 1] = CQL_FLAG_COMPRESSED;
    dial_send(&p.d, begun);
    complaint_has(&p, "compression");

    pair_open(&p, &ways[1]);
    begun = dial_begin(&p.d, 1, CQL_OP_OPTIONS);
    buf_put(&p.d.out, STR("behind"));
    dial_send(&p.d, begun);
    complaint_has(&p, "bytes behind a body");

    pair_open(&p, &ways[3]);
    (void)send(p.d.fd, "not a segment at all", 20, MSG_NOSIGNAL);
    complaint_has(&p, "");

    pair_open(&p, &ways[0]);
    dial_startup(&p.d, NULL);
    complaint_has(&p, "a second STARTUP");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_arrives_with_its_fields),
        cmocka_unit_test(the_numbers_of_version_5_arrive),
        cmocka_unit_test(rules_for_some_times_come_first),
        cmocka_unit_test(a_swallowed_request_stays_in_flight),
        cmocka_unit_test(a_delayed_answer_comes_behind_a_later_one),
        cmocka_unit_test(a_held_answer_waits_for_the_word),
        cmocka_unit_test(cuts_come_before_within_and_behind_an_answer),
        cmocka_unit_test(answers_go_astray_or_come_twice),
        cmocka_unit_test(bodies_are_too_short_or_too_long),
        cmocka_unit_test(heads_are_wrong),
        cmocka_unit_test(segments_are_corrupt),
        cmocka_unit_test(what_stands_before_an_answer_and_raw_ones),
        cmocka_unit_test(events_go_to_those_who_registered),
        cmocka_unit_test(a_schema_change_is_answered_and_told),
        cmocka_unit_test(a_node_goes_down_and_comes_up),
        cmocka_unit_test(a_frozen_node_accepts_and_reads_nothing),
        cmocka_unit_test(a_batch_is_read_back),
        cmocka_unit_test(what_a_client_may_not_do_is_complained_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
