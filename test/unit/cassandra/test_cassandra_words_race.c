/* Goal: what one server hears of a title holds for what another one puts of it at that moment; and
 * of two servers that hear at once, both have the same last word.
 * Method: two stores on one cluster. Calls on both are started behind each other, after random
 * fractions of what one takes, many times, each time on a title of its own; then both are read. A
 * real Cassandra (real.h). CASSANDRA_SEED sets the delays. */
#include "real.h"

#include "../bucket/fixture.h"
#include "base/rng.h"
#include "cassandra/pages.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SERVERS = 2, BUCKETS = 2, TIMES = 60, DELAY_US_MAX = 4000, WAIT_S = 60 };

static struct {
    struct cassandra_pages *pages[SERVERS];
    struct page_bucket *buckets[SERVERS][BUCKETS];
    uint32_t domain;
    struct rng rng;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    unsigned under_way;
    struct arena arena;
    char title[40];
} rig;

static void call_over(struct store_call *c)
{
    (void)c;
    INVARIANT(pthread_mutex_lock(&rig.lock) == 0);
    rig.under_way--;
    INVARIANT(pthread_cond_signal(&rig.turned) == 0);
    INVARIANT(pthread_mutex_unlock(&rig.lock) == 0);
}

static struct store_call call_new(void)
{
    INVARIANT(pthread_mutex_lock(&rig.lock) == 0);
    rig.under_way++;
    INVARIANT(pthread_mutex_unlock(&rig.lock) == 0);
    return (struct store_call){ .home = home_here(), .done = call_over };
}

static void calls_wait(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    t.tv_sec += WAIT_S;
    assert_int_equal(pthread_mutex_lock(&rig.lock), 0);
    while (rig.under_way > 0)
        if (pthread_cond_timedwait(&rig.turned, &rig.lock, &t) != 0 && rig.under_way > 0)
            fail_msg("not within %d s", WAIT_S);
    assert_int_equal(pthread_mutex_unlock(&rig.lock), 0);
}

static store_time now(void)
{
    return clock_store(the.clock);
}

/* So the second call meets the first one anywhere on its way. */
static void some_delay(void)
{
    int64_t until = now().ns + (int64_t)rng_below(&rig.rng, DELAY_US_MAX) * NS_PER_US;
    while (now().ns < until)
        ;
}

static void title_new(const char *of, unsigned i)
{
    (void)snprintf(rig.title, sizeof rig.title, "%s_%u", of, i);
    arena_reset(&rig.arena);
}

/* ---- calls ---- */

static struct title_word word_of(uint64_t page, uint64_t rev, int64_t touched)
{
    return (struct title_word){ .page_id = page,
                                .rev = rev,
                                .touched = touched,
                                .said = now().ns / NS_PER_S,
                                .asked_at = now() };
}

static void put_start(struct page_put *p, unsigned server, unsigned bucket, uint64_t rev,
                      const struct title_word *under)
{
    *p = (struct page_put){ .call = call_new(),
                            .bucket = rig.buckets[server][bucket],
                            .domain = rig.domain,
                            .title = str_of(rig.title),
                            .rev = rev,
                            .random = rng_next(&rig.rng),
                            .said_at = under == NULL ? now() : under->asked_at,
                            .heeds = true,
                            .word = under,
                            .contents_count = 1,
                            .contents = { { .name = STR("html"), .raw = STR("text") } },
                            .arena = &rig.arena };
    assert_int_equal(cassandra_pages_put(rig.pages[server], p), STORE_LATER);
}

static void hear_start(struct page_hear *h, unsigned server, const struct title_word *word,
                       const struct title_mark *mark)
{
    *h = (struct page_hear){ .call = call_new(),
                             .domain = rig.domain,
                             .title = str_of(rig.title),
                             .word = word,
                             .marks = mark,
                             .marks_count = mark != NULL };
    assert_int_equal(cassandra_pages_hear(rig.pages[server], h), STORE_LATER);
}

static struct page_read read_of(unsigned server, unsigned bucket, uint64_t rev)
{
    struct page_read r = { .call = call_new(),
                           .bucket = rig.buckets[server][bucket],
                           .which = { .domain = rig.domain,
                                      .title = str_of(rig.title),
                                      .select = SELECT_REV,
                                      .name = { .rev = rev } },
                           .heeds = true,
                           .arena = &rig.arena };
    assert_int_equal(cassandra_pages_read(rig.pages[server], &r), STORE_LATER);
    calls_wait();
    return r;
}

static void put_now(unsigned server, unsigned bucket, uint64_t rev, const struct title_word *under)
{
    struct page_put p;
    put_start(&p, server, bucket, rev, under);
    calls_wait();
    assert_int_equal(p.call.why, ERR_OK);
}

/* On whichever server; a reader never gets it. */
static void assert_hidden(unsigned bucket, uint64_t rev)
{
    for (unsigned s = 0; s < SERVERS; s++) {
        err why = read_of(s, bucket, rev).call.why;
        if (why != ERR_GONE && why != ERR_NOT_FOUND)
            fail_msg("%s: revision %llu is shown", rig.title, (unsigned long long)rev);
    }
}

static struct title_word last_word(void)
{
    struct page_read a = read_of(0, 0, 1), b = read_of(1, 0, 1);
    assert_true(a.heard && b.heard);
    assert_true(title_word_eq(&a.word, &b.word));
    assert_int_equal(a.word.asked_at.ns, b.word.asked_at.ns);
    return a.word;
}

/* ---- what is held ---- */

static void a_mark_hides_what_is_put_beside_it(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        struct page_put p;
        struct page_hear h;
        title_new("Marked", i);
        bool mark_first = i % 2 == 0;
        struct title_word under = word_of(3, 5, 1000);
        struct title_mark mark = {
            .state = PAGE_SUPPRESSED, .first = 5, .last = 5, .said_at = now()
        };
        if (mark_first)
            hear_start(&h, 0, NULL, &mark);
        else
            put_start(&p, 1, 0, 5, &under);
        some_delay();
        if (mark_first)
            put_start(&p, 1, 0, 5, &under);
        else
            hear_start(&h, 0, NULL, &mark);
        calls_wait();
        assert_int_equal(h.call.why, ERR_OK);
        assert_true(p.call.why == ERR_OK || p.call.why == ERR_GONE);
        refused += p.call.why == ERR_GONE;
        assert_hidden(0, 5);
    }
    print_message("%u of %d puts refused\n", refused, TIMES);
}

/* The answer that took the newest revision back gave the one below it, too. Another answer within
 * what clocks may differ proves nothing. */
static void one_answer_hides_a_revision_and_shows_the_one_below(void **state)
{
    (void)state;
    struct page_put p;
    struct page_hear h;
    title_new("Rolled back", 0);
    struct title_word before = word_of(3, 8, 1000);
    put_now(1, 0, 8, &before);
    struct title_word after = word_of(3, 7, 1001);
    struct title_mark mark = {
        .state = PAGE_DELETED, .first = 8, .last = PAGE_REV_MAX, .said_at = after.asked_at
    };
    hear_start(&h, 0, &after, &mark);
    calls_wait();
    assert_int_equal(h.call.why, ERR_OK);
    struct title_word other = after;
    other.asked_at = store_time_add(other.asked_at, NS_PER_MS);
    put_start(&p, 1, 0, 7, &other);
    calls_wait();
    assert_int_equal(p.call.why, ERR_GONE);
    assert_true(store_time_before(now(), p.again_at));
    put_now(1, 0, 7, &after);
    assert_hidden(0, 8);
    assert_int_equal(read_of(0, 0, 7).call.why, ERR_OK);
}

static void a_page_that_went_has_none_of_what_is_put_beside_that(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TIMES; i++) {
        struct page_put p;
        struct page_hear h;
        title_new("Gone", i);
        put_now(1, 1, 2, NULL); /* so that the title is known */
        struct title_word under = word_of(3, 5, 1000);
        struct title_word gone = { .missing = true, .said = under.said + 1, .asked_at = now() };
        put_start(&p, 1, 0, 5, &under);
        some_delay();
        hear_start(&h, 0, &gone, NULL);
        calls_wait();
        assert_int_equal(h.call.why, ERR_OK);
        assert_hidden(0, 5);
        assert_hidden(1, 2);
        assert_true(last_word().missing);
    }
}

/* The put is the first that brings a word, so the server that hears knows no page before that. */
static void another_page_has_none_of_what_is_put_beside_its_word(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        struct page_put p;
        struct page_hear h;
        title_new("Replaced", i);
        bool hear_first = i % 2 == 0;
        put_now(1, 1, 2, NULL);
        struct title_word under = word_of(3, 5, 1000), other = word_of(4, 9, 2000);
        if (hear_first)
            hear_start(&h, 0, &other, NULL);
        else
            put_start(&p, 1, 0, 5, &under);
        some_delay();
        if (hear_first)
            put_start(&p, 1, 0, 5, &under);
        else
            hear_start(&h, 0, &other, NULL);
        calls_wait();
        assert_int_equal(h.call.why, ERR_OK);
        assert_true(p.call.why == ERR_OK || p.call.why == ERR_GONE);
        refused += p.call.why == ERR_GONE;
        assert_hidden(0, 5);
        assert_int_equal(last_word().page_id, 4);
    }
    print_message("%u of %d puts refused\n", refused, TIMES);
}

static void of_two_words_at_once_the_one_that_lags_is_not_the_last(void **state)
{
    (void)state;
    unsigned lagged = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        struct page_hear a, b;
        title_new("Words", i);
        struct title_word first = word_of(3, 5, 1000);
        put_now(0, 0, 5, &first);
        struct title_word newer = word_of(3, 6, 1010), behind = word_of(3, 6, 1005);
        bool newer_first = i % 2 == 0;
        hear_start(&a, 0, newer_first ? &newer : &behind, NULL);
        some_delay();
        hear_start(&b, 1, newer_first ? &behind : &newer, NULL);
        calls_wait();
        assert_int_equal(a.call.why, ERR_OK);
        assert_int_equal(b.call.why, ERR_OK);
        lagged += a.is == WORD_LAGS || b.is == WORD_LAGS;
        /* It was asked for first: heard behind the other one, it says nothing any more. */
        bool old = (newer_first ? a.is : b.is) == WORD_OLD;
        assert_int_equal(last_word().touched, old ? 1005 : 1010);
    }
    print_message("%u of %d saw that one lags\n", lagged, TIMES);
}

/* Many words, of both servers; the last of them is the one that was asked for last. */
static void the_last_of_many_words_at_once_is_known_to_both(void **state)
{
    (void)state;
    title_new("Busy", 0);
    struct title_word first = word_of(3, 5, 1000), w = first;
    put_now(0, 0, 5, &first);
    for (unsigned i = 0; i < TIMES; i++) {
        struct page_hear a, b;
        w = word_of(3, 6 + i, 1010 + i);
        hear_start(&a, 0, &w, NULL);
        hear_start(&b, 1, &w, NULL);
        calls_wait();
        assert_int_equal(a.call.why, ERR_OK);
        assert_int_equal(b.call.why, ERR_OK);
        assert_int_equal(last_word().rev, w.rev);
    }
}

/* ---- */

static int setup(void **state)
{
    static const struct page_bucket_opts buckets[BUCKETS] = {
        { .name = "page", .policy = { .kind = POLICY_ALL } },
        { .name = "mobile", .policy = { .kind = POLICY_ALL } },
    };
    struct err_note note = { .text = "" };
    const char *given = getenv("CASSANDRA_SEED");
    uint64_t seed = (uint64_t)time(NULL);
    if (real_setup(state) != 0)
        return 1;
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
    if (given != NULL)
        assert_true(str_to_u64(str_of(given), &seed));
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&rig.rng, seed);
    arena_init(&rig.arena, 16 << 20);
    assert_int_equal(pthread_mutex_init(&rig.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&rig.turned, NULL), 0);
    for (unsigned s = 0; s < SERVERS; s++) {
        const struct cassandra_pages_opts o = { .titles = the.titles,
                                                .clock = the.clock,
                                                .srv = 21 + s,
                                                .max_skew_ns = 500 * NS_PER_MS,
                                                .write_timeout_ns = 10 * NS_PER_S,
                                                .buckets = buckets,
                                                .buckets_count = BUCKETS };
        rig.pages[s] = cassandra_pages_new(&o, &note);
        assert_non_null(rig.pages[s]);
        assert_int_equal(cassandra_pages_domain(rig.pages[s], STR("en.wikipedia.org"), &rig.domain),
                         ERR_OK);
        for (unsigned i = 0; i < BUCKETS; i++)
            rig.buckets[s][i] = cassandra_pages_bucket(rig.pages[s], str_of(buckets[i].name));
    }
    return 0;
}

static int teardown(void **state)
{
    for (unsigned s = 0; s < SERVERS; s++)
        cassandra_pages_free(&rig.pages[s]);
    arena_fini(&rig.arena);
    return real_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_hides_what_is_put_beside_it),
        cmocka_unit_test(one_answer_hides_a_revision_and_shows_the_one_below),
        cmocka_unit_test(a_page_that_went_has_none_of_what_is_put_beside_that),
        cmocka_unit_test(another_page_has_none_of_what_is_put_beside_its_word),
        cmocka_unit_test(of_two_words_at_once_the_one_that_lags_is_not_the_last),
        cmocka_unit_test(the_last_of_many_words_at_once_is_known_to_both),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
