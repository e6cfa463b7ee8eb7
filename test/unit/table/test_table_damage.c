/* Goal: a row that cannot be read costs itself: gets name it and go on, and it stops no delete, no
 * expiry, no drop, no filling of an index and no put that says all. Method: the values of stored
 * rows are overwritten with what is no row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <string.h>

static struct tabletest *const t = &tabletest;

static const char *const notes =
    "{'attributes':{'key':'string','n':'int','owner':'string','text':'string'},'index':["
    "{'attribute':'key','type':'hash'},{'attribute':'owner','type':'static'},{'attribute':'n','"
    "type':'range'}]}";

static void put_note(const char *key, int n, const char *more)
{
    char json[256];
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'%s','n':%d,'text':'%s%d'%s}}", key, n,
                   key, n, more);
    must_put(t, "t", json);
}

/* Overwrites rows of a key: static ones (mark 0) or others (1), from the first, at most count. */
struct victim {
    const char *key;
    char mark;
    unsigned count, done;
};

static err damage_decide(struct engine_txn *txn, void *ctx)
{
    struct victim *victim = ctx;
    char keys[100][64], want[64];
    size_t sizes[100], n = strlen(victim->key);
    unsigned found = 0;
    struct engine_row row;
    struct engine_range range = { .space = SPACE_ROW, .from = STR("\1"), .until = STR("\2") };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(txn), &range);
    memcpy(want, victim->key, n);
    memcpy(want + n, (const char[]){ 0, 1, victim->mark }, 3);
    while (found < victim->count && engine_cursor_next(c, &row) == ERR_OK)
        if (row.key.n >= 9 + n + 3 && row.key.n <= sizeof keys[0] &&
            memcmp(row.key.p + 9, want, n + 3) == 0) {
            memcpy(keys[found], row.key.p, row.key.n);
            sizes[found++] = row.key.n;
        }
    engine_cursor_close(&c);
    victim->done = found;
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < found; i++)
        e = engine_txn_put(txn, SPACE_ROW, (str){ .p = keys[i], .n = sizes[i] }, STR("no row"),
                           STR_NONE);
    return e;
}

static void damage(const char *key, char mark, unsigned count)
{
    struct victim victim = { .key = key, .mark = mark, .count = count };
    assert_int_equal(engine_update_wait(t->scratch.engine, damage_decide, &victim), ERR_OK);
    assert_int_equal(victim.done, count);
}

static unsigned rows_left(void)
{
    unsigned count = 0;
    struct engine_row row;
    struct engine_view *v = engine_view_begin(t->scratch.engine);
    struct engine_range range = { .space = SPACE_ROW, .from = STR("\1"), .until = STR("\5") };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    while (engine_cursor_next(c, &row) == ERR_OK)
        count++;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return count;
}

static void gets_name_it_and_go_on(void **state)
{
    (void)state;
    must_create(t, "t", notes);
    for (int n = 0; n < 3; n++)
        put_note("a", n, "");
    put_note("b", 0, "");
    damage("b", 1, 1);
    must_get(t, "t", "{'proj':'text'}",
             "[{'text':'a0'},{'text':'a1'},{'text':'a2'}],'damaged':[{'key':'b','n':0}]");
    must_get(t, "t", "{'proj':'text','attributes':{'key':'a'}}",
             "[{'text':'a0'},{'text':'a1'},{'text':'a2'}]");
    must_get(t, "t", "{'proj':'text','attributes':{'n':0}}",
             "[{'text':'a0'}],'damaged':[{'key':'b','n':0}]");
    must_get(t, "t", "{'proj':'text','attributes':{'n':1}}", "[{'text':'a1'}]");
    must_get(t, "t", "{'distinct':true}", "[{'key':'a'}],'damaged':[{'key':'b','n':0}]");
    must_get(t, "t", "{'proj':'text','limit':3,'attributes':{'n':{'lt':3}},'order':{'n':'desc'}}",
             "[{'text':'a2'},{'text':'a1'},{'text':'a0'}],'damaged':[{'key':'b','n':0}]");
}

static void a_static_row_costs_who_asks_for_it(void **state)
{
    (void)state;
    must_create(t, "t", notes);
    put_note("a", 0, ",'owner':'ann'");
    put_note("a", 1, "");
    put_note("b", 0, ",'owner':'bob'");
    damage("a", 0, 1);
    must_get(t, "t", "{'proj':'text'}", "[{'text':'a0'},{'text':'a1'},{'text':'b0'}]");
    must_get(t, "t", "{'proj':'owner'}",
             "[{'owner':'bob'}],'damaged':[{'key':'a','n':0},{'key':'a','n':1}]");
}

static void too_much_damage_is_told_as_such(void **state)
{
    (void)state;
    must_create(t, "t", notes);
    for (int n = 0; n <= TABLE_DAMAGED_MAX; n++)
        put_note("a", n, "");
    put_note("b", 0, "");
    damage("a", 1, TABLE_DAMAGED_MAX);
    assert_int_equal(tabletest_get(t, 1, "t", "{'proj':'text'}"), ERR_OK);
    damage("a", 1, TABLE_DAMAGED_MAX + 1);
    assert_int_equal(tabletest_get(t, 1, "t", "{'proj':'text'}"), ERR_CORRUPT);
    must_get(t, "t", "{'proj':'text','attributes':{'key':'b'}}", "[{'text':'b0'}]");
}

static void it_is_deleted_expired_and_dropped(void **state)
{
    (void)state;
    store_time next;
    must_create(t, "t", notes);
    for (int n = 0; n < 4; n++)
        put_note("a", n, ",'_ttl':10");
    put_note("b", 0, "");
    put_note("b", 1, "");
    put_note("c", 0, "");
    damage("b", 1, 1);
    must_delete(t, "t", "{'attributes':{'key':'b'}}");
    assert_int_equal(t->rows_deleted, 2);
    damage("a", 1, 2);
    tabletest_advance(t, 10);
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, INT64_MAX);
    must_get(t, "t", "{'proj':'text'}", "[{'text':'c0'}]");
    assert_int_equal(rows_left(), 1);
    damage("c", 1, 1);
    assert_int_equal(tabletest_drop(t, 1, "t"), ERR_OK);
    tabletest_upkeep(t, &next);
    assert_int_equal(rows_left(), 0);
}

static err entry_decide(struct engine_txn *txn, void *ctx)
{
    (void)ctx;
    return engine_txn_put(txn, SPACE_ROW, STR("\2\0\0\0"), STR_NONE, STR_NONE);
}

static void an_expiry_entry_that_names_nothing_is_removed(void **state)
{
    (void)state;
    store_time next;
    must_create(t, "t", notes);
    put_note("a", 0, ",'_ttl':10");
    put_note("a", 1, "");
    assert_int_equal(engine_update_wait(t->scratch.engine, entry_decide, NULL), ERR_OK);
    tabletest_advance(t, 10);
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, INT64_MAX);
    assert_int_equal(rows_left(), 1);
}

static void a_put_that_says_all_replaces_it(void **state)
{
    (void)state;
    must_create(t, "t", notes);
    put_note("a", 0, "");
    damage("a", 1, 1);
    put_note("a", 0, "");
    must_get(t, "t", "{'proj':'text'}", "[{'text':'a0'}]");
    damage("a", 1, 1);
    assert_int_equal(tabletest_write(t, 1, QUERY_PUT, "t", "{'attributes':{'key':'a','n':0}}"),
                     ERR_CORRUPT);
    assert_int_equal(tabletest_write(t, 1, QUERY_PUT, "t",
                                     "{'attributes':{'key':'a','n':0,'text':'x'},"
                                     "'if':'not exists'}"),
                     ERR_CORRUPT);
}

static void an_index_is_filled_without_it(void **state)
{
    (void)state;
    store_time next;
    must_create(t, "t",
                "{'attributes':{'key':'string','tag':'string'},'index':[{'attribute':'key','type':'"
                "hash'}]}");
    must_put(t, "t", "{'attributes':{'key':'a','tag':'x'}}");
    must_put(t, "t", "{'attributes':{'key':'b','tag':'x'}}");
    must_put(t, "t", "{'attributes':{'key':'c','tag':'x'}}");
    damage("b", 1, 1);
    must_create(t, "t",
                "{'version':2,'attributes':{'key':'string','tag':'string'},'index':["
                "{'attribute':'key','type':'hash'}],'secondaryIndexes':{'by_tag':["
                "{'attribute':'tag','type':'hash'}]}}");
    tabletest_upkeep(t, &next);
    must_get(t, "t", "{'index':'by_tag','proj':'key'}", "[{'key':'c'},{'key':'a'}]");
    damage("c", 1, 1); /* one that is in the index already */
    must_get(t, "t", "{'index':'by_tag','proj':'key'}",
             "[{'key':'a'}],'damaged':[{'key':'c','tag':'x'}]");
    must_delete(t, "t", "{'attributes':{'key':'c'}}");
    must_get(t, "t", "{'index':'by_tag','proj':'key'}", "[{'key':'a'}]");
    assert_int_equal(rows_left(), 4); /* a with its entry and trail, b */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gets_name_it_and_go_on, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_static_row_costs_who_asks_for_it, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(too_much_damage_is_told_as_such, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(it_is_deleted_expired_and_dropped, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_expiry_entry_that_names_nothing_is_removed,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_put_that_says_all_replaces_it, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_index_is_filled_without_it, tabletest_setup,
                                        tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
