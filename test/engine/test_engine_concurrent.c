/* Goal: writers, readers, walkers, reclaim, check and flush at once: every view is one state, every
 * answer true. Method: writers move amounts between accounts whose sum is constant, and give each
 * row bytes that depend on its version; readers sum up in one view, by get and by walk, and read
 * bytes now and later under a pin. For TSan. */
#include "base/rng.h"
#include "engine/store.h"
#include "scratch.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

enum { ACCOUNTS = 20, START = 1000, MOVES = 150, WRITERS = 4, READERS = 3 };

struct bank {
    struct scratch scratch;
    atomic_int writers_left;
    _Atomic uint64_t views;
};

static str account(uint64_t i, char *buf)
{
    int n = snprintf(buf, 16, "acc-%02u", (unsigned)i);
    return (str){ .p = buf, .n = (size_t)n };
}

static int64_t balance_of(str value)
{
    int64_t n = 0;
    INVARIANT(str_to_i64(value, &n));
    return n;
}

struct move {
    uint64_t from, to, seed;
    char bytes[2][6000];
    size_t n[2];
};

static err set(struct engine_txn *t, uint64_t i, int64_t balance, str bytes)
{
    char key[16], value[32];
    int n = snprintf(value, sizeof(value), "%lld", (long long)balance);
    return engine_txn_put(t, SPACE_ROW, account(i, key), (str){ .p = value, .n = (size_t)n },
                          bytes);
}

static int64_t balance(struct engine_txn *t, uint64_t i)
{
    char key[16];
    struct engine_row row;
    INVARIANT(engine_get(engine_txn_view(t), SPACE_ROW, account(i, key), &row) == ERR_OK);
    return balance_of(row.value);
}

static err move_decide(struct engine_txn *t, void *ctx)
{
    struct move *m = ctx;
    int64_t from = balance(t, m->from);
    int64_t to = balance(t, m->to);
    err why = set(t, m->from, from - 1, (str){ .p = m->bytes[0], .n = m->n[0] });
    if (why == ERR_OK)
        why = set(t, m->to, to + 1, (str){ .p = m->bytes[1], .n = m->n[1] });
    if (why != ERR_OK)
        return why;
    return m->seed % 7 == 0 ? ERR_PRECONDITION : ERR_OK;
}

static err open_accounts(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    err why = ERR_OK;
    for (uint64_t i = 0; i < ACCOUNTS && why == ERR_OK; i++)
        why = set(t, i, START, STR_NONE);
    return why;
}

static void *write_run(void *ctx)
{
    struct bank *b = ctx;
    struct move *m = malloc(sizeof(*m));
    struct rng rng;
    INVARIANT(m != NULL);
    rng_init(&rng, (uint64_t)(uintptr_t)pthread_self());
    for (int i = 0; i < MOVES; i++) {
        m->seed = rng_next(&rng);
        m->from = rng_below(&rng, ACCOUNTS);
        m->to = (m->from + 1 + rng_below(&rng, ACCOUNTS - 1)) % ACCOUNTS;
        for (int j = 0; j < 2; j++) {
            m->n[j] = (size_t)rng_below(&rng, sizeof(m->bytes[j]));
            scratch_bytes(m->seed + (uint64_t)j, m->bytes[j], m->n[j]);
        }
        err why = engine_update_wait(b->scratch.engine, move_decide, m);
        INVARIANT(why == (m->seed % 7 == 0 ? ERR_PRECONDITION : ERR_OK));
    }
    free(m);
    atomic_fetch_sub(&b->writers_left, 1);
    return NULL;
}

static void expect_bytes(struct engine *e, const struct engine_blob *blob)
{
    static const size_t most = 6000;
    char bytes[6000];
    INVARIANT(blob->n <= most);
    INVARIANT(engine_blob_read(e, blob, 0, blob->n, bytes) == ERR_OK);
    INVARIANT(blob->n == 0 || XXH3_64bits(bytes, blob->n) == blob->hash);
}

static void sum_by_get(struct engine *e, struct engine_view *v)
{
    int64_t sum = 0;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        char key[16];
        struct engine_row row;
        INVARIANT(engine_get(v, SPACE_ROW, account(i, key), &row) == ERR_OK);
        sum += balance_of(row.value);
        if (i % 5 == 0)
            expect_bytes(e, &row.blob);
    }
    INVARIANT(sum == (int64_t)ACCOUNTS * START);
}

static void sum_by_walk(struct engine_view *v, bool reversed)
{
    struct engine_range all = { .space = SPACE_ROW, .reversed = reversed };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    int64_t sum = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        sum += balance_of(row.value);
    engine_cursor_close(&c);
    INVARIANT(sum == (int64_t)ACCOUNTS * START);
}

static void *read_run(void *ctx)
{
    struct bank *b = ctx;
    struct engine *e = b->scratch.engine;
    struct engine_blob kept = { .n = 0 };
    struct engine_pin pin = { .epoch = 0 };
    bool pinned = false;
    while (atomic_load(&b->writers_left) > 0) {
        struct engine_view *v = engine_view_begin(e);
        sum_by_get(e, v);
        sum_by_walk(v, false);
        sum_by_walk(v, true);
        struct engine_row row;
        if (!pinned && engine_get(v, SPACE_ROW, STR("acc-03"), &row) == ERR_OK &&
            row.blob.mem == NULL) {
            kept = row.blob;
            pin = engine_pin(v);
            pinned = true;
        }
        engine_view_end(&v);
        if (pinned && atomic_fetch_add(&b->views, 1) % 3 == 0) {
            expect_bytes(e, &kept);
            engine_unpin(e, pin);
            pinned = false;
        }
    }
    if (pinned)
        engine_unpin(e, pin);
    return NULL;
}

static void *upkeep_run(void *ctx)
{
    struct bank *b = ctx;
    struct engine_check_opts opts = { .found = NULL };
    for (int i = 0; atomic_load(&b->writers_left) > 0; i++) {
        bool more;
        struct engine_stats st;
        INVARIANT(engine_reclaim(b->scratch.engine, &more) == ERR_OK);
        if (i % 3 == 0)
            INVARIANT(engine_check(b->scratch.engine, &opts) == ERR_OK);
        engine_stats_get(b->scratch.engine, &st);
    }
    return NULL;
}

static void every_view_is_one_state_whatever_runs_beside(void **state)
{
    (void)state;
    struct bank *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    scratch_init(&b->scratch);
    b->scratch.segment_bytes = 256 << 10;
    scratch_open(&b->scratch);
    assert_int_equal(engine_update_wait(b->scratch.engine, open_accounts, NULL), ERR_OK);
    atomic_store(&b->writers_left, WRITERS);
    pthread_t threads[WRITERS + READERS + 1];
    for (int i = 0; i < WRITERS + READERS + 1; i++) {
        void *(*run)(void *) = i < WRITERS             ? write_run
                               : i < WRITERS + READERS ? read_run
                                                       : upkeep_run;
        assert_int_equal(pthread_create(&threads[i], NULL, run, b), 0);
    }
    for (int i = 0; i < WRITERS + READERS + 1; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        struct engine_view *v = engine_view_begin(b->scratch.engine);
        sum_by_get(b->scratch.engine, v);
        engine_view_end(&v);
        scratch_close(&b->scratch);
        scratch_open(&b->scratch);
    }
    scratch_fini(&b->scratch);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        every_view_is_one_state_whatever_runs_beside) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
