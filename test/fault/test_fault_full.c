/* Goal: a full disk refuses what would grow the store, before writing; what frees goes on, and
 * afterwards so does everything else; nothing acknowledged is lost.
 * Method: a tmpfs of a few MiB in a mount namespace of our own; where that is not permitted the
 * test is skipped (test_fault_calls.c covers ENOSPC at every call without it). With zeros ahead in
 * the log and without. */
#include "engine/store.h"
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { VALUE_BYTES = 50000, ROWS_MAX = 4000 };

static str key_of(unsigned i, char *buf)
{
    int n = snprintf(buf, 16, "k%05u", i);
    return (str){ .p = buf, .n = (size_t)n };
}

static err put(struct scratch *s, unsigned i)
{
    static char bytes[VALUE_BYTES];
    char key[16];
    scratch_bytes(i, bytes, sizeof(bytes));
    return scratch_put(s, SPACE_ROW, key_of(i, key), STR("v"),
                       (str){ .p = bytes, .n = sizeof(bytes) });
}

struct removal {
    struct engine_update update;
    unsigned i;
    atomic_int result; /* -1: not yet */
};

static err removal_decide(struct engine_txn *t, void *ctx)
{
    struct removal *r = ctx;
    char key[16];
    return engine_txn_delete(t, SPACE_ROW, key_of(r->i, key));
}

static void removal_done(void *ctx, err why)
{
    struct removal *r = ctx;
    atomic_store(&r->result, (int)why);
}

static err remove_freeing(struct scratch *s, unsigned i)
{
    struct removal r = { .i = i, .result = -1 };
    r.update = (struct engine_update){
        .decide = removal_decide, .done = removal_done, .ctx = &r, .frees = true
    };
    engine_submit(s->engine, &r.update);
    while (atomic_load(&r.result) < 0)
        (void)sched_yield();
    return (err)atomic_load(&r.result);
}

static void expect_stored(struct scratch *s, unsigned i)
{
    static char bytes[VALUE_BYTES];
    char key[16];
    struct scratch_row r;
    scratch_bytes(i, bytes, sizeof(bytes));
    assert_int_equal(scratch_get(s, SPACE_ROW, key_of(i, key), &r), ERR_OK);
    assert_int_equal(r.bytes_n, sizeof(bytes));
    assert_memory_equal(r.bytes, bytes, sizeof(bytes));
    scratch_row_free(&r);
}

static void reclaim_all(struct scratch *s)
{
    bool more = true;
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    while (more)
        assert_int_equal(engine_reclaim(s->engine, &more), ERR_OK);
}

/* Fills until refused; returns how many went in. */
static unsigned fill(struct scratch *s, unsigned from)
{
    err why = ERR_OK;
    unsigned i = from;
    for (; i < ROWS_MAX && why == ERR_OK; i++)
        why = put(s, i);
    assert_int_equal(why, ERR_FULL);
    return i - 1;
}

static void full_disk_refuses_growth_and_lets_frees_through(void **state)
{
    struct scratch *s = *state;
    scratch_open(s);
    unsigned count = fill(s, 0);
    assert_true(count > 50);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(put(s, count), ERR_FULL);
        for (unsigned i = 0; i < count; i += 7)
            expect_stored(s, i);
    }
    scratch_close(s);
    scratch_open(s); /* a start on a full disk */
    for (unsigned i = 0; i < count; i++)
        expect_stored(s, i);
    for (unsigned i = 0; i < count; i += 2)
        assert_int_equal(remove_freeing(s, i), ERR_OK);
    reclaim_all(s);
    unsigned more = fill(s, count) - count;
    assert_true(more > count / 4);
    for (unsigned i = 1; i < count; i += 2)
        expect_stored(s, i);
    expect_sound(s->engine);
    scratch_close(s);
    scratch_open(s);
    for (unsigned i = count; i < count + more; i++)
        expect_stored(s, i);
}

static bool mount_small(const char *dir)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    return mount("tmpfs", dir, "tmpfs", 0, "size=64m") == 0;
}

static int setup(void **state)
{
    struct scratch *s = malloc(sizeof(*s));
    assert_non_null(s);
    scratch_init(s);
    s->segment_bytes = 4 << 20;
    s->free_bytes_min = 4 << 20;
    *state = s;
    return 0;
}

static int setup_zeros(void **state)
{
    int failed = setup(state);
    ((struct scratch *)*state)->zeros_always = true;
    return failed;
}

static int teardown(void **state)
{
    struct scratch *s = *state;
    scratch_close(s);
    (void)umount2(s->dir, MNT_DETACH);
    scratch_fini(s);
    free(s);
    return 0;
}

static void full_disk_or_skip(void **state)
{
    struct scratch *s = *state;
    if (!mount_small(s->dir))
        skip();
    full_disk_refuses_growth_and_lets_frees_through(state);
}

static off_t log_size(const struct scratch *s)
{
    char path[2 * SCRATCH_PATH_BYTES];
    struct stat st;
    scratch_path(s, "log/00000001.seg", path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void a_disk_that_is_low_gets_no_zeros(void **state)
{
    struct scratch *s = *state;
    s->free_bytes_min = 1;
    scratch_open(s);
    assert_int_equal(put(s, 1), ERR_OK);
    assert_true(log_size(s) > 3 * VALUE_BYTES);
    scratch_close(s);
    s->free_bytes_min = UINT64_MAX / 2;
    scratch_open(s);
    assert_int_equal(remove_freeing(s, 1), ERR_OK);
    assert_in_range(log_size(s), VALUE_BYTES, 2 * VALUE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_disk_that_is_low_gets_no_zeros, setup_zeros, teardown),
        cmocka_unit_test_setup_teardown(full_disk_or_skip, setup_zeros, teardown),
        cmocka_unit_test_setup_teardown(full_disk_or_skip, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
