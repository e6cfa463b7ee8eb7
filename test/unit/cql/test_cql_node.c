/* test_cql_node.c - the fake cluster is what its header says: a peer that tests of the client may
 * believe.
 *
 * Goal: each answer, fault and verb shows on the wire as it was ordered, in both versions, and what
 * a client sent is read back as it was sent. Method: a client of one connection (dial.h), which
 * writes by the client's codec; the cluster's own is another. */
#include "unit/cql/dial.h"

#include "lib/wait.h"
#include "unit/cmocka_all.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CELLS_BYTES_MAX = 1 << 20, CELLS_MAX = 16 };

static const struct way {
    unsigned version;
    bool lz4;
} ways[] = { { 4, false }, { 4, true }, { 5, false }, { 5, true } };

static const struct node_match any_query = { .ops = BIT(CQL_OP_QUERY) };

static struct node_cluster *cluster(unsigned nodes)
{
    return node_new(&(struct node_opts){ .nodes = nodes });
}

/* The end of a test: no client did what is not allowed. */
static void cluster_end(struct node_cluster **cp)
{
    const char *complaint = node_complaint(*cp);
    if (complaint != NULL)
        fail_msg("%s", complaint);
    node_free(cp);
}

static void cell_is(const struct cql_cell *cell, const char *want)
{
    str got;
    assert_true(cql_get_bytes(cell, &got));
    if (!str_eq(got, str_of(want)))
        fail_msg("%.*s is not %s", STR_ARG(got), want);
}

/* The one row of an answer to a query. */
static void ask_row(struct dial *d, const char *text, struct cql_answer *a, struct cql_cell *cells)
{
    dial_query(d, 1, text);
    dial_expect(d, 1, CQL_OP_RESULT, a);
    assert_int_equal(a->result, CQL_RESULT_ROWS);
    assert_int_equal(a->rows.count, 1);
    assert_true(a->columns_count <= CELLS_MAX);
    assert_true(cql_rows_next(&a->rows, cells));
}

static unsigned ask_count(struct dial *d, const char *text)
{
    struct cql_answer a;
    dial_query(d, 1, text);
    dial_expect(d, 1, CQL_OP_RESULT, &a);
    assert_int_equal(a.result, CQL_RESULT_ROWS);
    unsigned count = a.rows.count;
    cql_answer_fini(&a);
    return count;
}

/* ---- handshakes ---- */

static void every_way_starts_and_answers(void **state)
{
    (void)state;
    struct node_cluster *c = cluster(1);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct dial d;
        struct cql_answer a;
        dial_open(&d, c, 0, ways[i].version);
        dial_send(&d, dial_begin(&d, 3, CQL_OP_OPTIONS));
        dial_expect(&d, 3, CQL_OP_SUPPORTED, &a);
        assert_true(cql_supports(&a, STR("COMPRESSION"), STR("lz4")));
        assert_true(cql_supports(&a, STR("PROTOCOL_VERSIONS"), STR("5/v5")));
        dial_close(&d);
        dial_start(&d, c, 0, ways[i].version, ways[i].lz4);
        dial_query(&d, 7, "INSERT INTO ks.t (k) VALUES (1)");
        dial_expect_void(&d, 7);
        dial_close(&d);
    }
    struct node_request r;
    struct node_match startup = { .ops = BIT(CQL_OP_STARTUP), .text = "COMPRESSION=lz4" };
    assert_int_equal(node_requests(c, 0, &startup), 2);
    assert_true(node_request(c, 0, &startup, 1, &r));
    assert_int_equal(r.head.version, 5);
    assert_true(str_find_str(r.text, STR("THROW_ON_OVERLOAD=1")) < r.text.n);
    cluster_end(&c);
}

static void only_the_right_password_is_let_in(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(&(struct node_opts){ .user = "u", .password = "p" });
    for (size_t i = 0; i < 2 * COUNT_OF(ways); i++) {
        const struct way *way = &ways[i / 2];
        bool right = i % 2 == 0;
        struct dial d;
        struct cql_answer a;
        dial_open(&d, c, 0, way->version);
        dial_startup(&d, way->lz4 ? "lz4" : NULL);
        dial_expect(&d, 0, CQL_OP_AUTHENTICATE, &a);
        assert_true(str_ends(a.authenticator, STR(".PasswordAuthenticator")));
        d.lz4 = way->lz4;
        d.framed = way->version >= 5;
        size_t begun = dial_begin(&d, 0, CQL_OP_AUTH_RESPONSE);
        cql_body_auth_plain(&d.out, STR("u"), right ? STR("p") : STR("q"));
        dial_send(&d, begun);
        if (right) {
            dial_expect(&d, 0, CQL_OP_AUTH_SUCCESS, &a);
            assert_true(a.token.p == NULL);
            assert_int_equal(node_counts(c, 0).ready, 1);
        } else {
            dial_expect_error(&d, 0, CQL_BAD_CREDENTIALS);
            assert_int_equal(node_counts(c, 0).ready, 0);
        }
        node_cut(c, 0, 0, false);
        dial_close(&d);
    }
    cluster_end(&c);
}

static void version_5_is_refused_in_an_envelope_of_version_4(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(&(struct node_opts){ .version_max = 4 });
    struct dial d;
    struct cql_answer a;
    struct cql_head head;
    str body;
    dial_open(&d, c, 0, 5);
    dial_startup(&d, NULL);
    assert_int_equal(dial_take(&d, &head, &body), DIAL_ANSWER);
    assert_int_equal(head.version, 4);
    assert_int_equal(cql_answer_parse(&head, body, &a, NULL), ERR_OK);
    assert_int_equal(a.failure.code, CQL_PROTOCOL_ERROR);
    assert_true(str_eq(a.failure.message, STR("Invalid or unsupported protocol version (5); "
                                              "supported versions are (3/v3, 4/v4, "
                                              "5/v5-beta)")));
    assert_int_equal(node_counts(c, 0).open, 1); /* a real one does not close it either */
    dial_close(&d);
    node_version_max(c, 0, 5);
    dial_start(&d, c, 0, 5, false);
    dial_close(&d);
    cluster_end(&c);
}

/* ---- the cluster's description ---- */

static void a_node_describes_itself_and_its_peers(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(&(struct node_opts){ .nodes = 4, .dcs = 2, .racks = 2 });
    struct dial d;
    struct cql_answer a;
    struct cql_cell cells[CELLS_MAX];
    struct cql_items items;
    unsigned char id[CQL_UUID_BYTES];
    const unsigned char *got;
    int64_t port;
    dial_start(&d, c, 2, 5, false);
    ask_row(&d,
            "SELECT data_center, rack, host_id, tokens, rpc_port, partitioner FROM system.local "
            "WHERE key = 'local'",
            &a, cells);
    cell_is(&cells[0], "dc1");
    cell_is(&cells[1], "rack2");
    node_host_id(c, 2, id);
    assert_true(cql_get_uuid(&cells[2], &got));
    assert_memory_equal(got, id, sizeof id);
    assert_true(cql_get_items(&cells[3], &items));
    assert_int_equal(items.left, NODE_TOKENS);
    struct cql_cell token;
    int64_t number = 0;
    assert_true(cql_items_next(&items, &token));
    assert_true(str_to_i64(token.bytes, &number));
    assert_true(number == node_token(c, 2, 0));
    assert_true(cql_get_i64(&cells[4], &port));
    assert_int_equal(port, node_port(c, 2));
    cell_is(&cells[5], "org.apache.cassandra.dht.Murmur3Partitioner");
    cql_answer_fini(&a);
    assert_int_equal(ask_count(&d, "select native_port from system.peers_v2"), 3);
    assert_int_equal(ask_count(&d, "SELECT * FROM system.peers"), 3);
    node_describe(c, 0, &(struct node_about){ .presence = NODE_ABSENT });
    assert_int_equal(ask_count(&d, "SELECT * FROM system.peers"), 2);
    dial_close(&d);
    cluster_end(&c);
}

static void a_description_changes_when_told(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(&(struct node_opts){ .nodes = 2, .one_port = true });
    struct dial d;
    struct cql_answer a;
    struct cql_cell cells[CELLS_MAX];
    char address[46];
    int64_t port;
    assert_string_equal(node_host(c, 1), "127.0.0.2");
    assert_int_equal(node_port(c, 0), node_port(c, 1));
    node_describe(c, 1,
                  &(struct node_about){ .address = "10.0.0.1",
                                        .port = 9,
                                        .dc = "elsewhere",
                                        .schema = 5,
                                        .tokens = (const int64_t[]){ -7 },
                                        .tokens_count = 1,
                                        .nulls = "rack, host_id" });
    dial_start(&d, c, 0, 4, true);
    ask_row(&d,
            "SELECT native_address, native_port, data_center, rack, host_id, tokens, "
            "schema_version FROM system.peers_v2",
            &a, cells);
    assert_true(cql_get_inet(&cells[0], address));
    assert_string_equal(address, "10.0.0.1");
    assert_true(cql_get_i64(&cells[1], &port));
    assert_int_equal(port, 9);
    cell_is(&cells[2], "elsewhere");
    assert_true(cells[3].null);
    assert_true(cells[4].null);
    assert_false(cells[6].null);
    cql_answer_fini(&a);
    node_move(c, 1);
    assert_int_not_equal(node_port(c, 0), node_port(c, 1));
    dial_close(&d);
    cluster_end(&c);
}

static void keyspaces_are_told(void **state)
{
    (void)state;
    struct node_cluster *c = cluster(1);
    struct dial d;
    struct cql_answer a;
    struct cql_cell cells[CELLS_MAX], pair[2];
    struct cql_items items;
    dial_start(&d, c, 0, 5, true);
    assert_int_equal(ask_count(&d, "SELECT * FROM system_schema.keyspaces"), 3);
    node_keyspace(c, "ks", "class=SimpleStrategy, replication_factor=2");
    ask_row(&d, "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'ks'", &a,
            cells);
    assert_true(cql_get_items(&cells[0], &items));
    assert_true(cql_items_next(&items, &pair[0]));
    assert_true(cql_items_next(&items, &pair[1]));
    cell_is(&pair[0], "class");
    cell_is(&pair[1], "org.apache.cassandra.locator.SimpleStrategy");
    assert_true(cql_items_next(&items, &pair[0]));
    assert_true(cql_items_next(&items, &pair[1]));
    cell_is(&pair[1], "2");
    cql_answer_fini(&a);
    node_keyspace(c, "ks", NULL);
    assert_int_equal(ask_count(&d, "SELECT * FROM system_schema.keyspaces"), 2);
    dial_close(&d);
    cluster_end(&c);
}

static void cassandra_3_has_no_peers_v2_and_a_beta_of_version_5(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(
        &(struct node_opts){ .nodes = 2, .version_max = 4, .no_peers_v2 = true, .no_lz4 = true });
    struct dial d;
    dial_start(&d, c, 0, 4, false);
    dial_query(&d, 1, "SELECT peer FROM system.peers_v2");
    dial_expect_error(&d, 1, CQL_INVALID);
    dial_query(&d, 1, "SELECT rpc_port FROM system.local");
    dial_expect_error(&d, 1, CQL_INVALID);
    assert_int_equal(ask_count(&d, "SELECT rpc_address FROM system.peers"), 1);
    dial_close(&d);
    dial_open(&d, c, 0, 4);
    dial_startup(&d, "lz4");
    dial_expect_error(&d, 0, CQL_PROTOCOL_ERROR);
    dial_close(&d);
    dial_open(&d, c, 0, 5);
    dial_startup(&d, NULL);
    struct cql_answer a;
    dial_expect(&d, 0, CQL_OP_ERROR, &a); /* in version 5 */
    assert_int_equal(a.failure.code, CQL_PROTOCOL_ERROR);
    assert_true(str_ends(a.failure.message, STR("USE_BETA flag is unset")));
    dial_close(&d);
    cluster_end(&c);
}

/* ---- statements ---- */

static const char select_text[] = "SELECT k, v FROM ks.t WHERE k = ?";

static void prepare(struct dial *d, const char *text, struct cql_answer *out)
{
    size_t begun = dial_begin(d, 2, CQL_OP_PREPARE);
    cql_body_prepare(&d->out, d->version, str_of(text), STR_NONE);
    dial_send(d, begun);
    dial_expect(d, 2, CQL_OP_RESULT, out);
    assert_int_equal(out->result, CQL_RESULT_PREPARED);
}

/* Asks for a prepared statement with one value "a". */
static void execute(struct dial *d, str id, str columns_id, const struct cql_params *params)
{
    struct cql_values values;
    cql_values_init(&values, CELLS_BYTES_MAX);
    cql_put_bytes(&values, STR("a"));
    size_t begun = dial_begin(d, 2, CQL_OP_EXECUTE);
    cql_body_execute(&d->out, d->version, id, columns_id, &values, params);
    dial_send(d, begun);
    cql_values_fini(&values);
}

/* Rows of two columns: "a" and a number from 0 on. */
static void rows_make(struct cql_values *rows, int count)
{
    cql_values_init(rows, CELLS_BYTES_MAX);
    for (int i = 0; i < count; i++) {
        cql_put_bytes(rows, STR("a"));
        cql_put_i64(rows, i);
    }
}

static void statement_tell(struct node_cluster *c, const char *columns,
                           const struct cql_values *rows)
{
    node_statement(c, &(struct node_statement){ .text = select_text,
                                                .markers = "k text",
                                                .partition = { 0 },
                                                .partition_count = 1,
                                                .columns = columns,
                                                .rows = rows });
}

static const struct cql_params params_none = { .consistency = CQL_LOCAL_ONE,
                                               .timestamp_us = CQL_NO_TIMESTAMP,
                                               .now_s = CQL_NO_NOW };

static void a_statement_is_prepared_run_and_forgotten(void **state)
{
    (void)state;
    struct node_cluster *c = cluster(1);
    struct cql_values rows;
    rows_make(&rows, 1);
    statement_tell(c, "k text, v bigint", &rows);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct dial d;
        struct cql_answer p, a;
        struct cql_cell cells[2];
        int64_t number = -1;
        struct cql_params params = params_none;
        params.skip_columns = true;
        dial_start(&d, c, 0, ways[i].version, ways[i].lz4);
        prepare(&d, select_text, &p);
        assert_int_equal(p.prepared.markers->count, 1);
        assert_int_equal(p.prepared.markers->at[0].spec.type, CQL_TEXT);
        assert_int_equal(p.prepared.partition_count, 1);
        assert_int_equal(p.prepared.columns->count, 2);
        char id[16], columns_id[16];
        memcpy(id, p.prepared.id.p, sizeof id);
        str ids[] = { { id, sizeof id }, { columns_id, d.version >= 5 ? sizeof columns_id : 0 } };
        if (ids[1].n > 0)
            memcpy(columns_id, p.prepared.columns_id.p, ids[1].n);
        execute(&d, ids[0], ids[1], &params);
        dial_expect(&d, 2, CQL_OP_RESULT, &a);
        assert_true(a.no_columns);
        assert_int_equal(a.columns_count, 2);
        a.rows.columns = cql_columns_hold(p.prepared.columns);
        assert_true(cql_rows_next(&a.rows, cells));
        assert_true(cql_get_i64(&cells[1], &number));
        assert_int_equal(number, 0);
        cql_answer_fini(&a);
        node_forget(c, 0);
        execute(&d, ids[0], ids[1], &params);
        dial_expect(&d, 2, CQL_OP_ERROR, &a);
        assert_int_equal(a.failure.code, CQL_UNPREPARED);
        assert_true(str_eq(a.failure.id, ids[0]));
        cql_answer_fini(&p);
        dial_close(&d);
    }
    cql_values_fini(&rows);
    cluster_end(&c);
}

static void version_5_tells_of_columns_that_changed(void **state)
{
    (void)state;
    struct node_cluster *c = cluster(1);
    struct dial d;
    struct cql_answer p, a;
    statement_tell(c, "k text, v bigint", NULL);
    dial_start(&d, c, 0, 5, false);
    prepare(&d, select_text, &p);
    char id[16], before[16];
    memcpy(id, p.prepared.id.p, sizeof id);
    memcpy(before, p.prepared.columns_id.p, sizeof before);
    cql_answer_fini(&p);
    statement_tell(c, "k text, v bigint, w set<uuid>", NULL);
    struct cql_params params = params_none;
    params.skip_columns = true;
    execute(&d, (str){ id, sizeof id }, (str){ before, sizeof before }, &params);
    dial_expect(&d, 2, CQL_OP_RESULT, &a);
    assert_false(a.no_columns);
    assert_int_equal(a.columns_count, 3);
    assert_int_equal(a.new_columns_id.n, sizeof before);
    assert_memory_not_equal(a.new_columns_id.p, before, sizeof before);
    cql_answer_fini(&a);
    dial_close(&d);
    cluster_end(&c);
}

static void values_are_counted_and_ids_may_differ(void **state)
{
    (void)state;
    struct node_cluster *c = node_new(&(struct node_opts){ .nodes = 2, .ids_differ = true });
    struct dial d[2];
    struct cql_answer p[2];
    for (unsigned i = 0; i < 2; i++) {
        dial_start(&d[i], c, i, 4, false);
        prepare(&d[i], "INSERT INTO ks.t (k, v) VALUES (?, '?', ?)", &p[i]);
        assert_int_equal(p[i].prepared.markers->count, 2);
        assert_true(p[i].prepared.columns == NULL);
    }
    assert_false(str_eq(p[0].prepared.id, p[1].prepared.id));
    execute(&d[0], p[0].prepared.id, STR_NONE, &params_none);
    dial_expect_error(&d[0], 2, CQL_INVALID);
    for (unsigned i = 0; i < 2; i++) {
        cql_answer_fini(&p[i]);
        dial_close(&d[i]);
    }
    cluster_end(&c);
}

static void pages_follow_each_other_through_empty_ones(void **state)
{
    (void)state;
    struct node_cluster *c = cluster(1);
    struct cql_values rows;
    struct dial d;
    struct cql_params params = params_none;
    char page_state[64];
    int64_t seen = 0, empty = 0, number = -1;
    bool more = true;
    rows_make(&rows, 4);
    (void)node_say(c, 0, &any_query,
                   &(struct node_action){ .act = NODE_ROWS,
                                          .columns = "k text, v bigint",
                                          .rows = &rows,
                                          .empty_pages = 2 });
    dial_start(&d, c, 0, 5, true);
    params.page_rows = 2;
    while (more) {
        struct cql_answer a;
        struct cql_cell cells[2];
        size_t begun = dial_begin(&d, 1, CQL_OP_QUERY);
        cql_body_query(&d.out, 5, STR("SELECT k, v FROM ks.t"), NULL, &params);
        dial_send(&d, begun);
        dial_expect(&d, 1, CQL_OP_RESULT, &a);
        empty += a.rows.count == 0;
        for (; cql_rows_next(&a.rows, cells); seen++) {
            assert_true(cql_get_i64(&cells[1], &number));
            assert_int_equal(number, seen);
        }
        assert_false(a.rows.rest.failed);
        more = a.rows.more;
        assert_true(a.rows.page_state.n < sizeof page_state);
        params.page_state = (str){ page_state, a.rows.page_state.n };
        if (more)
            memcpy(page_state, a.rows.page_state.p, a.rows.page_state.n);
        cql_answer_fini(&a);
    }
    assert_int_equal(seen, 4);
    assert_int_equal(empty, 2 + 2 + 2 + 1); /* the last: behind a full page */
    struct node_request r;
    assert_true(node_request(c, 0, &any_query, 8, &r));
    assert_int_equal(r.page_rows, 2);
    assert_true(r.page_state.n > 0);
    cql_values_fini(&rows);
    dial_close(&d);
    cluster_end(&c);
}

static void bodies_of_many_segments_pass(void **state)
{
    (void)state;
    enum { BIG = 700000 };
    struct node_cluster *c = cluster(1);
    char *big = malloc(BIG);
    assert_non_null(big);
    for (unsigned i = 0, x = 1; i < BIG; i++, x = x * 1664525u + 1013904223u)
        big[i] = (char)(i < BIG / 2 ? x >> 24 : 'x');
    struct cql_values values;
    cql_values_init(&values, 1 << 20);
    cql_put_bytes(&values, (str){ big, BIG });
    (void)node_say(c, 0, &any_query,
                   &(struct node_action){ .act = NODE_ROWS, .columns = "v blob", .rows = &values });
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct dial d;
        struct cql_answer a;
        struct cql_cell cell;
        struct node_request r;
        dial_start(&d, c, 0, ways[i].version, ways[i].lz4);
        size_t begun = dial_begin(&d, 1, CQL_OP_QUERY);
        cql_body_query(&d.out, d.version, STR("SELECT v FROM ks.t WHERE v = ?"), &values,
                       &params_none);
        dial_send(&d, begun);
        dial_expect(&d, 1, CQL_OP_RESULT, &a);
        assert_true(cql_rows_next(&a.rows, &cell));
        assert_true(str_eq(cell.bytes, (str){ big, BIG }));
        assert_true(node_request(c, 0, &any_query, (unsigned)i, &r));
        assert_true(str_eq(node_value(&r, 0), (str){ big, BIG }));
        cql_answer_fini(&a);
        dial_close(&d);
    }
    cql_values_fini(&values);
    free(big);
    cluster_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_starts_and_answers),
        cmocka_unit_test(only_the_right_password_is_let_in),
        cmocka_unit_test(version_5_is_refused_in_an_envelope_of_version_4),
        cmocka_unit_test(a_node_describes_itself_and_its_peers),
        cmocka_unit_test(a_description_changes_when_told),
        cmocka_unit_test(keyspaces_are_told),
        cmocka_unit_test(cassandra_3_has_no_peers_v2_and_a_beta_of_version_5),
        cmocka_unit_test(a_statement_is_prepared_run_and_forgotten),
        cmocka_unit_test(version_5_tells_of_columns_that_changed),
        cmocka_unit_test(values_are_counted_and_ids_may_differ),
        cmocka_unit_test(pages_follow_each_other_through_empty_ones),
        cmocka_unit_test(bodies_of_many_segments_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
