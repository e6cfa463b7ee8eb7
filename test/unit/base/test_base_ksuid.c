/* Goal: the text of segment.io's ids, its order, and arithmetic over all 160 bits. Method:
 * published vectors (segmentio ksuid: README and tests), and a naive number of 20 bytes beside
 * it. */
#include "base/ksuid.h"
#include "base/rng.h"

#include "../cmocka_all.h"

#include <string.h>

struct vector {
    const char *text, *hex;
};
static const struct vector VECTORS[] = {
    { "000000000000000000000000000", "0000000000000000000000000000000000000000" },
    { "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "0669F7EFB5A1CD34B5F99D1154FB6853345C9735" },
    { "0ujzPyRiIAffKhBux4PvQdDqMHY", "066A029C73FC1AA3B2446246D6E89FCD909E8FE8" },
    { "0000000000000000000000000Xg", "0000000000000000000000000000000000000828" },
    { "aWgEPTl1tmebfsQzFP4bxwgy80V", "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF" },
};

static void hex_of(struct ksuid k, char out[2 * KSUID_BYTES + 1])
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(k, bytes);
    assert_int_equal(ksuid_cmp(ksuid_from_key(bytes), k), 0);
    for (int i = 0; i < KSUID_BYTES; i++) {
        out[2 * i] = "0123456789ABCDEF"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789ABCDEF"[bytes[i] & 15];
    }
    out[2 * KSUID_BYTES] = '\0';
}

static void published_vectors_hold_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(VECTORS); i++) {
        struct ksuid k;
        char hex[2 * KSUID_BYTES + 1], text[KSUID_TEXT_BYTES + 1];
        assert_true(ksuid_parse(str_of(VECTORS[i].text), &k));
        hex_of(k, hex);
        assert_string_equal(hex, VECTORS[i].hex);
        ksuid_format(k, text);
        assert_string_equal(text, VECTORS[i].text);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "0ujtsYcgvSTl8PAuAdqWYSMnLO",
        "0ujtsYcgvSTl8PAuAdqWYSMnLOv0",
        "0ujtsYcgvSTl8PAuAdqWYSMnLO-",
        "0ujtsYcgvSTl8PAuAdqWYSMnLO ",
        "aWgEPTl1tmebfsQzFP4bxwgy80W",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzz",
        "b00000000000000000000000000",
    };
    struct ksuid k = { .seconds = 1, .high = 2, .low = 3 };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(ksuid_parse(str_of(bad[i]), &k));
    assert_false(ksuid_parse(STR("0ujtsYcgvSTl8PAuAdqWYSMnLO\0"), &k));
    assert_true(k.seconds == 1 && k.high == 2 && k.low == 3);
}

/* bytes + n, digit by digit of base 256. */
static void add_naively(unsigned char bytes[KSUID_BYTES], uint64_t n)
{
    for (int i = KSUID_BYTES - 1; i >= 0; i--) {
        uint64_t sum = bytes[i] + (n & 255);
        bytes[i] = (unsigned char)sum;
        n = (n >> 8) + (sum >> 8);
    }
}

static struct ksuid random_id(struct rng *r)
{
    /* Words of all ones and zeros often, so that carries run. */
    uint64_t high = rng_below(r, 3) == 0 ? UINT64_MAX : rng_below(r, 3) == 0 ? 0 : rng_next(r);
    uint64_t low =
        rng_below(r, 3) == 0 ? UINT64_MAX - rng_below(r, 4) : rng_next(r) >> rng_below(r, 64);
    return (struct ksuid){ .seconds = (uint32_t)rng_below(r, UINT32_MAX - 1),
                           .high = high,
                           .low = low };
}

static void adding_carries_and_distance_undoes_it(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 7);
    for (int i = 0; i < 20000; i++) {
        struct ksuid a = random_id(&r);
        uint64_t n = rng_below(&r, 2) == 0 ? rng_below(&r, 5) : rng_next(&r);
        unsigned char bytes[KSUID_BYTES];
        ksuid_key(a, bytes);
        add_naively(bytes, n);
        struct ksuid b = ksuid_add(a, n);
        assert_int_equal(ksuid_cmp(b, ksuid_from_key(bytes)), 0);
        uint64_t back = 0;
        assert_true(ksuid_distance(b, a, &back));
        assert_true(back == n);
        assert_int_equal(ksuid_distance(a, b, &back), n == 0);
    }
}

static void too_far_apart_has_no_distance(void **state)
{
    (void)state;
    uint64_t n = 77;
    struct ksuid zero = KSUID_NIL;
    assert_false(ksuid_distance((struct ksuid){ .high = 1 }, zero, &n));
    assert_false(ksuid_distance((struct ksuid){ .seconds = 1 }, zero, &n));
    assert_false(ksuid_distance((struct ksuid){ .seconds = 2 },
                                (struct ksuid){ .high = UINT64_MAX, .low = 1 }, &n));
    assert_true(n == 77);
    assert_true(ksuid_distance((struct ksuid){ .high = 1 }, (struct ksuid){ .low = 1 }, &n));
    assert_true(n == UINT64_MAX);
}

static void order_of_texts_bytes_and_values_is_one(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 8);
    for (int i = 0; i < 20000; i++) {
        struct ksuid a = random_id(&r);
        struct ksuid b = rng_below(&r, 2) == 0 ? random_id(&r) : ksuid_add(a, rng_below(&r, 3));
        char text_a[KSUID_TEXT_BYTES + 1], text_b[KSUID_TEXT_BYTES + 1];
        unsigned char key_a[KSUID_BYTES], key_b[KSUID_BYTES];
        ksuid_format(a, text_a);
        ksuid_format(b, text_b);
        ksuid_key(a, key_a);
        ksuid_key(b, key_b);
        int order = ksuid_cmp(a, b);
        assert_int_equal(order < 0, strcmp(text_a, text_b) < 0);
        assert_int_equal(order < 0, memcmp(key_a, key_b, KSUID_BYTES) < 0);
        assert_int_equal(order == 0, strcmp(text_a, text_b) == 0);
    }
}

static void an_instant_gives_its_second_within_what_fits(void **state)
{
    (void)state;
    store_time t = { .ns = (KSUID_EPOCH_S + 107608047) * NS_PER_S + 999999999 };
    assert_int_equal(ksuid_at(t, 1, 2).seconds, 107608047);
    assert_true(ksuid_at(t, 1, 2).high == 1 && ksuid_at(t, 1, 2).low == 2);
    assert_int_equal(ksuid_at(STORE_TIME_ZERO, 1, 2).seconds, 0);
    assert_true(ksuid_at(STORE_TIME_NEVER, 1, 2).seconds == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hold_both_ways),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(adding_carries_and_distance_undoes_it),
        cmocka_unit_test(too_far_apart_has_no_distance),
        cmocka_unit_test(order_of_texts_bytes_and_values_is_one),
        cmocka_unit_test(an_instant_gives_its_second_within_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
