/* Goal: only version-1 UUIDs, the order of Cassandra's time with unsigned rest, exact times.
 * Method: tables. */
#include "base/tid.h"

#include "../cmocka_all.h"

#include <string.h>

static void text_comes_back_in_lower_case(void **state)
{
    (void)state;
    static const char *const texts[] = { "00000000-0000-1000-8000-000000000000",
                                         "ffffffff-ffff-1fff-bfff-ffffffffffff",
                                         "6ba7b810-9dad-11d1-80b4-00c04fd430c8" };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct tid t;
        char out[TID_TEXT_BYTES + 1];
        assert_true(tid_parse(str_of(texts[i]), &t));
        tid_format(t, out);
        assert_string_equal(out, texts[i]);
    }
    struct tid upper, lower;
    assert_true(tid_parse(STR("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"), &upper));
    assert_true(tid_parse(STR("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), &lower));
    assert_int_equal(tid_cmp(upper, lower), 0);
}

static void bytes_are_those_of_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *bytes;
    } tids[] = { { "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                   "\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8" },
                 { "c1b6ae00-2efd-11e9-8001-000000000207",
                   "\xc1\xb6\xae\x00\x2e\xfd\x11\xe9\x80\x01\x00\x00\x00\x00\x02\x07" } };
    for (size_t i = 0; i < COUNT_OF(tids); i++) {
        struct tid of_text, of_bytes;
        unsigned char bytes[TID_UUID_BYTES], out[TID_UUID_BYTES];
        memcpy(bytes, tids[i].bytes, sizeof bytes);
        assert_true(tid_parse(str_of(tids[i].text), &of_text));
        assert_true(tid_from_uuid(bytes, &of_bytes));
        assert_int_equal(tid_cmp(of_text, of_bytes), 0);
        tid_uuid(of_text, out);
        assert_memory_equal(out, bytes, sizeof bytes);
    }
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    static const unsigned char version_4[TID_UUID_BYTES] = { [6] = 0x40, [8] = 0x80 },
                               variant_0[TID_UUID_BYTES] = { [6] = 0x10, [8] = 0x40 };
    struct tid t = { .ticks = 7 };
    assert_false(tid_from_uuid(version_4, &t));
    assert_false(tid_from_uuid(variant_0, &t));
    assert_int_equal(t.ticks, 7);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c80",
        "6ba7b810-9dad-41d1-80b4-00c04fd430c8", /* version 4 */
        "6ba7b810-9dad-01d1-80b4-00c04fd430c8", /* version 0 */
        "6ba7b810-9dad-11d1-00b4-00c04fd430c8", /* variant 00 */
        "6ba7b810-9dad-11d1-c0b4-00c04fd430c8", /* variant 11 */
        "6ba7b810-9dad-11d1-80b4-00c04fd430cg",
        "6ba7b8109-dad-11d1-80b4-00c04fd430c8",
        "6ba7b810_9dad_11d1_80b4_00c04fd430c8",
        "{6ba7b810-9dad-11d1-80b4-00c04fd430}",
        "6ba7b810-9dad-11d1-80b4--0c04fd430c8",
    };
    struct tid t = { .ticks = 1, .low = 2 };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(tid_parse(str_of(bad[i]), &t));
    assert_int_equal(t.ticks, 1);
    assert_int_equal(t.low, 2);
}

static void order_is_by_time_and_keys_keep_it(void **state)
{
    (void)state;
    static const char *const ascending[] = {
        "ffffffff-0000-1000-8000-000000000000", /* its first bytes are its least */
        "00000000-0001-1000-8000-000000000000", "00000000-0001-1000-8000-000000000001",
        "00000000-0001-1000-80ff-000000000000", "00000000-0001-1000-bfff-ffffffffffff",
        "00000000-0000-1001-8000-000000000000", "00000000-0000-1fff-8000-000000000000",
    };
    for (size_t i = 0; i < COUNT_OF(ascending); i++) {
        for (size_t j = 0; j < COUNT_OF(ascending); j++) {
            struct tid a, b;
            unsigned char x[TID_KEY_BYTES], y[TID_KEY_BYTES];
            assert_true(tid_parse(str_of(ascending[i]), &a));
            assert_true(tid_parse(str_of(ascending[j]), &b));
            int want = (i > j) - (i < j);
            int got = tid_cmp(a, b);
            assert_int_equal((got > 0) - (got < 0), want);
            tid_key(a, x);
            tid_key(b, y);
            got = memcmp(x, y, sizeof x);
            assert_int_equal((got > 0) - (got < 0), want);
            assert_int_equal(tid_cmp(tid_from_key(x), a), 0);
        }
    }
}

static void times_round_up_and_are_clamped(void **state)
{
    (void)state;
    assert_true(tid_ticks(STORE_TIME_ZERO) == 0x01b21dd213814000);
    assert_true(tid_ticks((store_time){ .ns = 1 }) == 0x01b21dd213814001);
    assert_true(tid_ticks((store_time){ .ns = 100 }) == 0x01b21dd213814001);
    assert_true(tid_ticks((store_time){ .ns = 101 }) == 0x01b21dd213814002);
    assert_true(tid_ticks((store_time){ .ns = -1 }) == 0x01b21dd213814000);
    assert_true(tid_ticks((store_time){ .ns = -100 }) == 0x01b21dd213813fff);
    struct tid t = tid_make(0x01b21dd213814000, 0);
    assert_int_equal(tid_time(t).ns, 0);
    assert_true(tid_time(tid_make(0, 0)).ns == INT64_MIN); /* 1582 is before 1677 */
    assert_true(tid_time(tid_make(0x0fffffffffffffff, 0)).ns == INT64_MAX);
    int64_t sample = 1767225600123456700;
    assert_true(tid_time(tid_make(tid_ticks((store_time){ .ns = sample }), 9)).ns == sample);
    store_time odd = { .ns = sample + 1 };
    assert_true(tid_time(tid_make(tid_ticks(odd), 9)).ns >=
                odd.ns); /* never older than its instant */
    (void)tid_ticks(STORE_TIME_NEVER);
    (void)tid_ticks((store_time){ .ns = INT64_MIN });
}

static void a_made_one_is_of_version_1_and_of_no_real_address(void **state)
{
    (void)state;
    static const uint64_t random[] = { 0, UINT64_MAX, 0x0123456789abcdef };
    for (size_t i = 0; i < COUNT_OF(random); i++) {
        char text[TID_TEXT_BYTES + 1];
        struct tid made = tid_make(0x0123456789abcdef, random[i]), parsed;
        tid_format(made, text);
        assert_true(tid_parse(str_of(text), &parsed));
        assert_int_equal(tid_cmp(made, parsed), 0);
        assert_true((made.low & 0x0000010000000000) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_back_in_lower_case),
        cmocka_unit_test(bytes_are_those_of_the_text),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(order_is_by_time_and_keys_keep_it),
        cmocka_unit_test(times_round_up_and_are_clamped),
        cmocka_unit_test(a_made_one_is_of_version_1_and_of_no_real_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
