/* Goal: keys have their form, differ, and compare by all of their hash. Method: known numbers. */
#include "auth/secret.h"

#include "../cmocka_all.h"

#include <string.h>

static void zero_and_all_ones_are_padded_and_fit(void **state)
{
    (void)state;
    unsigned char random[SECRET_RANDOM_BYTES] = { 0 };
    char key[AUTH_KEY_BYTES_MAX + 1];
    secret_format(STR("t"), random, key);
    assert_string_equal(key, "qtr-t-0000000000000000000000000000000000000000000");
    random[SECRET_RANDOM_BYTES - 1] = 63;
    secret_format(STR("0123456789abcdef"), random, key);
    assert_string_equal(key, "qtr-0123456789abcdef-0000000000000000000000000000000000000000011");
    memset(random, 0xff, sizeof random);
    secret_format(STR("live"), random, key);
    assert_int_equal(strlen(key), 4 + 4 + 1 + 43);
    assert_true(secret_valid(str_of(key)));
    char prefix[AUTH_PREFIX_BYTES_MAX + 1];
    secret_prefix(str_of(key), prefix);
    assert_int_equal(strlen(prefix), 9 + 8);
    assert_memory_equal(prefix, key, 17);
}

static void hashes_differ_in_any_byte(void **state)
{
    (void)state;
    struct secret_hash a = secret_hash(STR("abc")), b = a;
    const unsigned char sha256_abc[4] = { 0xba, 0x78, 0x16, 0xbf };
    assert_memory_equal(a.bytes, sha256_abc, sizeof sha256_abc);
    assert_true(secret_hash_eq(&a, &b));
    for (unsigned i = 0; i < SECRET_HASH_BYTES; i++) {
        b.bytes[i] ^= 1;
        assert_false(secret_hash_eq(&a, &b));
        b.bytes[i] ^= 1;
    }
}

static void only_keys_are_valid(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "qtr",
        "qtr-",
        "qtr--0123456789012345678901234567890123456789012",
        "qtr-live",
        "qtr-live-",
        "qtr-live-012345678901234567890123456789012345678901",
        "qtr-01234567890123456-0123456789012345678901234567890123456789012",
        "QTR-live-0123456789012345678901234567890123456789012",
        "qtr-live-0123456789012345678901234567890123456789_12",
        "qtr-live-0123456789012345678901234567890123456789012-",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(secret_valid(str_of(wrong[i])));
    assert_true(secret_valid(STR("qtr-live-0123456789012345678901234567890123456789012")));
    assert_false(secret_valid(STR("qtr-live-012345678901234567890123456789012345678901\0")));
    char longest[200] = "qtr-live-";
    memset(longest + 9, 'a', SECRET_TEXT_BYTES_MAX - 9);
    assert_true(secret_valid(str_of(longest)));
    longest[SECRET_TEXT_BYTES_MAX] = 'a';
    assert_false(secret_valid(str_of(longest)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_and_all_ones_are_padded_and_fit),
        cmocka_unit_test(hashes_differ_in_any_byte),
        cmocka_unit_test(only_keys_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
