/* Goal: the maximum holds to the byte, a failure stays, and what was put is got. Method: edges and
 * round trips. */
#include "base/arena.h"
#include "base/buf.h"

#include "../cmocka_all.h"

#include <string.h>

static void it_grows_to_its_maximum_and_no_byte_further(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    for (unsigned i = 0; i < 1000; i++)
        buf_put_c(&b, (char)('a' + i % 26));
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_int_equal(buf_str(&b).n, 1000);
    buf_put(&b, STR_NONE);
    assert_int_equal(buf_status(&b), ERR_OK);
    buf_put_c(&b, 'x');
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    assert_int_equal(buf_str(&b).n, 1000);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(buf_str(&b).p[i], 'a' + i % 26);
    buf_fini(&b);
}

static void a_failure_stays_until_cleared(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4);
    buf_put(&b, STR("abcde"));
    buf_put(&b, STR("a"));
    buf_printf(&b, "%d", 1);
    buf_put_be64(&b, 1);
    assert_null(buf_extend(&b, 1));
    assert_int_equal(buf_str(&b).n, 0);
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    buf_clear(&b);
    buf_put(&b, STR("abcd"));
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_null(buf_extend(&b, SIZE_MAX));
    buf_fini(&b);
}

static void what_it_holds_is_taken_once(void **state)
{
    (void)state;
    struct arena a, small;
    struct buf b;
    arena_init(&a, 1 << 16);
    arena_init(&small, 1);
    buf_init(&b, 4);
    buf_put(&b, STR("abcd"));
    assert_string_equal(buf_take(&b, &a).p, "abcd");
    assert_int_equal(buf_str(&b).n, 0);
    buf_put(&b, STR("ab"));
    assert_null(buf_take(&b, &small).p);
    buf_put(&b, STR("abcde"));
    assert_null(buf_take(&b, &a).p);
    assert_null(b.p);
    arena_fini(&small);
    arena_fini(&a);
}

static void a_text_of_exactly_the_maximum_fits(void **state)
{
    (void)state;
    char want[300];
    memset(want, '7', sizeof want);
    for (size_t max = 250; max < 300; max++) { /* around the first size of its memory */
        struct buf b;
        buf_init(&b, max);
        buf_printf(&b, "%.*s", (int)max, want);
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_true(str_eq(buf_str(&b), (str){ want, max }));
        buf_printf(&b, "%c", 'x');
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        buf_fini(&b);
    }
}

static void sizes_over_all_memory_fail(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    buf_put_c(&b, 'a');
    assert_null(buf_extend(&b, SIZE_MAX));
    buf_clear(&b);
    assert_null(buf_extend(&b, SIZE_MAX));
    buf_clear(&b);
    assert_null(buf_extend(&b, SIZE_MAX - 1));
    buf_fini(&b);
    buf_init(&b, 0);
    assert_non_null(buf_extend(&b, 0));
    buf_put_c(&b, 'a');
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    buf_fini(&b);
}

static void numbers_are_big_endian_both_ways(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_put_u8(&b, 0xfe);
    buf_put_be16(&b, 0x8001);
    buf_put_be32(&b, 0x80000001);
    buf_put_be64(&b, 0x8000000000000001);
    buf_put(&b, STR("end"));
    assert_memory_equal(buf_str(&b).p,
                        "\xfe\x80\x01\x80\0\0\x01\x80\0\0\0\0\0\0\x01"
                        "end",
                        18);
    struct cursor c = { .rest = buf_str(&b) };
    assert_int_equal(cursor_u8(&c), 0xfe);
    assert_int_equal(cursor_be16(&c), 0x8001);
    assert_int_equal(cursor_be32(&c), 0x80000001);
    assert_true(cursor_be64(&c) == 0x8000000000000001);
    assert_false(cursor_done(&c));
    assert_true(str_eq(cursor_bytes(&c, 3), STR("end")));
    assert_true(cursor_done(&c));
    buf_fini(&b);
}

static void a_cursor_past_the_end_fails_for_good(void **state)
{
    (void)state;
    struct cursor c = { .rest = STR("abc") };
    assert_int_equal(cursor_be32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(cursor_u8(&c), 0);
    assert_int_equal(cursor_be16(&c), 0);
    assert_true(cursor_be64(&c) == 0);
    assert_null(cursor_bytes(&c, 0).p);
    assert_false(cursor_done(&c));
    struct cursor empty = { .rest = STR_NONE };
    assert_true(cursor_done(&empty));
    assert_int_equal(cursor_bytes(&empty, 0).n, 0);
    assert_true(cursor_done(&empty));
    assert_null(cursor_bytes(&empty, SIZE_MAX).p);
    assert_true(empty.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_grows_to_its_maximum_and_no_byte_further),
        cmocka_unit_test(a_failure_stays_until_cleared),
        cmocka_unit_test(what_it_holds_is_taken_once),
        cmocka_unit_test(a_text_of_exactly_the_maximum_fits),
        cmocka_unit_test(sizes_over_all_memory_fail),
        cmocka_unit_test(numbers_are_big_endian_both_ways),
        cmocka_unit_test(a_cursor_past_the_end_fails_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
