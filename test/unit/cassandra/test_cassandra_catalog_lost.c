/* Goal: a change whose answer was lost knows whether it happened, and happens at most once.
 * Method: a fake cluster that loses answers (test/unit/cql/node.h), told what it would find. */
#include "../cql/rig.h"

#include "../cmocka_all.h"
#include "cassandra/catalog.h"
#include "loop/entropy.h"

#include <stdlib.h>
#include <string.h>

static const struct node_match batches = { .ops = BIT(CQL_OP_BATCH) };
static const struct node_match looks = { .ops = BIT(CQL_OP_EXECUTE), .text = "kind = 1" };
static const struct node_action cut = { .fault = NODE_CUT_BEFORE };

struct fixture {
    struct rig rig;
    struct catalog *catalog;
    struct catalog_change change;
    struct cql_values applied, refused, note;
    bool over;
};

static void catalog_make(struct rig *r, void *ctx)
{
    struct fixture *f = ctx;
    f->catalog = catalog_new(&(struct catalog_opts){ .client = r->client,
                                                     .loop = r->loop,
                                                     .clock = r->clock,
                                                     .keyspace = "ks",
                                                     .entropy = entropy_bytes },
                             NULL);
}

/* What the statements of a change are, as its table has them. */
static void table_tell(struct fixture *f)
{
    static const struct node_statement s[] = {
        { .text = "UPDATE ks.decide SET gen = ? WHERE scope = ? IF gen = ?",
          .markers = "gen blob, scope text, gen blob" },
        { .text = "INSERT INTO ks.decide (scope, kind, key, ver) VALUES (?, 1, ?, ?) "
                  "IF NOT EXISTS USING TTL ?",
          .markers = "scope text, key blob, ver blob, ttl int" },
        { .text = "UPDATE ks.decide SET ver = ?, value = ? WHERE scope = ? AND kind = 0 AND "
                  "key = ?",
          .markers = "ver blob, value blob, scope text, key blob" },
        { .text = "SELECT ver FROM ks.decide WHERE scope = ? AND kind = 1 AND key = ?",
          .markers = "scope text, key blob",
          .columns = "ver blob" },
    };
    for (unsigned i = 0; i < COUNT_OF(s); i++)
        node_statement(f->rig.nodes, &s[i]);
}

static void setup(struct fixture *f)
{
    static const struct rig_opts o = { .nodes = { .nodes = 1 },
                                       .client = { .retry_min_ms = 10, .retry_max_ms = 20 } };
    memset(f, 0, sizeof *f);
    rig_start(&f->rig, &o);
    table_tell(f);
    rig_on_loop(&f->rig, catalog_make, f);
    assert_non_null(f->catalog);
    cql_values_init(&f->applied, 64);
    cql_values_init(&f->refused, 64);
    cql_values_init(&f->note, 64);
    cql_put_bool(&f->applied, true);
    cql_put_bool(&f->refused, false);
    cql_put_bytes(&f->note, STR("0123456789abcdef"));
}

static void teardown(struct fixture *f)
{
    rig_end(&f->rig);
    catalog_free(&f->catalog);
    cql_values_fini(&f->applied);
    cql_values_fini(&f->refused);
    cql_values_fini(&f->note);
}

static void say(struct fixture *f, const struct node_match *match, unsigned times,
                const struct node_action *action)
{
    struct node_match m = *match;
    m.times = times;
    (void)node_say(f->rig.nodes, NODE_ANY, &m, action);
}

static struct node_action rows(const char *columns, const struct cql_values *v)
{
    return (struct node_action){ .act = NODE_ROWS, .columns = columns, .rows = v };
}

static void change_told(struct store_call *c)
{
    struct fixture *f = CONTAINER_OF(c, struct fixture, change.call);
    assert_int_equal(pthread_mutex_lock(&f->rig.lock), 0);
    f->over = true;
    assert_int_equal(pthread_cond_broadcast(&f->rig.turned), 0);
    assert_int_equal(pthread_mutex_unlock(&f->rig.lock), 0);
}

static err change_run(struct fixture *f, int64_t ms)
{
    static const struct catalog_id none;
    const struct catalog_put p = { .key = STR("k"), .value = STR("v") };
    f->over = false;
    f->change =
        (struct catalog_change){ .call = { .home = home_here(),
                                           .done = change_told,
                                           .deadline = mono_add_ms(clock_mono(f->rig.clock), ms) },
                                 .scope = STR("s"),
                                 .if_generation = &none,
                                 .puts = &p,
                                 .puts_count = 1 };
    assert_int_equal(catalog_change(f->catalog, &f->change), STORE_LATER);
    assert_int_equal(pthread_mutex_lock(&f->rig.lock), 0);
    while (!f->over)
        assert_int_equal(pthread_cond_wait(&f->rig.turned, &f->rig.lock), 0);
    assert_int_equal(pthread_mutex_unlock(&f->rig.lock), 0);
    return f->change.call.why;
}

static void a_lost_answer_is_looked_for_and_found(void **state)
{
    (void)state;
    struct fixture f;
    struct node_request got;
    setup(&f);
    struct node_action there = rows("ver blob", &f.note);
    say(&f, &batches, 1, &cut);
    say(&f, &looks, 1, &there);
    assert_int_equal(change_run(&f, 20000), ERR_OK);
    assert_false(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &batches, 0, &got));
    assert_int_equal(got.statements, 3); /* generation, note, cell */
    assert_int_equal(got.serial, CQL_SERIAL);
    assert_int_equal(got.consistency, CQL_EACH_QUORUM);
    assert_int_equal(got.timestamp_us, CQL_NO_TIMESTAMP);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &looks, 0, &got));
    assert_int_equal(got.consistency, CQL_SERIAL);
    assert_memory_equal(node_value(&got, 1).p, f.change.id.bytes, CATALOG_ID_BYTES);
    teardown(&f);
}

static void what_did_not_happen_is_sent_again_as_the_same_change(void **state)
{
    (void)state;
    struct fixture f;
    struct node_request first, second;
    setup(&f);
    struct node_action yes = rows("[applied] boolean", &f.applied);
    say(&f, &batches, 1, &cut);
    say(&f, &batches, 1, &yes); /* no look finds a note */
    assert_int_equal(change_run(&f, 20000), ERR_OK);
    assert_false(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 2);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &batches, 0, &first));
    assert_true(node_request(f.rig.nodes, NODE_ANY, &batches, 1, &second));
    assert_true(str_eq(first.values, second.values));
    teardown(&f);
}

/* Sent again it is refused, since the first try had happened after the look. */
static void a_refusal_by_its_own_first_try_is_no_conflict(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct node_action no = rows("[applied] boolean", &f.refused);
    struct node_action there = rows("ver blob", &f.note);
    struct node_match late = looks;
    late.skip = 1;
    say(&f, &batches, 1, &cut);
    say(&f, &batches, 1, &no);
    say(&f, &late, 1, &there);
    assert_int_equal(change_run(&f, 20000), ERR_OK);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &looks), 2);
    teardown(&f);
}

static void a_refusal_without_a_note_is_a_conflict(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct node_action no = rows("[applied] boolean", &f.refused);
    say(&f, &batches, 1, &no);
    assert_int_equal(change_run(&f, 20000), ERR_CONFLICT);
    assert_false(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    teardown(&f);
}

static void who_cannot_look_says_that_it_is_unknown(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    const struct node_action timeout = {
        .act = NODE_ERROR,
        .error = { .code = CQL_READ_TIMEOUT, .message = STR("no"), .consistency = CQL_SERIAL }
    };
    say(&f, &batches, 1, &cut);
    say(&f, &looks, 0, &timeout);
    assert_int_not_equal(change_run(&f, 3000), ERR_OK);
    assert_true(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    teardown(&f);
}

/* A condition that was never judged: a plain error, after which nothing can happen. */
static void an_error_that_is_sure_ends_it(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    const struct node_action invalid = { .act = NODE_ERROR,
                                         .error = { .code = CQL_INVALID, .message = STR("no") } };
    say(&f, &batches, 1, &invalid);
    assert_int_equal(change_run(&f, 20000), ERR_BAD);
    assert_false(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &looks), 0);
    teardown(&f);
}

static void another_table_is_no_conflict(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    node_statement(f.rig.nodes,
                   &(struct node_statement){
                       .text = "UPDATE ks.decide SET gen = ? WHERE scope = ? IF gen = ?",
                       .markers = "gen bigint, scope text, gen bigint" });
    assert_int_equal(change_run(&f, 20000), ERR_CORRUPT);
    assert_false(f.change.unknown);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_answer_is_looked_for_and_found),
        cmocka_unit_test(what_did_not_happen_is_sent_again_as_the_same_change),
        cmocka_unit_test(a_refusal_by_its_own_first_try_is_no_conflict),
        cmocka_unit_test(a_refusal_without_a_note_is_a_conflict),
        cmocka_unit_test(who_cannot_look_says_that_it_is_unknown),
        cmocka_unit_test(an_error_that_is_sure_ends_it),
        cmocka_unit_test(another_table_is_no_conflict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
