/* hot: an acknowledged change is never hidden by a ready answer, memory stays within bounds,
 * references balance. Method: ready answers of our own that count their references; threads that
 * write, read and refill. */
#include "hot/hot.h"
#include "lib/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct http_ready {
    atomic_int refs;
    int64_t value;
    size_t bytes;
};
static atomic_int alive;

static struct http_ready *ready_new(int64_t value, size_t bytes)
{
    struct http_ready *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    r->refs = 1;
    r->value = value;
    r->bytes = bytes;
    atomic_fetch_add(&alive, 1);
    return r;
}

struct http_ready *http_ready_ref(struct http_ready *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void http_ready_unref(struct http_ready **rp)
{
    struct http_ready *r = *rp;
    if (r == NULL)
        return;
    *rp = NULL;
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    atomic_fetch_sub(&alive, 1);
    free(r);
}

size_t http_ready_bytes(const struct http_ready *r)
{
    return r->bytes;
}

static struct fake_clock fake;
static struct page_changes *changes;

static struct hot_key key_of(const char *target)
{
    return (struct hot_key){ .target = str_of(target) };
}

/* Keeps value under target for title. */
static void keep_until(struct app_hot *h, const char *target, const char *title, int64_t value,
                       store_time until)
{
    struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, str_of(title)),
                                .valid_until = until,
                                .tag = STR("7/tid"),
                                .full = ready_new(value, 1000),
                                .same = ready_new(-value, 100) };
    hot_put(h, key_of(target), &o);
    http_ready_unref(&o.full);
    http_ready_unref(&o.same);
}

static int64_t last_age_s;

static int64_t look(struct app_hot *h, const char *target, const char *if_none_match)
{
    struct http_ready *r =
        hot_get(h, key_of(target), &fake.clock, str_of(if_none_match), &last_age_s);
    if (r == NULL)
        return 0;
    int64_t value = r->value;
    http_ready_unref(&r);
    return value;
}

static void entry_is_found_until_its_title_changes(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    keep_until(h, "/a", "A", 5, STORE_TIME_NEVER);
    assert_int_equal(look(h, "/a", NULL), 5);
    assert_int_equal(look(h, "/b", NULL), 0);
    page_changes_tell(changes, 1, 1, STR("B"));
    page_changes_tell(changes, 2, 1, STR("A"));
    page_changes_tell(changes, 1, 2, STR("A"));
    assert_int_equal(look(h, "/a", NULL), 5);
    page_changes_tell(changes, 1, 1, STR("A"));
    assert_int_equal(look(h, "/a", NULL), 0);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void entry_made_before_a_change_is_not_kept(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, STR("A")),
                                .valid_until = STORE_TIME_NEVER,
                                .tag = STR("t"),
                                .full = ready_new(1, 10),
                                .same = ready_new(2, 10) };
    page_changes_tell(changes, 1, 1, STR("A"));
    hot_put(h, key_of("/a"), &o);
    http_ready_unref(&o.full);
    http_ready_unref(&o.same);
    assert_int_equal(look(h, "/a", NULL), 0);
    assert_int_equal(atomic_load(&alive), 0);
    hot_free(&h);
}

static void hits_are_counted_by_the_kind_of_their_entry(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    static const char *const targets[HOT_KINDS_MAX] = { "/a", "/b", "/c", "/d" };
    for (unsigned kind = 0; kind < HOT_KINDS_MAX; kind++) {
        struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, STR("A")),
                                    .valid_until = STORE_TIME_NEVER,
                                    .kind = kind,
                                    .tag = STR("t"),
                                    .full = ready_new(1, 10),
                                    .same = ready_new(2, 10) };
        hot_put(h, key_of(targets[kind]), &o);
        http_ready_unref(&o.full);
        http_ready_unref(&o.same);
        for (unsigned times = 0; times <= kind; times++)
            assert_int_not_equal(look(h, targets[kind], times % 2 == 0 ? NULL : "\"t\""), 0);
    }
    struct hot_stats stats;
    hot_stats_get(h, &stats);
    for (unsigned kind = 0; kind < HOT_KINDS_MAX; kind++)
        assert_int_equal(stats.hits_of[kind], kind + 1);
    assert_int_equal(stats.hits, 1 + 2 + 3 + 4);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void a_key_is_wanted_at_its_second_sight(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    assert_false(hot_wants(h, key_of("/a")));
    assert_false(hot_wants(h, key_of("/b")));
    assert_true(hot_wants(h, key_of("/a")));
    assert_true(hot_wants(h, key_of("/a")));
    assert_false(hot_wants(h, (struct hot_key){ .target = STR("/a"), .variant = 2 }));
    hot_free(&h);
}

static void if_none_match_gets_the_short_answer(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    keep_until(h, "/a", "A", 5, STORE_TIME_NEVER);
    assert_int_equal(look(h, "/a", "\"7/tid\""), -5);
    assert_int_equal(look(h, "/a", "W/\"7/tid\""), -5);
    assert_int_equal(look(h, "/a", "\"0/x\", \"7/tid\""), -5);
    assert_int_equal(look(h, "/a", "*"), -5);
    assert_int_equal(look(h, "/a", "\"7/other\""), 5);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void the_short_answer_alone_is_a_miss_for_the_long_one(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, STR("A")),
                                .valid_until = STORE_TIME_NEVER,
                                .tag = STR("7/tid"),
                                .same = ready_new(-5, 100) };
    hot_put(h, key_of("/a"), &o);
    http_ready_unref(&o.same);
    assert_int_equal(look(h, "/a", "\"7/tid\""), -5);
    assert_int_equal(look(h, "/a", NULL), 0);
    assert_int_equal(look(h, "/a", "\"7/other\""), 0);
    struct hot_stats s;
    hot_stats_get(h, &s);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 2);
    keep_until(h, "/a", "A", 6, STORE_TIME_NEVER);
    assert_int_equal(look(h, "/a", NULL), 6);
    assert_int_equal(look(h, "/a", "*"), -6);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void entry_ends_at_its_instant(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    atomic_store(&fake.now_ns, 99);
    keep_until(h, "/a", "A", 5, (store_time){ .ns = 100 });
    assert_int_equal(look(h, "/a", NULL), 5);
    atomic_store(&fake.now_ns, 100);
    assert_int_equal(look(h, "/a", NULL), 0);
    hot_free(&h);
}

static void count_wanted(void *ctx, struct trust_cell *c)
{
    (void)c;
    ++*(unsigned *)ctx;
}

static bool is_ready(struct app_hot *h)
{
    struct http_ready *r = hot_get(h, key_of("/T"), &fake.clock, STR(""), &last_age_s);
    bool ready = r != NULL;
    http_ready_unref(&r);
    return ready;
}

static void entry_ends_when_the_wiki_was_not_asked_for_long(void **state)
{
    (void)state;
    enum { WORD = 7 };
    static const struct trust_rules rules = { .ttl_ns = 60 * NS_PER_S, .max_ns = 300 * NS_PER_S };
    unsigned wanted = 0;
    struct app_hot *h = hot_new(1 << 20, 9, changes);
    struct page_trust *trust = page_trust_new(100, 1);
    const struct trust_key k = { .domain = 1, .title = STR("T") };
    struct trust_cell *c = page_trust_hold(trust, &k);
    page_trust_on_soon(trust, home_here(), count_wanted, &wanted);
    fake_clock_advance(&fake, 1000 * NS_PER_S);
    trust_hear(c, clock_store(&fake.clock), WORD);
    struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, STR("T")),
                                .valid_until = STORE_TIME_NEVER,
                                .cell = c,
                                .says = WORD,
                                .reader = TRUST_PLAIN,
                                .rules = &rules,
                                .tag = STR("7/tid"),
                                .full = ready_new(1, 1000),
                                .same = ready_new(-1, 100) };
    hot_put(h, key_of("/T"), &o);
    assert_true(is_ready(h));
    assert_int_equal(last_age_s, 0);
    fake_clock_advance(&fake, 61 * NS_PER_S);
    assert_true(is_ready(h));
    assert_int_equal(last_age_s, 61);
    assert_true(is_ready(h));
    assert_int_equal(wanted, 1); /* by the first who came */
    fake_clock_advance(&fake, 240 * NS_PER_S);
    assert_false(is_ready(h));
    trust_hear(c, clock_store(&fake.clock), WORD);
    o.age_s_max = 20;
    hot_put(h, key_of("/T"), &o);
    fake_clock_advance(&fake, 30 * NS_PER_S);
    assert_true(is_ready(h));
    assert_int_equal(last_age_s, 20); /* caches are allowed no more */
    trust_doubt(c, (store_time){ .ns = clock_store(&fake.clock).ns + 1 });
    assert_false(is_ready(h));
    trust_hear(c, (store_time){ .ns = clock_store(&fake.clock).ns + 1 }, WORD + 1);
    hot_put(h, key_of("/T"), &o); /* made of another word */
    assert_false(is_ready(h));
    http_ready_unref(&o.full);
    http_ready_unref(&o.same);
    hot_free(&h);
    trust_release(&c);
    page_trust_free(&trust);
    assert_int_equal(atomic_load(&alive), 0);
}

static void variants_are_apart_and_a_new_entry_replaces(void **state)
{
    (void)state;
    struct app_hot *h = hot_new(1 << 20, 1, changes);
    keep_until(h, "/a", "A", 5, STORE_TIME_NEVER);
    keep_until(h, "/a", "A", 6, STORE_TIME_NEVER);
    assert_int_equal(look(h, "/a", NULL), 6);
    struct hot_key other = { .target = STR("/a"), .variant = 2 };
    assert_null(hot_get(h, other, &fake.clock, STR_NONE, &last_age_s));
    struct hot_stats s;
    hot_stats_get(h, &s);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 1);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void memory_is_bounded_and_what_is_hit_stays(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20, MANY = 5000 };
    struct app_hot *h = hot_new(BYTES, 1, changes);
    char target[32];
    keep_until(h, "/hot", "H", 42, STORE_TIME_NEVER);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(target, sizeof target, "/%d", i);
        keep_until(h, target, target, i + 1, STORE_TIME_NEVER);
        assert_int_equal(look(h, "/hot", NULL), 42);
    }
    struct hot_stats s;
    hot_stats_get(h, &s);
    assert_true(s.bytes <= BYTES);
    assert_true(s.bytes > BYTES / 2);
    assert_true(s.evicted > MANY / 2);
    assert_int_equal(atomic_load(&alive), 2 * (int)s.entries);
    hot_free(&h);
    assert_int_equal(atomic_load(&alive), 0);
}

static void too_large_and_no_room_at_all_keep_nothing(void **state)
{
    (void)state;
    struct app_hot *none = hot_new(0, 1, changes), *small = hot_new(1500, 1, changes);
    keep_until(none, "/a", "A", 5, STORE_TIME_NEVER);
    keep_until(small, "/a", "A", 5, STORE_TIME_NEVER);
    assert_int_equal(look(none, "/a", NULL), 0);
    assert_int_equal(look(small, "/a", NULL), 0);
    assert_int_equal(atomic_load(&alive), 0);
    hot_free(&none);
    hot_free(&small);
    hot_free(&none); /* takes NULL */
}

/* ---- threads: published, then bumped, then acknowledged, as the page store does ---- */

/* The writer goes on until the readers have seen enough, however the machine schedules them. */
enum { TITLES = 8, ROUNDS = 20000, HITS_WANTED = 100 };
static struct app_hot *shared;
static _Atomic int64_t published[TITLES], acknowledged[TITLES];
static atomic_int stale, hits, done;

static void *write_titles(void *arg)
{
    (void)arg;
    for (int64_t round = 1; round <= ROUNDS || atomic_load(&hits) < HITS_WANTED; round++) {
        int t = (int)(round % TITLES);
        char title[2] = { (char)('A' + t), 0 };
        atomic_store(&published[t], round);
        page_changes_tell(changes, 1, 1, str_of(title));
        atomic_store(&acknowledged[t], round);
    }
    atomic_store(&done, 1);
    return NULL;
}

static void *read_titles(void *arg)
{
    unsigned t = *(const unsigned *)arg;
    while (atomic_load(&done) == 0) {
        t = (t * 5 + 3) % TITLES;
        char title[2] = { (char)('A' + t), 0 }, target[3] = { '/', (char)('A' + t), 0 };
        int64_t least = atomic_load(&acknowledged[t]);
        struct http_ready *r = hot_get(shared, key_of(target), &fake.clock, STR_NONE, &last_age_s);
        if (r != NULL) {
            atomic_fetch_add(&hits, 1);
            if (r->value < least)
                atomic_fetch_add(&stale, 1);
            http_ready_unref(&r);
            continue;
        }
        struct hot_entry_opts o = { .seen = page_changes_see(changes, 1, 1, str_of(title)),
                                    .valid_until = STORE_TIME_NEVER,
                                    .tag = STR("t"),
                                    .same = ready_new(0, 10) };
        o.full = ready_new(atomic_load(&published[t]), 100);
        hot_put(shared, key_of(target), &o);
        http_ready_unref(&o.full);
        http_ready_unref(&o.same);
    }
    return NULL;
}

static void an_acknowledged_change_is_never_hidden(void **state)
{
    (void)state;
    pthread_t writer, readers[3];
    unsigned starts[3] = { 0, 3, 6 };
    shared = hot_new(1 << 20, 9, changes);
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_titles, &starts[i]), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_titles, NULL), 0);
    assert_int_equal(pthread_join(writer, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(atomic_load(&stale), 0);
    hot_free(&shared);
    assert_int_equal(atomic_load(&alive), 0);
}

int main(void)
{
    fake_clock_init(&fake, 0);
    changes = page_changes_new(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_is_found_until_its_title_changes),
        cmocka_unit_test(entry_made_before_a_change_is_not_kept),
        cmocka_unit_test(hits_are_counted_by_the_kind_of_their_entry),
        cmocka_unit_test(a_key_is_wanted_at_its_second_sight),
        cmocka_unit_test(if_none_match_gets_the_short_answer),
        cmocka_unit_test(the_short_answer_alone_is_a_miss_for_the_long_one),
        cmocka_unit_test(entry_ends_at_its_instant),
        cmocka_unit_test(entry_ends_when_the_wiki_was_not_asked_for_long),
        cmocka_unit_test(variants_are_apart_and_a_new_entry_replaces),
        cmocka_unit_test(memory_is_bounded_and_what_is_hit_stays),
        cmocka_unit_test(too_large_and_no_room_at_all_keep_nothing),
        cmocka_unit_test(an_acknowledged_change_is_never_hidden),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    page_changes_free(&changes);
    return failed;
}
