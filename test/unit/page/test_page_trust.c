/* Goal: what is not known of the wiki is never trusted: nothing at the start, nothing of another
 * word, nothing from before a doubt, nothing that was forgotten. Method: cells in instants written
 * down; a table of few cells; threads that read while others hear. */
#include "page/trust.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define S(n) ((store_time){ .ns = (int64_t)(n)*NS_PER_S })
enum { WORD_ONE = 11, WORD_TWO = 22 };

static struct trust_cell *hold(struct page_trust *t, const char *title, uint64_t rev)
{
    const struct trust_key k = { .domain = 1, .title = str_of(title), .rev = rev };
    return page_trust_hold(t, &k);
}

static int64_t age_s(const struct trust_cell *c, uint64_t says, int64_t now_s)
{
    int64_t ns = trust_age_ns(c, says, S(now_s));
    return ns == TRUST_NEVER ? -1 : ns / NS_PER_S;
}

static void nothing_is_trusted_before_it_was_heard(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    assert_int_equal(age_s(c, WORD_ONE, 1000), -1);
    assert_int_equal(age_s(c, 0, 1000), -1);
    trust_hear(c, S(990), WORD_ONE);
    assert_int_equal(age_s(c, WORD_ONE, 1000), 10);
    assert_int_equal(age_s(c, WORD_TWO, 1000), -1);
    assert_int_equal(age_s(c, WORD_ONE, 900), 0); /* a clock that is behind */
    trust_release(&c);
    assert_null(c);
    page_trust_free(&t);
}

static void the_word_asked_for_last_counts(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    trust_hear(c, S(50), WORD_TWO);
    trust_hear(c, S(40), WORD_ONE);
    assert_int_equal(age_s(c, WORD_ONE, 60), -1);
    assert_int_equal(age_s(c, WORD_TWO, 60), 10);
    trust_release(&c);
    page_trust_free(&t);
}

static void a_doubt_is_ended_by_what_is_asked_for_later(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    trust_hear(c, S(50), WORD_ONE);
    trust_doubt(c, S(60));
    assert_int_equal(age_s(c, WORD_ONE, 61), -1);
    trust_hear(c, S(59), WORD_ONE); /* asked before, answered after */
    assert_int_equal(age_s(c, WORD_ONE, 61), -1);
    trust_doubt(c, S(55)); /* told late */
    trust_hear(c, S(61), WORD_ONE);
    assert_int_equal(age_s(c, WORD_ONE, 62), 1);
    struct trust_figures f;
    page_trust_figures(t, &f);
    assert_int_equal(f.doubts, 2);
    trust_release(&c);
    page_trust_free(&t);
}

static void what_was_heard_already_is_known_while_there_is_no_doubt(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    const struct trust_key k = { .domain = 1, .title = STR("T") };
    assert_false(page_trust_says(t, &k, WORD_ONE));
    assert_false(page_trust_says(t, &k, 0));
    struct trust_cell *c = hold(t, "T", 0);
    trust_hear(c, S(50), WORD_ONE);
    assert_true(page_trust_says(t, &k, WORD_ONE));
    assert_false(page_trust_says(t, &k, WORD_TWO));
    trust_doubt(c, S(60));
    assert_false(page_trust_says(t, &k, WORD_ONE));
    trust_hear(c, S(61), WORD_ONE);
    assert_true(page_trust_says(t, &k, WORD_ONE));
    trust_release(&c);
    page_trust_free(&t);
}

static void a_title_and_its_revisions_have_cells_of_their_own(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *title = hold(t, "T", 0), *rev = hold(t, "T", 5), *other = hold(t, "U", 0),
                      *again = hold(t, "T", 5);
    assert_ptr_equal(rev, again);
    trust_hear(rev, S(50), TRUST_SHOWN);
    assert_int_equal(age_s(title, TRUST_SHOWN, 50), -1);
    assert_int_equal(age_s(other, TRUST_SHOWN, 50), -1);
    assert_int_equal(age_s(again, TRUST_SHOWN, 50), 0);
    assert_int_equal(trust_key_of(rev).rev, 5);
    assert_true(str_eq(trust_key_of(other).title, STR("U")));
    trust_release(&title);
    trust_release(&rev);
    trust_release(&other);
    trust_release(&again);
    page_trust_free(&t);
}

static void a_doubt_of_a_title_is_one_of_its_revisions(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    const struct trust_key k = { .domain = 1, .title = STR("T") };
    const struct title_bound none = { .rev = 0 };
    assert_false(page_trust_doubt(t, &k, S(40), &none)); /* nothing is trusted of it */
    struct trust_cell *rev = hold(t, "T", 5), *other = hold(t, "U", 5);
    trust_hear(rev, S(50), TRUST_SHOWN);
    trust_hear(other, S(50), TRUST_SHOWN);
    assert_true(page_trust_doubt(t, &k, S(60), &none));
    assert_int_equal(age_s(rev, TRUST_SHOWN, 61), -1);
    assert_int_equal(trust_doubted_at(rev).ns, S(60).ns);
    trust_hear(rev, S(59), TRUST_SHOWN); /* asked before, answered after */
    assert_int_equal(age_s(rev, TRUST_SHOWN, 61), -1);
    assert_int_equal(age_s(other, TRUST_SHOWN, 61), 11);
    trust_hear(rev, S(61), TRUST_SHOWN);
    assert_int_equal(age_s(rev, TRUST_SHOWN, 61), 0);
    trust_release(&rev);
    trust_release(&other);
    page_trust_free(&t);
}

static void a_word_below_the_bound_is_not_trusted(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    const struct title_bound rev = { .rev = 8 }, touched = { .touched = 1000 };
    struct title_word w = { .page_id = 3, .rev = 7, .touched = 1000, .asked_at = S(50) };
    trust_bind(c, &rev);
    trust_bind(c, &touched);
    assert_false(trust_hear_word(c, &w, false));
    assert_int_equal(age_s(c, title_word_hash(&w), 50), -1);
    w.rev = 8;
    w.touched = 999;
    assert_false(trust_hear_word(c, &w, false));
    w.touched = 1000;
    assert_true(trust_hear_word(c, &w, false));
    assert_int_equal(age_s(c, title_word_hash(&w), 50), 0);
    w.rev = 7; /* it was reached, and holds no more */
    w.asked_at = S(51);
    assert_true(trust_hear_word(c, &w, false));
    trust_bind(c, &rev);
    assert_true(trust_hear_word(c, &w, true));
    trust_release(&c);
    page_trust_free(&t);
}

static void what_the_last_word_reaches_binds_nothing(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    const struct title_bound rev = { .rev = 8 }, newer = { .rev = 9 },
                             heard = { .heard = { .rev = 8, .touched = 1000 } };
    struct title_word w = { .page_id = 3, .rev = 8, .touched = 1000, .asked_at = S(50) };
    struct title_word gone = { .missing = true, .asked_at = S(51) };
    assert_true(trust_hear_word(c, &w, false));
    trust_bind(c, &rev); /* late: the page went meanwhile */
    trust_bind(c, &heard);
    assert_true(trust_hear_word(c, &gone, false));
    trust_bind(c, &rev); /* it may have been brought back */
    assert_false(trust_hear_word(c, &gone, false));
    w.asked_at = S(52);
    assert_true(trust_hear_word(c, &w, false));
    trust_bind(c, &newer);
    assert_false(trust_hear_word(c, &gone, false));
    trust_release(&c);
    page_trust_free(&t);
}

static void an_answer_with_a_newer_change_reaches_what_was_heard(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0);
    const struct title_bound heard = {
        .heard = { .rev = 8, .touched = 1000, .newest = { .at_s = 900, .id = 5 } }
    };
    struct title_word gone = { .missing = true, .asked_at = S(50) };
    trust_bind(c, &heard);
    assert_false(trust_hear_word(c, &gone, false)); /* of an old wiki, or a copy behind */
    gone.newest = (struct wiki_newest){ .at_s = 900, .id = 5 };
    assert_false(trust_hear_word(c, &gone, false));
    gone.newest.id = 6;
    assert_true(trust_hear_word(c, &gone, false));
    trust_release(&c);
    page_trust_free(&t);
}

static void a_title_is_not_purged_again_and_again(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct trust_cell *c = hold(t, "T", 0), *other = hold(t, "U", 0);
    for (unsigned i = 0; i < TRUST_PURGES_MAX; i++)
        assert_true(trust_may_purge(c, S(1000)));
    assert_false(trust_may_purge(c, S(1000)));
    assert_true(trust_may_purge(other, S(1000)));
    assert_false(trust_may_purge(c, S(1000 + TRUST_PURGE_S - 1)));
    assert_true(trust_may_purge(c, S(1000 + TRUST_PURGE_S)));
    assert_false(trust_may_purge(c, S(1000 + TRUST_PURGE_S)));
    for (unsigned i = 0; i < TRUST_PURGES_MAX; i++) /* no more for having waited longer */
        assert_true(trust_may_purge(c, S(9000)));
    assert_false(trust_may_purge(c, S(9000)));
    trust_release(&c);
    trust_release(&other);
    page_trust_free(&t);
}

static void cells_of_revisions_let_their_titles_go(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(160, 1);
    struct trust_figures f;
    char title[16];
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(title, sizeof title, "t%u", i);
        struct trust_cell *c = hold(t, title, 5);
        trust_release(&c);
    }
    page_trust_figures(t, &f);
    assert_in_range(f.cells, 100, 400);
    page_trust_free(&t);
}

static void cells_that_nobody_holds_are_bounded(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(160, 1);
    struct trust_figures f;
    char title[16];
    struct trust_cell *kept = hold(t, "kept", 0), *doubted = hold(t, "doubted", 0);
    trust_hear(kept, S(50), WORD_ONE);
    trust_doubt(doubted, S(50)); /* while the wiki is asked */
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(title, sizeof title, "t%u", i);
        struct trust_cell *c = hold(t, title, 0);
        trust_hear(c, S(50), WORD_ONE);
        trust_release(&c);
    }
    page_trust_figures(t, &f);
    assert_in_range(f.cells, 100, 200);
    assert_int_equal(f.held, 2);
    trust_hear(doubted, S(49), WORD_ONE);
    assert_int_equal(age_s(doubted, WORD_ONE, 51), -1);
    struct trust_cell *first = hold(t, "t0", 0);
    assert_int_equal(age_s(first, WORD_ONE, 51), -1);
    assert_int_equal(age_s(kept, WORD_ONE, 51), 1);
    trust_release(&kept);
    trust_release(&doubted);
    trust_release(&first);
    page_trust_free(&t);
}

/* A title that is not stored is asked for by nobody: no word ends its doubt. */
static void cells_in_doubt_are_bounded(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(160, 1);
    const struct title_bound none = { .rev = 0 };
    struct trust_figures f;
    char title[16];
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(title, sizeof title, "t%u", i);
        const struct trust_key k = { .domain = 1, .title = str_of(title) };
        struct trust_cell *c = page_trust_hold(t, &k);
        trust_release(&c);
        assert_true(page_trust_doubt(t, &k, S(60), &none));
    }
    page_trust_figures(t, &f);
    assert_in_range(f.cells, 100, 200);
    const struct trust_key first = { .domain = 1, .title = STR("t0") };
    struct trust_cell *c = page_trust_hold(t, &first);
    assert_int_equal(age_s(c, WORD_ONE, 61), -1); /* forgotten, and not trusted */
    trust_release(&c);
    page_trust_free(&t);
}

struct asked {
    unsigned count;
    struct trust_cell *last;
};

static void asked_for(void *ctx, struct trust_cell *c)
{
    struct asked *a = ctx;
    a->count++;
    a->last = c;
}

static void a_word_is_wanted_once_until_one_is_heard(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(100, 1);
    struct asked a = { 0 };
    struct trust_cell *c = hold(t, "T", 0);
    trust_soon(c); /* nobody to ask */
    page_trust_on_soon(t, home_here(), asked_for, &a);
    trust_soon(c);
    trust_soon(c);
    assert_int_equal(a.count, 1);
    assert_ptr_equal(a.last, c);
    trust_hear(c, S(50), WORD_ONE);
    trust_soon(c);
    assert_int_equal(a.count, 2);
    trust_unheard(c);
    trust_soon(c);
    assert_int_equal(a.count, 3);
    trust_release(&c);
    page_trust_free(&t);
}

static void who_reads_says_what_is_needed(void **state)
{
    (void)state;
    const struct trust_rules r = { .ttl_ns = 60 * NS_PER_S, .max_ns = 300 * NS_PER_S };
    static const struct {
        enum trust_reader reader;
        int64_t age_ns;
        enum trust_need need;
    } rows[] = {
        { TRUST_PLAIN, 0, TRUST_FINE },
        { TRUST_PLAIN, 60 * NS_PER_S, TRUST_FINE },
        { TRUST_PLAIN, 60 * NS_PER_S + 1, TRUST_BEHIND },
        { TRUST_PLAIN, 300 * NS_PER_S, TRUST_BEHIND },
        { TRUST_PLAIN, 300 * NS_PER_S + 1, TRUST_FIRST },
        { TRUST_PLAIN, TRUST_NEVER, TRUST_FIRST },
        { TRUST_NAMED, 60 * NS_PER_S, TRUST_FINE },
        { TRUST_NAMED, 60 * NS_PER_S + 1, TRUST_FIRST },
        { TRUST_EDITOR, 0, TRUST_FIRST },
        { TRUST_EDITOR, TRUST_NEVER, TRUST_FIRST },
        { TRUST_SAVER, 2 * NS_PER_S, TRUST_FINE },
        { TRUST_SAVER, 2 * NS_PER_S + 1, TRUST_FIRST },
        { TRUST_SAVER, TRUST_NEVER, TRUST_FIRST },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(trust_need(&r, rows[i].reader, rows[i].age_ns), rows[i].need);
    const struct trust_rules never = { .ttl_ns = INT64_MAX, .max_ns = INT64_MAX };
    assert_int_equal(trust_need(&never, TRUST_PLAIN, INT64_MAX - 1), TRUST_FINE);
    assert_int_equal(trust_need(&never, TRUST_PLAIN, TRUST_NEVER), TRUST_FIRST);
    assert_int_equal(trust_need(&never, TRUST_NAMED, TRUST_NEVER), TRUST_FIRST);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *hammer(void *ctx)
{
    struct page_trust *t = ctx;
    static const char *const titles[] = { "a", "b", "c", "d", "e" };
    for (unsigned i = 1; i < ROUNDS; i++) {
        struct trust_cell *c = hold(t, titles[i % COUNT_OF(titles)], i % 3);
        int64_t age = trust_age_ns(c, WORD_ONE, S(i));
        INVARIANT(age == TRUST_NEVER || age >= 0);
        if (i % 2 == 0)
            trust_hear(c, S(i), WORD_ONE + i % 2);
        if (i % 31 == 0)
            trust_doubt(c, S(i));
        trust_release(&c);
    }
    return NULL;
}

static void threads_hear_and_look_at_once(void **state)
{
    (void)state;
    struct page_trust *t = page_trust_new(4, 1);
    pthread_t threads[THREADS];
    struct trust_figures f;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, t), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    page_trust_figures(t, &f);
    assert_int_equal(f.held, 0);
    page_trust_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_trusted_before_it_was_heard),
        cmocka_unit_test(the_word_asked_for_last_counts),
        cmocka_unit_test(a_doubt_is_ended_by_what_is_asked_for_later),
        cmocka_unit_test(what_was_heard_already_is_known_while_there_is_no_doubt),
        cmocka_unit_test(a_title_and_its_revisions_have_cells_of_their_own),
        cmocka_unit_test(a_doubt_of_a_title_is_one_of_its_revisions),
        cmocka_unit_test(a_word_below_the_bound_is_not_trusted),
        cmocka_unit_test(what_the_last_word_reaches_binds_nothing),
        cmocka_unit_test(an_answer_with_a_newer_change_reaches_what_was_heard),
        cmocka_unit_test(a_title_is_not_purged_again_and_again),
        cmocka_unit_test(cells_of_revisions_let_their_titles_go),
        cmocka_unit_test(cells_that_nobody_holds_are_bounded),
        cmocka_unit_test(cells_in_doubt_are_bounded),
        cmocka_unit_test(a_word_is_wanted_once_until_one_is_heard),
        cmocka_unit_test(who_reads_says_what_is_needed),
        cmocka_unit_test(threads_hear_and_look_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
