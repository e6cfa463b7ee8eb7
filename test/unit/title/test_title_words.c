/* Goal: a word is read back as it was written; and the last of words that several servers kept is
 * the same in whatever order they come, and what one server alone makes of the same words. Method:
 * words written down; random words of a few pages, judged one by one as a store with one last word
 * does, against the fold of what that store would have kept, shuffled and doubled. */
#include "title/words.h"

#include "base/check.h"
#include "base/rng.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 20000, WORDS = 12 };

static void a_word_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct title_word words[] = {
        { .missing = true, .said = 7, .asked_at = { 9 } },
        { .redirect = true, .page_id = UINT32_MAX, .rev = PAGE_REV_MAX, .touched = -1, .said = 1 },
        { .page_id = 1, .rev = 2, .touched = 3, .said = 4, .there = PAGE_REV_MAX },
    };
    char bytes[TITLE_WORD_BYTES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct title_word back;
        str s = title_word_encode(&words[i], bytes);
        assert_int_equal(title_word_decode(s, &back), ERR_OK);
        assert_true(title_word_eq(&back, &words[i]));
        assert_int_equal(back.said, words[i].said);
        assert_int_equal(back.asked_at.ns, words[i].asked_at.ns);
        assert_true(back.there == words[i].there);
        for (size_t n = 0; n < s.n; n++)
            assert_int_equal(title_word_decode(str_take(s, n), &back), ERR_CORRUPT);
        bytes[s.n] = 0;
        assert_int_equal(title_word_decode((str){ .p = bytes, .n = s.n + 1 }, &back), ERR_CORRUPT);
    }
}

/* One word has one row: the fuzzer holds it to that. */
static void a_row_that_says_that_nothing_is_there_is_no_word(void **state)
{
    (void)state;
    const struct title_word w = { .page_id = 1, .rev = 2, .there = 1 };
    char bytes[TITLE_WORD_BYTES_MAX];
    struct title_word back;
    str s = title_word_encode(&w, bytes);
    bytes[s.n - 1] = 0;
    assert_int_equal(title_word_decode(s, &back), ERR_CORRUPT);
}

/* ---- the last of several ---- */

static struct title_word some_word(struct rng *rng, int64_t asked_s)
{
    struct title_word w = { .missing = rng_below(rng, 4) == 0,
                            .said = 1000 + asked_s,
                            .asked_at = { asked_s * NS_PER_S } };
    if (w.missing)
        return w;
    w.page_id = 1 + rng_below(rng, 2);
    w.rev = 1 + rng_below(rng, 5);
    w.touched = 900 + (int64_t)rng_below(rng, 6) * 20;
    return w;
}

static struct title_said some_said(struct rng *rng, int64_t asked_s, unsigned i)
{
    return (struct title_said){ .word = some_word(rng, asked_s),
                                .at = { (asked_s + 1) * NS_PER_S + i },
                                .srv = (uint32_t)rng_below(rng, 3),
                                .believed = rng_below(rng, 5) == 0,
                                .doubted = rng_below(rng, 5) == 0 };
}

static void said_shuffle(struct rng *rng, struct title_said *all, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t k = rng_below(rng, i);
        struct title_said s = all[i - 1];
        all[i - 1] = all[k];
        all[k] = s;
    }
}

static void assert_word(const struct title_word *a, const struct title_word *b)
{
    assert_true(title_word_eq(a, b));
    assert_int_equal(a->said, b->said);
    assert_int_equal(a->asked_at.ns, b->asked_at.ns);
    assert_true(a->there == b->there);
}

/* As bucket/hear.c keeps the last word. */
struct serial {
    bool has;
    struct title_word last;
    struct title_said kept[2 * WORDS];
    size_t count;
};

static void serial_hear(struct serial *s, struct title_said said, uint64_t found)
{
    const struct title_word *last = s->has ? &s->last : NULL;
    enum title_word_is is = title_said_judge(last, &said);
    if (is != WORD_NEWS && is != WORD_SAME)
        return;
    said.word.there = title_word_there(last, &said.word, found);
    if (is == WORD_SAME && said.word.there <= s->last.there)
        return;
    s->has = true;
    s->last = said.word;
    s->kept[s->count++] = said;
}

static void words_heard_one_after_the_other_fold_to_the_last(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 7);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct serial s = { .count = 0 };
        int64_t asked_s = 0;
        for (unsigned i = 0; i < WORDS; i++) {
            asked_s += (int64_t)rng_below(&rng, 60);
            int64_t ago = rng_below(&rng, 4) == 0 ? asked_s / 2 : asked_s;
            serial_hear(&s, some_said(&rng, ago, i), rng_below(&rng, 3) * 7);
        }
        for (size_t i = 0, n = s.count; i < n; i++)
            if (rng_below(&rng, 3) == 0)
                s.kept[s.count++] = s.kept[i];
        said_shuffle(&rng, s.kept, s.count);
        size_t left = title_words_fold(s.kept, s.count);
        assert_true((left > 0) == s.has);
        if (s.has)
            assert_word(&s.kept[left - 1].word, &s.last);
    }
}

static void words_heard_beside_each_other_fold_to_one(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 11);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct title_said a[WORDS], b[WORDS];
        for (unsigned i = 0; i < WORDS; i++)
            a[i] = b[i] = some_said(&rng, (int64_t)rng_below(&rng, 40), i);
        said_shuffle(&rng, b, WORDS);
        size_t n = title_words_fold(a, WORDS), m = title_words_fold(b, WORDS);
        assert_int_equal(n, m);
        for (size_t i = 0; i < n; i++)
            assert_word(&a[i].word, &b[i].word);
    }
}

/* What a store deletes of them: all before one that counts. */
static void words_behind_one_that_counts_do_not_matter(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 13);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct title_said all[WORDS], less[WORDS], chain[WORDS];
        size_t left = 0;
        for (unsigned i = 0; i < WORDS; i++)
            all[i] = chain[i] = some_said(&rng, (int64_t)rng_below(&rng, 400), i);
        size_t n = title_words_fold(chain, WORDS);
        if (n == 0)
            continue;
        struct title_said from = chain[rng_below(&rng, n)];
        for (unsigned i = 0; i < WORDS; i++)
            if (title_said_cmp(&all[i], &from) >= 0)
                less[left++] = all[i];
        size_t m = title_words_fold(less, left);
        assert_true(m > 0);
        assert_true(title_word_eq(&less[m - 1].word, &chain[n - 1].word));
    }
}

static void one_of_a_copy_that_is_behind_is_not_the_last(void **state)
{
    (void)state;
    const struct title_word is = {
        .page_id = 3, .rev = 7, .touched = 1000, .said = 1010, .asked_at = { 50 }
    };
    struct title_word behind = is;
    behind.touched = 900;
    behind.rev = 6;
    behind.asked_at.ns = 60;
    struct title_said both[] = { { .word = behind, .srv = 1 }, { .word = is, .srv = 2 } };
    assert_int_equal(title_words_fold(both, 2), 1);
    assert_int_equal(both[0].word.rev, 7);
    struct title_said believed[] = { { .word = behind, .srv = 1, .believed = true },
                                     { .word = is, .srv = 2 } };
    assert_int_equal(title_words_fold(believed, 2), 2);
    assert_int_equal(believed[1].word.rev, 6);
    assert_int_equal(title_words_fold(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_is_read_as_it_was_written),
        cmocka_unit_test(a_row_that_says_that_nothing_is_there_is_no_word),
        cmocka_unit_test(one_of_a_copy_that_is_behind_is_not_the_last),
        cmocka_unit_test(words_heard_one_after_the_other_fold_to_the_last),
        cmocka_unit_test(words_heard_beside_each_other_fold_to_one),
        cmocka_unit_test(words_behind_one_that_counts_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
