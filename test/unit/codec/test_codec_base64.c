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
        assert_int_equal(base64_decode(&a, vectors[i].text, BASE64_STRICT, &got), ERR_OK);
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
        assert_int_equal(base64_decode(&a, str_of(bad[i]), BASE64_STRICT, &got), ERR_BAD);
        assert_true(str_eq(got, STR("untouched")));
    }
    str nul = { .p = "AA\0A", .n = 4 };
    assert_int_equal(base64_decode(&a, nul, BASE64_STRICT, &nul), ERR_BAD);
    arena_fini(&a);
}

static void each_form_takes_what_it_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned least; /* forms that are needed; 0: refused in all */
        str bytes;
    } texts[] = {
        { "Zg", BASE64_UNPADDED, STR_INIT("f") },
        { "Zm8", BASE64_UNPADDED, STR_INIT("fo") },
        { "-_-_", BASE64_URL, STR_INIT("\xfb\xff\xbf") },
        { "_w", BASE64_TOKEN, STR_INIT("\xff") },
        { "Zm\r\n9v\n", BASE64_LINE_ENDS, STR_INIT("foo") },
        { "Zh==", BASE64_STRAY, STR_INIT("f") },
        { "Zm9=", BASE64_STRAY, STR_INIT("fo") },
        { "Z\nh", BASE64_LINE_ENDS | BASE64_STRAY | BASE64_UNPADDED, STR_INIT("f") },
        { "+_+_", 0, STR_INIT("") },
        { "Zg=", 0, STR_INIT("") },
        { "Zg===", 0, STR_INIT("") },
        { "Z", 0, STR_INIT("") },
        { "====", 0, STR_INIT("") },
        { "Zg==Zg==", 0, STR_INIT("") },
    };
    for (unsigned forms = 0; forms <= BASE64_GO; forms++) {
        for (size_t i = 0; i < COUNT_OF(texts); i++) {
            struct arena a;
            str got;
            arena_init(&a, 1 << 20);
            bool taken = texts[i].least != 0 && (forms & texts[i].least) == texts[i].least;
            err why = base64_decode(&a, str_of(texts[i].text), forms, &got);
            assert_int_equal(why, taken ? ERR_OK : ERR_BAD);
            if (taken)
                assert_true(str_eq(got, texts[i].bytes));
            arena_fini(&a);
        }
    }
}

static void the_url_form_has_no_padding(void **state)
{
    (void)state;
    struct arena a;
    str back;
    arena_init(&a, 1 << 20);
    assert_true(str_eq(base64_url(&a, STR("\xfb\xff\xbf")), STR("-_-_")));
    assert_true(str_eq(base64_url(&a, STR("f")), STR("Zg")));
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        str text = base64_url(&a, vectors[i].bytes);
        assert_int_equal(base64_decode(&a, text, BASE64_TOKEN, &back), ERR_OK);
        assert_true(str_eq(back, vectors[i].bytes));
    }
    arena_fini(&a);
    arena_init(&a, 0);
    assert_null(base64_url(&a, STR("f")).p);
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
        assert_int_equal(base64_decode(&a, text, BASE64_STRICT, &back), ERR_OK);
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
    assert_int_equal(base64_decode(&a, STR("Zm9v"), BASE64_STRICT, &got), ERR_LIMIT);
    assert_int_equal(base64_encode(&a, (str){ .p = "", .n = SIZE_MAX }, &got), ERR_LIMIT);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_hold_both_ways),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(each_form_takes_what_it_names),
        cmocka_unit_test(the_url_form_has_no_padding),
        cmocka_unit_test(random_bytes_of_all_lengths_come_back),
        cmocka_unit_test(a_full_arena_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
