/* Goal: the overlay finds what a sorted array would find, in both directions, at every version.
 * Method: random writes to both; lookups, neighbours and walks compared at random versions; then
 * readers beside a writer (for TSan). */
#include "base/rng.h"
#include "engine/overlay.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 40, STEPS = 400 };

/* versions[k][s]: number of the write that key k shows at version s; 0: none. */
struct naive {
    uint32_t shows[KEYS][STEPS + 1];
};

static str key_of(unsigned k, char *buf)
{
    int n = snprintf(buf, 16, "\1%02u", k);
    return (str){ .p = buf, .n = (size_t)n };
}

static void expect_node(const struct naive *m, const struct overlay_node *n, unsigned k, unsigned s)
{
    char buf[16];
    if (k >= KEYS) {
        assert_null(n);
        return;
    }
    assert_non_null(n);
    assert_true(str_eq(overlay_key(n), key_of(k, buf)));
    assert_int_equal(n->seq, m->shows[k][s]);
}

static unsigned after(const struct naive *m, unsigned k, unsigned s)
{
    while (k < KEYS && m->shows[k][s] == 0)
        k++;
    return k;
}

static unsigned before(const struct naive *m, unsigned k, bool inclusive, unsigned s)
{
    if (inclusive && m->shows[k][s] != 0)
        return k;
    while (k > 0)
        if (m->shows[--k][s] != 0)
            return k;
    return KEYS;
}

static void compare(const struct naive *m, const struct overlay *o, struct rng *rng, unsigned s)
{
    char buf[16];
    unsigned k = (unsigned)rng_below(rng, KEYS);
    str key = key_of(k, buf);
    struct overlay_node *n = overlay_find(o, key, s);
    if (m->shows[k][s] == 0)
        assert_null(n);
    else
        expect_node(m, n, k, s);
    expect_node(m, overlay_at_or_after(o, key, s), after(m, k, s), s);
    expect_node(m, overlay_before(o, key, true, s), before(m, k, true, s), s);
    expect_node(m, overlay_before(o, key, false, s), before(m, k, false, s), s);
    n = NULL;
    for (k = after(m, 0, s); k <= KEYS; k = after(m, k + 1, s)) {
        n = overlay_next(o, n, s);
        expect_node(m, n, k, s);
        if (n == NULL)
            break;
    }
}

static void overlay_matches_a_sorted_array_at_every_version(void **state)
{
    (void)state;
    struct naive *m = calloc(1, sizeof(*m));
    struct overlay *o = overlay_new();
    struct rng rng;
    rng_init(&rng, 5);
    for (unsigned s = 1; s <= STEPS; s++) {
        char buf[16];
        unsigned k = (unsigned)rng_below(&rng, KEYS);
        struct overlay_row row = { .key = key_of(k, buf), .value = STR("v"), .seq = s };
        struct overlay_node *n = overlay_add(o, &row);
        bool aborted = rng_below(&rng, 5) == 0;
        n->aborted = aborted;
        for (unsigned i = 0; i < KEYS; i++)
            m->shows[i][s] = m->shows[i][s - 1];
        if (!aborted)
            m->shows[k][s] = s;
        for (int i = 0; i < 5; i++)
            compare(m, o, &rng, (unsigned)rng_below(&rng, s + 1));
    }
    overlay_unref(&o);
    free(m);
}

static void rows_are_copies(void **state)
{
    (void)state;
    struct overlay *o = overlay_new();
    char key[] = "\1k", value[] = "v", mem[] = "inline";
    struct overlay_row row = { .key = { .p = key, .n = 2 },
                               .value = { .p = value, .n = 1 },
                               .seq = 1,
                               .blob = { .n = 6, .mem = mem } };
    overlay_add(o, &row);
    key[1] = value[0] = mem[0] = 'X';
    struct overlay_node *n = overlay_find(o, STR("\1k"), 1);
    assert_non_null(n);
    assert_true(str_eq(overlay_value(n), STR("v")));
    assert_memory_equal(n->blob.mem, "inline", 6);
    overlay_unref(&o);
}

struct race {
    struct overlay *overlay;
    _Atomic uint64_t published;
};

static void *read_run(void *ctx)
{
    struct race *r = ctx;
    for (uint64_t seen = 0; seen < 2000;) {
        seen = atomic_load_explicit(&r->published, memory_order_acquire);
        uint64_t count = 0;
        for (struct overlay_node *n = overlay_next(r->overlay, NULL, seen); n != NULL;
             n = overlay_next(r->overlay, n, seen))
            count++;
        INVARIANT(count == (seen < 100 ? seen : 100));
    }
    return NULL;
}

static void readers_see_whole_versions_beside_a_writer(void **state)
{
    (void)state;
    struct race r = { .overlay = overlay_new() };
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_run, &r), 0);
    for (unsigned s = 1; s <= 2000; s++) {
        char buf[16];
        int n = snprintf(buf, sizeof(buf), "\1%02u", s * 7 % 100);
        struct overlay_row row = { .key = { .p = buf, .n = (size_t)n }, .seq = s };
        overlay_add(r.overlay, &row);
        atomic_store_explicit(&r.published, s, memory_order_release);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    overlay_unref(&r.overlay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay_matches_a_sorted_array_at_every_version),
        cmocka_unit_test(rows_are_copies),
        cmocka_unit_test(readers_see_whole_versions_beside_a_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
