/* Goal: what a put cannot finish of a retention policy the upkeep does, also after a restart
 * (trim.h): groups with more rows that end by themselves, and partitions with more rows that are
 * superseded, than one put looks at; the policy ttl. Method: such groups on a real engine under a
 * clock that the test moves; what is left, compared as text, and random histories beside a
 * reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "history.h"
#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <string.h>

static struct tabletest *const t = &tabletest;

#define SCHEMA(version, policy)                                                                    \
    "{'version':" version ",'attributes':{'k':'string','r':'int','tid':'timeuuid',"                \
    "'n':'int','s':'int'},'index':[{'attribute':'k','type':'hash'},{'attribute':'r','type':'"      \
    "range','order':'desc'},"                                                                      \
    "{'attribute':'tid','type':'range','order':'desc'},{'attribute':'s','type':'static'}]"         \
    ",'revisionRetentionPolicy':{" policy "}}"
#define LATEST "'type':'latest','count':1,'grace_ttl':100"

enum { PUT_BYTES = 256 };

/* Versions first to last of a row, oldest first, each in its batch; more: behind the attributes. */
static void put_versions(int r, int first, int last, const char *more)
{
    static char json[PUT_BYTES * TABLE_OPS_MAX];
    char text[TID_TEXT_BYTES + 1];
    for (int v = first; v <= last;) {
        size_t n = 0;
        for (int i = 0; i < TABLE_OPS_MAX && v <= last; i++, v++)
            n += (size_t)snprintf(json + n, sizeof json - n,
                                  "%s{'op':'put','table':'t','attributes':{'k':'a','r':%d,"
                                  "'tid':'%s','n':%d%s}}",
                                  i == 0 ? "[" : ",", r, tid_at(v, text), v, more);
        (void)snprintf(json + n, sizeof json - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_OK);
    }
}

static void put_version(int r, int version, const char *more)
{
    put_versions(r, version, version, more);
}

static void delete_version(int r, int version)
{
    char json[PUT_BYTES], text[TID_TEXT_BYTES + 1];
    (void)snprintf(json, sizeof json, "{'attributes':{'k':'a','r':%d,'tid':'%s'}}", r,
                   tid_at(version, text));
    must_delete(t, "t", json);
}

static void version_is(int version, const char *want)
{
    char json[PUT_BYTES], text[TID_TEXT_BYTES + 1];
    (void)snprintf(json, sizeof json,
                   "{'attributes':{'k':'a','r':1,'tid':'%s'},'proj':'n','withTTL':true}",
                   tid_at(version, text));
    must_get(t, "t", json, want);
}

static void upkeep(void)
{
    store_time next;
    tabletest_upkeep(t, &next);
}

/* ---- groups ---- */

static void short_lives_never_push_out_a_lasting_one(unsigned count)
{
    must_create(t, "t", SCHEMA("1", LATEST));
    put_version(1, 1, "");
    put_versions(1, 2, 1 + (int)count, ",'_ttl':10");
    version_is(1, "[{'n':1}]");
    tabletest_reopen(t);
    upkeep();
    version_is(1, "[{'n':1}]");
    tabletest_advance(t, 11);
    upkeep();
    tabletest_advance(t, 100000);
    upkeep();
    must_get(t, "t", "{'proj':'n','withTTL':true}", "[{'n':1}]");
}

static void more_short_lives_than_a_put_passes_push_out_nothing(void **state)
{
    (void)state;
    short_lives_never_push_out_a_lasting_one(80);
}

static void more_short_lives_than_a_step_of_the_upkeep_passes_push_out_nothing(void **state)
{
    (void)state;
    short_lives_never_push_out_a_lasting_one(3000);
}

/* Whether it stays is not known when it is put. */
static void a_late_put_behind_many_short_lives_stays(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", LATEST));
    put_versions(1, 2, 80, ",'_ttl':10");
    put_version(1, 1, "");
    version_is(1, "[{'n':1}]");
    upkeep();
    version_is(1, "[{'n':1}]");
    put_version(1, 0, "");
    upkeep();
    version_is(0, "[{'n':0,'_ttl':100}]");
}

static void a_lasting_one_behind_many_short_lives_falls_out(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", LATEST));
    put_version(1, 1, "");
    put_versions(1, 2, 3000, ",'_ttl':100");
    upkeep();
    version_is(1, "[{'n':1}]");
    put_version(1, 4000, "");
    tabletest_reopen(t);
    upkeep();
    version_is(1, "[{'n':1,'_ttl':100}]");
    version_is(4000, "[{'n':4000}]");
    delete_version(1, 4000); /* and comes back */
    tabletest_reopen(t);
    upkeep();
    version_is(1, "[{'n':1}]");
}

/* A step of the upkeep has counted what a delete takes away before the next. */
static void what_changes_between_two_steps_is_counted_anew(void **state)
{
    (void)state;
    bool more;
    store_time next;
    must_create(t, "t", SCHEMA("1", "'type':'latest','count':2,'grace_ttl':100"));
    put_version(1, 1, "");
    put_version(1, 2, "");
    put_versions(1, 3, 6000, ",'_ttl':100");
    put_version(1, 7000, "");
    assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_OK);
    assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_OK);
    assert_true(more);
    delete_version(1, 7000);
    upkeep();
    version_is(2, "[{'n':2}]");
    version_is(1, "[{'n':1}]");
    put_version(1, 7000, "");
    assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_OK);
    assert_true(more);
    put_version(1, 7001, "");
    upkeep();
    version_is(2, "[{'n':2,'_ttl':100}]");
    version_is(1, "[{'n':1,'_ttl':100}]");
}

static void a_migration_goes_past_a_long_group_and_it_is_done_after_all(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", "'type':'all'"));
    put_version(1, 1, "");
    put_version(1, 2, "");
    put_versions(1, 3, 3000, ",'_ttl':100");
    put_versions(0, 1, 2, "");
    must_create(t, "t", SCHEMA("2", LATEST));
    upkeep();
    version_is(2, "[{'n':2}]");
    version_is(1, "[{'n':1,'_ttl':100}]");
    tabletest_advance(t, 100);
    must_get(t, "t", "{'proj':['r','n'],'withTTL':true}", "[{'r':1,'n':2},{'r':0,'n':2}]");
}

static void what_is_left_of_a_group_goes_with_its_table_and_its_policy(void **state)
{
    (void)state;
    bool more;
    store_time next;
    must_create(t, "t", SCHEMA("1", LATEST));
    put_version(1, 1, "");
    put_versions(1, 2, 100, ",'_ttl':100");
    must_create(t, "t", SCHEMA("2", "'type':'all'"));
    upkeep();
    version_is(1, "[{'n':1}]");
    must_create(t, "t", SCHEMA("3", LATEST));
    upkeep();
    put_version(1, 101, ",'_ttl':100");
    assert_int_equal(tabletest_drop(t, 1, "t"), ERR_OK);
    upkeep();
    assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_OK);
    assert_false(more);
    assert_int_equal(next.ns, INT64_MAX);
}

/* ---- random histories of one group, beside a reference that goes through all its rows ---- */

enum { VERSIONS = HISTORY_VERSIONS_MAX, STEPS = 500, GRACE_S = 40 };

/* Mostly rows that end by themselves and are not counted. */
static void random_put(struct history *h)
{
    int version = history_pick(h, VERSIONS), kind = history_pick(h, 100);
    int ttl_s = kind < 94   ? GRACE_S - history_pick(h, 5)
                : kind < 97 ? GRACE_S + history_pick(h, 100) + 1
                            : 0;
    char more[32] = "";
    if (ttl_s > 0)
        (void)snprintf(more, sizeof more, ",'_ttl':%d", ttl_s);
    put_version(1, version, more);
    history_put(h, version, ttl_s);
    history_settle(h, 0, VERSIONS);
}

static void random_delete(struct history *h)
{
    int version = history_pick(h, VERSIONS);
    bool was = h->there[version]; /* else nothing is deleted, and nothing settled */
    for (int i = 0; i < VERSIONS && !was; i++) {
        version = (version + 1) % VERSIONS;
        was = history_lives(h, version);
    }
    delete_version(1, version);
    if (!was)
        return;
    h->there[version] = false;
    history_settle(h, 0, VERSIONS);
}

static void random_step(struct history *h)
{
    int what = history_pick(h, 100);
    if (what < 85) {
        random_put(h);
    } else if (what < 93) {
        random_delete(h);
    } else if (what < 99) {
        h->now++;
        tabletest_advance(t, 1);
    } else {
        tabletest_reopen(t);
    }
}

static void compare(const struct history *h, int step)
{
    static char want[ANSWER_BYTES];
    size_t n = (size_t)snprintf(want, sizeof want, "[");
    for (int v = VERSIONS - 1; v >= 0; v--) {
        int64_t end = h->own[v] < h->fall[v] ? h->own[v] : h->fall[v];
        if (!history_lives(h, v))
            continue;
        n += (size_t)snprintf(want + n, sizeof want - n, "%s{'n':%d", n == 1 ? "" : ",", v);
        if (end != INT64_MAX)
            n += (size_t)snprintf(want + n, sizeof want - n, ",'_ttl':%lld",
                                  (long long)(end - h->now));
        n += (size_t)snprintf(want + n, sizeof want - n, "}");
    }
    (void)snprintf(want + n, sizeof want - n, "]");
    if (step % 200 == 199)
        print_message("%d steps, an answer of %zu bytes\n", step + 1, n);
    must_get(t, "t", "{'proj':'n','withTTL':true}", want);
}

static void random_run(int keep, uint64_t seed)
{
    char json[1024];
    struct history h = { .keep = keep, .grace_s = GRACE_S };
    rng_init(&h.rng, seed);
    (void)snprintf(json, sizeof json, SCHEMA("1", "'type':'latest','count':%d,'grace_ttl':%d"),
                   keep, GRACE_S);
    must_create(t, "t", json);
    for (int i = 0; i < STEPS; i++) {
        random_step(&h);
        upkeep();
        history_expire(&h);
        compare(&h, i);
    }
}

static void random_long_groups_keep_one(void **state)
{
    (void)state;
    random_run(1, 21);
}

static void random_long_groups_keep_some(void **state)
{
    (void)state;
    random_run(6, 22);
}

/* ---- partitions ---- */

static void a_partition_loses_all_that_is_superseded(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", "'type':'all'"));
    for (int r = 1; r <= 20; r++)
        put_versions(r, 1, 30, "");
    must_create(t, "t", SCHEMA("2", "'type':'latest_hash','grace_ttl':100"));
    put_version(21, 1, "");
    must_put(t, "t",
             "{'attributes':{'k':'b','r':1,'tid':'c931ec94-6c31-11e4-b6d0-0f67e29867e0','n':9}}");
    tabletest_reopen(t);
    upkeep();
    must_get(t, "t", "{'proj':'r'}", "[{'r':21},{'r':1}]");
}

/* Neither the version nor a migration helps here: a put alone supersedes more rows than it
 * deletes. */
static void a_put_that_supersedes_many_rows_leaves_the_others_to_the_upkeep(void **state)
{
    (void)state;
    char json[PUT_BYTES];
    must_create(t, "t",
                "{'attributes':{'k':'string','rev':'int','name':'int'},'index':[{'attribute':'k',"
                "'type':'hash'},{'attribute':'rev','type':'range','order':'desc'},{'attribute':'"
                "name','type':'range'}],"
                "'revisionRetentionPolicy':{'type':'latest_hash'}}");
    for (int i = 0; i < 30; i++) {
        (void)snprintf(json, sizeof json, "{'attributes':{'k':'a','rev':5,'name':%d}}", i);
        must_put(t, "t", json);
    }
    must_put(t, "t", "{'attributes':{'k':'a','rev':6,'name':0}}");
    must_put(t, "t", "{'attributes':{'k':'b','rev':1,'name':0}}");
    tabletest_reopen(t);
    upkeep();
    must_get(t, "t", "{'proj':['k','rev']}", "[{'k':'a','rev':6},{'k':'b','rev':1}]");
}

/* ---- ttl ---- */

static void ttl_ends_what_was_stored_before_it(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", "'type':'all'"));
    put_version(1, 1, ",'s':5");
    put_version(1, 2, ",'_ttl':30");
    put_version(1, 3, ",'_ttl':1000");
    tabletest_advance(t, 10);
    must_create(t, "t", SCHEMA("2", "'type':'ttl','ttl':60"));
    upkeep();
    must_get(t, "t", "{'proj':['n','s'],'withTTL':true}",
             "[{'n':3,'s':5,'_ttl':50},{'n':2,'s':5,'_ttl':20},{'n':1,'s':5,'_ttl':50}]");
    put_version(1, 4, "");
    tabletest_advance(t, 50);
    must_get(t, "t", "{'proj':['n','s'],'withTTL':true}", "[{'n':4,'s':null,'_ttl':10}]");
    tabletest_advance(t, 10);
    must_get(t, "t", "{}", "[]");
}

static void ttl_is_the_longest_life_of_a_put(void **state)
{
    (void)state;
    must_create(t, "t",
                "{'attributes':{'k':'string','n':'int'},'index':[{'attribute':'k','type':'hash'}],"
                "'options':{'default_time_to_live':1000},'revisionRetentionPolicy':{'type':'ttl','"
                "ttl':60}}");
    must_put(t, "t", "{'attributes':{'k':'a','_ttl':1000}}");
    must_put(t, "t", "{'attributes':{'k':'b','_ttl':5}}");
    must_put(t, "t", "{'attributes':{'k':'c'}}");
    must_get(t, "t", "{'attributes':{'k':'a'},'proj':'n','withTTL':true}",
             "[{'n':null,'_ttl':60}]");
    must_get(t, "t", "{'attributes':{'k':'b'},'proj':'n','withTTL':true}", "[{'n':null,'_ttl':5}]");
    must_get(t, "t", "{'attributes':{'k':'c'},'proj':'n','withTTL':true}",
             "[{'n':null,'_ttl':60}]");
}

static void what_ttl_would_end_stays_under_another_policy(void **state)
{
    (void)state;
    static const char *const all = "{'proj':['n','s'],'withTTL':true}";
    must_create(t, "t", SCHEMA("1", "'type':'ttl','ttl':60"));
    put_version(2, 1, ",'s':5");
    put_version(1, 2, ",'_ttl':1000");
    must_get(t, "t", all, "[{'n':1,'s':5,'_ttl':60},{'n':2,'s':5,'_ttl':60}]");
    must_create(t, "t", SCHEMA("2", "'type':'ttl','ttl':90"));
    upkeep();
    must_get(t, "t", all, "[{'n':1,'s':5,'_ttl':90},{'n':2,'s':5,'_ttl':90}]");
    must_create(t, "t", SCHEMA("3", "'type':'latest','count':1,'grace_ttl':10"));
    tabletest_reopen(t);
    upkeep();
    must_get(t, "t", all, "[{'n':1,'s':5},{'n':2,'s':5,'_ttl':1000}]");
    tabletest_advance(t, 100);
    must_get(t, "t", all, "[{'n':1,'s':5},{'n':2,'s':5,'_ttl':900}]");
    must_create(t, "t", SCHEMA("4", "'type':'ttl','ttl':150"));
    upkeep();
    must_create(t, "t", SCHEMA("5", "'type':'all'"));
    upkeep();
    must_get(t, "t", all, "[{'n':1,'s':5},{'n':2,'s':5,'_ttl':900}]");
}

static void what_ttl_would_end_stays_first_in_its_partition(void **state)
{
    (void)state;
    must_create(
        t, "t",
        "{'version':1,'attributes':{'k':'string','r':'int','n':'int'},'index':[{'attribute':'k',"
        "'type':'hash'},{'attribute':'r','type':'range'},{'attribute':'n','type':'range'}],"
        "'revisionRetentionPolicy':{'type':'ttl','ttl':60}}");
    must_put(t, "t", "{'attributes':{'k':'a','r':1,'n':1}}");
    must_put(t, "t", "{'attributes':{'k':'a','r':1,'n':2}}");
    must_put(t, "t", "{'attributes':{'k':'a','r':2,'n':3}}");
    must_create(
        t, "t",
        "{'version':2,'attributes':{'k':'string','r':'int','n':'int'},'index':[{'attribute':'k',"
        "'type':'hash'},{'attribute':'r','type':'range'},{'attribute':'n','type':'range'}],"
        "'revisionRetentionPolicy':{'type':'latest_hash'}}");
    upkeep();
    must_get(t, "t", "{'proj':'n','withTTL':true}", "[{'n':1},{'n':2}]");
}

static void what_counts_for_nothing_gets_its_own_end_back(void **state)
{
    (void)state;
    static const char *const all = "{'proj':'n','withTTL':true}";
    must_create(t, "t", SCHEMA("1", "'type':'ttl','ttl':3"));
    put_version(2, 1, ",'_ttl':50");
    must_create(t, "t", SCHEMA("2", "'type':'latest','count':1,'grace_ttl':5"));
    upkeep();
    must_get(t, "t", all, "[{'n':1,'_ttl':50}]");
    put_version(2, 2, "");
    must_get(t, "t", all, "[{'n':2},{'n':1,'_ttl':5}]");
    must_create(t, "t", SCHEMA("3", "'type':'latest','count':2,'grace_ttl':100"));
    upkeep();
    must_get(t, "t", all,
             "[{'n':2},{'n':1,'_ttl':50}]"); /* which ends it before it could fall out */
}

static void what_falls_out_keeps_an_earlier_end_of_ttl(void **state)
{
    (void)state;
    must_create(t, "t", SCHEMA("1", "'type':'ttl','ttl':30"));
    put_versions(2, 1, 2, "");
    must_create(t, "t", SCHEMA("2", "'type':'latest','count':1,'grace_ttl':100"));
    upkeep();
    must_get(t, "t", "{'proj':'n','withTTL':true}", "[{'n':2},{'n':1,'_ttl':30}]");
}

/* ---- interval ---- */

/* 6.5 days and one day after the epoch of UUIDs: 1970 is not a multiple of a week behind it. */
static void the_first_interval_is_cut_off_not_moved(void **state)
{
    (void)state;
    must_create(t, "t",
                SCHEMA("1", "'type':'interval','interval':604800,'count':1,'grace_ttl':10"));
    must_put(t, "t",
             "{'attributes':{'k':'a','r':1,'tid':'93af6000-051b-1000-8000-000000000000','n':6}}");
    must_put(t, "t",
             "{'attributes':{'k':'a','r':1,'tid':'2a69c000-00c9-1000-8000-000000000000','n':1}}");
    must_get(t, "t", "{'proj':'n','withTTL':true}", "[{'n':6},{'n':1}]");
    must_put(t, "t",
             "{'attributes':{'k':'a','r':1,'tid':'2a69c001-00c9-1000-8000-000000000000','n':2}}");
    must_get(t, "t", "{'proj':'n','withTTL':true}", "[{'n':6},{'n':2},{'n':1,'_ttl':10}]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tabletest_setup, tabletest_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(more_short_lives_than_a_put_passes_push_out_nothing),
        TEST(more_short_lives_than_a_step_of_the_upkeep_passes_push_out_nothing),
        TEST(a_late_put_behind_many_short_lives_stays),
        TEST(a_lasting_one_behind_many_short_lives_falls_out),
        TEST(what_changes_between_two_steps_is_counted_anew),
        TEST(a_migration_goes_past_a_long_group_and_it_is_done_after_all),
        TEST(what_is_left_of_a_group_goes_with_its_table_and_its_policy),
        TEST(random_long_groups_keep_one),
        TEST(random_long_groups_keep_some),
        TEST(a_partition_loses_all_that_is_superseded),
        TEST(a_put_that_supersedes_many_rows_leaves_the_others_to_the_upkeep),
        TEST(ttl_ends_what_was_stored_before_it),
        TEST(ttl_is_the_longest_life_of_a_put),
        TEST(what_ttl_would_end_stays_under_another_policy),
        TEST(what_ttl_would_end_stays_first_in_its_partition),
        TEST(what_counts_for_nothing_gets_its_own_end_back),
        TEST(what_falls_out_keeps_an_earlier_end_of_ttl),
        TEST(the_first_interval_is_cut_off_not_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
