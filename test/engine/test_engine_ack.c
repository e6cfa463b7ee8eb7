/* Goal: unsynced updates are acknowledged when they are written, synced ones when they
 * and all they read are on disk, and views never show what a synced update has not promised yet.
 * Method: the disk's sync waits for what has to happen before it; a fact that does not hold hangs
 * until the time limit. */
#include "engine/store.h"
#include "scratch.h"
#include "vlog/file.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct scratch scratch;
    struct file_faults faults;
    atomic_bool hold; /* syncs wait while it is set */
    atomic_int pass;  /* but so many */
    atomic_bool fail;
    atomic_int syncs; /* begun */
};

static bool pass_taken(struct fixture *f)
{
    int one = 1;
    return atomic_compare_exchange_strong(&f->pass, &one, 0);
}

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct fixture *f = ctx;
    (void)n;
    if (call != FILE_FDATASYNC)
        return 0;
    atomic_fetch_add(&f->syncs, 1);
    while (atomic_load(&f->hold) && !pass_taken(f))
        (void)sched_yield();
    return atomic_load(&f->fail) ? EIO : 0;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->faults = (struct file_faults){ .hit = hit, .ctx = f };
    scratch_init(&f->scratch);
    f->scratch.faults = &f->faults;
    scratch_open(&f->scratch);
    atomic_store(&f->syncs, 0); /* making the store took some */
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    atomic_store(&f->hold, false);
    scratch_fini(&f->scratch);
    free(f);
    return 0;
}

struct put {
    struct engine_update update;
    struct fixture *f;
    const char *key; /* NULL: reads, writes nothing */
    atomic_bool done;
    err why;
    int syncs; /* begun when it was done */
};

static err put_decide(struct engine_txn *t, void *ctx)
{
    const struct put *p = ctx;
    if (p->key == NULL)
        return ERR_OK;
    return engine_txn_put(t, SPACE_ROW, str_of(p->key), STR("v"), STR_NONE);
}

static void put_done(void *ctx, err why)
{
    struct put *p = ctx;
    p->why = why;
    p->syncs = atomic_load(&p->f->syncs);
    atomic_store(&p->done, true);
}

static void submit(struct put *p)
{
    p->update.decide = put_decide;
    p->update.done = put_done;
    p->update.ctx = p;
    engine_submit(p->f->scratch.engine, &p->update);
}

static void wait_for(struct put *p)
{
    while (!atomic_load(&p->done))
        (void)sched_yield();
}

static bool shown(struct fixture *f, const char *key)
{
    struct scratch_row r;
    err why = scratch_get(&f->scratch, SPACE_ROW, str_of(key), &r);
    if (why == ERR_OK)
        scratch_row_free(&r);
    return why == ERR_OK;
}

static void unsynced_is_told_before_the_sync_of_its_group_and_shown_after_it(void **state)
{
    struct fixture *f = *state;
    struct put synced = { .f = f, .key = "synced" };
    struct put unsynced = { .f = f, .key = "unsynced", .update.ack = ENGINE_ACK_UNSYNCED };
    struct put first = { .f = f, .key = "first" };
    atomic_store(&f->hold, true);
    submit(&first);
    while (atomic_load(&f->syncs) == 0)
        (void)sched_yield();
    assert_false(atomic_load(&first.done));
    assert_false(shown(f, "first"));
    submit(&unsynced); /* they wait behind first, and make one group */
    submit(&synced);
    int before = atomic_load(&f->syncs);
    atomic_store(&f->hold, false);
    wait_for(&first);
    wait_for(&synced);
    assert_true(atomic_load(&unsynced.done));
    assert_int_equal(unsynced.syncs, before);
    assert_true(synced.syncs > before);
    assert_true(unsynced.why == ERR_OK && synced.why == ERR_OK);
}

static void unsynced_rows_beside_synced_ones_are_shown_once_on_disk(void **state)
{
    struct fixture *f = *state;
    struct put first = { .f = f, .key = "first" };
    struct put unsynced = { .f = f, .key = "unsynced", .update.ack = ENGINE_ACK_UNSYNCED };
    struct put synced = { .f = f, .key = "synced" };
    atomic_store(&f->hold, true);
    submit(&first);
    while (atomic_load(&f->syncs) == 0)
        (void)sched_yield();
    submit(&unsynced);
    submit(&synced);
    int before = atomic_load(&f->syncs);
    atomic_store(&f->pass, 1);
    wait_for(&unsynced);
    while (atomic_load(&f->syncs) == before)
        (void)sched_yield();
    assert_true(shown(f, "first"));
    assert_false(shown(f, "unsynced")); /* the sync of its group has not returned */
    atomic_store(&f->hold, false);
    wait_for(&synced);
    assert_true(shown(f, "unsynced"));
}

static void unsynced_needs_no_sync_and_is_shown_at_once(void **state)
{
    struct fixture *f = *state;
    struct put one = { .f = f, .key = "one", .update.ack = ENGINE_ACK_UNSYNCED };
    struct put two = { .f = f, .key = "two", .update.ack = ENGINE_ACK_UNSYNCED };
    atomic_store(&f->hold, true); /* the indexer's too */
    submit(&one);
    wait_for(&one);
    assert_true(shown(f, "one"));
    while (atomic_load(&f->syncs) == 0)
        (void)sched_yield(); /* nobody else asks: synced all the same */
    submit(&two);
    wait_for(&two);
    assert_true(shown(f, "two"));
    assert_true(one.why == ERR_OK && two.why == ERR_OK);
    atomic_store(&f->hold, false);
    assert_int_equal(engine_flush(f->scratch.engine), ERR_OK);
}

static void a_synced_update_that_only_reads_waits_for_what_is_unsynced(void **state)
{
    struct fixture *f = *state;
    struct put unsynced = { .f = f, .key = "row", .update.ack = ENGINE_ACK_UNSYNCED };
    struct put reader = { .f = f };
    struct engine_stats before, after;
    engine_stats_get(f->scratch.engine, &before);
    atomic_store(&f->hold, true);
    submit(&unsynced);
    wait_for(&unsynced);
    submit(&reader);
    while (atomic_load(&f->syncs) == 0)
        (void)sched_yield();
    assert_false(atomic_load(&reader.done));
    atomic_store(&f->hold, false);
    wait_for(&reader);
    engine_stats_get(f->scratch.engine, &after);
    assert_true(after.syncs > before.syncs);
}

static void ignore_failure(void *ctx, const char *what)
{
    (void)ctx, (void)what;
}

static void a_failed_sync_is_told_to_who_waits_and_stops_the_rest(void **state)
{
    struct fixture *f = *state;
    engine_on_failure(f->scratch.engine, ignore_failure, NULL);
    struct put synced = { .f = f, .key = "synced" };
    struct put later[2] = {
        { .f = f, .key = "a", .update.ack = ENGINE_ACK_SYNCED },
        { .f = f, .key = "b", .update.ack = ENGINE_ACK_UNSYNCED },
    };
    atomic_store(&f->fail, true);
    submit(&synced);
    wait_for(&synced);
    assert_int_equal(synced.why, ERR_IO);
    for (size_t i = 0; i < COUNT_OF(later); i++)
        submit(&later[i]);
    for (size_t i = 0; i < COUNT_OF(later); i++) {
        wait_for(&later[i]);
        assert_int_equal(later[i].why, ERR_UNAVAILABLE);
    }
    assert_false(shown(f, "synced"));
}

/* What was only written is there after an orderly end. */
static void unsynced_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct put one = { .f = f, .key = "one", .update.ack = ENGINE_ACK_UNSYNCED };
    submit(&one);
    wait_for(&one);
    scratch_close(&f->scratch);
    scratch_open(&f->scratch);
    assert_true(shown(f, "one"));
}

int main(void)
{
#define FACT(fact) cmocka_unit_test_setup_teardown(fact, setup, teardown)
    const struct CMUnitTest tests[] = {
        FACT(unsynced_is_told_before_the_sync_of_its_group_and_shown_after_it),
        FACT(unsynced_rows_beside_synced_ones_are_shown_once_on_disk),
        FACT(unsynced_needs_no_sync_and_is_shown_at_once),
        FACT(a_synced_update_that_only_reads_waits_for_what_is_unsynced),
        FACT(a_failed_sync_is_told_to_who_waits_and_stops_the_rest),
        FACT(unsynced_survives_a_restart),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
