/* Goal: reclaim, check and backup each do their work while rows are written, and while the others
 * do theirs. Method: a writer that overwrites a few rows in tiny segments, so that segments empty,
 * are copied out and go all the time; one thread for each kind of upkeep. Every backup verifies
 * itself, the last one is compared. For TSan. */
#include "engine/store.h"
#include "model.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WRITES = 600, HOT_ROWS = 3, COLD_EVERY = 20, VALUE_BYTES = 9000 };

struct busy {
    struct scratch store, copy;
    atomic_bool over;
    atomic_uint checks, backups, reclaims;
};

static void put(struct busy *b, unsigned row, uint64_t seed)
{
    char bytes[VALUE_BYTES], key[16];
    int n = snprintf(key, sizeof(key), "k%05u", row);
    scratch_bytes(seed, bytes, sizeof(bytes));
    INVARIANT(scratch_put(&b->store, SPACE_ROW, (str){ .p = key, .n = (size_t)n }, STR("v"),
                          (str){ .p = bytes, .n = sizeof(bytes) }) == ERR_OK);
}

static void *write_run(void *ctx)
{
    struct busy *b = ctx;
    for (unsigned i = 0; i < WRITES; i++)
        put(b, i % COLD_EVERY == 0 ? HOT_ROWS + i : i % HOT_ROWS, i);
    atomic_store(&b->over, true);
    return NULL;
}

static void *reclaim_run(void *ctx)
{
    struct busy *b = ctx;
    while (!atomic_load(&b->over)) {
        bool more;
        INVARIANT(engine_reclaim(b->store.engine, &more) == ERR_OK);
        atomic_fetch_add(&b->reclaims, 1);
    }
    return NULL;
}

static void *check_run(void *ctx)
{
    struct busy *b = ctx;
    while (!atomic_load(&b->over)) {
        expect_sound(b->store.engine);
        atomic_fetch_add(&b->checks, 1);
    }
    return NULL;
}

static void back_up(struct busy *b)
{
    struct engine_backup_result r;
    struct err_note note = { .text = "" };
    err why = engine_backup(b->store.engine, b->copy.dir, &r, &note);
    if (why != ERR_OK)
        (void)fprintf(stderr, "backup: %s: %s\n", err_name(why), note.text);
    INVARIANT(why == ERR_OK);
}

static void *backup_run(void *ctx)
{
    struct busy *b = ctx;
    while (!atomic_load(&b->over)) {
        back_up(b);
        atomic_fetch_add(&b->backups, 1);
    }
    return NULL;
}

static uint64_t hash_of_all(struct scratch *s)
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_range all = { .space = SPACE_ROW };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    uint64_t hash = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        hash = hash * 31 + row.blob.hash;
    engine_view_end(&v);
    return hash;
}

static void upkeep_goes_on_beside_writing(void **state)
{
    (void)state;
    static void *(*const runs[])(void *) = { write_run, reclaim_run, check_run, backup_run };
    struct busy *b = calloc(1, sizeof(*b));
    pthread_t threads[COUNT_OF(runs)];
    assert_non_null(b);
    scratch_init(&b->store);
    scratch_init(&b->copy);
    b->store.segment_bytes = 64 << 10;
    scratch_open(&b->store);
    for (size_t i = 0; i < COUNT_OF(runs); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, runs[i], b), 0);
    for (size_t i = 0; i < COUNT_OF(runs); i++)
        pthread_join(threads[i], NULL);
    print_message("%u reclaims, %u checks, %u backups\n", atomic_load(&b->reclaims),
                  atomic_load(&b->checks), atomic_load(&b->backups));
    back_up(b);
    struct err_note note;
    assert_int_equal(scratch_try(&b->copy, true, &note), ERR_OK);
    assert_true(hash_of_all(&b->copy) == hash_of_all(&b->store));
    scratch_fini(&b->copy);
    bool more = true;
    assert_int_equal(engine_flush(b->store.engine), ERR_OK);
    while (more)
        assert_int_equal(engine_reclaim(b->store.engine, &more), ERR_OK);
    expect_sound(b->store.engine);
    struct engine_stats st;
    engine_stats_get(b->store.engine, &st);
    assert_true(st.segments < 20);
    scratch_fini(&b->store);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(upkeep_goes_on_beside_writing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
