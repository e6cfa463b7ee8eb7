/* Goal: a frame of a stranger's is taken when it is one whole member, and costs no more memory than
 * it may hold. Method: frames made by zlib, libzstd and by hand; every truncation; lies about
 * sizes; bombs. */
#include "codec/frame.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

enum { MAX = 1 << 20, GZIP_BITS = 15 + 16 };

static struct arena memory;

/* The whole of it, as a handler does: measured, then unpacked. */
static err unpack(enum frame_coding coding, str frame, size_t max, str *raw)
{
    size_t n = SIZE_MAX;
    struct frame_codec *f = frame_codec_new();
    err why = frame_measure(coding, frame, max, &n);
    assert_true(why != ERR_OK || n <= max);
    if (why == ERR_OK)
        why = frame_unpack(f, coding, frame, n, &memory, raw);
    frame_codec_free(&f);
    return why;
}

static str gzip_made(str raw, const char *name)
{
    z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)raw.p, .avail_in = (uInt)raw.n };
    gz_header head = { .time = 12345, .name = (Bytef *)(uintptr_t)name };
    size_t size = raw.n + 1000;
    char *out = arena_alloc(&memory, size);
    assert_non_null(out);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflateSetHeader(&z, &head), Z_OK);
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return (str){ .p = out, .n = z.total_out };
}

/* pledged: its head says how much it holds. */
static str zstd_made(str raw, bool pledged, int window_log)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t size = ZSTD_compressBound(raw.n), left;
    char *out = arena_alloc(&memory, size);
    ZSTD_inBuffer in = { .src = raw.p, .size = raw.n };
    ZSTD_outBuffer to = { .dst = out, .size = size };
    assert_non_null(out);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1)));
    if (window_log != 0)
        assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log)));
    if (pledged)
        assert_false(ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(c, raw.n)));
    do { /* in two steps, or the library knows the size */
        ZSTD_inBuffer half = { .src = raw.p, .size = raw.n / 2, .pos = in.pos };
        left = ZSTD_compressStream2(c, &to, &half, ZSTD_e_continue);
        assert_false(ZSTD_isError(left));
        in.pos = half.pos;
    } while (in.pos < raw.n / 2);
    do {
        left = ZSTD_compressStream2(c, &to, &in, ZSTD_e_end);
        assert_false(ZSTD_isError(left));
    } while (left > 0);
    ZSTD_freeCCtx(c);
    return (str){ .p = out, .n = to.pos };
}

static str both(str a, str b)
{
    char *p = arena_alloc(&memory, a.n + b.n);
    assert_non_null(p);
    memcpy(p, a.p, a.n);
    memcpy(p + a.n, b.p, b.n);
    return (str){ .p = p, .n = a.n + b.n };
}

static str text_of(size_t n)
{
    char *p = arena_alloc(&memory, n + 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + i * i % 23);
    return (str){ .p = p, .n = n };
}

static str made(enum frame_coding coding, str raw)
{
    return coding == FRAME_GZIP ? gzip_made(raw, NULL) : zstd_made(raw, true, 0);
}

static const enum frame_coding codings[] = { FRAME_GZIP, FRAME_ZSTD };

static void one_whole_frame_is_unpacked(void **state)
{
    static const size_t sizes[] = { 0, 1, 100, 70000, MAX };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        str raw = text_of(sizes[i]), out = STR("");
        str frames[] = { gzip_made(raw, NULL), gzip_made(raw, "a-name"), zstd_made(raw, true, 0),
                         zstd_made(raw, false, 0) };
        for (size_t k = 0; k < COUNT_OF(frames); k++) {
            assert_int_equal(unpack(codings[k / 2], frames[k], MAX, &out), ERR_OK);
            assert_true(str_eq(out, raw));
        }
        arena_reset(&memory);
    }
}

static void what_holds_more_is_refused_by_its_size(void **state)
{
    (void)state;
    str raw = text_of(MAX + 1), out;
    assert_int_equal(unpack(FRAME_GZIP, gzip_made(raw, NULL), MAX, &out), ERR_LIMIT);
    assert_int_equal(unpack(FRAME_ZSTD, zstd_made(raw, true, 0), MAX, &out), ERR_LIMIT);
    assert_int_equal(unpack(FRAME_ZSTD, zstd_made(raw, false, 0), MAX, &out), ERR_LIMIT);
    arena_reset(&memory);
}

/* 64 MiB of zeros, and heads that tell of little: unpacking stops where they said. */
static void a_bomb_gets_what_it_says_and_no_more(void **state)
{
    (void)state;
    char *zeros = calloc(64, MAX);
    assert_non_null(zeros);
    str raw = { .p = zeros, .n = (size_t)64 * MAX }, out, frame = gzip_made(raw, NULL);
    assert_true(frame.n < 70000);
    assert_int_equal(unpack(FRAME_GZIP, frame, MAX, &out), ERR_LIMIT);
    char *lie = (char *)(uintptr_t)frame.p + frame.n - 4;
    memcpy(lie, "\0\0\1\0", 4);
    assert_int_equal(unpack(FRAME_GZIP, frame, MAX, &out), ERR_CORRUPT);
    assert_int_equal(unpack(FRAME_ZSTD, zstd_made(raw, false, 0), MAX, &out), ERR_LIMIT);
    free(zeros);
    arena_reset(&memory);
}

static void little_that_tells_of_much_gets_no_memory(void **state)
{
    (void)state;
    str frame = gzip_made(STR("small"), NULL), out;
    memcpy((char *)(uintptr_t)frame.p + frame.n - 4, "\0\0\x0f\0", 4);
    size_t before = memory.total;
    assert_int_equal(unpack(FRAME_GZIP, frame, MAX, &out), ERR_BAD);
    assert_int_equal(memory.total, before);
    arena_reset(&memory);
}

static void two_and_what_follows_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        str a = made(codings[i], text_of(1000)), b = made(codings[i], text_of(500)), out;
        static const char skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x' };
        str others[] = { both(a, a),
                         both(a, b),
                         both(b, a),
                         both(a, STR("x")),
                         both(STR("x"), a),
                         both(a, (str){ .p = skippable, .n = sizeof skippable }),
                         both((str){ .p = skippable, .n = sizeof skippable }, a),
                         { .p = skippable, .n = sizeof skippable },
                         STR(""),
                         STR("x") };
        for (size_t k = 0; k < COUNT_OF(others); k++)
            assert_true(unpack(codings[i], others[k], MAX, &out) != ERR_OK);
        arena_reset(&memory);
    }
}

static void every_truncation_and_every_flipped_bit_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        str raw = text_of(300), frame = made(codings[i], raw), out;
        for (size_t n = 0; n < frame.n; n++)
            assert_true(unpack(codings[i], str_take(frame, n), MAX, &out) != ERR_OK);
        for (size_t bit = 0; bit < frame.n * 8; bit++) {
            char *at = (char *)(uintptr_t)frame.p + bit / 8;
            *at = (char)(*at ^ (1 << bit % 8));
            if (unpack(codings[i], frame, MAX, &out) == ERR_OK)
                assert_true(str_eq(out, raw)); /* a flag or a time that says nothing */
            *at = (char)(*at ^ (1 << bit % 8));
        }
        arena_reset(&memory);
    }
}

/* Symbol 286 of the fixed code where 285 stands: libdeflate takes both for a match of 258 bytes. */
static void codes_that_stand_for_nothing_are_refused(void **state)
{
    (void)state;
    static const unsigned char frame[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xb3, 0x29, 0xb0, 0x2b, 0xce,
        0xcf, 0x4d, 0x55, 0x28, 0x49, 0xad, 0x28, 0xd1, 0x51, 0x80, 0x33, 0x6d, 0xf4, 0x0b, 0xec,
        0x6c, 0xc6, 0xa5, 0x46, 0xb6, 0x14, 0x00, 0xa0, 0xa8, 0xcc, 0x80, 0x1c, 0x02, 0x00, 0x00,
    };
    str out;
    assert_int_equal(unpack(FRAME_GZIP, (str){ .p = (const char *)frame, .n = sizeof frame }, MAX,
                            &out),
                     ERR_CORRUPT);
    arena_reset(&memory);
}

static void windows_of_zstd_end_at_8_mib(void **state)
{
    (void)state;
    str raw = text_of(MAX), out;
    assert_int_equal(unpack(FRAME_ZSTD, zstd_made(raw, false, 23), 2 * MAX, &out), ERR_OK);
    assert_int_equal(unpack(FRAME_ZSTD, zstd_made(raw, false, 24), 2 * MAX, &out), ERR_BAD);
    arena_reset(&memory);
}

static void what_is_stored_as_it_came_names_nobody(void **state)
{
    (void)state;
    str raw = text_of(1000), plain = gzip_made(raw, NULL), out;
    assert_false(frame_is_plain(FRAME_GZIP, gzip_made(raw, "secret.html")));
    assert_true(frame_is_plain(FRAME_GZIP, plain));
    assert_true(frame_is_plain(FRAME_ZSTD, zstd_made(raw, true, 0)));
    frame_clean(FRAME_GZIP, (char *)(uintptr_t)plain.p, plain.n);
    assert_memory_equal(plain.p + 4, "\0\0\0\0", 4);
    assert_int_equal(unpack(FRAME_GZIP, plain, MAX, &out), ERR_OK);
    assert_true(str_eq(out, raw));
    arena_reset(&memory);
}

static bool holds(str frame, str raw)
{
    bool it_does = true;
    assert_int_equal(frame_gzip_holds(frame, raw, &it_does), ERR_OK);
    return it_does;
}

static void a_member_holds_its_own_bytes_alone(void **state)
{
    static const size_t sizes[] = { 0, 1, 100, 32 << 10, (32 << 10) + 1, 70000, MAX };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        str raw = text_of(sizes[i]), frame = gzip_made(raw, i % 2 == 0 ? NULL : "a-name");
        assert_true(holds(frame, raw));
        assert_true(frame_gzip_says(frame, frame_sum_of(raw)));
        assert_false(frame_gzip_says(raw, frame_sum_of(raw)));
        assert_false(holds(frame, text_of(sizes[i] + 1)));
        assert_false(holds(both(frame, STR("x")), raw));
        assert_false(holds(raw, raw));
        for (size_t n = 0; n < frame.n; n += 1 + frame.n / 50)
            assert_false(holds(str_take(frame, n), raw));
        if (raw.n > 0) { /* also where the tail lies: sum and size of what it does not hold */
            str other = both(str_take(raw, raw.n - 1), STR("!")), liar = gzip_made(other, NULL);
            assert_false(holds(frame, other));
            memcpy((char *)(uintptr_t)liar.p + liar.n - 8, frame.p + frame.n - 8, 8);
            assert_false(holds(liar, raw));
        }
        arena_reset(&memory);
    }
    str bomb = gzip_made(text_of(MAX), NULL);
    memcpy((char *)(uintptr_t)bomb.p + bomb.n - 8, "\0\0\0\0\0\0\0\0", 8); /* of no bytes */
    assert_false(holds(bomb, STR("")));
    arena_reset(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_whole_frame_is_unpacked),
        cmocka_unit_test(what_holds_more_is_refused_by_its_size),
        cmocka_unit_test(a_bomb_gets_what_it_says_and_no_more),
        cmocka_unit_test(little_that_tells_of_much_gets_no_memory),
        cmocka_unit_test(two_and_what_follows_are_refused),
        cmocka_unit_test(every_truncation_and_every_flipped_bit_is_found),
        cmocka_unit_test(codes_that_stand_for_nothing_are_refused),
        cmocka_unit_test(windows_of_zstd_end_at_8_mib),
        cmocka_unit_test(what_is_stored_as_it_came_names_nobody),
        cmocka_unit_test(a_member_holds_its_own_bytes_alone),
    };
    arena_init(&memory, (size_t)256 * MAX);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&memory);
    return failed;
}
