/* Goal: a title with more facts than a put may add to is served, purged and culled; and what is
 * acknowledged has its effect, also when a render falls due while somebody decides on it; and many
 * who ask for the same at once write one fact. Method: facts are written to the title's row beside
 * the store, as many as are wanted. A clock leaps behind the look at a title, and before the
 * decision gets its time. A real Cassandra (real.h). */
#include "real.h"

#include "../bucket/fixture.h"
#include "cassandra/pages.h"
#include "loop/loop.h"

#include <stdio.h>
#include <string.h>

enum { CROWD = 12000, CROWD_REV = 1000000 };

/* Reads of it: the next one, then all others leap_ns later. */
struct leaping_clock {
    struct clock clock;
    _Atomic int64_t now_ns, leap_ns;
};

static struct rig {
    struct leaping_clock clock;
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    const char *domain_name;
    uint32_t domain;
    struct arena arena;
} rig;

static store_time leaping_store(struct clock *c)
{
    struct leaping_clock *l = CONTAINER_OF(c, struct leaping_clock, clock);
    int64_t leap_ns = atomic_exchange(&l->leap_ns, 0);
    return (store_time){ .ns = atomic_fetch_add(&l->now_ns, leap_ns) };
}

static mono leaping_mono(struct clock *c)
{
    return (mono){ .ns = atomic_load(&CONTAINER_OF(c, struct leaping_clock, clock)->now_ns) };
}

static wall leaping_wall(struct clock *c)
{
    return (wall){ .ns = atomic_load(&CONTAINER_OF(c, struct leaping_clock, clock)->now_ns) };
}

static void rig_open(const char *domain, bool pooled)
{
    static const struct clock clock = { .store_now = leaping_store,
                                        .mono_now = leaping_mono,
                                        .wall_now = leaping_wall };
    struct err_note note = { .text = "" };
    const struct page_bucket_opts bucket = { .name = "page", .policy = fix_policy(POLICY_APP_TTL) };
    rig = (struct rig){ .domain_name = domain };
    rig.clock.clock = clock;
    atomic_init(&rig.clock.now_ns, T0);
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = &rig.clock.clock,
                                            .pool = pooled ? loop_pool(real_loop()) : NULL,
                                            .srv = 1,
                                            .buckets = &bucket,
                                            .buckets_count = 1,
                                            .renders_max = 100 };
    rig.pages = cassandra_pages_new(&o, &note);
    assert_non_null(rig.pages);
    rig.bucket = cassandra_pages_bucket(rig.pages, STR("page"));
    assert_int_equal(cassandra_pages_domain(rig.pages, str_of(domain), &rig.domain), ERR_OK);
    arena_init(&rig.arena, 64 << 20);
}

static void rig_close(void)
{
    cassandra_pages_free(&rig.pages);
    arena_fini(&rig.arena);
}

static void clock_pass(int64_t ns)
{
    (void)atomic_fetch_add(&rig.clock.now_ns, ns);
}

static err put(uint64_t rev, const char *html, int64_t stash_ns, struct page_put *out)
{
    struct page_put q = { .call = real_call(),
                          .bucket = rig.bucket,
                          .domain = rig.domain,
                          .title = STR("T"),
                          .rev = rev,
                          .random = rev,
                          .stash_ns = stash_ns,
                          .contents_count = 1,
                          .contents = { { .name = STR("html"), .raw = str_of(html) } },
                          .arena = &rig.arena };
    if (cassandra_pages_put(rig.pages, &q) == STORE_LATER)
        real_wait("a put");
    if (out != NULL)
        *out = q;
    return q.call.why;
}

static err order(enum page_order_kind kind, struct page_name name, struct page_order *out)
{
    struct page_order o = { .call = real_call(),
                            .bucket = rig.bucket,
                            .domain = rig.domain,
                            .title = STR("T"),
                            .kind = kind,
                            .has_rev = name.rev != 0,
                            .has_tid = name.rev != 0,
                            .name = name,
                            .until = { .ns = T0 + 9 * HOUR } };
    if (cassandra_pages_order(rig.pages, &o) == STORE_LATER)
        real_wait("an order");
    if (out != NULL)
        *out = o;
    return o.call.why;
}

static err read_of(enum page_select select, struct page_name name, struct page_read *out)
{
    struct page_read r = {
        .call = real_call(),
        .bucket = rig.bucket,
        .which = { .domain = rig.domain, .title = STR("T"), .select = select, .name = name },
        .arena = &rig.arena,
        .wanted_count = 1,
        .wanted = { STR("html") }
    };
    if (cassandra_pages_read(rig.pages, &r) == STORE_LATER)
        real_wait("a read");
    if (out != NULL)
        *out = r;
    return r.call.why;
}

/* ---- many facts ---- */

/* Renders of lower revisions, whose bytes are gone. */
static void crowd(unsigned count)
{
    struct fact facts[TITLES_APPEND_MAX];
    struct arena a;
    arena_init(&a, 64 << 20);
    for (unsigned done = 0; done < count;) {
        unsigned n = 0;
        for (; n < TITLES_APPEND_MAX && done < count; n++, done++) {
            const store_time at = { .ns = T0 + NS_PER_S + done * NS_PER_US };
            facts[n] =
                (struct fact){ .what = FACT_PUT,
                               .srv = 2,
                               .at = at,
                               .name = { .rev = 1 + done, .tid = tid_make(tid_ticks(at), done) },
                               .said_at = at };
            memcpy(facts[n].digest, &done, sizeof done);
            memcpy(facts[n].plain_digest, &done, sizeof done);
        }
        struct titles_append q = {
            .call = real_call(),
            .key = { .bucket = STR("page"), .domain = str_of(rig.domain_name), .title = STR("T") },
            .facts = facts,
            .facts_count = n,
            .arena = &a
        };
        if (titles_append(the.titles, &q) == STORE_LATER)
            real_wait("facts");
        assert_int_equal(q.call.why, ERR_OK);
        arena_reset(&a);
    }
    arena_fini(&a);
}

static size_t cull(void)
{
    struct cassandra_cull c = {
        .call = real_call(), .bucket = rig.bucket, .domain = rig.domain, .title = STR("T")
    };
    if (cassandra_pages_cull(rig.pages, &c) == STORE_LATER)
        real_wait("a cull");
    assert_int_equal(c.call.why, ERR_OK);
    return c.forgotten;
}

static void crowded(const char *domain, bool pooled)
{
    const struct page_name all = { .rev = 0 };
    struct page_read read;
    struct page_put full;
    struct page_order stash;
    rig_open(domain, pooled);
    assert_int_equal(put(CROWD_REV, "latest", 0, NULL), ERR_OK);
    crowd(CROWD);
    clock_pass(2 * NS_PER_S);
    assert_int_equal(read_of(SELECT_LATEST, all, &read), ERR_OK);
    assert_int_equal(read.render.name.rev, CROWD_REV);
    str raw;
    assert_int_equal(page_body_raw(&read.bodies[0], &rig.arena, &raw), ERR_OK);
    assert_true(str_eq(raw, STR("latest")));
    assert_int_equal(put(CROWD_REV + 1, "one more", 0, &full), ERR_AGAIN);
    assert_non_null(strstr(full.note.text, "too_many_renders"));
    assert_int_equal(order(ORDER_STASH, read.render.name, &stash), ERR_AGAIN);
    assert_non_null(strstr(stash.note.text, "too_many_renders"));
    assert_int_equal(order(ORDER_HOLD, read.render.name, NULL), ERR_AGAIN);
    assert_int_equal(order(ORDER_PURGE, all, NULL), ERR_OK);
    assert_int_equal(read_of(SELECT_LATEST, all, NULL), ERR_GONE);
    clock_pass(500 * HOUR);
    assert_int_equal(cull(), CROWD + 1);
    assert_int_equal(put(CROWD_REV + 2, "again", 0, NULL), ERR_OK);
    rig_close();
}

static void a_title_of_many_facts_is_served_purged_and_culled(void **state)
{
    (void)state;
    crowded("crowded.example", false);
    crowded("pooled.example", true);
}

static enum page_state state_of(uint64_t rev)
{
    struct page_explain x = { .call = real_call(),
                              .bucket = rig.bucket,
                              .which = { .domain = rig.domain,
                                         .title = STR("T"),
                                         .select = SELECT_REV,
                                         .name = { .rev = rev } } };
    if (cassandra_pages_explain(rig.pages, &x) == STORE_LATER)
        real_wait("an explanation");
    assert_int_equal(x.call.why, ERR_OK);
    return x.is.state;
}

static void of_too_many_traces_upkeep_leaves_the_newest(void **state)
{
    (void)state;
    const struct page_name all = { .rev = 0 };
    const unsigned more = 500, count = TITLES_TRACES_MAX + more;
    struct page_read read;
    rig_open("traces.example", true);
    assert_int_equal(put(CROWD_REV, "latest", 0, NULL), ERR_OK);
    crowd(count);
    clock_pass(GRACE + HOUR);
    assert_int_equal(state_of(1), PAGE_CULLED);
    assert_int_equal(cull(), more);
    assert_int_equal(cull(), 0);
    assert_int_equal(state_of(more), PAGE_UNKNOWN);
    assert_int_equal(state_of(more + 1), PAGE_CULLED);
    assert_int_equal(read_of(SELECT_LATEST, all, &read), ERR_OK);
    assert_int_equal(read.render.name.rev, CROWD_REV);
    assert_int_equal(put(CROWD_REV + 1, "one more", 0, NULL), ERR_OK);
    rig_close();
}

/* ---- due meanwhile ---- */

/* A render that is due the moment after the next look at the clock. */
static struct page_name nearly_due(const char *domain)
{
    struct page_put first;
    rig_open(domain, false);
    assert_int_equal(put(1, "one", 0, &first), ERR_OK);
    clock_pass(NS_PER_S);
    assert_int_equal(put(2, "two", 0, NULL), ERR_OK);
    clock_pass(GRACE - 1);
    assert_int_equal(read_of(SELECT_EXACT, first.stored, NULL), ERR_OK);
    atomic_store(&rig.clock.leap_ns, NS_PER_S);
    return first.stored;
}

/* Acknowledged, or refused; and it is so. */
static void has_its_effect(err why, struct page_name name, bool kept)
{
    bool there = read_of(SELECT_EXACT, name, NULL) == ERR_OK;
    assert_int_equal(there, why == ERR_OK && kept);
    rig_close();
}

static void an_acknowledged_stash_has_its_effect(void **state)
{
    (void)state;
    struct page_name name = nearly_due("stash.example");
    has_its_effect(order(ORDER_STASH, name, NULL), name, true);
}

static void an_acknowledged_hold_has_its_effect(void **state)
{
    (void)state;
    struct page_name name = nearly_due("hold.example");
    has_its_effect(order(ORDER_HOLD, name, NULL), name, true);
}

/* The render that is there stands for what is put, and is stashed. */
static void an_acknowledged_put_has_its_effect(void **state)
{
    (void)state;
    struct page_name name = nearly_due("put.example");
    struct page_put again;
    assert_int_equal(put(1, "one", HOUR, &again), ERR_OK);
    has_its_effect(ERR_OK, again.stored, true);
    (void)name;
}

/* ---- side by side ---- */

enum { READERS = 16 };

static atomic_uint extended;

static void extension_over(struct store_call *c)
{
    (void)c; /* all are looked at in the end */
    atomic_fetch_add(&extended, 1);
}

static bool all_are_over(void *ctx)
{
    (void)ctx; /* none */
    return atomic_load(&extended) == READERS;
}

static void extend_at_once(struct page_name name, struct page_order *orders)
{
    atomic_store(&extended, 0);
    for (unsigned i = 0; i < READERS; i++) {
        orders[i] = (struct page_order){ .call = real_call(),
                                         .bucket = rig.bucket,
                                         .domain = rig.domain,
                                         .title = STR("T"),
                                         .kind = ORDER_EXTEND,
                                         .has_rev = true,
                                         .has_tid = true,
                                         .name = name };
        orders[i].call.done = extension_over;
    }
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(cassandra_pages_order(rig.pages, &orders[i]), STORE_LATER);
    real_until(all_are_over, NULL, "all extensions are over");
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(orders[i].call.why, ERR_OK);
}

/* One that is superseded, and lives a little shorter than its readers are promised. */
static struct page_name short_lived(const char *domain)
{
    struct page_put first;
    rig_open(domain, false);
    assert_int_equal(put(1, "one", 0, &first), ERR_OK);
    assert_int_equal(put(2, "two", 0, NULL), ERR_OK);
    assert_int_equal(order(ORDER_EXTEND, first.stored, NULL), ERR_OK);
    clock_pass(3 * HOUR / 8);
    return first.stored;
}

static void readers_of_one_instant_write_one_longer_life(void **state)
{
    (void)state;
    struct page_order orders[READERS];
    struct pages_stats stats;
    struct page_name name = short_lived("extend.example");
    const int64_t now_ns = atomic_load(&rig.clock.now_ns);
    extend_at_once(name, orders);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(orders[i].render.requested_until.ns, now_ns + HOUR + HOUR / 4);
    cassandra_pages_stats(rig.pages, &stats);
    assert_int_equal(stats.extended, 2); /* with the one before */
    rig_close();
}

/* What the first one wrote is not enough any more. */
static void who_is_promised_more_than_was_written_asks_once_more(void **state)
{
    (void)state;
    struct page_order orders[READERS];
    struct pages_stats stats;
    struct page_name name = short_lived("late.example");
    atomic_store(&rig.clock.leap_ns, 3 * HOUR / 8);
    extend_at_once(name, orders);
    const int64_t now_ns = atomic_load(&rig.clock.now_ns);
    assert_true(orders[0].render.requested_until.ns < now_ns + HOUR);
    for (unsigned i = 1; i < READERS; i++)
        assert_true(orders[i].render.requested_until.ns >= now_ns + HOUR);
    cassandra_pages_stats(rig.pages, &stats);
    assert_int_equal(stats.extended, 3);
    rig_close();
}

static int setup(void **state)
{
    if (real_setup(state) != 0)
        return 1;
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acknowledged_stash_has_its_effect),
        cmocka_unit_test(an_acknowledged_hold_has_its_effect),
        cmocka_unit_test(an_acknowledged_put_has_its_effect),
        cmocka_unit_test(of_too_many_traces_upkeep_leaves_the_newest),
        cmocka_unit_test(a_title_of_many_facts_is_served_purged_and_culled),
        cmocka_unit_test(readers_of_one_instant_write_one_longer_life),
        cmocka_unit_test(who_is_promised_more_than_was_written_asks_once_more),
    };
    return cmocka_run_group_tests(tests, setup, real_teardown);
}
