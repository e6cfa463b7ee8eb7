/* Goal: policies are written once, in order and ahead of time; a store takes all of them or none; a
 * file that differs is told.
 * Method: a real Cassandra (real.h); cells made by hand for what the program itself never writes.
 */
#include "real.h"

#include "../cmocka_all.h"
#include "base/buf.h"
#include "cassandra/catalog.h"
#include "cassandra/pages.h"
#include "cassandra/policies.h"

#include <stdlib.h>
#include <string.h>

#define DAY (86400 * NS_PER_S)
enum { SKEW_MS = 500 };

/* A clock of the test's own. */
static struct hand {
    struct clock clock;
    int64_t store_ns, mono_ns;
} hand;

static store_time hand_store(struct clock *c)
{
    (void)c;
    return (store_time){ .ns = hand.store_ns };
}

static mono hand_mono(struct clock *c)
{
    (void)c;
    return (mono){ .ns = hand.mono_ns };
}

static wall hand_wall(struct clock *c)
{
    (void)c;
    return (wall){ .ns = hand.store_ns };
}

static struct page_bucket_opts bucket(const char *name, int64_t grace_ns)
{
    return (struct page_bucket_opts){ .name = name,
                                      .policy = { .kind = POLICY_APP_TTL,
                                                  .grace_ttl_ns = grace_ns,
                                                  .historical_ttl_ns = DAY,
                                                  .stash_ttl_ns = DAY,
                                                  .ledger_ttl_ns = DAY } };
}

static err apply(const struct page_bucket_opts *b, unsigned count, int64_t now_s, bool dry,
                 struct policies_apply *p, struct arena *a)
{
    *p = (struct policies_apply){ .call = real_call(),
                                  .catalog = the.catalog,
                                  .buckets = b,
                                  .count = count,
                                  .now = { .ns = now_s * NS_PER_S },
                                  .max_skew_ns = SKEW_MS * NS_PER_MS,
                                  .dry = dry,
                                  .arena = a };
    store_call_then(policies_apply(p), &p->call);
    real_wait("an apply");
    if (p->call.why != ERR_OK)
        print_message("%s\n", p->note.text);
    return p->call.why;
}

static struct catalog_rows *policies_load(void)
{
    struct catalog_load l = { .call = real_call(), .scope = STR(POLICIES_SCOPE) };
    assert_int_equal(catalog_load(the.catalog, &l), STORE_LATER);
    real_wait("a load");
    assert_int_equal(l.call.why, ERR_OK);
    return l.rows;
}

static void setup_schema(void **state)
{
    (void)state;
    real_apply();
    assert_int_equal(the.why, ERR_OK);
    hand.clock =
        (struct clock){ .store_now = hand_store, .mono_now = hand_mono, .wall_now = hand_wall };
}

static void the_first_is_from_the_beginning_and_the_next_a_minute_ahead(void **state)
{
    (void)state;
    struct arena a;
    struct policies_apply p;
    struct policies of;
    struct err_note note;
    struct page_bucket_opts b[] = { bucket("page", DAY), bucket("stash", DAY) };
    arena_init(&a, 16 << 20);
    struct catalog_rows *r = policies_load();
    assert_int_equal(policies_check(r, b, 2, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "palimpsest policy apply"));
    catalog_rows_drop(&r);

    assert_int_equal(apply(b, 2, 1000, true, &p, &a), ERR_OK); /* says, and does not */
    assert_int_equal(p.applied_count, 2);
    assert_int_equal(apply(b, 2, 1000, false, &p, &a), ERR_OK);
    assert_int_equal(p.applied_count, 2);
    assert_int_equal(p.applied[0].was.plan.number, 0);
    assert_int_equal(p.applied[0].now.at.ns, 0);
    assert_int_equal(apply(b, 2, 1001, false, &p, &a), ERR_OK); /* nothing is other */
    assert_int_equal(p.applied_count, 0);

    b[0].policy.grace_ttl_ns = 2 * DAY;
    assert_int_equal(apply(b, 2, 2000, false, &p, &a), ERR_OK);
    assert_int_equal(p.applied_count, 1);
    assert_true(str_eq(p.applied[0].bucket, STR("page")));
    assert_int_equal(p.applied[0].was.plan.policy.grace_ttl_ns, DAY);
    assert_int_equal(p.applied[0].now.plan.number, 2);
    assert_int_equal(p.applied[0].now.at.ns, 2060 * NS_PER_S);
    b[0].policy.grace_ttl_ns =
        DAY; /* back again, by a clock that is behind: in order all the same */
    assert_int_equal(apply(b, 2, 1900, false, &p, &a), ERR_OK);
    assert_int_equal(p.applied[0].now.at.ns, 2060 * NS_PER_S + 1);

    r = policies_load();
    assert_int_equal(policies_check(r, b, 2, &note), ERR_OK);
    assert_int_equal(policies_of(r, STR("page"), &a, &of, &note), ERR_OK);
    assert_int_equal(of.count, 3);
    assert_int_equal(policies_at(&of, (store_time){ 0 })->plan.number, 1);
    assert_int_equal(policies_at(&of, (store_time){ 2060 * NS_PER_S - 1 })->plan.number, 1);
    assert_int_equal(policies_at(&of, (store_time){ 2060 * NS_PER_S })->plan.number, 2);
    assert_int_equal(policies_at(&of, STORE_TIME_NEVER)->plan.number, 3);
    assert_true(page_policies_same(&of.plans[2].plan.policy, &b[0].policy));
    assert_int_equal(policies_of(r, STR("pag"), &a, &of, &note), ERR_OK); /* no prefix of it */
    assert_int_equal(of.count, 0);
    b[1].policy.stash_ttl_ns++;
    assert_int_equal(policies_check(r, b, 2, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "bucket stash"));
    catalog_rows_drop(&r);
    arena_fini(&a);
}

static atomic_uint over;

static void one_is_over(struct store_call *c)
{
    (void)c;
    over++;
}

static bool both_are_over(void *ctx)
{
    (void)ctx;
    return over == 2;
}

static void of_two_who_apply_both_are_in_order(void **state)
{
    (void)state;
    enum { ROUNDS = 6 };
    struct arena a;
    struct policies of;
    struct err_note note;
    arena_init(&a, 16 << 20);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct policies_apply p[2];
        struct arena arenas[2];
        struct page_bucket_opts b[2];
        over = 0;
        for (unsigned k = 0; k < 2; k++) {
            arena_init(&arenas[k], 1 << 20);
            b[k] = bucket("race", DAY + 2 * (int64_t)i + k);
            p[k] = (struct policies_apply){ .call = { .home = home_here(), .done = one_is_over },
                                            .catalog = the.catalog,
                                            .buckets = &b[k],
                                            .count = 1,
                                            .now = { .ns = (1000 + (int64_t)i) * NS_PER_S },
                                            .arena = &arenas[k] };
        }
        for (unsigned k = 0; k < 2; k++)
            store_call_then(policies_apply(&p[k]), &p[k].call);
        real_until(both_are_over, NULL, "both");
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(p[k].call.why, ERR_OK);
            arena_fini(&arenas[k]);
        }
    }
    struct catalog_rows *r = policies_load();
    assert_int_equal(policies_of(r, STR("race"), &a, &of, &note), ERR_OK);
    assert_int_equal(of.count, 2 * ROUNDS);
    catalog_rows_drop(&r);
    arena_fini(&a);
}

static struct cassandra_pages *pages_of(const struct page_bucket_opts *b, unsigned count)
{
    struct err_note note;
    struct cassandra_pages *p =
        cassandra_pages_new(&(struct cassandra_pages_opts){ .titles = the.titles,
                                                            .clock = &hand.clock,
                                                            .srv = 1,
                                                            .max_skew_ns = SKEW_MS * NS_PER_MS,
                                                            .buckets = b,
                                                            .buckets_count = count },
                            &note);
    if (p == NULL)
        fail_msg("%s", note.text);
    return p;
}

static void a_store_takes_them_before_their_instant(void **state)
{
    (void)state;
    struct err_note note;
    const struct page_bucket_opts b[] = { bucket("page", 5 * DAY) };
    struct cassandra_pages *p = pages_of(b, 1);
    const struct page_bucket *of = cassandra_pages_bucket(p, STR("page"));
    hand.store_ns = 2000 * NS_PER_S;
    assert_int_equal(cassandra_pages_bucket_policy(of)->grace_ttl_ns, 5 * DAY);
    struct catalog_rows *r = policies_load();
    assert_int_equal(cassandra_pages_plan(p, r, &note), ERR_OK);
    const struct page_policy *then = cassandra_pages_bucket_policy(of);
    assert_int_equal(then->grace_ttl_ns, DAY);
    hand.store_ns = 2060 * NS_PER_S;
    assert_int_equal(cassandra_pages_bucket_policy(of)->grace_ttl_ns, 2 * DAY);
    hand.store_ns = 3000 * NS_PER_S;
    assert_int_equal(cassandra_pages_bucket_policy(of)->grace_ttl_ns, DAY);
    assert_int_equal(then->grace_ttl_ns, DAY); /* what was given lives on */
    catalog_rows_drop(&r);
    cassandra_pages_free(&p);
}

static void put_at(struct cassandra_pages *p, uint64_t rev, int64_t now_s)
{
    struct arena a;
    arena_init(&a, 16 << 20);
    hand.store_ns = now_s * NS_PER_S;
    uint32_t domain = 0;
    assert_int_equal(cassandra_pages_domain(p, STR("wiki"), &domain), ERR_OK);
    struct page_put q = { .call = real_call(),
                          .bucket = cassandra_pages_bucket(p, STR("kept")),
                          .domain = domain,
                          .title = STR("T"),
                          .rev = rev,
                          .arena = &a,
                          .contents_count = 1 };
    q.contents[0].name = STR("html");
    q.contents[0].raw = STR("<p>");
    store_call_then(cassandra_pages_put(p, &q), &q.call);
    real_wait("a put");
    if (q.call.why != ERR_OK)
        fail_msg("%s: %s", err_name(q.call.why), q.note.text);
    arena_fini(&a);
}

static err rev_find(struct cassandra_pages *p, uint64_t rev)
{
    struct arena a;
    uint32_t domain = 0;
    arena_init(&a, 1 << 20);
    assert_int_equal(cassandra_pages_domain(p, STR("wiki"), &domain), ERR_OK);
    struct page_read r = { .call = real_call(),
                           .bucket = cassandra_pages_bucket(p, STR("kept")),
                           .which = { .domain = domain,
                                      .title = STR("T"),
                                      .select = SELECT_REV,
                                      .name = { .rev = rev } },
                           .arena = &a };
    store_call_then(cassandra_pages_read(p, &r), &r.call);
    real_wait("a read");
    arena_fini(&a);
    return r.call.why;
}

/* Superseded at 1001 and kept for 100 s; from 1062 on for 1000 s. */
static void what_was_put_before_is_kept_as_the_new_one_says(void **state)
{
    (void)state;
    struct arena a;
    struct err_note note;
    struct policies_apply p;
    struct page_bucket_opts b = bucket("kept", 100 * NS_PER_S);
    arena_init(&a, 16 << 20);
    assert_int_equal(apply(&b, 1, 900, false, &p, &a), ERR_OK);
    struct cassandra_pages *knows = pages_of(&b, 1), *does_not = pages_of(&b, 1);
    put_at(knows, 1, 1000);
    put_at(knows, 2, 1001);
    b.policy.grace_ttl_ns = 1000 * NS_PER_S;
    assert_int_equal(apply(&b, 1, 1002, false, &p, &a), ERR_OK);
    assert_int_equal(p.applied[0].now.at.ns, 1062 * NS_PER_S);
    struct catalog_rows *r = policies_load();
    assert_int_equal(cassandra_pages_plan(knows, r, &note), ERR_OK);
    static const struct {
        int64_t now_s;
        err knows, does_not;
    } steps[] = { { 1061, ERR_OK, ERR_OK },
                  { 1100, ERR_OK, ERR_OK },
                  { 1102, ERR_OK, ERR_GONE },
                  { 2000, ERR_OK, ERR_GONE },
                  { 2002, ERR_GONE, ERR_GONE } };
    for (unsigned i = 0; i < COUNT_OF(steps); i++) {
        hand.store_ns = steps[i].now_s * NS_PER_S;
        assert_int_equal(rev_find(knows, 1), steps[i].knows);
        assert_int_equal(rev_find(does_not, 1), steps[i].does_not);
        assert_int_equal(rev_find(knows, 2), ERR_OK);
    }
    catalog_rows_drop(&r);
    cassandra_pages_free(&knows);
    cassandra_pages_free(&does_not);
    arena_fini(&a);
}

static void cell_put(const char *key, size_t key_n, str value)
{
    const struct catalog_put put = { .key = { key, key_n }, .value = value };
    struct catalog_change q = {
        .call = real_call(), .scope = STR(POLICIES_SCOPE), .puts = &put, .puts_count = 1
    };
    assert_int_equal(catalog_change(the.catalog, &q), STORE_LATER);
    real_wait("a change");
    assert_int_equal(q.call.why, ERR_OK);
}

static err page_find(struct cassandra_pages *p, struct arena *a)
{
    uint32_t domain = 0;
    assert_int_equal(cassandra_pages_domain(p, STR("wiki"), &domain), ERR_OK);
    struct page_read r = {
        .call = real_call(),
        .bucket = cassandra_pages_bucket(p, STR("page")),
        .which = { .domain = domain, .title = STR("None"), .select = SELECT_LATEST },
        .arena = a,
        .wanted_count = 0
    };
    store_call_then(cassandra_pages_read(p, &r), &r.call);
    real_wait("a read");
    return r.call.why;
}

static void watch_start(void *ctx)
{
    struct catalog_watch **w = ctx;
    *w = catalog_watch_new(
        &(struct catalog_watch_opts){ .catalog = the.catalog, .scope = POLICIES_SCOPE });
}

static atomic_bool watch_over;

static void watch_told(void *ctx)
{
    catalog_watch_free(ctx);
    watch_over = true;
}

static bool watch_has_ended(void *ctx)
{
    (void)ctx;
    return watch_over;
}

static bool watch_has_copy(void *ctx)
{
    mono at;
    return catalog_watch_fresh(ctx, &at);
}

static void watch_end(void *ctx)
{
    struct catalog_watch **w = ctx;
    catalog_watch_stop(*w, watch_told, w);
}

static void who_does_not_know_the_policies_answers_nothing(void **state)
{
    (void)state;
    struct arena a;
    struct err_note note;
    struct catalog_watch *w = NULL;
    mono at;
    const struct page_bucket_opts b[] = { bucket("page", DAY) };
    arena_init(&a, 1 << 20);
    struct cassandra_pages *p = pages_of(b, 1);
    assert_int_equal(page_find(p, &a), ERR_NOT_FOUND);
    real_on_loop(watch_start, &w);
    real_until(watch_has_copy, w, "a copy");
    assert_true(catalog_watch_fresh(w, &at));
    cassandra_pages_watch(p, w);
    hand.mono_ns = at.ns + 29 * NS_PER_S;
    assert_int_equal(page_find(p, &a), ERR_NOT_FOUND);
    hand.mono_ns = clock_mono(the.clock).ns + 31 * NS_PER_S;
    assert_int_equal(page_find(p, &a), ERR_UNAVAILABLE);

    /* A policy that cannot be read: nothing is taken, and nothing is answered. */
    hand.mono_ns = at.ns;
    cell_put("page\0\0\0\0\7", 9, STR("\xff"));
    struct catalog_rows *r = policies_load();
    assert_int_equal(cassandra_pages_plan(p, r, &note), ERR_CORRUPT);
    assert_int_equal(page_find(p, &a), ERR_UNAVAILABLE);
    catalog_rows_drop(&r);
    cell_put("page\0\0\0\0\7", 9, STR_NONE);
    r = policies_load();
    assert_int_equal(cassandra_pages_plan(p, r, &note), ERR_OK);
    assert_int_equal(page_find(p, &a), ERR_NOT_FOUND);
    catalog_rows_drop(&r);
    cassandra_pages_free(&p);
    real_on_loop(watch_end, &w);
    real_until(watch_has_ended, NULL, "the watch has stopped");
    arena_fini(&a);
}

static void what_pins_cannot_rest_on_is_refused(void **state)
{
    (void)state;
    struct err_note note;
    struct page_bucket_opts b = bucket("page", 4999 * NS_PER_MS);
    assert_int_equal(policies_fit(&b, SKEW_MS * NS_PER_MS, &note), ERR_BAD);
    b.policy.grace_ttl_ns += NS_PER_MS;
    assert_int_equal(policies_fit(&b, SKEW_MS * NS_PER_MS, &note), ERR_OK);
    b.policy.kind = POLICY_LATEST_HASH;
    assert_int_equal(policies_fit(&b, SKEW_MS * NS_PER_MS, &note), ERR_BAD);
    b.policy.kind = POLICY_ALL;
    b.policy.grace_ttl_ns = 0;
    assert_int_equal(policies_fit(&b, SKEW_MS * NS_PER_MS, &note), ERR_OK);

    struct buf out;
    buf_init(&out, 1000);
    b = bucket("page", DAY);
    policies_print(b.name, &b.policy, &out);
    assert_true(str_eq(buf_str(&out), STR("app_ttl, grace_ttl 1d, historical_ttl 1d, stash_ttl 1d, "
                                          "ledger_ttl 1d")));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_schema),
        cmocka_unit_test(the_first_is_from_the_beginning_and_the_next_a_minute_ahead),
        cmocka_unit_test(of_two_who_apply_both_are_in_order),
        cmocka_unit_test(a_store_takes_them_before_their_instant),
        cmocka_unit_test(what_was_put_before_is_kept_as_the_new_one_says),
        cmocka_unit_test(who_does_not_know_the_policies_answers_nothing),
        cmocka_unit_test(what_pins_cannot_rest_on_is_refused),
    };
    return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
