/* Goal: rows and keys come back as they were written, fit their space, keep order, and no bytes
 * crash a decoder. Method: the greatest row there can be, random rows, all cuts and single-byte
 * changes of a row. */
#include "base/rng.h"
#include "bucket/key.h"
#include "bucket/traces.h"
#include "sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct page_row greatest_row(void)
{
    struct page_row row = { .r = { .superseded_by = { INT64_MAX,
                                                      { ((uint64_t)1 << 60) - 1, UINT64_MAX } },
                                   .stored_at = { INT64_MAX - 1 },
                                   .superseded_at = { INT64_MAX - 1 },
                                   .out_at = { INT64_MAX - 1 },
                                   .requested_until = { INT64_MAX },
                                   .stash_until = { INT64_MAX },
                                   .hold_until = { INT64_MAX },
                                   .hidden = PAGE_DELETED,
                                   .hidden_at = { INT64_MAX },
                                   .due_at = { INT64_MAX - 1 },
                                   .contents_count = PAGE_CONTENTS_MAX },
                            .plan = UINT32_MAX,
                            .policy = POLICY_TTL };
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
        assert_int_equal(keys<0, names> 0);
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
    struct page_key title, row, prefix;
    struct due_entry entry;
    struct due_key due;
    enum page_due_kind kind;
    str row_key;
    memset(text, 0xff, sizeof(text));
    page_key_title(&title, UINT16_MAX, UINT32_MAX, (str){ text, sizeof(text) });
    page_key_name(&row, &title, page_name_high(PAGE_REV_MAX));
    due_key(&page_due, (store_time){ -5 }, page_due_row(DUE_LEDGER, page_key_str(&row)), &due);
    assert_true(due.n <= ENGINE_KEY_BYTES_MAX);
    due_parse(&page_due, due_key_str(&due), &entry);
    assert_true(page_due_parse(due_of(&entry), &kind, &row_key));
    assert_int_equal(entry.at.ns, -5);
    assert_int_equal(kind, DUE_LEDGER);
    assert_true(str_eq(row_key, page_key_str(&row)));
    page_key_prefix_of(&prefix, row_key);
    assert_true(str_eq(page_key_str(&prefix), page_key_str(&title)));
}

static void due_keys_are_in_order_of_time(void **state)
{
    (void)state; /* unused */
    static const int64_t times[] = { INT64_MIN, -1, 0, 1, INT64_MAX - 1 };
    struct page_key title, row;
    struct due_key due, before;
    page_key_title(&title, 1, 1, STR("T"));
    page_key_name(&row, &title, page_name_low(1));
    for (unsigned i = 0; i < COUNT_OF(times); i++) {
        due_key(&page_due, (store_time){ times[i] }, page_due_row(DUE_RENDER, page_key_str(&row)),
                &due);
        if (i > 0)
            assert_true(str_cmp(due_key_str(&before), due_key_str(&due)) < 0);
        before = due;
    }
}

static void titles_come_back(void **state)
{
    (void)state; /* unused */
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_title_row t = { .ledger_count = 10000,
                                .fence_count = 64,
                                .fenced = true,
                                .fence_at = { 5 } },
                          t2;
    assert_int_equal(page_title_decode(page_title_encode(&t, value), &t2), ERR_OK);
    assert_int_equal(t2.ledger_count, 10000);
    assert_int_equal(t2.fence_at.ns, 5);
}

/* ---- traces ---- */

static void assert_same_traces(const struct page_traces *a, const struct page_traces *b)
{
    assert_int_equal(a->count, b->count);
    for (unsigned i = 0; i < a->count; i++) {
        const struct page_trace_row *x = &a->trace[i], *y = &b->trace[i];
        assert_int_equal(page_name_cmp(x->trace.name, y->trace.name), 0);
        assert_int_equal(page_name_cmp(x->trace.superseded_by, y->trace.superseded_by), 0);
        assert_int_equal(x->trace.state, y->trace.state);
        assert_int_equal(x->trace.policy, y->trace.policy);
        assert_int_equal(x->trace.at.ns, y->trace.at.ns);
        assert_int_equal(x->trace.superseded_at.ns, y->trace.superseded_at.ns);
        assert_int_equal(x->stored_at.ns, y->stored_at.ns);
        assert_int_equal(x->forget_at.ns, y->forget_at.ns);
    }
}

static void assert_come_back(const struct page_traces *t)
{
    char value[PAGE_TRACES_BYTES_MAX];
    struct page_traces back;
    str bytes = page_traces_encode(t, value);
    assert_int_equal(page_traces_decode(bytes, t->trace[0].trace.name, &back), ERR_OK);
    assert_false(back.alone);
    assert_same_traces(t, &back);
}

/* Renders a minute apart, each superseded by the next one, culled in order. */
static struct page_traces usual_traces(void)
{
    struct page_traces t = { .count = PAGE_ROW_TRACES_MAX };
    struct rng rng;
    rng_init(&rng, 11);
    for (unsigned i = 0; i <= PAGE_ROW_TRACES_MAX; i++) {
        store_time made = { 1767225600 * NS_PER_S + (int64_t)i * 60 * NS_PER_S +
                            (int64_t)rng_below(&rng, NS_PER_S) };
        struct page_trace_row *r = &t.trace[i];
        *r = (struct page_trace_row){ .stored_at = store_time_add(made, 3 * NS_PER_MS) };
        r->trace =
            (struct page_trace){ .name = { .rev = 1000 + i,
                                           .tid = tid_make(tid_ticks(made), rng_next(&rng)) },
                                 .state = PAGE_CULLED };
        if (i == 0)
            continue;
        r[-1].trace.superseded_by = r->trace.name;
        r[-1].trace.superseded_at = r->stored_at;
        r[-1].trace.at = store_time_add(r->stored_at, 86400 * NS_PER_S);
        r[-1].forget_at = store_time_add(r[-1].trace.at, 30 * 86400 * NS_PER_S);
    }
    return t;
}

static void usual_traces_are_short(void **state)
{
    (void)state; /* unused */
    char value[PAGE_TRACES_BYTES_MAX];
    struct page_traces t = usual_traces();
    assert_come_back(&t);
    assert_in_range(page_traces_encode(&t, value).n, 1, 28 * PAGE_ROW_TRACES_MAX);
}

static int64_t any_time(struct rng *rng)
{
    static const int64_t times[] = { INT64_MIN, -1, 0, 1, 5 * NS_PER_S, INT64_MAX - 1, INT64_MAX };
    uint64_t i = rng_below(rng, COUNT_OF(times) + 2);
    return i < COUNT_OF(times) ? times[i] : (int64_t)rng_next(rng);
}

static struct page_name any_name(struct rng *rng)
{
    static const uint64_t far[] = { 0, 1, 7, INT64_MAX, UINT64_MAX };
    return (struct page_name){ far[rng_below(rng, COUNT_OF(far))],
                               { far[rng_below(rng, COUNT_OF(far))],
                                 far[rng_below(rng, COUNT_OF(far))] } };
}

static void any_trace(struct rng *rng, struct page_trace_row *r)
{
    r->trace.state = (enum page_state)(PAGE_CULLED + rng_below(rng, 3));
    r->trace.policy = (enum page_policy_kind)rng_below(rng, POLICY_KINDS);
    r->trace.at.ns = any_time(rng);
    r->stored_at.ns = any_time(rng);
    r->forget_at.ns = any_time(rng);
    r->trace.superseded_at.ns = any_time(rng);
    r->trace.superseded_by = (struct page_name){ .rev = 0 };
    if (r->trace.superseded_at.ns != INT64_MAX)
        r->trace.superseded_by = any_name(rng);
}

static void any_traces_come_back_and_fit(void **state)
{
    (void)state; /* unused */
    struct rng rng;
    rng_init(&rng, 5);
    for (int round = 0; round < 3000; round++) {
        struct page_traces t = { .count = 0 };
        struct page_name name = { .rev = 0 };
        while (t.count < 1 + rng_below(&rng, PAGE_ROW_TRACES_MAX)) {
            struct page_trace_row *r = &t.trace[t.count];
            struct page_name next = any_name(&rng);
            any_trace(&rng, r);
            if (t.count > 0 && page_name_cmp(next, name) <= 0)
                break;
            r->trace.name = name = next;
            t.count++;
            if (t.count > 1 && r[-1].trace.superseded_at.ns != INT64_MAX && rng_below(&rng, 2) == 0)
                r[-1].trace.superseded_by = name;
            if (t.count > 1 && r->stored_at.ns != INT64_MAX && rng_below(&rng, 2) == 0)
                r[-1].trace.superseded_at = r->stored_at;
        }
        if (t.count > 0)
            assert_come_back(&t);
    }
}

static void damaged_traces_are_refused_or_read_as_others(void **state)
{
    (void)state; /* unused */
    char value[PAGE_TRACES_BYTES_MAX], again[PAGE_TRACES_BYTES_MAX];
    struct page_traces t = usual_traces(), back;
    t.count = 3;
    str bytes = page_traces_encode(&t, value);
    const struct page_name lowest = t.trace[0].trace.name;
    for (size_t n = 0; n < bytes.n; n++)
        assert_int_equal(page_traces_decode(str_take(bytes, n), lowest, &back), ERR_CORRUPT);
    for (size_t i = 0; i < bytes.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            value[i] ^= (char)(1 << bit);
            if (page_traces_decode(bytes, lowest, &back) == ERR_OK)
                assert_true(
                    str_eq(page_traces_encode(&back, again), bytes)); /* one encoding each */
            value[i] ^= (char)(1 << bit);
        }
}

static void trace_of_a_store_before_is_read(void **state)
{
    (void)state; /* unused */
    struct page_traces t = usual_traces(), back;
    struct page_trace_row *r = &t.trace[0];
    char value[OLD_TRACE_BYTES_MAX];
    r->trace.state = PAGE_PURGED;
    r->trace.policy = POLICY_LATEST;
    t.count = 1;
    str bytes = old_trace(r, value);
    assert_int_equal(page_traces_decode(bytes, r->trace.name, &back), ERR_OK);
    assert_true(back.alone);
    assert_same_traces(&t, &back);
    for (size_t n = 0; n < bytes.n; n++)
        assert_int_equal(page_traces_decode(str_take(bytes, n), r->trace.name, &back), ERR_CORRUPT);
    value[1] = PAGE_CURRENT;
    assert_int_equal(page_traces_decode(bytes, r->trace.name, &back), ERR_CORRUPT);
    value[1] = PAGE_PURGED;
    value[0] = 3;
    assert_int_equal(page_traces_decode(bytes, r->trace.name, &back), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_of_the_greatest_bundle_fits),
        cmocka_unit_test(damaged_row_is_refused_or_read_as_another),
        cmocka_unit_test(keys_keep_order),
        cmocka_unit_test(longest_key_is_within_the_engines),
        cmocka_unit_test(due_keys_are_in_order_of_time),
        cmocka_unit_test(titles_come_back),
        cmocka_unit_test(usual_traces_are_short),
        cmocka_unit_test(any_traces_come_back_and_fit),
        cmocka_unit_test(damaged_traces_are_refused_or_read_as_others),
        cmocka_unit_test(trace_of_a_store_before_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
