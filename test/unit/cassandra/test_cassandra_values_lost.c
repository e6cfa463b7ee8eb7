/* Goal: a put of a value whose answer was lost knows whether it happened, and happens once.
 * Method: a fake cluster that loses answers (test/unit/cql/node.h). The clock stands still, so the
 * mark of the write is known beforehand. */
#include "../cql/rig.h"

#include "../cmocka_all.h"
#include "base/buf.h"
#include "cassandra/values.h"
#include "loop/entropy.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SRV = 7, MARK_BYTES = 8, MARKS_MAX = 64 };
#define NOW ((int64_t)1700000000 * NS_PER_S)
#define ROWS                                                                                       \
    "ver blob, rev bigint, tid blob, id blob, own bigint, expires bigint, written bigint, "        \
    "size bigint, sum bigint"
#define CELL "kind tinyint, key blob, ver blob, value blob, gen blob"

static const struct node_match batches = { .ops = BIT(CQL_OP_BATCH) };
static const struct node_match loads = { .ops = BIT(CQL_OP_EXECUTE), .text = "ks.value WHERE" };
static const struct node_match looks = { .ops = BIT(CQL_OP_EXECUTE), .text = "ks.decide" };
static const struct node_action cut = { .fault = NODE_CUT_BEFORE };

struct fixture {
    struct rig rig;
    struct clock clock;
    struct catalog *catalog;
    struct values *values;
    struct table_update update;
    struct arena arena;
    struct cql_values applied, refused, bucket, version;
    char mark[MARK_BYTES];
    bool over;
};
static struct fixture *at; /* of the test that runs, for its clock */

static store_time time_now(struct clock *c)
{
    (void)c;
    return (store_time){ .ns = NOW };
}

static mono time_mono(struct clock *c)
{
    (void)c;
    return clock_mono(at->rig.clock);
}

static wall time_wall(struct clock *c)
{
    (void)c;
    return (wall){ .ns = NOW };
}

static bool domain_name(void *ctx, uint32_t number, str *name)
{
    (void)ctx;
    *name = STR("d");
    return number == 1;
}

static void values_make(struct rig *r, void *ctx)
{
    struct fixture *f = ctx;
    f->catalog = catalog_new(&(struct catalog_opts){ .client = r->client,
                                                     .loop = r->loop,
                                                     .clock = r->clock,
                                                     .keyspace = "ks",
                                                     .entropy = entropy_bytes },
                             NULL);
    f->values = values_new(&(struct values_opts){ .client = r->client,
                                                  .catalog = f->catalog,
                                                  .loop = r->loop,
                                                  .clock = &f->clock,
                                                  .keyspace = "ks",
                                                  .srv = SRV,
                                                  .domain = domain_name },
                           NULL);
}

#define KEY "bucket = ? AND domain = ? AND made = ? AND key = ?"
#define M_KEY "bucket text, domain text, made blob, key blob"

static void tables_tell(struct fixture *f)
{
    static const struct node_statement s[] = {
        { .text = "SELECT kind, key, ver, value, gen FROM ks.decide WHERE scope = ? AND kind = 0 "
                  "AND key = ?",
          .markers = "scope text, key blob",
          .columns = CELL },
        { .text = "SELECT ver, rev, tid, id, own, expires, written, size, sum FROM ks.value "
                  "WHERE " KEY,
          .markers = M_KEY,
          .columns = ROWS },
        { .text = "UPDATE ks.value USING TTL ? SET ver = ? WHERE " KEY " IF ver = ?",
          .markers = "ttl int, ver blob, " M_KEY ", ver blob" },
        { .text = "INSERT INTO ks.value (bucket, domain, made, key, rev, tid, id, own, expires, "
                  "written, size, sum, head, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                  "?, ?) USING TTL ?",
          .markers = M_KEY ", rev bigint, tid blob, id blob, own bigint, expires bigint, written "
                           "bigint, size bigint, sum bigint, head blob, bytes blob, ttl int" },
        { .text = "INSERT INTO ks.value_key (bucket, domain, made, shard, key) VALUES "
                  "(?, ?, ?, ?, ?)",
          .markers = "bucket text, domain text, made blob, shard tinyint, key blob" },
    };
    for (unsigned i = 0; i < COUNT_OF(s); i++)
        node_statement(f->rig.nodes, &s[i]);
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

/* The cell of a bucket without options. */
static void bucket_tell(struct fixture *f)
{
    char cell[16 + 1 + 8 + 8 + 1 + 3 * 8] = { 0 };
    cell[16 + 1 + 7] = 1; /* the version */
    cql_put_i8(&f->bucket, 0);
    cql_put_bytes(&f->bucket, STR("d/.key_value.b"));
    cql_put_bytes(&f->bucket, STR("0123456789abcdef"));
    cql_put_bytes(&f->bucket, (str){ .p = cell, .n = sizeof cell });
    cql_put_bytes(&f->bucket, STR("0123456789abcdef"));
    const struct node_action there = rows(CELL, &f->bucket);
    say(f, &looks, 1, &there);
}

static void setup(struct fixture *f)
{
    static const struct rig_opts o = { .nodes = { .nodes = 1 },
                                       .client = { .retry_min_ms = 10, .retry_max_ms = 20 } };
    unsigned char id[16];
    memset(f, 0, sizeof *f);
    at = f;
    f->clock =
        (struct clock){ .store_now = time_now, .mono_now = time_mono, .wall_now = time_wall };
    rig_start(&f->rig, &o);
    tables_tell(f);
    rig_on_loop(&f->rig, values_make, f);
    assert_non_null(f->values);
    arena_init(&f->arena, 1 << 20);
    cql_values_init(&f->applied, 64);
    cql_values_init(&f->refused, 64);
    cql_values_init(&f->bucket, 512);
    cql_values_init(&f->version, 2048);
    cql_put_bool(&f->applied, true);
    cql_put_bool(&f->refused, false);
    put_be64(id, (uint64_t)NOW);
    put_be32(id + 8, SRV);
    put_be32(id + 12, 0); /* the first */
    put_be64(f->mark, XXH3_64bits(id, sizeof id));
    bucket_tell(f);
}

static void teardown(struct fixture *f)
{
    rig_end(&f->rig);
    values_free(&f->values);
    catalog_free(&f->catalog);
    arena_fini(&f->arena);
    cql_values_fini(&f->applied);
    cql_values_fini(&f->refused);
    cql_values_fini(&f->bucket);
    cql_values_fini(&f->version);
}

/* What the second load finds: these marks, and no row. */
static void version_tell(struct fixture *f, str marks)
{
    struct node_match second = loads;
    second.skip = 1;
    cql_put_bytes(&f->version, marks);
    for (unsigned i = 0; i < 8; i++)
        cql_put_null(&f->version);
    const struct node_action there = rows(ROWS, &f->version);
    say(f, &second, 1, &there);
}

static void update_told(struct store_call *c)
{
    struct fixture *f = CONTAINER_OF(c, struct fixture, update.call);
    assert_int_equal(pthread_mutex_lock(&f->rig.lock), 0);
    f->over = true;
    assert_int_equal(pthread_cond_broadcast(&f->rig.turned), 0);
    assert_int_equal(pthread_mutex_unlock(&f->rig.lock), 0);
}

static err put_run(struct fixture *f)
{
    const struct table_attr attrs[] = { { STR("key"), STR("k") }, { STR("value"), STR("v") } };
    const struct table_write w = { .table = STR(".key_value.b"),
                                   .attrs = attrs,
                                   .attrs_count = COUNT_OF(attrs) };
    f->over = false;
    f->update = (struct table_update){ .call = { .home = home_here(), .done = update_told },
                                       .domain = 1,
                                       .writes = &w,
                                       .writes_count = 1,
                                       .arena = &f->arena };
    assert_int_equal(table_store_update(values_store(f->values), &f->update), STORE_LATER);
    assert_int_equal(pthread_mutex_lock(&f->rig.lock), 0);
    while (!f->over)
        assert_int_equal(pthread_cond_wait(&f->rig.turned, &f->rig.lock), 0);
    assert_int_equal(pthread_mutex_unlock(&f->rig.lock), 0);
    if (f->update.call.why != ERR_OK)
        print_message("%s: %s\n", err_name(f->update.call.why), f->update.note.text);
    return f->update.call.why;
}

static void a_write_whose_answer_was_lost_is_found(void **state)
{
    (void)state;
    struct fixture f;
    struct node_request got;
    setup(&f);
    say(&f, &batches, 1, &cut);
    version_tell(&f, (str){ .p = f.mark, .n = sizeof f.mark });
    assert_int_equal(put_run(&f), ERR_OK);
    assert_true(f.update.applied);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &batches, 0, &got));
    assert_int_equal(got.serial, CQL_SERIAL);
    assert_int_equal(got.consistency, CQL_EACH_QUORUM);
    assert_int_equal(got.timestamp_us, CQL_NO_TIMESTAMP);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &loads, 0, &got));
    assert_int_equal(got.consistency, CQL_QUORUM);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &loads, 1, &got));
    assert_int_equal(got.consistency, CQL_SERIAL);
    teardown(&f);
}

static void what_did_not_happen_is_written_again(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    const struct node_action yes = rows("[applied] boolean", &f.applied);
    say(&f, &batches, 1, &cut);
    say(&f, &batches, 1, &yes);
    version_tell(&f, STR("another.")); /* somebody else's, and the first of the key */
    assert_int_equal(put_run(&f), ERR_OK);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 2);
    teardown(&f);
}

/* Another server has ended what was cut off, and the node says no. */
static void a_refusal_of_what_happened_is_none(void **state)
{
    (void)state;
    struct fixture f;
    char marks[2 * MARK_BYTES];
    setup(&f);
    const struct node_action no = rows("[applied] boolean", &f.refused);
    say(&f, &batches, 1, &no);
    memcpy(marks, "another.", MARK_BYTES); /* has written it since */
    memcpy(marks + MARK_BYTES, f.mark, MARK_BYTES);
    version_tell(&f, (str){ .p = marks, .n = sizeof marks });
    assert_int_equal(put_run(&f), ERR_OK);
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    teardown(&f);
}

static void who_cannot_know_says_so(void **state)
{
    (void)state;
    struct fixture f;
    char marks[MARKS_MAX * MARK_BYTES];
    setup(&f);
    say(&f, &batches, 1, &cut);
    memset(marks, 'x', sizeof marks);
    version_tell(&f, (str){ .p = marks, .n = sizeof marks });
    assert_int_equal(put_run(&f), ERR_TIMEOUT);
    assert_non_null(strstr(f.update.note.text, "not known"));
    assert_int_equal(node_requests(f.rig.nodes, NODE_ANY, &batches), 1);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_whose_answer_was_lost_is_found),
        cmocka_unit_test(what_did_not_happen_is_written_again),
        cmocka_unit_test(a_refusal_of_what_happened_is_none),
        cmocka_unit_test(who_cannot_know_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
