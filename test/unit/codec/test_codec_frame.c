/* Goal: frames come back exactly, are the same each time, and damage is found. Method: sizes at and
 * around the edges, every truncation, foreign decoders, bit flips. */
#include "codec/frame.h"

#include "base/rng.h"

#include <libdeflate.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const enum frame_coding codings[] = { FRAME_IDENTITY, FRAME_GZIP, FRAME_ZSTD };

static str text_make(struct arena *a, struct rng *r, size_t n)
{
    static const char words[] = "the quick brown fox <p>jumps</p> over 0123456789";
    char *p = arena_alloc(a, n == 0 ? 1 : n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = words[(i + rng_below(r, 3)) % (sizeof words - 1)];
    return (str){ p, n };
}

static void frames_come_back_and_repeat(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 2, 100, 1023, 4096, 65535, 65536, 300000 };
    struct frame_codec *f = frame_codec_new();
    struct rng r;
    rng_init(&r, 3);
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(codings); i++) {
        enum frame_coding coding = codings[i % COUNT_OF(codings)];
        struct frame_codec *other = frame_codec_new();
        struct arena a;
        str frame, again, back;
        arena_init(&a, 8 << 20);
        str raw = text_make(&a, &r, sizes[i / COUNT_OF(codings)]);
        assert_int_equal(frame_compress(f, coding, raw, &a, &frame), ERR_OK);
        assert_int_equal(frame_compress(other, coding, raw, &a, &again), ERR_OK);
        assert_true(str_eq(frame, again));
        if (coding != FRAME_IDENTITY && raw.n > 4000)
            assert_true(frame.n < raw.n);
        assert_int_equal(frame_decompress(f, coding, frame, raw.n, &a, &back), ERR_OK);
        assert_true(str_eq(back, raw));
        arena_fini(&a);
        frame_codec_free(&other);
        assert_null(other);
    }
    frame_codec_free(&f);
}

static void what_cannot_get_smaller_is_not_squeezed(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 2, 100, 65535, 65536, 300000 };
    struct frame_pool pool = { .idle = { NULL } };
    struct arena a;
    struct rng r;
    rng_init(&r, 5);
    arena_init(&a, 64 << 20);
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(codings); i++) {
        struct frame_codec *f = frame_pool_take(&pool);
        size_t size = sizes[i / COUNT_OF(codings)], n = 0;
        char *noise = arena_alloc(&a, size), *out = arena_alloc(&a, size);
        str frame, back;
        assert_non_null(noise);
        assert_non_null(out);
        for (size_t k = 0; k < size; k++)
            noise[k] = (char)rng_next(&r);
        str raw = { noise, size };
        assert_false(frame_squeeze(f, codings[i % COUNT_OF(codings)], raw, out, &n));
        assert_int_equal(frame_compress(f, codings[i % COUNT_OF(codings)], raw, &a, &frame),
                         ERR_OK);
        assert_int_equal(
            frame_decompress(f, codings[i % COUNT_OF(codings)], frame, size, &a, &back), ERR_OK);
        assert_true(str_eq(back, raw));
        frame_pool_give(&pool, &f);
        assert_null(f);
    }
    arena_fini(&a);
    frame_pool_fini(&pool);
}

static void a_wrong_size_or_a_changed_end_is_damage(void **state)
{
    (void)state;
    struct frame_codec *f = frame_codec_new();
    struct arena a;
    struct rng r;
    rng_init(&r, 4);
    arena_init(&a, 64 << 20);
    str raw = text_make(&a, &r, 3000), back = STR("kept");
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        str frame;
        assert_int_equal(frame_compress(f, codings[i], raw, &a, &frame), ERR_OK);
        assert_int_equal(frame_decompress(f, codings[i], frame, raw.n - 1, &a, &back), ERR_CORRUPT);
        assert_int_equal(frame_decompress(f, codings[i], frame, raw.n + 1, &a, &back), ERR_CORRUPT);
        for (size_t n = 0; n < frame.n; n++)
            assert_int_equal(frame_decompress(f, codings[i], str_take(frame, n), raw.n, &a, &back),
                             ERR_CORRUPT);
        char *longer = malloc(2 * frame.n);
        assert_non_null(longer);
        memcpy(longer, frame.p, frame.n);
        memcpy(longer + frame.n, frame.p, frame.n);
        str twice = { longer, 2 * frame.n }, more = { longer, frame.n + 1 };
        assert_int_equal(frame_decompress(f, codings[i], more, raw.n, &a, &back), ERR_CORRUPT);
        assert_int_equal(frame_decompress(f, codings[i], twice, raw.n, &a, &back), ERR_CORRUPT);
        if (codings[i] != FRAME_IDENTITY)
            assert_int_equal(frame_decompress(f, codings[i], twice, 2 * raw.n, &a, &back),
                             ERR_CORRUPT);
        free(longer);
    }
    assert_true(str_eq(back, STR("kept")));
    arena_fini(&a);
    frame_codec_free(&f);
}

static void a_flipped_bit_never_gives_other_bytes_of_gzip(void **state)
{
    (void)state;
    struct frame_codec *f = frame_codec_new();
    struct arena a;
    struct rng r;
    rng_init(&r, 5);
    arena_init(&a, 64 << 20);
    str raw = text_make(&a, &r, 500), frame;
    assert_int_equal(frame_compress(f, FRAME_GZIP, raw, &a, &frame), ERR_OK);
    for (size_t bit = 0; bit < 8 * frame.n; bit++) {
        char *flipped = malloc(frame.n);
        assert_non_null(flipped);
        memcpy(flipped, frame.p, frame.n);
        flipped[bit / 8] = (char)(flipped[bit / 8] ^ (1 << bit % 8));
        str back;
        if (frame_decompress(f, FRAME_GZIP, (str){ flipped, frame.n }, raw.n, &a, &back) == ERR_OK)
            assert_true(str_eq(back, raw)); /* a bit of the head that says nothing */
        free(flipped);
    }
    arena_fini(&a);
    frame_codec_free(&f);
}

static void a_full_arena_is_a_limit(void **state)
{
    (void)state;
    struct frame_codec *f = frame_codec_new();
    struct arena a, small;
    str frame, back;
    arena_init(&a, 1 << 20);
    arena_init(&small, 4);
    for (size_t i = 1; i < COUNT_OF(codings); i++) {
        assert_int_equal(frame_compress(f, codings[i], STR("some bytes"), &small, &frame),
                         ERR_LIMIT);
        assert_int_equal(frame_compress(f, codings[i], STR("some bytes"), &a, &frame), ERR_OK);
        assert_int_equal(frame_decompress(f, codings[i], frame, 10, &small, &back), ERR_LIMIT);
        assert_int_equal(frame_decompress(f, codings[i], frame, SIZE_MAX, &a, &back), ERR_LIMIT);
    }
    arena_fini(&small);
    arena_fini(&a);
    frame_codec_free(&f);
}

static void names_are_those_of_http(void **state)
{
    (void)state;
    assert_string_equal(frame_coding_name(FRAME_IDENTITY), "identity");
    assert_string_equal(frame_coding_name(FRAME_GZIP), "gzip");
    assert_string_equal(frame_coding_name(FRAME_ZSTD), "zstd");
    static const struct {
        const char *name;
        bool known;
        enum frame_coding is;
    } names[] = { { "", true, FRAME_IDENTITY },      { "identity", true, FRAME_IDENTITY },
                  { "GZip", true, FRAME_GZIP },      { "x-gzip", true, FRAME_GZIP },
                  { "zstd", true, FRAME_ZSTD },      { "br", false, FRAME_IDENTITY },
                  { "gzip,", false, FRAME_IDENTITY } };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        enum frame_coding coding;
        assert_int_equal(frame_coding_find(str_of(names[i].name), &coding), names[i].known);
        assert_int_equal(coding, names[i].is);
    }
}

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

/* A frame is not damaged because nobody can read it now. */
static void want_of_memory_is_no_damage(void **state)
{
    (void)state;
    struct frame_codec *f = frame_codec_new(), *fresh = frame_codec_new();
    struct arena a;
    str frame, raw;
    arena_init(&a, 1 << 20);
    assert_int_equal(frame_compress(f, FRAME_GZIP, STR("some text"), &a, &frame), ERR_OK);
    libdeflate_set_memory_allocator(no_memory, free);
    assert_int_equal(frame_decompress(fresh, FRAME_GZIP, frame, strlen("some text"), &a, &raw),
                     ERR_UNAVAILABLE);
    libdeflate_set_memory_allocator(malloc, free);
    assert_int_equal(frame_decompress(fresh, FRAME_GZIP, frame, strlen("some text"), &a, &raw),
                     ERR_OK);
    frame_codec_free(&f);
    frame_codec_free(&fresh);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_and_repeat),
        cmocka_unit_test(what_cannot_get_smaller_is_not_squeezed),
        cmocka_unit_test(a_wrong_size_or_a_changed_end_is_damage),
        cmocka_unit_test(a_flipped_bit_never_gives_other_bytes_of_gzip),
        cmocka_unit_test(a_full_arena_is_a_limit),
        cmocka_unit_test(names_are_those_of_http),
        cmocka_unit_test(want_of_memory_is_no_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
