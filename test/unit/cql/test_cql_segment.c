/* Goal: segments are those of other drivers, byte for byte; what was packed is taken back; and no
 * bit of a segment changes unseen.
 * Method: bytes of python3-cassandra 3.25's cassandra.segment, all cuts and all flips of a bit,
 * envelopes around the largest payload, and random mixes. */
#include "cql/segment.h"
#include "cql/wire.h"

#include "base/rng.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES_MAX = 16 << 20, SEGMENT_REST = 6 + 4, SEGMENT_LZ4_REST = 8 + 4 };

static struct buf sent, plain;
static char room[CQL_SEGMENT_BYTES_MAX];

static int setup(void **state)
{
    (void)state;
    buf_init(&sent, BYTES_MAX);
    buf_init(&plain, BYTES_MAX);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_fini(&sent);
    buf_fini(&plain);
    return 0;
}

/* bytes: with its head. rng NULL: a body that packs well. */
static void envelope_put(size_t bytes, struct rng *rng)
{
    char head[CQL_HEAD_BYTES] = { 5 };
    put_be32(head + CQL_HEAD_BYTES - 4, (uint32_t)(bytes - CQL_HEAD_BYTES));
    buf_put(&plain, (str){ .p = head, .n = sizeof head });
    char *at = buf_extend(&plain, bytes - CQL_HEAD_BYTES);
    assert_non_null(at);
    for (size_t i = 0; i < bytes - CQL_HEAD_BYTES; i++)
        at[i] = (char)(rng == NULL ? i / 100 : rng_next(rng) >> 32);
}

/* Takes all of in; the payloads together are the envelopes. Returns the number of segments. */
static unsigned take_all(str in, bool lz4)
{
    unsigned count = 0;
    str left = buf_str(&plain);
    for (; in.n > 0; count++) {
        struct cql_segment s;
        struct err_note note;
        assert_int_equal(cql_segment_take(in, lz4, lz4 ? room : NULL, &s, &note),
                         CQL_SEGMENT_WHOLE);
        assert_true(s.payload.n > 0);
        assert_true(s.payload.n <= CQL_SEGMENT_BYTES_MAX);
        assert_true(str_starts(left, s.payload));
        size_t whole = 0;
        while (s.self_contained && whole < s.payload.n)
            whole += CQL_HEAD_BYTES + (size_t)get_be32(s.payload.p + whole + CQL_HEAD_BYTES - 4);
        assert_int_equal(whole, s.self_contained ? s.payload.n : 0);
        left = str_skip(left, s.payload.n);
        in = str_skip(in, s.used);
    }
    assert_int_equal(left.n, 0);
    return count;
}

static unsigned round_trip(bool lz4)
{
    buf_clear(&sent);
    cql_segments_put(&sent, buf_str(&plain), lz4);
    assert_int_equal(buf_status(&sent), ERR_OK);
    return take_all(buf_str(&sent), lz4);
}

static uint32_t crc24_by_bits(str bytes)
{
    uint32_t crc = 0x875060;
    for (size_t i = 0; i < bytes.n; i++) {
        crc ^= (uint32_t)(unsigned char)bytes.p[i] << 16;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (crc << 1) ^ ((crc & 0x800000) != 0 ? 0x1974f0bu : 0);
    }
    return crc;
}

static void checksums_are_those_of_the_protocol(void **state)
{
    (void)state;
    assert_int_equal(cql_crc24(STR("123456789")), 0x4b3f02);
    assert_int_equal(cql_crc32(STR("123456789")), 0xe2a261a7);
    assert_int_equal(cql_crc24(STR_NONE), 0x875060);
    assert_int_equal(cql_crc32(STR_NONE), 0x44777ed3);
    assert_int_equal(cql_crc32(STR("")), 0x44777ed3);
    struct rng r;
    rng_init(&r, 24);
    for (unsigned i = 0; i < 100000; i++) {
        char bytes[8];
        put_be64(bytes, rng_next(&r));
        str s = { .p = bytes, .n = i % (sizeof bytes + 1) };
        assert_int_equal(cql_crc24(s), crc24_by_bits(s));
    }
}

/* Segments of python3-cassandra; the block of LZ4 is made by hand: a literal "a", a match of 44
 * bytes, five literals. */
static const struct {
    bool lz4;
    str sent, payload;
} told[] = {
    { false,
      STR_INIT("\x32\x00\x02\xa5\xff\xee"
               "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwx"
               "\x13\xbd\x8c\x4f"),
      STR_INIT("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwx") },
    { false, STR_INIT("\x00\x00\x02\x6a\x36\xc4\xd3\x7e\x77\x44"), STR_INIT("") },
    { true, STR_INIT("\x00\x00\x00\x00\x04\x3b\x41\x4e\xd3\x7e\x77\x44"), STR_INIT("") },
    { true,
      STR_INIT("\x05\x00\x00\x00\x04\xe4\xab\x8e"
               "hello"
               "\x74\x80\x0e\xb6"),
      STR_INIT("hello") },
    { true,
      STR_INIT("\x0b\x00\x64\x00\x04\x2d\xac\xc4"
               "\x1f\x61\x01\x00\x19\x50\x61\x61\x61\x61\x61"
               "\x38\x16\xb9\xee"),
      STR_INIT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa") },
};

static void segments_of_another_driver_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        struct cql_segment s;
        struct err_note note;
        assert_int_equal(cql_segment_take(told[i].sent, told[i].lz4, room, &s, &note),
                         CQL_SEGMENT_WHOLE);
        assert_true(str_eq(s.payload, told[i].payload));
        assert_true(s.self_contained);
        assert_int_equal(s.used, told[i].sent.n);
    }
}

/* "Large" is what python3-cassandra cuts an envelope of 131,073 bytes into. */
static void heads_and_checksums_are_those_of_another_driver(void **state)
{
    (void)state;
    envelope_put(CQL_SEGMENT_BYTES_MAX + 2, NULL);
    char *at = plain.p;
    for (size_t i = 0; i < plain.n; i++)
        at[i] = (char)(i * 7 + i / 251);
    put_be32(at + CQL_HEAD_BYTES - 4, CQL_SEGMENT_BYTES_MAX + 2 - CQL_HEAD_BYTES);
    cql_segments_put(&sent, buf_str(&plain), false);
    assert_int_equal(sent.n, 131093);
    assert_memory_equal(sent.p, "\xff\xff\x01\x38\x91\xfe", 6);
    assert_memory_equal(sent.p + 6 + CQL_SEGMENT_BYTES_MAX + 4, "\x02\x00\x00\x47\x27\xad", 6);
    assert_memory_equal(sent.p + sent.n - 4, "\xb2\x26\x89\x97", 4); /* the two last bytes */
    assert_int_equal(take_all(buf_str(&sent), false), 2);
    buf_clear(&plain);
    buf_clear(&sent);
    envelope_put(CQL_SEGMENT_BYTES_MAX, NULL);
    cql_segments_put(&sent, buf_str(&plain), false);
    assert_memory_equal(sent.p, "\xff\xff\x03\x25\x40\x47", 6);
}

static void what_is_cut_anywhere_is_short(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(told); i++)
        for (size_t n = 0; n < told[i].sent.n; n++) {
            struct cql_segment s = { .used = 4711 };
            struct err_note note;
            char *cut = n == 0 ? NULL : malloc(n); /* no byte more: ASan sees a read behind */
            if (n > 0)
                memcpy(cut, told[i].sent.p, n);
            assert_int_equal(cql_segment_take((str){ .p = cut, .n = n }, told[i].lz4, room, &s,
                                              &note),
                             CQL_SEGMENT_SHORT);
            assert_int_equal(s.used, 4711);
            free(cut);
        }
}

/* One or two bits. A flip in the head may not be taken for a longer segment that is yet to come:
 * the head has its own checksum. */
static void flipped_bits_are_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        char bytes[128];
        size_t bits = told[i].sent.n * 8;
        for (size_t one = 0; one < bits; one++)
            for (size_t two = one; two < bits; two++) {
                struct cql_segment s = { .used = 4711 };
                struct err_note note = { .text = "" };
                memcpy(bytes, told[i].sent.p, told[i].sent.n);
                bytes[one / 8] = (char)(bytes[one / 8] ^ 1 << one % 8);
                if (two != one)
                    bytes[two / 8] = (char)(bytes[two / 8] ^ 1 << two % 8);
                assert_int_equal(cql_segment_take((str){ .p = bytes, .n = told[i].sent.n },
                                                  told[i].lz4, room, &s, &note),
                                 CQL_SEGMENT_BAD);
                assert_int_equal(s.used, 4711);
                assert_non_null(
                    strstr(note.text, one / 8 < (told[i].lz4 ? 8 : 6) ? "CRC24" : "CRC32"));
            }
    }
}

static void envelopes_of_all_sizes_come_back(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        unsigned segments;
    } all[] = {
        { CQL_HEAD_BYTES, 1 },
        { CQL_HEAD_BYTES + 1, 1 },
        { CQL_SEGMENT_BYTES_MAX - 1, 1 },
        { CQL_SEGMENT_BYTES_MAX, 1 },
        { CQL_SEGMENT_BYTES_MAX + 1, 2 },
        { 2 * CQL_SEGMENT_BYTES_MAX, 2 },
        { 2 * CQL_SEGMENT_BYTES_MAX + 1, 3 },
        { 5 << 20, 41 },
    };
    struct rng r;
    rng_init(&r, 5);
    for (unsigned kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < COUNT_OF(all); i++) {
            bool lz4 = (kind & 1) != 0;
            buf_clear(&plain);
            envelope_put(all[i].bytes, (kind & 2) != 0 ? &r : NULL);
            assert_int_equal(round_trip(lz4), all[i].segments);
            struct cql_segment s;
            assert_int_equal(cql_segment_take(buf_str(&sent), lz4, room, &s, NULL),
                             CQL_SEGMENT_WHOLE);
            assert_int_equal(s.self_contained, all[i].bytes <= CQL_SEGMENT_BYTES_MAX);
            if (kind == 1 && all[i].bytes > 1000)
                assert_true(sent.n < all[i].bytes / 20);
            size_t more = lz4 ? SEGMENT_LZ4_REST : SEGMENT_REST;
            assert_true(sent.n <= all[i].bytes + all[i].segments * more);
        }
}

static void nothing_is_no_segment(void **state)
{
    (void)state;
    assert_int_equal(round_trip(false), 0);
    assert_int_equal(round_trip(true), 0);
    assert_int_equal(sent.n, 0);
}

/* As many as fit share one; a large one stands alone, and what is behind it begins anew. */
static void small_envelopes_share_segments(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10000; i++)
        envelope_put(100, NULL);
    assert_int_equal(round_trip(false), 8); /* 1310 in each */
    assert_int_equal(round_trip(true), 8);
    buf_clear(&plain);
    envelope_put(100, NULL);
    envelope_put(CQL_SEGMENT_BYTES_MAX - 100, NULL); /* fits to the byte */
    assert_int_equal(round_trip(false), 1);
    envelope_put(100, NULL);
    envelope_put(CQL_SEGMENT_BYTES_MAX - 99, NULL);
    assert_int_equal(round_trip(false), 3);
    envelope_put(CQL_SEGMENT_BYTES_MAX + 5, NULL);
    envelope_put(100, NULL);
    envelope_put(100, NULL);
    assert_int_equal(round_trip(false), 6);
}

static void random_mixes_come_back(void **state)
{
    (void)state;
    const char *given = getenv("CQL_SEED");
    uint64_t seed = (uint64_t)time(NULL);
    if (given != NULL)
        assert_true(str_to_u64(str_of(given), &seed));
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng r;
    rng_init(&r, seed);
    for (unsigned turn = 0; turn < 60; turn++) {
        buf_clear(&plain);
        for (uint64_t many = 1 + rng_below(&r, 30); many > 0; many--) {
            static const uint64_t most[] = { 1, 50, 3000, 140000, 300000 };
            size_t bytes = CQL_HEAD_BYTES + rng_below(&r, most[rng_below(&r, COUNT_OF(most))]);
            envelope_put(bytes, rng_below(&r, 2) != 0 ? &r : NULL);
        }
        (void)round_trip(false);
        (void)round_trip(true);
    }
}

/* A segment of LZ4 with right checksums, whatever it holds. */
static enum cql_segment_state take_forged(str packed, size_t unpacked, struct cql_segment *s,
                                          struct err_note *note)
{
    char bytes[256], *at = bytes;
    uint64_t header = packed.n | (uint64_t)unpacked << 17;
    for (unsigned i = 0; i < 5; i++)
        *at++ = (char)(header >> 8 * i);
    uint32_t crc = cql_crc24((str){ .p = bytes, .n = 5 });
    for (unsigned i = 0; i < 3; i++)
        *at++ = (char)(crc >> 8 * i);
    memcpy(at, packed.p, packed.n);
    at += packed.n;
    crc = cql_crc32(packed);
    for (unsigned i = 0; i < 4; i++)
        *at++ = (char)(crc >> 8 * i);
    return cql_segment_take((str){ .p = bytes, .n = (size_t)(at - bytes) }, true, room, s, note);
}

static const str block_of_50 =
    STR_INIT("\x1f\x61\x01\x00\x19\x50\x61\x61\x61\x61\x61"); /* as above */

static void payloads_that_claim_another_size_are_refused(void **state)
{
    (void)state;
    for (size_t claimed = 1; claimed <= CQL_SEGMENT_BYTES_MAX; claimed += claimed < 200 ? 1 : 997) {
        struct cql_segment s;
        struct err_note note = { .text = "" };
        memset(room, '-', sizeof room);
        enum cql_segment_state got = take_forged(block_of_50, claimed, &s, &note);
        assert_int_equal(got, claimed == 50 ? CQL_SEGMENT_WHOLE : CQL_SEGMENT_BAD);
        assert_int_equal(claimed == 50, strstr(note.text, "no LZ4 of ") == NULL);
        for (size_t i = claimed; i < claimed + 100 && i < sizeof room; i++)
            assert_int_equal(room[i], '-');
    }
    struct cql_segment s;
    struct err_note note;
    assert_int_equal(take_forged(STR(""), 5, &s, &note), CQL_SEGMENT_BAD);
    assert_int_equal(take_forged(STR("\xff\xff\xff\xff\xff\xff\xff"), 5, &s, &note),
                     CQL_SEGMENT_BAD);
    assert_int_equal(take_forged(STR("\x1f\x61\xff\xff\x19\x50\x61\x61\x61\x61\x61"), 50, &s,
                                 &note),
                     CQL_SEGMENT_BAD); /* a match from before the beginning */
    assert_int_equal(take_forged(block_of_50, 0, &s, &note), CQL_SEGMENT_WHOLE);
    assert_true(str_eq(s.payload, block_of_50)); /* 0: it is sent as it is */
    assert_false(s.self_contained);
}

static void a_full_buffer_gets_no_half_segment_unseen(void **state)
{
    (void)state;
    envelope_put(1000, NULL);
    struct buf small;
    buf_init(&small, 500);
    cql_segments_put(&small, buf_str(&plain), false);
    assert_int_equal(buf_status(&small), ERR_LIMIT);
    buf_clear(&small);
    buf_put(&small, STR("before"));
    assert_false(cql_body_pack(&small, buf_str(&plain)));
    buf_fini(&small);
}

static void bodies_of_version_4_come_back(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 4);
    static const size_t sizes[] = { 0, 1, 4, 5, 6, 12, 13, 40, 1000, 131072, 5 << 20 };
    char *got = malloc(5 << 20);
    assert_non_null(got);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (unsigned k = 0; k < 2; k++) {
            buf_clear(&plain);
            buf_clear(&sent);
            envelope_put(CQL_HEAD_BYTES + sizes[i], k == 0 ? NULL : &r);
            str body = str_skip(buf_str(&plain), CQL_HEAD_BYTES);
            buf_put(&sent, STR("before"));
            bool packed = cql_body_pack(&sent, body);
            assert_int_equal(buf_status(&sent), ERR_OK);
            assert_int_equal(packed, k == 0 && sizes[i] >= 40);
            assert_true(str_starts(buf_str(&sent), STR("before")));
            str sent_body = str_skip(buf_str(&sent), 6);
            if (!packed) {
                assert_int_equal(sent_body.n, 0);
                continue;
            }
            assert_true(sent_body.n < body.n);
            size_t n = 4711;
            assert_true(cql_body_unpacked_bytes(sent_body, sizes[i], &n));
            assert_int_equal(n, sizes[i]);
            assert_false(cql_body_unpacked_bytes(sent_body, sizes[i] - 1, &n));
            assert_true(cql_body_unpack(sent_body, got, n));
            assert_memory_equal(got, body.p, n);
            assert_false(cql_body_unpack(sent_body, got, n - 1));
            assert_false(cql_body_unpack(str_take(sent_body, sent_body.n - 1), got, n));
        }
    }
    free(got);
}

static void bodies_that_claim_another_size_are_refused(void **state)
{
    (void)state;
    char packed[15], got[200];
    memcpy(packed + 4, block_of_50.p, block_of_50.n);
    str s = { .p = packed, .n = sizeof packed };
    for (uint32_t claimed = 0; claimed < sizeof got; claimed++) {
        size_t n = 4711;
        put_be32(packed, claimed);
        assert_true(cql_body_unpacked_bytes(s, sizeof got, &n));
        assert_int_equal(n, claimed);
        assert_int_equal(cql_body_unpack(s, got, claimed), claimed == 50);
    }
    for (unsigned i = 0; i < 4; i++) {
        size_t n = 4711;
        assert_false(cql_body_unpacked_bytes(str_take(s, i), sizeof got, &n));
        assert_false(cql_body_unpack(str_take(s, i), got, 0));
        assert_int_equal(n, 4711);
    }
    put_be32(packed, 40);
    assert_false(cql_body_unpack(s, got, 50)); /* though it gives 50 */
    size_t n = 4711; /* memory for what eleven bytes cannot hold is not asked for */
    put_be32(packed, 0x0fffffff);
    assert_false(cql_body_unpacked_bytes(s, CQL_BODY_BYTES_MAX, &n));
    put_be32(packed, UINT32_MAX);
    assert_false(cql_body_unpacked_bytes(s, SIZE_MAX, &n));
    assert_int_equal(n, 4711);
    put_be32(packed, 0);
    assert_true(cql_body_unpack((str){ .p = "\0\0\0\0\0", .n = 5 }, got, 0)); /* an empty body */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(checksums_are_those_of_the_protocol),
        TEST(segments_of_another_driver_are_read),
        TEST(heads_and_checksums_are_those_of_another_driver),
        TEST(what_is_cut_anywhere_is_short),
        TEST(flipped_bits_are_seen),
        TEST(envelopes_of_all_sizes_come_back),
        TEST(nothing_is_no_segment),
        TEST(small_envelopes_share_segments),
        TEST(random_mixes_come_back),
        TEST(payloads_that_claim_another_size_are_refused),
        TEST(a_full_buffer_gets_no_half_segment_unseen),
        TEST(bodies_of_version_4_come_back),
        TEST(bodies_that_claim_another_size_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
