/* Goal: what is not in memory never makes a caller wait that said it cannot, and is read right by
 * one that can. Method: the linker puts our engine_blob_read_now before the engine's; while cold is
 * set it answers ERR_AGAIN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/wait.h"
#include "table/table.h"
#include "tabletest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool cold;
static atomic_uint refused;
static struct tabletest *t;

err __real_engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset,
                                uint64_t n, char *dst);
err __wrap_engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset,
                                uint64_t n, char *dst);

err __wrap_engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset,
                                uint64_t n, char *dst)
{
    if (!atomic_load(&cold))
        return __real_engine_blob_read_now(e, b, offset, n, dst);
    atomic_fetch_add(&refused, 1);
    return ERR_AGAIN;
}

static const char *large_value(void)
{
    static char text[3001];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)('a' + i % 23);
    return text;
}

static int up(void **state)
{
    (void)state;
    char json[4096];
    t = calloc(1, sizeof *t);
    tabletest_up(t);
    atomic_store(&cold, false);
    atomic_store(&refused, 0);
    must_create(
        t, "l",
        "{'attributes':{'k':'string','r':'int','n':'int','v':'string','s':'string'},'index':["
        "{'attribute':'k','type':'hash'},{'attribute':'r','type':'range'},"
        "{'attribute':'s','type':'static'}]}");
    (void)snprintf(json, sizeof json, "{'attributes':{'k':'x','r':1,'n':1,'v':'%s'}}",
                   large_value());
    must_put(t, "l", json);
    atomic_store(&cold, true);
    return 0;
}

static int down(void **state)
{
    (void)state;
    tabletest_down(t);
    free(t);
    return 0;
}

/* A pool that works when the test says so. */
struct pool {
    struct home home;
    struct task_list tasks;
    unsigned posted;
};

static void pool_post(struct home *h, struct task *task)
{
    struct pool *p = CONTAINER_OF(h, struct pool, home);
    p->posted++;
    (void)task_list_put(&p->tasks, task);
}

static void pool_work(struct pool *p)
{
    for (struct task *task; (task = task_list_take(&p->tasks)) != NULL;)
        task->run(task);
}

static atomic_uint dones;

static void count_done(struct store_call *c)
{
    assert_int_equal(c->why, ERR_OK);
    atomic_fetch_add(&dones, 1);
}

static err last_why;

static void keep_why(struct store_call *c)
{
    last_why = c->why;
}

static void what_is_cold_is_read_on_the_pool(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    arena_init(&a, 1 << 20);
    tables_read_on(t->tables, &pool.home);
    atomic_store(&dones, 0);
    struct table_query q = { .call = { .home = home_here(), .done = count_done },
                             .domain = 1,
                             .table = STR("l"),
                             .query = STR("{\"proj\":[\"k\",\"r\"]}"),
                             .arena = &a };
    assert_int_equal(table_store_query(t->store, &q), STORE_DONE); /* keys are never cold */
    assert_int_equal(q.call.why, ERR_OK);
    assert_int_equal(atomic_load(&dones), 0);
    q.query = STR("{}");
    assert_int_equal(table_store_query(t->store, &q), STORE_LATER);
    assert_int_equal(atomic_load(&dones), 0);
    pool_work(&pool);
    assert_int_equal(atomic_load(&dones), 1);
    assert_int_equal(q.rows, 1);
    assert_true(str_find_str(q.json, str_of(large_value())) < q.json.n);
    tables_read_on(t->tables, home_here());
    arena_fini(&a);
}

static void rows_that_are_cold_come_once(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    arena_init(&a, 1 << 20);
    must_put(t, "l", "{'attributes':{'k':'a','r':1,'n':1,'v':'short'}}");
    tables_read_on(t->tables, &pool.home);
    atomic_store(&dones, 0);
    struct table_rows r = { .call = { .home = home_here(), .done = count_done },
                            .domain = 1,
                            .get = { .table = STR("l") },
                            .arena = &a };
    assert_int_equal(table_store_rows(t->store, &r), STORE_LATER);
    pool_work(&pool);
    assert_int_equal(atomic_load(&dones), 1);
    assert_int_equal(r.rows_count, 2);
    assert_true(str_eq(table_row_value(&r.rows[0], STR("v")), STR("short")) ||
                str_eq(table_row_value(&r.rows[1], STR("v")), STR("short")));
    assert_int_equal(r.next.n, 0);
    tables_read_on(t->tables, home_here());
    arena_fini(&a);
}

static bool cancel_call(void *ctx, const struct table_row *row)
{
    (void)row;
    store_cancel(ctx);
    return true;
}

static void a_read_that_is_canceled_ends(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    struct err_note note;
    str next;
    arena_init(&a, 1 << 20);
    must_put(t, "l", "{'attributes':{'k':'a','r':1,'n':1,'v':'short'}}");
    tables_read_on(t->tables, &pool.home);
    struct table_rows r = { .call = { .home = home_here(), .done = keep_why },
                            .domain = 1,
                            .get = { .table = STR("l") },
                            .arena = &a };
    assert_int_equal(table_store_rows(t->store, &r), STORE_LATER);
    store_cancel(&r.call); /* before it has begun, */
    pool_work(&pool);
    assert_int_equal(last_why, ERR_TIMEOUT);
    r.call.canceled = false;
    struct table_reader reader = { .tables = t->tables,
                                   .view = engine_view_begin(t->scratch.engine),
                                   .call = &r.call,
                                   .arena = &a,
                                   .each = cancel_call,
                                   .ctx = &r.call,
                                   .note = &note };
    assert_int_equal(tables_get(&reader, 1, &r.get, &next), ERR_TIMEOUT); /* and behind a row */
    engine_view_end(&reader.view);
    tables_read_on(t->tables, home_here());
    arena_fini(&a);
}

static void a_long_query_is_read_on_the_pool(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    arena_init(&a, 1 << 20);
    tables_read_on(t->tables, &pool.home);
    atomic_store(&dones, 0);
    char *text = arena_alloc(&a, TABLE_NOW_JSON_BYTES + 1);
    assert_non_null(text);
    memset(text, ' ', TABLE_NOW_JSON_BYTES + 1);
    memcpy(text, "{}", 2);
    struct table_query q = { .call = { .home = home_here(), .done = count_done },
                             .domain = 1,
                             .table = STR("l"),
                             .query = { .p = text, .n = TABLE_NOW_JSON_BYTES + 1 },
                             .arena = &a };
    atomic_store(&cold, false);
    assert_int_equal(table_store_query(t->store, &q), STORE_LATER);
    pool_work(&pool);
    assert_int_equal(atomic_load(&dones), 1);
    assert_int_equal(q.rows, 1);
    tables_read_on(t->tables, home_here());
    arena_fini(&a);
}

static void a_put_into_a_cold_row_keeps_its_rest(void **state)
{
    (void)state;
    char want[4096];
    must_put(t, "l", "{'attributes':{'k':'x','r':1,'n':2}}");
    assert_true(atomic_load(&refused) > 0);
    (void)snprintf(want, sizeof want, "[{'n':2,'v':'%s'}]", large_value());
    must_get(t, "l", "{'proj':['n','v']}", want);
}

static void a_put_of_all_attributes_reads_nothing(void **state)
{
    (void)state;
    must_put(t, "l", "{'attributes':{'k':'x','r':1,'n':2,'v':null}}");
    assert_int_equal(atomic_load(&refused), 0);
    must_get(t, "l", "{'proj':['n','v']}", "[{'n':2,'v':null}]");
}

static void conditions_on_cold_rows_hold(void **state)
{
    (void)state;
    char json[8192];
    must_put(t, "l", "{'attributes':{'k':'x','r':1,'n':2,'v':'s'},'if':{'v':{'eq':'other'}}}");
    assert_false(t->applied);
    assert_true(atomic_load(&refused) > 0);
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'k':'x','r':1,'n':2,'v':'s'},'if':{'v':{'eq':'%s'}}}",
                   large_value());
    must_put(t, "l", json);
    assert_true(t->applied);
}

static bool sees_large(void *ctx, const struct table_row *stored)
{
    *(bool *)ctx =
        stored != NULL && str_eq(table_row_value(stored, STR("v")), str_of(large_value()));
    return true;
}

static bool sees_key(void *ctx, const struct table_row *stored)
{
    *(bool *)ctx = stored != NULL && table_row_value(stored, STR("r")).p != NULL &&
                   table_row_value(stored, STR("v")).p == NULL;
    return false;
}

static void a_judge_of_a_delete_sees_a_cold_row(void **state)
{
    (void)state;
    bool seen = false;
    t->allow = sees_key;
    t->allow_ctx = &seen;
    t->allow_by_key = true;
    must_delete(t, "l", "{'attributes':{'k':'x'}}");
    assert_true(seen);
    assert_int_equal(atomic_load(&refused), 0); /* a key is never cold */
    t->allow = sees_large;
    t->allow_by_key = false;
    must_delete(t, "l", "{'attributes':{'k':'x'}}");
    assert_true(seen);
    assert_true(atomic_load(&refused) > 0);
    must_get(t, "l", "{}", "[]");
}

static void cold_static_rows_are_merged(void **state)
{
    (void)state;
    char json[8192], want[8192];
    (void)snprintf(json, sizeof json, "{'attributes':{'k':'x','r':2,'n':2,'v':null,'s':'%s'}}",
                   large_value());
    must_put(t, "l", json);
    must_put(t, "l", "{'attributes':{'k':'x','r':3,'n':3,'v':null}}");
    (void)snprintf(want, sizeof want, "[{'n':3,'s':'%s'}]", large_value());
    must_get(t, "l", "{'attributes':{'k':'x','r':3},'proj':['n','s']}", want);
    must_put(t, "l", "{'attributes':{'k':'x','r':3,'s':'new'}}");
    must_get(t, "l", "{'attributes':{'k':'x','r':3},'proj':['n','s']}", "[{'n':3,'s':'new'}]");
}

/* Table big, whose schema is too long to lie beside its key. */
static void create_big(void)
{
    static char json[8192];
    size_t n = (size_t)snprintf(json, sizeof json, "{'attributes':{'k':'string'");
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(json + n, sizeof json - n, ",'a%d':'set<timestamp>'", i);
    (void)snprintf(json + n, sizeof json - n, "},'index':[{'attribute':'k','type':'hash'}]}");
    must_create(t, "big", json);
}

static void a_large_schema_is_read_when_cold(void **state)
{
    (void)state;
    create_big();
    must_put(t, "big", "{'attributes':{'k':'x','a99':['2014-11-14T19:10:40.912Z']}}");
    assert_true(atomic_load(&refused) > 0);
    must_get(t, "big", "{'proj':'a99'}", "[{'a99':['2014-11-14T19:10:40.912Z']}]");
}

static void a_large_schema_that_is_cold_is_found_for_an_update(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    struct table_attr attrs[] = { { STR("k"), STR("x") } };
    struct table_write w = { .table = STR("big"), .attrs = attrs, .attrs_count = 1 };
    create_big();
    arena_init(&a, 1 << 20);
    tables_read_on(t->tables, &pool.home);
    atomic_store(&dones, 0);
    struct table_update u = { .call = { .home = home_here(), .done = count_done },
                              .domain = 1,
                              .writes = &w,
                              .writes_count = 1,
                              .arena = &a };
    assert_int_equal(table_store_update(t->store, &u), STORE_LATER);
    assert_int_equal(pool.posted, 1);
    pool_work(&pool);
    tables_read_on(t->tables, home_here());
    WAIT_UNTIL(atomic_load(&dones) == 1);
    must_get(t, "big", "{'proj':'k'}", "[{'k':'x'}]");
    arena_fini(&a);
}

static void a_first_try_leaves_no_note(void **state)
{
    (void)state;
    struct pool pool = { .home.post = pool_post };
    struct arena a;
    create_big();
    arena_init(&a, 1 << 20);
    tables_read_on(t->tables, &pool.home);
    struct table_parse p = { .call = { .home = home_here(), .done = count_done },
                             .kind = QUERY_BATCH,
                             .domain = 1,
                             .json = STR("[{\"op\":\"put\",\"table\":\"big\","
                                         "\"attributes\":{\"k\":\"x\"}}]"),
                             .arena = &a };
    assert_int_equal(table_store_parse(t->store, &p), STORE_LATER);
    assert_string_equal(p.note.text, "");
    pool_work(&pool);
    assert_int_equal(p.writes_count, 1);
    tables_read_on(t->tables, home_here());
    arena_fini(&a);
}

enum { MI = 1 << 20 };

/* What a row has is read for a decision twice when it was cold: memory of a request for it once
 * will do. */
static void a_cold_row_needs_no_more_memory_than_a_warm_one(void **state)
{
    (void)state;
    char *json = malloc(12 * MI);
    assert_non_null(json);
    atomic_store(&cold, false);
    must_create(t, "w",
                "{'attributes':{'k':'string','p':'string','q':'string','s':'string'},'index':["
                "{'attribute':'k','type':'hash'}]}");
    for (int i = 0; i < 2; i++) {
        int head = snprintf(json, 256, "{'attributes':{'k':'a','%s':'", i == 0 ? "p" : "q");
        memset(json + head, 'x', 11 * MI);
        (void)snprintf(json + head + 11 * MI, 64, "'}}");
        must_put(t, "w", json);
    }
    free(json);
    atomic_store(&cold, true);
    must_put(t, "w", "{'attributes':{'k':'a','s':'y'}}");
    assert_true(atomic_load(&refused) > 0);
    must_get(t, "w", "{'proj':'s'}", "[{'s':'y'}]");
}

#define COLD_TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COLD_TEST(what_is_cold_is_read_on_the_pool),
        COLD_TEST(rows_that_are_cold_come_once),
        COLD_TEST(a_read_that_is_canceled_ends),
        COLD_TEST(a_long_query_is_read_on_the_pool),
        COLD_TEST(a_put_into_a_cold_row_keeps_its_rest),
        COLD_TEST(a_put_of_all_attributes_reads_nothing),
        COLD_TEST(conditions_on_cold_rows_hold),
        COLD_TEST(a_judge_of_a_delete_sees_a_cold_row),
        COLD_TEST(cold_static_rows_are_merged),
        COLD_TEST(a_large_schema_is_read_when_cold),
        COLD_TEST(a_large_schema_that_is_cold_is_found_for_an_update),
        COLD_TEST(a_first_try_leaves_no_note),
        COLD_TEST(a_cold_row_needs_no_more_memory_than_a_warm_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
