/* Goal: alignment, the ceiling, and no overflow whatever size is asked for. Method: sizes at the
 * edges. */
#include "base/arena.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

/* Read by AddressSanitizer: impossible sizes are what malloc is asked for here. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

enum { CEILING = 1 << 20 };

static void memory_is_aligned_apart_and_lasts(void **state)
{
    (void)state;
    struct arena a;
    unsigned char *at[200];
    arena_init(&a, CEILING);
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        at[i] = arena_alloc(&a, i * 7 + 1);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % 16, 0);
        memset(at[i], (int)i, i * 7 + 1);
    }
    for (size_t i = 0; i < COUNT_OF(at); i++)
        for (size_t n = 0; n < i * 7 + 1; n++)
            assert_int_equal(at[i][n], i);
    assert_non_null(arena_alloc(&a, 0));
    arena_fini(&a);
}

static void the_ceiling_holds_and_a_reset_clears_it(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, CEILING);
    assert_null(arena_alloc(&a, CEILING + 1));
    assert_non_null(arena_alloc(&a, CEILING - 64));
    assert_null(arena_alloc(&a, 128));
    assert_true(a.total <= CEILING);
    arena_reset(&a);
    assert_int_equal(a.total, 0);
    assert_non_null(arena_alloc(&a, CEILING - 64));
    arena_fini(&a);
    arena_init(&a, 100);
    size_t got = 0;
    while (arena_alloc(&a, 16) != NULL)
        got += 16;
    assert_int_equal(got, 96); /* to the last whole step, not to the last whole chunk */
    arena_fini(&a);
}

static void large_pieces_do_not_waste_what_is_left_for_small_ones(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64 * 20000 + 8192); /* that, and one common chunk for all the small ones */
    for (unsigned i = 0; i < 64; i++) {
        unsigned char *small = arena_alloc(&a, 100), *large = arena_alloc(&a, 20000 - 112);
        assert_non_null(small);
        assert_non_null(large);
        memset(small, 1, 100);
        memset(large, 2, 20000 - 112);
        assert_int_equal(small[99], 1);
    }
    arena_fini(&a);
}

/* As often as one likes, whatever was taken meanwhile. */
static void a_release_frees_what_came_since_its_mark(void **state)
{
    enum { LARGE = 100000, TRIES = 50 };
    (void)state;
    struct arena a;
    arena_init(&a, CEILING);
    struct arena_mark empty = arena_mark(&a);
    for (int round = 0; round < 2; round++) {
        char *kept = arena_alloc(&a, 100);
        assert_non_null(kept);
        memset(kept, 'k', 100);
        const size_t total = a.total;
        struct arena_mark m = arena_mark(&a);
        for (unsigned i = 0; i < TRIES; i++) {
            for (unsigned n = 0; n < 4; n++) {
                assert_non_null(arena_alloc(&a, LARGE)); /* a chunk of its own, behind the newest */
                assert_non_null(arena_calloc(&a, 1, 5000));
            }
            arena_release(&a, m);
            assert_int_equal(a.total, total);
        }
        char *next = arena_alloc(&a, 16);
        assert_non_null(next);
        memset(next, 'n', 16);
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(kept[i], 'k');
        arena_release(&a, empty);
        assert_int_equal(a.total, 0);
    }
    arena_fini(&a);
}

static void what_is_reserved_is_there(void **state)
{
    enum { ROOM = 100000, SMALL = 48, LARGE = 20000 };
    struct arena a;
    (void)state;
    arena_init(&a, 2 * ROOM);
    assert_non_null(arena_alloc(&a, SMALL));
    assert_true(arena_reserve(&a, ROOM));
    size_t total = a.total;
    for (size_t left = ROOM, n; left >= SMALL; left -= n) {
        n = left > LARGE ? LARGE : SMALL;
        assert_non_null(arena_alloc(&a, n));
    }
#ifndef ARENA_DEBUG
    assert_int_equal(a.total, total);
#else
    (void)total;
#endif
    assert_false(arena_reserve(&a, 2 * ROOM));
    assert_true(arena_is_full(&a));
    arena_fini(&a);
}

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, SIZE_MAX);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 15));
    assert_null(arena_alloc(&a, SIZE_MAX - 16)); /* with the chunk's own head it would pass 2^64 */
    assert_null(arena_alloc(&a, SIZE_MAX - 40));
    assert_null(arena_calloc(&a, SIZE_MAX / 2, 3));
    assert_null(arena_cstr(&a, (str){ .p = "", .n = SIZE_MAX }));
    assert_null(arena_copy(&a, (str){ .p = "", .n = SIZE_MAX }).p);
    assert_non_null(arena_alloc(&a, 1));
    arena_fini(&a);
}

static void calloc_is_zero_also_on_used_memory(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, CEILING);
    char *used = arena_alloc(&a, 4096);
    assert_non_null(used);
    memset(used, 0xff, 4096);
    arena_reset(&a);
    const char *zero = arena_calloc(&a, 1024, 4);
    assert_non_null(zero);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(zero[i], 0);
    assert_non_null(arena_calloc(&a, 0, 8));
    arena_fini(&a);
}

static void copies_and_texts_end_with_nul(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, CEILING);
    str copy = arena_copy(&a, STR("a\0b"));
    assert_true(str_eq(copy, STR("a\0b")));
    assert_int_equal(copy.p[3], 0);
    assert_non_null(arena_copy(&a, STR_NONE).p);
    assert_string_equal(arena_cstr(&a, STR("abc")), "abc");
    str text = arena_printf(&a, "%d %s", -7, "seven");
    assert_true(str_eq(text, STR("-7 seven")));
    assert_int_equal(text.p[text.n], 0);
    str empty = arena_printf(&a, "%s", "");
    assert_non_null(empty.p);
    assert_int_equal(empty.n, 0);
    arena_fini(&a);
    arena_init(&a, 8);
    assert_null(arena_printf(&a, "%s", "too long for that").p);
    arena_fini(&a);
}

static void texts_of_any_length_are_whole(void **state)
{
    (void)state;
    char wanted[2000];
    for (int n = 0; n < (int)sizeof wanted; n += n >= 500 && n < 520 ? 1 : 20) {
        struct arena a;
        (void)snprintf(wanted, sizeof wanted, "%0*d", n, 1);
        arena_init(&a, CEILING);
        str text = arena_printf(&a, "%0*d", n, 1);
        assert_true(str_eq(text, str_of(wanted)));
        assert_int_equal(text.p[text.n], 0);
        arena_fini(&a);
        arena_init(&a, text.n); /* and a byte for its end */
        assert_null(arena_printf(&a, "%0*d", n, 1).p);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_apart_and_lasts),
        cmocka_unit_test(the_ceiling_holds_and_a_reset_clears_it),
        cmocka_unit_test(large_pieces_do_not_waste_what_is_left_for_small_ones),
        cmocka_unit_test(a_release_frees_what_came_since_its_mark),
        cmocka_unit_test(what_is_reserved_is_there),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(calloc_is_zero_also_on_used_memory),
        cmocka_unit_test(copies_and_texts_end_with_nul),
        cmocka_unit_test(texts_of_any_length_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
