/* Goal: what cannot be done at any time is refused by the name of its limit (ERR_LIMIT and a note),
 * and an answer ends before the row that does not fit, so that those behind it are reached. Method:
 * texts of 7f, which is six bytes in an answer; arenas of a size of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tabletest *const t = &tabletest;

enum { MI = 1 << 20 };

static const char *const wide =
    "{'attributes':{'k':'string','r':'int','p':'string','q':'string','s':'string',"
    "'j':'json','t':'set<string>'},'index':[{'attribute':'k','type':'hash'},"
    "{'attribute':'r','type':'range'}]}";

/* Puts row r of key a with an attribute of n times c; open and close are what stands around it. */
static err put_wide(int r, const char *name, const char *open, char c, size_t n, const char *close)
{
    char *json = malloc(n + 256);
    assert_non_null(json);
    int head = snprintf(json, 256, "{'attributes':{'k':'a','r':%d,'%s':%s", r, name, open);
    assert_true(head > 0);
    memset(json + head, c, n);
    (void)snprintf(json + (size_t)head + n, 64, "%s}}", close);
    err e = tabletest_write(t, 1, QUERY_PUT, "w", json);
    free(json);
    return e;
}

static void must_put_wide(int r, const char *name, char c, size_t n)
{
    assert_int_equal(put_wide(r, name, "'", c, n, "'"), ERR_OK);
}

/* The token of the answer before, as a member behind others. */
static const char *token(char out[1024])
{
    const char *found = strstr(t->answer, "'next':'");
    assert_non_null(found);
    (void)snprintf(out, 1024, ",'next':'%.*s'", (int)strcspn(found + 8, "'"), found + 8);
    return out;
}

static void asks(const char *members, const char *next, const char *items)
{
    char query[2048];
    (void)snprintf(query, sizeof query, "{%s%s}", members, next);
    assert_int_equal(tabletest_get(t, 1, "w", query), ERR_OK);
    if (strncmp(t->answer, items, strlen(items)) != 0)
        fail_msg("%s\n  gave %.200s\n  want %s", query, t->answer, items);
}

static void an_answer_ends_before_the_row_that_does_not_fit(void **state)
{
    (void)state;
    char next[1024], query[2048];
    must_create(t, "w", wide);
    must_put(t, "w", "{'attributes':{'k':'a','r':1,'s':'x'}}");
    must_put_wide(2, "p", 0x7f, 5 * MI);
    must_put_wide(2, "q", 0x7f, 5 * MI); /* 60 MiB as JSON */
    must_put(t, "w", "{'attributes':{'k':'a','r':3,'s':'y'}}");
    asks("'proj':['r','p','q']", "", "{'items':[{'r':1,'p':null,'q':null}],'next':'");
    (void)snprintf(query, sizeof query, "{'proj':['r','p','q']%s}", token(next));
    must_refuse(t, tabletest_get(t, 1, "w", query), ERR_LIMIT, "TABLE_ANSWER_BYTES_MAX");
    must_refuse(t, tabletest_get(t, 1, "w", "{'attributes':{'k':'a','r':2}}"), ERR_LIMIT, "proj");
    asks("'proj':['r','s']", next, "{'items':[{'r':2,'s':null},{'r':3,'s':'y'}]}");
    asks("'proj':['r','s'],'limit':1", next, "{'items':[{'r':2,'s':null}],'next':'");
    asks("'proj':['r','p','q']", token(next), "{'items':[{'r':3,'p':null,'q':null}]}");
    asks("'order':{'r':'desc'},'proj':['r','p','q']", "",
         "{'items':[{'r':3,'p':null,'q':null}],'next':'");
    (void)snprintf(query, sizeof query, "{'order':{'r':'desc'},'proj':['p','q']%s}", token(next));
    must_refuse(t, tabletest_get(t, 1, "w", query), ERR_LIMIT, "TABLE_ANSWER_BYTES_MAX");
    asks("'order':{'r':'desc'},'proj':'r'", next, "{'items':[{'r':2},{'r':1}]}");
}

static void a_value_that_no_answer_can_hold_is_not_taken(void **state)
{
    (void)state;
    must_create(t, "w", wide);
    must_refuse(t, put_wide(1, "p", "'", 0x7f, 9 * MI, "'"), ERR_LIMIT, "attribute p: ");
    must_refuse(t, put_wide(1, "p", "'", 0x7f, 9 * MI, "'"), ERR_LIMIT, "TABLE_TEXT_BYTES_MAX");
    must_refuse(t, put_wide(1, "t", "['", 0x7f, 9 * MI, "']"), ERR_LIMIT, "TABLE_TEXT_BYTES_MAX");
    must_refuse(t, put_wide(1, "j", "'", 0x7f, 9 * MI, "'"), ERR_LIMIT, "TABLE_TEXT_BYTES_MAX");
    must_get(t, "w", "{}", "[]");
    must_put_wide(1, "p", 'x', 9 * MI);
    must_get(t, "w", "{'proj':'r'}", "[{'r':1}]");
}

static void an_answer_ends_where_the_memory_of_a_request_does(void **state)
{
    (void)state;
    struct arena a;
    struct table_query q = { .domain = 1, .table = STR("w"), .query = STR("{}"), .arena = &a };
    must_create(t, "w", wide);
    for (int r = 0; r < 6; r++)
        must_put_wide(r, "p", 'x', 300 << 10);
    must_put_wide(6, "p", 'x', 2 * MI);
    arena_init(&a, MI);
    assert_int_equal(tabletest_query(t, &q), ERR_OK);
    assert_int_equal(q.rows, 2);
    assert_true(q.more);
    arena_reset(&a);
    q.query = STR("{\"order\":{\"r\":\"desc\"}}");
    err why = tabletest_query(t, &q);
    t->note = q.note;
    must_refuse(t, why, ERR_LIMIT, "http.arena_bytes_max");
    arena_fini(&a);
}

static void changes_that_need_more_memory_than_a_request_has_say_so(void **state)
{
    (void)state;
    must_create(t, "w", wide);
    must_put_wide(1, "p", 'x', 11 * MI);
    must_put_wide(1, "q", 'x', 11 * MI);
    must_refuse(t, put_wide(1, "s", "'", 'x', 11 * MI, "'"), ERR_LIMIT, "http.arena_bytes_max");
    char json[2048];
    size_t n = 0;
    for (int r = 10; r < 19; r++) {
        must_put_wide(r, "p", 'x', 4 * MI);
        n += (size_t)snprintf(json + n, sizeof json - n,
                              "%s{'op':'put','table':'w','attributes':{'k':'a','r':%d,'s':'y'}}",
                              n == 0 ? "[" : ",", r);
    }
    (void)snprintf(json + n, sizeof json - n, "]");
    must_refuse(t, tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_LIMIT, "http.arena_bytes_max");
    must_get(t, "w", "{'attributes':{'k':'a','r':10},'proj':['r','s']}", "[{'r':10,'s':null}]");
}

/* Rows of key a from and before. */
static void fill(int from, int before)
{
    static char json[128 * TABLE_OPS_MAX];
    for (int r = from; r < before;) {
        size_t n = 0;
        for (int i = 0; i < TABLE_OPS_MAX && r < before; i++, r++)
            n += (size_t)snprintf(json + n, sizeof json - n,
                                  "%s{'op':'put','table':'w','attributes':{'k':'a','r':%d}}",
                                  i == 0 ? "[" : ",", r);
        (void)snprintf(json + n, sizeof json - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_OK);
    }
}

#define DELETE(range) "{'op':'delete','table':'w','attributes':{'k':'a','r':{" range "}}}"

static void a_batch_deletes_in_one_step_or_says_why_not(void **state)
{
    (void)state;
    must_create(t, "w", wide);
    fill(0, 16600);
    must_refuse(t, tabletest_write(t, 1, QUERY_BATCH, "", "[" DELETE("'lt':8001") "]"), ERR_LIMIT,
                "8000");
    must_refuse(t,
                tabletest_write(t, 1, QUERY_BATCH, "",
                                "[" DELETE("'lt':5600") "," DELETE(
                                    "'between':[5600,11200]") "," DELETE("'gt':11200") "]"),
                ERR_LIMIT, "ENGINE_UPDATE_ROWS_MAX");
    must_get(t, "w", "{'limit':1,'proj':'r','attributes':{'k':'a','r':0}}", "[{'r':0}]");
    assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", "[" DELETE("'lt':8000") "]"), ERR_OK);
    assert_int_equal(t->rows_deleted, 8000);
    must_delete(t, "w", "{'attributes':{'k':'a'}}");
    assert_int_equal(t->rows_deleted, 8600); /* alone it goes on, as several */
}

/* Such a policy needs no room beside a delete for rows that come back. */
static void a_batch_deletes_as_much_under_a_ttl(void **state)
{
    (void)state;
    must_create(
        t, "w",
        "{'attributes':{'k':'string','r':'int'},'index':[{'attribute':'k','type':'hash'},"
        "{'attribute':'r','type':'range'}],'revisionRetentionPolicy':{'type':'ttl','ttl':600}}");
    fill(0, 6000);
    assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", "[" DELETE("'lt':6000") "]"), ERR_OK);
    assert_int_equal(t->rows_deleted, 6000);
}

enum { BOUND_BYTES = 600, LONGEST = 470 };

/* Rows whose range attribute is a, m, z and z so often as a key may be long. */
static void fill_texts(const char *order)
{
    char json[1024], longest[LONGEST + 1];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'k':'string','r':'string'},'index':[{'attribute':'k',"
                   "'type':'hash'},{'attribute':'r','type':'range','order':'%s'}]}",
                   order);
    must_create(t, "b", json);
    memset(longest, 'z', LONGEST);
    longest[LONGEST] = 0;
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(json, sizeof json, "{'attributes':{'k':'a','r':'%s'}}",
                       (const char *[]){ "a", "m", "z", longest }[i]);
        must_put(t, "b", json);
    }
}

static void a_bound_may_be_longer_than_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        char c;
        const char *more;
        unsigned rows;
    } cases[] = {
        { "lt", 'z', "", 4 },          { "le", 'z', "", 4 }, { "gt", 'z', "", 0 },
        { "ge", 'z', "", 0 },          { "lt", 'm', "", 2 }, { "le", 'm', "", 2 },
        { "gt", 'm', "", 2 },          { "ge", 'm', "", 2 }, { "lt", 'm', ",'ge':'b'", 1 },
        { "gt", 'b', ",'lt':'z'", 1 }, { "eq", 'z', "", 0 }, { "lt", 'z', ",'gt':'zz'", 1 },
    };
    char bound[BOUND_BYTES + 1], json[1024];
    bound[BOUND_BYTES] = 0;
    for (unsigned i = 0; i < 2 * COUNT_OF(cases); i++) {
        unsigned at = i / 2, found = 0;
        fill_texts(i % 2 == 0 ? "asc" : "desc");
        memset(bound, cases[at].c, BOUND_BYTES);
        (void)snprintf(json, sizeof json, "{'attributes':{'k':'a','r':{'%s':'%s'%s}}}",
                       cases[at].op, bound, cases[at].more);
        assert_int_equal(tabletest_get(t, 1, "b", json), ERR_OK);
        for (const char *p = t->answer; (p = strstr(p, "'r':")) != NULL; p++)
            found++;
        must_delete(t, "b", json);
        if (found != cases[at].rows || t->rows_deleted != found)
            fail_msg("case %u: %u found, %u deleted", i, found, (unsigned)t->rows_deleted);
        assert_int_equal(tabletest_drop(t, 1, "b"), ERR_OK);
    }
}

/* A schema of 128 attributes with names of 64 bytes, all of them in each of so many indexes. */
static void wide_schema(char *json, size_t size, unsigned indexes)
{
    char sep = '{';
    size_t n = (size_t)snprintf(json, size, "{'attributes':");
    for (int i = 0; i < TABLE_ATTRS_MAX; i++, sep = ',')
        n += (size_t)snprintf(json + n, size - n, "%c'%064d':'string'", sep, i);
    n += (size_t)snprintf(json + n, size - n,
                          "},'index':[{'attribute':'%064d','type':'hash'}],'secondaryIndexes':", 0);
    sep = '{';
    for (unsigned i = 0; i < indexes; i++, sep = ',') {
        n += (size_t)snprintf(json + n, size - n, "%c'i%u':[{'attribute':'%064d','type':'hash'}",
                              sep, i, 1);
        for (int k = 2; k < TABLE_ATTRS_MAX; k++)
            n += (size_t)snprintf(json + n, size - n, ",{'attribute':'%064d','type':'proj'}", k);
        n += (size_t)snprintf(json + n, size - n, "]");
    }
    (void)snprintf(json + n, size - n, "}}");
}

static void a_schema_may_be_as_long_as_its_body(void **state)
{
    (void)state;
    static char json[256 << 10];
    char put[512];
    wide_schema(json, sizeof json, 4);
    assert_in_range(strlen(json), 56 << 10, 64 << 10);
    must_create(t, "s", json);
    tabletest_reopen(t);
    (void)snprintf(put, sizeof put, "{'attributes':{'%064d':'a','%064d':'b'}}", 0, 1);
    must_put(t, "s", put);
    (void)snprintf(put, sizeof put, "{'index':'i3','attributes':{'%064d':'b'},'proj':'%064d'}", 1,
                   1);
    assert_int_equal(tabletest_get(t, 1, "s", put), ERR_OK);
    assert_non_null(strstr(t->answer, ":'b'}"));
    wide_schema(json, sizeof json, 5);
    must_refuse(t, tabletest_create(t, 1, "s", json), ERR_LIMIT, "SCHEMA_TEXT_BYTES_MAX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_ends_before_the_row_that_does_not_fit,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_value_that_no_answer_can_hold_is_not_taken,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_answer_ends_where_the_memory_of_a_request_does,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(changes_that_need_more_memory_than_a_request_has_say_so,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_batch_deletes_in_one_step_or_says_why_not,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_batch_deletes_as_much_under_a_ttl, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_schema_may_be_as_long_as_its_body, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_bound_may_be_longer_than_a_key, tabletest_setup,
                                        tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
