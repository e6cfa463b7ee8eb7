/* Goal: what trim.h promises of revisionRetentionPolicy: what a put lets go and when it is gone,
 * late puts, migrations, indexes, what is refused. Method: the cases of the peer's suite and more,
 * on a real engine under a clock that the test moves; answers compared as text, before the upkeep
 * and after it. */
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
    "{'version':" version ",'attributes':{'title':'string','rev':'int','tid':'timeuuid',"          \
    "'comment':'string'},'index':[{'attribute':'title','type':'hash'},"                            \
    "{'attribute':'rev','type':'range','order':'desc'},{'attribute':'tid','type':'range','order':" \
    "'desc'}]" policy "}"
#define POLICY(members) ",'revisionRetentionPolicy':{" members "}"
#define BY_REV                                                                                     \
    ",'secondaryIndexes':{'by_rev':[{'attribute':'rev','type':'hash'},"                            \
    "{'attribute':'tid','type':'range','order':'desc'},{'attribute':'title','type':'range','"      \
    "order':'asc'},"                                                                               \
    "{'attribute':'comment','type':'proj'}]}"

enum { PUT_BYTES = 512 };
static const char *put_text(char json[PUT_BYTES], int rev, int second, const char *comment,
                            const char *more)
{
    char text[TID_TEXT_BYTES + 1];
    (void)snprintf(json, PUT_BYTES,
                   "{'attributes':{'title':'R','rev':%d,'tid':'%s','comment':'%s'%s}}", rev,
                   tid_at(second, text), comment, more);
    return json;
}

static void put_at(int rev, int second, const char *comment, const char *more)
{
    char json[PUT_BYTES];
    must_put(t, "r", put_text(json, rev, second, comment, more));
}

/* op: of the versions of that revision. */
static void delete_at(int rev, const char *op, int second)
{
    char json[PUT_BYTES], text[TID_TEXT_BYTES + 1];
    (void)snprintf(json, sizeof json, "{'attributes':{'title':'R','rev':%d,'tid':{'%s':'%s'}}}",
                   rev, op, tid_at(second, text));
    must_delete(t, "r", json);
}

static void refused_at(int rev, int second, const char *more, const char *says)
{
    char json[PUT_BYTES];
    must_refuse(t, tabletest_write(t, 1, QUERY_PUT, "r", put_text(json, rev, second, "x", more)),
                ERR_GONE, says);
}

static void comments(int rev, const char *want)
{
    char json[256], whole[1024];
    size_t n = 0;
    (void)snprintf(json, sizeof json, "{'attributes':{'title':'R','rev':%d},'proj':'comment'}",
                   rev);
    whole[n++] = '[';
    for (const char *w = want; *w != 0; w++)
        n += (size_t)snprintf(whole + n, sizeof whole - n, "%s{'comment':'%c'}",
                              w == want ? "" : ",", *w);
    (void)snprintf(whole + n, sizeof whole - n, "]");
    must_get(t, "r", json, whole);
}

static void upkeep(void)
{
    store_time next;
    tabletest_upkeep(t, &next);
}

/* 'latest': count 2, grace_ttl 10, as the peer's case: the clock shows which row fell out when. */
static void latest_runs(const char *schema)
{
    must_create(t, "r", schema);
    put_at(1000, 0, "a", "");
    put_at(1000, 1, "b", "");
    put_at(1000, 2, "c", "");
    tabletest_advance(t, 5);
    put_at(1000, 7, "d", "");
    comments(1000, "dcba");
    tabletest_advance(t, 5);
    comments(1000, "dcb");
    upkeep();
    comments(1000, "dcb");
    tabletest_advance(t, 5);
    comments(1000, "dc");
    upkeep();
    tabletest_advance(t, 1000);
    comments(1000, "dc");
    put_at(999, 0, "x", "");
    comments(1000, "dc"); /* another revision is another's */
}

static void latest_keeps_the_newest_of_a_revision(void **state)
{
    (void)state;
    latest_runs(SCHEMA("1", POLICY("'type':'latest','count':2,'grace_ttl':10")));
}

static void latest_goes_with_an_index(void **state)
{
    (void)state;
    latest_runs(SCHEMA("1", BY_REV POLICY("'type':'latest','count':2,'grace_ttl':10")));
    must_get(t, "r", "{'index':'by_rev','attributes':{'rev':1000},'proj':'comment'}",
             "[{'comment':'d'},{'comment':'c'}]");
}

static void a_late_put_falls_out_at_once(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", POLICY("'type':'latest','count':1,'grace_ttl':10")));
    put_at(1, 50, "n", "");
    put_at(1, 10, "l", "");
    put_at(1, 20, "m", ",'_ttl':3");
    comments(1, "nml");
    tabletest_advance(t, 3);
    comments(1, "nl"); /* one that is to expire sooner does */
    tabletest_advance(t, 7);
    comments(1, "n");
    put_at(1, 50, "o", ""); /* the same version again stays what it was */
    tabletest_advance(t, 100);
    comments(1, "o");
}

static void many_late_puts_all_fall_out(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", POLICY("'type':'latest','count':1,'grace_ttl':10")));
    for (int second = 40; second > 0; second--)
        put_at(1, second, second == 40 ? "n" : "l", "");
    tabletest_advance(t, 10);
    comments(1, "n");
    upkeep();
    comments(1, "n");
}

enum { DAY = 86400, HOUR = 3600 };

static void interval_keeps_some_of_each(void **state)
{
    (void)state;
    must_create(t, "r",
                SCHEMA("1", POLICY("'type':'interval','interval':86400,'count':2,'grace_ttl':10")));
    put_at(1, 12 * HOUR, "1", "");
    put_at(1, 12 * HOUR + 600, "2", "");
    put_at(1, 12 * HOUR + 3000, "3", "");
    put_at(1, 2 * DAY + 12 * HOUR, "4", "");
    put_at(1, 3 * DAY + 12 * HOUR, "5", "");
    put_at(1, 3 * DAY + 12 * HOUR + 1800, "6", "");
    put_at(1, 3 * DAY + 13 * HOUR, "7", "");
    comments(1, "7654321");
    tabletest_advance(t, 10);
    comments(1, "76432");
    put_at(1, 600, "0", ""); /* late, into a day that is full: it goes, and nothing else does */
    tabletest_advance(t, 10);
    upkeep();
    comments(1, "76432");
}

static void interval_does_not_slide(void **state)
{
    (void)state;
    must_create(t, "r",
                SCHEMA("1", POLICY("'type':'interval','interval':86400,'count':1,'grace_ttl':2")));
    for (int i = 0; i < 9; i++)
        put_at(1, 5 * HOUR + i * 6 * HOUR,
               (const char *[]){ "1", "2", "3", "4", "5", "6", "7", "8", "9" }[i], "");
    tabletest_advance(t, 3);
    comments(1, "984");
    put_at(1, 0, "a", ""); /* the first instant of a day, and the last of the one before */
    put_at(1, -1, "z", "");
    tabletest_advance(t, 3);
    comments(1, "984z");
}

static void ttl_is_the_life_of_every_row(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", POLICY("'type':'ttl','ttl':20")));
    put_at(1, 1, "a", "");
    put_at(1, 2, "b", ",'_ttl':5");
    must_get(t, "r", "{'withTTL':true,'proj':'comment'}",
             "[{'comment':'b','_ttl':5},{'comment':'a','_ttl':20}]");
    tabletest_advance(t, 20);
    comments(1, "");
}

static void latest_hash_keeps_one_row_of_a_partition(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", POLICY("'type':'latest_hash'")));
    put_at(5, 1, "a", "");
    put_at(5, 2, "b", "");
    comments(5, "ba");
    tabletest_advance(t, 1);
    comments(5, "b");
    put_at(6, 1, "c", "");
    comments(5, "");
    comments(6, "c");
    must_put(t, "r",
             "{'attributes':{'title':'S','rev':1,'tid':'c931ec94-6c31-11e4-b6d0-0f67e29867e0'}}");
    comments(6, "c"); /* another partition is another's */
    upkeep();
    must_get(t, "r", "{'proj':['title','rev']}", "[{'title':'R','rev':6},{'title':'S','rev':1}]");
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", POLICY("'type':'latest_hash'")));
    put_at(5, 1, "a", "");
    refused_at(4, 9, "", "latest_hash"); /* an older revision comes late */
    refused_at(4, 9, ",'_ttl':50", "nothing is stored");
    must_refuse(t,
                tabletest_write(t, 1, QUERY_PUT, "r",
                                "{'if':'not exists','attributes':{'title':'R','rev':4,'tid':"
                                "'c931ec94-6c31-11e4-b6d0-0f67e29867e0'}}"),
                ERR_GONE, "latest_hash");
    must_refuse(t,
                tabletest_write(t, 1, QUERY_BATCH, "",
                                "[{'op':'put','table':'r','attributes':{'title':'R','rev':6,"
                                "'tid':'c931ec94-6c31-11e4-b6d0-0f67e29867e0'}},{'op':'put','table'"
                                ":'r','attributes':{'title':'R',"
                                "'rev':4,'tid':'c931ec94-6c31-11e4-b6d0-0f67e29867e0'}}]"),
                ERR_GONE, "latest_hash");
    must_get(t, "r", "{'proj':['rev','comment']}", "[{'rev':5,'comment':'a'}]");
    delete_at(5, "eq", 1);
    put_at(4, 9, "l", "");
    comments(4, "l");
    assert_int_equal(tabletest_drop(t, 1, "r"), ERR_OK);
    must_create(t, "r", SCHEMA("1", POLICY("'type':'latest','count':1,'grace_ttl':0")));
    put_at(1, 9, "b", "");
    refused_at(1, 8, "", "grace_ttl is 0");
    comments(1, "b");
    put_at(1, 10, "c", "");
    comments(1, "c");
}

/* What the newest superseded comes back in its place, with the end it had of its own. */
static void the_one_before_comes_back_when_the_newest_goes(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", BY_REV POLICY("'type':'latest','count':1,'grace_ttl':60")));
    put_at(1, 1, "a", "");
    put_at(1, 2, "b", ",'_ttl':500");
    put_at(1, 3, "c", "");
    must_get(t, "r", "{'withTTL':true,'proj':'comment'}",
             "[{'comment':'c'},{'comment':'b','_ttl':60},{'comment':'a','_ttl':60}]");
    delete_at(1, "eq", 3);
    must_get(t, "r", "{'withTTL':true,'proj':'comment'}",
             "[{'comment':'b','_ttl':500},{'comment':'a','_ttl':60}]");
    tabletest_advance(t, 61);
    upkeep();
    comments(1, "b");
    put_at(1, 4, "d", "");
    delete_at(1, "ge", 2);
    comments(1, "");
    put_at(1, 1, "e", "");
    put_at(1, 2, "f",
           ",'_ttl':30"); /* ends before what it let fall out would, so lets nothing fall out */
    tabletest_advance(t, 1000);
    upkeep();
    comments(1, "e");
    must_get(t, "r", "{'index':'by_rev','attributes':{'rev':1},'proj':'comment'}",
             "[{'comment':'e'}]");
}

/* ---- random histories of one revision, beside a reference that goes through all its rows ---- */

enum { VERSIONS = 12, STEPS = 500, INTERVAL_S = 4 };
struct run {
    struct history h;
    bool interval;
    int schema;
};

/* Those that are counted with that one. */
static void settle(struct run *r, int version)
{
    int low = r->interval ? version / INTERVAL_S * INTERVAL_S : 0;
    history_settle(&r->h, low, r->interval ? low + INTERVAL_S : VERSIONS);
}

static void random_schema(struct run *r)
{
    char json[1024];
    r->h.keep = 1 + history_pick(&r->h, 4);
    r->h.grace_s = 1 + history_pick(&r->h, 9);
    (void)snprintf(json, sizeof json,
                   "{'version':%d,'attributes':{'title':'string','rev':'int','tid':'timeuuid',"
                   "'comment':'string'},'index':[{'attribute':'title','type':'hash'},"
                   "{'attribute':'rev','type':'range','order':'desc'},"
                   "{'attribute':'tid','type':'range','order':'desc'}],"
                   "'revisionRetentionPolicy':{'type':'%s'%s,'count':%d,'grace_ttl':%d}%s}",
                   ++r->schema, r->interval ? "interval" : "latest",
                   r->interval ? ",'interval':4" : "", r->h.keep, r->h.grace_s,
                   r->interval ? BY_REV : "");
    must_create(t, "r", json);
}

static void random_upkeep(struct run *r)
{
    upkeep();
    history_expire(&r->h);
}

static void random_delete(struct run *r)
{
    static const char *const ops[] = { "eq", "lt", "ge" };
    int version = history_pick(&r->h, VERSIONS), op = history_pick(&r->h, COUNT_OF(ops)),
        first = -1, last = -1;
    for (int v = VERSIONS - 1; v >= 0; v--)
        if (r->h.there[v] && (op == 0 ? v == version : op == 1 ? v < version : v >= version)) {
            r->h.there[v] = false;
            first = first < 0 ? v : first;
            last = v;
        }
    delete_at(1, ops[op], version);
    if (first >= 0) {
        settle(r, first);
        settle(r, last);
    }
}

static void random_put(struct run *r)
{
    int version = history_pick(&r->h, VERSIONS),
        ttl = history_pick(&r->h, 4) > 0 ? 0 : 1 + history_pick(&r->h, 15);
    char text[2] = { (char)('a' + version), 0 }, more[32] = "";
    if (ttl > 0)
        (void)snprintf(more, sizeof more, ",'_ttl':%d", ttl);
    history_put(&r->h, version, ttl);
    put_at(1, version, text, more);
    settle(r, version);
}

static void random_step(struct run *r)
{
    int what = history_pick(&r->h, 40);
    if (what < 20) {
        random_put(r);
    } else if (what < 25) {
        random_delete(r);
    } else if (what < 35) {
        int seconds = 1 + history_pick(&r->h, 3);
        r->h.now += seconds;
        tabletest_advance(t, seconds);
    } else if (what < 39) {
        random_upkeep(r);
    } else {
        random_schema(r);
        random_upkeep(r);
        for (int v = VERSIONS - 1; v >= 0; v -= r->interval ? INTERVAL_S : VERSIONS)
            settle(r, v);
    }
}

static void random_run(bool interval, uint64_t seed)
{
    struct run r = { .interval = interval };
    rng_init(&r.h.rng, seed);
    random_schema(&r);
    for (int i = 0; i < STEPS; i++) {
        char want[VERSIONS + 1];
        unsigned n = 0;
        random_step(&r);
        for (int version = VERSIONS - 1; version >= 0; version--)
            if (history_lives(&r.h, version))
                want[n++] = (char)('a' + version);
        want[n] = 0;
        comments(1, want);
    }
}

static void random_histories_keep_what_latest_says(void **state)
{
    (void)state;
    random_run(false, 7);
}

static void random_histories_keep_what_interval_says(void **state)
{
    (void)state;
    random_run(true, 8);
}

/* ---- what was stored before ---- */

enum { MANY = TABLE_UPKEEP_BATCH + 60 };

/* Versions of revision 1, and one each of MANY others. */
static void many_put(void)
{
    static char json[PUT_BYTES * TABLE_OPS_MAX];
    for (int row = 0; row < 2 * MANY;) {
        size_t n = 0;
        for (int i = 0; i < TABLE_OPS_MAX && row < 2 * MANY; i++, row++) {
            char one[PUT_BYTES];
            (void)put_text(one, row < MANY ? 1 : row, row, "s", "");
            n += (size_t)snprintf(json + n, sizeof json - n, "%s{'op':'put','table':'r',%s",
                                  i == 0 ? "[" : ",", one + 1);
        }
        (void)snprintf(json + n, sizeof json - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_OK);
    }
}

static unsigned rows_alive(const char *query)
{
    unsigned count = 0;
    assert_int_equal(tabletest_get(t, 1, "r", query), ERR_OK);
    for (const char *at = t->answer; (at = strstr(at, "'comment'")) != NULL; at++)
        count++;
    return count;
}

/* No put is needed, however many rows of a group are on their way out. */
static void the_upkeep_applies_a_new_policy_to_all_rows(void **state)
{
    (void)state;
    static const char *const all = "{'proj':'comment'}", *const first =
                                                             "{'attributes':{'title':'R','rev':1},"
                                                             "'proj':'comment'}";
    must_create(t, "r", SCHEMA("1", ""));
    many_put();
    must_create(t, "r", SCHEMA("2", POLICY("'type':'latest','count':2,'grace_ttl':1000000")));
    upkeep();
    must_create(t, "r", SCHEMA("3", POLICY("'type':'latest','count':1,'grace_ttl':60")));
    tabletest_reopen(t);
    upkeep();
    tabletest_advance(t, 59);
    assert_int_equal(rows_alive(first), MANY);
    must_create(t, "r", SCHEMA("4", POLICY("'type':'latest','count':3,'grace_ttl':60")));
    upkeep();
    tabletest_advance(t, 1);
    upkeep();
    assert_int_equal(rows_alive(first), 3);
    assert_int_equal(rows_alive(all), MANY + 3);
    must_create(t, "r", SCHEMA("5", POLICY("'type':'latest','count':1,'grace_ttl':60")));
    upkeep();
    must_create(t, "r", SCHEMA("6", ""));
    upkeep();
    tabletest_advance(t, 1000);
    upkeep();
    assert_int_equal(rows_alive(first), 3); /* no policy lets them go any more */
    must_create(t, "r", SCHEMA("7", POLICY("'type':'latest_hash'")));
    upkeep();
    assert_int_equal(rows_alive(all), 1);
    char left[64];
    (void)snprintf(left, sizeof left, "[{'rev':%d}]", 2 * MANY - 1);
    must_get(t, "r", "{'proj':'rev'}", left);
}

static err job_spoil(struct engine_txn *txn, void *ctx)
{
    (void)ctx;
    char job[9] = "T",
         value[2 + 1 + ENGINE_KEY_BYTES_MAX + 1]; /* to go on at a key that no row can have */
    put_be32(job + 1, 1);
    put_be32(job + 5, 1);
    memset(value, 'x', sizeof value);
    put_be16(value, 1);
    value[2] = 'a';
    return engine_txn_put(txn, SPACE_SCHEMA, (str){ .p = job, .n = sizeof job },
                          (str){ .p = value, .n = sizeof value }, STR_NONE);
}

static void a_table_that_cannot_be_trimmed_does_not_hold_up_the_next(void **state)
{
    (void)state;
    bool more = true;
    store_time next;
    must_create(t, "a", SCHEMA("1", ""));
    must_create(t, "r", SCHEMA("1", ""));
    put_at(1, 0, "o", "");
    put_at(1, 1, "n", "");
    must_create(t, "r", SCHEMA("2", POLICY("'type':'latest','count':1,'grace_ttl':60")));
    assert_int_equal(engine_update_wait(t->scratch.engine, job_spoil, NULL), ERR_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tables_upkeep(t->tables, &more, &next), ERR_CORRUPT);
    tabletest_advance(t, 60);
    comments(1, "n");
}

static void a_busy_group_loses_all_that_a_new_policy_lets_go(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", ""));
    many_put();
    must_create(t, "r",
                SCHEMA("2",
                       POLICY("'type':'interval','count':1,'interval':31536000,'grace_ttl':60")));
    for (int i = 0; i < 80; i++)
        put_at(1, 2 * MANY + i, "n", "");
    upkeep();
    tabletest_advance(t, 60);
    comments(1, "n");
}

static void what_is_stored_follows_a_new_policy(void **state)
{
    (void)state;
    must_create(t, "r", SCHEMA("1", ""));
    for (int i = 0; i < 20; i++)
        put_at(1, i, "s", "");
    must_refuse(t,
                tabletest_create(t, 1, "r",
                                 SCHEMA("1", POLICY("'type':'latest','count':1,'grace_ttl':0"))),
                ERR_BAD, "version must be higher");
    must_create(t, "r", SCHEMA("2", POLICY("'type':'latest','count':1,'grace_ttl':0")));
    comments(1, "ssssssssssssssssssss");
    put_at(1, 100, "n", "");
    comments(1, "nssssssssssss"); /* TABLE_TRIM_ROWS with each put */
    put_at(1, 101, "n", "");
    put_at(1, 102, "n", "");
    comments(1, "n");
    tabletest_reopen(t);
    put_at(1, 103, "m", "");
    comments(1, "m");
}

static void policies_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members, *says;
    } bad[] = {
        { "'type':'bogus'", "type must be" },
        { "'count':1", "type must be" },
        { "'type':7", "type must be" },
        { "'type':'latest','count':0,'grace_ttl':86400", "count" },
        { "'type':'latest','count':1.5,'grace_ttl':86400", "count" },
        { "'type':'latest','count':1000000,'grace_ttl':86400", "count" },
        { "'type':'latest','count':1,'grace_ttl':-1", "grace_ttl" },
        { "'type':'latest','count':1,'grace_ttl':1e30", "grace_ttl" },
        { "'type':'latest','count':1", "grace_ttl" },
        { "'type':'latest','grace_ttl':1", "count" },
        { "'type':'interval','count':1,'grace_ttl':1", "interval" },
        { "'type':'ttl'", "ttl" },
        { "'type':'ttl','ttl':'20'", "ttl" },
        { "'type':'latest','count':1,'grace_ttl':1,'colour':1", "colour" },
    };
    char json[1024];
    for (unsigned i = 0; i < COUNT_OF(bad); i++) {
        (void)snprintf(json, sizeof json,
                       "{'attributes':{'title':'string','tid':'timeuuid'},'index':["
                       "{'attribute':'title','type':'hash'},{'attribute':'tid','type':'range','"
                       "order':'desc'}],"
                       "'revisionRetentionPolicy':{%s}}",
                       bad[i].members);
        must_refuse(t, tabletest_create(t, 1, "r", json), ERR_BAD, bad[i].says);
    }
    must_refuse(t,
                tabletest_create(t, 1, "r",
                                 "{'attributes':{'k':'string','r':'int'},'index':[{'attribute':'k',"
                                 "'type':'hash'},{'attribute':'r','type':'range'}]" POLICY(
                                     "'type':'latest','count':1,'grace_ttl':1") "}"),
                ERR_BAD, "timeuuid, descending");
    must_refuse(t,
                tabletest_create(t, 1, "r",
                                 "{'attributes':{'k':'string','tid':'timeuuid'},'index':["
                                 "{'attribute':'k','type':'hash'},{'attribute':'tid','type':'range'"
                                 ",'order':'desc'}]" POLICY("'type':'latest_hash'") "}"),
                ERR_BAD, "besides the version");
    must_refuse(t, tabletest_create(t, 1, "r", SCHEMA("1", BY_REV POLICY("'type':'latest_hash'"))),
                ERR_BAD, "secondaryIndexes");
    must_create(t, "r", SCHEMA("1", POLICY("'type':'all'")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(latest_keeps_the_newest_of_a_revision, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(latest_goes_with_an_index, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_late_put_falls_out_at_once, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(many_late_puts_all_fall_out, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(interval_keeps_some_of_each, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(interval_does_not_slide, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(ttl_is_the_life_of_every_row, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(latest_hash_keeps_one_row_of_a_partition, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_refused, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(the_one_before_comes_back_when_the_newest_goes,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(random_histories_keep_what_latest_says, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(random_histories_keep_what_interval_says, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(the_upkeep_applies_a_new_policy_to_all_rows,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_table_that_cannot_be_trimmed_does_not_hold_up_the_next,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_busy_group_loses_all_that_a_new_policy_lets_go,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(what_is_stored_follows_a_new_policy, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(policies_that_cannot_be_kept_are_refused, tabletest_setup,
                                        tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
