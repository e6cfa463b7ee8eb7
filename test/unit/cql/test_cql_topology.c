/* Goal: whatever the cluster's own tables say, the client keeps a usable picture of it, and keeps
 * its connections: rows that are doubled, too many, cut, or contradict each other.
 * Method: a fake cluster whose system tables lie (node.h), and the client's own figures (rig.h);
 * the ring is looked at through the private header. */
#include "rig.h"

#include "../cmocka_all.h"
#include "cql/cql_impl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { READ, NODES_SEEN_MAX = 8, ANYCAST = 127 };
static const char read_text[] = "SELECT v FROM ks.t WHERE k = ?";

static struct rig_opts three(void)
{
    return (struct rig_opts){
        .nodes = { .nodes = 3, .one_port = true },
        .client = { .retry_min_ms = 20,
                    .retry_max_ms = 100,
                    .connect_timeout_ms = 1000,
                    .refresh_ms = 100 },
        .statements = { [READ] = { .name = "read", .text = read_text, .idempotent = true } },
    };
}

static bool all_connected(struct rig *r, void *ctx)
{
    const unsigned *connections = ctx;
    struct cql_node_stats nodes[NODES_SEEN_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODES_SEEN_MAX), open = 0;
    for (unsigned i = 0; i < count && i < NODES_SEEN_MAX; i++)
        open += nodes[i].connections;
    return open == *connections;
}

static void wait_connections(struct rig *r, unsigned connections)
{
    rig_until(r, all_connected, &connections, "all connections are open");
}

static err read_once(struct rig *r)
{
    struct ask a;
    ask_init(&a, r, READ);
    cql_put_bytes(&a.values, STR("k"));
    err why = ask_run(&a);
    ask_fini(&a);
    return why;
}

/* ---- tables that lie ---- */

static const char peer_columns[] =
    "host_id uuid, data_center text, rack text, tokens set<text>, release_version text, "
    "native_address inet, peer inet, native_port int";

struct peer {
    const unsigned char *host_id; /* NULL: by number */
    unsigned number;
    const char *dc, *token;
    const char *address; /* NULL: 127.9.x.x by number, where nobody listens */
    uint16_t port;
};

static void inet_put(struct cql_values *v, const char *address)
{
    char bytes[16];
    bool four = inet_pton(AF_INET, address, bytes) == 1;
    assert_true(four || inet_pton(AF_INET6, address, bytes) == 1);
    cql_put_bytes(v, (str){ .p = bytes, .n = four ? 4 : 16 });
}

static void peer_put(struct cql_values *v, const struct peer *p)
{
    unsigned char id[CQL_UUID_BYTES] = { 0xaa };
    char address[32];
    put_be32(id + 12, p->number);
    (void)snprintf(address, sizeof address, "%d.9.%u.%u", ANYCAST, p->number >> 8 & 0xff,
                   p->number & 0xff);
    cql_put_uuid(v, p->host_id == NULL ? id : p->host_id);
    cql_put_bytes(v, str_of(p->dc == NULL ? "dc1" : p->dc));
    cql_put_bytes(v, STR("rack1"));
    struct cql_open tokens = cql_put_open(v, true);
    cql_put_bytes(v, str_of(p->token == NULL ? "1" : p->token));
    cql_put_close(v, tokens, false);
    cql_put_bytes(v, STR("5.0.9"));
    inet_put(v, p->address == NULL ? address : p->address);
    inet_put(v, address);
    cql_put_i32(v, p->port == 0 ? 9042 : p->port);
}

/* Every node tells of these peers from now on. */
static unsigned peers_are(struct rig *r, const struct peer *peers, unsigned count)
{
    struct cql_values v;
    cql_values_init(&v, 16 << 20);
    for (unsigned i = 0; i < count; i++)
        peer_put(&v, &peers[i]);
    const struct node_match match = { .ops = BIT(CQL_OP_QUERY), .text = "FROM system.peers_v2" };
    const struct node_action action = { .act = NODE_ROWS, .columns = peer_columns, .rows = &v };
    unsigned rule = node_say(r->nodes, NODE_ANY, &match, &action);
    cql_values_fini(&v);
    return rule;
}

/* The peers as they are. */
static void peers_true(struct rig *r, struct peer *peers, unsigned char ids[][CQL_UUID_BYTES])
{
    for (unsigned i = 0; i < 3; i++) {
        node_host_id(r->nodes, i, ids[i]);
        peers[i] = (struct peer){ .host_id = ids[i],
                                  .address = node_host(r->nodes, i),
                                  .port = node_port(r->nodes, i) };
    }
}

static void a_host_id_told_twice_moves_no_node(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct peer peers[6] = { { .number = 0 } };
    unsigned char ids[3][CQL_UUID_BYTES];
    rig_start(&r, &o);
    wait_connections(&r, 6);
    peers_true(&r, peers, ids);
    for (unsigned i = 0; i < 3; i++) /* each stands there again, at another address */
        peers[3 + i] = (struct peer){ .host_id = ids[i], .number = i };
    peers_are(&r, peers, 6);
    rig_wait_looks(&r, 2);
    struct cql_stats before = rig_stats(&r);
    rig_wait_looks(&r, 5);
    struct cql_stats after = rig_stats(&r);
    assert_int_equal(after.nodes_count, 3);
    assert_int_equal(after.connects, before.connects);
    assert_int_equal(after.lost, 0);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void an_address_told_twice_is_one_node(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct peer peers[6] = { { .number = 0 } };
    unsigned char ids[3][CQL_UUID_BYTES];
    rig_start(&r, &o);
    wait_connections(&r, 6);
    peers_true(&r, peers, ids);
    for (unsigned i = 0; i < 3; i++) { /* rows of nodes that these have replaced */
        peers[3 + i] = peers[i];
        peers[3 + i].host_id = NULL;
        peers[3 + i].number = i + 1;
    }
    peers_are(&r, peers, 6);
    rig_wait_looks(&r, 3);
    assert_int_equal(rig_stats(&r).nodes_count, 3);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void of_two_thousand_peers_the_client_takes_what_it_can_hold(void **state)
{
    (void)state;
    enum { PEERS = 2000 };
    static struct peer peers[PEERS];
    struct rig r;
    struct rig_opts o = three();
    for (unsigned i = 0; i < PEERS; i++)
        peers[i] = (struct peer){ .number = i + 1, .dc = "far" };
    o.not_ready = true;
    rig_start(&r, &o);
    unsigned rule = peers_are(&r, peers, PEERS);
    rig_wait_looks(&r, 2);
    assert_true(rig_stats(&r).nodes_count <= CQL_NODES_MAX);
    assert_int_equal(read_once(&r), ERR_OK);
    node_unsay(r.nodes, rule);
    rig_wait_up(&r, 3, 3); /* those that are not told any more have left */
    rig_end(&r);
}

static void rows_that_make_no_sense_are_no_nodes(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct peer peers[9] = { { .number = 0 } };
    unsigned char ids[3][CQL_UUID_BYTES];
    char long_name[201];
    memset(long_name, 'd', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    rig_start(&r, &o);
    wait_connections(&r, 6);
    peers_true(&r, peers, ids);
    peers[3] = (struct peer){ .number = 3, .dc = long_name };
    peers[4] = (struct peer){ .number = 4, .dc = "" };
    peers[5] = (struct peer){ .number = 5, .dc = "far", .token = "9223372036854775808" };
    peers[6] = (struct peer){ .number = 6, .dc = "far", .token = "no number" };
    peers[7] = (struct peer){ .number = 7, .dc = "far", .token = "-9223372036854775808" };
    peers[8] = (struct peer){ .number = 8, .dc = "far", .address = "2001:db8::8" };
    peers_are(&r, peers, 9);
    rig_wait_looks(&r, 3);
    assert_int_equal(rig_stats(&r).nodes_count, 3 + 4); /* a node without tokens is one */
    assert_int_equal(rig_stats(&r).lost, 0);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void ring_get(struct rig *r, void *ctx)
{
    *(const struct cql_ring **)ctx = r->client->ring;
}

static void other_partitioners_are_not_routed_by(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct cql_values v;
    unsigned char id[CQL_UUID_BYTES];
    o.not_ready = true;
    rig_start(&r, &o);
    node_host_id(r.nodes, 0, id);
    cql_values_init(&v, 4096);
    cql_put_uuid(&v, id);
    cql_put_bytes(&v, STR("dc1"));
    cql_put_bytes(&v, STR("rack1"));
    cql_put_close(&v, cql_put_open(&v, true), false);
    cql_put_bytes(&v, STR("5.0.9"));
    cql_put_bytes(&v, STR("org.apache.cassandra.dht.RandomPartitioner"));
    const struct node_match match = { .text = "FROM system.local WHERE key" };
    node_say(r.nodes, 0, &match,
             &(struct node_action){ .act = NODE_ROWS,
                                    .columns = "host_id uuid, data_center text, rack text, "
                                               "tokens set<text>, release_version text, "
                                               "partitioner text",
                                    .rows = &v });
    node_down(r.nodes, 1);
    node_down(r.nodes, 2);
    rig_wait_looks(&r, 2);
    const struct cql_ring *ring = NULL;
    rig_on_loop(&r, ring_get, &ring);
    assert_null(ring);
    assert_int_equal(read_once(&r), ERR_OK);
    cql_values_fini(&v);
    rig_end(&r);
}

static void keyspaces_of_every_strategy_are_taken(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    static const char *const maps[] = {
        "class=LocalStrategy",
        "class=EverywhereStrategy",
        "class=SimpleStrategy, replication_factor=2",
        "class=NetworkTopologyStrategy, dc1=3/1, dc2=0",
        "class=NetworkTopologyStrategy, replication_factor=3",
        "class=com.example.OwnStrategy, x=y",
        "class=NetworkTopologyStrategy, dc1=many",
        "class=NetworkTopologyStrategy, dc1=99999999999999999999",
        "class=SimpleStrategy",
        "none=at all",
    };
    rig_start(&r, &o);
    wait_connections(&r, 6);
    for (unsigned i = 0; i < COUNT_OF(maps); i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "other%u", i);
        node_keyspace(r.nodes, name, maps[i]);
        node_keyspace(r.nodes, "ks", maps[i]);
        rig_wait_looks(&r, 2);
        assert_int_equal(read_once(&r), ERR_OK);
    }
    assert_int_equal(rig_stats(&r).lost, 0);
    rig_end(&r);
}

static void replicas_get(struct rig *r, void *ctx)
{
    for (unsigned i = 0; i < r->client->keyspaces_count; i++)
        if (strcmp(r->client->keyspaces[i].name, "ks") == 0)
            *(const struct cql_replicas **)ctx = r->client->keyspaces[i].replicas;
}

static void replicas_are_reckoned_again_only_when_something_changed(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    const struct cql_replicas *replicas = NULL;
    o.statements[READ].takes = "text";
    rig_start(&r, &o);
    node_statement(r.nodes, &(struct node_statement){
                                .text = read_text, .markers = "k text", .partition_count = 1 });
    wait_connections(&r, 6);
    rig_wait_looks(&r, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(read_once(&r), ERR_OK);
        assert_int_equal(read_once(&r), ERR_OK); /* the first one learns the partition key */
        rig_on_loop(&r, replicas_get, &replicas);
        assert_non_null(replicas);
        rig_wait_looks(&r, 3);
        rig_on_loop(&r, replicas_get, &replicas);
        assert_non_null(replicas); /* nobody has asked since the looks */
        if (i == 0)
            node_keyspace(r.nodes, "ks", "class=NetworkTopologyStrategy, dc1=2");
        else
            node_describe(r.nodes, 1,
                          &(struct node_about){ .tokens = (int64_t[]){ 5, 6, 7 },
                                                .tokens_count = 3 });
        rig_wait_looks(&r, 3);
        rig_on_loop(&r, replicas_get, &replicas);
        if (i < 2)
            assert_null(replicas);
    }
    rig_end(&r);
}

/* ---- nodes that go, move and come ---- */

static void a_node_missing_in_one_look_stays_while_it_is_connected(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    wait_connections(&r, 6);
    rig_wait_looks(&r, 2);
    node_describe(r.nodes, 1, &(struct node_about){ .presence = NODE_ABSENT });
    rig_wait_looks(&r, 3);
    rig_wait_up(&r, 3, 3);
    node_describe(r.nodes, 1, &(struct node_about){ .presence = NODE_PRESENT, .nulls = "host_id" });
    rig_wait_looks(&r, 3);
    rig_wait_up(&r, 3, 3);
    wait_connections(&r, 6);
    node_down(r.nodes, 1);
    rig_wait_up(&r, 2, 2);
    node_describe(r.nodes, 1, &(struct node_about){ .nulls = "" });
    node_up(r.nodes, 1);
    rig_wait_up(&r, 3, 3);
    wait_connections(&r, 6);
    rig_end(&r);
}

/* As behind a second address of the same machine: nothing has ended. */
static void a_connected_node_told_elsewhere_keeps_its_connections(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    wait_connections(&r, 6);
    struct cql_stats before = rig_stats(&r);
    for (unsigned i = 0; i < 3; i++)
        node_describe(r.nodes, i, &(struct node_about){ .address = "127.9.9.9", .port = 1 });
    rig_wait_looks(&r, 3);
    assert_int_equal(rig_stats(&r).connects, before.connects);
    assert_int_equal(rig_stats(&r).lost, 0);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_wait_up(&r, 3, 3);
    for (unsigned i = 0; i < 3; i++)
        node_describe(r.nodes, i, &(struct node_about){ .address = "" });
    rig_wait_looks(&r, 3); /* each is tried there when it is connected the next time */
    node_cut(r.nodes, NODE_ANY, 0, false);
    wait_connections(&r, 6);
    rig_end(&r);
}

static bool node_is_at(struct rig *r, void *ctx)
{
    const char *const *wanted = ctx;
    struct cql_node_stats nodes[NODES_SEEN_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODES_SEEN_MAX);
    for (unsigned i = 0; i < count && i < NODES_SEEN_MAX; i++)
        if (strstr(nodes[i].node, wanted[0]) != NULL && nodes[i].up &&
            strcmp(nodes[i].release, wanted[1]) == 0)
            return true;
    return false;
}

/* Nodes that listen everywhere and name no address for clients are where the other nodes see them.
 */
static void a_node_at_every_address_is_at_its_own(void **state)
{
    (void)state;
    static const char *const everywhere[] = { "0.0.0.0", "::" };
    for (unsigned k = 0; k < 4; k++) {
        struct rig r;
        struct rig_opts o = three();
        o.not_ready = true;
        o.nodes.no_peers_v2 = k >= 2;
        o.nodes.version_max = k >= 2 ? 4 : 5;
        rig_start(&r, &o);
        for (unsigned i = 0; i < 3; i++)
            node_describe(r.nodes, i,
                          &(struct node_about){ .address = everywhere[k % 2],
                                                .port = node_port(r.nodes, i) });
        node_cut(r.nodes, NODE_ANY, 0, false);
        rig_wait_up(&r, 3, 3);
        for (unsigned i = 0; i < 3; i++)
            assert_true(node_counts(r.nodes, (int)i).ready > 0);
        rig_end(&r);
    }
}

static void two_nodes_change_places(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    wait_connections(&r, 6);
    node_describe(r.nodes, 1, &(struct node_about){ .host = 3, .release = "swapped-1" });
    node_describe(r.nodes, 2, &(struct node_about){ .host = 2, .release = "swapped-2" });
    node_cut(r.nodes, 1, 0, true); /* both begin anew */
    node_cut(r.nodes, 2, 0, true);
    rig_until(&r, node_is_at, (const char *[]){ node_host(r.nodes, 1), "swapped-1" }, "one moved");
    rig_until(&r, node_is_at, (const char *[]){ node_host(r.nodes, 2), "swapped-2" }, "two moved");
    rig_wait_up(&r, 3, 3);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void a_cluster_that_was_replaced_whole_is_found_by_its_name(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.by_name = true;
    rig_start(&r, &o);
    wait_connections(&r, 6);
    for (unsigned i = 0; i < 3; i++) {
        node_down(r.nodes, i);
        node_describe(r.nodes, i, &(struct node_about){ .host = 70 + i, .release = "new" });
    }
    rig_wait_up(&r, 0, 0);
    for (unsigned i = 0; i < 3; i++)
        node_up(r.nodes, i);
    for (unsigned i = 0; i < 3; i++) {
        const char *wanted[] = { node_host(r.nodes, i), "new" };
        rig_until(&r, node_is_at, wanted, "the new node");
    }
    rig_wait_up(&r, 3, 3);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_id_told_twice_moves_no_node),
        cmocka_unit_test(an_address_told_twice_is_one_node),
        cmocka_unit_test(of_two_thousand_peers_the_client_takes_what_it_can_hold),
        cmocka_unit_test(rows_that_make_no_sense_are_no_nodes),
        cmocka_unit_test(other_partitioners_are_not_routed_by),
        cmocka_unit_test(keyspaces_of_every_strategy_are_taken),
        cmocka_unit_test(replicas_are_reckoned_again_only_when_something_changed),
        cmocka_unit_test(a_node_missing_in_one_look_stays_while_it_is_connected),
        cmocka_unit_test(a_connected_node_told_elsewhere_keeps_its_connections),
        cmocka_unit_test(a_node_at_every_address_is_at_its_own),
        cmocka_unit_test(two_nodes_change_places),
        cmocka_unit_test(a_cluster_that_was_replaced_whole_is_found_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
