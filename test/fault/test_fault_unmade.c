/* Goal: a store whose making was cut off is told from a damaged one, and made whole by the next
 * start. Method: a store is made, then put back to each state its making goes through before the
 * first segment. */
#include "scratch.h"

#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A store without segments and with an index file of so many bytes; -1: without one. */
static void unmake(struct scratch *s, long index_bytes)
{
    char path[2 * SCRATCH_PATH_BYTES];
    scratch_open(s);
    scratch_close(s);
    scratch_path(s, "log/00000001.seg", path);
    assert_int_equal(unlink(path), 0);
    scratch_path(s, "index/data.mdb", path);
    assert_int_equal(truncate(path, index_bytes < 0 ? 0 : index_bytes), 0);
    if (index_bytes < 0)
        assert_int_equal(unlink(path), 0);
}

static void opens_only_for_writing(struct scratch *s)
{
    struct err_note note = { .text = "" };
    assert_int_equal(scratch_try(s, true, &note), ERR_NOT_FOUND);
    assert_non_null(strstr(note.text, "never finished"));
    scratch_open(s);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("k"), STR("v"), STR_NONE), ERR_OK);
    scratch_close(s);
    assert_int_equal(scratch_try(s, true, &note), ERR_OK);
    scratch_close(s);
}

static void remove_folder(struct scratch *s, const char *name)
{
    char path[2 * SCRATCH_PATH_BYTES];
    scratch_path(s, name, path);
    assert_int_equal(rmdir(path), 0);
}

static void a_store_without_its_folders_yet(void **state)
{
    (void)state;
    for (int with_log = 0; with_log <= 1; with_log++) {
        struct scratch s;
        char path[2 * SCRATCH_PATH_BYTES];
        scratch_init(&s);
        unmake(&s, -1);
        scratch_path(&s, "index/lock.mdb", path);
        assert_int_equal(unlink(path), 0);
        remove_folder(&s, "index");
        if (!with_log)
            remove_folder(&s, "log");
        opens_only_for_writing(&s);
        scratch_fini(&s);
    }
}

static void a_store_whose_folder_was_taken_away_is_damaged(void **state)
{
    (void)state;
    struct scratch s;
    char path[2 * SCRATCH_PATH_BYTES];
    char away[2 * SCRATCH_PATH_BYTES];
    struct err_note note = { .text = "" };
    scratch_init(&s);
    scratch_open(&s);
    assert_int_equal(scratch_put(&s, SPACE_ROW, STR("k"), STR("v"), STR_NONE), ERR_OK);
    scratch_close(&s);
    scratch_path(&s, "log", path);
    scratch_path(&s, "elsewhere", away);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(scratch_try(&s, true, &note), ERR_CORRUPT);
    assert_non_null(strstr(note.text, "the folder log of the store"));
    assert_int_equal(rename(away, path), 0);
    scratch_fini(&s);
}

static void a_store_without_its_index_file_yet(void **state)
{
    (void)state;
    struct scratch s;
    scratch_init(&s);
    unmake(&s, -1);
    opens_only_for_writing(&s);
    scratch_fini(&s);
}

static void a_store_with_an_empty_index_file(void **state)
{
    (void)state;
    struct scratch s;
    scratch_init(&s);
    unmake(&s, 0);
    opens_only_for_writing(&s);
    scratch_fini(&s);
}

static void a_store_with_an_index_that_has_no_tables(void **state)
{
    (void)state;
    struct scratch s;
    char path[2 * SCRATCH_PATH_BYTES];
    MDB_env *env;
    scratch_init(&s);
    unmake(&s, -1);
    scratch_path(&s, "index", path);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, path, 0, 0600), 0); /* writes the two meta pages */
    mdb_env_close(env);
    opens_only_for_writing(&s);
    scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_without_its_folders_yet),
        cmocka_unit_test(a_store_whose_folder_was_taken_away_is_damaged),
        cmocka_unit_test(a_store_without_its_index_file_yet),
        cmocka_unit_test(a_store_with_an_empty_index_file),
        cmocka_unit_test(a_store_with_an_index_that_has_no_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
