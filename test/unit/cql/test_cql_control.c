/* Goal: the control connection comes back whatever breaks it, and never at the price of a storm of
 * connections; events are hints that cost little; a schema is waited for as long as it takes.
 * Method: a fake cluster that fails at one step after the other (node.h), the client's own figures
 * (rig.h), and a getaddrinfo of our own, which hangs for one name. Connections are counted over
 * some time: the limits leave room for a slow machine, the faults they found made many times as
 * many. */
#include "rig.h"

#include "../cmocka_all.h"
#include "cql/cql_impl.h"

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

enum { READ, NODES_SEEN_MAX = 8, WINDOW_MS = 1500 };
static const char read_text[] = "SELECT v FROM ks.t WHERE k = ?";

/* ---- names ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool hangs;
} names = { .lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER };

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &found, sizeof real);
    if (strcmp(name, "hangs.test") != 0)
        return real(name, service, hints, out);
    INVARIANT(pthread_mutex_lock(&names.lock) == 0);
    while (names.hangs)
        INVARIANT(pthread_cond_wait(&names.turned, &names.lock) == 0);
    INVARIANT(pthread_mutex_unlock(&names.lock) == 0);
    return EAI_NONAME;
}

static void names_hang(bool hang)
{
    INVARIANT(pthread_mutex_lock(&names.lock) == 0);
    names.hangs = hang;
    INVARIANT(pthread_cond_broadcast(&names.turned) == 0);
    INVARIANT(pthread_mutex_unlock(&names.lock) == 0);
}

/* ---- helpers ---- */

static struct rig_opts three(void)
{
    return (struct rig_opts){
        .nodes = { .nodes = 3, .one_port = true },
        .client = { .retry_min_ms = 20,
                    .retry_max_ms = 100,
                    .connect_timeout_ms = 1000,
                    .refresh_ms = 100 },
        .statements = { [READ] = { .name = "read", .text = read_text, .idempotent = true } },
        .not_ready = true,
    };
}

static bool so_many_connections(struct rig *r, void *ctx)
{
    struct cql_node_stats nodes[NODES_SEEN_MAX];
    unsigned count = cql_nodes(r->client, nodes, NODES_SEEN_MAX), open = 0;
    for (unsigned i = 0; i < count && i < NODES_SEEN_MAX; i++)
        open += nodes[i].connections;
    return open == *(unsigned *)ctx;
}

static void wait_connections(struct rig *r, unsigned connections)
{
    rig_until(r, so_many_connections, &connections, "all connections are open");
}

static bool has_control(struct rig *r, void *ctx)
{
    struct cql_stats s;
    cql_stats(r->client, &s);
    return s.control == *(bool *)ctx;
}

static void wait_control(struct rig *r, bool on)
{
    rig_until(r, has_control, &on, "the control connection");
}

/* How many connections the client begins in that time. */
static unsigned connects_in(struct rig *r, int64_t ms)
{
    uint64_t before = rig_stats(r).connects;
    mono end = mono_add_ms(clock_mono(r->clock), ms);
    while (clock_mono(r->clock).ns < end.ns)
        (void)rig_stats(r);
    return (unsigned)(rig_stats(r).connects - before);
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

/* ---- looks that fail ---- */

static const struct node_match steps[] = {
    { .ops = BIT(CQL_OP_REGISTER) },
    { .text = "FROM system.local WHERE key" },
    { .text = "FROM system.peers_v2" },
    { .text = "FROM system_schema.keyspaces" },
};

static void looks_that_fail_make_no_storm(void **state)
{
    (void)state;
    static const struct node_action actions[] = {
        { .act = NODE_ERROR, .error = { .code = CQL_SERVER_ERROR, .message = STR_INIT("no") } },
        { .fault = NODE_CUT_BEFORE },
        { .fault = NODE_BODY_SHORT },
        { .fault = NODE_CUT_MIDDLE, .reset = true },
    };
    for (unsigned i = 0; i < COUNT_OF(steps); i++) {
        struct rig r;
        struct rig_opts o = three();
        o.client.retry_min_ms = 250;
        o.client.retry_max_ms = 1000;
        rig_start(&r, &o);
        node_say(r.nodes, NODE_ANY, &steps[i], &actions[i]);
        node_cut(r.nodes, NODE_ANY, 0, false);
        assert_in_range(connects_in(&r, WINDOW_MS), 2, 20); /* it was 45 */
        node_unsay(r.nodes, 0);
        rig_wait_up(&r, 3, 0);
        assert_int_equal(read_once(&r), ERR_OK);
        rig_end(&r);
    }
}

static void a_question_never_answered_is_given_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(steps); i++) {
        struct rig r;
        struct rig_opts o = three();
        struct node_match once = steps[i];
        once.times = 1;
        o.client.answer_timeout_ms = 200;
        rig_start(&r, &o);
        rig_wait_up(&r, 3, 0);
        unsigned rule =
            node_say(r.nodes, NODE_ANY, &once, &(struct node_action){ .act = NODE_SWALLOW });
        if (i == 0)
            node_cut(r.nodes, NODE_ANY, 0, false);
        while (node_said(r.nodes, rule) == 0)
            ;
        rig_wait_looks(&r, 2);
        rig_wait_up(&r, 3, 0);
        rig_end(&r);
    }
}

/* As a node that is joining: it answers first, and knows nothing yet. */
static void a_contact_point_that_cannot_tell_gives_way_to_others(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    node_say(r.nodes, 0, &steps[1], &(struct node_action){ .act = NODE_ROWS });
    node_say(r.nodes, 1, &steps[1], &(struct node_action){ .act = NODE_ROWS });
    node_say(r.nodes, 2, &(struct node_match){ .ops = BIT(CQL_OP_OPTIONS) },
             &(struct node_action){ .delay_ms = 150 });
    node_cut(r.nodes, NODE_ANY, 0, false);
    rig_wait_up(&r, 3, 0);
    rig_end(&r);
}

static void names_that_hang_hold_up_no_addresses(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    names_hang(true);
    o.client.contact_points[0] = "hangs.test:9042";
    o.client.contact_points_count = 1;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    for (unsigned i = 0; i < 3; i++) { /* with nodes that are known, too */
        node_cut(r.nodes, NODE_ANY, 0, true);
        rig_wait_up(&r, 3, 0);
        wait_control(&r, true);
        rig_wait_looks(&r, 1);
    }
    assert_int_equal(read_once(&r), ERR_OK);
    rig_stop(&r, 1000);
    rig_wait_stopped(&r);
    names_hang(false);
    rig_free(&r);
}

static void stop_ends_every_step(void **state)
{
    (void)state;
    static const struct node_match more[] = {
        { .ops = BIT(CQL_OP_OPTIONS) },
        { .ops = BIT(CQL_OP_STARTUP) },
    };
    for (unsigned i = 0; i < COUNT_OF(steps) + COUNT_OF(more) + 2; i++) {
        struct rig r;
        struct rig_opts o = three();
        o.nodes.nodes = 1;
        const struct node_match *m = i < COUNT_OF(steps) ? &steps[i] : &more[i % 2];
        names_hang(i == COUNT_OF(steps) + COUNT_OF(more));
        if (i >= COUNT_OF(steps) + COUNT_OF(more)) {
            o.client.contact_points[0] = "hangs.test";
            o.client.contact_points_count = 1;
        }
        rig_start(&r, &o);
        unsigned rule = node_say(r.nodes, 0, m, &(struct node_action){ .act = NODE_SWALLOW });
        if (i < COUNT_OF(steps) + COUNT_OF(more)) {
            node_cut(r.nodes, NODE_ANY, 0, false);
            while (node_said(r.nodes, rule) == 0)
                ;
        }
        rig_stop(&r, 0);
        rig_wait_stopped(&r);
        names_hang(false);
        rig_free(&r);
    }
}

/* ---- versions ---- */

static void version_get(struct rig *r, void *ctx)
{
    const struct cql *c = r->client;
    unsigned *versions = ctx;
    struct cql_stats s;
    cql_stats(c, &s);
    versions[0] = s.version;
    versions[1] = c->control.conn == NULL ? 0 : cql_conn_version(c->control.conn);
}

static void the_version_told_is_that_of_the_control_connection(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct rig r;
        struct rig_opts o = three();
        unsigned versions[2];
        rig_start(&r, &o);
        node_version_max(r.nodes, 0, 4);
        node_say(r.nodes, 1, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
                 &(struct node_action){ .delay_ms = 30 });
        node_say(r.nodes, 2, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
                 &(struct node_action){ .delay_ms = 30 });
        node_say(r.nodes, 0, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
                 &(struct node_action){ .delay_ms = 200 });
        node_cut(r.nodes, NODE_ANY, 0, false);
        rig_wait_up(&r, 3, 0);
        rig_on_loop(&r, version_get, versions);
        if (versions[1] != 0)
            assert_int_equal(versions[0], versions[1]);
        rig_end(&r);
    }
}

static void nodes_that_refuse_every_version_are_taken_when_they_do_not(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.retry_min_ms = 250;
    o.client.retry_max_ms = 1000;
    rig_start(&r, &o);
    for (unsigned i = 0; i < 3; i++)
        node_version_max(r.nodes, i, 3);
    node_cut(r.nodes, NODE_ANY, 0, false);
    assert_in_range(connects_in(&r, WINDOW_MS), 2, 40);
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_non_null(strstr(a.request.out.note.text, "version"));
    ask_fini(&a);
    for (unsigned i = 0; i < 3; i++)
        node_version_max(r.nodes, i, 5);
    rig_wait_up(&r, 3, 0);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(read_once(&r), ERR_OK);
    const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
    for (unsigned i = 0; i < 3; i++) { /* 4 was refused as well: 5 is asked for again */
        struct node_request got;
        assert_true(node_request(r.nodes, (int)i, &executes, 0, &got));
        assert_int_equal(got.head.version, 5);
    }
    rig_end(&r);
}

static void a_node_that_begins_anew_may_speak_a_newer_version(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct node_request got;
    o.nodes.version_max = 4;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    for (unsigned i = 0; i < 3; i++)
        node_version_max(r.nodes, i, 5); /* with the release that it had */
    node_down(r.nodes, 1);
    rig_wait_up(&r, 2, 0);
    node_up(r.nodes, 1);
    rig_wait_up(&r, 3, 0);
    node_clear(r.nodes);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(read_once(&r), ERR_OK);
    const struct node_match executes = { .ops = BIT(CQL_OP_EXECUTE) };
    assert_true(node_request(r.nodes, 1, &executes, 0, &got));
    assert_int_equal(got.head.version, 5);
    rig_end(&r);
}

static void a_release_told_late_changes_no_version(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    for (unsigned i = 0; i < 3; i++)
        node_describe(r.nodes, i, &(struct node_about){ .release = "5.0.10" });
    rig_wait_looks(&r, 3);
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    a.request.params.now_s = 1700000000; /* version 5 has that */
    assert_int_equal(ask_run(&a), ERR_OK);
    ask_fini(&a);
    rig_end(&r);
}

/* ---- nodes that cannot be had ---- */

static void a_node_that_closes_behind_the_handshake_is_tried_ever_more_rarely(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.retry_min_ms = 50;
    o.client.retry_max_ms = 2000;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    node_say(r.nodes, 1, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
             &(struct node_action){ .fault = NODE_CUT_AFTER });
    node_cut(r.nodes, 1, 0, false);
    assert_in_range(connects_in(&r, WINDOW_MS), 2, 10); /* it was 15 */
    assert_int_equal(read_once(&r), ERR_OK);
    node_unsay(r.nodes, 0);
    rig_wait_up(&r, 3, 0);
    rig_end(&r);
}

static void a_node_that_is_gone_costs_one_try_at_a_time(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct rig r;
        struct rig_opts o = three();
        o.client.retry_min_ms = 50;
        o.client.retry_max_ms = 2000;
        o.client.connections = 4;
        rig_start(&r, &o);
        wait_connections(&r, 12);
        wait_control(&r, true);
        if (i == 0)
            node_down(r.nodes, 1);
        else if (i == 1)
            node_freeze(r.nodes, 1);
        else
            node_say(r.nodes, 1, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
                     &(struct node_action){ .act = NODE_ERROR,
                                            .error = { .code = CQL_BAD_CREDENTIALS } });
        if (i > 0)
            node_cut(r.nodes, 1, 0, true);
        assert_in_range(connects_in(&r, WINDOW_MS), 1, 12);
        assert_int_equal(read_once(&r), ERR_OK);
        if (i == 1)
            node_thaw(r.nodes, 1);
        rig_end(&r);
    }
}

static void connections_that_end_together_are_one_failure(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.retry_min_ms = 100;
    o.client.retry_max_ms = 60000;
    o.client.connections = 8;
    rig_start(&r, &o);
    wait_connections(&r, 24);
    node_cut(r.nodes, NODE_ANY, 0, false);
    rig_wait_up(&r, 3, 0); /* it took 12 s and more */
    wait_connections(&r, 24);
    rig_end(&r);
}

static void what_a_node_failed_by_is_told(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.nodes.dcs = 2;
    o.nodes.nodes = 2;
    rig_start(&r, &o);
    rig_wait_up(&r, 1, 0);
    node_say(r.nodes, 0, &(struct node_match){ .ops = BIT(CQL_OP_STARTUP) },
             &(struct node_action){
                 .act = NODE_ERROR,
                 .error = { .code = CQL_OVERLOADED, .message = STR_INIT("too many clients") } });
    node_cut(r.nodes, 0, 0, false);
    rig_wait_up(&r, 0, 0);
    wait_control(&r, true); /* at the other data centre */
    rig_wait_looks(&r, 3);
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    assert_int_equal(ask_run(&a), ERR_UNAVAILABLE);
    assert_non_null(strstr(a.request.out.note.text, "127.0.0.1"));
    assert_non_null(strstr(a.request.out.note.text, "too many clients"));
    ask_fini(&a);
    rig_end(&r);
}

/* ---- events ---- */

static void ten_thousand_events_cost_a_look_a_second(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.refresh_ms = 60000;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    mono began = clock_mono(r.clock);
    uint64_t looks = rig_stats(&r).refreshes;
    const struct cql_event schema = { .kind = CQL_EVENT_SCHEMA,
                                      .schema = { .change = CQL_CHANGE_UPDATED,
                                                  .target = STR_INIT("KEYSPACE"),
                                                  .keyspace = STR_INIT("ks") } };
    const struct cql_event odd[] = {
        { .kind = CQL_EVENT_OTHER, .change = STR_INIT("WEATHER_CHANGE") },
        { .kind = CQL_EVENT_STATUS, .change = STR_INIT("SIDEWAYS"), .address = "10.0.0.1" },
        { .kind = CQL_EVENT_STATUS, .change = STR_INIT("UP"), .address = "::", .port = 65535 },
        { .kind = CQL_EVENT_TOPOLOGY, .change = STR_INIT(""), .address = "0.0.0.0" },
    };
    for (unsigned i = 0; i < 10000 / 8; i++) {
        node_event_of(r.nodes, NODE_ANY, "UP", i % 3);
        node_event_of(r.nodes, NODE_ANY, "DOWN", i % 3);
        node_event_of(r.nodes, NODE_ANY, "NEW_NODE", i % 3);
        node_event(r.nodes, NODE_ANY, &schema);
        for (unsigned k = 0; k < COUNT_OF(odd); k++)
            node_event(r.nodes, NODE_ANY, &odd[k]);
    }
    assert_int_equal(read_once(&r), ERR_OK);
    rig_wait_looked(&r, looks + 1);
    int64_t seconds = (clock_mono(r.clock).ns - began.ns) / NS_PER_S;
    assert_in_range(rig_stats(&r).refreshes - looks, 1, (uint64_t)seconds + 2);
    assert_int_equal(rig_stats(&r).lost, 0);
    rig_end(&r);
}

static void events_of_a_node_put_off_no_try(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    node_down(r.nodes, 1);
    rig_wait_up(&r, 2, 0);
    wait_control(&r, true);
    node_up(r.nodes, 1);
    unsigned all = 3;
    mono end = mono_add_ms(clock_mono(r.clock), RIG_WAIT_MS);
    for (bool up = false; !up;) { /* it flaps, the others say */
        node_event_of(r.nodes, NODE_ANY, "UP", 1);
        assert_true(clock_mono(r.clock).ns < end.ns);
        struct cql_stats s = rig_stats(&r);
        (void)s;
        struct node_counts n = node_counts(r.nodes, 1);
        up = n.ready > 0;
    }
    rig_wait_up(&r, all, 0);
    rig_end(&r);
}

static void an_answer_under_way_survives_a_change_of_its_table(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct cql_values row;
    o.nodes.nodes = 1;
    rig_start(&r, &o);
    cql_values_init(&row, 1024);
    cql_put_i64(&row, 42);
    node_statement(r.nodes, &(struct node_statement){ .text = read_text,
                                                      .markers = "k text",
                                                      .columns = "v bigint",
                                                      .rows = &row });
    rig_wait_up(&r, 1, 0);
    assert_int_equal(read_once(&r), ERR_OK);
    unsigned rule = node_say(r.nodes, 0, &(struct node_match){ .ops = BIT(CQL_OP_EXECUTE) },
                             &(struct node_action){ .held = true });
    struct ask a;
    ask_init(&a, &r, READ);
    cql_put_bytes(&a.values, STR("k"));
    ask_start(&a);
    while (node_said(r.nodes, rule) == 0)
        ;
    const struct cql_event changed = { .kind = CQL_EVENT_SCHEMA,
                                       .schema = { .change = CQL_CHANGE_UPDATED,
                                                   .target = STR_INIT("KEYSPACE"),
                                                   .keyspace = STR_INIT("ks") } };
    assert_int_equal(node_event(r.nodes, 0, &changed), 1);
    (void)rig_stats(&r);
    rig_wait_looks(&r, 2); /* the event came before their answers */
    node_release(r.nodes, rule);
    ask_wait(&a);
    assert_int_equal(a.request.out.why, ERR_OK);
    assert_int_equal(ask_i64(&a), 42);
    ask_fini(&a);
    node_unsay(r.nodes, 0);
    cql_values_fini(&row);
    rig_end(&r);
}

/* ---- agreement ---- */

struct agreed {
    mono deadline;
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
    cql_agree(r->client, a->deadline, agreed_told, a);
}

static bool agree_over(struct rig *r, void *ctx)
{
    (void)r;
    return ((struct agreed *)ctx)->over;
}

static void agree_start(struct rig *r, struct agreed *a, int64_t ms)
{
    *a = (struct agreed){ .deadline = mono_add_ms(clock_mono(r->clock), ms) };
    rig_on_loop(r, agree_ask, a);
}

static const struct node_match schema_questions[] = {
    { .text = "SELECT schema_version FROM system.local", .times = 1 },
    { .text = "SELECT host_id, schema_version FROM system.peers", .times = 1 },
};

static void a_schema_question_never_answered_is_asked_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT_OF(schema_questions); i++) {
        struct rig r;
        struct rig_opts o = three();
        struct agreed a;
        o.client.answer_timeout_ms = 300;
        o.client.refresh_ms = 60000;
        rig_start(&r, &o);
        rig_wait_up(&r, 3, 0);
        wait_control(&r, true);
        node_say(r.nodes, NODE_ANY, &schema_questions[i],
                 &(struct node_action){ .act = NODE_SWALLOW });
        agree_start(&r, &a, 10000);
        rig_until(&r, agree_over, &a, "agreement");
        assert_int_equal(a.why, ERR_OK);
        rig_end(&r);
    }
}

/* The loop writes to a socket that is reset before it reads that. */
static void reset_and_be_late(struct rig *r, void *ctx)
{
    struct agreed *a = ctx;
    cql_agree(r->client, a->deadline, agreed_told, a);
    node_cut(r->nodes, NODE_ANY, 0, true);
    mono end = mono_add_ms(clock_mono(r->clock), 3 * CQL_TICK_MS);
    while (clock_mono(r->clock).ns < end.ns)
        ;
}

static void a_connection_lost_while_it_is_asked_is_not_waited_for(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    o.client.refresh_ms = 60000;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    wait_control(&r, true);
    struct agreed a = { .deadline = mono_add_ms(clock_mono(r.clock), 10000) };
    rig_on_loop(&r, reset_and_be_late, &a);
    rig_until(&r, agree_over, &a, "agreement");
    assert_int_equal(a.why, ERR_OK);
    rig_end(&r);
}

static void a_schema_is_waited_for_while_the_control_connection_moves(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct agreed a;
    o.nodes.nodes = 4; /* the last one is of another data centre */
    rig_start(&r, &o);
    rig_wait_up(&r, 4, 0);
    node_describe(r.nodes, 1, &(struct node_about){ .schema = 99 });
    agree_start(&r, &a, 15000);
    for (unsigned i = 0; i < 5; i++) {
        wait_control(&r, true);
        node_cut(r.nodes, NODE_ANY, 0, i % 2 == 1);
        rig_wait_looks(&r, 2);
        rig_wait_up(&r, 4, 0);
        assert_false(a.over);
    }
    for (unsigned i = 0; i < 4; i++)
        node_describe(r.nodes, i, &(struct node_about){ .schema = 99 });
    rig_until(&r, agree_over, &a, "agreement");
    assert_int_equal(a.why, ERR_OK);
    rig_end(&r);
}

static void nodes_that_join_or_are_down_elsewhere_need_not_agree(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct agreed a;
    o.nodes.nodes = 4;
    o.nodes.dcs = 2; /* 0 and 2 are local */
    rig_start(&r, &o);
    rig_wait_up(&r, 2, 0);
    rig_wait_looks(&r, 2);
    if (node_counts(r.nodes, 1).registered > 0) { /* the control connection is no remote node's */
        node_cut(r.nodes, 1, 0, false);
        rig_wait_looks(&r, 2);
    }
    node_describe(r.nodes, 1, &(struct node_about){ .schema = 99 });
    agree_start(&r, &a, 500);
    rig_until(&r, agree_over, &a, "the deadline");
    assert_int_equal(a.why, ERR_TIMEOUT); /* remote, and up as far as anybody knows */
    wait_control(&r, true);
    assert_int_equal(node_event_of(r.nodes, NODE_ANY, "DOWN", 1), 1);
    agree_start(&r, &a, 15000);
    rig_until(&r, agree_over, &a, "agreement");
    assert_int_equal(a.why, ERR_OK);
    node_describe(r.nodes, 2, &(struct node_about){ .schema = 98, .nulls = "host_id" });
    node_down(r.nodes, 2); /* it is joining again */
    rig_wait_up(&r, 1, 0);
    agree_start(&r, &a, 15000);
    rig_until(&r, agree_over, &a, "agreement");
    assert_int_equal(a.why, ERR_OK);
    rig_end(&r);
}

static void an_agreement_ends_with_the_client(void **state)
{
    (void)state;
    struct rig r;
    struct rig_opts o = three();
    struct agreed a;
    rig_start(&r, &o);
    rig_wait_up(&r, 3, 0);
    node_describe(r.nodes, 1, &(struct node_about){ .schema = 99 });
    agree_start(&r, &a, 60000);
    rig_stop(&r, 300);
    rig_wait_stopped(&r);
    assert_true(a.over);
    assert_int_equal(a.why, ERR_SHUTDOWN);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_that_fail_make_no_storm),
        cmocka_unit_test(a_question_never_answered_is_given_up),
        cmocka_unit_test(a_contact_point_that_cannot_tell_gives_way_to_others),
        cmocka_unit_test(names_that_hang_hold_up_no_addresses),
        cmocka_unit_test(stop_ends_every_step),
        cmocka_unit_test(the_version_told_is_that_of_the_control_connection),
        cmocka_unit_test(nodes_that_refuse_every_version_are_taken_when_they_do_not),
        cmocka_unit_test(a_node_that_begins_anew_may_speak_a_newer_version),
        cmocka_unit_test(a_release_told_late_changes_no_version),
        cmocka_unit_test(a_node_that_closes_behind_the_handshake_is_tried_ever_more_rarely),
        cmocka_unit_test(a_node_that_is_gone_costs_one_try_at_a_time),
        cmocka_unit_test(connections_that_end_together_are_one_failure),
        cmocka_unit_test(what_a_node_failed_by_is_told),
        cmocka_unit_test(ten_thousand_events_cost_a_look_a_second),
        cmocka_unit_test(events_of_a_node_put_off_no_try),
        cmocka_unit_test(an_answer_under_way_survives_a_change_of_its_table),
        cmocka_unit_test(a_schema_question_never_answered_is_asked_again),
        cmocka_unit_test(a_connection_lost_while_it_is_asked_is_not_waited_for),
        cmocka_unit_test(a_schema_is_waited_for_while_the_control_connection_moves),
        cmocka_unit_test(nodes_that_join_or_are_down_elsewhere_need_not_agree),
        cmocka_unit_test(an_agreement_ends_with_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
