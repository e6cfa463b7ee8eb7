/* Goal: encoded keys sort as their values do, and give their values back. Method: random values of
 * every type, made as JSON from numbers whose order is known without the code under test, compared
 * pairwise both ways. */
#include "base/rng.h"
#include "table/decimal.h"
#include "table/key.h"
#include "table/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 120 };

struct sample {
    json_t *json;
    double number; /* what orders it, unless text does */
    char text[64];
    size_t text_n;
    str stored, asc, desc;
};

static char tid_text[TID_TEXT_BYTES + 1];

static void sample_text(struct rng *r, enum table_type type, struct sample *s)
{
    static const char alphabet[] = { 'a', 'b', 0, 1, 127 };
    s->text_n = rng_below(r, 6);
    for (size_t i = 0; i < s->text_n; i++)
        s->text[i] = alphabet[rng_below(r, type == TYPE_JSON ? 2 : sizeof alphabet)];
    s->json = json_stringn(s->text, s->text_n);
    if (type == TYPE_JSON) { /* ordered as its text */
        memmove(s->text + 1, s->text, s->text_n);
        s->text[0] = s->text[s->text_n + 1] = '"';
        s->text_n += 2;
    }
}

static void sample_uuid(struct rng *r, struct sample *s)
{
    char text[40];
    size_t at = 0;
    s->text_n = 16;
    for (size_t i = 0; i < 16; i++) {
        s->text[i] = (char)rng_below(r, 256);
        at += (size_t)snprintf(text + at, sizeof text - at,
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-%02X" : "%02X",
                               (unsigned char)s->text[i]);
    }
    s->json = json_string(text);
}

static void sample_decimal(struct rng *r, int64_t v, struct sample *s)
{
    static const double powers[] = { 1, 10, 100, 1000 };
    char text[64];
    int scale = (int)rng_below(r, 4);
    s->number = (double)v / powers[scale];
    (void)snprintf(text, sizeof text, "%ld%sE-%d", (long)v, rng_below(r, 2) == 0 ? "" : ".000",
                   scale);
    s->json = json_string(text);
}

/* Fills json and what orders it. */
static void sample_make(struct rng *r, enum table_type type, struct sample *s)
{
    int64_t small = (int64_t)rng_below(r, 41) - 20;
    int64_t wide =
        (int64_t)(rng_next(r) >> (12 + rng_below(r, 40))) * (rng_below(r, 2) == 0 ? 1 : -1);
    int64_t v = rng_below(r, 2) == 0 ? small : wide;
    s->number = (double)v; /* below 2^52: exact */
    switch (type) {
    case TYPE_BOOLEAN:
        s->number = v & 1 ? 1 : 0;
        s->json = json_boolean(v & 1);
        return;
    case TYPE_INT:
        v = v % INT32_MAX;
        s->number = (double)v;
        s->json = json_integer(v);
        return;
    case TYPE_LONG:
    case TYPE_VARINT:
    case TYPE_TIMESTAMP:
        s->json = json_integer(v);
        return;
    case TYPE_DOUBLE:
        s->number = (double)v / 8;
        s->json = json_real(s->number);
        return;
    case TYPE_FLOAT:
        s->number = (double)((float)small / 4);
        s->json = json_real(s->number);
        return;
    case TYPE_DECIMAL:
        sample_decimal(r, small, s);
        return;
    case TYPE_BLOB:
    case TYPE_STRING:
    case TYPE_JSON:
        sample_text(r, type, s);
        return;
    case TYPE_TIMEUUID: {
        struct tid t = tid_make(rng_below(r, 1000), rng_below(r, 3));
        tid_format(t, tid_text);
        s->json = json_string(tid_text);
        return;
    }
    case TYPE_UUID:
        sample_uuid(r, s);
        return;
    case TABLE_TYPES:
        break;
    }
    fail();
}

static int expected(enum table_type type, const struct sample *a, const struct sample *b)
{
    if (type == TYPE_TIMEUUID)
        return tid_cmp(table_tid(a->stored), table_tid(b->stored));
    if (type == TYPE_BLOB || type == TYPE_STRING || type == TYPE_JSON || type == TYPE_UUID)
        return str_cmp((str){ a->text, a->text_n }, (str){ b->text, b->text_n });
    return (a->number > b->number) - (a->number < b->number);
}

static int sign(int v)
{
    return (v > 0) - (v < 0);
}

static str encode(struct arena *a, enum table_type type, bool desc, str value)
{
    struct buf b;
    buf_init(&b, 4096);
    key_put(&b, type, desc, value);
    buf_put(&b, STR("\x80tail")); /* what follows must not matter */
    assert_int_equal(buf_status(&b), ERR_OK);
    str out = arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return out;
}

static void check_back(struct arena *a, enum table_type type, bool desc, str encoded, str stored)
{
    str rest = encoded, value;
    assert_int_equal(key_take(a, type, desc, &rest, &value), ERR_OK);
    assert_true(str_eq(rest, STR("\x80tail")));
    assert_int_equal(value_cmp((struct table_kind){ .type = type }, value, stored), 0);
}

static void order_of_type(enum table_type type, uint64_t seed)
{
    struct rng r;
    struct arena a;
    struct sample *s = calloc(SAMPLES, sizeof *s);
    rng_init(&r, seed);
    arena_init(&a, 64 << 20);
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct err_note note = { .text = "" };
        sample_make(&r, type, &s[i]);
        struct table_kind kind = { .type = type };
        if (value_from_json(&a, kind, s[i].json, &s[i].stored, &note) != ERR_OK)
            fail_msg("type %d: %s", type, note.text);
        s[i].asc = encode(&a, type, false, s[i].stored);
        s[i].desc = encode(&a, type, true, s[i].stored);
        check_back(&a, type, false, s[i].asc, s[i].stored);
        check_back(&a, type, true, s[i].desc, s[i].stored);
        assert_true(value_valid(kind, s[i].stored));
    }
    for (unsigned i = 0; i < SAMPLES; i++)
        for (unsigned j = 0; j < SAMPLES; j++) {
            int want = sign(expected(type, &s[i], &s[j]));
            assert_int_equal(sign(str_cmp(s[i].asc, s[j].asc)), want);
            assert_int_equal(sign(str_cmp(s[i].desc, s[j].desc)), -want);
            assert_int_equal(sign(value_cmp((struct table_kind){ .type = type }, s[i].stored,
                                            s[j].stored)),
                             want);
        }
    for (unsigned i = 0; i < SAMPLES; i++)
        json_decref(s[i].json);
    arena_fini(&a);
    free(s);
}

static void keys_sort_as_values_of_every_type(void **state)
{
    (void)state;
    for (unsigned type = 0; type < TABLE_TYPES; type++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            order_of_type((enum table_type)type, seed);
}

static str decimal(struct arena *a, const char *text)
{
    str out;
    struct err_note note;
    assert_int_equal(decimal_parse(a, str_of(text), false, &out, &note), ERR_OK);
    return out;
}

static void decimals_of_any_size_sort(void **state)
{
    (void)state;
    static const char *const ascending[] = { "-1e1000",
                                             "-123456789012345678901234567890",
                                             "-1000",
                                             "-999.999",
                                             "-10",
                                             "-9.9",
                                             "-1.1",
                                             "-1.09",
                                             "-1",
                                             "-0.5",
                                             "-0.05",
                                             "-1e-1000",
                                             "0",
                                             "1e-1000",
                                             "0.001",
                                             "0.0011",
                                             "0.01",
                                             "0.09",
                                             "0.1",
                                             "0.11",
                                             "0.5",
                                             "1",
                                             "1.0001",
                                             "1.1",
                                             "9",
                                             "9.9",
                                             "10",
                                             "10.1",
                                             "11",
                                             "99",
                                             "100",
                                             "1000",
                                             "123456789012345678901234567890",
                                             "123456789012345678901234567891",
                                             "1e1000" };
    struct arena a;
    arena_init(&a, 1 << 20);
    for (unsigned i = 0; i < COUNT_OF(ascending); i++)
        for (unsigned j = 0; j < COUNT_OF(ascending); j++) {
            int order = value_cmp((struct table_kind){ .type = TYPE_DECIMAL },
                                  decimal(&a, ascending[i]), decimal(&a, ascending[j]));
            assert_int_equal(sign(order), (i > j) - (i < j));
        }
    arena_fini(&a);
}

static void one_number_is_one_key(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    str one = encode(&a, TYPE_DECIMAL, false, decimal(&a, "1"));
    assert_true(str_eq(one, encode(&a, TYPE_DECIMAL, false, decimal(&a, "1.000"))));
    assert_true(str_eq(one, encode(&a, TYPE_DECIMAL, false, decimal(&a, "0.1e1"))));
    assert_true(str_eq(encode(&a, TYPE_DECIMAL, false, decimal(&a, "0")),
                       encode(&a, TYPE_DECIMAL, false, decimal(&a, "-0.00"))));
    arena_fini(&a);
}

static void damaged_keys_are_told(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    str value, rest = STR("abc"); /* no end */
    assert_int_equal(key_take(&a, TYPE_STRING, false, &rest, &value), ERR_CORRUPT);
    rest = (str){ "a\x00\x02", 3 };
    assert_int_equal(key_take(&a, TYPE_STRING, false, &rest, &value), ERR_CORRUPT);
    rest = (str){ "\xff\x00\x01", 3 }; /* not UTF-8 */
    assert_int_equal(key_take(&a, TYPE_STRING, false, &rest, &value), ERR_CORRUPT);
    rest = (str){ "\x00\x00", 2 };
    assert_int_equal(key_take(&a, TYPE_INT, false, &rest, &value), ERR_CORRUPT);
    rest = (str){ "\x02\x80\x00\x00\x01\xc8\x00", 7 }; /* digits above 99 */
    assert_int_equal(key_take(&a, TYPE_DECIMAL, false, &rest, &value), ERR_CORRUPT);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_sort_as_values_of_every_type),
        cmocka_unit_test(decimals_of_any_size_sort),
        cmocka_unit_test(one_number_is_one_key),
        cmocka_unit_test(damaged_keys_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
