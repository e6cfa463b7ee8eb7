/* Goal: upkeep finds every title that has something due, on any number of servers, and whichever of
 * them die.
 * Method: titles are put on a clock that the test moves; sweeps are driven by ticks until they have
 * done what they should. What is left is asked of the tables themselves. A real Cassandra
 * (real.h). */
#include "real.h"

#include "../bucket/fixture.h"
#include "cassandra/pages.h"
#include "cassandra/sweep_impl.h"
#include "loop/loop.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS_MAX = 2, RANGES = 8, TITLES = 40, LOOKS_MAX = 1000 };
#define BEHIND (10 * NS_PER_S)
#define LEASE (60 * NS_PER_S)

struct server {
    struct cassandra_pages *pages;
    struct cassandra_sweep *sweep;
    bool dead; /* it is not ticked any more */
};
static struct rig {
    struct fake_clock clock;
    struct server servers[SERVERS_MAX];
    unsigned servers_count;
    const char *domain, *dc;
    struct page_bucket_opts bucket;
    struct arena arena;
    double sample;
    unsigned titles_per_s;
} rig;

static void server_open(struct server *s, uint32_t srv)
{
    struct err_note note = { .text = "" };
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = &rig.clock.clock,
                                            .srv = srv,
                                            .write_timeout_ns = BEHIND,
                                            .pool = loop_pool(real_loop()),
                                            .buckets = &rig.bucket,
                                            .buckets_count = 1,
                                            .due_sample = rig.sample,
                                            .dc = rig.dc };
    s->pages = cassandra_pages_new(&o, &note);
    assert_non_null(s->pages);
    const struct cassandra_sweep_opts w = { .pages = s->pages,
                                            .titles = the.titles,
                                            .clock = &rig.clock.clock,
                                            .home = loop_home(real_loop()),
                                            .srv = srv,
                                            .seed = srv,
                                            .dc = rig.dc,
                                            .ranges = RANGES,
                                            .period_ns = 160 * NS_PER_S,
                                            .lease_ns = LEASE,
                                            .look_ns = 2 * NS_PER_S,
                                            .titles_per_s = rig.titles_per_s };
    s->sweep = cassandra_sweep_new(&w);
    s->dead = false;
}

/* dc: of this test's own leases and due hours. */
static void rig_open(const char *name, enum page_policy_kind kind, unsigned servers, double sample)
{
    unsigned titles_per_s = rig.titles_per_s;
    rig = (struct rig){ .servers_count = servers,
                        .domain = name,
                        .dc = name,
                        .sample = sample,
                        .titles_per_s = titles_per_s };
    fake_clock_init(&rig.clock, T0);
    rig.bucket = (struct page_bucket_opts){ .name = name, .policy = fix_policy(kind) };
    arena_init(&rig.arena, 16 << 20);
    for (unsigned i = 0; i < servers; i++)
        server_open(&rig.servers[i], 21 + i);
}

static bool is_quiet(const struct cassandra_sweep *s)
{
    bool quiet = true;
    for (unsigned i = 0; i < SWEEP_KINDS; i++)
        quiet = quiet && !s->jobs[i].asking && s->jobs[i].under_way == 0;
    return quiet;
}

/* The clock goes on while no server waits for the cluster. */
static void tick_run(void *ctx)
{
    (void)ctx;
    bool quiet = true;
    for (unsigned i = 0; i < rig.servers_count; i++)
        quiet = quiet && is_quiet(rig.servers[i].sweep);
    if (!quiet)
        return;
    fake_clock_advance(&rig.clock, NS_PER_S);
    for (unsigned i = 0; i < rig.servers_count; i++)
        if (!rig.servers[i].dead)
            cassandra_sweep_tick(rig.servers[i].sweep);
}

static struct cassandra_sweep_figures figures(unsigned i)
{
    struct cassandra_sweep_figures f;
    cassandra_sweep_figures(rig.servers[i].sweep, &f);
    return f;
}

static bool (*looked_for)(void);
static bool tick_and_look(void *ctx)
{
    real_on_loop(tick_run, ctx);
    return looked_for();
}

static void tick_until(bool (*look)(void), const char *what)
{
    looked_for = look;
    real_until(tick_and_look, NULL, what);
}

static void close_run(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < rig.servers_count; i++)
        cassandra_sweep_close(rig.servers[i].sweep);
}

static bool closed;
static void closed_run(void *ctx)
{
    (void)ctx;
    closed = true;
    for (unsigned i = 0; i < rig.servers_count; i++)
        closed = closed && cassandra_sweep_is_closed(rig.servers[i].sweep);
}

static bool all_closed(void *ctx)
{
    (void)ctx;
    real_on_loop(closed_run, NULL);
    return closed;
}

static void rig_close(void)
{
    real_on_loop(close_run, NULL);
    real_until(all_closed, NULL, "sweeps are closed");
    for (unsigned i = 0; i < rig.servers_count; i++) {
        cassandra_sweep_free(&rig.servers[i].sweep);
        cassandra_pages_free(&rig.servers[i].pages);
    }
    arena_fini(&rig.arena);
}

static void put(unsigned title, uint64_t rev)
{
    static unsigned texts;
    struct cassandra_pages *p = rig.servers[0].pages;
    char name[32], html[32];
    (void)snprintf(name, sizeof name, "Title_%u", title);
    (void)snprintf(html, sizeof html, "text %u", texts++);
    struct page_put q = { .call = real_call(),
                          .bucket = cassandra_pages_bucket(p, str_of(rig.bucket.name)),
                          .title = str_of(name),
                          .rev = rev,
                          .random = texts,
                          .contents_count = 1,
                          .arena = &rig.arena };
    assert_int_equal(cassandra_pages_domain(p, str_of(rig.domain), &q.domain), ERR_OK);
    q.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(html) };
    if (cassandra_pages_put(p, &q) == STORE_LATER)
        real_wait("a put");
    assert_int_equal(q.call.why, ERR_OK);
    arena_reset(&rig.arena);
}

static unsigned rows_of(const char *table, const char *columns, const char *where)
{
    char text[400];
    (void)snprintf(text, sizeof text, "SELECT %s FROM %s.%s WHERE %s = '%s' ALLOW FILTERING",
                   columns, the.keyspace, table, where, rig.domain);
    return real_rows(text);
}

static uint64_t ranges_done(void)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < rig.servers_count; i++)
        n += figures(i).ranges;
    return n;
}

static bool a_lap_is_done(void)
{
    return ranges_done() >= RANGES;
}

static bool bodies_are_gone(void)
{
    return rows_of("body", "rev", "domain") == 0;
}

static bool titles_are_gone(void)
{
    return rows_of("titles", "title", "domain") == 0;
}

/* ---- tests ---- */

static void a_sweep_by_two_servers_finds_every_title(void **state)
{
    (void)state;
    rig_open("swept", POLICY_TTL, 2, 0);
    for (unsigned i = 0; i < TITLES; i++)
        put(i, 1);
    assert_int_equal(rows_of("body", "rev", "domain"), TITLES);
    assert_int_equal(rows_of("due", "title", "domain"), 0);
    fake_clock_advance(&rig.clock, HOUR);
    tick_until(a_lap_is_done, "a lap");
    assert_true(bodies_are_gone());
    assert_int_equal(rows_of("titles", "title", "domain"), TITLES);
    struct cassandra_sweep_figures a = figures(0), b = figures(1);
    assert_int_equal(a.ranges + b.ranges, RANGES);
    assert_true(a.ranges > 0 && b.ranges > 0);
    assert_int_equal(a.bytes_ranges + b.bytes_ranges, TITLES);
    assert_true(a.titles + b.titles >= TITLES);
    assert_int_equal(a.failed + b.failed + a.leases_lost + b.leases_lost, 0);
    rig_close();
}

static void wholly_forgotten_titles_vanish(void **state)
{
    (void)state;
    rig_open("vanished", POLICY_TTL, 2, 0);
    for (unsigned i = 0; i < TITLES; i++)
        put(i, 1);
    fake_clock_advance(&rig.clock, 250 * HOUR);
    put(TITLES, 1);
    tick_until(a_lap_is_done, "a lap");
    assert_int_equal(rows_of("titles", "title", "domain"), TITLES + 1);
    fake_clock_advance(&rig.clock, 250 * HOUR);
    tick_until(titles_are_gone, "laps that forget the titles, and then their rows");
    assert_int_equal(figures(0).unlisted + figures(1).unlisted, TITLES + 1);
    rig_close();
}

/* In the middle of a range: it goes on by ticks alone, since it has no credit left. */
static bool in_a_range;
static void in_a_range_run(void *ctx) /* the loop's thread: the job is its own */
{
    const struct job *j = &rig.servers[0].sweep->jobs[SWEEP_RING];
    (void)ctx;
    in_a_range = j->state == JOB_CULLS && j->at < j->count && j->under_way == 0;
}

static bool the_first_is_in_a_range(void)
{
    real_on_loop(in_a_range_run, NULL);
    return in_a_range;
}

static bool the_first_has_lost_its_lease(void)
{
    return figures(0).leases_lost > 0;
}

static void what_a_dead_server_held_is_taken_over(void **state)
{
    (void)state;
    rig.titles_per_s = 2;
    rig_open("held", POLICY_TTL, 2, 0);
    rig.titles_per_s = 0;
    for (unsigned i = 0; i < TITLES; i++)
        put(i, 1);
    fake_clock_advance(&rig.clock, HOUR);
    rig.servers[1].dead = true;
    tick_until(the_first_is_in_a_range, "the first server works on a range");
    uint64_t before = figures(0).ranges;
    rig.servers[0].dead = true;
    rig.servers[1].dead = false;
    tick_until(a_lap_is_done, "a lap by the other one");
    assert_true(bodies_are_gone());
    assert_int_equal(figures(0).ranges, before);
    rig.servers[0].dead = false; /* it was not dead: it did not get to anything */
    tick_until(the_first_has_lost_its_lease, "the first server learns that it holds nothing");
    assert_int_equal(figures(0).failed + figures(1).failed + figures(1).leases_lost, 0);
    rig_close();
}

static bool hours_are_done(void)
{
    uint64_t hours = 0;
    for (unsigned i = 0; i < rig.servers_count; i++)
        hours += figures(i).hours;
    return hours >= 16 * 24 && a_lap_is_done();
}

/* Each title is culled twice: once as it is filed, and once by the sweep. */
static void due_hours_are_worked_off_by_two_servers(void **state)
{
    (void)state;
    rig_open("filed", POLICY_TTL, 2, 1);
    for (unsigned i = 0; i < TITLES; i++)
        put(i, 1);
    static unsigned filed;
    for (unsigned i = 0; i < LOOKS_MAX && filed < TITLES; i++)
        filed = rows_of("due", "title", "domain"); /* nobody waited for them */
    assert_int_equal(filed, TITLES);
    fake_clock_advance(&rig.clock, 2 * HOUR);
    tick_until(hours_are_done, "the hours, and a lap");
    assert_true(bodies_are_gone());
    assert_int_equal(figures(0).titles + figures(1).titles, 2 * TITLES);
    rig_close();
}

static void what_is_due_is_filed_once(void **state)
{
    (void)state;
    rig_open("once", POLICY_APP_TTL, 1, 1);
    put(1, 1);
    put(2, 1);
    uint64_t before = figures(0).filed;
    for (uint64_t rev = 2; rev < 12; rev++) {
        fake_clock_advance(&rig.clock, NS_PER_S);
        put(1, rev);
    }
    static unsigned rows;
    for (unsigned i = 0; i < LOOKS_MAX && rows < 1; i++)
        rows = rows_of("due", "title", "domain");
    assert_int_equal(rows, 1);
    assert_true(figures(0).filed - before <= 1);
    rig_close();
}

static bool tells_on(void *ctx, str title, const struct page_render *r)
{
    unsigned *told = ctx;
    (void)title;
    (void)r;
    ++*told;
    return true;
}

/* As a put leaves it that failed behind its first write. */
static void a_row_of_a_title_that_is_none_vanishes_once_it_is_listed(void **state)
{
    (void)state;
    struct err_note note;
    rig_open("stray", POLICY_APP_TTL, 1, 1);
    struct lists_put row = {
        .call = real_call(),
        .key = { .bucket = STR("stray"), .domain = STR("stray"), .title = STR("Nothing") },
        .there = true,
        .at = clock_store(&rig.clock.clock),
        .note = &note
    };
    if (lists_put(the.titles, &row) == STORE_LATER)
        real_wait("a row");
    assert_int_equal(row.call.why, ERR_OK);
    assert_int_equal(rows_of("titles", "title", "domain"), 1);
    unsigned told = 0;
    struct cassandra_pages *p = rig.servers[0].pages;
    struct page_list l = { .call = real_call(),
                           .bucket = cassandra_pages_bucket(p, STR("stray")),
                           .what = LIST_TITLES,
                           .each = { .render = tells_on, .ctx = &told },
                           .arena = &rig.arena };
    assert_int_equal(cassandra_pages_domain(p, STR("stray"), &l.domain), ERR_OK);
    if (cassandra_pages_list(p, &l) == STORE_LATER)
        real_wait("a listing");
    assert_int_equal(l.call.why, ERR_OK);
    assert_int_equal(told, 0);
    static unsigned filed;
    for (unsigned i = 0; i < LOOKS_MAX && filed < 1; i++)
        filed = rows_of("due", "title", "domain");
    assert_int_equal(filed, 1);
    fake_clock_advance(&rig.clock, 2 * HOUR);
    tick_until(titles_are_gone, "the row goes");
    assert_int_equal(figures(0).unlisted, 1);
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
        cmocka_unit_test(a_sweep_by_two_servers_finds_every_title),
        cmocka_unit_test(wholly_forgotten_titles_vanish),
        cmocka_unit_test(what_a_dead_server_held_is_taken_over),
        cmocka_unit_test(due_hours_are_worked_off_by_two_servers),
        cmocka_unit_test(what_is_due_is_filed_once),
        cmocka_unit_test(a_row_of_a_title_that_is_none_vanishes_once_it_is_listed),
    };
    return cmocka_run_group_tests(tests, setup, real_teardown);
}
