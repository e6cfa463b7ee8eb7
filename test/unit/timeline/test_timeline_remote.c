/* Goal: a timeline in Redis is the timeline of the store: the same entries, told in any order and
 * as often as one likes, are listed and expire alike. A Redis that dies, hangs or holds what is not
 * ours ends each call once, with an error or without what is not ours. Method: one list of steps on
 * a real engine and on a real redis-server; then what only Redis can do. */
#include "remote_stage.h"

#include "../cmocka_all.h"
#include "../scratch.h"
#include "engine/store.h"
#include "timeline/remote_rows.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SEEN_MAX = 64 << 10, DAY_S = 86400, TIES = TIMELINE_REMOTE_BATCH + 40 };

static const struct timeline_named domains[] = { { 1, { "one.test", 8 } },
                                                 { 2, { "two.test", 8 } },
                                                 { 9, { "nine.test", 9 } } };

static struct remote_stage stage;

/* One of the two. */
struct kept {
    bool remote;
    char dir[FOLDER_PATH_BYTES];
    struct fake_clock clock;
    struct engine *engine;
    char seen[SEEN_MAX]; /* "domain.title.kind.rev.second ", one behind the other */
    size_t seen_n;
};
static struct kept kept;

static void kept_open(bool remote)
{
    kept.remote = remote;
    if (remote) {
        assert_int_equal(remote_stage_command(&stage, "FLUSHALL"), ERR_OK);
        return;
    }
    folder_make(kept.dir);
    fake_clock_init(&kept.clock, 1000 * NS_PER_S);
    kept.engine = scratch_engine(kept.dir, &kept.clock.clock);
}

static void kept_close(void)
{
    if (kept.remote)
        return;
    engine_close(&kept.engine);
    folder_remove(kept.dir);
}

static str domain_name(uint32_t number)
{
    for (unsigned i = 0; i < COUNT_OF(domains); i++)
        if (domains[i].number == number)
            return domains[i].name;
    fail();
    return STR("");
}

struct job {
    struct timeline_where where;
    struct timeline_entry entry;
    struct timeline_expiry expiry;
    bool had;
};

/* As the router does it. */
static err note_decide(struct engine_txn *t, void *ctx)
{
    struct job *j = ctx;
    err why = timeline_has(engine_txn_view(t), &j->where, &j->entry, &j->had);
    return why == ERR_OK && !j->had ? timeline_add(t, &j->where, &j->entry) : why;
}

static struct timeline_remote_add adding_of(const struct job *j)
{
    return (struct timeline_remote_add){ .domain = domain_name(j->where.domain),
                                         .where = j->where,
                                         .entry = j->entry,
                                         .ttl_ns = 30 * DAY_S * NS_PER_S };
}

static err expire_decide(struct engine_txn *t, void *ctx)
{
    return timeline_expire(t, ctx);
}

/* Was it there before? */
static bool add(enum timeline_kind kind, uint32_t domain, const char *title, uint64_t rev,
                int64_t at_ms)
{
    struct job j = { .where = { .kind = kind, .domain = domain, .title = str_of(title) },
                     .entry = { .at = { .ns = at_ms * NS_PER_MS }, .rev = rev } };
    if (kind == TIMELINE_RENDER)
        j.entry.tid = (struct tid){ .ticks = 70 + rev, .low = 1 };
    if (!kept.remote) {
        assert_int_equal(engine_update_wait(kept.engine, note_decide, &j), ERR_OK);
        return j.had;
    }
    struct timeline_remote_add a = adding_of(&j);
    assert_int_equal(remote_stage_add(&stage, &a), ERR_OK);
    return a.had;
}

static bool seen_take(void *ctx, const struct timeline_where *w, const struct timeline_entry *e)
{
    (void)ctx;
    assert_int_equal(w->rev, e->rev);
    assert_int_equal(e->tid.ticks, w->kind == TIMELINE_RENDER ? 70 + e->rev : 0);
    int n = snprintf(kept.seen + kept.seen_n, SEEN_MAX - kept.seen_n, "%u.%.*s.%c.%u.%u ",
                     w->domain, STR_ARG(w->title), timeline_kind_name(w->kind)[2], (unsigned)e->rev,
                     (unsigned)(e->at.ns / NS_PER_MS));
    kept.seen_n += (size_t)n;
    assert_true(kept.seen_n < SEEN_MAX);
    return true;
}

static err list_page(struct timeline_listing *l)
{
    struct timeline_remote_list r = { .listing = l,
                                      .domains = domains,
                                      .domains_count = COUNT_OF(domains) };
    if (kept.remote)
        return remote_stage_list(&stage, &r);
    struct engine_view *v = engine_view_begin(kept.engine);
    err why = timeline_list(v, l);
    engine_view_end(&v);
    return why;
}

/* All pages, one behind the other. */
static const char *list(struct timeline_listing l, unsigned limit)
{
    char pivot[TIMELINE_KEY_BYTES_MAX];
    kept.seen_n = 0;
    kept.seen[0] = '\0';
    l.limit = limit;
    l.take = seen_take;
    for (unsigned pages = 0;; pages++) {
        assert_int_equal(list_page(&l), ERR_OK);
        if (l.next_n == 0)
            return kept.seen;
        memcpy(pivot, l.next, l.next_n);
        l.pivot = (str){ .p = pivot, .n = l.next_n };
        assert_true(pages < 2 * TIES);
    }
}

static struct timeline_listing all_before(int64_t ms)
{
    return (struct timeline_listing){ .kind = -1, .before = { .ns = ms * NS_PER_MS } };
}

static struct timeline_listing title_before(const char *title, int kind, int64_t ms)
{
    return (struct timeline_listing){ .has_domain = true,
                                      .domain = 2,
                                      .title = str_of(title),
                                      .kind = kind,
                                      .before = { .ns = ms * NS_PER_MS } };
}

static unsigned expire(int64_t before_ms)
{
    struct job j = { .expiry = { .before = { .ns = before_ms * NS_PER_MS } } };
    struct timeline_remote_expiry x = { .before = { .ns = before_ms * NS_PER_MS },
                                        .domains = domains,
                                        .domains_count = COUNT_OF(domains) };
    unsigned count = 0, turns = 0;
    do {
        struct timeline_expiry *local = &j.expiry;
        if (kept.remote)
            assert_int_equal(remote_stage_expire(&stage, &x), ERR_OK);
        else
            assert_int_equal(engine_update_wait(kept.engine, expire_decide, local), ERR_OK);
        count += kept.remote ? x.count : local->count;
        assert_true(++turns < 100);
    } while (kept.remote ? x.more : j.expiry.more);
    return count;
}

/* ---- what both do ---- */

static void fill(void)
{
    add(TIMELINE_REVISION, 2, "B", 1, 1000);
    add(TIMELINE_REVISION, 2, "A", 1, 2000);
    add(TIMELINE_REVISION, 2, "A", 2, 3000);
    add(TIMELINE_RENDER, 2, "A", 3, 2500);
    add(TIMELINE_RENDER, 2, "A", 2, 500);
    add(TIMELINE_REVISION, 9, "A", 7, 100);
    add(TIMELINE_REVISION, 9, "A", 8, 9900);
    add(TIMELINE_REVISION, 1, "A", 4, 5000);
}

static void pages_are_the_same(bool remote)
{
    kept_open(remote);
    fill();
    for (unsigned limit = 1; limit < 10; limit++) {
        assert_string_equal(list(all_before(3000), limit),
                            "2.A.n.2.500 2.B.v.1.1000 2.A.v.1.2000 2.A.n.3.2500 9.A.v.7.100 ");
        struct timeline_listing one = all_before(100000);
        one.has_domain = true;
        one.domain = 9;
        assert_string_equal(list(one, limit), "9.A.v.7.100 9.A.v.8.9900 ");
        one.domain = 2;
        one.kind = TIMELINE_RENDER;
        assert_string_equal(list(one, limit), "2.A.n.2.500 2.A.n.3.2500 ");
        assert_string_equal(list(title_before("A", -1, 100000), limit),
                            "2.A.v.2.3000 2.A.v.1.2000 2.A.n.3.2500 2.A.n.2.500 ");
        assert_string_equal(list(title_before("A", TIMELINE_REVISION, 3000), limit),
                            "2.A.v.1.2000 ");
        assert_string_equal(list(title_before("A", TIMELINE_RENDER, 2500), limit), "2.A.n.2.500 ");
        assert_string_equal(list(title_before("C", -1, 100000), limit), "");
    }
    struct timeline_listing never = all_before(0);
    never.before = STORE_TIME_NEVER;
    assert_int_equal(strlen(list(never, 100)), strlen(list(all_before(100000), 100)));
    kept_close();
}

static void wrong_places_are_refused(bool remote)
{
    kept_open(remote);
    fill();
    struct timeline_listing by_time = all_before(100000), by_title = title_before("A", -1, 100000);
    by_time.limit = by_title.limit = 1;
    by_time.take = by_title.take = seen_take;
    assert_int_equal(list_page(&by_time), ERR_OK);
    assert_int_equal(list_page(&by_title), ERR_OK);
    char time_pivot[TIMELINE_KEY_BYTES_MAX], title_pivot[TIMELINE_KEY_BYTES_MAX];
    memcpy(time_pivot, by_time.next, by_time.next_n);
    memcpy(title_pivot, by_title.next, by_title.next_n);
    struct timeline_listing l = by_time;
    l.pivot = (str){ title_pivot, by_title.next_n };
    assert_int_equal(list_page(&l), ERR_BAD);
    l.pivot = (str){ time_pivot, by_time.next_n - 1 };
    assert_int_equal(list_page(&l), ERR_BAD);
    l = by_title;
    l.pivot = (str){ time_pivot, by_time.next_n };
    assert_int_equal(list_page(&l), ERR_BAD);
    l.pivot = (str){ title_pivot, by_title.next_n };
    l.title = STR("B");
    assert_int_equal(list_page(&l), ERR_BAD);
    kept_close();
}

static void the_same_told_again_is_one_entry(bool remote)
{
    kept_open(remote);
    assert_false(add(TIMELINE_REVISION, 2, "A", 1, 2000));
    assert_true(add(TIMELINE_REVISION, 2, "A", 1, 2000));
    assert_true(add(TIMELINE_REVISION, 2, "A", 1, 9000)); /* the first that told counts */
    assert_false(add(TIMELINE_RENDER, 2, "A", 1, 2000));
    assert_false(add(TIMELINE_REVISION, 1, "A", 1, 2000));
    assert_string_equal(list(all_before(100000), 9), "1.A.v.1.2000 2.A.v.1.2000 2.A.n.1.2000 ");
    assert_string_equal(list(title_before("A", -1, 100000), 9), "2.A.v.1.2000 2.A.n.1.2000 ");
    kept_close();
}

static void entries_of_one_instant_are_all_there(bool remote)
{
    kept_open(remote);
    for (unsigned i = 0; i < TIES; i++)
        add(TIMELINE_REVISION, 2, "A", i + 1, 2000);
    static char whole[SEEN_MAX];
    (void)snprintf(whole, sizeof whole, "%s", list(all_before(100000), TIMELINE_LIST_MAX));
    assert_int_equal(strncmp(whole, "2.A.v.1.2000 2.A.v.2.2000 ", 26), 0);
    const unsigned limits[] = { 7, TIMELINE_REMOTE_BATCH, TIMELINE_REMOTE_BATCH + 1 };
    for (unsigned i = 0; i < COUNT_OF(limits); i++)
        assert_string_equal(list(all_before(100000), limits[i]), whole);
    struct timeline_listing l = title_before("A", -1, 100000);
    (void)snprintf(whole, sizeof whole, "%s", list(l, TIMELINE_LIST_MAX));
    assert_int_equal(strncmp(whole, "2.A.v.296.2000 2.A.v.295.2000 ", 30), 0);
    for (unsigned i = 0; i < COUNT_OF(limits); i++)
        assert_string_equal(list(l, limits[i]), whole);
    kept_close();
}

static void what_is_old_goes_with_its_title(bool remote)
{
    kept_open(remote);
    fill();
    for (unsigned i = 0; i < TIMELINE_EXPIRE_MAX + 20; i++)
        add(TIMELINE_REVISION, 1, "Z", i + 1, 10 + i);
    assert_int_equal(expire(2500), TIMELINE_EXPIRE_MAX + 24);
    assert_string_equal(list(all_before(100000), 100),
                        "1.A.v.4.5000 2.A.n.3.2500 2.A.v.2.3000 9.A.v.8.9900 ");
    assert_string_equal(list(title_before("A", -1, 100000), 9), "2.A.v.2.3000 2.A.n.3.2500 ");
    assert_string_equal(list(title_before("B", -1, 100000), 9), "");
    assert_int_equal(expire(2500), 0);
    assert_int_equal(expire(100000), 4);
    assert_string_equal(list(all_before(100000), 100), "");
    kept_close();
}

static void titles_may_have_any_bytes(bool remote)
{
    char longest[TIMELINE_TITLE_BYTES_MAX + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const titles[] = { "a b", "{2}:t", "\x01\xff", "A\r\n*1", longest };
    kept_open(remote);
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        add(TIMELINE_REVISION, 2, titles[i], i + 1, 1000 + i);
        add(TIMELINE_RENDER, 2, titles[i], i + 1, 2000 + i);
    }
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        char expected[2 * TIMELINE_TITLE_BYTES_MAX + 64];
        (void)snprintf(expected, sizeof expected, "2.%s.v.%u.%u 2.%s.n.%u.%u ", titles[i], i + 1,
                       1000 + i, titles[i], i + 1, 2000 + i); /* it fits */
        assert_string_equal(list(title_before(titles[i], -1, 100000), 1), expected);
    }
    assert_int_equal(expire(100000), 2 * COUNT_OF(titles));
    kept_close();
}

#define BOTH(name)                                                                                 \
    static void name##_in_the_store(void **state)                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        name(false);                                                                               \
    }                                                                                              \
    static void name##_in_redis(void **state)                                                      \
    {                                                                                              \
        (void)state;                                                                               \
        name(true);                                                                                \
    }
BOTH(pages_are_the_same)
BOTH(wrong_places_are_refused)
BOTH(the_same_told_again_is_one_entry)
BOTH(entries_of_one_instant_are_all_there)
BOTH(what_is_old_goes_with_its_title)
BOTH(titles_may_have_any_bytes)
#undef BOTH

/* ---- what is Redis's alone ---- */

static struct job job_of(uint64_t rev, int64_t at_ms)
{
    return (struct job){ .where = { .kind = TIMELINE_REVISION, .domain = 2, .title = STR("A") },
                         .entry = { .at = { .ns = at_ms * NS_PER_MS }, .rev = rev } };
}

/* In whatever order servers and buckets tell: both sets have the earliest instant. */
static void the_earliest_instant_stays(void **state)
{
    (void)state;
    kept_open(true);
    add(TIMELINE_REVISION, 2, "A", 1, 9000);
    assert_true(add(TIMELINE_REVISION, 2, "A", 1, 2000));
    assert_true(add(TIMELINE_REVISION, 2, "A", 1, 5000));
    assert_string_equal(list(all_before(100000), 9), "2.A.v.1.2000 ");
    assert_string_equal(list(title_before("A", -1, 100000), 9), "2.A.v.1.2000 ");
    kept_close();
}

static void each_set_has_an_end(void **state)
{
    (void)state;
    kept_open(true);
    struct job j = job_of(1, 2000);
    struct timeline_remote_add a = adding_of(&j);
    a.ttl_ns = 100 * NS_PER_S;
    assert_int_equal(remote_stage_add(&stage, &a), ERR_OK);
    const char *const asked[] = { "PTTL pal:t:{two.test}:t", "PTTL pal:t:{two.test}:v:A" };
    for (unsigned i = 0; i < COUNT_OF(asked); i++) {
        assert_int_equal(remote_stage_command(&stage, asked[i]), ERR_OK);
        assert_true(stage.integer > 0 && stage.integer <= 100000);
    }
    j = job_of(2, 3000); /* what its title has from before goes with it */
    a = adding_of(&j);
    a.old.ns = 2001 * NS_PER_MS;
    assert_int_equal(remote_stage_add(&stage, &a), ERR_OK);
    assert_string_equal(list(title_before("A", -1, 100000), 9), "2.A.v.2.3000 ");
    kept_close();
}

static void what_is_not_ours_is_passed_over(void **state)
{
    (void)state;
    kept_open(true);
    add(TIMELINE_REVISION, 2, "A", 1, 2000);
    assert_int_equal(remote_stage_command(&stage, "ZADD pal:t:{two.test}:t -inf low +inf high "
                                                  "1000000 junk 2000000 zz 1e300 far 1999999.5 x"),
                     ERR_OK);
    assert_int_equal(remote_stage_command(&stage, "ZADD pal:t:{two.test}:v:A 5 junk 9e15 more"),
                     ERR_OK);
    for (unsigned limit = 1; limit < 4; limit++) {
        struct timeline_listing l = all_before(100000);
        assert_string_equal(list(l, limit), "2.A.v.1.2000 ");
        l.before = STORE_TIME_NEVER;
        assert_string_equal(list(l, limit), "2.A.v.1.2000 ");
        assert_string_equal(list(title_before("A", -1, 100000), limit), "2.A.v.1.2000 ");
    }
    assert_int_equal(expire(100000), 5); /* so that it is in nobody's way */
    assert_string_equal(list(all_before(100000), 9), "");
    kept_close();
}

static void another_type_is_an_error_once(void **state)
{
    (void)state;
    kept_open(true);
    assert_int_equal(remote_stage_command(&stage, "SET pal:t:{two.test}:v:A x"), ERR_OK);
    struct job j = job_of(1, 2000);
    struct timeline_remote_add a = adding_of(&j);
    assert_int_equal(remote_stage_add(&stage, &a), ERR_BAD);
    assert_non_null(strstr(stage.text, "WRONGTYPE"));
    assert_int_equal(remote_stage_command(&stage, "SET pal:t:{two.test}:t x"), ERR_OK);
    struct timeline_listing l = all_before(100000);
    l.limit = 9;
    l.take = seen_take;
    assert_int_equal(list_page(&l), ERR_BAD);
    struct timeline_remote_expiry x = { .domains = domains, .domains_count = COUNT_OF(domains) };
    assert_int_equal(remote_stage_expire(&stage, &x), ERR_BAD);
    kept_close();
}

static void a_full_redis_refuses(void **state)
{
    (void)state;
    kept_open(true);
    assert_int_equal(remote_stage_command(&stage, "CONFIG SET maxmemory 1"), ERR_OK);
    struct job j = job_of(1, 2000);
    struct timeline_remote_add a = adding_of(&j);
    assert_int_equal(remote_stage_add(&stage, &a), ERR_FULL);
    assert_int_equal(remote_stage_command(&stage, "CONFIG SET maxmemory 0"), ERR_OK);
    assert_int_equal(remote_stage_add(&stage, &a), ERR_OK);
    assert_string_equal(list(all_before(100000), 9), "2.A.v.1.2000 ");
    kept_close();
}

/* It hangs: each call ends by the client's time-out; then it is down, and refuses at once. */
static void a_redis_that_hangs_ends_each_call(void **state)
{
    (void)state;
    kept_open(true);
    struct job j = job_of(1, 2000);
    struct timeline_listing l = all_before(100000);
    l.limit = 9;
    l.take = seen_take;
    struct timeline_remote_expiry x = { .domains = domains, .domains_count = COUNT_OF(domains) };
    for (unsigned i = 0; i < 3; i++) {
        struct timeline_remote_add a = adding_of(&j);
        redis_server_signal(&stage.server, SIGSTOP);
        assert_int_equal(i == 0   ? remote_stage_add(&stage, &a)
                         : i == 1 ? list_page(&l)
                                  : remote_stage_expire(&stage, &x),
                         ERR_TIMEOUT);
        assert_false(stage.up);
        assert_int_equal(timeline_remote_add(stage.remote, &a), ERR_UNAVAILABLE);
        assert_int_equal(list_page(&l), ERR_UNAVAILABLE);
        assert_int_equal(remote_stage_expire(&stage, &x), ERR_UNAVAILABLE);
        redis_server_signal(&stage.server, SIGCONT);
        remote_stage_until(&stage, true);
    }
    assert_false(add(TIMELINE_REVISION, 2, "B", 1, 2000));
    kept_close();
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    char longer[TIMELINE_TITLE_BYTES_MAX + 2];
    memset(longer, 'x', sizeof longer);
    const str titles[] = { STR(""), { longer, sizeof longer - 1 }, { "a\0b", 3 } };
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        struct job j = job_of(1, 2000);
        j.where.title = titles[i];
        struct timeline_remote_add a = adding_of(&j);
        assert_int_equal(timeline_remote_add(stage.remote, &a), ERR_BAD);
    }
    struct timeline_remote_list l = { .listing = &(struct timeline_listing){ .limit = 1 } };
    assert_int_equal(timeline_remote_list(stage.remote, &l), ERR_NOT_FOUND);
    struct timeline_remote_expiry x = { .domains_count = 0 };
    assert_int_equal(timeline_remote_expire(stage.remote, &x), ERR_NOT_FOUND);
}

static void scores_are_read_as_redis_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us; /* -1: it is none */
    } rows[] = {
        { "0", 0 },
        { "1767225600000000", 1767225600000000 },
        { "1.5", 1 },
        { "1.7672256e+15", 1767225600000000 },
        { "1e15", (int64_t)1e15 },
        { "9007199254740992", (int64_t)1 << 53 },
        { "5e-1", 0 },
        { "000012", 12 },
        { "0.0000001", 0 },
        { "1.25e+1", 12 },
        { "", -1 },
        { "-1", -1 },
        { "inf", -1 },
        { "nan", -1 },
        { "1e", -1 },
        { "1e99", -1 },
        { "1e300", -1 },
        { ".5", -1 },
        { "1x", -1 },
        { "9007199254740993", -1 },
        { "99999999999999999999", -1 },
        { "1e16 ", -1 },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        int64_t us = -1;
        bool fine = timeline_remote_score_parse(str_of(rows[i].text), &us);
        if (us != rows[i].us || fine != (us >= 0))
            fail_msg("%s: %lld", rows[i].text, (long long)us);
    }
}

static int set_up(void **state)
{
    (void)state;
    remote_stage_open(&stage);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remote_stage_close(&stage);
    return 0;
}

int main(void)
{
#define BOTH(name) cmocka_unit_test(name##_in_the_store), cmocka_unit_test(name##_in_redis)
    const struct CMUnitTest tests[] = {
        BOTH(pages_are_the_same),
        BOTH(wrong_places_are_refused),
        BOTH(the_same_told_again_is_one_entry),
        BOTH(entries_of_one_instant_are_all_there),
        BOTH(what_is_old_goes_with_its_title),
        BOTH(titles_may_have_any_bytes),
        cmocka_unit_test(the_earliest_instant_stays),
        cmocka_unit_test(each_set_has_an_end),
        cmocka_unit_test(what_is_not_ours_is_passed_over),
        cmocka_unit_test(another_type_is_an_error_once),
        cmocka_unit_test(a_full_redis_refuses),
        cmocka_unit_test(a_redis_that_hangs_ends_each_call),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(scores_are_read_as_redis_writes_them),
    };
#undef BOTH
    redis_server_need();
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
