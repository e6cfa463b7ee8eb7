/* Goal: facts have one order and one encoding. Method: random facts of every kind, compared and
 * written; bytes cut short and changed. */
#include "base/rng.h"
#include "title/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FACTS = 400 };

static uint64_t below(struct rng *r, uint64_t bound)
{
    return rng_below(r, bound);
}

static store_time some_time(struct rng *r)
{
    return (store_time){ .ns = (int64_t)below(r, 4) };
}

/* Few of everything, so that many are equal in a part of what orders them. */
static struct fact some_fact(struct rng *r, struct page_content *contents)
{
    struct fact f = { .what = (enum fact_what)(1 + below(r, FACT_WHATS - 1)) };
    f.srv = (uint32_t)below(r, 3);
    f.at = some_time(r);
    f.n = (uint32_t)below(r, 3);
    bool title = f.what == FACT_FENCE;
    bool revision = fact_is_mark(&f) || f.what == FACT_WORD;
    f.name.rev = title ? 0 : 1 + below(r, 2);
    if (!title && !revision)
        f.name.tid = tid_make(1 + below(r, 2), 7);
    if (f.what == FACT_PUT) {
        memset(f.digest, (int)below(r, 256), sizeof(f.digest));
        memset(f.plain_digest, (int)below(r, 256), sizeof(f.plain_digest));
        f.stash_until = some_time(r);
        f.behind = below(r, 5);
        f.contents = contents;
        f.contents_count = (unsigned)below(r, PAGE_CONTENTS_MAX + 1);
    }
    if (f.what == FACT_PUT || fact_is_pin(&f))
        f.until = some_time(r);
    if (f.what == FACT_PUT || revision)
        f.said_at = some_time(r);
    if (title)
        f.joined_at = some_time(r);
    if (fact_is_mark(&f))
        f.rev_last = f.name.rev + below(r, 3);
    return f;
}

/* As wide as a name may be, so that the longest fact is among those written. */
static void fill_contents(struct rng *r, struct page_content contents[PAGE_CONTENTS_MAX])
{
    uint32_t offset = 0;
    for (unsigned i = 0; i < PAGE_CONTENTS_MAX; i++) {
        struct page_content *c = &contents[i];
        *c = (struct page_content){ .codec = (enum page_codec)below(r, PAGE_ZSTD + 1),
                                    .offset = offset,
                                    .headers_bytes = (uint32_t)below(r, 1000),
                                    .stored_bytes = (uint32_t)below(r, 1000),
                                    .raw_bytes = (uint32_t)below(r, 1000),
                                    .sum = rng_next(r) };
        memset(c->name, 'a' + (int)i, PAGE_CONTENT_NAME_BYTES_MAX);
        offset += c->headers_bytes + c->stored_bytes;
    }
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void order_is_total(void **state)
{
    (void)state; /* unused */
    struct rng r;
    struct fact f[60];
    rng_init(&r, 1);
    for (unsigned i = 0; i < COUNT_OF(f); i++)
        f[i] = some_fact(&r, NULL);
    for (unsigned a = 0; a < COUNT_OF(f); a++)
        for (unsigned b = 0; b < COUNT_OF(f); b++) {
            int ab = sign(fact_cmp(&f[a], &f[b]));
            assert_int_equal(ab, -sign(fact_cmp(&f[b], &f[a])));
            bool one = f[a].what == f[b].what && f[a].srv == f[b].srv && f[a].n == f[b].n &&
                       fact_arrived(&f[a]).ns == fact_arrived(&f[b]).ns &&
                       page_name_cmp(f[a].name, f[b].name) == 0;
            assert_int_equal(ab == 0, one);
            for (unsigned c = 0; c < COUNT_OF(f) && ab < 0; c++)
                if (fact_cmp(&f[b], &f[c]) < 0)
                    assert_true(fact_cmp(&f[a], &f[c]) < 0);
        }
}

static void facts_of_one_instant_go_by_what_they_are(void **state)
{
    (void)state; /* unused */
    static const enum fact_what order[] = { FACT_WORD,  FACT_SUPPRESSED, FACT_PURGE,
                                            FACT_FENCE, FACT_PUT,        FACT_REQUEST,
                                            FACT_HOLD,  FACT_DROP,       FACT_RELEASE };
    struct fact before = { .what = order[0], .srv = 9, .name = { .rev = 9 } };
    for (unsigned i = 1; i < COUNT_OF(order); i++) {
        struct fact f = { .what = order[i], .srv = 9 - i, .name = { .rev = 9 - i } };
        assert_true(fact_cmp(&before, &f) < 0);
        assert_false(fact_before(&before, &f));
        before = f;
    }
    struct fact later = { .what = FACT_WORD, .n = 1, .name = { .rev = 1 } };
    assert_true(fact_cmp(&before, &later) < 0);
    assert_true(fact_before(&before, &later));
}

static void assert_fact(const struct fact *a, const struct fact *b)
{
    char x[FACT_BYTES_MAX], y[FACT_BYTES_MAX];
    assert_true(str_eq(fact_encode(a, x), fact_encode(b, y)));
    assert_int_equal(fact_cmp(a, b), 0);
    assert_int_equal(a->contents_count, b->contents_count);
    for (unsigned i = 0; i < a->contents_count; i++)
        assert_int_equal(a->contents[i].offset, b->contents[i].offset);
}

static void facts_come_back_as_they_were_written(void **state)
{
    (void)state; /* unused */
    struct rng r;
    struct page_content contents[PAGE_CONTENTS_MAX], read[PAGE_CONTENTS_MAX];
    char bytes[FACT_BYTES_MAX];
    struct fact back;
    rng_init(&r, 2);
    for (unsigned i = 0; i < FACTS; i++) {
        fill_contents(&r, contents);
        struct fact f = some_fact(&r, contents);
        str written = fact_encode(&f, bytes);
        assert_int_equal(fact_decode(written, &back, read), ERR_OK);
        assert_fact(&f, &back);
        assert_true(strlen(fact_name(f.what)) > 0);
    }
}

static void bytes_that_are_no_fact_are_refused(void **state)
{
    (void)state; /* unused */
    struct rng r;
    struct page_content contents[PAGE_CONTENTS_MAX], read[PAGE_CONTENTS_MAX];
    char bytes[FACT_BYTES_MAX + 1];
    struct fact back;
    rng_init(&r, 3);
    fill_contents(&r, contents);
    for (unsigned i = 0; i < FACTS; i++) {
        struct fact f = some_fact(&r, contents);
        str written = fact_encode(&f, bytes);
        for (size_t n = 0; n < written.n; n++)
            assert_int_equal(fact_decode(str_take(written, n), &back, read), ERR_CORRUPT);
        bytes[written.n] = 0;
        written.n++;
        assert_int_equal(fact_decode(written, &back, read), ERR_CORRUPT);
        bytes[1] = FACT_WHATS;
        assert_int_equal(fact_decode(str_take(written, written.n - 1), &back, read), ERR_CORRUPT);
    }
}

/* A name that does not fit what the fact is of. */
static void names_that_say_nothing_are_refused(void **state)
{
    (void)state; /* unused */
    const struct tid tid = tid_make(5, 7);
    const struct fact wrong[] = {
        { .what = FACT_PUT, .name = { .rev = 1 } },
        { .what = FACT_STASH, .name = { .rev = 1 } },
        { .what = FACT_DROP, .name = { .rev = 0 } },
        { .what = FACT_RELEASE, .name = { .rev = 0 } },
        { .what = FACT_WORD, .name = { .rev = 0 } },
        { .what = FACT_WORD, .name = { .rev = 1, .tid = tid } },
        { .what = FACT_SHOWN, .name = { .rev = 1, .tid = tid }, .rev_last = 1 },
        { .what = FACT_DELETED, .name = { .rev = 2 }, .rev_last = 1 },
        { .what = FACT_FENCE, .name = { .rev = 1 } },
        { .what = FACT_PURGE, .name = { .rev = 0, .tid = tid } },
        { .what = FACT_PURGE, .name = { .rev = UINT64_MAX } },
    };
    struct page_content read[PAGE_CONTENTS_MAX];
    char bytes[FACT_BYTES_MAX];
    struct fact back;
    for (unsigned i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(fact_decode(fact_encode(&wrong[i], bytes), &back, read), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_total),
        cmocka_unit_test(facts_of_one_instant_go_by_what_they_are),
        cmocka_unit_test(facts_come_back_as_they_were_written),
        cmocka_unit_test(bytes_that_are_no_fact_are_refused),
        cmocka_unit_test(names_that_say_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
