/* Goal: an index that comes near the end of its map refuses what grows; what was acknowledged is
 * there and the engine never fails, whatever the sizes. Method: a map of 32 MiB, filled and
 * emptied, against a reference in memory; also with a reader, opened with a larger map, and with
 * maps too small for what is in the log. The map is as large as the process may have. */
#include "base/rng.h"
#include "engine/store.h"
#include "lib/wait.h"
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    KEYS = 49152,
    ROWS_PER_UPDATE_MAX = 16,
    CHANGES_AT_ONCE = 4,
    MAP_BYTES = 32 << 20,
    ROWS_FIT_MIN = 8192, /* half of the map, at least */
    ALL_KEYS = 3072,     /* written at once, or into a map too small for them */
    VALUE_BYTES_MAX = ENGINE_VALUE_BYTES_MAX,
    BLOB_BYTES_MAX = 3000,
    STEP_BYTES = 32 << 12, /* for a commit of next to nothing */
};

struct store {
    struct scratch scratch;
    uint32_t version[KEYS]; /* 0: not there */
    uint32_t versions;
    unsigned changes;
    atomic_int failures;
};

static str key_of(unsigned i, char buf[64])
{
    int n = snprintf(buf, 64, "%08x-a-key-of-some-length-%05u", i * 0x9e3779b1u, i);
    return (str){ .p = buf, .n = (size_t)n };
}

/* A version decides the sizes of value and blob: none, inline, or in the log. */
static str value_of(uint32_t version, char buf[VALUE_BYTES_MAX])
{
    size_t n = version * 7919u % (VALUE_BYTES_MAX + 1);
    scratch_bytes(version, buf, n);
    return (str){ .p = buf, .n = n };
}

static str blob_of(uint32_t version, char buf[BLOB_BYTES_MAX])
{
    size_t n = version % 3 == 0 ? 0
                                : version * 104729u %
                                      (version % 3 == 1 ? ENGINE_INLINE_BYTES_MAX : BLOB_BYTES_MAX);
    scratch_bytes(version + 1, buf, n);
    return (str){ .p = buf, .n = n };
}

static void on_failure(void *ctx, const char *what)
{
    struct store *s = ctx;
    print_error("%s\n", what);
    atomic_fetch_add(&s->failures, 1);
}

static void store_open(struct store *s)
{
    scratch_open(&s->scratch);
    engine_on_failure(s->scratch.engine, on_failure, s);
}

static void store_reopen(struct store *s)
{
    scratch_close(&s->scratch);
    store_open(s);
}

/* ---- updates ---- */

struct change {
    struct engine_update update;
    unsigned count;
    unsigned keys[ROWS_PER_UPDATE_MAX];
    uint32_t versions[ROWS_PER_UPDATE_MAX]; /* 0: deleted */
    char blobs[ROWS_PER_UPDATE_MAX][BLOB_BYTES_MAX];
    atomic_int result; /* -1: not yet */
};

static err change_decide(struct engine_txn *t, void *ctx)
{
    struct change *c = ctx;
    err why = ERR_OK;
    for (unsigned i = 0; i < c->count && why == ERR_OK; i++) {
        char key[64], value[VALUE_BYTES_MAX];
        str k = key_of(c->keys[i], key);
        uint32_t v = c->versions[i];
        why = v == 0 ? engine_txn_delete(t, SPACE_ROW, k)
                     : engine_txn_put(t, SPACE_ROW, k, value_of(v, value), blob_of(v, c->blobs[i]));
    }
    return why;
}

static void change_done(void *ctx, err why)
{
    struct change *c = ctx;
    atomic_store(&c->result, (int)why);
}

static void change_add(struct change *c, unsigned key, uint32_t version)
{
    assert_true(c->count < ROWS_PER_UPDATE_MAX);
    c->keys[c->count] = key;
    c->versions[c->count++] = version;
}

static void change_start(struct store *s, struct change *c)
{
    bool frees = true;
    for (unsigned i = 0; i < c->count; i++)
        frees = frees && c->versions[i] == 0;
    atomic_store(&c->result, -1);
    c->update = (struct engine_update){
        .decide = change_decide, .done = change_done, .ctx = c, .frees = frees
    };
    engine_submit(s->scratch.engine, &c->update);
}

/* The reference follows what was acknowledged. */
static err change_end(struct store *s, const struct change *c)
{
    WAIT_UNTIL(atomic_load(&c->result) >= 0);
    err why = (err)atomic_load(&c->result);
    for (unsigned i = 0; i < c->count && why == ERR_OK; i++)
        s->version[c->keys[i]] = c->versions[i];
    return why;
}

/* What is let in and not in the index yet stays small, as it is beside a map of 16 GiB: on a busy
 * machine the indexer falls behind. */
static void keep_up(struct store *s)
{
    err why = engine_flush(s->scratch.engine);
    assert_true(why == ERR_OK || why == ERR_FULL);
}

/* Puts (or deletes) count keys from first on. */
static err change_range(struct store *s, unsigned first, unsigned count, bool deletes)
{
    static struct change c;
    if (deletes && ++s->changes % CHANGES_AT_ONCE == 0)
        keep_up(s); /* nothing but the map bounds them */
    c.count = 0;
    for (unsigned i = 0; i < count; i++)
        change_add(&c, first + i, deletes ? 0 : ++s->versions);
    change_start(s, &c);
    return change_end(s, &c);
}

enum { STEP = 16 };

/* Puts until refused; how many keys are there now. */
static unsigned fill(struct store *s, unsigned from)
{
    unsigned i = from;
    err why = ERR_OK;
    while (i + STEP <= KEYS && (why = change_range(s, i, STEP, false)) == ERR_OK)
        i += STEP;
    assert_int_equal(why, ERR_FULL);
    return i;
}

/* The index has all of it. While a commit waits for the pages that the one before it freed, the
 * engine says that there is no room, and tries again. */
static void flush(struct store *s)
{
    err why = ERR_FULL;
    WAIT_UNTIL((why = engine_flush(s->scratch.engine)) != ERR_FULL);
    assert_int_equal(why, ERR_OK);
}

static void compare(struct store *s)
{
    char key[64], value[VALUE_BYTES_MAX], blob[BLOB_BYTES_MAX];
    for (unsigned i = 0; i < KEYS; i++) {
        struct scratch_row row;
        err why = scratch_get(&s->scratch, SPACE_ROW, key_of(i, key), &row);
        assert_int_equal(why, s->version[i] == 0 ? ERR_NOT_FOUND : ERR_OK);
        if (why != ERR_OK)
            continue;
        str v = value_of(s->version[i], value), b = blob_of(s->version[i], blob);
        assert_true(str_eq((str){ .p = row.value, .n = row.value_n }, v));
        assert_true(str_eq((str){ .p = row.bytes, .n = row.bytes_n }, b));
        scratch_row_free(&row);
    }
    assert_int_equal(atomic_load(&s->failures), 0);
}

/* ---- facts ---- */

/* With room again: what was acknowledged is there, and more is taken. */
static void goes_on_in_a_larger_map(struct store *s)
{
    s->scratch.map_bytes = 4 * MAP_BYTES;
    store_reopen(s);
    flush(s);
    compare(s);
    assert_int_equal(change_range(s, 0, STEP, false), ERR_OK);
    compare(s);
    expect_sound(s->scratch.engine);
}

static void growth_is_refused_near_the_end_of_the_map(void **state)
{
    struct store *s = *state;
    store_open(s);
    unsigned count = fill(s, 0);
    assert_true(count > ROWS_FIT_MIN); /* most of the map is used, not only the start of it */
    compare(s);
    goes_on_in_a_larger_map(s);
}

static void a_reader_keeps_freed_pages_and_nothing_is_lost(void **state)
{
    struct store *s = *state;
    char key[64];
    struct engine_row row;
    store_open(s);
    unsigned count = fill(s, 0), deleted = 0;
    flush(s);
    struct engine_view *v = engine_view_begin(s->scratch.engine);
    while (deleted + STEP <= count && change_range(s, deleted, STEP, true) == ERR_OK)
        deleted += STEP;
    assert_true(deleted > 0);
    assert_int_equal(change_range(s, count, STEP, false), ERR_FULL);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(engine_get(v, SPACE_ROW, key_of(i, key), &row), ERR_OK);
    compare(s);
    engine_view_end(&v);
    goes_on_in_a_larger_map(s);
}

enum { AT_ONCE = 4, ROUNDS = 600, ROUNDS_MAX = 20 * ROUNDS };

static void change_random(struct store *s, struct rng *rng, struct change *c, bool deletes)
{
    c->count = 0;
    unsigned rows = 1 + (unsigned)rng_below(rng, rng_below(rng, 4) == 0 ? ROWS_PER_UPDATE_MAX : 8);
    for (unsigned i = 0; i < rows; i++) {
        unsigned key = (unsigned)rng_below(rng, KEYS);
        bool goes = deletes || rng_below(rng, 4) == 0;
        change_add(c, key, goes ? 0 : ++s->versions);
    }
}

/* Many updates at once, so that some stand in both overlays while others are let in. */
static void random_histories_at_the_limit_match_the_reference(void **state)
{
    struct store *s = *state;
    static struct change all[AT_ONCE];
    struct rng rng;
    unsigned refused = 0, accepted_after = 0;
    rng_init(&rng, 7);
    store_open(s);
    (void)fill(s, 0);
    bool emptying = false;
    /* What is not in the index yet counts for more room than it takes in the end. So an indexer
     * that is behind, on a busy machine, ends the fill early, and the limit is some rounds away. */
    for (int round = 0; round < ROUNDS || (refused == 0 && round < ROUNDS_MAX); round++) {
        unsigned full = 0;
        for (unsigned i = 0; i < AT_ONCE; i++) {
            change_random(s, &rng, &all[i], emptying && rng_below(&rng, 4) > 0);
            change_start(s, &all[i]);
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            err why = change_end(s, &all[i]);
            assert_true(why == ERR_OK || why == ERR_FULL);
            full += why == ERR_FULL;
            accepted_after += why == ERR_OK && refused > 0 && !all[i].update.frees;
        }
        keep_up(s);
        refused += full;
        emptying = emptying ? rng_below(&rng, 5) > 0 : full > 0;
        if (rng_below(&rng, 10) == 0)
            store_reopen(s);
        if (rng_below(&rng, 10) == 0)
            compare(s);
    }
    print_message("%u refused, %u accepted later\n", refused, accepted_after);
    assert_true(refused > 0); /* how many, the pace of the indexer decides */
    goes_on_in_a_larger_map(s);
}

/* The index as it was in the beginning, a log full of rows, and a map too small for them: commits
 * meet its end. */
static void a_commit_that_meets_the_end_of_the_map_loses_nothing(void **state)
{
    struct store *s = *state;
    char data[2 * SCRATCH_PATH_BYTES], aside[2 * SCRATCH_PATH_BYTES];
    scratch_path(&s->scratch, "index/data.mdb", data);
    scratch_path(&s->scratch, "aside", aside);
    s->scratch.map_bytes = 64 << 20;
    store_open(s);
    scratch_close(&s->scratch);
    scratch_copy_file(data, aside);
    store_open(s);
    for (unsigned i = 0; i + STEP <= ALL_KEYS; i += STEP)
        assert_int_equal(change_range(s, i, STEP, false), ERR_OK);
    scratch_close(&s->scratch);
    scratch_copy_file(aside, data);
    assert_int_equal(unlink(aside), 0);
    s->scratch.map_bytes = 1 << 20;
    store_open(s);
    assert_int_equal(engine_flush(s->scratch.engine), ERR_FULL);
    assert_int_equal(change_range(s, 0, STEP, false), ERR_FULL);
    compare(s);
    s->scratch.map_bytes = 64 << 20;
    store_reopen(s);
    assert_int_equal(engine_flush(s->scratch.engine), ERR_OK);
    assert_int_equal(change_range(s, 0, STEP, false), ERR_OK);
    compare(s);
    expect_sound(s->scratch.engine);
}

/* Nothing is left behind the last page, for nobody. */
static void a_map_smaller_than_the_index_is_opened_and_loses_nothing(void **state)
{
    struct store *s = *state;
    char data[2 * SCRATCH_PATH_BYTES];
    struct stat st;
    scratch_path(&s->scratch, "index/data.mdb", data);
    s->scratch.map_bytes = 64 << 20;
    store_open(s);
    for (unsigned i = 0; i + STEP <= ALL_KEYS; i += STEP)
        assert_int_equal(change_range(s, i, STEP, false), ERR_OK);
    scratch_close(&s->scratch);
    assert_int_equal(stat(data, &st), 0);
    s->scratch.map_bytes = 1 << 20;
    assert_true(st.st_size > 1 << 20);
    store_open(s);
    compare(s);
    err why = ERR_OK;
    for (unsigned i = 0; i + STEP <= ALL_KEYS && why == ERR_OK;
         i += STEP) /* as many as pages are free */
        why = change_range(s, i, STEP, false);
    assert_true(why == ERR_OK || why == ERR_FULL);
    compare(s);
    s->scratch.map_bytes = 64 << 20;
    store_reopen(s);
    assert_int_equal(change_range(s, 0, STEP, false), ERR_OK);
    compare(s);
    expect_sound(s->scratch.engine);
}

/* Of these versions none has a blob. */
static err all_decide(struct engine_txn *t, void *ctx)
{
    const struct store *s = ctx;
    err why = ERR_OK;
    for (unsigned i = 0; i < ALL_KEYS && why == ERR_OK; i++) {
        char key[64], value[VALUE_BYTES_MAX];
        str k = key_of(i, key);
        why = s->version[i] > 0
                  ? engine_txn_delete(t, SPACE_ROW, k)
                  : engine_txn_put(t, SPACE_ROW, k, value_of(3 * (i + 1), value), STR_NONE);
    }
    return why;
}

/* Puts all keys, or deletes them when they are there: with one commit of the index. */
static void change_all(struct store *s)
{
    assert_int_equal(engine_update_wait(s->scratch.engine, all_decide, s), ERR_OK);
    assert_int_equal(engine_flush(s->scratch.engine), ERR_OK);
    for (unsigned i = 0; i < ALL_KEYS; i++)
        s->version[i] = s->version[i] > 0 ? 0 : 3 * (i + 1);
}

/* Pages that the last commit freed, rows in the log that need them, and next to nothing behind the
 * last page. */
static void a_commit_takes_in_the_end_what_the_one_before_it_freed(void **state)
{
    struct store *s = *state;
    char data[2 * SCRATCH_PATH_BYTES], aside[2 * SCRATCH_PATH_BYTES];
    struct stat st;
    scratch_path(&s->scratch, "index/data.mdb", data);
    scratch_path(&s->scratch, "aside", aside);
    s->scratch.map_bytes = 256 << 20;
    store_open(s);
    change_all(s);
    change_all(s);
    scratch_close(&s->scratch);
    scratch_copy_file(data, aside);
    store_open(s);
    change_all(s);
    scratch_close(&s->scratch);
    scratch_copy_file(aside, data);
    assert_int_equal(unlink(aside), 0);
    assert_int_equal(stat(data, &st), 0);
    s->scratch.map_bytes = (uint64_t)st.st_size + STEP_BYTES;
    store_open(s);
    flush(s);
    compare(s);
    expect_sound(s->scratch.engine);
}

/* Sanitizers take more address space than any limit leaves. */
#ifndef __has_feature /* gcc */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

/* In a process of its own, which is left with so much address space: the map it got, or 0. */
static uint64_t map_within(struct store *s, uint64_t bytes)
{
    int ends[2];
    uint64_t map = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };
        struct engine_opts opts = { .dir = s->scratch.dir, .free_bytes_min = 1 };
        struct engine *e = NULL;
        struct engine_stats stats = { .map_bytes = 0 };
        struct err_note note;
        store_time greatest;
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(1);
        if (engine_open(&opts, &e, &greatest, &note) == ERR_OK)
            engine_stats_get(e, &stats);
        engine_close(&e);
        _exit(write(ends[1], &stats.map_bytes, sizeof stats.map_bytes) == sizeof map ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &map, sizeof map), sizeof map);
    close(ends[0]);
    close(ends[1]);
    return map;
}

static void a_map_that_does_not_fit_is_halved_down_to_16_gib(void **state)
{
    struct store *s = *state;
    const uint64_t gib = (uint64_t)1 << 30;
    if (IS_SANITIZED)
        skip();
    assert_int_equal(map_within(s, 3 * ENGINE_MAP_BYTES / 2), ENGINE_MAP_BYTES);
    assert_int_equal(map_within(s, 100 * gib), 64 * gib);
    assert_int_equal(map_within(s, 20 * gib), 16 * gib);
    assert_int_equal(map_within(s, 15 * gib), 0);
}

static int setup(void **state)
{
    struct store *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    scratch_init(&s->scratch);
    s->scratch.segment_bytes = 1 << 20;
    s->scratch.map_bytes = MAP_BYTES;
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct store *s = *state;
    scratch_fini(&s->scratch);
    free(s);
    return 0;
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0); /* thousands of syncs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(growth_is_refused_near_the_end_of_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_keeps_freed_pages_and_nothing_is_lost, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(random_histories_at_the_limit_match_the_reference, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_commit_that_meets_the_end_of_the_map_loses_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_map_smaller_than_the_index_is_opened_and_loses_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_commit_takes_in_the_end_what_the_one_before_it_freed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_map_that_does_not_fit_is_halved_down_to_16_gib, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
