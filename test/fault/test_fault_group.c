/* Goal: what goes wrong in the middle of a group harms neither what is in it already nor what comes later.
 * Method: a done callback, which runs on the committer, submits several updates, so that they make one group; the
 * disk fails between two of them. */
#include "scenario.h"

#include "vlog/file.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEGMENT_BYTES = 8 << 20, MEMBERS = 3 };
static const size_t SIZES[MEMBERS] = { 1000, 3 << 20, 6 << 20 };
static const char *const KEYS[MEMBERS] = { "before", "fits", "does not" };

struct member {
    struct engine_update update;
    struct group *group;
    int index;
    char *bytes;
    atomic_int result;         /* -1: not yet */
};

struct group {
    struct scratch scratch;
    struct member members[MEMBERS];
    atomic_bool armed;
    int blocks;                /* how often a new segment may get blocks until the disk is full */
    bool opened, full;         /* a new segment was opened, was refused blocks */
    bool unlinked;             /* a file was removed, its folder not synced yet */
    bool early;                /* a group was written then */
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct group *g = ctx;
    (void)n;
    if (!atomic_load(&g->armed))
        return 0;
    g->early = g->early || (call == FILE_PWRITEV && g->unlinked);
    g->unlinked = call == FILE_UNLINK || (g->unlinked && call != FILE_FSYNC);
    g->opened = g->opened || call == FILE_OPEN;
    if (call != FILE_FALLOCATE || !g->opened || g->blocks-- > 0)
        return 0;
    g->full = true;
    return ENOSPC;
}

static err decide(struct engine_txn *t, void *ctx)
{
    struct member *m = ctx;
    return engine_txn_put(t, SPACE_ROW, str_of(KEYS[m->index]), STR("v"), (str){ .p = m->bytes, .n = SIZES[m->index] });
}

static void done(void *ctx, err why)
{
    struct member *m = ctx;
    struct group *g = m->group;
    if (m->index == 0) {
        atomic_store(&g->armed, true);
        for (int i = 1; i < MEMBERS; i++)
            engine_submit(g->scratch.engine, &g->members[i].update);
    }
    atomic_store(&m->result, (int)why);
}

static void wait_for(struct member *m)
{
    while (atomic_load(&m->result) < 0)
        (void)sched_yield();
}

static void expect_member(struct group *g, int i)
{
    struct scratch_row r;
    assert_int_equal(scratch_get(&g->scratch, SPACE_ROW, str_of(KEYS[i]), &r), ERR_OK);
    assert_int_equal(r.bytes_n, SIZES[i]);
    assert_memory_equal(r.bytes, g->members[i].bytes, SIZES[i]);
    scratch_row_free(&r);
}

static void roll_onto_a_full_disk(int blocks)
{
    struct group *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    g->blocks = blocks;
    struct file_faults ff = { .hit = hit, .ctx = g };
    scratch_init(&g->scratch);
    g->scratch.segment_bytes = SEGMENT_BYTES;
    g->scratch.faults = &ff;
    scratch_open(&g->scratch);
    for (int i = 0; i < MEMBERS; i++) {
        struct member *m = &g->members[i];
        *m = (struct member){ .group = g, .index = i, .bytes = malloc(SIZES[i]), .result = -1 };
        m->update = (struct engine_update){ .decide = decide, .done = done, .ctx = m };
        assert_non_null(m->bytes);
        scratch_bytes((uint64_t)i, m->bytes, SIZES[i]);
    }
    engine_submit(g->scratch.engine, &g->members[0].update);
    for (int i = 0; i < MEMBERS; i++)
        wait_for(&g->members[i]);
    assert_true(g->full);
    assert_false(g->early);
    assert_int_equal(atomic_load(&g->members[1].result), ERR_OK);
    assert_int_equal(atomic_load(&g->members[2].result), ERR_FULL);
    expect_member(g, 1);
    atomic_store(&g->armed, false);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(scratch_put(&g->scratch, SPACE_ROW, str_of(KEYS[2]), STR("v"),
                                     (str){ .p = g->members[2].bytes, .n = SIZES[2] }), ERR_OK);
        for (int i = 0; i < MEMBERS; i++)
            expect_member(g, i);
        expect_sound(g->scratch.engine);
        scratch_close(&g->scratch);
        scratch_open(&g->scratch);
    }
    scratch_fini(&g->scratch);
    for (int i = 0; i < MEMBERS; i++)
        free(g->members[i].bytes);
    free(g);
}

static void full_disk_at_a_segments_end_spares_the_group_before_it(void **state)
{
    (void)state;
    roll_onto_a_full_disk(1);
}

/* A segment that a crash brings back would make a torn group before it look like damage. */
static void segment_that_got_no_blocks_is_gone_for_good(void **state)
{
    (void)state;
    roll_onto_a_full_disk(0);
    roll_onto_a_full_disk(1);
}

int main(void)
{
    scenario_on_tmpfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk_at_a_segments_end_spares_the_group_before_it),
        cmocka_unit_test(segment_that_got_no_blocks_is_gone_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
