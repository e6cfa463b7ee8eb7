/* Goal: what becomes of a request for each error of a server, for statements that were forgotten,
 * refused or changed, and for requests that are canceled or too late.
 * Method: a fake cluster that answers as it is told; the requests that came to it are counted
 * (rig.h, node.h). */
#include "rig.h"

#include "../cmocka_all.h"

#include <string.h>

enum { WRITE, READ, COUNT, WRITES, WRITES_COUNT = 6 };

static const struct rig_opts usual = {
    .nodes = { .nodes = 3, .one_port = true },
    .client = { .retry_min_ms = 20, .retry_max_ms = 100 },
    .statements = {
        [WRITE] = { .name = "write",
                    .text = "INSERT INTO ks.t (k, v) VALUES (?, ?)",
                    .idempotent = true },
        [READ] = { .name = "read",
                   .text = "SELECT v FROM ks.t WHERE k = ?",
                   .gives = "bigint",
                   .idempotent = true },
        [COUNT] = { .name = "count", .text = "UPDATE ks.c SET n = n + ? WHERE k = ?" },
        [WRITES] = { .name = "w0", .text = "INSERT INTO ks.a (k) VALUES (?)", .idempotent = true },
        { .name = "w1", .text = "INSERT INTO ks.b (k) VALUES (?)", .idempotent = true },
        { .name = "w2", .text = "INSERT INTO ks.c (k) VALUES (?)", .idempotent = true },
        { .name = "w3", .text = "INSERT INTO ks.d (k) VALUES (?)", .idempotent = true },
        { .name = "w4", .text = "INSERT INTO ks.e (k) VALUES (?)", .idempotent = true },
        { .name = "w5", .text = "INSERT INTO ks.f (k) VALUES (?)", .idempotent = true },
    },
};
static const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
static const struct node_match prepares = { .ops = BIT(CQL_OP_PREPARE) };
static const struct node_match batches = { .ops = BIT(CQL_OP_BATCH) };

struct wanted {
    unsigned up;
};

static bool nodes_are_up(struct rig *r, void *ctx)
{
    const struct wanted *w = ctx;
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), up = 0;
    for (unsigned i = 0; i < count; i++)
        up += nodes[i].up;
    return up == w->up;
}

static void one_bigint(struct node_cluster *c, const char *columns, int64_t value)
{
    struct cql_values rows;
    cql_values_init(&rows, 64);
    cql_put_i64(&rows, value);
    node_statement(c, &(struct node_statement){ .text = usual.statements[READ].text,
                                                .markers = "k text",
                                                .partition = { 0 },
                                                .partition_count = 1,
                                                .columns = columns,
                                                .rows = &rows });
    cql_values_fini(&rows);
}

static void start(struct rig *r, const struct rig_opts *o)
{
    rig_start(r, o);
    one_bigint(r->nodes, "v bigint", 7);
    struct wanted w = { .up = o->nodes.nodes };
    rig_until(r, nodes_are_up, &w, "all nodes are up");
}

/* All of its markers take "k". */
static void any_init(struct ask *a, struct rig *r, unsigned statement)
{
    ask_init(a, r, statement);
    for (const char *at = usual.statements[statement].text; *at != '\0'; at++)
        if (*at == '?')
            cql_put_bytes(&a->values, STR("k"));
    if (statement == COUNT)
        a->request.params.timestamp_us = CQL_NO_TIMESTAMP;
}

static void in_ms(struct ask *a, int64_t ms)
{
    a->request.deadline = mono_add_ms(clock_mono(a->rig->clock), ms);
}

static err run_once(struct rig *r, unsigned statement)
{
    struct ask a;
    any_init(&a, r, statement);
    err why = ask_run(&a);
    ask_fini(&a);
    return why;
}

static bool note_has(const struct ask *a, const char *text)
{
    return strstr(a->request.out.note.text, text) != NULL;
}

/* ---- each error ---- */

enum { GIVE_UP, SAME, NEXT };
struct reacted {
    struct cql_failure f;
    err why;
    int idempotent, otherwise; /* what is done */
    bool executed;             /* a write may have been */
    unsigned sent;             /* when it is sent again for ever; 0: 2 */
};

static const struct reacted reactions[] = {
    { { .code = CQL_SERVER_ERROR }, ERR_UNAVAILABLE, NEXT, GIVE_UP, true, 0 },
    { { .code = CQL_PROTOCOL_ERROR }, ERR_IO, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_UNAVAILABLE, .consistency = CQL_LOCAL_QUORUM, .required = 2 },
      ERR_UNAVAILABLE,
      NEXT,
      NEXT,
      false,
      0 },
    { { .code = CQL_OVERLOADED }, ERR_UNAVAILABLE, NEXT, GIVE_UP, true, 0 },
    { { .code = CQL_BOOTSTRAPPING }, ERR_UNAVAILABLE, NEXT, NEXT, false, 3 },
    { { .code = CQL_TRUNCATE_ERROR }, ERR_UNAVAILABLE, NEXT, GIVE_UP, true, 0 },
    { { .code = CQL_WRITE_TIMEOUT, .required = 2, .write = CQL_WRITE_SIMPLE },
      ERR_TIMEOUT,
      NEXT,
      GIVE_UP,
      true,
      0 },
    { { .code = CQL_WRITE_TIMEOUT, .required = 2, .write = CQL_WRITE_BATCH_LOG },
      ERR_TIMEOUT,
      SAME,
      GIVE_UP,
      true,
      0 },
    { { .code = CQL_READ_TIMEOUT, .required = 2, .alive_or_received = 2 },
      ERR_TIMEOUT,
      SAME,
      GIVE_UP,
      true,
      0 },
    { { .code = CQL_READ_TIMEOUT, .required = 2, .alive_or_received = 1 },
      ERR_TIMEOUT,
      GIVE_UP,
      GIVE_UP,
      true,
      0 },
    { { .code = CQL_READ_TIMEOUT, .required = 2, .alive_or_received = 2, .data_present = true },
      ERR_TIMEOUT,
      GIVE_UP,
      GIVE_UP,
      true,
      0 },
    { { .code = CQL_READ_FAILURE, .failed = 1 }, ERR_UNAVAILABLE, GIVE_UP, GIVE_UP, true, 0 },
    { { .code = CQL_FUNCTION_FAILURE }, ERR_BAD, GIVE_UP, GIVE_UP, true, 0 },
    { { .code = CQL_WRITE_FAILURE, .failed = 1 }, ERR_UNAVAILABLE, GIVE_UP, GIVE_UP, true, 0 },
    { { .code = CQL_CDC_WRITE_FAILURE }, ERR_UNAVAILABLE, GIVE_UP, GIVE_UP, true, 0 },
    { { .code = CQL_CAS_UNKNOWN }, ERR_TIMEOUT, GIVE_UP, GIVE_UP, true, 0 },
    { { .code = CQL_SYNTAX_ERROR }, ERR_BAD, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_UNAUTHORIZED }, ERR_DENIED, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_INVALID }, ERR_BAD, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_CONFIG_ERROR }, ERR_BAD, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_ALREADY_EXISTS }, ERR_CONFLICT, GIVE_UP, GIVE_UP, false, 0 },
    { { .code = CQL_UNPREPARED }, ERR_UNAVAILABLE, SAME, SAME, false, 4 },
    { { .code = 0x1a00 }, ERR_UNAVAILABLE, GIVE_UP, GIVE_UP, true, 0 }, /* newer than the client */
    { { .code = 0x2a00 }, ERR_UNAVAILABLE, GIVE_UP, GIVE_UP, true, 0 },
};

static void error_for_ever(struct rig *r, const struct reacted *x, unsigned statement)
{
    const struct node_action says = { .act = NODE_ERROR, .error = x->f };
    bool idempotent = usual.statements[statement].idempotent;
    bool write = statement == WRITE || statement == COUNT;
    int done = idempotent ? x->idempotent : x->otherwise;
    unsigned sent = done == GIVE_UP ? 1 : x->sent > 0 ? x->sent : 2;
    node_clear(r->nodes);
    unsigned rule = node_say(r->nodes, NODE_ANY, &executes, &says);
    struct ask a;
    any_init(&a, r, statement);
    assert_int_equal(ask_run(&a), x->why);
    const struct cql_outcome *out = &a.request.out;
    assert_int_equal(out->sent, sent);
    assert_int_equal(node_requests(r->nodes, NODE_ANY, &executes), sent);
    assert_int_equal(out->code, x->f.code);
    assert_int_equal(out->unknown, write && x->executed);
    assert_true(note_has(&a, out->node));
    assert_true(note_has(&a, "LOCAL_QUORUM"));
    struct node_request got;
    unsigned nodes = 0;
    for (unsigned i = 0; i < sent; i++) {
        assert_true(node_request(r->nodes, NODE_ANY, &executes, i, &got));
        nodes |= BIT(got.node);
    }
    assert_int_equal(__builtin_popcount(nodes), done == NEXT ? (int)sent : 1);
    node_unsay(r->nodes, rule);
    ask_fini(&a);
}

static void error_once(struct rig *r, const struct reacted *x, unsigned statement)
{
    const struct node_action says = { .act = NODE_ERROR, .error = x->f };
    struct node_match once = executes;
    once.times = 1;
    struct ask a;
    (void)node_say(r->nodes, NODE_ANY, &once, &says);
    any_init(&a, r, statement);
    bool again = (usual.statements[statement].idempotent ? x->idempotent : x->otherwise) != GIVE_UP;
    assert_int_equal(ask_run(&a), again ? ERR_OK : x->why);
    if (again) {
        assert_int_equal(a.request.out.code, -1);
        assert_false(a.request.out.unknown);
        assert_int_equal(a.request.out.note.text[0], '\0');
    }
    ask_fini(&a);
}

static void each_error_with(unsigned version)
{
    static const unsigned kinds[] = { READ, WRITE, COUNT };
    struct rig r;
    struct rig_opts o = usual;
    o.nodes.version_max = version;
    start(&r, &o);
    for (unsigned i = 0; i < COUNT_OF(reactions); i++)
        for (unsigned k = 0; k < COUNT_OF(kinds); k++) {
            error_for_ever(&r, &reactions[i], kinds[k]);
            error_once(&r, &reactions[i], kinds[k]);
        }
    assert_int_equal(rig_stats(&r).lost, 0);
    rig_end(&r);
}

static void each_error_has_its_reaction(void **state)
{
    (void)state;
    each_error_with(5);
    each_error_with(4);
}

/* A batch that is not logged is written part by part: some parts may have been written when too
 * few replicas are there for another. */
static void an_unlogged_batch_may_be_half_done(void **state)
{
    (void)state;
    static const struct cql_failure few = { .code = CQL_UNAVAILABLE, .required = 2 };
    struct rig r;
    struct ask a;
    start(&r, &usual);
    (void)node_say(r.nodes, NODE_ANY, &batches,
                   &(struct node_action){ .act = NODE_ERROR, .error = few });
    any_init(&a, &r, COUNT);
    struct cql_part parts[2] = { a.part, a.part };
    a.request.way = CQL_WAY_BATCH;
    a.request.batch = CQL_COUNTERS;
    a.request.parts = parts;
    a.request.parts_count = 2;
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_int_equal(a.request.out.sent, 1);
    assert_true(a.request.out.unknown);
    ask_fini(&a);
    rig_end(&r);
}

/* ---- statements that are forgotten ---- */

static void batch_of_all(struct rig *r, struct ask *a, struct cql_part *parts)
{
    any_init(a, r, WRITES);
    for (unsigned i = 0; i < WRITES_COUNT; i++)
        parts[i] =
            (struct cql_part){ .statement = r->statements[WRITES + i], .values = &a->values };
    a->request.way = CQL_WAY_BATCH;
    a->request.parts = parts;
    a->request.parts_count = WRITES_COUNT;
}

static void a_batch_outlives_a_node_that_forgot_all_of_it(void **state)
{
    (void)state;
    for (unsigned differ = 0; differ < 2; differ++) {
        struct rig r;
        struct ask a;
        struct cql_part parts[WRITES_COUNT];
        struct rig_opts o = usual;
        o.nodes.ids_differ = differ;
        start(&r, &o);
        for (unsigned i = 0; i < 10; i++) {
            node_forget(r.nodes, NODE_ANY);
            batch_of_all(&r, &a, parts);
            assert_int_equal(ask_run(&a), ERR_OK);
            ask_fini(&a);
        }
        struct node_request got;
        assert_true(node_request(r.nodes, NODE_ANY, &batches, 0, &got));
        assert_int_equal(got.statements, WRITES_COUNT);
        rig_end(&r);
    }
}

static void a_node_that_forgets_for_ever_is_given_up(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, &usual);
    (void)node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_FORGETS });
    any_init(&a, &r, WRITE);
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_int_equal(a.request.out.code, CQL_UNPREPARED);
    assert_int_equal(a.request.out.sent, 4);
    assert_false(a.request.out.unknown);
    ask_fini(&a);
    rig_end(&r);
}

/* An UNPREPARED of an id that nobody sent. */
static void an_unknown_id_is_no_endless_loop(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, &usual);
    const struct cql_failure f = { .code = CQL_UNPREPARED, .id = STR("another") };
    (void)node_say(r.nodes, NODE_ANY, &executes,
                   &(struct node_action){ .act = NODE_ERROR, .error = f });
    any_init(&a, &r, READ);
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_int_equal(a.request.out.sent, 4);
    ask_fini(&a);
    rig_end(&r);
}

/* ---- PREPARE goes wrong ---- */

static void a_prepare_that_is_lost_or_hangs_costs_another_node(void **state)
{
    (void)state;
    static const struct node_action wrong[] = {
        { .fault = NODE_CUT_BEFORE },
        { .fault = NODE_CUT_MIDDLE },
        { .fault = NODE_BODY_SHORT },
        { .fault = NODE_OPCODE },
        { .fault = NODE_VERSION },
        { .act = NODE_SWALLOW },
        { .act = NODE_ERROR, .error = { .code = CQL_OVERLOADED } },
        { .act = NODE_ERROR, .error = { .code = CQL_SERVER_ERROR } },
        { .act = NODE_RAW, .op = CQL_OP_READY },
        { .act = NODE_RAW, .op = CQL_OP_RESULT, .body = STR_INIT("\0\0\0\1") },
    };
    for (unsigned i = 0; i < COUNT_OF(wrong); i++) {
        struct rig r;
        struct rig_opts o = usual;
        o.client.answer_timeout_ms = 300;
        start(&r, &o);
        struct node_match once = prepares;
        once.times = 1;
        (void)node_say(r.nodes, NODE_ANY, &once, &wrong[i]);
        struct ask a;
        any_init(&a, &r, COUNT); /* nothing was done: it is sent elsewhere all the same */
        assert_int_equal(ask_run(&a), ERR_OK);
        assert_int_equal(a.request.out.sent, 1);
        ask_fini(&a);
        rig_end(&r);
    }
}

static void a_prepare_that_fails_everywhere_says_why(void **state)
{
    (void)state;
    static const struct {
        struct node_action does;
        err why;
        const char *says;
    } cases[] = {
        { { .act = NODE_ERROR, .error = { .code = CQL_SYNTAX_ERROR, .message = STR_INIT("eh") } },
          ERR_BAD,
          "syntax_error" },
        { { .act = NODE_ERROR, .error = { .code = CQL_UNAUTHORIZED } },
          ERR_DENIED,
          "unauthorized" },
        { { .act = NODE_ERROR, .error = { .code = CQL_INVALID } }, ERR_BAD, "invalid" },
        { { .act = NODE_ERROR, .error = { .code = CQL_OVERLOADED } },
          ERR_UNAVAILABLE,
          "overloaded" },
        { { .act = NODE_ERROR, .error = { .code = CQL_BOOTSTRAPPING } },
          ERR_UNAVAILABLE,
          "bootstrapping" },
        { { .act = NODE_SWALLOW }, ERR_UNAVAILABLE, "PREPARE" },
    };
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        struct rig r;
        struct rig_opts o = usual;
        o.client.answer_timeout_ms = 300;
        start(&r, &o);
        (void)node_say(r.nodes, NODE_ANY, &prepares, &cases[i].does);
        struct ask a;
        any_init(&a, &r, WRITE);
        assert_int_equal(ask_run(&a), cases[i].why);
        assert_true(note_has(&a, cases[i].says));
        assert_true(note_has(&a, "127.0.0."));
        assert_int_equal(a.request.out.sent, 0);
        assert_false(a.request.out.unknown);
        node_unsay(r.nodes, 0);
        ask_fini(&a);
        assert_int_equal(run_once(&r, WRITE), ERR_OK);
        rig_end(&r);
    }
}

/* ---- a table that changes ---- */

static bool schema_was_told(struct rig *r, void *ctx)
{
    (void)ctx;
    return r->schema_told > 0;
}

static void schema_event(struct rig *r)
{
    const struct cql_event e = { .kind = CQL_EVENT_SCHEMA,
                                 .schema = { .change = CQL_CHANGE_UPDATED,
                                             .target = STR("TABLE"),
                                             .keyspace = STR("ks"),
                                             .name = STR("t") } };
    r->schema_told = 0;
    assert_true(node_event(r->nodes, NODE_ANY, &e) > 0);
    rig_until(r, schema_was_told, NULL, "the event has come");
}

/* An answer without columns is read by those that its request named, whatever has been learnt of
 * the statement since. */
static void rows_under_way_outlive_a_change(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    start(&r, &o);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    struct node_match once = executes;
    once.times = 1;
    for (unsigned forget = 0; forget < 2; forget++) {
        node_clear(r.nodes);
        unsigned rule = node_say(r.nodes, NODE_ANY, &once, &(struct node_action){ .held = true });
        any_init(&a, &r, READ);
        ask_start(&a);
        assert_true(node_wait(r.nodes, NODE_ANY, &executes, 1, RIG_WAIT_MS));
        schema_event(&r);
        if (forget) { /* and it is prepared again meanwhile */
            one_bigint(r.nodes, "other bigint", 8);
            assert_int_equal(run_once(&r, READ), ERR_OK);
        }
        assert_int_equal(node_release(r.nodes, rule), 1);
        ask_wait(&a);
        assert_int_equal(a.request.out.why, ERR_OK);
        assert_int_equal(ask_i64(&a), 7);
        str name = a.request.out.rows.columns->at[0].name;
        assert_true(str_eq(name, STR("v")));
        ask_fini(&a);
    }
    rig_end(&r);
}

static void new_columns_of_other_types_are_refused(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    struct rig_opts o = usual;
    o.nodes.nodes = 1;
    start(&r, &o);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    one_bigint(r.nodes, "v timestamp", 7);
    any_init(&a, &r, READ);
    assert_int_equal(ask_run(&a), ERR_CONFLICT);
    assert_true(note_has(&a, "(timestamp)"));
    assert_true(note_has(&a, "(bigint)"));
    ask_fini(&a);
    one_bigint(r.nodes, "v bigint", 9); /* and mended */
    any_init(&a, &r, READ);
    assert_int_equal(ask_run(&a), ERR_OK);
    assert_int_equal(ask_i64(&a), 9);
    ask_fini(&a);
    rig_end(&r);
}

/* ---- cancel, deadlines ---- */

struct three_asks {
    struct ask one, two, three;
};

static void cancel_and_start(struct rig *r, void *ctx)
{
    struct three_asks *t = ctx;
    cql_cancel(&t->one.request); /* posts the word before the others have begun */
    cql_start(r->client, &t->two.request);
    cql_cancel(&t->two.request);
}

static void a_cancel_is_heard_before_the_beginning_too(void **state)
{
    (void)state;
    struct rig r;
    struct three_asks t;
    start(&r, &usual);
    (void)node_say(r.nodes, NODE_ANY, &executes, &(struct node_action){ .act = NODE_SWALLOW });
    any_init(&t.one, &r, READ);
    any_init(&t.two, &r, WRITE);
    ask_start(&t.one);
    assert_true(node_wait(r.nodes, NODE_ANY, &executes, 1, RIG_WAIT_MS));
    rig_on_loop(&r, cancel_and_start, &t);
    ask_wait(&t.one);
    ask_wait(&t.two);
    assert_int_equal(t.one.request.out.why, ERR_TIMEOUT);
    assert_true(note_has(&t.one, "canceled"));
    assert_int_equal(t.two.request.out.why, ERR_TIMEOUT);
    assert_true(note_has(&t.two, "canceled"));
    assert_int_equal(t.two.request.out.sent, 0);
    assert_false(t.two.request.out.unknown);
    ask_fini(&t.one);
    ask_fini(&t.two);
    rig_end(&r);
}

static void a_request_that_is_too_late_is_not_sent(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, &usual);
    assert_int_equal(run_once(&r, COUNT), ERR_OK);
    node_clear(r.nodes);
    any_init(&a, &r, COUNT);
    in_ms(&a, -1);
    assert_int_equal(ask_run(&a), ERR_TIMEOUT);
    assert_int_equal(a.request.out.sent, 0);
    assert_false(a.request.out.unknown);
    ask_fini(&a);
    assert_int_equal(run_once(&r, READ), ERR_OK);
    assert_int_equal(node_requests(r.nodes, NODE_ANY, &executes), 1);
    rig_end(&r);
}

static void a_deadline_ends_a_wait_for_a_prepare(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, &usual);
    unsigned rule = node_say(r.nodes, NODE_ANY, &prepares, &(struct node_action){ .held = true });
    for (unsigned cancel = 0; cancel < 2; cancel++) {
        node_clear(r.nodes);
        any_init(&a, &r, cancel ? WRITE : COUNT);
        in_ms(&a, cancel ? RIG_WAIT_MS / 2 : 100);
        ask_start(&a);
        if (cancel) {
            assert_true(node_wait(r.nodes, NODE_ANY, &prepares, 1, RIG_WAIT_MS));
            cql_cancel(&a.request);
        }
        ask_wait(&a);
        assert_int_equal(a.request.out.why, ERR_TIMEOUT);
        assert_int_equal(a.request.out.sent, 0);
        assert_false(a.request.out.unknown);
        ask_fini(&a);
    }
    node_unsay(r.nodes, rule);
    (void)node_release(r.nodes, rule);
    assert_int_equal(run_once(&r, COUNT), ERR_OK);
    rig_end(&r);
}

/* ---- speculation ---- */

static bool one_waits(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_stats s;
    cql_stats(r->client, &s);
    return s.waiting == 1;
}

static bool none_under_way(struct rig *r, void *ctx)
{
    (void)ctx;
    struct cql_node_stats nodes[NODE_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODE_MAX), under_way = 0;
    for (unsigned i = 0; i < count; i++)
        under_way += nodes[i].in_flight;
    return under_way == 0;
}

/* The second node has to prepare it first; meanwhile the first one refuses. */
static void an_error_is_no_end_while_another_node_prepares(void **state)
{
    (void)state;
    struct rig r;
    struct ask a;
    start(&r, &usual);
    struct node_match once = executes, later = prepares;
    once.times = 1;
    later.skip = 1;
    const struct node_action refuses = { .act = NODE_ERROR,
                                         .error = { .code = CQL_OVERLOADED },
                                         .held = true };
    unsigned first = node_say(r.nodes, NODE_ANY, &once, &refuses);
    unsigned second = node_say(r.nodes, NODE_ANY, &later, &(struct node_action){ .held = true });
    any_init(&a, &r, READ);
    a.request.speculative = true;
    ask_start(&a);
    assert_true(node_wait(r.nodes, NODE_ANY, &prepares, 2, RIG_WAIT_MS));
    rig_until(&r, one_waits, NULL, "it waits at the second node");
    assert_int_equal(node_release(r.nodes, first), 1);
    rig_until(&r, none_under_way, NULL, "the error has come");
    node_unsay(r.nodes, second);
    (void)node_release(r.nodes, second);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    assert_int_equal(ask_i64(&a), 7);
    assert_int_equal(a.told, 1);
    ask_fini(&a);
    assert_int_equal(rig_stats(&r).waiting, 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_has_its_reaction),
        cmocka_unit_test(an_unlogged_batch_may_be_half_done),
        cmocka_unit_test(a_batch_outlives_a_node_that_forgot_all_of_it),
        cmocka_unit_test(a_node_that_forgets_for_ever_is_given_up),
        cmocka_unit_test(an_unknown_id_is_no_endless_loop),
        cmocka_unit_test(a_prepare_that_is_lost_or_hangs_costs_another_node),
        cmocka_unit_test(a_prepare_that_fails_everywhere_says_why),
        cmocka_unit_test(rows_under_way_outlive_a_change),
        cmocka_unit_test(new_columns_of_other_types_are_refused),
        cmocka_unit_test(a_cancel_is_heard_before_the_beginning_too),
        cmocka_unit_test(a_request_that_is_too_late_is_not_sent),
        cmocka_unit_test(a_deadline_ends_a_wait_for_a_prepare),
        cmocka_unit_test(an_error_is_no_end_while_another_node_prepares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
