/* Goal: what a client does when a connection brings bytes that are wrong, late, too many or none,
 * and when it is full.
 * Method: a fake cluster that does as it is told, for each fault and each kind of request; every
 * request has to end once (rig.h, node.h). */
#include "rig.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { WRITE, READ, COUNT, STATEMENTS };

static const struct rig_opts usual = {
    .nodes = { .nodes = 2, .one_port = true },
    .client = { .retry_min_ms = 5, .retry_max_ms = 20, .connect_timeout_ms = 1000 },
    .statements = {
        [WRITE] = { .name = "write",
                    .text = "INSERT INTO ks.t (k, v) VALUES (?, ?)",
                    .idempotent = true },
        [READ] = { .name = "read", .text = "SELECT v FROM ks.t WHERE k = ?", .idempotent = true },
        [COUNT] = { .name = "count", .text = "UPDATE ks.c SET n = n + ? WHERE k = ?" },
    },
};
static const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };

static bool all_are_up(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), up = 0;
    for (unsigned i = 0; i < count; i++)
        up += nodes[i].connections == r->opts.client.connections;
    return up == r->opts.nodes.nodes;
}

static void start(struct rig *r, const struct rig_opts *opts)
{
    struct rig_opts o = *opts;
    if (o.client.connections == 0)
        o.client.connections = 2;
    rig_start(r, &o);
    rig_until(r, all_are_up, NULL, "all nodes are up");
}

static void any_init(struct ask *a, struct rig *r, unsigned statement, int64_t ms)
{
    ask_init(a, r, statement);
    for (const char *at = usual.statements[statement].text; *at != '\0'; at++)
        if (*at == '?')
            cql_put_bytes(&a->values, STR("k"));
    if (statement == COUNT)
        a->request.params.timestamp_us = CQL_NO_TIMESTAMP;
    a->request.deadline = mono_add_ms(clock_mono(r->clock), ms);
}

static err run_once(struct rig *r, unsigned statement)
{
    struct ask a;
    any_init(&a, r, statement, 10000);
    err why = ask_run(&a);
    ask_fini(&a);
    return why;
}

/* ---- each fault, each opcode ---- */

static void requests_end(struct rig *r)
{
    struct ask asks[STATEMENTS + 1];
    for (unsigned i = 0; i <= STATEMENTS; i++) {
        any_init(&asks[i], r, i % STATEMENTS, 1000);
        if (i == STATEMENTS)
            asks[i].request.way = CQL_WAY_BATCH;
        ask_start(&asks[i]);
    }
    for (unsigned i = 0; i <= STATEMENTS; i++) {
        ask_wait(&asks[i]);
        const struct cql_outcome *out = &asks[i].request.out;
        assert_int_equal(asks[i].told, 1);
        assert_true(out->why == ERR_OK || out->note.text[0] != '\0');
        assert_true(i != COUNT || out->sent <= 1);
        assert_false(out->why == ERR_OK && out->unknown);
        ask_fini(&asks[i]);
    }
}

static const enum node_fault faults[] = {
    NODE_CUT_BEFORE, NODE_CUT_MIDDLE,   NODE_CUT_AFTER,    NODE_OTHER_STREAM, NODE_TWICE,
    NODE_BODY_SHORT, NODE_BODY_LONG,    NODE_LENGTH,       NODE_OPCODE,       NODE_VERSION,
    NODE_DIRECTION,  NODE_SEGMENT_HEAD, NODE_SEGMENT_DATA,
};
static const unsigned opcodes[] = {
    BIT(CQL_OP_OPTIONS), BIT(CQL_OP_STARTUP), BIT(CQL_OP_AUTH_RESPONSE), BIT(CQL_OP_REGISTER),
    BIT(CQL_OP_QUERY),   BIT(CQL_OP_PREPARE), BIT(CQL_OP_EXECUTE),       BIT(CQL_OP_BATCH),
};

static void each_fault_with(unsigned version, bool lz4)
{
    struct rig r;
    struct rig_opts o = usual;
    o.nodes.version_max = version;
    o.nodes.user = o.client.user = "u";
    o.nodes.password = o.client.password = "p";
    o.client.lz4 = lz4;
    o.client.answer_timeout_ms = 300;
    start(&r, &o);
    for (unsigned f = 0; f < COUNT_OF(faults); f++)
        for (unsigned i = 0; i < COUNT_OF(opcodes); i++) {
            const struct node_match once = { .ops = opcodes[i], .times = 1 };
            (void)node_say(r.nodes, NODE_ANY, &once,
                           &(struct node_action){
                               .fault = faults[f], .stream = 1000, .reset = i & 1 });
            if (opcodes[i] < BIT(CQL_OP_PREPARE))
                node_cut(r.nodes, NODE_ANY, 0, false); /* it shakes hands again */
            requests_end(&r);
        }
    node_unsay(r.nodes, 0);
    rig_until(&r, all_are_up, NULL, "all nodes are up again");
    assert_int_equal(run_once(&r, READ), ERR_OK);
    assert_int_equal(rig_stats(&r).in_flight, 0);
    assert_int_equal(rig_stats(&r).waiting, 0);
    rig_end(&r);
}

static void no_fault_of_an_answer_hangs_a_request(void **state)
{
    (void)state;
    each_fault_with(5, false);
    each_fault_with(4, true);
}

static void nor_in_the_other_packings(void **state)
{
    (void)state;
    each_fault_with(5, true);
    each_fault_with(4, false);
}

/* ---- large answers and requests ---- */

static void large_answer_with(unsigned version, bool lz4)
{
    struct rig r;
    struct ask a;
    struct cql_values rows;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.nodes.version_max = version;
    o.client.lz4 = lz4;
    o.client.answer_bytes_max = 100000;
    start(&r, &o);
    char *value = malloc(300000);
    assert_non_null(value);
    memset(value, 'v', 300000);
    cql_values_init(&rows, 1 << 20);
    cql_put_bytes(&rows, (str){ .p = value, .n = 300000 });
    const struct node_action large = { .act = NODE_ROWS, .columns = "v blob", .rows = &rows };
    struct node_match once = executes;
    once.times = 1;
    for (unsigned i = 0; i < 3; i++) {
        (void)node_say(r.nodes, NODE_ANY, &once, &large);
        any_init(&a, &r, i == 2 ? WRITE : READ, 10000);
        assert_int_equal(ask_run(&a), ERR_LIMIT);
        assert_non_null(strstr(a.request.out.note.text, "100000"));
        assert_int_equal(a.request.out.unknown, i == 2); /* it was done, only not told */
        assert_int_equal(a.request.out.sent, 1);
        ask_fini(&a);
        assert_int_equal(run_once(&r, READ), ERR_OK);
    }
    assert_int_equal(rig_stats(&r).lost, 0);
    free(value);
    cql_values_fini(&rows);
    rig_end(&r);
}

static void too_large_an_answer_costs_its_request_alone(void **state)
{
    (void)state;
    large_answer_with(5, false);
    large_answer_with(5, true);
    large_answer_with(4, false);
    large_answer_with(4, true);
}

static void large_request_with(unsigned version, bool lz4)
{
    enum { BYTES = 12 << 20 };
    struct rig r;
    struct ask a;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.nodes.version_max = version;
    o.client.lz4 = lz4;
    o.client.request_bytes_max = BYTES + 9;
    start(&r, &o);
    char *value = malloc(BYTES);
    assert_non_null(value);
    for (unsigned i = 0; i < BYTES; i++)
        value[i] = (char)(i * i >> 7);
    for (unsigned over = 0; over < 2; over++) {
        any_init(&a, &r, WRITE, 10000);
        cql_values_clear(&a.values);
        cql_put_bytes(&a.values, over ? STR("kk") : STR("k"));
        cql_put_bytes(&a.values, (str){ .p = value, .n = BYTES });
        assert_int_equal(ask_run(&a), over ? ERR_LIMIT : ERR_OK);
        assert_int_equal(a.request.out.sent, !over);
        ask_fini(&a);
    }
    struct node_request got;
    assert_true(node_request(r.nodes, 0, &executes, 0, &got));
    str came = node_value(&got, 1);
    assert_int_equal(came.n, BYTES);
    assert_memory_equal(came.p, value, BYTES);
    free(value);
    rig_end(&r);
}

static void a_request_may_be_large(void **state)
{
    (void)state;
    large_request_with(5, false);
    large_request_with(5, true);
    large_request_with(4, true);
}

/* A node that reads no more: bytes pile up to a limit, the rest waits; then all goes on. */
static void a_node_that_does_not_read_fills_up_to_a_limit(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20, ASKS = 12 };
    struct rig r;
    struct ask asks[ASKS];
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.nodes.version_max = 4;
    o.client.connections = 1;
    start(&r, &o);
    assert_int_equal(run_once(&r, WRITE), ERR_OK);
    char *value = calloc(1, BYTES);
    assert_non_null(value);
    node_freeze(r.nodes, 0);
    for (unsigned i = 0; i < ASKS; i++) {
        any_init(&asks[i], &r, WRITE, RIG_WAIT_MS);
        cql_values_clear(&asks[i].values);
        cql_put_bytes(&asks[i].values, STR("k"));
        cql_put_bytes(&asks[i].values, (str){ .p = value, .n = BYTES });
        if (i >= ASKS - 2)
            asks[i].request.deadline = mono_add_ms(clock_mono(r.clock), 500);
        ask_start(&asks[i]);
    }
    for (unsigned i = ASKS - 2; i < ASKS; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_TIMEOUT);
        assert_int_equal(asks[i].request.out.sent, 0); /* it waited for room */
        assert_false(asks[i].request.out.unknown);
    }
    node_thaw(r.nodes, 0);
    for (unsigned i = 0; i < ASKS - 2; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_OK);
    }
    for (unsigned i = 0; i < ASKS; i++)
        ask_fini(&asks[i]);
    free(value);
    rig_end(&r);
}

/* ---- signs of life ---- */

static bool one_was_lost(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_stats s;
    cql_stats(r->client, &s);
    return s.lost > 0;
}

static void too_many_orphans_end_a_connection(void **state)
{
    (void)state;
    enum { ASKS = 6 };
    struct rig r;
    struct ask asks[ASKS];
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.client.connections = 1;
    o.client.inflight_max = 8;
    o.client.orphans_max = ASKS - 1;
    start(&r, &o);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    unsigned rule = node_say(r.nodes, 0, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    for (unsigned i = 0; i < ASKS; i++) {
        any_init(&asks[i], &r, READ, 200);
        ask_start(&asks[i]);
    }
    for (unsigned i = 0; i < ASKS; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_TIMEOUT);
        ask_fini(&asks[i]);
    }
    rig_until(&r, one_was_lost, NULL, "the connection was given up");
    node_unsay(r.nodes, rule);
    rig_until(&r, all_are_up, NULL, "another one is there");
    assert_int_equal(run_once(&r, READ), ERR_OK);
    rig_end(&r);
}

/* All streams are taken: the sign of life has one of its own. */
static void a_full_connection_still_shows_its_life(void **state)
{
    (void)state;
    enum { ASKS = 4 };
    static const struct node_match options = { .ops = BIT(CQL_OP_OPTIONS) };
    struct rig r;
    struct ask asks[ASKS];
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.client.connections = 1;
    o.client.inflight_max = ASKS;
    o.client.orphans_max = 1;
    o.client.heartbeat_ms = 100;
    start(&r, &o);
    unsigned rule = node_say(r.nodes, 0, &executes, &(struct node_action){ .held = true });
    for (unsigned i = 0; i < ASKS; i++) {
        any_init(&asks[i], &r, READ, RIG_WAIT_MS);
        ask_start(&asks[i]);
    }
    assert_true(node_wait(r.nodes, 0, &executes, ASKS, RIG_WAIT_MS));
    node_clear(r.nodes);
    assert_true(node_wait(r.nodes, 0, &options, 6, RIG_WAIT_MS));
    assert_int_equal(rig_stats(&r).lost, 0);
    node_unsay(r.nodes, rule);
    (void)node_release(r.nodes, rule);
    for (unsigned i = 0; i < ASKS; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_OK);
        ask_fini(&asks[i]);
    }
    rig_end(&r);
}

static void stand_still(struct rig *r, void *ctx)
{
    (void)ctx;
    mono end = mono_add_ms(clock_mono(r->clock), 600);
    while (clock_mono(r->clock).ns < end.ns)
        ;
}

/* It did not listen: that is no silence of the nodes. */
static void a_client_that_stood_still_keeps_its_connections(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = usual;
    o.client.heartbeat_ms = 150;
    o.client.answer_timeout_ms = 250;
    start(&r, &o);
    rig_on_loop(&r, stand_still, NULL);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    assert_int_equal(rig_stats(&r).lost, 0);
    rig_end(&r);
}

/* ---- room ---- */

static bool node_is_full(struct node_cluster *c, void *ctx)
{
    const unsigned *streams = ctx;
    return node_requests(c, 0, &executes) == *streams;
}

static void a_full_node_is_passed_over(void **state)
{
    (void)state;
    enum { STREAMS = 3, ASKS = 60 };
    struct rig r;
    struct ask asks[ASKS];
    struct rig_opts o = usual;
    o.client.connections = 1;
    o.client.inflight_max = STREAMS;
    o.client.waiting_max = 1;
    start(&r, &o);
    (void)node_say(r.nodes, 0, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    unsigned streams = STREAMS, i = 0, late = 0;
    for (; i < ASKS && !node_wait_for(r.nodes, node_is_full, &streams, 0); i++) {
        any_init(&asks[i], &r, READ, 3000);
        ask_start(&asks[i]);
        unsigned all = i + 1; /* all that came this far have come */
        assert_true(node_wait(r.nodes, NODE_ANY, &executes, all, RIG_WAIT_MS));
    }
    assert_true(node_requests(r.nodes, 0, &executes) == STREAMS);
    for (unsigned k = 0; k < 30; k++)
        assert_int_equal(run_once(&r, READ), ERR_OK); /* the other one is free each time */
    assert_int_equal(node_requests(r.nodes, 0, &executes), STREAMS);
    for (unsigned k = 0; k < i; k++) {
        ask_wait(&asks[k]);
        late += asks[k].request.out.why == ERR_TIMEOUT;
        ask_fini(&asks[k]);
    }
    assert_int_equal(late, STREAMS);
    rig_end(&r);
}

static void the_background_takes_a_quarter(void **state)
{
    (void)state;
    enum { SENT = 2, WAIT = 2, ASKS = SENT + WAIT + 1 };
    static const struct node_match reads = { .ops = BIT(CQL_OP_EXECUTE), .text = "SELECT" };
    struct rig r;
    struct ask asks[ASKS];
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.client.connections = 1;
    o.client.inflight_max = 8;
    o.client.waiting_max = 8;
    start(&r, &o);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    node_clear(r.nodes);
    unsigned rule = node_say(r.nodes, 0, &reads, &(struct node_action){ .held = true });
    for (unsigned i = 0; i < ASKS; i++) {
        any_init(&asks[i], &r, READ, RIG_WAIT_MS);
        asks[i].request.class = CQL_BACKGROUND;
        ask_start(&asks[i]);
    }
    ask_wait(&asks[ASKS - 1]);
    assert_int_equal(asks[ASKS - 1].request.out.why, ERR_LIMIT);
    assert_true(node_wait(r.nodes, 0, &reads, SENT, RIG_WAIT_MS));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(run_once(&r, WRITE), ERR_OK);
    assert_int_equal(node_requests(r.nodes, 0, &reads), SENT);
    node_unsay(r.nodes, rule);
    (void)node_release(r.nodes, rule);
    for (unsigned i = 0; i < ASKS - 1; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_OK);
    }
    for (unsigned i = 0; i < ASKS; i++)
        ask_fini(&asks[i]);
    rig_end(&r);
}

static void the_background_has_its_turn(void **state)
{
    (void)state;
    enum { STREAMS = 4, ASKS = STREAMS + 12 };
    static const struct node_match writes = { .ops = BIT(CQL_OP_EXECUTE), .text = "INSERT" };
    struct rig r;
    struct ask asks[ASKS], back;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    o.client.connections = 1;
    o.client.inflight_max = STREAMS;
    start(&r, &o);
    assert_int_equal(run_once(&r, WRITE), ERR_OK);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    node_clear(r.nodes);
    unsigned rule = node_say(r.nodes, 0, &executes, &(struct node_action){ .held = true });
    for (unsigned i = 0; i < ASKS; i++) {
        any_init(&asks[i], &r, READ, RIG_WAIT_MS);
        ask_start(&asks[i]);
    }
    any_init(&back, &r, WRITE, RIG_WAIT_MS);
    back.request.class = CQL_BACKGROUND;
    ask_start(&back);
    assert_true(node_wait(r.nodes, 0, &executes, STREAMS, RIG_WAIT_MS));
    for (unsigned i = 0; node_requests(r.nodes, 0, &writes) == 0; i++) {
        assert_true(i < 3); /* before the foreground is through */
        unsigned came = node_requests(r.nodes, 0, &executes);
        unsigned sent = node_release(r.nodes, rule);
        assert_true(node_wait(r.nodes, 0, &executes, came + sent, RIG_WAIT_MS));
    }
    node_unsay(r.nodes, rule);
    (void)node_release(r.nodes, rule);
    for (unsigned i = 0; i < ASKS; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].request.out.why, ERR_OK);
        ask_fini(&asks[i]);
    }
    ask_wait(&back);
    assert_int_equal(back.request.out.why, ERR_OK);
    ask_fini(&back);
    rig_end(&r);
}

/* What a node has to prepare holds up only those who need it. */
static void a_slow_prepare_holds_up_no_other(void **state)
{
    (void)state;
    static const struct node_match prepares = { .ops = BIT(CQL_OP_PREPARE) };
    struct rig r;
    struct ask a;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    start(&r, &o);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    node_clear(r.nodes);
    unsigned rule = node_say(r.nodes, 0, &prepares, &(struct node_action){ .held = true });
    any_init(&a, &r, WRITE, RIG_WAIT_MS);
    ask_start(&a);
    assert_true(node_wait(r.nodes, 0, &prepares, 1, RIG_WAIT_MS));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(run_once(&r, READ), ERR_OK);
    assert_int_equal(node_release(r.nodes, rule), 1);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    ask_fini(&a);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_fault_of_an_answer_hangs_a_request),
        cmocka_unit_test(nor_in_the_other_packings),
        cmocka_unit_test(too_large_an_answer_costs_its_request_alone),
        cmocka_unit_test(a_request_may_be_large),
        cmocka_unit_test(a_node_that_does_not_read_fills_up_to_a_limit),
        cmocka_unit_test(too_many_orphans_end_a_connection),
        cmocka_unit_test(a_full_connection_still_shows_its_life),
        cmocka_unit_test(a_client_that_stood_still_keeps_its_connections),
        cmocka_unit_test(a_full_node_is_passed_over),
        cmocka_unit_test(the_background_takes_a_quarter),
        cmocka_unit_test(the_background_has_its_turn),
        cmocka_unit_test(a_slow_prepare_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
