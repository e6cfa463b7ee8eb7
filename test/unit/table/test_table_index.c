/* Goal: what table.h promises of secondary indexes, on a real engine: the cases of the peer's suite
 * first, then paging, statics, migrations that add and take away, what is refused, and that nothing
 * stays behind. Method: JSON queries, answers compared as text; entries and trails counted in the
 * store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/schema.h"
#include "table/store.h"
#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <string.h>

static struct tabletest *const t = &tabletest;

/* Keys in the space of rows that begin so: 1 rows, 2 expiries, 3 entries, 4 trails. */
static unsigned keys_of(char kind)
{
    char until = (char)(kind + 1);
    unsigned count = 0;
    struct engine_row row;
    struct engine_view *v = engine_view_begin(t->scratch.engine);
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = { .p = &kind, .n = 1 },
                                  .until = { .p = &until, .n = 1 } };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    while (engine_cursor_next(c, &row) == ERR_OK)
        count++;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return count;
}

static void entries_are(unsigned count)
{
    assert_int_equal(keys_of(3), count);
    assert_int_equal(keys_of(4), count);
}

static const char *tid(int n, char out[40])
{
    (void)snprintf(out, 40, "%08x-6c31-11e4-b6d0-0f67e29867e0", n);
    return out;
}

#define SIMPLE_ATTRS                                                                               \
    "'attributes':{'key':'string','tid':'timeuuid','latestTid':'timeuuid','uri':'string',"         \
    "'body':'string','restrictions':'set<string>'},'index':[{'attribute':'key','type':'hash'},"    \
    "{'attribute':'tid','type':'range','order':'desc'}]"
static const char *const simple =
    "{" SIMPLE_ATTRS ",'secondaryIndexes':{'by_uri':[{'attribute':'uri','type':'hash'},"
    "{'attribute':'body','type':'proj'}]}}";

static void put_simple(const char *key, int version, const char *uri, const char *body)
{
    char json[512], at[40];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'key':'%s','tid':'%s','uri':'%s','body':'%s'}}", key,
                   tid(version, at), uri, body);
    must_put(t, "s", json);
}

#define BY_URI(uri) "{'index':'by_uri','attributes':{'uri':'" uri "'},'proj':['key','uri','body']}"

static void the_newest_version_is_what_an_index_gives(void **state)
{
    (void)state;
    must_create(t, "s", simple);
    put_simple("test", 1, "uri1", "body1");
    put_simple("test", 2, "uri2", "body2");
    put_simple("test", 3, "uri3", "body3");
    put_simple("test2", 4, "uri1", "test_body1");
    put_simple("test2", 5, "uri2", "test_body2");
    put_simple("test2", 6, "uri3", "test_body3");
    put_simple("test2", 7, "uri3", "test_body3_modified");
    must_get(t, "s", BY_URI("uri1"), "[]");
    must_get(t, "s", BY_URI("uri2"), "[]");
    must_get(t, "s", BY_URI("uri3"),
             "[{'key':'test2','uri':'uri3','body':'test_body3_modified'},"
             "{'key':'test','uri':'uri3','body':'body3'}]");
    must_get(t, "s", "{'index':'by_uri','attributes':{'uri':'uri3','key':'test'}}",
             "[{'key':'test','uri':'uri3','body':'body3'}]");
    put_simple("test2", 6, "uri3", "late"); /* a late put of an older version */
    put_simple("test2", 2, "uri1", "late");
    must_get(t, "s", BY_URI("uri1"), "[]");
    must_get(t, "s", "{'index':'by_uri','attributes':{'uri':'uri3','key':'test2'},'proj':'body'}",
             "[{'body':'test_body3_modified'}]");
    char json[256], at[40];
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'test','tid':'%s'}}", tid(3, at));
    must_delete(t, "s", json); /* the one before it is the newest again */
    must_get(t, "s", BY_URI("uri2"), "[{'key':'test','uri':'uri2','body':'body2'}]");
    tabletest_reopen(t);
    must_get(t, "s", BY_URI("uri2"), "[{'key':'test','uri':'uri2','body':'body2'}]");
}

static void without_a_version_each_row_counts(void **state)
{
    (void)state;
    must_create(
        t, "u",
        "{'attributes':{'key':'string','uri':'string','body':'string'},'index':["
        "{'attribute':'key','type':'hash'},{'attribute':'uri','type':'range','order':'desc'}],"
        "'secondaryIndexes':{'by_uri':[{'attribute':'uri','type':'hash'},"
        "{'attribute':'key','type':'range','order':'desc'},{'attribute':'body','type':'proj'}]}}");
    must_put(t, "u", "{'attributes':{'key':'another test','uri':'a uri','body':'a body'}}");
    must_get(t, "u", BY_URI("a uri"), "[{'key':'another test','uri':'a uri','body':'a body'}]");
    must_put(t, "u", "{'attributes':{'key':'another test','uri':'a uri','body':'abcd'}}");
    must_get(t, "u", BY_URI("a uri"), "[{'key':'another test','uri':'a uri','body':'abcd'}]");
    must_put(t, "u", "{'attributes':{'key':'b','uri':'a uri'}}");
    must_get(t, "u",
             "{'index':'by_uri','attributes':{'uri':'a uri'},'proj':'key','order':{'key':'asc'}}",
             "[{'key':'another test'},{'key':'b'}]");
    entries_are(2);
    assert_int_equal(tabletest_drop(t, 1, "u"), ERR_OK);
    store_time next;
    tabletest_upkeep(t, &next);
    entries_are(0);
    assert_int_equal(keys_of(1), 0);
}

static void other_parts_of_the_key_keep_rows_apart(void **state)
{
    (void)state;
    char json[256], at[40];
    must_create(t, "r",
                "{'attributes':{'key':'string','range':'int','tid':'timeuuid','uri':'string','body'"
                ":'string'},"
                "'index':[{'attribute':'key','type':'hash'},{'attribute':'range','type':'range'},"
                "{'attribute':'tid','type':'range','order':'desc'}],"
                "'secondaryIndexes':{'by_uri':[{'attribute':'uri','type':'hash'},"
                "{'attribute':'body','type':'proj'}]}}");
    for (int i = 1; i <= 2; i++) {
        (void)snprintf(json, sizeof json,
                       "{'attributes':{'key':'test1','range':%d,'tid':'%s','uri':'uri%d',"
                       "'body':'body%d'}}",
                       i, tid(i, at), i, i);
        must_put(t, "r", json);
    }
    must_get(t, "r", BY_URI("uri1"), "[{'key':'test1','uri':'uri1','body':'body1'}]");
    must_get(t, "r",
             "{'index':'by_uri','attributes':{'uri':'uri2','key':'test1','range':{'ge':2}}}",
             "[{'key':'test1','range':2,'uri':'uri2','body':'body2'}]");
}

/* ---- an index with orders of its own ---- */

static const char *const people =
    "{'attributes':{'id':'int','city':'string','age':'int','name':'string','note':'string'},'index'"
    ":["
    "{'attribute':'id','type':'hash'}],'secondaryIndexes':{'by_age':[{'attribute':'city','type':'"
    "hash'},"
    "{'attribute':'age','type':'range'},{'attribute':'name','type':'proj'}]}}";

static void put_person(int id, const char *city, int age)
{
    char json[256];
    (void)snprintf(json, sizeof json, "{'attributes':{'id':%d,'city':'%s','age':%d,'name':'n%d'}}",
                   id, city, age, id);
    must_put(t, "p", json);
}

static void fill_people(void)
{
    must_create(t, "p", people);
    for (int id = 0; id < 12; id++)
        put_person(id, id % 3 == 0 ? "Oslo" : "Rome", id / 2);
}

static void ids(const char *query, const char *want)
{
    char whole[512];
    (void)snprintf(whole, sizeof whole, "{'index':'by_age','proj':'id',%s}", query);
    must_get(t, "p", whole, want);
}

static void predicates_and_orders_are_those_of_the_index(void **state)
{
    (void)state;
    fill_people();
    ids("'attributes':{'city':'Oslo'}", "[{'id':0},{'id':3},{'id':6},{'id':9}]");
    ids("'attributes':{'city':'Oslo'},'order':{'age':'desc'}",
        "[{'id':9},{'id':6},{'id':3},{'id':0}]");
    ids("'attributes':{'city':'Rome','age':{'between':[1,3]}}",
        "[{'id':2},{'id':5},{'id':4},{'id':7}]");
    ids("'attributes':{'city':'Rome','age':2}",
        "[{'id':5},{'id':4}]"); /* the rest of the key descends */
    ids("'attributes':{'city':'Rome','age':2,'id':{'lt':5}}", "[{'id':4}]");
    ids("'attributes':{'city':'Rome','id':4}", "[{'id':4}]");
    ids("'attributes':{'age':{'ge':5}}", "[{'id':11},{'id':10}]");
    must_get(t, "p", "{'index':'by_age','distinct':true}", "[{'city':'Oslo'},{'city':'Rome'}]");
    must_get(t, "p", "{'index':'by_age','attributes':{'city':'Oslo','age':0}}",
             "[{'id':0,'city':'Oslo','age':0,'name':'n0'}]");
    static const struct {
        const char *json, *says;
    } bad[] = {
        { "{'index':'by_age','attributes':{'name':'n1'}}", "name is not a hash or range" },
        { "{'index':'by_age','attributes':{'note':'x'}}", "no attribute note in index by_age" },
        { "{'index':'by_age','proj':['note']}", "no attribute note in index by_age" },
        { "{'index':'by_age','attributes':{'city':{'gt':'a'}}}", "eq only" },
        { "{'index':'by_age','order':{'city':'asc'}}", "range attribute" },
        { "{'index':'by_age','attributes':{'':1}}", "no attribute" },
        { "{'index':'by_age','proj':['']}", "no attribute" },
        { "{'index':'by_name'}", "no index by_name" },
    };
    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        must_refuse(t, tabletest_get(t, 1, "p", bad[i].json), ERR_BAD, bad[i].says);
}

/* Pages of one row each way give what one answer gives, and end. */
static void pages_are(const char *table, const char *query, unsigned rows)
{
    char json[2048], next[1024] = "";
    for (unsigned i = 0; i < rows; i++) {
        (void)snprintf(json, sizeof json, "{%s,'limit':1%s%s%s}", query,
                       next[0] == 0 ? "" : ",'next':'", next, next[0] == 0 ? "" : "'");
        assert_int_equal(tabletest_get(t, 1, table, json), ERR_OK);
        const char *found = strstr(t->answer, "'next':'");
        if ((found == NULL) != (i + 1 == rows))
            fail_msg("page %u of %s: %s", i, query, t->answer);
        next[0] = 0;
        if (found != NULL)
            (void)snprintf(next, sizeof next, "%.*s", (int)strcspn(found + 8, "'"), found + 8);
    }
}

static void paging_goes_through_an_index(void **state)
{
    (void)state;
    fill_people();
    pages_are("p", "'index':'by_age','attributes':{'city':'Rome'}", 8);
    pages_are("p", "'index':'by_age','attributes':{'city':'Rome'},'order':{'age':'desc'}", 8);
    pages_are("p", "'index':'by_age','attributes':{}", 12);
    pages_are("p", "'index':'by_age','distinct':true", 2);
    must_create(t, "s", simple);
    for (int i = 1; i <= 3; i++)
        for (int key = 0; key < 4; key++)
            put_simple((const char *[]){ "a", "b", "c", "d" }[key], i, "u", "x");
    put_simple("b", 4, "other", "x");
    pages_are("s", "'index':'by_uri','attributes':{'uri':'u'}", 3);
    pages_are("s", "'index':'by_uri','attributes':{'uri':'u'},'order':{'key':'asc'}", 3);
    /* A token of one query is none of another. */
    assert_int_equal(tabletest_get(t, 1, "p",
                                   "{'index':'by_age','attributes':{'city':'Oslo'},'limit':1}"),
                     ERR_OK);
    char json[1024];
    const char *found = strstr(t->answer, "'next':'");
    assert_non_null(found);
    (void)snprintf(json, sizeof json, "{'next':'%.*s'}", (int)strcspn(found + 8, "'"), found + 8);
    must_refuse(t, tabletest_get(t, 1, "p", json), ERR_BAD, "next");
}

/* ---- writes ---- */

static void entries_follow_what_is_written(void **state)
{
    (void)state;
    fill_people();
    entries_are(12);
    must_put(t, "p", "{'attributes':{'id':0,'city':'Rome'}}"); /* age is kept */
    ids("'attributes':{'city':'Oslo'}", "[{'id':3},{'id':6},{'id':9}]");
    ids("'attributes':{'city':'Rome','age':0}", "[{'id':1},{'id':0}]");
    must_put(t, "p", "{'attributes':{'id':0,'note':'x'}}");
    must_put(t, "p", "{'attributes':{'id':3,'age':null}}"); /* no value: not in the index */
    must_put(t, "p", "{'attributes':{'id':77,'city':'Oslo'}}");
    ids("'attributes':{'city':'Oslo'}", "[{'id':6},{'id':9}]");
    entries_are(11);
    must_delete(t, "p", "{'attributes':{'id':6}}");
    entries_are(10);
    assert_int_equal(
        tabletest_write(t, 1, QUERY_BATCH, "",
                        "["
                        "{'op':'put','table':'p','attributes':{'id':9,'age':0}},"
                        "{'op':'put','table':'p','attributes':{'id':9,'city':'Bern'}}]"),
        ERR_OK);
    ids("'attributes':{'city':'Bern'}", "[{'id':9}]");
    assert_int_equal(
        tabletest_write(
            t, 1, QUERY_BATCH, "",
            "["
            "{'op':'put','table':'p','attributes':{'id':9,'age':1}},"
            "{'op':'put','table':'p','attributes':{'id':9,'city':'Rome'},'if':'not exists'}]"),
        ERR_OK);
    assert_false(t->applied);
    ids("'attributes':{'city':'Bern','age':0}", "[{'id':9}]");
    entries_are(10);
}

static void expired_rows_leave_an_index(void **state)
{
    (void)state;
    store_time next;
    must_create(t, "s", simple);
    put_simple("a", 1, "u", "old");
    char json[256], at[40];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'key':'a','tid':'%s','uri':'other','_ttl':10}}", tid(2, at));
    must_put(t, "s", json);
    must_get(t, "s", BY_URI("u"), "[]");
    must_get(t, "s", "{'index':'by_uri','attributes':{'uri':'other'},'withTTL':true,'proj':'key'}",
             "[{'key':'a','_ttl':10}]");
    tabletest_advance(t, 11);
    must_get(t, "s", BY_URI("other"), "[]"); /* before any upkeep */
    must_get(t, "s", BY_URI("u"), "[{'key':'a','uri':'u','body':'old'}]");
    entries_are(2);
    tabletest_upkeep(t, &next);
    entries_are(1);
    assert_int_equal(keys_of(2), 0);
    must_get(t, "s", BY_URI("u"), "[{'key':'a','uri':'u','body':'old'}]");
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'key':'a','tid':'%s','uri':'other','_ttl':10}}", tid(3, at));
    must_put(t, "s", json);
    tabletest_advance(t, 11);
    put_simple("a", 3, "third", "again"); /* over a row that expired and is still there */
    must_get(t, "s", BY_URI("third"), "[{'key':'a','uri':'third','body':'again'}]");
    entries_are(2);
}

static void range_deletes_take_the_entries(void **state)
{
    (void)state;
    must_create(t, "s", simple);
    char json[256], at[40];
    for (int i = 1; i <= 9; i++)
        put_simple("a", i, i % 2 == 0 ? "even" : "odd", "x");
    put_simple("b", 1, "odd", "x");
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'a','tid':{'gt':'%s'}}}", tid(4, at));
    must_delete(t, "s", json);
    must_get(t, "s", "{'index':'by_uri','attributes':{'uri':'even'},'proj':'key'}",
             "[{'key':'a'}]");
    entries_are(5);
    must_delete(t, "s", "{'attributes':{'key':'a'}}");
    must_get(t, "s", "{'index':'by_uri','attributes':{'uri':'odd'},'proj':'key'}", "[{'key':'b'}]");
    entries_are(1);
}

static void an_entry_that_is_too_long_refuses_the_put(void **state)
{
    (void)state;
    char json[1024], uri[481];
    must_create(t, "s", simple);
    put_simple("a", 1, "u", "first");
    memset(uri, 'x', sizeof uri - 1);
    uri[sizeof uri - 1] = 0;
    char at[40];
    (void)snprintf(json, sizeof json, "{'attributes':{'key':'a','tid':'%s','uri':'%s'}}",
                   tid(1, at), uri);
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "s", json), ERR_BAD, "index by_uri is longer");
    must_get(t, "s", BY_URI("u"), "[{'key':'a','uri':'u','body':'first'}]");
    entries_are(1);
}

static void static_attributes_are_shown_as_the_partition_has_them(void **state)
{
    (void)state;
    must_create(
        t, "w",
        "{'attributes':{'key':'string','rev':'int','owner':'string','tag':'string'},'index':["
        "{'attribute':'key','type':'hash'},{'attribute':'owner','type':'static'},"
        "{'attribute':'rev','type':'range'}],'secondaryIndexes':{'by_tag':["
        "{'attribute':'tag','type':'hash'},{'attribute':'owner','type':'proj'}]}}");
    must_put(t, "w", "{'attributes':{'key':'a','rev':1,'tag':'t','owner':'ann'}}");
    must_put(t, "w", "{'attributes':{'key':'b','rev':1,'tag':'t','owner':'bob'}}");
    must_put(t, "w", "{'attributes':{'key':'a','rev':2,'tag':'t','owner':'eve'}}");
    must_get(t, "w", "{'index':'by_tag','attributes':{'tag':'t'},'proj':['key','rev','owner']}",
             "[{'key':'b','rev':1,'owner':'bob'},{'key':'a','rev':2,'owner':'eve'},{'key':'a','rev'"
             ":1,'owner':'eve'}]");
    entries_are(3);
}

/* ---- the table's key, named as proj ---- */

#define PAGES                                                                                      \
    "{'version':%d,'attributes':{'page':'string','tid':'timeuuid','user':'string','size':'int'},'" \
    "index':["                                                                                     \
    "{'attribute':'page','type':'hash'},{'attribute':'tid','type':'range','order':'desc'}],'"      \
    "secondaryIndexes':{"                                                                          \
    "'by_user':[{'attribute':'user','type':'hash'},{'attribute':'page','type':'proj'}%s]}}"

static void create_pages(int version, const char *more)
{
    char json[512];
    (void)snprintf(json, sizeof json, PAGES, version, more);
    must_create(t, "g", json);
}

static void put_page(const char *page, int version)
{
    char json[256], at[40];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'page':'%s','tid':'%s','user':'ann','size':1}}", page,
                   tid(version, at));
    must_put(t, "g", json);
}

static void what_is_named_as_proj_stays_in_the_key(void **state)
{
    (void)state;
    create_pages(1, "");
    put_page("A", 1);
    put_page("B", 1);
    put_page("C", 1);
    put_page("C", 2);
    entries_are(4);
    must_get(t, "g", "{'index':'by_user','attributes':{'user':'ann'}}",
             "[{'page':'C','user':'ann'},{'page':'B','user':'ann'},{'page':'A','user':'ann'}]");
    must_get(t, "g", "{'index':'by_user','attributes':{'user':'ann','page':'B'},'proj':'page'}",
             "[{'page':'B'}]");
    must_delete(t, "g", "{'attributes':{'page':'C'}}");
    must_get(t, "g",
             "{'index':'by_user','attributes':{'user':'ann'},'order':{'page':'asc'},'proj':'page'}",
             "[{'page':'A'},{'page':'B'}]");
    pages_are("g", "'index':'by_user','attributes':{'user':'ann'}", 2);
}

static void a_version_named_as_proj_is_shown_of_every_row(void **state)
{
    (void)state;
    char want[512], old[40], new[40];
    create_pages(1, ",{'attribute':'tid','type':'proj'}");
    put_page("A", 1);
    put_page("A", 2);
    put_page("B", 1);
    (void)snprintf(want, sizeof want,
                   "[{'page':'B','tid':'%s'},{'page':'A','tid':'%s'},{'page':'A','tid':'%s'}]",
                   tid(1, old), tid(2, new), old);
    must_get(t, "g", "{'index':'by_user','attributes':{'user':'ann'},'proj':['page','tid']}", want);
}

/* As it was stored before: what an index named as proj was not in its entries. */
static err key_of_index_cut(struct engine_txn *txn, void *ctx)
{
    struct key_buf key;
    struct engine_row row;
    struct arena a;
    struct buf b;
    struct schema *s;
    (void)ctx;
    arena_init(&a, 1 << 20);
    buf_init(&b, 1 << 16);
    store_schema_key(&key, 1, STR("g"));
    err e = engine_get(engine_txn_view(txn), SPACE_SCHEMA, key_buf_str(&key), &row);
    if (e == ERR_OK)
        e = schema_unpack(&a, STR("g"), row.value, &s);
    if (e == ERR_OK) {
        struct schema_index *ix = &s->indexes[0];
        ix->keys[1] = ix->keys[2]; /* the version, without the page */
        ix->range_count = 1;
        schema_pack(&b, s);
        e = engine_txn_put(txn, SPACE_SCHEMA, key_buf_str(&key), buf_str(&b), STR_NONE);
    }
    buf_fini(&b);
    arena_fini(&a);
    return e;
}

static void an_index_stored_without_the_whole_key_is_made_anew(void **state)
{
    (void)state;
    const char *ask = "{'index':'by_user','attributes':{'user':'ann'},'proj':'page'}";
    store_time next;
    for (int round = 0; round < 2; round++) { /* by the same schema, and by a higher version */
        create_pages(1, "");
        assert_int_equal(engine_update_wait(t->scratch.engine, key_of_index_cut, NULL), ERR_OK);
        put_page("A", 1);
        put_page("B", 1); /* has the entry of A */
        put_page("C", 3);
        assert_int_equal(keys_of(3), 2);
        tabletest_reopen(t);
        must_refuse(t, tabletest_get(t, 1, "g", ask), ERR_BAD, "put the schema again");
        create_pages(1 + round, "");
        must_refuse(t, tabletest_get(t, 1, "g", ask), ERR_CONFLICT, "still being filled");
        tabletest_upkeep(t, &next);
        must_get(t, "g", ask, "[{'page':'C'},{'page':'B'},{'page':'A'}]");
        assert_int_equal(keys_of(3), 3);
        must_delete(t, "g", "{'attributes':{'page':'A'}}");
        put_page("B", 2);
        must_get(t, "g", ask, "[{'page':'C'},{'page':'B'}]");
        create_pages(1 + round, "");
        must_get(t, "g", ask, "[{'page':'C'},{'page':'B'}]");
        assert_int_equal(tabletest_drop(t, 1, "g"), ERR_OK);
        tabletest_upkeep(t, &next);
        entries_are(0);
    }
}

/* ---- migrations ---- */

#define PEOPLE(version, indexes)                                                                   \
    "{'version':" version ",'attributes':{'id':'int','city':'string','age':'int',"                 \
    "'name':'string','body':'string'},'index':[{'attribute':'id','type':'hash'}],'"                \
    "secondaryIndexes':{" indexes "}}"
#define BY_CITY "'by_city':[{'attribute':'city','type':'hash'},{'attribute':'name','type':'proj'}]"
#define BY_NAME "'by_name':[{'attribute':'name','type':'hash'}]"

static void an_index_that_is_added_is_filled(void **state)
{
    (void)state;
    store_time next;
    char json[4096], body[3000];
    memset(body, 'b', sizeof body - 1);
    body[sizeof body - 1] = 0;
    must_create(t, "p", PEOPLE("1", ""));
    for (int id = 0; id < 300; id++) {
        (void)snprintf(json, sizeof json,
                       "{'attributes':{'id':%d,'city':'%s','name':'n%d','body':'%s'}}", id,
                       id < 3 ? "Oslo" : "Rome", id, id % 100 == 0 ? body : "x");
        must_put(t, "p", json);
    }
    entries_are(0);
    must_create(t, "p", PEOPLE("2", BY_CITY));
    const char *oslo = "{'index':'by_city','attributes':{'city':'Oslo'},'proj':'id'}";
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_CONFLICT, "still being filled");
    bool more;
    assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_OK); /* a part of it */
    assert_true(more);
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_CONFLICT, "still being filled");
    must_put(t, "p",
             "{'attributes':{'id':0,'city':'Bern'}}"); /* one that was filled, one that was not */
    must_put(t, "p", "{'attributes':{'id':299,'city':'Oslo'}}");
    must_delete(t, "p", "{'attributes':{'id':1}}");
    must_delete(t, "p", "{'attributes':{'id':298}}");
    tabletest_reopen(t);
    tabletest_upkeep(t, &next);
    must_get(t, "p", oslo, "[{'id':299},{'id':2}]");
    entries_are(298);
    must_get(t, "p",
             "{'index':'by_city','attributes':{'city':'Rome','id':250},'proj':['id','name']}",
             "[{'id':250,'name':'n250'}]");
    must_create(t, "p", PEOPLE("3", BY_CITY "," BY_NAME));
    must_get(t, "p", oslo, "[{'id':299},{'id':2}]"); /* the one that stays answers all the while */
    tabletest_upkeep(t, &next);
    entries_are(2 * 298);
    must_get(t, "p", "{'index':'by_name','attributes':{'name':'n77'}}", "[{'id':77,'name':'n77'}]");
    must_create(t, "p", PEOPLE("4", BY_NAME));
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_BAD, "no index by_city");
    must_refuse(t, tabletest_create(t, 1, "p", PEOPLE("5", BY_CITY "," BY_NAME)), ERR_CONFLICT,
                "still being removed");
    tabletest_upkeep(t, &next);
    entries_are(298);
    must_create(t, "p", PEOPLE("5", BY_CITY "," BY_NAME));
    tabletest_upkeep(t, &next);
    must_get(t, "p", oslo, "[{'id':299},{'id':2}]");
    entries_are(2 * 298);
    must_delete(t, "p", "{'attributes':{'id':299}}"); /* rows filled know what they have */
    entries_are(2 * 297);
    must_create(
        t, "p",
        PEOPLE("6",
               "'by_city':[{'attribute':'age','type':'hash'}]")); /* another of the same name */
    tabletest_upkeep(t, &next);
    entries_are(0);
    assert_int_equal(tabletest_drop(t, 1, "p"), ERR_OK);
    tabletest_upkeep(t, &next);
    assert_int_equal(keys_of(1), 0);
}

static void an_index_that_cannot_be_filled_says_so(void **state)
{
    (void)state;
    store_time next;
    char json[1024], city[481];
    memset(city, 'x', sizeof city - 1);
    city[sizeof city - 1] = 0;
    must_create(t, "p", PEOPLE("1", ""));
    (void)snprintf(json, sizeof json, "{'attributes':{'id':1,'city':'%s'}}", city);
    must_put(t, "p", json);
    must_create(t, "p", PEOPLE("2", BY_CITY "," BY_NAME));
    tabletest_upkeep(t, &next);
    must_refuse(t, tabletest_get(t, 1, "p", "{'index':'by_city'}"), ERR_BAD, "could not be filled");
    must_refuse(t, tabletest_get(t, 1, "p", "{'index':'by_city'}"), ERR_BAD,
                "version of the schema: {\"id\":1}");
    must_get(t, "p", "{'index':'by_name'}", "[]");
    must_create(t, "p", PEOPLE("3", BY_NAME));
    tabletest_upkeep(t, &next);
    must_put(t, "p", json);
    entries_are(0);
}

static void a_higher_version_fills_again_what_failed(void **state)
{
    (void)state;
    store_time next;
    char json[1024], city[481];
    const char *oslo = "{'index':'by_city','attributes':{'city':'Oslo'},'proj':'id'}";
    memset(city, 'x', sizeof city - 1);
    city[sizeof city - 1] = 0;
    must_create(t, "p", PEOPLE("1", ""));
    for (int id = 0; id < 300; id++) { /* more than are filled at once */
        (void)snprintf(json, sizeof json, "{'attributes':{'id':%d,'city':'%s'}}", id,
                       id < 2 ? "Oslo" : "Rome");
        must_put(t, "p", json);
    }
    (void)snprintf(json, sizeof json, "{'attributes':{'id':298,'city':'%s'}}", city);
    must_put(t, "p", json);
    must_create(t, "p", PEOPLE("2", BY_CITY));
    tabletest_upkeep(t, &next);
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_BAD, "{\"id\":298}");
    must_put(t, "p", "{'attributes':{'id':1,'city':'Bern'}}");
    must_put(t, "p", "{'attributes':{'id':2,'city':'Oslo'}}");
    must_put(t, "p", "{'attributes':{'id':299,'city':'Oslo'}}");
    must_create(t, "p", PEOPLE("3", BY_CITY)); /* the row is still there */
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_CONFLICT, "still being filled");
    tabletest_upkeep(t, &next);
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_BAD, "{\"id\":298}");
    must_put(t, "p", "{'attributes':{'id':298,'city':'Rome'}}");
    tabletest_reopen(t);
    tabletest_upkeep(t, &next);
    must_refuse(t, tabletest_get(t, 1, "p", oslo), ERR_BAD, "could not be filled");
    must_create(t, "p", PEOPLE("4", BY_CITY));
    tabletest_upkeep(t, &next);
    must_get(t, "p", oslo, "[{'id':299},{'id':2},{'id':0}]");
    entries_are(300);
    must_create(t, "p", PEOPLE("5", BY_CITY)); /* what is filled stays so */
    must_get(t, "p", oslo, "[{'id':299},{'id':2},{'id':0}]");
}

static void a_table_dropped_while_it_is_filled_leaves_nothing(void **state)
{
    (void)state;
    store_time next;
    must_create(t, "p", PEOPLE("1", ""));
    must_put(t, "p", "{'attributes':{'id':1,'city':'Oslo'}}");
    must_create(t, "p", PEOPLE("2", BY_CITY));
    must_put(t, "p", "{'attributes':{'id':2,'city':'Oslo'}}");
    assert_int_equal(tabletest_drop(t, 1, "p"), ERR_OK);
    must_create(t, "p", PEOPLE("1", BY_CITY));
    must_get(t, "p", "{'index':'by_city'}", "[]");
    tabletest_upkeep(t, &next);
    entries_are(0);
    assert_int_equal(keys_of(1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_version_is_what_an_index_gives, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(without_a_version_each_row_counts, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(other_parts_of_the_key_keep_rows_apart, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(predicates_and_orders_are_those_of_the_index,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(paging_goes_through_an_index, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(entries_follow_what_is_written, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(expired_rows_leave_an_index, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(range_deletes_take_the_entries, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_entry_that_is_too_long_refuses_the_put, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(static_attributes_are_shown_as_the_partition_has_them,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(what_is_named_as_proj_stays_in_the_key, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_version_named_as_proj_is_shown_of_every_row,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_index_stored_without_the_whole_key_is_made_anew,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_index_that_is_added_is_filled, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(an_index_that_cannot_be_filled_says_so, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_higher_version_fills_again_what_failed, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_table_dropped_while_it_is_filled_leaves_nothing,
                                        tabletest_setup, tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
