/* Goal: our requests and values are the bytes that another client sends. Method: golden.txt, made
 * by oracle.py; each line of it is met, and nothing is said that it does not know. */
#include "cql/wire.h"
#include "golden.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const char *golden_path;

static const char text[] = "SELECT v FROM ks.t WHERE k = ?";
static const char id_bytes[32] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 };
static const str id = { .p = id_bytes, .n = 16 };
static const str columns_id = { .p = id_bytes + 16, .n = 16 };

/* What a request has of these, in letters: v values, p page, q 7 rows of a page, g page
 * state, l LOCAL_SERIAL, r SERIAL, t timestamp, k keyspace, 1 ONE. */
static struct cql_params params_of(const char *with)
{
    struct cql_params p = { .consistency = CQL_LOCAL_QUORUM,
                            .timestamp_us = CQL_NO_TIMESTAMP,
                            .now_s = CQL_NO_NOW };
    if (strchr(with, '1') != NULL)
        p.consistency = CQL_ONE;
    if (strchr(with, 'p') != NULL)
        p.page_rows = 5000;
    if (strchr(with, 'q') != NULL)
        p.page_rows = 7;
    if (strchr(with, 'g') != NULL)
        p.page_state = STR("\0\1state");
    if (strchr(with, 'l') != NULL)
        p.serial = CQL_LOCAL_SERIAL;
    if (strchr(with, 'r') != NULL)
        p.serial = CQL_SERIAL;
    if (strchr(with, 't') != NULL)
        p.timestamp_us = 1700000000123456;
    if (strchr(with, 'k') != NULL)
        p.keyspace = STR("ks");
    return p;
}

static void values_fill(struct cql_values *v)
{
    cql_values_init(v, 1024);
    cql_put_bytes(v, STR("key"));
    cql_put_null(v);
    cql_put_unset(v);
    cql_put_bytes(v, STR(""));
}

static void put_query(struct buf *out, unsigned version, const char *with)
{
    struct cql_params p = params_of(with);
    if (strchr(with, 'h') != NULL)
        p.page_rows = 100;
    cql_body_query(out, version, str_of(text), NULL, &p);
}

static void put_execute(struct buf *out, unsigned version, const char *with)
{
    struct cql_params p = params_of(with);
    struct cql_values v;
    values_fill(&v);
    cql_body_execute(out, version, id, columns_id, strchr(with, 'v') != NULL ? &v : NULL, &p);
    cql_values_fini(&v);
}

/* One statement with values: L logged, U unlogged; C: counters, without values. */
static void put_batch(struct buf *out, unsigned version, const char *with)
{
    struct cql_params p = params_of(with);
    struct cql_values v;
    values_fill(&v);
    cql_batch_begin(out,
                    strchr(with, 'C') != NULL   ? CQL_COUNTERS
                    : strchr(with, 'U') != NULL ? CQL_UNLOGGED
                                                : CQL_LOGGED,
                    1);
    cql_batch_prepared(out, id, strchr(with, 'C') != NULL ? NULL : &v);
    cql_batch_end(out, version, &p);
    cql_values_fini(&v);
}

static void put_batch_empty(struct buf *out, unsigned version, const char *with)
{
    struct cql_params p = params_of(with);
    cql_batch_begin(out, CQL_LOGGED, 0);
    cql_batch_end(out, version, &p);
}

static void put_batch_of_three(struct buf *out, unsigned version, const char *with)
{
    struct cql_params p = params_of(with);
    struct cql_values v;
    values_fill(&v);
    cql_batch_begin(out, CQL_UNLOGGED, 3);
    cql_batch_prepared(out, id, &v);
    cql_values_clear(&v);
    cql_put_bytes(&v, STR("k"));
    cql_batch_text(out, str_of(text), &v);
    cql_values_clear(&v);
    cql_batch_text(out, str_of(text), &v);
    cql_batch_end(out, version, &p);
    cql_values_fini(&v);
}

static void put_prepare(struct buf *out, unsigned version, const char *with)
{
    cql_body_prepare(out, version, str_of(text), params_of(with).keyspace);
}

static void put_options(struct buf *out, unsigned version, const char *with)
{
    (void)out;
    (void)version;
    (void)with;
}

static void put_startup(struct buf *out, unsigned version, const char *with)
{
    static const struct cql_pair options[] = {
        { STR_INIT("COMPRESSION"), STR_INIT("lz4") },
        { STR_INIT("DRIVER_NAME"), STR_INIT("x") },
        { STR_INIT("CQL_VERSION"), STR_INIT("3.0.0") },
    };
    (void)version;
    (void)with;
    cql_body_startup(out, options, COUNT_OF(options));
}

static void put_register(struct buf *out, unsigned version, const char *with)
{
    static const str events[] = { STR_INIT("TOPOLOGY_CHANGE"), STR_INIT("STATUS_CHANGE"),
                                  STR_INIT("SCHEMA_CHANGE") };
    (void)version;
    (void)with;
    cql_body_register(out, events, COUNT_OF(events));
}

static void put_auth(struct buf *out, unsigned version, const char *with)
{
    (void)version;
    (void)with;
    cql_body_auth_plain(out, STR("user"), STR("secret"));
}

static const struct request {
    const char *name;
    enum cql_opcode op;
    void (*put)(struct buf *out, unsigned version, const char *with);
    const char *with;
    unsigned since;
} requests[] = {
    { "options", CQL_OP_OPTIONS, put_options, "", 4 },
    { "startup", CQL_OP_STARTUP, put_startup, "", 4 },
    { "register", CQL_OP_REGISTER, put_register, "", 4 },
    { "auth", CQL_OP_AUTH_RESPONSE, put_auth, "", 4 },
    { "prepare", CQL_OP_PREPARE, put_prepare, "", 4 },
    { "query", CQL_OP_QUERY, put_query, "", 4 },
    { "query_one", CQL_OP_QUERY, put_query, "1", 4 },
    { "query_page", CQL_OP_QUERY, put_query, "p", 4 },
    { "query_state", CQL_OP_QUERY, put_query, "gh", 4 },
    { "query_serial", CQL_OP_QUERY, put_query, "l", 4 },
    { "query_timestamp", CQL_OP_QUERY, put_query, "t", 4 },
    { "query_all", CQL_OP_QUERY, put_query, "qgrt", 4 },
    { "execute", CQL_OP_EXECUTE, put_execute, "", 4 },
    { "execute_values", CQL_OP_EXECUTE, put_execute, "v", 4 },
    { "execute_page", CQL_OP_EXECUTE, put_execute, "vp", 4 },
    { "execute_timestamp", CQL_OP_EXECUTE, put_execute, "vt", 4 },
    { "execute_all", CQL_OP_EXECUTE, put_execute, "vqglt", 4 },
    { "batch_empty", CQL_OP_BATCH, put_batch_empty, "", 4 },
    { "batch", CQL_OP_BATCH, put_batch_of_three, "", 4 },
    { "batch_counter", CQL_OP_BATCH, put_batch, "C", 4 },
    { "batch_timestamp", CQL_OP_BATCH, put_batch, "Ut", 4 },
    { "batch_all", CQL_OP_BATCH, put_batch, "rt", 4 },
    { "prepare_keyspace", CQL_OP_PREPARE, put_prepare, "k", 5 },
    { "query_keyspace", CQL_OP_QUERY, put_query, "k", 5 },
    { "query_keyspace_all", CQL_OP_QUERY, put_query, "qgrtk", 5 },
    { "batch_keyspace", CQL_OP_BATCH, put_batch, "rtk", 5 },
};

static void assert_bytes(const struct golden_line *line, str got)
{
    if (str_eq(line->bytes, got))
        return;
    for (size_t i = 0; i < got.n; i++)
        fprintf(stderr, "%02x", (unsigned char)got.p[i]);
    fail_msg("is %.*s", STR_ARG(line->name));
}

static void assert_all_met(const struct golden *g, const char *kind)
{
    for (unsigned i = 0; i < g->count; i++)
        if (str_eq(g->at[i].kind, str_of(kind)) && !g->at[i].met)
            fail_msg("%.*s is not made here", STR_ARG(g->at[i].name));
}

static void requests_are_those_of_another_client(void **state)
{
    (void)state;
    struct golden g;
    golden_read(&g, golden_path);
    for (unsigned version = CQL_VERSION_MIN; version <= CQL_VERSION_MAX; version++)
        for (size_t i = 0; i < COUNT_OF(requests); i++) {
            if (version < requests[i].since)
                continue;
            char name[64];
            (void)snprintf(name, sizeof name, "%s_v%u", requests[i].name, version);
            struct golden_line *line = golden_find(&g, "request", name);
            struct buf out;
            buf_init(&out, 4096);
            buf_put(&out, STR("before"));
            size_t begun = cql_wire_begin(&out, version, 0, 258, requests[i].op);
            requests[i].put(&out, version, requests[i].with);
            cql_wire_end(&out, begun);
            assert_int_equal(buf_status(&out), ERR_OK);
            assert_bytes(line, str_skip(buf_str(&out), 6));
            line->met = true;
            buf_fini(&out);
        }
    assert_all_met(&g, "request");
    golden_fini(&g);
}

/* ---- values ---- */

static void put_ints(struct cql_values *v, unsigned count)
{
    struct cql_open open = cql_put_open(v, true);
    for (unsigned i = 1; i <= count; i++)
        cql_put_i32(v, (int32_t)i);
    cql_put_close(v, open, false);
}

static void put_map(struct cql_values *v)
{
    struct cql_open open = cql_put_open(v, true);
    cql_put_bytes(v, STR("k"));
    cql_put_i64(v, 1);
    cql_put_bytes(v, STR("l"));
    cql_put_i64(v, -1);
    cql_put_close(v, open, true);
}

static void put_nested(struct cql_values *v)
{
    struct cql_open map = cql_put_open(v, true);
    cql_put_bytes(v, STR("k"));
    struct cql_open list = cql_put_open(v, true);
    put_ints(v, 1);
    put_ints(v, 0);
    cql_put_close(v, list, false);
    cql_put_bytes(v, STR("l"));
    put_ints(v, 0);
    cql_put_close(v, map, true);
}

static void put_pair(struct cql_values *v, int32_t n, str s)
{
    struct cql_open open = cql_put_open(v, false);
    cql_put_i32(v, n);
    cql_put_bytes(v, s);
    cql_put_close(v, open, false);
}

static void put_tuples(struct cql_values *v, bool list)
{
    struct cql_open open = cql_put_open(v, list);
    if (list) {
        put_pair(v, 1, STR("a"));
        put_pair(v, 2, STR("b"));
    } else {
        cql_put_i32(v, 7);
        cql_put_null(v);
        cql_put_i64(v, 9);
    }
    cql_put_close(v, open, false);
}

static void put_set(struct cql_values *v)
{
    struct cql_open open = cql_put_open(v, true);
    cql_put_bytes(v, STR("b"));
    cql_put_close(v, open, false);
}

/* In the order of their lines. */
static void put_all(struct cql_values *v)
{
    static const unsigned char uuid[CQL_UUID_BYTES] = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55,
                                                        0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
                                                        0xcc, 0xdd, 0xee, 0xff };
    struct tid tid;
    assert_true(tid_parse(STR("13814000-1dd2-11b2-8001-020304050607"), &tid));
    cql_put_i64(v, 0x0102030405060708);
    cql_put_i64(v, INT64_MIN);
    cql_put_i64(v, -1);
    cql_put_i32(v, -2);
    cql_put_i32(v, INT32_MAX);
    cql_put_i16(v, -300);
    cql_put_i8(v, -128);
    cql_put_bool(v, true);
    cql_put_bool(v, false);
    cql_put_double(v, -0.1);
    cql_put_i64(v, -62135596800000);
    cql_put_i64(v, 86399999999999);
    cql_put_date(v, -719162);
    cql_put_date(v, 0);
    cql_put_uuid(v, uuid);
    cql_put_tid(v, tid);
    cql_put_bytes(v, STR("a\xc3\xa9\xf0\x9f\x98\x80"));
    cql_put_bytes(v, STR(""));
    cql_put_bytes(v, STR("plain"));
    cql_put_bytes(v, STR("\0\xff\x80"));
    put_ints(v, 3);
    put_ints(v, 0);
    put_set(v);
    put_map(v);
    put_nested(v);
    put_tuples(v, false);
    put_tuples(v, true);
}

static void values_are_those_of_another_client(void **state)
{
    (void)state;
    struct golden g;
    golden_read(&g, golden_path);
    struct cql_values v;
    cql_values_init(&v, 1 << 20);
    put_all(&v);
    assert_int_equal(cql_values_status(&v), ERR_OK);
    unsigned index = 0;
    for (unsigned i = 0; i < g.count; i++)
        if (str_eq(g.at[i].kind, STR("value"))) {
            assert_true(index < v.count);
            assert_bytes(&g.at[i], cql_value_at(&v, index++));
        }
    assert_int_equal(index, v.count);
    cql_values_fini(&v);
    golden_fini(&g);
}

int main(int argc, char **argv)
{
    (void)argc;
    golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_those_of_another_client),
        cmocka_unit_test(values_are_those_of_another_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
