/* Goal: what a client does with requests when nodes answer, refuse, forget, hang or go.
 * Method: a fake cluster that does as it is told, and looks at what came (rig.h, node.h). */
#include "rig.h"

#include "../cmocka_all.h"

#include <string.h>

enum { WRITE, READ, CONDITIONAL, COUNT };

static const struct rig_opts usual = {
    .statements = {
        [WRITE] = { .name = "write",
                    .text = "INSERT INTO ks.t (k, v) VALUES (?, ?)",
                    .takes = "text, bigint",
                    .idempotent = true },
        [READ] = { .name = "read",
                   .text = "SELECT v FROM ks.t WHERE k = ?",
                   .takes = "text",
                   .gives = "bigint",
                   .idempotent = true },
        [CONDITIONAL] = { .name = "conditional",
                          .text = "UPDATE ks.t SET v = ? WHERE k = ? IF v = ?" },
        [COUNT] = { .name = "count", .text = "UPDATE ks.c SET n = n + ? WHERE k = ?" },
    },
};

static void tables(struct rig *r)
{
    static struct cql_values rows; /* of the cluster's life */
    cql_values_init(&rows, 4096);
    cql_put_i64(&rows, 7);
    node_statement(r->nodes, &(struct node_statement){ .text = usual.statements[WRITE].text,
                                                       .markers = "k text, v bigint",
                                                       .partition = { 0 },
                                                       .partition_count = 1 });
    node_statement(r->nodes, &(struct node_statement){ .text = usual.statements[READ].text,
                                                       .markers = "k text",
                                                       .partition = { 0 },
                                                       .partition_count = 1,
                                                       .columns = "v bigint",
                                                       .rows = &rows });
    cql_values_fini(&rows);
}

static bool all_up(struct rig *r, void *ctx)
{
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), up = 0;
    for (unsigned i = 0; i < count; i++)
        up += nodes[i].up;
    return up == *(unsigned *)ctx;
}

static void start(struct rig *r, unsigned nodes, void (*change)(struct rig_opts *o))
{
    struct rig_opts o = usual;
    o.nodes.nodes = nodes;
    o.nodes.one_port = true;
    if (change != NULL)
        change(&o);
    rig_start(r, &o);
    tables(r);
    rig_until(r, all_up, &nodes, "all nodes are up");
}

static void read_init(struct ask *a, struct rig *r, const char *key)
{
    ask_init(a, r, READ);
    cql_put_bytes(&a->values, str_of(key));
}

static void write_init(struct ask *a, struct rig *r, const char *key)
{
    ask_init(a, r, WRITE);
    cql_put_bytes(&a->values, str_of(key));
    cql_put_i64(&a->values, 7);
}

static const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };

static void v4(struct rig_opts *o)
{
    o->nodes.version_max = 4;
}
static void lz4(struct rig_opts *o)
{
    o->client.lz4 = true;
}
static void v4_lz4(struct rig_opts *o)
{
    v4(o);
    lz4(o);
}

static void round_trip(void (*change)(struct rig_opts *o), unsigned version)
{
    struct rig r;
    struct ask w, a;
    start(&r, 1, change);
    write_init(&w, &r, "one");
    assert_int_equal(ask_run(&w), ERR_OK);
    read_init(&a, &r, "one");
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_int_equal(ask_i64(&a), 7);
    assert_int_equal(rig_stats(&r).version, version);
    struct node_request got;
    assert_true(node_request(r.nodes, NODE_ANY, &executes, 0, &got));
    assert_int_equal(got.timestamp_us, 1000);
    assert_int_equal(got.consistency, CQL_LOCAL_QUORUM);
    ask_fini(&w);
    ask_fini(&a);
    rig_end(&r);
}

static void rows_come_back_in_every_version_and_packing(void **state)
{
    (void)state;
    round_trip(NULL, 5);
    round_trip(v4, 4);
    round_trip(lz4, 5);
    round_trip(v4_lz4, 4);
}

static void a_statement_that_was_forgotten_is_prepared_again(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    read_init(&a, &r, "one");
    assert_int_equal(ask_run(&a), ERR_OK);
    cql_outcome_fini(&a.request.out);
    node_forget(r.nodes, NODE_ANY);
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_int_equal(ask_i64(&a), 7);
    assert_int_equal(rig_stats(&r).prepared_again, 1);
    ask_fini(&a);
    rig_end(&r);
}

static void a_table_of_other_types_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    node_statement(r.nodes, &(struct node_statement){ .text = usual.statements[READ].text,
                                                      .markers = "k text",
                                                      .columns = "v int" });
    read_init(&a, &r, "one");
    assert_int_equal(ask_run(&a), ERR_CONFLICT);
    assert_non_null(strstr(a.request.out.note.text, "(int)"));
    assert_non_null(strstr(a.request.out.note.text, "(bigint)"));
    ask_fini(&a);
    rig_end(&r);
}

static void what_is_no_fit_request_is_not_sent(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    write_init(&a, &r, "one");
    a.request.params.timestamp_us = CQL_NO_TIMESTAMP;
    assert_int_equal(ask_run(&a), ERR_BAD);
    assert_non_null(strstr(a.request.out.note.text, "timestamp"));
    ask_fini(&a);

    ask_init(&a, &r, CONDITIONAL);
    for (unsigned i = 0; i < 3; i++)
        cql_put_i64(&a.values, 1);
    assert_int_equal(ask_run(&a), ERR_BAD); /* a conditional write with a timestamp */
    ask_fini(&a);

    read_init(&a, &r, "one");
    cql_put_i64(&a.values, 1);
    assert_int_equal(ask_run(&a), ERR_BAD); /* two values for one marker */
    ask_fini(&a);

    write_init(&a, &r, "one");
    a.request.speculative = true;
    assert_int_equal(ask_run(&a), ERR_BAD);
    ask_fini(&a);
    assert_int_equal(node_requests(r.nodes, NODE_ANY, &executes), 0);
    rig_end(&r);
}

static void only_what_is_idempotent_is_sent_twice(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 3, NULL);
    const struct node_action cut = { .fault = NODE_CUT_BEFORE };
    struct node_match once = executes;
    once.times = 1;
    node_say(r.nodes, NODE_ANY, &once, &cut);
    write_init(&a, &r, "one");
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_int_equal(a.request.out.sent, 2);
    ask_fini(&a);

    node_say(r.nodes, NODE_ANY, &once, &cut);
    ask_init(&a, &r, COUNT);
    a.request.params.timestamp_us = CQL_NO_TIMESTAMP;
    cql_put_i64(&a.values, 1);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_IO);
    assert_true(a.request.out.unknown);
    assert_int_equal(a.request.out.sent, 1);
    ask_fini(&a);
    rig_end(&r);
}

static void replicas_are_asked(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 3, NULL);
    node_keyspace(r.nodes, "ks", "class=NetworkTopologyStrategy, dc1=1");
    node_event(r.nodes, NODE_ANY,
               &(struct cql_event){ .kind = CQL_EVENT_SCHEMA,
                                    .schema = { .change = CQL_CHANGE_UPDATED,
                                                .target = STR("KEYSPACE"),
                                                .keyspace = STR("ks"),
                                                .name = STR_NONE } });
    unsigned before = (unsigned)rig_stats(&r).refreshes;
    while (rig_stats(&r).refreshes == before)
        ;
    int node = -1;
    for (unsigned i = 0; i < 20; i++) { /* one key has one replica: one node gets them all */
        struct ask a;
        read_init(&a, &r, "a key");
        assert_int_equal(ask_run(&a), ERR_OK);
        ask_fini(&a);
        struct node_request got;
        assert_true(node_request(r.nodes, NODE_ANY, &executes, i, &got));
        if (i == 1)
            node = (int)got.node; /* the first one came before the statement was known */
        if (i > 1)
            assert_int_equal(got.node, node);
    }
    rig_end(&r);
}

static void a_silent_node_costs_the_deadline_and_names_itself(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    read_init(&a, &r, "one");
    a.request.deadline = mono_add_ms(clock_mono(r.clock), 100);
    assert_int_equal(ask_run(&a), ERR_TIMEOUT);
    assert_non_null(strstr(a.request.out.note.text, "127.0.0.1:"));
    assert_non_null(strstr(a.request.out.note.text, "LOCAL_QUORUM"));
    node_unsay(r.nodes, 0);
    cql_outcome_fini(&a.request.out);
    a.request.deadline = mono_add_ms(clock_mono(r.clock), 10000);
    assert_int_equal(ask_run(&a), ERR_OK); /* the connection is still good */
    assert_int_equal(rig_stats(&r).lost, 0);
    ask_fini(&a);
    rig_end(&r);
}

static void a_slow_read_is_answered_by_a_second_node(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 3, NULL);
    struct node_match once = executes;
    once.times = 1;
    node_say(r.nodes, NODE_ANY, &once, &(struct node_action){ .act = NODE_SWALLOW });
    read_init(&a, &r, "one");
    a.request.speculative = true;
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_int_equal(a.request.out.sent, 2);
    assert_int_equal(rig_stats(&r).speculated_won, 1);
    ask_fini(&a);
    rig_end(&r);
}

static void few(struct rig_opts *o)
{
    o->client.connections = 1;
    o->client.inflight_max = 2;
    o->client.waiting_max = 2;
}

static void one_request_too_many_is_refused_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct ask a[6];
    start(&r, 1, few);
    read_init(&a[0], &r, "one");
    assert_int_equal(ask_run(&a[0]), ERR_OK);
    ask_fini(&a[0]);
    unsigned rule =
        node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    for (unsigned i = 0; i < 5; i++) {
        read_init(&a[i], &r, "one");
        a[i].request.deadline = mono_add_ms(clock_mono(r.clock), 1000);
        ask_start(&a[i]);
    }
    ask_wait(&a[4]);
    assert_int_equal(a[4].request.out.why, ERR_LIMIT);
    assert_int_equal(a[4].request.out.sent, 0);
    for (unsigned i = 0; i < 4; i++) {
        ask_wait(&a[i]);
        assert_int_equal(a[i].request.out.why, ERR_TIMEOUT);
    }
    for (unsigned i = 0; i < 5; i++)
        ask_fini(&a[i]);
    node_unsay(r.nodes, rule);
    rig_end(&r);
}

static void a_drain_lets_what_is_under_way_end(void **state)
{
    (void)state;
    struct rig r;
    struct ask a, late;
    start(&r, 1, NULL);
    node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .delay_ms = 300 });
    read_init(&a, &r, "one");
    ask_start(&a);
    assert_true(node_wait(r.nodes, NODE_ANY, &executes, 1, RIG_WAIT_MS));
    rig_stop(&r, 5000);
    read_init(&late, &r, "one");
    assert_int_equal(ask_run(&late), ERR_SHUTDOWN);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    ask_fini(&a);
    ask_fini(&late);
    rig_free(&r);
}

static void a_drain_ends_at_its_deadline(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    write_init(&a, &r, "one");
    ask_start(&a);
    assert_true(node_wait(r.nodes, NODE_ANY, &executes, 1, RIG_WAIT_MS));
    rig_stop(&r, 100);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_SHUTDOWN);
    assert_true(a.request.out.unknown);
    ask_fini(&a);
    rig_free(&r);
}

static void a_canceled_request_ends_soon(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, 1, NULL);
    node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    read_init(&a, &r, "one");
    ask_start(&a);
    assert_true(node_wait(r.nodes, NODE_ANY, &executes, 1, RIG_WAIT_MS));
    cql_cancel(&a.request);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_TIMEOUT);
    assert_int_equal(a.told, 1);
    ask_fini(&a);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_in_every_version_and_packing),
        cmocka_unit_test(a_statement_that_was_forgotten_is_prepared_again),
        cmocka_unit_test(a_table_of_other_types_is_refused),
        cmocka_unit_test(what_is_no_fit_request_is_not_sent),
        cmocka_unit_test(only_what_is_idempotent_is_sent_twice),
        cmocka_unit_test(replicas_are_asked),
        cmocka_unit_test(a_silent_node_costs_the_deadline_and_names_itself),
        cmocka_unit_test(a_slow_read_is_answered_by_a_second_node),
        cmocka_unit_test(one_request_too_many_is_refused_at_once),
        cmocka_unit_test(a_drain_lets_what_is_under_way_end),
        cmocka_unit_test(a_drain_ends_at_its_deadline),
        cmocka_unit_test(a_canceled_request_ends_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
