/* Goal: every record of the log reads back as it was written, and any flipped bit of a header is
 * noticed. Method: encode, decode, compare; then each bit in turn. */
#include "vlog/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const unsigned char ID[RECORD_ID_BYTES] = "0123456789abcde";

static struct record_spot spot(uint32_t segment, uint64_t offset)
{
    return (struct record_spot){ .id = ID, .segment = segment, .offset = offset };
}

static void group_header_reads_back_and_notices_every_bit(void **state)
{
    (void)state;
    struct record_group g = { .seq = 7,
                              .time = { .ns = -5 },
                              .values_bytes = 1ull << 40,
                              .meta_bytes = 9,
                              .mutations = 2,
                              .values = 1 };
    struct record_group out;
    char bytes[RECORD_GROUP_BYTES];
    str meta = STR("some meta");
    record_group_encode(&g, spot(3, 4096), meta, bytes);
    str header = { .p = bytes, .n = sizeof(bytes) };
    assert_int_equal(record_group_decode(header, spot(3, 4096), &out), ERR_OK);
    assert_int_equal(out.seq, 7);
    assert_int_equal(out.time.ns, -5);
    assert_true(out.values_bytes == 1ull << 40);
    assert_int_equal(out.meta_bytes, 9);
    assert_int_equal(out.mutations, 2);
    assert_int_equal(out.values, 1);
    assert_true(record_meta_fits(bytes, spot(3, 4096), meta));
    assert_false(record_meta_fits(bytes, spot(3, 4096), STR("some mete")));
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(record_group_decode(header, spot(3, 4096), &out), ERR_CORRUPT);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(record_group_decode(str_take(header, sizeof(bytes) - 1), spot(3, 4096), &out),
                     ERR_CORRUPT);
}

static void header_is_valid_only_where_it_was_written(void **state)
{
    (void)state;
    static const unsigned char other[RECORD_ID_BYTES] = "another store..";
    struct record_group g = { .seq = 1 }, out;
    char bytes[RECORD_GROUP_BYTES];
    record_group_encode(&g, spot(1, 64), STR_NONE, bytes);
    str header = { .p = bytes, .n = sizeof(bytes) };
    struct record_spot foreign = { .id = other, .segment = 1, .offset = 64 };
    assert_int_equal(record_group_decode(header, spot(1, 64), &out), ERR_OK);
    assert_int_equal(record_group_decode(header, spot(1, 65), &out), ERR_CORRUPT);
    assert_int_equal(record_group_decode(header, spot(2, 64), &out), ERR_CORRUPT);
    assert_int_equal(record_group_decode(header, foreign, &out), ERR_CORRUPT);
}

static void value_header_covers_its_key(void **state)
{
    (void)state;
    char bytes[RECORD_VALUE_BYTES + 3];
    struct record_value v = { .seq = 9, .hash = 11, .value_bytes = 13, .key_bytes = 3, .space = 2 },
                        out;
    record_value_encode(&v, spot(1, 128), STR("key"), bytes);
    memcpy(bytes + RECORD_VALUE_BYTES, "key", 3);
    str record = { .p = bytes, .n = sizeof(bytes) };
    assert_int_equal(record_value_decode(record, spot(1, 128), &out), ERR_OK);
    assert_int_equal(out.seq, 9);
    assert_int_equal(out.hash, 11);
    assert_int_equal(out.value_bytes, 13);
    assert_int_equal(out.key_bytes, 3);
    assert_int_equal(out.space, 2);
    assert_int_equal(record_value_decode(str_take(record, sizeof(bytes) - 1), spot(1, 128), &out),
                     ERR_LIMIT);
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_not_equal(record_value_decode(record, spot(1, 128), &out), ERR_OK);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void segment_header_names_store_and_number(void **state)
{
    (void)state;
    char bytes[RECORD_SEGMENT_BYTES];
    record_segment_encode(spot(5, 0), bytes);
    str header = { .p = bytes, .n = sizeof(bytes) };
    assert_int_equal(record_segment_decode(header, spot(5, 0)), ERR_OK);
    assert_int_equal(record_segment_decode(header, spot(6, 0)), ERR_CORRUPT);
    assert_int_equal(record_segment_decode(str_take(header, 63), spot(5, 0)), ERR_CORRUPT);
}

static void expect_same(const struct record_mutation *a, const struct record_mutation *b)
{
    assert_int_equal(a->deleted, b->deleted);
    assert_int_equal(a->space, b->space);
    assert_int_equal(a->blob, b->blob);
    assert_true(str_eq(a->key, b->key));
    assert_true(str_eq(a->value, b->value));
    assert_true(a->place.hash == b->place.hash);
    assert_int_equal(a->place.n, b->place.n);
    if (a->blob == RECORD_BLOB_INLINE)
        assert_true(str_eq(a->bytes, b->bytes));
    if (a->blob == RECORD_BLOB_LOG)
        assert_int_equal(a->place.extent_offset, b->place.extent_offset);
}

static const struct record_mutation MUTATIONS[] = {
    { .space = 1, .key = { .p = "k", .n = 1 }, .value = { .p = "v", .n = 1 } },
    { .space = 2, .key = { .p = "", .n = 0 }, .value = { .p = "", .n = 0 } },
    { .space = 3, .deleted = true, .key = { .p = "gone", .n = 4 } },
    { .space = 4,
      .blob = RECORD_BLOB_INLINE,
      .key = { .p = "k", .n = 1 },
      .bytes = { .p = "abc", .n = 3 },
      .place = { .n = 3, .hash = 17 } },
    { .space = 5,
      .blob = RECORD_BLOB_LOG,
      .key = { .p = "k", .n = 1 },
      .value = { .p = "v", .n = 1 },
      .place = { .segment = 1,
                 .extent_offset = 64,
                 .extent_size = 1000,
                 .value_offset = 100,
                 .n = 900,
                 .hash = 23 } },
};

static void mutations_read_back_in_a_row(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(MUTATIONS); i++) {
        record_mutation_encode(&MUTATIONS[i], &b);
        n += record_mutation_size(&MUTATIONS[i]);
        assert_int_equal(b.n, n);
    }
    struct cursor c = { .rest = buf_str(&b) };
    for (size_t i = 0; i < COUNT_OF(MUTATIONS); i++) {
        struct record_mutation m;
        assert_int_equal(record_mutation_decode(&c, &m), ERR_OK);
        expect_same(&m, &MUTATIONS[i]);
    }
    assert_true(cursor_done(&c));
    for (size_t cut = 0; cut < n; cut++) {
        struct cursor part = { .rest = str_take(buf_str(&b), cut) };
        struct record_mutation m;
        err why = ERR_OK;
        for (size_t i = 0; i < COUNT_OF(MUTATIONS) && why == ERR_OK; i++)
            why = record_mutation_decode(&part, &m);
        assert_int_equal(why, ERR_CORRUPT);
    }
    buf_fini(&b);
}

static void senseless_mutations_are_refused(void **state)
{
    (void)state;
    struct record_mutation m = MUTATIONS[4];
    struct buf b;
    buf_init(&b, 4096);
    m.place.n = 901; /* value_offset + n is not extent_size */
    record_mutation_encode(&m, &b);
    struct cursor c = { .rest = buf_str(&b) };
    assert_int_equal(record_mutation_decode(&c, &m), ERR_CORRUPT);
    buf_clear(&b);
    m = MUTATIONS[3];
    m.deleted = true; /* a deleted row owns nothing */
    record_mutation_encode(&m, &b);
    c = (struct cursor){ .rest = buf_str(&b) };
    assert_int_equal(record_mutation_decode(&c, &m), ERR_CORRUPT);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_header_reads_back_and_notices_every_bit),
        cmocka_unit_test(header_is_valid_only_where_it_was_written),
        cmocka_unit_test(value_header_covers_its_key),
        cmocka_unit_test(segment_header_names_store_and_number),
        cmocka_unit_test(mutations_read_back_in_a_row),
        cmocka_unit_test(senseless_mutations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
