/* Goal: memcmp of keys orders by fields, fields come back as they went in, bad bytes fail.
 * Method: ugly values, all pairs of them; random keys against field-wise comparison. */
#include "codec/rowkey.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ARENA_BYTES = 1 << 20 };

static const uint64_t ugly[] = { 0,
                                 1,
                                 2,
                                 127,
                                 128,
                                 255,
                                 256,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xfffffffffffffffe,
                                 0xffffffffffffffff };

static int sign(int v)
{
    return (v > 0) - (v < 0);
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static void numbers_order_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ugly); i++) {
        for (size_t j = 0; j < COUNT_OF(ugly); j++) {
            struct rowkey a, b;
            rowkey_init(&a);
            rowkey_init(&b);
            rowkey_put_u64(&a, ugly[i]);
            rowkey_put_u64(&b, ugly[j]);
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))),
                             order_u64(ugly[i], ugly[j]));
            rowkey_init(&a);
            rowkey_init(&b);
            rowkey_put_u64_desc(&a, ugly[i]);
            rowkey_put_u64_desc(&b, ugly[j]);
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))),
                             order_u64(ugly[j], ugly[i]));
            rowkey_init(&a);
            rowkey_init(&b);
            int64_t x = (int64_t)ugly[i], y = (int64_t)ugly[j];
            rowkey_put_i64(&a, x);
            rowkey_put_i64(&b, y);
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))), (x > y) - (x < y));
        }
    }
}

static void tids_order_as_tid_cmp_and_against_it(void **state)
{
    (void)state;
    const struct tid tids[] = { { 0, 0x8000000000000000 },
                                { 1, 0x8000000000000001 },
                                { 1, 0xbfffffffffffffff },
                                { 0x01efffffffffffff, 0x8000000000000000 },
                                { 0x0fffffffffffffff, 0xbfffffffffffffff } };
    for (size_t i = 0; i < COUNT_OF(tids); i++) {
        for (size_t j = 0; j < COUNT_OF(tids); j++) {
            struct rowkey a, b;
            rowkey_init(&a);
            rowkey_init(&b);
            rowkey_put_tid(&a, tids[i]);
            rowkey_put_tid(&b, tids[j]);
            int order = sign(tid_cmp(tids[i], tids[j]));
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))), order);
            rowkey_init(&a);
            rowkey_init(&b);
            rowkey_put_tid_desc(&a, tids[i]);
            rowkey_put_tid_desc(&b, tids[j]);
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))), -order);
        }
    }
}

static void texts_order_whatever_stands_behind_them(void **state)
{
    (void)state;
    const str texts[] = { STR(""),       STR("\0"),      STR("\0\0"),   STR("\0\x01"),
                          STR("\0\xff"), STR("\x01"),    STR("a"),      STR("a\0"),
                          STR("a\0b"),   STR("a\0\xff"), STR("a\x01"),  STR("ab"),
                          STR("b"),      STR("\xff"),    STR("\xff\0"), STR("\xff\xff") };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (size_t j = 0; j < COUNT_OF(texts); j++) {
            struct rowkey a, b;
            rowkey_init(&a);
            rowkey_init(&b);
            rowkey_put_text(&a, texts[i]);
            rowkey_put_text(&b, texts[j]);
            rowkey_put_u64(&a, UINT64_MAX); /* the neighbour that would mislead a one-byte end */
            rowkey_put_u64(&b, 0);
            int order = i == j ? 1 : sign(str_cmp(texts[i], texts[j]));
            assert_int_equal(sign(str_cmp(rowkey_str(&a), rowkey_str(&b))), order);
        }
    }
}

static void all_fields_come_back(void **state)
{
    (void)state;
    struct arena arena;
    struct rowkey k;
    arena_init(&arena, ARENA_BYTES);
    struct tid t = { .ticks = 0x01ef00112233445, .low = 0x8123456789abcdef };
    rowkey_init(&k);
    rowkey_put_u8(&k, 0xfe);
    rowkey_put_u16(&k, 0xfedc);
    rowkey_put_u32(&k, 0xfedcba98);
    rowkey_put_u64(&k, 0xfedcba9876543210);
    rowkey_put_i64(&k, -5);
    rowkey_put_u64_desc(&k, 7);
    rowkey_put_text(&k, STR("plain"));
    rowkey_put_text(&k, STR("n\0u\0\0l"));
    rowkey_put_tid(&k, t);
    rowkey_put_tid_desc(&k, t);
    rowkey_put_raw(&k, STR("rest"));
    assert_int_equal(rowkey_status(&k), ERR_OK);
    struct cursor c = { .rest = rowkey_str(&k) };
    assert_int_equal(cursor_u8(&c), 0xfe);
    assert_int_equal(cursor_be16(&c), 0xfedc);
    assert_int_equal(cursor_be32(&c), 0xfedcba98);
    assert_true(cursor_be64(&c) == 0xfedcba9876543210);
    assert_int_equal(rowkey_get_i64(&c), -5);
    assert_int_equal(rowkey_get_u64_desc(&c), 7);
    assert_true(str_eq(rowkey_get_text(&c, &arena), STR("plain")));
    assert_true(str_eq(rowkey_get_text(&c, &arena), STR("n\0u\0\0l")));
    assert_int_equal(tid_cmp(rowkey_get_tid(&c), t), 0);
    assert_int_equal(tid_cmp(rowkey_get_tid_desc(&c), t), 0);
    assert_true(str_eq(cursor_bytes(&c, 4), STR("rest")));
    assert_true(cursor_done(&c));
    arena_fini(&arena);
}

static void a_key_over_the_limit_fails_whole(void **state)
{
    (void)state;
    char big[ROWKEY_BYTES_MAX];
    struct rowkey k;
    memset(big, 'x', sizeof big);
    rowkey_init(&k);
    rowkey_put_text(&k, (str){ .p = big, .n = sizeof big - 2 }); /* fits exactly */
    assert_int_equal(rowkey_status(&k), ERR_OK);
    assert_int_equal(rowkey_str(&k).n, ROWKEY_BYTES_MAX);
    rowkey_put_raw(&k, STR_NONE);
    assert_int_equal(rowkey_status(&k), ERR_OK);
    rowkey_put_u8(&k, 1);
    assert_int_equal(rowkey_status(&k), ERR_LIMIT);
    rowkey_init(&k);
    rowkey_put_text(&k, (str){ .p = big, .n = sizeof big - 1 });
    assert_int_equal(rowkey_status(&k), ERR_LIMIT);
    memset(big, 0, sizeof big);
    rowkey_init(&k);
    rowkey_put_text(&k, (str){ .p = big, .n = ROWKEY_BYTES_MAX / 2 }); /* doubled by escapes */
    assert_int_equal(rowkey_status(&k), ERR_LIMIT);
}

static void bad_texts_fail_the_cursor(void **state)
{
    (void)state;
    const str bad[] = { STR(""),        STR("a"),      STR("a\0"),
                        STR("a\0\x02"), STR("\0\xff"), STR("a\0\xff\0") };
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cursor c = { .rest = bad[i] };
        assert_int_equal(rowkey_get_text(&c, &arena).n, 0);
        assert_true(c.failed);
        assert_int_equal(rowkey_get_u64_desc(&c), 0);
        assert_int_equal(rowkey_get_i64(&c), 0);
        assert_int_equal(rowkey_get_tid_desc(&c).ticks, 0);
    }
    struct arena none;
    arena_init(&none, 0);
    struct cursor escaped = { .rest = STR("a\0\xff\0\x01") };
    assert_int_equal(rowkey_get_text(&escaped, &none).n, 0);
    assert_true(escaped.failed);
    arena_fini(&none);
    arena_fini(&arena);
}

static void the_end_of_a_prefix_is_above_all_that_begin_with_it(void **state)
{
    (void)state;
    struct rowkey k, inside;
    rowkey_init(&k);
    rowkey_put_raw(&k, STR("a\xff\xff"));
    inside = k;
    rowkey_put_raw(&inside, STR("\xff\xff\xff"));
    rowkey_prefix_end(&k);
    assert_true(str_eq(rowkey_str(&k), STR("b")));
    assert_true(str_cmp(rowkey_str(&inside), rowkey_str(&k)) < 0);
    rowkey_init(&k);
    rowkey_put_u64(&k, UINT64_MAX);
    rowkey_prefix_end(&k);
    assert_int_equal(rowkey_str(&k).n, 0);
}

struct row {
    char text[4];
    size_t n;
    uint64_t rev;
    struct tid tid;
};

static struct row row_random(struct rng *r)
{
    struct row row = { .n = rng_below(r, 4), .rev = ugly[rng_below(r, COUNT_OF(ugly))] };
    for (size_t i = 0; i < row.n; i++)
        row.text[i] = "\0\x01\xff"[rng_below(r, 3)];
    row.tid = tid_make(rng_below(r, 3), rng_below(r, 2));
    return row;
}

/* title ascending, rev and tid descending: the order of pages. */
static int row_order(const struct row *a, const struct row *b)
{
    int order = str_cmp((str){ a->text, a->n }, (str){ b->text, b->n });
    if (order == 0)
        order = order_u64(b->rev, a->rev);
    return sign(order == 0 ? tid_cmp(b->tid, a->tid) : order);
}

static struct rowkey row_key(const struct row *row)
{
    struct rowkey k;
    rowkey_init(&k);
    rowkey_put_text(&k, (str){ row->text, row->n });
    rowkey_put_u64_desc(&k, row->rev);
    rowkey_put_tid_desc(&k, row->tid);
    return k;
}

static void random_rows_order_as_their_fields(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 20260101);
    for (unsigned i = 0; i < 20000; i++) {
        struct row a = row_random(&r), b = row_random(&r);
        struct rowkey x = row_key(&a), y = row_key(&b);
        assert_int_equal(sign(str_cmp(rowkey_str(&x), rowkey_str(&y))), row_order(&a, &b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_order_both_ways),
        cmocka_unit_test(tids_order_as_tid_cmp_and_against_it),
        cmocka_unit_test(texts_order_whatever_stands_behind_them),
        cmocka_unit_test(all_fields_come_back),
        cmocka_unit_test(a_key_over_the_limit_fails_whole),
        cmocka_unit_test(bad_texts_fail_the_cursor),
        cmocka_unit_test(the_end_of_a_prefix_is_above_all_that_begin_with_it),
        cmocka_unit_test(random_rows_order_as_their_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
