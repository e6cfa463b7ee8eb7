/* Goal: no answer that is wrong, cut, corrupt or astray harms more than its own connection: the
 * request is answered by another try, and the node is spoken to again.
 * Method: each fault of the fake cluster (node.h), in each version and packing, in answers to each
 * kind of request that a client sends. */
#include "rig.h"

#include "../cmocka_all.h"

enum { READ };

static const struct rig_opts usual = {
    .statements = { [READ] = { .name = "read",
                               .text = "SELECT v FROM ks.t WHERE k = ?",
                               .takes = "text",
                               .gives = "bigint",
                               .idempotent = true } },
};
static const struct way {
    unsigned version;
    bool lz4;
} ways[] = { { 4, false }, { 4, true }, { 5, false }, { 5, true } };

/* A retry needs another node to go to. */
static bool both_connected(struct rig *r, void *ctx)
{
    struct cql_node_stats nodes[2];
    (void)ctx;
    return cql_nodes(r->client, nodes, 2) == 2 && nodes[0].connections > 0 &&
           nodes[1].connections > 0;
}

static void start(struct rig *r, const struct way *way)
{
    struct rig_opts o = usual;
    struct cql_values row;
    o.nodes = (struct node_opts){ .nodes = 2, .one_port = true, .version_max = way->version };
    o.client.lz4 = way->lz4;
    o.client.retry_min_ms = 10; /* what is tried again is tried soon */
    o.client.retry_max_ms = 50;
    o.client.connect_timeout_ms = 500;
    rig_start(r, &o);
    cql_values_init(&row, 64);
    cql_put_i64(&row, 7);
    node_statement(r->nodes, &(struct node_statement){ .text = usual.statements[READ].text,
                                                       .markers = "k text",
                                                       .partition = { 0 },
                                                       .partition_count = 1,
                                                       .columns = "v bigint",
                                                       .rows = &row });
    cql_values_fini(&row);
}

static void read_once(struct rig *r)
{
    struct ask a;
    rig_until(r, both_connected, NULL, "both nodes are connected");
    ask_init(&a, r, READ);
    cql_put_bytes(&a.values, STR("one"));
    if (ask_run(&a) != ERR_OK)
        fail_msg("%s", a.request.out.note.text);
    assert_int_equal(ask_i64(&a), 7);
    ask_fini(&a);
}

static unsigned hurt(struct rig *r, enum cql_opcode op, enum node_fault fault)
{
    struct node_match once = { .ops = BIT(op), .times = 1 };
    struct node_action action = { .fault = fault, .stream = 999 };
    return node_say(r->nodes, NODE_ANY, &once, &action);
}

static void a_read_survives_every_fault(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct rig r;
        start(&r, &ways[w]);
        for (int fault = NODE_WHOLE; fault <= NODE_SEGMENT_DATA; fault++) {
            unsigned rule = hurt(&r, CQL_OP_EXECUTE, (enum node_fault)fault);
            read_once(&r);
            assert_int_equal(node_said(r.nodes, rule), 1);
            read_once(&r);
        }
        rig_end(&r);
    }
}

static void a_preparation_survives_every_fault(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct rig r;
        start(&r, &ways[w]);
        for (int fault = NODE_WHOLE; fault <= NODE_SEGMENT_DATA; fault++) {
            read_once(&r);
            node_forget(r.nodes, NODE_ANY);
            unsigned rule = hurt(&r, CQL_OP_PREPARE, (enum node_fault)fault);
            read_once(&r);
            assert_int_equal(node_said(r.nodes, rule), 1);
            read_once(&r);
        }
        rig_end(&r);
    }
}

struct turn {
    unsigned rule;
};

static bool ready_again(struct node_cluster *c, void *ctx)
{
    const struct turn *t = ctx;
    return node_said(c, t->rule) == 1 && node_counts(c, 1).ready > 0;
}

static void a_handshake_that_fails_is_tried_again(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct rig r;
        start(&r, &ways[w]);
        for (int fault = NODE_WHOLE; fault <= NODE_DIRECTION; fault++) {
            struct node_match once = { .ops = BIT(CQL_OP_STARTUP), .times = 1 };
            struct node_action action = { .fault = (enum node_fault)fault, .stream = 999 };
            struct turn t = { .rule = node_say(r.nodes, 1, &once, &action) };
            node_cut(r.nodes, 1, 0, false);
            assert_true(node_wait_for(r.nodes, ready_again, &t, RIG_WAIT_MS));
            read_once(&r);
        }
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_survives_every_fault),
        cmocka_unit_test(a_preparation_survives_every_fault),
        cmocka_unit_test(a_handshake_that_fails_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
