/* Goal: rows and keys come back as they were written, fit their space, keep order, and no bytes crash a decoder.
 * Method: the greatest row there can be, random rows, all cuts and single-byte changes of a row. */
#include "base/rng.h"
#include "bucket/key.h"
#include "bucket/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct page_row greatest_row(void)
{
    struct page_row row = { .r = { .superseded_by = { INT64_MAX, { ((uint64_t)1 << 60) - 1, UINT64_MAX } },
                                   .stored_at = { INT64_MAX - 1 }, .superseded_at = { INT64_MAX - 1 },
                                   .out_at = { INT64_MAX - 1 }, .requested_until = { INT64_MAX },
                                   .stash_until = { INT64_MAX }, .hold_until = { INT64_MAX },
                                   .due_at = { INT64_MAX - 1 }, .contents_count = PAGE_CONTENTS_MAX },
                            .plan = UINT32_MAX, .policy = POLICY_TTL };
    memset(row.digest, 0xff, sizeof(row.digest));
    for (unsigned i = 0; i < PAGE_CONTENTS_MAX; i++) {
        struct page_content *c = &row.r.contents[i];
        memset(c->name, 'a' + (int)i, PAGE_CONTENT_NAME_BYTES_MAX);
        c->codec = PAGE_ZSTD;
        c->headers_bytes = PAGE_HEADERS_BYTES_MAX;
        c->stored_bytes = (64u << 20) / PAGE_CONTENTS_MAX - PAGE_HEADERS_BYTES_MAX;
        c->raw_bytes = 64u << 20;
        c->sum = UINT64_MAX;
    }
    return row;
}

static void assert_same(const struct page_row *a, const struct page_row *b)
{
    char one[ENGINE_VALUE_BYTES_MAX], two[ENGINE_VALUE_BYTES_MAX];
    assert_true(str_eq(page_row_encode(a, one), page_row_encode(b, two)));
    assert_int_equal(a->r.due_at.ns, b->r.due_at.ns);
    assert_int_equal(a->plan, b->plan);
    for (unsigned i = 0; i < a->r.contents_count; i++)
        assert_string_equal(a->r.contents[i].name, b->r.contents[i].name);
}

static void row_of_the_greatest_bundle_fits(void **state)
{
    (void)state; /* unused */
    struct page_row row = greatest_row(), back;
    char value[ENGINE_VALUE_BYTES_MAX + 64];
    str bytes = page_row_encode(&row, value);
    assert_true(bytes.n <= ENGINE_VALUE_BYTES_MAX);
    assert_int_equal(page_row_decode(bytes, &back), ERR_OK);
    assert_same(&row, &back);
    assert_int_equal(back.r.contents[15].offset, 15 * ((64u << 20) / 16));
}

static void damaged_row_is_refused_or_read_as_another(void **state)
{
    (void)state; /* unused */
    struct page_row row = greatest_row(), back;
    char value[ENGINE_VALUE_BYTES_MAX];
    row.r.contents_count = 2;
    str bytes = page_row_encode(&row, value);
    for (size_t n = 0; n < bytes.n; n++)
        assert_int_equal(page_row_decode(str_take(bytes, n), &back), ERR_CORRUPT);
    for (size_t i = 0; i < bytes.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            char again[ENGINE_VALUE_BYTES_MAX];
            value[i] ^= (char)(1 << bit);
            if (page_row_decode(bytes, &back) == ERR_OK)
                assert_true(str_eq(page_row_encode(&back, again), bytes)); /* one encoding each */
            value[i] ^= (char)(1 << bit);
        }
}

static void keys_keep_order(void **state)
{
    (void)state; /* unused */
    struct rng rng;
    rng_init(&rng, 3);
    struct page_key title, a, b;
    struct page_key_parts parts;
    page_key_title(&title, 7, 9, STR("Title"));
    for (int i = 0; i < 2000; i++) {
        struct page_name x = { rng_below(&rng, 3), { rng_below(&rng, 3), rng_below(&rng, 3) } };
        struct page_name y = { rng_below(&rng, 3), { rng_below(&rng, 3), rng_below(&rng, 3) } };
        page_key_name(&a, &title, x);
        page_key_name(&b, &title, y);
        int keys = str_cmp(page_key_str(&a), page_key_str(&b)), names = page_name_cmp(x, y);
        assert_int_equal(keys < 0, names > 0);
        assert_int_equal(keys == 0, names == 0);
        assert_true(page_key_parse(page_key_str(&a), &parts));
        assert_int_equal(page_name_cmp(parts.name, x), 0);
        assert_int_equal(parts.bucket, 7);
        assert_int_equal(parts.domain, 9);
        assert_true(str_eq(parts.title, STR("Title")));
    }
}

static void longest_key_is_within_the_engines(void **state)
{
    (void)state; /* unused */
    char text[PAGE_TITLE_BYTES_MAX];
    struct page_key title, row, due, prefix;
    enum page_due_kind kind;
    store_time at;
    str row_key;
    memset(text, 0xff, sizeof(text));
    page_key_title(&title, UINT16_MAX, UINT32_MAX, (str){ text, sizeof(text) });
    page_key_name(&row, &title, page_name_high(PAGE_REV_MAX));
    page_key_due(&due, (store_time){ -5 }, DUE_LEDGER, page_key_str(&row));
    assert_true(due.n <= ENGINE_KEY_BYTES_MAX);
    assert_true(page_key_due_parse(page_key_str(&due), &at, &kind, &row_key));
    assert_int_equal(at.ns, -5);
    assert_int_equal(kind, DUE_LEDGER);
    assert_true(str_eq(row_key, page_key_str(&row)));
    page_key_prefix_of(&prefix, row_key);
    assert_true(str_eq(page_key_str(&prefix), page_key_str(&title)));
}

static void due_keys_are_in_order_of_time(void **state)
{
    (void)state; /* unused */
    static const int64_t times[] = { INT64_MIN, -1, 0, 1, INT64_MAX - 1 };
    struct page_key title, row, due, before;
    page_key_title(&title, 1, 1, STR("T"));
    page_key_name(&row, &title, page_name_low(1));
    for (unsigned i = 0; i < COUNT_OF(times); i++) {
        page_key_due(&due, (store_time){ times[i] }, DUE_RENDER, page_key_str(&row));
        if (i > 0)
            assert_true(str_cmp(page_key_str(&before), page_key_str(&due)) < 0);
        before = due;
    }
}

static void titles_and_traces_come_back(void **state)
{
    (void)state; /* unused */
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_title_row t = { .ledger_count = 10000, .fence_count = 64, .fenced = true, .fence_at = { 5 } }, t2;
    assert_int_equal(page_title_decode(page_title_encode(&t, value), &t2), ERR_OK);
    assert_int_equal(t2.ledger_count, 10000);
    assert_int_equal(t2.fence_at.ns, 5);
    struct page_trace_row r = { .trace = { .state = PAGE_PURGED, .policy = POLICY_LATEST, .at = { 7 },
                                           .superseded_at = { 6 }, .superseded_by = { 3, { 4, 5 } } },
                                .stored_at = { 1 }, .forget_at = { 99 } }, r2;
    str bytes = page_trace_encode(&r, value);
    assert_int_equal(page_trace_decode(bytes, &r2), ERR_OK);
    assert_int_equal(r2.trace.superseded_by.tid.low, 5);
    assert_int_equal(r2.forget_at.ns, 99);
    for (size_t n = 0; n < bytes.n; n++)
        assert_int_equal(page_trace_decode(str_take(bytes, n), &r2), ERR_CORRUPT);
    value[1] = PAGE_CURRENT;
    assert_int_equal(page_trace_decode(bytes, &r2), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_of_the_greatest_bundle_fits),
        cmocka_unit_test(damaged_row_is_refused_or_read_as_another),
        cmocka_unit_test(keys_keep_order),
        cmocka_unit_test(longest_key_is_within_the_engines),
        cmocka_unit_test(due_keys_are_in_order_of_time),
        cmocka_unit_test(titles_and_traces_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
