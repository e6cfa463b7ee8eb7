/* Goal: RFC 4648's vectors, round trips, and one text only for one value. Method: tables and all
 * lengths. */
#include "codec/base64.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    str bytes, text;
} vectors[] = {
    { STR_INIT(""), STR_INIT("") },
    { STR_INIT("f"), STR_INIT("Zg==") },
    { STR_INIT("fo"), STR_INIT("Zm8=") },
    { STR_INIT("foo"), STR_INIT("Zm9v") },
    { STR_INIT("foob"), STR_INIT("Zm9vYg==") },
    { STR_INIT("fooba"), STR_INIT("Zm9vYmE=") },
    { STR_INIT("foobar"), STR_INIT("Zm9vYmFy") },
    { STR_INIT("\xff\xff\xfe"), STR_INIT("///+") },
    { STR_INIT("\0\0\0"), STR_INIT("AAAA") },
};

static void the_vectors_hold_both_ways(void **state)
{
    (void)state;
    struct arena a;
    str got;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        assert_int_equal(base64_encode(&a, vectors[i].bytes, &got), ERR_OK);
        assert_true(str_eq(got, vectors[i].text));
        assert_int_equal(got.p[got.n], 0);
        assert_int_equal(base64_decode(&a, vectors[i].text, &got), ERR_OK);
        assert_true(str_eq(got, vectors[i].bytes));
    }
    arena_fini(&a);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",    "Zm9",      "====", "Z===", "=Zg=", "Zg==Zg==",   "Zm8=Zm8=",
        "Zh==", "Zm9=", "Zm9v\n", "Zm 9v===", "Zm9-", "Zm9_", "Zm9.", "Zm9\xc3\xa4"
    };
    struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        str got = STR("untouched");
        assert_int_equal(base64_decode(&a, str_of(bad[i]), &got), ERR_BAD);
        assert_true(str_eq(got, STR("untouched")));
    }
    str nul = { .p = "AA\0A", .n = 4 };
    assert_int_equal(base64_decode(&a, nul, &nul), ERR_BAD);
    arena_fini(&a);
}

static void random_bytes_of_all_lengths_come_back(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 64);
    for (size_t n = 0; n < 200; n++) {
        struct arena a;
        char bytes[200];
        str text, back;
        arena_init(&a, 1 << 20);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)rng_below(&r, 256);
        assert_int_equal(base64_encode(&a, (str){ bytes, n }, &text), ERR_OK);
        assert_int_equal(text.n, (n + 2) / 3 * 4);
        assert_int_equal(base64_decode(&a, text, &back), ERR_OK);
        assert_true(str_eq(back, (str){ bytes, n }));
        arena_fini(&a);
    }
}

static void a_full_arena_is_a_limit(void **state)
{
    (void)state;
    struct arena a;
    str got;
    arena_init(&a, 0);
    assert_int_equal(base64_encode(&a, STR("foo"), &got), ERR_LIMIT);
    assert_int_equal(base64_decode(&a, STR("Zm9v"), &got), ERR_LIMIT);
    assert_int_equal(base64_encode(&a, (str){ .p = "", .n = SIZE_MAX }, &got), ERR_LIMIT);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_hold_both_ways),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(random_bytes_of_all_lengths_come_back),
        cmocka_unit_test(a_full_arena_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
