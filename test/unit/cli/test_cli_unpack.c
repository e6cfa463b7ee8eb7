/* Goal: compressed files come out as they were, whatever their name says; cut or damaged ones are
 * told. Method: files made by the formats' own libraries, read in pieces of several sizes, then cut
 * at every byte. */
#include "cli/unpack.h"

#include "base/buf.h"

#include "../cmocka_all.h"

#include <bzlib.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { RAW_BYTES = 200000, PACKED_BYTES = 400000 };
static char raw[RAW_BYTES];

static void fill_raw(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof raw; i++) {
        x = x * 1664525u + 1013904223u;
        raw[i] = (char)('a' + (x >> 28)); /* neither constant nor incompressible */
    }
}

static size_t pack_gzip(char *dst)
{
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)raw;
    z.avail_in = sizeof raw;
    z.next_out = (unsigned char *)dst;
    z.avail_out = PACKED_BYTES;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

static size_t pack(enum unpack_kind kind, char *dst)
{
    unsigned bz_n = PACKED_BYTES;
    size_t n = 0;
    switch (kind) {
    case UNPACK_BZIP2:
        assert_int_equal(BZ2_bzBuffToBuffCompress(dst, &bz_n, raw, sizeof raw, 1, 0, 0), BZ_OK);
        return bz_n;
    case UNPACK_XZ:
        assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, (const uint8_t *)raw,
                                                 sizeof raw, (uint8_t *)dst, &n, PACKED_BYTES),
                         LZMA_OK);
        return n;
    case UNPACK_ZSTD:
        n = ZSTD_compress(dst, PACKED_BYTES, raw, sizeof raw, 1);
        assert_false(ZSTD_isError(n));
        return n;
    case UNPACK_GZIP:
        return pack_gzip(dst);
    case UNPACK_PLAIN:
    case UNPACK_KINDS:
        break;
    }
    memcpy(dst, raw, sizeof raw);
    return sizeof raw;
}

static err read_all(char *packed, size_t n, size_t piece, struct buf *out, struct err_note *note)
{
    FILE *f = fmemopen(packed, n, "rb");
    assert_non_null(f);
    struct unpack *u;
    assert_int_equal(unpack_new(f, &u, note), ERR_OK);
    char *chunk = malloc(piece);
    assert_non_null(chunk);
    size_t got;
    err e;
    while ((e = unpack_read(u, chunk, piece, &got, note)) == ERR_OK && got > 0)
        buf_put(out, (str){ .p = chunk, .n = got });
    free(chunk);
    unpack_free(&u);
    fclose(f);
    return e;
}

static void every_format_comes_out_as_it_was(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES];
    static const size_t pieces[] = { 1000, UNPACK_CHUNK_BYTES };
    for (enum unpack_kind k = UNPACK_PLAIN; k < UNPACK_KINDS; k++) {
        size_t n = pack(k, packed);
        assert_int_equal(unpack_sniff((str){ .p = packed, .n = n }), k);
        for (size_t i = 0; i < COUNT_OF(pieces); i++) {
            struct buf out;
            struct err_note note;
            buf_init(&out, 2 * RAW_BYTES);
            assert_int_equal(read_all(packed, n, pieces[i], &out, &note), ERR_OK);
            assert_int_equal(out.n, sizeof raw);
            assert_memory_equal(out.p, raw, sizeof raw);
            buf_fini(&out);
        }
    }
}

static void several_streams_in_one_file_follow_each_other(void **state)
{
    (void)state;
    static char packed[2 * PACKED_BYTES];
    for (enum unpack_kind k = UNPACK_BZIP2; k < UNPACK_KINDS; k++) {
        size_t n = pack(k, packed);
        n += pack(k, packed + n);
        struct buf out;
        struct err_note note;
        buf_init(&out, 3 * RAW_BYTES);
        assert_int_equal(read_all(packed, n, UNPACK_CHUNK_BYTES, &out, &note), ERR_OK);
        assert_int_equal(out.n, 2 * sizeof raw);
        assert_memory_equal(out.p + sizeof raw, raw, sizeof raw);
        buf_fini(&out);
    }
}

static void cut_files_are_told(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES];
    for (enum unpack_kind k = UNPACK_BZIP2; k < UNPACK_KINDS; k++) {
        size_t n = pack(k, packed);
        for (size_t cut = 7; cut < n; cut += n / 97 + 1) {
            struct buf out;
            struct err_note note = { .text = "" };
            buf_init(&out, 2 * RAW_BYTES);
            assert_int_equal(read_all(packed, cut, UNPACK_CHUNK_BYTES, &out, &note), ERR_CORRUPT);
            assert_true(note.text[0] != '\0');
            buf_fini(&out);
        }
    }
}

static void damaged_files_are_told(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES];
    for (enum unpack_kind k = UNPACK_BZIP2; k < UNPACK_KINDS; k++) {
        size_t n = pack(k, packed);
        packed[n / 2] = (char)(packed[n / 2] ^ 0x55);
        struct buf out;
        struct err_note note = { .text = "" };
        buf_init(&out, 2 * RAW_BYTES);
        err e = read_all(packed, n, UNPACK_CHUNK_BYTES, &out, &note);
        bool same = out.n == sizeof raw && memcmp(out.p, raw, sizeof raw) == 0;
        assert_true(e == ERR_CORRUPT ||
                    (k == UNPACK_ZSTD && !same)); /* zstd's simple API writes no checksum */
        buf_fini(&out);
    }
}

/* zstd with its checksum, which the simple call leaves out. */
static size_t pack_summed(enum unpack_kind kind, char *dst, char *from, size_t from_n)
{
    if (kind == UNPACK_ZSTD) {
        ZSTD_CCtx *c = ZSTD_createCCtx();
        assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1)));
        size_t n = ZSTD_compress2(c, dst, PACKED_BYTES, from, from_n);
        assert_false(ZSTD_isError(n));
        ZSTD_freeCCtx(c);
        return n;
    }
    assert_ptr_equal(from, raw);
    return pack(kind, dst);
}

static void nothing_of_a_damaged_part_comes_out(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES];
    for (enum unpack_kind k = UNPACK_BZIP2; k < UNPACK_KINDS; k++) {
        size_t n = pack_summed(k, packed, raw, sizeof raw);
        for (size_t at = 20; at < n; at += n / 61) {
            packed[at] = (char)(packed[at] ^ 0x04);
            struct buf out;
            struct err_note note = { .text = "" };
            buf_init(&out, 2 * RAW_BYTES);
            assert_int_equal(read_all(packed, n, 1000, &out, &note), ERR_CORRUPT);
            assert_int_equal(out.n, 0);
            buf_fini(&out);
            packed[at] = (char)(packed[at] ^ 0x04);
        }
    }
}

/* Reads to the end or the error; *doubted: how much had come out when unpack_checked was false. */
static err read_large(char *packed, size_t n, size_t *total, size_t *doubted, bool *checked)
{
    static char chunk[UNPACK_CHUNK_BYTES];
    FILE *f = fmemopen(packed, n, "rb");
    assert_non_null(f);
    struct unpack *u;
    struct err_note note;
    assert_int_equal(unpack_new(f, &u, &note), ERR_OK);
    size_t got;
    err e;
    *total = *doubted = 0;
    while ((e = unpack_read(u, chunk, sizeof chunk, &got, &note)) == ERR_OK && got > 0) {
        *total += got;
        *doubted += unpack_checked(u) ? 0 : got;
    }
    *checked = unpack_checked(u);
    unpack_free(&u);
    fclose(f);
    return e;
}

static void what_came_before_its_sum_is_told(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES];
    size_t large = UNPACK_HELD_MAX + 3 * UNPACK_CHUNK_BYTES;
    char *zeros = calloc(1, large);
    assert_non_null(zeros);
    size_t n = pack_summed(UNPACK_ZSTD, packed, zeros, large);
    size_t total, doubted;
    bool checked;
    assert_int_equal(read_large(packed, n, &total, &doubted, &checked), ERR_OK);
    assert_int_equal(total, large);
    assert_true(doubted > 0 && doubted < large);
    assert_true(checked);
    packed[n - 1] = (char)(packed[n - 1] ^ 1);
    assert_int_equal(read_large(packed, n, &total, &doubted, &checked), ERR_CORRUPT);
    assert_int_equal(total, doubted);
    assert_true(doubted > 0 && !checked);
    unsigned bz_n = PACKED_BYTES;
    assert_int_equal(BZ2_bzBuffToBuffCompress(packed, &bz_n, zeros, (unsigned)large, 1, 0, 0),
                     BZ_OK);
    assert_int_equal(read_large(packed, bz_n, &total, &doubted, &checked), ERR_OK);
    assert_int_equal(total, large);
    assert_int_equal(doubted, 0);
    free(zeros);
}

static void skipped_frames_and_too_large_windows_of_zstd_are_known(void **state)
{
    (void)state;
    static char packed[PACKED_BYTES + 12];
    memcpy(packed, "\x50\x2a\x4d\x18\x04\0\0\0skip", 12); /* as pzstd begins */
    size_t n = 12 + pack_summed(UNPACK_ZSTD, packed + 12, raw, sizeof raw);
    struct buf out;
    struct err_note note;
    buf_init(&out, 2 * RAW_BYTES);
    assert_int_equal(read_all(packed, n, UNPACK_CHUNK_BYTES, &out, &note), ERR_OK);
    assert_int_equal(out.n, sizeof raw);
    buf_fini(&out);
    char wide[] = "\x28\xb5\x2f\xfd\0\xa8\1\0\0"; /* a window of 2 GiB */
    buf_init(&out, 2 * RAW_BYTES);
    assert_int_equal(read_all(wide, sizeof wide - 1, UNPACK_CHUNK_BYTES, &out, &note), ERR_LIMIT);
    assert_non_null(strstr(note.text, "memory"));
    buf_fini(&out);
}

int main(void)
{
    fill_raw();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_comes_out_as_it_was),
        cmocka_unit_test(several_streams_in_one_file_follow_each_other),
        cmocka_unit_test(cut_files_are_told),
        cmocka_unit_test(damaged_files_are_told),
        cmocka_unit_test(nothing_of_a_damaged_part_comes_out),
        cmocka_unit_test(what_came_before_its_sum_is_told),
        cmocka_unit_test(skipped_frames_and_too_large_windows_of_zstd_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
