/* Goal: what goes wrong in the middle of a group harms neither what is in it already nor what comes
 * later. Method: a done callback, which runs on the committer, submits several updates, so that
 * they make one group; the disk fails between two of them. */
#include "scenario.h"

#include "vlog/file.h"

#include <errno.h>
#include <pthread.h>
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
    atomic_int result; /* -1: not yet */
};

struct group {
    struct scratch scratch;
    struct member members[MEMBERS];
    atomic_bool armed;
    pthread_t
        committer; /* the disk is full for it alone: the indexer reserves blocks in its own time */
    int blocks;    /* how often a new segment may get blocks until the disk is full */
    bool opened, full; /* a new segment was opened, was refused blocks */
    bool named;        /* a new segment got its name before */
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct group *g = ctx;
    (void)n;
    if (!atomic_load(&g->armed) || !pthread_equal(pthread_self(), g->committer))
        return 0;
    g->named = g->named || (call == FILE_RENAME && !g->full);
    g->opened = g->opened || call == FILE_OPEN;
    if (call != FILE_FALLOCATE || !g->opened || g->blocks-- > 0)
        return 0;
    g->full = true;
    return ENOSPC;
}

static err decide(struct engine_txn *t, void *ctx)
{
    struct member *m = ctx;
    return engine_txn_put(t, SPACE_ROW, str_of(KEYS[m->index]), STR("v"),
                          (str){ .p = m->bytes, .n = SIZES[m->index] });
}

static void done(void *ctx, err why)
{
    struct member *m = ctx;
    struct group *g = m->group;
    if (m->index == 0) {
        g->committer = pthread_self();
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
    g->scratch.zeros_always = true;
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
    assert_false(g->named);
    assert_int_equal(atomic_load(&g->members[1].result), ERR_OK);
    assert_int_equal(atomic_load(&g->members[2].result), ERR_FULL);
    expect_member(g, 1);
    atomic_store(&g->armed, false);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(scratch_put(&g->scratch, SPACE_ROW, str_of(KEYS[2]), STR("v"),
                                     (str){ .p = g->members[2].bytes, .n = SIZES[2] }),
                         ERR_OK);
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

/* One that a crash brings back would make a torn group before it look like damage. */
static void segment_that_got_no_blocks_never_had_a_name(void **state)
{
    (void)state;
    roll_onto_a_full_disk(0);
    roll_onto_a_full_disk(1);
}

/* ---- decisions that fail ---- */

enum { FAILING = 64, FAILING_ROWS = 1000 };

struct failing {
    struct scratch scratch;
    struct engine_update updates[FAILING];
    atomic_uint decided, done;
    unsigned decided_before_done; /* decisions that ran before the first answer */
};

static err failing_decide(struct engine_txn *t, void *ctx)
{
    struct failing *f = ctx;
    static const char zeros[ENGINE_VALUE_BYTES_MAX];
    if (atomic_fetch_add(&f->decided, 1) == 0)
        return ERR_OK;
    for (unsigned i = 0; i < FAILING_ROWS; i++) {
        str key = { .p = (const char *)&i, .n = sizeof(i) };
        err why =
            engine_txn_put(t, SPACE_ROW, key, (str){ .p = zeros, .n = sizeof(zeros) }, STR_NONE);
        if (why != ERR_OK)
            return why;
    }
    return ERR_PRECONDITION;
}

static void failing_done(void *ctx, err why)
{
    struct failing *f = ctx;
    unsigned count = atomic_load(&f->done);
    assert_int_equal(why, count == 0 ? ERR_OK : ERR_PRECONDITION);
    if (count == 0)
        for (int i = 1; i < FAILING; i++)
            engine_submit(f->scratch.engine, &f->updates[i]);
    if (count == 1)
        f->decided_before_done = atomic_load(&f->decided);
    atomic_store(&f->done, count + 1);
}

/* What they wrote is thrown away only with their group. */
static void failed_decisions_do_not_pile_up_in_one_group(void **state)
{
    (void)state;
    struct failing *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    scratch_init(&f->scratch);
    scratch_open(&f->scratch);
    for (int i = 0; i < FAILING; i++)
        f->updates[i] =
            (struct engine_update){ .decide = failing_decide, .done = failing_done, .ctx = f };
    engine_submit(f->scratch.engine, &f->updates[0]);
    while (atomic_load(&f->done) < FAILING)
        (void)sched_yield();
    assert_true(f->decided_before_done < FAILING / 4);
    scratch_fini(&f->scratch);
    free(f);
}

int main(void)
{
    scenario_on_tmpfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk_at_a_segments_end_spares_the_group_before_it),
        cmocka_unit_test(segment_that_got_no_blocks_never_had_a_name),
        cmocka_unit_test(failed_decisions_do_not_pile_up_in_one_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
