/* Goal: a rule with `keep: redis` has the entries, the sample and the figures that one of the store
 * has; what Redis does not take waits, costs no attempt, and is there once in the end. Method: all
 * of change on a stage (stage.h) beside a redis-server of the test's own; the same events told to
 * rules of both kinds. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "../event/append_wait.h"
#include "change/superseded.h"
#include "loop/sysclock.h"
#include "redis/redis.h"
#include "redis_server.h"
#include "unit/cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TID "00000000-0000-1000-8000-0000000000"
#define RULE(keep, more)                                                                           \
    "rules: { hook: { match: { stream: [palimpsest.render, palimpsest.dated] }, effect: "          \
    "timeline, keep: " keep more " } }"

enum { SEEN_BYTES = 16 << 10, REDIS_MS = 1000 };
static struct page_domain domains[] = { { .name = { "a", 1 }, .number = 3 },
                                        { .name = { "b", 1 }, .number = 9 } };

static struct redis_server server;
static struct sysclock *real;

struct beside {
    struct stage s;
    struct redis *redis;
    struct timeline_remote *remote;
};
static struct beside b;

static bool redis_is_there(struct stage *s)
{
    (void)s;
    return redis_is_up(b.redis);
}

static bool redis_is_gone(struct stage *s)
{
    (void)s;
    return !redis_is_up(b.redis);
}

static void redis_join(void)
{
    const struct redis_opts opts = { .loop = b.s.loop,
                                     .clock = sysclock_clock(real),
                                     .address = { .host = "127.0.0.1", .port = server.port },
                                     .seed = 3,
                                     .timeout_ms = REDIS_MS,
                                     .retry_min_ms = 5,
                                     .retry_max_ms = 20 };
    b.redis = redis_new(&opts);
    b.remote = timeline_remote_new(b.redis);
    b.s.change->opts.timelines = b.remote;
}

static void flushed(void *ctx, err why, const struct redis_reply *reply,
                    const struct err_note *note)
{
    (void)reply, (void)note;
    assert_int_equal(why, ERR_OK);
    *(bool *)ctx = true;
}

static bool flush_done;
static bool is_flushed(struct stage *s)
{
    (void)s;
    return flush_done;
}

static void open_it(const char *rules)
{
    stage_open(&b.s, rules);
    b.s.page.domains = domains;
    b.s.page.domains_count = COUNT_OF(domains);
    redis_join();
    stage_until(&b.s, redis_is_there);
    flush_done = false;
    const str args[] = { STR("FLUSHALL") };
    assert_int_equal(redis_command(b.redis, args, 1, flushed, &flush_done), ERR_OK);
    stage_until(&b.s, is_flushed);
}

static bool change_is_idle(struct stage *s)
{
    return change_idle(s->change);
}

static void close_it(void)
{
    change_drain(b.s.change);
    stage_until(&b.s, change_is_idle);
    redis_stop(b.redis);
    stage_close(&b.s);
    timeline_remote_free(&b.remote);
    redis_free(&b.redis);
}

/* rev of a title took the place of old. */
static void tell(const char *domain, const char *title, unsigned rev, unsigned old)
{
    char json[1024];
    struct event_taken taken;
    (void)snprintf(json, sizeof json,
                   "{\"page_title\":\"%s\",\"rev_id\":%u,\"tid\":\"" TID
                   "ff\",\"superseded\":{\"rev_id\":%u,\"tid\":\"" TID "%02u\"}}",
                   title, rev, old, old % 100); /* it fits */
    const struct event e = { .stream = STR("palimpsest.render"),
                             .domain = str_of(domain),
                             .bytes = str_of(json) };
    fake_clock_advance(&b.s.clock, NS_PER_MS);
    assert_int_equal(append_wait(b.s.events, &e, 1, &taken), ERR_OK);
}

/* ---- reading ---- */

static struct {
    bool done;
    err why;
} asked;

static void told(void *ctx, err why)
{
    (void)ctx;
    asked.done = true;
    asked.why = why;
}

static bool is_told(struct stage *s)
{
    (void)s;
    return asked.done;
}

static err page(struct change_timeline *t, struct arena *a)
{
    struct err_note note;
    err why = change_timeline(b.s.change, t, a, &note);
    if (why != ERR_OK || !t->remote)
        return why;
    asked.done = false;
    change_timeline_ask(b.s.change, t, a, &note, told, NULL);
    stage_until(&b.s, is_told);
    return asked.why;
}

/* All entries, in pages of three; "domain title kind rev, " each. */
static const char *entries(void)
{
    static char seen[SEEN_BYTES];
    struct arena a;
    str pivot = STR("");
    size_t n = 0;
    arena_init(&a, 4 << 20);
    seen[0] = '\0';
    do {
        struct change_timeline t = { .before = STORE_TIME_NEVER, .limit = 3, .pivot = pivot };
        assert_int_equal(page(&t, &a), ERR_OK);
        for (unsigned i = 0; i < t.count; i++)
            n += (size_t)snprintf(seen + n, sizeof seen - n, "%.*s %.*s %.*s %u, ",
                                  STR_ARG(t.entries[i].domain), STR_ARG(t.entries[i].title),
                                  STR_ARG(t.entries[i].kind), (unsigned)t.entries[i].rev);
        assert_true(n < sizeof seen);
        pivot = t.next;
    } while (pivot.n > 0);
    arena_fini(&a);
    return seen;
}

static struct change_rule_status status(void)
{
    struct arena a;
    struct change_status all;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(b.s.change, &a, &all), ERR_OK);
    assert_int_equal(all.rules_count, 1);
    struct change_rule_status own = all.rules[0];
    arena_fini(&a);
    return own;
}

/* ---- what both do ---- */

static void what_is_kept_is_the_same(void **state)
{
    (void)state;
    static char first[SEEN_BYTES];
    struct change_rule_status was = { .matched = 0 };
    const char *const rules[] = { RULE("store", ", burst: 5, rate_per_s: 0.1"),
                                  RULE("redis", ", burst: 5, rate_per_s: 0.1") };
    for (unsigned i = 0; i < COUNT_OF(rules); i++) {
        open_it(rules[i]);
        change_start(b.s.change);
        for (unsigned n = 1; n <= 300; n++) {
            tell("a", "M", n + 1, n);
            fake_clock_advance(&b.s.clock, 99 * NS_PER_MS);
            if (n % 60 == 0) {
                tell("b", n % 120 == 0 ? "M" : "N", n + 1, n);
                tell("b", n % 120 == 0 ? "M" : "N", n + 1, n); /* another bucket */
                tell("b", "R", n, n);
                tell("none", "M", n + 1, n);
            }
        }
        stage_calm(&b.s);
        struct change_rule_status is = status();
        assert_int_equal(stage_items(&b.s, "hook", -1), 0);
        if (i == 0) {
            (void)snprintf(first, sizeof first, "%s", entries());
            was = is;
            assert_true(was.sampled > 200 && was.collapsed > 0);
        } else {
            assert_string_equal(entries(), first);
            assert_int_equal(is.matched, was.matched);
            assert_int_equal(is.done, was.done);
            assert_int_equal(is.collapsed, was.collapsed);
            assert_int_equal(is.sampled, was.sampled);
            assert_int_equal(is.refused, was.refused);
        }
        close_it();
    }
}

static void entries_go_by_age(void **state)
{
    (void)state;
    const char *const rules[] = { RULE("store", ", ttl: 1h, burst: 2000"),
                                  RULE("redis", ", ttl: 1h, burst: 2000") };
    for (unsigned i = 0; i < COUNT_OF(rules); i++) {
        open_it(rules[i]);
        change_start(b.s.change);
        for (unsigned n = 1; n <= TIMELINE_EXPIRE_MAX + 10; n++)
            tell("a", "M", n + 1, n);
        stage_calm(&b.s);
        stage_later(&b.s, 1800 * 1000);
        tell("a", "M", 9001, 9000);
        stage_calm(&b.s);
        stage_later(&b.s, 1801 * 1000);
        for (unsigned turns = 0; status().expired < TIMELINE_EXPIRE_MAX + 10; turns++) {
            assert_true(turns < 100);
            stage_later(&b.s, CHANGE_EXPIRE_MORE_MS);
        }
        assert_string_equal(entries(), "a M revision 9000, ");
        assert_int_equal(status().expired, TIMELINE_EXPIRE_MAX + 10);
        close_it();
    }
}

/* ---- what Redis does not take ---- */

static void what_waits_costs_no_attempt(void **state)
{
    (void)state;
    struct arena a;
    struct err_note note;
    open_it(RULE("redis", ""));
    change_start(b.s.change);
    redis_server_end(&server);
    stage_until(&b.s, redis_is_gone);
    tell("a", "M", 2, 1);
    tell("b", "M", 2, 1);
    stage_calm(&b.s);
    for (unsigned i = 0; i < 20; i++)
        stage_later(&b.s, CHANGE_PAUSE_MS);
    assert_int_equal(stage_items(&b.s, "hook", CHANGE_READY), 2);
    struct change_rule_status r = status();
    assert_int_equal(r.failed + r.died + r.done, 0);
    assert_string_equal(r.last_error, "Redis: it is away");
    arena_init(&a, 1 << 20);
    struct change_listing l = { .rule = STR("hook"), .state = -1, .limit = 9 };
    assert_int_equal(change_list(b.s.change, &l, &a, &note), ERR_OK);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.items[0].attempts, 0);
    assert_string_equal(l.items[0].why.p,
                        "its entry was not taken, and it is tried again: Redis: it is away");
    struct change_timeline t = { .before = STORE_TIME_NEVER, .limit = 3 };
    assert_int_equal(page(&t, &a), ERR_UNAVAILABLE);
    arena_fini(&a);
    redis_server_start(&server, server.port, NULL);
    stage_until(&b.s, redis_is_there);
    stage_later(&b.s, CHANGE_PAUSE_MS);
    assert_int_equal(stage_items(&b.s, "hook", -1), 0);
    assert_string_equal(entries(), "a M revision 1, b M revision 1, ");
    close_it();
}

/* The end of an item cannot be written, and the server is killed: Redis has the entry by then. */
static void what_is_noted_twice_is_one_entry(void **state)
{
    (void)state;
    open_it(RULE("redis", ""));
    change_start(b.s.change);
    stage_calm(&b.s);             /* the look of the start is over */
    stage_hold(&b.s, STAGE_LOOK); /* the item is made, and not begun */
    tell("a", "M", 2, 1);
    stage_until_held(&b.s);
    engine_mem_refuse(b.s.engine, ERR_FULL);
    stage_let_go(&b.s);
    for (unsigned turns = 0; strlen(entries()) == 0; turns++)
        assert_true(turns < 10000);
    change_drain(b.s.change);
    stage_until(&b.s, change_is_idle); /* the item stays */
    redis_stop(b.redis);
    engine_mem_refuse(b.s.engine, ERR_OK);
    assert_int_equal(stage_items(&b.s, "hook", -1), 1);
    stage_reopen(&b.s, RULE("redis", ""));
    timeline_remote_free(&b.remote);
    redis_free(&b.redis);
    redis_join();
    stage_until(&b.s, redis_is_there);
    change_start(b.s.change);
    stage_calm(&b.s);
    assert_int_equal(stage_items(&b.s, "hook", -1), 0);
    assert_string_equal(entries(), "a M revision 1, ");
    assert_int_equal(status().collapsed, 1);
    close_it();
}

/* The server ends, and waits no longer than for the client's time-out. */
static void a_redis_that_hangs_holds_no_end_up(void **state)
{
    (void)state;
    open_it(RULE("redis", ""));
    change_start(b.s.change);
    redis_server_signal(&server, SIGSTOP);
    tell("a", "M", 2, 1);
    stage_until(&b.s, redis_is_gone);
    change_drain(b.s.change);
    stage_until(&b.s, change_is_idle);
    assert_int_equal(stage_items(&b.s, "hook", -1), 1);
    redis_server_signal(&server, SIGCONT);
    close_it();
}

static void a_server_without_redis_says_so(void **state)
{
    (void)state;
    struct arena a;
    open_it(RULE("redis", ""));
    b.s.change->opts.timelines = NULL;
    change_start(b.s.change);
    tell("a", "M", 2, 1);
    stage_calm(&b.s);
    assert_int_equal(stage_items(&b.s, "hook", CHANGE_READY), 1);
    assert_string_equal(status().last_error, "Redis: this server has none: redis.url is not set");
    arena_init(&a, 1 << 20);
    struct change_timeline t = { .before = STORE_TIME_NEVER, .limit = 3 };
    assert_int_equal(page(&t, &a), ERR_BAD);
    arena_fini(&a);
    close_it();
}

/* An item of before is noted where its rule keeps the timeline by then. */
static void what_waits_goes_where_the_rule_keeps_it(void **state)
{
    (void)state;
    open_it(RULE("redis", ""));
    b.s.change->opts.timelines = NULL;
    change_start(b.s.change);
    tell("a", "M", 2, 1);
    stage_calm(&b.s);
    stage_take(&b.s, RULE("store", ""));
    stage_later(&b.s, CHANGE_PAUSE_MS);
    assert_int_equal(stage_items(&b.s, "hook", -1), 0);
    assert_string_equal(entries(), "a M revision 1, ");
    close_it();
}

static int set_up(void **state)
{
    (void)state;
    redis_server_start(&server, 0, NULL);
    real = sysclock_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_server_end(&server);
    sysclock_free(&real);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_the_same),
        cmocka_unit_test(entries_go_by_age),
        cmocka_unit_test(what_waits_costs_no_attempt),
        cmocka_unit_test(what_is_noted_twice_is_one_entry),
        cmocka_unit_test(a_redis_that_hangs_holds_no_end_up),
        cmocka_unit_test(a_server_without_redis_says_so),
        cmocka_unit_test(what_waits_goes_where_the_rule_keeps_it),
    };
    redis_server_need();
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
