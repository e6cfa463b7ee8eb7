/* Goal: at rest the index gives back the blocks it has no rows for; nothing that somebody may read
 * goes with them, and what comes afterwards finds a sound store.
 * Method: thousands of rows come and go, then the file's blocks are counted; histories against the
 * naive model with rests in between; a view that was begun before. */
#include "engine/store.h"
#include "lib/wait.h"
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include <cmocka.h>

enum { ROWS = 16000, KEPT_EVERY = 100, VALUE_BYTES = 900, REST_BYTES_MAX = 6 << 20 };
/* Of an index of 87 MiB, 43 MiB of which a view may read. */
enum { VIEW_BYTES_MAX = 64 << 20 };
enum { DISK_MIB_MIN = 256 };

static int setup(void **state)
{
    struct scratch *s = malloc(sizeof(*s));
    assert_non_null(s);
    scratch_init(s);
    s->segment_bytes = 1 << 20;
    s->rest_ms = 1;
    scratch_open(s);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_fini(*state);
    free(*state);
    return 0;
}

/* On a small disk the index keeps its blocks. */
static void skip_without_disk(const struct scratch *s)
{
    struct statvfs st;
    assert_int_equal(statvfs(s->dir, &st), 0);
    if (st.f_bavail * st.f_frsize / (1 << 20) < DISK_MIB_MIN)
        skip();
}

static str key_of(unsigned i, char name[16])
{
    (void)snprintf(name, 16, "r%06u", i);
    return str_of(name);
}

struct span {
    unsigned from, until;
    uint64_t seed;
    bool remove;
};

static err write_span(struct engine_txn *t, void *ctx)
{
    const struct span *w = ctx;
    char value[VALUE_BYTES], name[16];
    err why = ERR_OK;
    for (unsigned i = w->from; i < w->until && why == ERR_OK; i++) {
        scratch_bytes(w->seed + i, value, sizeof(value));
        str key = key_of(i, name);
        if (!w->remove)
            why = engine_txn_put(t, SPACE_COMPARE, key, (str){ .p = value, .n = sizeof(value) },
                                 STR(""));
        else if (i % KEPT_EVERY != 0)
            why = engine_txn_delete(t, SPACE_COMPARE, key);
    }
    return why;
}

/* Most of the index is free afterwards. Each step is a commit of its own. */
static void come_and_go(struct scratch *s, uint64_t seed)
{
    enum { STEP = 2000 };
    for (int remove = 0; remove < 2; remove++)
        for (unsigned i = 0; i < ROWS; i += STEP) {
            struct span w = { .from = i, .until = i + STEP, .seed = seed, .remove = remove };
            assert_int_equal(engine_update_wait(s->engine, write_span, &w), ERR_OK);
            assert_int_equal(engine_flush(s->engine), ERR_OK);
        }
}

static void expect_kept(struct scratch *s, uint64_t seed)
{
    char value[VALUE_BYTES], name[16];
    struct scratch_row r;
    for (unsigned i = 0; i < ROWS; i++) {
        err why = scratch_get(s, SPACE_COMPARE, key_of(i, name), &r);
        assert_int_equal(why, i % KEPT_EVERY == 0 ? ERR_OK : ERR_NOT_FOUND);
        if (why != ERR_OK)
            continue;
        scratch_bytes(seed + i, value, sizeof(value));
        assert_int_equal(r.value_n, sizeof(value));
        assert_memory_equal(r.value, value, sizeof(value));
        scratch_row_free(&r);
    }
}

static uint64_t index_bytes(struct scratch *s)
{
    struct engine_stats st;
    engine_stats_get(s->engine, &st);
    return st.index_bytes;
}

static void wait_for_rest(struct scratch *s, uint64_t bytes_max)
{
    WAIT_UNTIL(index_bytes(s) <= bytes_max);
}

static void spare_blocks_go_back_at_rest(void **state)
{
    struct scratch *s = *state;
    skip_without_disk(s);
    for (uint64_t seed = 0; seed < 3; seed++) {
        come_and_go(s, seed);
        wait_for_rest(s, REST_BYTES_MAX);
        expect_kept(s, seed);
        expect_sound(s->engine);
        if (seed == 1) { /* a start finds the holes */
            scratch_close(s);
            scratch_open(s);
            expect_kept(s, seed);
        }
    }
    char name[16];
    assert_int_equal(scratch_put(s, SPACE_COMPARE, key_of(1, name), STR("v"), STR("")), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    expect_sound(s->engine);
}

static void a_view_keeps_its_pages_at_rest(void **state)
{
    struct scratch *s = *state;
    char name[16], value[VALUE_BYTES];
    struct engine_row row;
    skip_without_disk(s);
    struct span all = { .until = ROWS, .seed = 7 };
    assert_int_equal(engine_update_wait(s->engine, write_span, &all), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    struct engine_view *before = engine_view_begin(s->engine);
    come_and_go(s, 8);
    wait_for_rest(s, VIEW_BYTES_MAX); /* without what lay ahead, and what came and went since */
    for (unsigned i = 0; i < ROWS; i++) {
        scratch_bytes(7 + i, value, sizeof(value));
        assert_int_equal(engine_get(before, SPACE_COMPARE, key_of(i, name), &row), ERR_OK);
        assert_int_equal(row.value.n, sizeof(value));
        assert_memory_equal(row.value.p, value, sizeof(value));
    }
    engine_view_end(&before);
    assert_int_equal(scratch_put(s, SPACE_COMPARE, STR("z"), STR("v"), STR("")), ERR_OK);
    wait_for_rest(s, REST_BYTES_MAX);
    expect_kept(s, 8);
    expect_sound(s->engine);
}

static void random_histories_with_rests_match_the_model(void **state)
{
    struct scratch *s = *state;
    struct model m;
    skip_without_disk(s);
    model_init(&m, 43);
    for (int round = 0; round < 6; round++) {
        come_and_go(s, 0);
        wait_for_rest(s, REST_BYTES_MAX);
        for (int i = 0; i < 60; i++) {
            model_step(&m, s);
            if (rng_below(&m.rng, 10) == 0)
                assert_int_equal(engine_flush(s->engine), ERR_OK);
        }
        if (round % 2 == 1) {
            scratch_close(s);
            scratch_open(s);
        }
        model_compare(&m, s);
        expect_kept(s, 0);
        expect_sound(s->engine);
    }
}

#define FACT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FACT(spare_blocks_go_back_at_rest),
        FACT(a_view_keeps_its_pages_at_rest),
        FACT(random_histories_with_rests_match_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
