/* Goal: a long delete that meets a full disk does what there is room for, says how much that was, and goes on later.
 * Method: from some point on no more blocks can be reserved; what was reserved before is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tabletest.h"
#include "vlog/file.h"

#include <errno.h>
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
    must_create(t, "r", "{'attributes':{'key':'string','rev':'int'},'index':[{'attribute':'key','type':'hash'},"
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
    assert_true(deleted > 0 && deleted < TABLE_DELETE_ROWS_MAX); /* in smaller updates than the first */
    (void)snprintf(says, sizeof says, "%llu rows are deleted", (unsigned long long)deleted);
    must_refuse(t, why, ERR_FULL, says);
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'},'limit':1,'proj':['rev']}", key);
    (void)snprintf(left, sizeof left, "[{'rev':%llu}]", (unsigned long long)deleted); /* from the least key on */
    assert_int_equal(tabletest_get(t, 1, "r", query), ERR_OK);
    assert_non_null(strstr(t->answer, left));
    atomic_store(&full, false);
    (void)snprintf(query, sizeof query, "{'attributes':{'key':'%s'}}", key);
    must_delete(t, "r", query);
    assert_int_equal(t->rows_deleted, ROWS - deleted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_delete_on_a_full_disk_says_what_is_done, tabletest_setup,
                                        tabletest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
