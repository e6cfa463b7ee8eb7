/* Goal: what table.h promises of rows, on a real engine: keys in order, predicates, paging,
 * upserts, statics, expiry, conditions, range deletes, batches, domains apart. Method: JSON queries
 * modelled on the behaviours of the peer's conformance suite (docs/peers.md, 1), answers compared
 * as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/store.h"
#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <string.h>

static struct tabletest *const t = &tabletest;

static const char *const revisions =
    "{'attributes':{'key':'string','rev':'int','tid':'int','latest':'int','body':'string'},'index':"
    "["
    "{'attribute':'key','type':'hash'},{'attribute':'latest','type':'static'},"
    "{'attribute':'rev','type':'range','order':'desc'},{'attribute':'tid','type':'range'}]}";

static void put_rev(const char *key, int rev, int tid)
{
    char json[256];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'key':'%s','rev':%d,'tid':%d,'body':'%d.%d'}}", key, rev, tid,
                   rev, tid);
    must_put(t, "r", json);
}

/* Revisions 1 to 3 of "a", tids 1 and 2 each; one row of "b". */
static void fill(void)
{
    must_create(t, "r", revisions);
    for (int rev = 1; rev <= 3; rev++)
        for (int tid = 1; tid <= 2; tid++)
            put_rev("a", rev, tid);
    put_rev("b", 9, 9);
}

/* The bodies a query gives, in order. */
static void bodies(const char *query, const char *want)
{
    char whole[512], items[512] = "[";
    (void)snprintf(whole, sizeof whole, "{'proj':'body',%s}", query);
    size_t n = 1;
    const char *sep = "";
    for (const char *w = want; *w != 0; w += *w == ' ') {
        size_t len = strcspn(w, " ");
        n += (size_t)snprintf(items + n, sizeof items - n, "%s{'body':'%.*s'}", sep, (int)len, w);
        sep = ",";
        w += len;
    }
    (void)snprintf(items + n, sizeof items - n, "]");
    must_get(t, "r", whole, items);
}

static void rows_come_in_the_order_of_the_index(void **state)
{
    (void)state;
    fill();
    bodies("'attributes':{'key':'a'}", "3.1 3.2 2.1 2.2 1.1 1.2");
    bodies("'attributes':{'key':'a'},'order':{'rev':'desc','tid':'asc'}",
           "3.1 3.2 2.1 2.2 1.1 1.2");
    bodies("'attributes':{'key':'a'},'order':{'rev':'asc','tid':'desc'}",
           "1.2 1.1 2.2 2.1 3.2 3.1");
    bodies("'attributes':{'key':'a'},'order':{'rev':'asc'}", "1.2 1.1 2.2 2.1 3.2 3.1");
    must_get(t, "r", "{'attributes':{'key':'c'}}", "[]");
    bodies("'attributes':{}", "3.1 3.2 2.1 2.2 1.1 1.2 9.9");
}

static void predicates_select(void **state)
{
    (void)state;
    fill();
    bodies("'attributes':{'key':'a','rev':2}", "2.1 2.2");
    bodies("'attributes':{'key':'a','rev':{'eq':2}}", "2.1 2.2");
    bodies("'attributes':{'key':'a','rev':{'LT':3}}", "2.1 2.2 1.1 1.2");
    bodies("'attributes':{'key':'a','rev':{'le':2}}", "2.1 2.2 1.1 1.2");
    bodies("'attributes':{'key':'a','rev':{'gt':2}}", "3.1 3.2");
    bodies("'attributes':{'key':'a','rev':{'ge':2}}", "3.1 3.2 2.1 2.2");
    bodies("'attributes':{'key':'a','rev':{'between':[2,3]}}", "3.1 3.2 2.1 2.2");
    bodies("'attributes':{'key':'a','rev':{'gt':1,'lt':3}}", "2.1 2.2");
    bodies("'attributes':{'key':'a','rev':{'gt':3,'lt':1}}", "");
    bodies("'attributes':{'key':'a','rev':2,'tid':{'ge':2}}", "2.2");
    bodies("'attributes':{'key':'a','rev':2,'tid':2}", "2.2");
    bodies("'attributes':{'key':'a','tid':2}", "3.2 2.2 1.2"); /* a gap in the key: filtered */
    bodies("'attributes':{'key':'a','tid':2,'rev':{'lt':3}}", "2.2 1.2");
    bodies("'attributes':{'tid':9}", "9.9");
    bodies("'attributes':{'key':'a','rev':2},'order':{'rev':'asc'}", "2.2 2.1");
    bodies("'attributes':{'key':'a','rev':{'lt':3}},'order':{'rev':'asc'},'limit':9",
           "1.2 1.1 2.2 2.1");
}

static void bad_queries_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } bad[] = {
        { "{'attributes':{'body':'x'}}", "body is not a hash or range" },
        { "{'attributes':{'nobody':'x'}}", "nobody" },
        { "{'attributes':{'key':{'gt':'a'}}}", "eq only" },
        { "{'attributes':{'key':'a','rev':{'lt':3},'tid':{'gt':1}}}", "only one attribute" },
        { "{'attributes':{'key':'a','rev':{'like':3}}}", "like is not an operator" },
        { "{'attributes':{'key':'a','rev':{'between':[3]}}}", "two values" },
        { "{'attributes':{'key':'a','rev':'x'}}", "attribute rev" },
        { "{'attributes':{'key':null}}", "null" },
        { "{'proj':['key','x']}", "x" },
        { "{'proj':{'key':1}}", "proj" },
        { "{'order':{'key':'asc'}}", "range attribute" },
        { "{'order':{'rev':'up'}}", "asc or desc" },
        { "{'order':{'rev':'asc','tid':'asc'}}", "reversed" },
        { "{'limit':0}", "limit" },
        { "{'limit':'3'}", "limit" },
        { "{'next':'AAAA'}", "next" },
        { "{'next':'?'}", "next" },
        { "{'index':'by_rev'}", "no index by_rev" },
        { "{'index':7}", "index" },
        { "{'table':'other'}", "table" },
        { "{'distinct':true,'proj':['rev']}", "distinct" },
        { "{'consistency':'some'}", "consistency" },
        { "{'surprise':1}", "surprise" },
        { "{'table':'r\\u0000x'}", "table" }, /* texts are not cut at a NUL */
        { "{'proj':['body\\u0000x']}", "proj" },
        { "{'index':'by_rev\\u0000'}", "index" },
        { "{'order':{'rev':'asc\\u0000x'}}", "asc or desc" },
        { "{'consistency':'all\\u0000'}", "consistency" },
        { "{'limit':36893488147419103232}", "as a string" },
        { "[]", "object" },
        { "{'a'", "JSON" },
    };
    fill();
    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        must_refuse(t, tabletest_get(t, 1, "r", bad[i].json), ERR_BAD, bad[i].says);
    must_refuse(t, tabletest_get(t, 1, "nothing", "{}"), ERR_NOT_FOUND, "nothing");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "nothing", "{'attributes':{'key':'a'}}"),
                ERR_NOT_FOUND, "nothing");
}

/* Reads a table page by page and joins the bodies; the number of pages. */
static unsigned pages(const char *more, unsigned limit, char *joined, size_t size)
{
    char next[512] = "", query[1024];
    unsigned count = 0;
    size_t n = 0;
    do {
        (void)snprintf(query, sizeof query, "{'proj':'body','limit':%u%s%s%s%s}", limit, more,
                       next[0] != 0 ? ",'next':'" : "", next, next[0] != 0 ? "'" : "");
        assert_int_equal(tabletest_get(t, 1, "r", query), ERR_OK);
        assert_true(++count < 100);
        const char *at = t->answer;
        while ((at = strstr(at, "{'body':'")) != NULL) {
            at += strlen("{'body':'");
            n += (size_t)snprintf(joined + n, size - n, "%.*s ", (int)strcspn(at, "'"), at);
        }
        const char *token = strstr(t->answer, "'next':'");
        next[0] = 0;
        if (token != NULL)
            (void)snprintf(next, sizeof next, "%.*s", (int)strcspn(token + 8, "'"), token + 8);
    } while (next[0] != 0);
    return count;
}

static void pages_join_without_gap_or_repeat(void **state)
{
    (void)state;
    char joined[512];
    fill();
    for (unsigned limit = 1; limit <= 7; limit++) {
        unsigned count = pages("", limit, joined, sizeof joined);
        assert_string_equal(joined, "3.1 3.2 2.1 2.2 1.1 1.2 9.9 ");
        assert_int_equal(count, (7 + limit - 1) / limit); /* no empty last page */
        count =
            pages(",'attributes':{'key':'a'},'order':{'rev':'asc'}", limit, joined, sizeof joined);
        assert_string_equal(joined, "1.2 1.1 2.2 2.1 3.2 3.1 ");
        assert_int_equal(count, (6 + limit - 1) / limit);
    }
    (void)pages(",'attributes':{'key':'a','rev':{'le':2}}", 3, joined, sizeof joined);
    assert_string_equal(joined, "2.1 2.2 1.1 1.2 ");
}

static void a_token_of_another_query_is_refused(void **state)
{
    (void)state;
    fill();
    assert_int_equal(tabletest_get(t, 1, "r", "{'attributes':{'key':'a'},'limit':1}"), ERR_OK);
    char query[1024], *token = strstr(t->answer, "'next':'") + 8;
    *strchr(token, '\'') = 0;
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'b'},'next':'%s'}", token);
    must_refuse(t, tabletest_get(t, 1, "r", query), ERR_BAD, "next");
    (void)snprintf(query, sizeof query,
                   "{'attributes':{'key':'a'},'order':{'rev':'asc'},'next':'%s'}", token);
    must_refuse(t, tabletest_get(t, 1, "r", query), ERR_BAD, "next");
}

static void distinct_gives_each_partition_once(void **state)
{
    (void)state;
    fill();
    must_get(t, "r", "{'distinct':true}", "[{'key':'a'},{'key':'b'}]");
    must_get(t, "r", "{'distinct':true,'proj':'key','limit':2}", "[{'key':'a'},{'key':'b'}]");
    assert_int_equal(tabletest_get(t, 1, "r", "{'distinct':true,'limit':1}"), ERR_OK);
    char query[512], *token = strstr(t->answer, "'next':'");
    assert_non_null(token);
    token += 8;
    *strchr(token, '\'') = 0;
    (void)snprintf(query, sizeof query, "{'distinct':true,'next':'%s'}", token);
    must_get(t, "r", query, "[{'key':'b'}]");
}

static void a_put_keeps_what_it_does_not_name(void **state)
{
    (void)state;
    must_create(t, "u",
                "{'attributes':{'k':'string','a':'int','b':'set<int>','c':'json'},"
                "'index':[{'attribute':'k','type':'hash'}]}");
    must_put(t, "u", "{'table':'u','attributes':{'k':'x','a':1,'b':[2,1]}}");
    must_put(t, "u", "{'attributes':{'k':'x','c':{'z':[]}}}");
    must_get(t, "u", "{'attributes':{'k':'x'}}", "[{'k':'x','a':1,'b':[1,2],'c':{'z':[]}}]");
    must_put(t, "u", "{'attributes':{'k':'x','a':null,'b':[]}}");
    must_get(t, "u", "{'attributes':{'k':'x'}}", "[{'k':'x','a':null,'b':null,'c':{'z':[]}}]");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "u", "{'attributes':{'a':1}}"), ERR_BAD,
                "key is missing");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "u", "{'attributes':{'k':null}}"), ERR_BAD,
                "key is missing");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "u", "{'attributes':{'k':'y','q':1}}"), ERR_BAD,
                "q");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "u", "{'attributes':{'k':'y','a':'x'}}"),
                ERR_BAD, "attribute a");
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "u", "{'attributes':{'k':'y'},'timestamp':1}"),
                ERR_BAD, "timestamp");
    must_get(t, "u", "{}", "[{'k':'x','a':null,'b':null,'c':{'z':[]}}]");
}

static void a_long_key_is_refused_by_name(void **state)
{
    (void)state;
    char json[2048], key[600];
    fill();
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = 0;
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'%s','rev':1,'tid':1}}", key);
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "r", json), ERR_BAD, "TABLE_KEY_BYTES_MAX");
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'%s'}}", key);
    must_get(t, "r", json, "[]");
    must_delete(t, "r", json);
    key[440] = 0; /* the longest title, with room for what follows it */
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'%s','rev':1,'tid':1,'_ttl':9}}", key);
    must_put(t, "r", json);
}

static void large_rows_come_back(void **state)
{
    (void)state;
    static char json[30000], want[30000];
    char body[20001];
    for (size_t i = 0; i < sizeof body - 1; i++)
        body[i] = (char)('a' + i * 7 % 26);
    body[sizeof body - 1] = 0;
    must_create(t, "l",
                "{'attributes':{'k':'string','n':'int','v':'string'},"
                "'index':[{'attribute':'k','type':'hash'}]}");
    (void)snprintf(json, sizeof json, "{'attributes':{'k':'x','n':1,'v':'%s'}}", body);
    must_put(t, "l", json);
    must_put(t, "l", "{'attributes':{'k':'x','n':2}}"); /* keeps the large value */
    (void)snprintf(want, sizeof want, "[{'k':'x','n':2,'v':'%s'}]", body);
    must_get(t, "l", "{'attributes':{'k':'x'}}", want);
    tabletest_reopen(t);
    must_get(t, "l", "{'attributes':{'k':'x'}}", want);
    must_put(t, "l", "{'attributes':{'k':'x','v':'s'}}");
    must_get(t, "l", "{'attributes':{'k':'x'}}", "[{'k':'x','n':2,'v':'s'}]");
}

static void static_attributes_belong_to_the_partition(void **state)
{
    (void)state;
    fill();
    must_put(t, "r", "{'attributes':{'key':'a','rev':1,'tid':1,'latest':7}}");
    must_get(t, "r", "{'attributes':{'key':'a','tid':1},'proj':['rev','latest']}",
             "[{'rev':3,'latest':7},{'rev':2,'latest':7},{'rev':1,'latest':7}]");
    must_get(t, "r", "{'attributes':{'key':'b'},'proj':'latest'}", "[{'latest':null}]");
    must_put(t, "r", "{'attributes':{'key':'a','rev':4,'tid':1,'latest':8}}");
    must_get(t, "r", "{'attributes':{'key':'a','rev':1,'tid':1}}",
             "[{'key':'a','rev':1,'tid':1,'latest':8,'body':'1.1'}]");
    must_get(t, "r", "{'proj':['key','latest'],'attributes':{'tid':9},'order':{'rev':'asc'}}",
             "[{'key':'b','latest':null}]");
    must_delete(t, "r", "{'attributes':{'key':'a'}}"); /* a whole partition takes it along */
    put_rev("a", 1, 1);
    must_get(t, "r", "{'attributes':{'key':'a'},'proj':'latest'}", "[{'latest':null}]");
}

static void rows_expire_on_time_and_are_removed(void **state)
{
    (void)state;
    store_time next;
    struct engine_stats before, after;
    fill();
    assert_int_equal(engine_flush(t->scratch.engine), ERR_OK);
    engine_stats_get(t->scratch.engine, &before);
    must_put(t, "r", "{'attributes':{'key':'c','rev':1,'tid':1,'body':'x','_ttl':10}}");
    must_put(t, "r", "{'attributes':{'key':'c','rev':2,'tid':1,'body':'y','_ttl':300}}");
    must_get(t, "r", "{'attributes':{'key':'c'},'proj':'body','withTTL':true}",
             "[{'body':'y','_ttl':300},{'body':'x','_ttl':10}]");
    tabletest_advance(t, 9);
    bodies("'attributes':{'key':'c'}", "y x");
    tabletest_advance(t, 1);
    bodies("'attributes':{'key':'c'}", "y"); /* at the instant, upkeep or not */
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, atomic_load(&t->scratch.clock.now_ns) + 290 * NS_PER_S);
    must_put(t, "r",
             "{'attributes':{'key':'c','rev':2,'tid':1}}"); /* without _ttl: for ever again */
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, INT64_MAX); /* and its entry is gone with the write */
    tabletest_advance(t, 1000);
    bodies("'attributes':{'key':'c'}", "y");
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, INT64_MAX);
    must_delete(t, "r", "{'attributes':{'key':'c'}}");
    assert_int_equal(engine_flush(t->scratch.engine), ERR_OK);
    engine_stats_get(t->scratch.engine, &after);
    assert_int_equal(after.rows, before.rows); /* no entry is left over */
}

static void an_expired_row_does_not_exist(void **state)
{
    (void)state;
    store_time next;
    fill();
    must_put(t, "r", "{'attributes':{'key':'c','rev':1,'tid':1,'body':'old','_ttl':10}}");
    tabletest_advance(t, 10);
    must_put(t, "r", "{'attributes':{'key':'c','rev':1,'tid':1},'if':'not exists'}");
    assert_true(t->applied);
    must_get(t, "r", "{'attributes':{'key':'c'},'proj':'body'}", "[{'body':null}]");
    tabletest_upkeep(t, &next);
    must_get(t, "r", "{'attributes':{'key':'c'},'proj':'body'}", "[{'body':null}]");
    must_refuse(t,
                tabletest_write(t, 1, QUERY_PUT, "r",
                                "{'attributes':{'key':'c','rev':1,'tid':1,'_ttl':0}}"),
                ERR_BAD, "_ttl");
}

static void a_table_can_expire_all_its_rows(void **state)
{
    (void)state;
    must_create(t, "d",
                "{'attributes':{'k':'string'},'index':[{'attribute':'k','type':'hash'}],"
                "'options':{'default_time_to_live':5}}");
    must_put(t, "d", "{'attributes':{'k':'x'}}");
    must_put(t, "d", "{'attributes':{'k':'y','_ttl':50}}");
    must_get(t, "d", "{'withTTL':true}", "[{'k':'x','_ttl':5},{'k':'y','_ttl':50}]");
    tabletest_advance(t, 5);
    must_get(t, "d", "{}", "[{'k':'y'}]");
}

static void conditions_are_decided_inside_the_update(void **state)
{
    (void)state;
    fill();
    must_put(t, "r", "{'attributes':{'key':'a','rev':1,'tid':1,'body':'new'},'if':'not exists'}");
    assert_false(t->applied);
    must_put(t, "r",
             "{'attributes':{'key':'a','rev':1,'tid':1,'body':'new'},'if':{'body':{'eq':'nope'}}}");
    assert_false(t->applied);
    bodies("'attributes':{'key':'a','rev':1,'tid':1}", "1.1");
    must_put(t, "r",
             "{'attributes':{'key':'a','rev':1,'tid':1,'body':'new'},'if':{'body':{'eq':'1.1'}}}");
    assert_true(t->applied);
    bodies("'attributes':{'key':'a','rev':1,'tid':1}", "new");
    must_put(t, "r", "{'attributes':{'key':'a','rev':8,'tid':1,'body':'8'},'if':'not exists'}");
    assert_true(t->applied);
    must_put(t, "r",
             "{'attributes':{'key':'a','rev':8,'tid':1,'latest':1},'if':{'latest':{'eq':null}}}");
    assert_true(t->applied);
    must_put(t, "r",
             "{'attributes':{'key':'a','rev':8,'tid':1,'latest':2},'if':{'latest':{'eq':null}}}");
    assert_false(t->applied);
    must_refuse(
        t,
        tabletest_write(t, 1, QUERY_PUT, "r",
                        "{'attributes':{'key':'a','rev':1,'tid':1},'if':{'body':{'gt':'1'}}}"),
        ERR_BAD, "condition on body");
}

static void deletes_take_points_ranges_and_partitions(void **state)
{
    (void)state;
    fill();
    must_delete(t, "r", "{'attributes':{'key':'a','rev':2,'tid':1}}");
    assert_int_equal(t->rows_deleted, 1);
    bodies("'attributes':{'key':'a'}", "3.1 3.2 2.2 1.1 1.2");
    must_delete(t, "r",
                "{'attributes':{'key':'a','rev':3,'tid':{'le':1}}}"); /* rev = r and tid <= t */
    bodies("'attributes':{'key':'a'}", "3.2 2.2 1.1 1.2");
    must_delete(t, "r", "{'attributes':{'key':'a','rev':{'le':2}}}"); /* rev <= r */
    assert_int_equal(t->rows_deleted, 3);
    bodies("'attributes':{'key':'a'}", "3.2");
    must_delete(t, "r", "{'attributes':{'key':'a','rev':77}}");
    assert_int_equal(t->rows_deleted, 0);
    must_delete(t, "r", "{'attributes':{'key':'a'}}");
    bodies("'attributes':{}", "9.9");
    must_refuse(t, tabletest_write(t, 1, QUERY_DELETE, "r", "{'attributes':{}}"), ERR_BAD, "hash");
    must_refuse(t, tabletest_write(t, 1, QUERY_DELETE, "r", "{'attributes':{'rev':1}}"), ERR_BAD,
                "hash");
    must_refuse(t, tabletest_write(t, 1, QUERY_DELETE, "r", "{'attributes':{'key':'b','tid':1}}"),
                ERR_BAD, "order");
    bodies("'attributes':{}", "9.9");
}

static void a_long_delete_runs_as_several(void **state)
{
    (void)state;
    static char json[600 * TABLE_OPS_MAX];
    enum { ROWS = TABLE_DELETE_ROWS_MAX + 300 };
    must_create(t, "r", revisions);
    for (int row = 0; row < ROWS;) {
        size_t n = (size_t)snprintf(json, sizeof json, "[");
        for (int i = 0; i < TABLE_OPS_MAX && row < ROWS; i++, row++)
            n += (size_t)snprintf(
                json + n, sizeof json - n,
                "%s{'op':'put','table':'r','attributes':{'key':'a','rev':%d,'tid':1}}",
                i == 0 ? "" : ",", row);
        (void)snprintf(json + n, sizeof json - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_OK);
    }
    put_rev("b", 1, 1);
    must_refuse(
        t,
        tabletest_write(t, 1, QUERY_BATCH, "",
                        "[{'op':'delete','table':'r','attributes':{'key':'a'}},"
                        "{'op':'put','table':'r','attributes':{'key':'a','rev':1,'tid':2}}]"),
        ERR_LIMIT, "8000");
    must_delete(t, "r", "{'attributes':{'key':'a'}}");
    assert_int_equal(t->rows_deleted, ROWS);
    bodies("'attributes':{}", "1.1");
}

/* Writes copies of the row whose key ends in two ints of 32 bits, rev descending and tid: revs
 * below `from`. */
struct copies {
    char key[ENGINE_KEY_BYTES_MAX], value[ENGINE_VALUE_BYTES_MAX];
    size_t key_n, value_n;
    int from, count;
};

static err copies_write(struct engine_txn *txn, void *ctx)
{
    struct copies *c = ctx;
    err e = ERR_OK;
    for (int i = 0; e == ERR_OK && i < c->count; i++) {
        uint32_t rev =
            ~(uint32_t)(c->from - i) ^ 0x80000000u; /* the form of an int, turned for its order */
        for (unsigned byte = 0; byte < 4; byte++)
            c->key[c->key_n - 8 + byte] = (char)(rev >> (24 - 8 * byte));
        e = engine_txn_put(txn, SPACE_ROW, (str){ .p = c->key, .n = c->key_n },
                           (str){ .p = c->value, .n = c->value_n }, STR_NONE);
    }
    return e;
}

/* What a judge saw, and how often; allowed while the row it saw has that body. */
struct judge {
    const char *body;
    unsigned asked;
    bool saw;
};

static bool has_body(void *ctx, const struct table_row *stored)
{
    struct judge *j = ctx;
    j->asked++;
    j->saw = stored != NULL;
    return stored != NULL && str_eq(table_row_value(stored, STR("body")), str_of(j->body));
}

static void delete_judged(struct judge *j, const char *json)
{
    t->allow = has_body;
    t->allow_ctx = j;
    must_delete(t, "r", json);
}

static void a_delete_is_judged_by_the_first_row_that_it_names(void **state)
{
    (void)state;
    struct judge j = { .body = "2.1" };
    fill();
    must_put(t, "r",
             "{'attributes':{'key':'a','rev':3,'tid':3,'latest':3,'body':'3.3'}}"); /* and a static
                                                                                       row */
    delete_judged(&j, "{'attributes':{'key':'a'}}");
    assert_false(t->applied);
    delete_judged(&j, "{'attributes':{'key':'a','rev':2}}");
    assert_true(t->applied);
    assert_int_equal(t->rows_deleted, 2);
    delete_judged(&j, "{'attributes':{'key':'c'}}");
    assert_false(t->applied);
    assert_false(j.saw);
    bodies("'attributes':{'key':'a'}", "3.1 3.2 3.3 1.1 1.2");
    must_put(t, "r", "{'attributes':{'key':'a','rev':4,'tid':1,'body':'4.1'},'_ttl':60}");
    tabletest_advance(t, 61);
    j.body = "3.1"; /* what is past its end does not exist, though it is still there */
    delete_judged(&j, "{'attributes':{'key':'a'}}");
    assert_true(t->applied);
    bodies("'attributes':{'key':'a'}", "");
}

/* Tids 1 to count of revision 1 of "a", with more attributes. */
static void put_tids(unsigned count, const char *more)
{
    static char batch[TABLE_OPS_MAX * 110];
    for (unsigned tid = 1; tid <= count;) {
        size_t n = 0;
        for (unsigned i = 0; i < TABLE_OPS_MAX && tid <= count; i++, tid++)
            n += (size_t)snprintf(batch + n, sizeof batch - n,
                                  "%c{'op':'put','table':'r','attributes':{'key':'a','rev':1,'tid':"
                                  "%u,'body':'1.%u'%s}}",
                                  i == 0 ? '[' : ',', tid, tid, more);
        (void)snprintf(batch + n, sizeof batch - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", batch), ERR_OK);
    }
}

static void a_row_behind_many_that_expired_is_found_once_they_are_removed(void **state)
{
    (void)state;
    enum { DEAD_ROWS = 10000, LAST = 2 * DEAD_ROWS };
    store_time next;
    struct judge j = { .body = "last" };
    char last[100];
    must_create(t, "r", revisions);
    put_tids(DEAD_ROWS, ",'_ttl':10");
    (void)snprintf(last, sizeof last, "{'attributes':{'key':'a','rev':1,'tid':%d,'body':'last'}}",
                   LAST);
    must_put(t, "r", last);
    tabletest_advance(t, 10);
    t->allow = has_body;
    t->allow_ctx = &j;
    assert_int_equal(tabletest_write(t, 1, QUERY_DELETE, "r", "{'attributes':{'key':'a'}}"),
                     ERR_UNAVAILABLE);
    assert_int_equal(j.asked, 0);
    tabletest_upkeep(t, &next);
    delete_judged(&j, "{'attributes':{'key':'a'}}");
    assert_true(t->applied);
    bodies("'attributes':{'key':'a'}", "");
}

static void a_long_delete_is_judged_once(void **state)
{
    (void)state;
    struct judge j = { .body = "1.1" };
    must_create(t, "r", revisions);
    put_tids(TABLE_DELETE_ROWS_MAX + 100, "");
    delete_judged(&j, "{'attributes':{'key':'a'}}");
    assert_true(t->rows_deleted > TABLE_DELETE_ROWS_MAX);
    assert_int_equal(j.asked, 1);
    bodies("'attributes':{'key':'a'}", "");
}

/* The one row that matches is the first that a look at TABLE_SCAN_ROWS_MAX rows does not come
 * to. */
static void a_look_that_gives_up_goes_on_where_it_was(void **state)
{
    (void)state;
    enum { ROWS = TABLE_SCAN_ROWS_MAX + 3, LIMIT_AT = ROWS - TABLE_SCAN_ROWS_MAX + 1 };
    struct copies c = { .from = ROWS };
    struct engine_row row;
    must_create(t, "r", revisions);
    put_rev("a", ROWS, 1);
    struct engine_view *v = engine_view_begin(t->scratch.engine);
    struct engine_range range = { .space = SPACE_ROW, .from = STR("\1"), .until = STR("\2") };
    struct engine_cursor *cursor = engine_cursor_open(v, &range);
    assert_int_equal(engine_cursor_next(cursor, &row), ERR_OK);
    memcpy(c.key, row.key.p, c.key_n = row.key.n);
    memcpy(c.value, row.value.p, c.value_n = row.value.n);
    engine_cursor_close(&cursor);
    engine_view_end(&v);
    for (; c.from > 0; c.from -= c.count) {
        c.count = c.from < ENGINE_UPDATE_ROWS_MAX ? c.from : ENGINE_UPDATE_ROWS_MAX;
        assert_int_equal(engine_update_wait(t->scratch.engine, copies_write, &c), ERR_OK);
    }
    put_rev("a", LIMIT_AT, 2);
    char joined[512];
    (void)pages(",'attributes':{'key':'a','tid':2}", 5, joined, sizeof joined);
    char want[64];
    (void)snprintf(want, sizeof want, "%d.2 ", LIMIT_AT);
    assert_string_equal(joined, want);
}

static const char *const other =
    "{'attributes':{'title':'string','ts':'long','v':'int'},'index':["
    "{'attribute':'title','type':'hash'},{'attribute':'ts','type':'range'}]}";

static void batches_are_all_or_nothing(void **state)
{
    (void)state;
    fill();
    must_create(t, "o", other);
    assert_int_equal(
        tabletest_write(
            t, 1, QUERY_BATCH, "",
            "[{'op':'put','table':'r','attributes':{'key':'a','rev':5,'tid':1,'body':'5'}},"
            "{'op':'put','table':'o','attributes':{'title':'a','ts':'1','v':5}},"
            "{'op':'delete','table':'r','attributes':{'key':'a','rev':{'lt':3}}}]"),
        ERR_OK);
    assert_true(t->applied);
    bodies("'attributes':{'key':'a'}", "5 3.1 3.2");
    must_get(t, "o", "{}", "[{'title':'a','ts':'1','v':5}]");
    /* one condition fails: none of it happens */
    assert_int_equal(
        tabletest_write(
            t, 1, QUERY_BATCH, "",
            "[{'op':'delete','table':'o','attributes':{'title':'a'}},"
            "{'op':'put','table':'r','attributes':{'key':'a','rev':5,'tid':1},'if':'not exists'}]"),
        ERR_OK);
    assert_false(t->applied);
    must_get(t, "o", "{}", "[{'title':'a','ts':'1','v':5}]");
}

static void batches_stay_on_one_partition(void **state)
{
    (void)state;
    fill();
    must_create(t, "o", other);
    must_refuse(
        t,
        tabletest_write(t, 1, QUERY_BATCH, "",
                        "[{'op':'put','table':'r','attributes':{'key':'a','rev':5,'tid':1}},"
                        "{'op':'put','table':'o','attributes':{'title':'b','ts':'1'}}]"),
        ERR_BAD, "one partition key");
    must_refuse(t, tabletest_write(t, 1, QUERY_BATCH, "", "[]"), ERR_BAD, "operations");
    must_refuse(t, tabletest_write(t, 1, QUERY_BATCH, "", "{}"), ERR_BAD, "array");
    must_refuse(t, tabletest_write(t, 1, QUERY_BATCH, "", "[{'op':'get','table':'r'}]"), ERR_BAD,
                "operation 0");
    must_refuse(t,
                tabletest_write(
                    t, 1, QUERY_BATCH, "",
                    "[{'op':'put','table':'r\\u0000x','attributes':{'key':'a','rev':5,'tid':1}}]"),
                ERR_BAD, "a table");
    must_refuse(t,
                tabletest_write(
                    t, 1, QUERY_BATCH, "",
                    "[{'op':'put\\u0000','table':'r','attributes':{'key':'a','rev':5,'tid':1}}]"),
                ERR_BAD, "put or delete");
    must_refuse(
        t,
        tabletest_write(t, 1, QUERY_PUT, "r",
                        "{'attributes':{'key':'a','rev':5,'tid':1},'if':'not exists\\u0000'}"),
        ERR_BAD, "not exists");
    must_refuse(
        t,
        tabletest_write(t, 1, QUERY_BATCH, "",
                        "[{'op':'put','table':'r','attributes':{'key':'a','rev':5,'tid':1}},"
                        "{'op':'put','table':'o','attributes':{'title':'a'}}]"),
        ERR_BAD, "key is missing");
    must_refuse(t,
                tabletest_write(t, 1, QUERY_BATCH, "",
                                "[{'op':'put','table':'nope','attributes':{'key':'a'}}]"),
                ERR_NOT_FOUND, "nope");
    bodies("'attributes':{'key':'a','rev':{'gt':3}}", "");
}

static void domains_do_not_touch_each_other(void **state)
{
    (void)state;
    fill();
    assert_int_equal(tabletest_get(t, 2, "r", "{}"), ERR_NOT_FOUND);
    assert_int_equal(tabletest_create(t, 2, "r", revisions), ERR_OK);
    assert_int_equal(tabletest_get(t, 2, "r", "{}"), ERR_OK);
    assert_string_equal(t->answer, "{'items':[]}");
    const char *row = "{'attributes':{'key':'a','rev':1,'tid':1,'body':'two'}}";
    assert_int_equal(tabletest_write(t, 2, QUERY_PUT, "r", row), ERR_OK);
    must_delete(t, "r", "{'attributes':{'key':'a'}}");
    assert_int_equal(tabletest_get(t, 2, "r", "{'proj':'body'}"), ERR_OK);
    assert_string_equal(t->answer, "{'items':[{'body':'two'}]}");
    assert_int_equal(tabletest_drop(t, 1, "r"), ERR_OK);
    store_time next;
    tabletest_upkeep(t, &next);
    assert_int_equal(tabletest_get(t, 2, "r", "{'proj':'body'}"), ERR_OK);
    assert_string_equal(t->answer, "{'items':[{'body':'two'}]}");
}

static void a_dropped_table_leaves_nothing(void **state)
{
    (void)state;
    struct engine_stats before, after;
    store_time next;
    fill();
    must_create(t, "o", other);
    assert_int_equal(engine_flush(t->scratch.engine), ERR_OK);
    engine_stats_get(t->scratch.engine, &before);
    for (int i = 0; i < 600; i++) {
        char json[128];
        (void)snprintf(json, sizeof json, "{'attributes':{'title':'t%d','ts':%d,'_ttl':1000}}",
                       i % 7, i);
        must_put(t, "o", json);
    }
    assert_int_equal(tabletest_drop(t, 1, "o"), ERR_OK);
    must_refuse(t, tabletest_get(t, 1, "o", "{}"), ERR_NOT_FOUND, "o");
    must_refuse(t, tabletest_drop(t, 1, "o"), ERR_NOT_FOUND, "o");
    must_create(t, "o", other); /* a new table of that name is empty */
    must_get(t, "o", "{}", "[]");
    must_put(t, "o", "{'attributes':{'title':'t1','ts':7}}");
    tabletest_upkeep(t, &next);
    assert_int_equal(next.ns, INT64_MAX);
    must_get(t, "o", "{'proj':'ts'}", "[{'ts':'7'}]");
    assert_int_equal(engine_flush(t->scratch.engine), ERR_OK);
    engine_stats_get(t->scratch.engine, &after);
    assert_int_equal(after.rows, before.rows + 1);
}

static void migrations_apply_to_stored_rows(void **state)
{
    (void)state;
#define SCHEMA(version, attrs)                                                                     \
    "{'version':" version ",'attributes':{'k':'string'" attrs                                      \
    "},'index':[{'attribute':'k','type':'hash'}]}"
    must_create(t, "m", SCHEMA("1", ",'a':'int'"));
    must_put(t, "m", "{'attributes':{'k':'x','a':1}}");
    must_create(t, "m", SCHEMA("1", ",'a':'int'")); /* again: nothing happens */
    must_refuse(t, tabletest_create(t, 1, "m", SCHEMA("1", ",'a':'int','b':'int'")), ERR_BAD,
                "version");
    must_create(t, "m", SCHEMA("2", ",'a':'int','b':'int'"));
    must_get(t, "m", "{}", "[{'k':'x','a':1,'b':null}]");
    must_create(t, "m", SCHEMA("3", ",'b':'int'"));
    must_get(t, "m", "{}", "[{'k':'x','b':null}]");
    must_create(t, "m", SCHEMA("4", ",'a':'string'")); /* another attribute of that name */
    must_get(t, "m", "{}", "[{'k':'x','a':null}]");
    must_refuse(t, tabletest_create(t, 1, "m", SCHEMA("3", "")), ERR_BAD, "version");
    tabletest_reopen(t);
    must_get(t, "m", "{}", "[{'k':'x','a':null}]");
#undef SCHEMA
}

static void several_hash_attributes_make_one_partition(void **state)
{
    (void)state;
    must_create(t, "h",
                "{'attributes':{'a':'string','b':'string','v':'int'},'index':["
                "{'attribute':'a','type':'hash'},{'attribute':'b','type':'hash'}]}");
    must_put(t, "h", "{'attributes':{'a':'x','b':'yz','v':1}}");
    must_put(t, "h", "{'attributes':{'a':'xy','b':'z','v':2}}");
    must_put(t, "h", "{'attributes':{'a':'x\\u0000','b':'z','v':3}}");
    must_get(t, "h", "{'attributes':{'a':'x'},'proj':'v'}", "[{'v':1}]");
    must_get(t, "h", "{'attributes':{'b':'z'},'proj':'v'}", "[{'v':3},{'v':2}]");
    must_get(t, "h", "{'attributes':{'a':'x','b':'z'},'proj':'v'}", "[]");
    must_delete(t, "h", "{'attributes':{'a':'x','b':'yz'}}");
    must_get(t, "h", "{'proj':'v'}", "[{'v':3},{'v':2}]");
}

#define ROW_TEST(name) cmocka_unit_test_setup_teardown(name, tabletest_setup, tabletest_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW_TEST(rows_come_in_the_order_of_the_index),
        ROW_TEST(predicates_select),
        ROW_TEST(bad_queries_are_named),
        ROW_TEST(pages_join_without_gap_or_repeat),
        ROW_TEST(a_token_of_another_query_is_refused),
        ROW_TEST(distinct_gives_each_partition_once),
        ROW_TEST(a_put_keeps_what_it_does_not_name),
        ROW_TEST(a_long_key_is_refused_by_name),
        ROW_TEST(large_rows_come_back),
        ROW_TEST(static_attributes_belong_to_the_partition),
        ROW_TEST(rows_expire_on_time_and_are_removed),
        ROW_TEST(an_expired_row_does_not_exist),
        ROW_TEST(a_table_can_expire_all_its_rows),
        ROW_TEST(conditions_are_decided_inside_the_update),
        ROW_TEST(deletes_take_points_ranges_and_partitions),
        ROW_TEST(a_long_delete_runs_as_several),
        ROW_TEST(a_delete_is_judged_by_the_first_row_that_it_names),
        ROW_TEST(a_row_behind_many_that_expired_is_found_once_they_are_removed),
        ROW_TEST(a_long_delete_is_judged_once),
        ROW_TEST(a_look_that_gives_up_goes_on_where_it_was),
        ROW_TEST(batches_are_all_or_nothing),
        ROW_TEST(batches_stay_on_one_partition),
        ROW_TEST(domains_do_not_touch_each_other),
        ROW_TEST(a_dropped_table_leaves_nothing),
        ROW_TEST(migrations_apply_to_stored_rows),
        ROW_TEST(several_hash_attributes_make_one_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
