/* Goal: what a client learns of its cluster, and what it does when nodes come, go, move, change
 * their version, lie about themselves, or refuse it.
 * Method: a fake cluster that does as it is told (node.h), and the client's own figures (rig.h). */
#include "rig.h"

#include "../cmocka_all.h"

#include <string.h>

enum { READ };
static const char read_text[] = "SELECT v FROM ks.t WHERE k = ?";

static struct rig_opts three(void)
{
    return (struct rig_opts){
        .nodes = { .nodes = 3, .one_port = true },
        .client = { .retry_min_ms = 20, .retry_max_ms = 100, .connect_timeout_ms = 1000 },
        .statements = { [READ] = { .name = "read", .text = read_text, .idempotent = true } },
    };
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

static void a_node_that_went_is_left_out_and_taken_back(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    for (unsigned n = 0; n < 3; n++) {
        node_down(r.nodes, n);
        rig_wait_up(&r, 2, 3);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(read_once(&r), ERR_OK);
        node_up(r.nodes, n);
        rig_wait_up(&r, 3, 3);
    }
    rig_end(&r);
}

static bool not_ready(struct rig *r, void *ctx)
{
    (void)ctx;
    return !cql_is_ready(r->client);
}
static bool is_ready(struct rig *r, void *ctx)
{
    (void)ctx;
    return cql_is_ready(r->client);
}

static void without_any_node_requests_are_refused_and_it_heals(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    for (unsigned n = 0; n < 3; n++)
        node_down(r.nodes, n);
    rig_until(&r, not_ready, NULL, "it is not ready");
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_non_null(strstr(a.request.out.note.text, "dc1"));
    ask_fini(&a);
    node_up(r.nodes, 2);
    rig_until(&r, is_ready, NULL, "it is ready again");
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static bool second_is_ready(struct node_cluster *c, void *ctx)
{
    (void)ctx;
    return node_counts(c, 1).ready > 0;
}

static void a_node_is_known_by_its_host_id(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.refresh_ms = 200;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    node_move(r.nodes, 1); /* another port: no new node */
    assert_true(node_wait_for(r.nodes, second_is_ready, NULL, RIG_WAIT_MS));
    rig_wait_up(&r, 3, 3);
    uint64_t looks = rig_stats(&r).refreshes, lost = rig_stats(&r).lost;
    node_describe(r.nodes, 2, &(struct node_about){ .host = 77 }); /* a new one in its place */
    while (rig_stats(&r).refreshes < looks + 3)
        ;
    rig_wait_up(&r, 3, 3);
    assert_int_equal(rig_stats(&r).lost, lost); /* the connections lead to the new one */
    rig_end(&r);
}

/* The control connection may be on its way to another node. */
static void event_told(struct rig *r, const char *change, unsigned of)
{
    mono end = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    while (node_event_of(r->nodes, NODE_ANY, change, of) == 0)
        assert_true(clock_mono(r->clock).ns < end.ns);
}

static void an_event_brings_a_new_node(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.not_ready = true;
    rig_start(&r, &o);
    rig_until(&r, is_ready, NULL, "it is ready");
    rig_wait_up(&r, 3, 3);
    node_describe(r.nodes, 2, &(struct node_about){ .presence = NODE_ABSENT });
    node_down(r.nodes, 2);
    event_told(&r, "REMOVED_NODE", 2);
    rig_wait_up(&r, 2, 2);
    node_describe(r.nodes, 2, &(struct node_about){ .presence = NODE_PRESENT });
    node_up(r.nodes, 2);
    event_told(&r, "NEW_NODE", 2);
    rig_wait_up(&r, 3, 3);
    rig_end(&r);
}

static void each_node_is_spoken_to_in_its_version(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.version_max = 5;
    o.not_ready = true;
    rig_start(&r, &o);
    node_version_max(r.nodes, 1, 4);
    node_cut(r.nodes, 1, 0, false);
    rig_wait_up(&r, 3, 3);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(read_once(&r), ERR_OK);
    struct node_request got;
    const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
    assert_true(node_request(r.nodes, 1, &executes, 0, &got));
    assert_int_equal(got.head.version, 4);
    assert_true(node_request(r.nodes, 2, &executes, 0, &got));
    assert_int_equal(got.head.version, 5);
    rig_end(&r);
}

static void an_old_cluster_without_peers_v2_is_read(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.version_max = 4;
    o.nodes.no_peers_v2 = true;
    o.nodes.release = "3.11.19";
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    assert_int_equal(rig_stats(&r).version, 4);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void only_the_local_data_centre_is_asked(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.nodes = 4;
    o.nodes.dcs = 2;
    rig_start(&r, &o);
    rig_wait_up(&r, 2, 4);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(read_once(&r), ERR_OK);
    const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
    unsigned local = node_requests(r.nodes, 0, &executes) + node_requests(r.nodes, 2, &executes);
    assert_int_equal(local, 20);
    node_down(r.nodes, 0);
    node_down(r.nodes, 2);
    rig_wait_up(&r, 0, 4);
    assert_int_equal(read_once(&r), ERR_UNAVAILABLE);
    rig_end(&r);
}

static void a_remote_data_centre_helps_where_it_may(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.nodes = 4;
    o.nodes.dcs = 2;
    o.client.remote_dcs = true;
    rig_start(&r, &o);
    rig_wait_up(&r, 4, 4);
    node_down(r.nodes, 0);
    node_down(r.nodes, 2);
    rig_wait_up(&r, 2, 4);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static bool never_let_in(struct rig *r, void *ctx)
{
    const unsigned *times = ctx;
    struct cql_stats s;
    cql_stats(r->client, &s);
    return s.connects >= *times;
}

static void wrong_credentials_are_told_and_tried_slowly(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.nodes = 1;
    o.nodes.user = "u";
    o.nodes.password = "right";
    o.client.user = "u";
    o.client.password = "wrong";
    o.not_ready = true;
    rig_start(&r, &o);
    unsigned times = 3;
    rig_until(&r, never_let_in, &times, "it tried some times");
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_non_null(strstr(a.request.out.note.text, "bad_credentials"));
    ask_fini(&a);
    rig_end(&r);

    o.client.password = "right";
    o.not_ready = false;
    rig_start(&r, &o);
    assert_int_equal(read_once(&r), ERR_OK);
    rig_end(&r);
}

static void a_misspelt_data_centre_is_told(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.local_dc = "nowhere";
    o.not_ready = true;
    rig_start(&r, &o);
    while (rig_stats(&r).refreshes == 0)
        ;
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_non_null(strstr(a.request.out.note.text, "no node in data centre nowhere, but in dc1"));
    ask_fini(&a);
    rig_end(&r);
}

static void contact_points_that_hang_hold_up_nothing(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.not_ready = true;
    o.client.connect_timeout_ms = 20000;
    rig_start(&r, &o);
    node_freeze(r.nodes, 0);
    node_cut(r.nodes, NODE_ANY, 0, true);
    rig_wait_up(&r, 2, 3);
    assert_int_equal(read_once(&r), ERR_OK);
    node_thaw(r.nodes, 0);
    rig_wait_up(&r, 3, 3);
    rig_end(&r);
}

static void a_half_open_connection_is_found(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.heartbeat_ms = 200;
    o.client.answer_timeout_ms = 300;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    node_freeze(r.nodes, 1);
    rig_wait_up(&r, 2, 3);
    assert_int_equal(read_once(&r), ERR_OK);
    node_thaw(r.nodes, 1);
    rig_wait_up(&r, 3, 3);
    rig_end(&r);
}

static void rows_of_nodes_that_make_no_sense_are_passed_over(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.refresh_ms = 100;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    node_describe(r.nodes, 1, &(struct node_about){ .nulls = "host_id, tokens, native_address" });
    uint64_t looks = rig_stats(&r).refreshes;
    while (rig_stats(&r).refreshes < looks + 3)
        ;
    assert_int_equal(read_once(&r), ERR_OK);
    rig_wait_up(&r, 3, 3); /* connected is known, whatever is told */
    rig_end(&r);
}

static void the_schema_is_changed_where_agreement_is_asked(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    static const struct node_match creates = { .ops = BIT(CQL_OP_QUERY), .text = "CREATE" };
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    for (unsigned i = 0; i < 10; i++) {
        struct ask a;
        struct node_request got;
        ask_init(&a, &r, READ);
        a.request.way = CQL_WAY_TEXT;
        a.request.text = STR("CREATE TABLE ks.n (k text PRIMARY KEY)");
        assert_int_equal(ask_run(&a), ERR_OK);
        ask_fini(&a);
        assert_true(node_request(r.nodes, NODE_ANY, &creates, i, &got));
        assert_int_equal(node_counts(r.nodes, (int)got.node).registered, 1);
    }
    rig_end(&r);
}

struct agreed {
    struct rig *rig;
    err why;
    bool over;
};

static void agreed_told(void *ctx, err why)
{
    struct agreed *a = ctx;
    a->why = why;
    a->over = true;
}

static void agree_ask(struct rig *r, void *ctx)
{
    struct agreed *a = ctx;
    a->rig = r;
    cql_agree(r->client, mono_add_ms(clock_mono(r->clock), 3000), agreed_told, a);
}

static bool agree_over(struct rig *r, void *ctx)
{
    (void)r;
    return ((struct agreed *)ctx)->over;
}

static void a_schema_is_waited_for_without_nodes_that_are_down(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 3);
    struct agreed a = { .over = false };
    rig_on_loop(&r, agree_ask, &a);
    rig_until(&r, agree_over, &a, "one schema");
    assert_int_equal(a.why, ERR_OK);

    node_describe(r.nodes, 1, &(struct node_about){ .schema = 99 });
    a = (struct agreed){ .over = false };
    rig_on_loop(&r, agree_ask, &a);
    rig_until(&r, agree_over, &a, "the deadline");
    assert_int_equal(a.why, ERR_TIMEOUT);

    node_down(r.nodes, 1);
    rig_wait_up(&r, 2, 3);
    a = (struct agreed){ .over = false };
    rig_on_loop(&r, agree_ask, &a);
    rig_until(&r, agree_over, &a, "one schema without it");
    assert_int_equal(a.why, ERR_OK);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_went_is_left_out_and_taken_back),
        cmocka_unit_test(without_any_node_requests_are_refused_and_it_heals),
        cmocka_unit_test(a_node_is_known_by_its_host_id),
        cmocka_unit_test(an_event_brings_a_new_node),
        cmocka_unit_test(each_node_is_spoken_to_in_its_version),
        cmocka_unit_test(an_old_cluster_without_peers_v2_is_read),
        cmocka_unit_test(only_the_local_data_centre_is_asked),
        cmocka_unit_test(a_remote_data_centre_helps_where_it_may),
        cmocka_unit_test(wrong_credentials_are_told_and_tried_slowly),
        cmocka_unit_test(a_misspelt_data_centre_is_told),
        cmocka_unit_test(contact_points_that_hang_hold_up_nothing),
        cmocka_unit_test(a_half_open_connection_is_found),
        cmocka_unit_test(rows_of_nodes_that_make_no_sense_are_passed_over),
        cmocka_unit_test(the_schema_is_changed_where_agreement_is_asked),
        cmocka_unit_test(a_schema_is_waited_for_without_nodes_that_are_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
