/* Goal: a long delete that meets a full disk does what there is room for, says how much that was,
 * and goes on later; so does one whose table is migrated meanwhile; a new policy is applied on a
 * full disk, too. Method: from some point on no more blocks can be reserved; what was reserved
 * before is there. Or the disk has less room than the reserve that is kept for what frees. Or the
 * committer is held while the delete and the migration stand behind each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table.h"
#include "tabletest.h"
#include "vlog/file.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct tabletest *t = &tabletest;
static atomic_bool full;

static int hit(void *ctx, enum file_call call, size_t *n)
{
    (void)ctx;
    (void)n;
    return call == FILE_FALLOCATE && atomic_load(&full) ? ENOSPC : 0;
}

static const struct file_faults faults = { .hit = hit };

enum { ROWS = TABLE_DELETE_ROWS_MAX + 200, KEY_BYTES = 300 };
static char key[KEY_BYTES + 1];

static void rows_put(void)
{
    static char json[(KEY_BYTES + 100) * TABLE_OPS_MAX];
    must_create(
        t, "r",
        "{'attributes':{'key':'string','rev':'int'},'index':[{'attribute':'key','type':'hash'},"
        "{'attribute':'rev','type':'range','order':'asc'}]}");
    for (int row = 0; row < ROWS;) {
        size_t n = (size_t)snprintf(json, sizeof json, "[");
        for (int i = 0; i < TABLE_OPS_MAX && row < ROWS; i++, row++)
            n += (size_t)snprintf(json + n, sizeof json - n,
                                  "%s{'op':'put','table':'r','attributes':{'key':'%s','rev':%d}}",
                                  i == 0 ? "" : ",", key, row);
        (void)snprintf(json + n, sizeof json - n, "]");
        assert_int_equal(tabletest_write(t, 1, QUERY_BATCH, "", json), ERR_OK);
    }
}

static void a_long_delete_on_a_full_disk_says_what_is_done(void **state)
{
    (void)state;
    char query[KEY_BYTES + 100], says[64], left[KEY_BYTES + 100];
    memset(key, 'k', KEY_BYTES);
    t->scratch.faults = &faults;
    tabletest_reopen(t);
    rows_put();
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'}}", key);
    atomic_store(&full, true);
    err why = tabletest_write(t, 1, QUERY_DELETE, "r", query);
    assert_int_equal(why, ERR_FULL);
    uint64_t deleted = t->rows_deleted;
    assert_true(deleted > 0 &&
                deleted < TABLE_DELETE_ROWS_MAX); /* in smaller updates than the first */
    (void)snprintf(says, sizeof says, "%llu rows are deleted", (unsigned long long)deleted);
    must_refuse(t, why, ERR_FULL, says);
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'},'limit':1,'proj':['rev']}",
                   key);
    (void)snprintf(left, sizeof left, "[{'rev':%llu}]",
                   (unsigned long long)deleted); /* from the least key on */
    assert_int_equal(tabletest_get(t, 1, "r", query), ERR_OK);
    assert_non_null(strstr(t->answer, left));
    atomic_store(&full, false);
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'}}", key);
    must_delete(t, "r", query);
    assert_int_equal(t->rows_deleted, ROWS - deleted);
}

struct held {
    sem_t go, over;
    struct engine_update update;
};

static err held_decide(struct engine_txn *txn, void *ctx)
{
    (void)txn;
    struct held *h = ctx;
    return sem_wait(&h->go) == 0 ? ERR_OK : ERR_IO;
}

static void held_done(void *ctx, err why)
{
    struct held *h = ctx;
    assert_int_equal(why, ERR_OK);
    sem_post(&h->over);
}

struct ended {
    sem_t over;
    err why;
};

struct deletion {
    struct table_update update;
    struct ended ended;
};
struct migration {
    struct table_schema_change change;
    struct ended ended;
};

static void ended_set(struct ended *e, err why)
{
    e->why = why;
    sem_post(&e->over);
}

static void delete_done(struct store_call *c)
{
    struct deletion *d = CONTAINER_OF(c, struct deletion, update.call);
    ended_set(&d->ended, c->why);
}

static void change_done(struct store_call *c)
{
    struct migration *m = CONTAINER_OF(c, struct migration, change.call);
    ended_set(&m->ended, c->why);
}

static const mono never = { .ns = INT64_MAX };

/* Behind an update that waits: a delete of the whole partition, then a migration. */
static void delete_and_migrate(struct deletion *d, str schema)
{
    struct arena a;
    struct held h = {
        .update = { .decide = held_decide, .done = held_done, .ctx = &h, .deadline = never }
    };
    struct table_predicate whole = { .name = STR("key"),
                                     .op = OP_EQ,
                                     .value = { .p = key, .n = KEY_BYTES } };
    struct table_write w = {
        .is_delete = true, .table = STR("r"), .predicates = &whole, .predicates_count = 1
    };
    struct migration m = { .change = { .call = { .home = home_here(), .done = change_done },
                                       .action = SCHEMA_CREATE,
                                       .domain = 1,
                                       .table = STR("r"),
                                       .json = schema,
                                       .arena = &a } };
    arena_init(&a, 1 << 20);
    sem_init(&h.go, 0, 0);
    sem_init(&h.over, 0, 0);
    sem_init(&m.ended.over, 0, 0);
    d->update.writes = &w;
    d->update.writes_count = 1;
    engine_submit(t->scratch.engine, &h.update);
    assert_int_equal(table_store_update(t->store, &d->update), STORE_LATER);
    assert_int_equal(table_store_change(t->store, &m.change), STORE_LATER);
    sem_post(&h.go);
    assert_int_equal(sem_wait(&h.over), 0);
    assert_int_equal(sem_wait(&d->ended.over), 0);
    assert_int_equal(sem_wait(&m.ended.over), 0);
    assert_int_equal(m.ended.why, ERR_OK);
    arena_fini(&a);
}

static void a_long_delete_whose_table_is_migrated_says_what_is_done(void **state)
{
    (void)state;
    char query[KEY_BYTES + 100];
    struct arena a;
    struct deletion d = {
        .update = { .call = { .home = home_here(), .done = delete_done }, .domain = 1, .arena = &a }
    };
    memset(key, 'k', KEY_BYTES);
    rows_put();
    arena_init(&a, 1 << 20);
    sem_init(&d.ended.over, 0, 0);
    delete_and_migrate(&d,
                       STR("{\"version\":2,\"attributes\":{\"key\":\"string\",\"rev\":\"int\","
                           "\"more\":\"int\"},\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"
                           "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"asc\"}]}"));
    t->note = d.update.note;
    must_refuse(t, d.ended.why, ERR_CONFLICT,
                "8000 rows are deleted, the others are not (the table was");
    must_refuse(t, d.ended.why, ERR_CONFLICT, "the same delete again");
    assert_int_equal(d.update.rows_deleted, TABLE_DELETE_ROWS_MAX);
    arena_fini(&a);
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'}}", key);
    must_delete(t, "r", query);
    assert_int_equal(t->rows_deleted, ROWS - TABLE_DELETE_ROWS_MAX);
}

enum { VERSIONS = 20 };
#define VERSIONED(version, policy)                                                                 \
    "{'version':" version ",'attributes':{'key':'string','tid':'timeuuid'},'index':["              \
    "{'attribute':'key','type':'hash'},{'attribute':'tid','type':'range','order':'desc'}]" policy  \
    "}"
#define LATEST ",'revisionRetentionPolicy':{'type':'latest','count':1,'grace_ttl':60}"

static void versions_put(void)
{
    char json[KEY_BYTES + 200], tid[TID_TEXT_BYTES + 1];
    for (unsigned i = 0; i < VERSIONS; i++) {
        tid_format(tid_make(tid_ticks((store_time){ .ns = i * NS_PER_S }), 7), tid);
        (void)snprintf(json, sizeof json, "{'attributes':{'key':'%s','tid':'%s'}}", key, tid);
        must_put(t, "v", json);
    }
}

static void versions_are(const char *want)
{
    char query[KEY_BYTES + 100];
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'},'limit':2,'proj':['tid']}",
                   key);
    assert_int_equal(tabletest_get(t, 1, "v", query), ERR_OK);
    assert_non_null(strstr(t->answer, want));
}

static void a_new_policy_is_applied_on_a_full_disk(void **state)
{
    (void)state;
    store_time next;
    memset(key, 'k', KEY_BYTES);
    must_create(t, "v", VERSIONED("1", ""));
    versions_put();
    must_create(t, "v", VERSIONED("2", LATEST));
    t->scratch.free_bytes_min = UINT64_MAX / 2;
    tabletest_reopen(t);
    must_refuse(t, tabletest_create(t, 1, "w", VERSIONED("1", "")), ERR_FULL, "");
    versions_are("},{");
    tabletest_upkeep(t, &next);
    tabletest_advance(t, 60);
    tabletest_upkeep(t, &next);
    t->scratch.free_bytes_min = 0;
    tabletest_reopen(t);
    versions_are("[{'tid':'");
    assert_null(strstr(t->answer, "},{"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_policy_is_applied_on_a_full_disk, tabletest_setup,
                                        tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_long_delete_on_a_full_disk_says_what_is_done,
                                        tabletest_setup, tabletest_teardown),
        cmocka_unit_test_setup_teardown(a_long_delete_whose_table_is_migrated_says_what_is_done,
                                        tabletest_setup, tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
