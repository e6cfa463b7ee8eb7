/* Goal: put, find, orders and culls of pages do what CONTRACT 2 says, and none of the ten defects of the
 * published implementation. Method: a page bucket on an engine in memory that runs each decision twice, on a
 * clock the test moves. r0001 to r0010 are named by the defect they would show. */
#include "engine_mem.h"
#include "sync.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0 ((int64_t)1767225600 * NS_PER_S) /* 2026-01-01 */
#define GRACE (100 * NS_PER_S)
#define HOUR (3600 * NS_PER_S)

struct fixture {
    struct fake_clock clock;
    unsigned texts;
    struct engine *engine;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    unsigned told;
};

static void on_change(void *ctx, uint16_t bucket, uint32_t domain, str title)
{
    struct fixture *f = ctx;
    assert_true(bucket > 0 && domain > 0 && title.n > 0);
    f->told++;
}

static struct page_policy policy(enum page_policy_kind kind)
{
    return (struct page_policy){ .kind = kind, .grace_ttl_ns = GRACE, .historical_ttl_ns = HOUR,
                                 .stash_ttl_ns = 2 * HOUR, .ledger_ttl_ns = 240 * HOUR, .count = 2,
                                 .interval_ns = 60 * NS_PER_S, .ttl_ns = 50 * NS_PER_S };
}

static void pages_start(struct fixture *f, struct page_policy p)
{
    const struct page_bucket_opts opts = { .name = "page", .policy = p, .codec = PAGE_GZIP };
    struct err_note note = { "" };
    assert_int_equal(pages_new(f->engine, &f->clock.clock, 7, &opts, 1, &f->pages, &note), ERR_OK);
    f->bucket = pages_find(f->pages, STR("page"));
    assert_non_null(f->bucket);
    assert_int_equal(pages_domain(f->pages, STR("en.example.test"), &f->domain), ERR_OK);
    pages_on_change(f->pages, on_change, f);
}

static struct fixture *fixture_new(struct page_policy p)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fake_clock_init(&f->clock, T0);
    f->engine = engine_mem_new(&f->clock.clock);
    pages_start(f, p);
    return f;
}

static void damage_found(void *ctx, const char *what)
{
    (void)ctx; /* the message says all */
    print_error("check: %s\n", what);
}

static void fixture_free(struct fixture *f)
{
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_OK);
    pages_free(&f->pages);
    engine_close(&f->engine);
    free(f);
}

static void restart(struct fixture *f, struct page_policy p)
{
    pages_free(&f->pages);
    pages_start(f, p);
}

/* Puts text as html of "T". tid_s < 0: minted; else T0 + that many seconds. */
static err put_as(struct fixture *f, uint64_t rev, int64_t tid_s, const char *text, struct page_put *p)
{
    *p = (struct page_put){ .domain = f->domain, .title = STR("T"), .rev = rev, .has_tid = tid_s >= 0,
                            .contents_count = 1, .stash_ns = p->stash_ns };
    if (tid_s >= 0)
        p->tid = tid_at(T0 + tid_s * NS_PER_S, 1);
    p->contents[0] = (struct page_put_content){ .name = STR("html"), .headers = STR("content-type: text/html\n"),
                                                .raw = str_of(text) };
    return sync_put(f->bucket, p);
}

static struct page_name put(struct fixture *f, uint64_t rev, int64_t tid_s)
{
    struct page_put p = { 0 };
    char text[64];
    (void)snprintf(text, sizeof(text), "text %u of %llu", f->texts++, (unsigned long long)rev);
    assert_int_equal(put_as(f, rev, tid_s, text, &p), ERR_OK);
    assert_true(p.applied);
    return p.stored;
}

static err find(struct fixture *f, enum page_select select, struct page_name name, struct page_render *r,
                struct page_trace *trace)
{
    struct page_which w = { .domain = f->domain, .title = STR("T"), .select = select, .name = name };
    struct engine_view *v = engine_view_begin(f->engine);
    err e = page_find(f->bucket, v, &w, r, trace);
    engine_view_end(&v);
    return e;
}

static struct page_render latest(struct fixture *f)
{
    struct page_render r;
    assert_int_equal(find(f, SELECT_LATEST, (struct page_name){ 0 }, &r, NULL), ERR_OK);
    assert_int_equal(r.superseded_at.ns, INT64_MAX);
    return r;
}

static struct page_render exact(struct fixture *f, struct page_name name)
{
    struct page_render r;
    assert_int_equal(find(f, SELECT_EXACT, name, &r, NULL), ERR_OK);
    return r;
}

static err gone(struct fixture *f, struct page_name name, struct page_trace *t)
{
    struct page_render r;
    *t = (struct page_trace){ 0 };
    return find(f, SELECT_EXACT, name, &r, t);
}

static void assert_name(struct page_name a, struct page_name b)
{
    assert_int_equal(a.rev, b.rev);
    assert_int_equal(tid_cmp(a.tid, b.tid), 0);
}

static bool count_render(void *ctx, const struct page_render *r)
{
    assert_true(r->contents_count > 0);
    ++*(unsigned *)ctx;
    return true;
}

static unsigned history(struct fixture *f)
{
    unsigned n = 0;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_history(f->bucket, v, f->domain, STR("T"), NULL, count_render, &n), ERR_OK);
    engine_view_end(&v);
    return n;
}

static void upkeep(struct fixture *f)
{
    store_time next;
    assert_int_equal(sync_upkeep(f->pages, &next), ERR_OK);
    assert_true(next.ns > f->clock.now_ns);
}

static err order(struct fixture *f, enum page_order_kind kind, struct page_name name, struct page_order *o)
{
    store_time until = o->until;
    *o = (struct page_order){ .kind = kind, .domain = f->domain, .title = STR("T"), .until = until, .name = name,
                              .has_rev = name.rev != 0, .has_tid = name.tid.low != 0 };
    return sync_order(f->bucket, o);
}

/* ---- the ten defects of notes on RESTBase, 2.3 ---- */

static void r0001_late_render_never_deletes_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name newest = put(f, 5, 3);
    struct page_name late = put(f, 5, 1);
    assert_name(latest(f).name, newest);
    assert_name(exact(f, late).superseded_by, newest);
    fake_clock_advance(&f->clock, 2 * GRACE);
    upkeep(f);
    struct page_name next = put(f, 5, 4);
    assert_name(latest(f).name, next);
    assert_int_equal(exact(f, newest).state, PAGE_RECENT);
    fixture_free(f);
}

struct racer { struct fixture *f; uint64_t rev; err why; bool created; };

static void *race(void *ctx)
{
    struct racer *r = ctx;
    char text[32];
    struct page_put p = { .domain = r->f->domain, .title = STR("T"), .rev = r->rev, .contents_count = 1 };
    (void)snprintf(text, sizeof(text), "racer %llu", (unsigned long long)r->rev);
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(text) };
    r->why = sync_put(r->f->bucket, &p);
    r->created = p.created;
    return NULL;
}

static void r0002_concurrent_revisions_leave_exactly_one_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    pthread_t threads[16];
    struct racer racers[16];
    for (unsigned i = 0; i < 16; i++) {
        racers[i] = (struct racer){ .f = f, .rev = i + 1 };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(racers[i].why, ERR_OK);
        assert_true(racers[i].created);
    }
    assert_int_equal(latest(f).name.rev, 16);
    assert_int_equal(history(f), 16);
    for (uint64_t rev = 1; rev < 16; rev++) {
        struct page_render r;
        assert_int_equal(find(f, SELECT_REV, (struct page_name){ .rev = rev }, &r, NULL), ERR_OK);
        assert_int_equal(r.superseded_at.ns, T0);
        assert_true(r.superseded_by.rev > rev);
    }
    fixture_free(f);
}

static void r0003_bundle_is_written_whole_or_not_at_all(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_put p = { .domain = f->domain, .title = STR("T"), .rev = 1, .contents_count = 2 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("<p>x</p>") };
    p.contents[1] = (struct page_put_content){ .name = STR("data-parsoid"), .raw = STR("{}") };
    static const err refusals[] = { ERR_FULL, ERR_SHUTDOWN, ERR_TIMEOUT, ERR_LIMIT };
    for (unsigned i = 0; i < COUNT_OF(refusals); i++) {
        engine_mem_refuse(f->engine, refusals[i]);
        assert_int_equal(sync_put(f->bucket, &p), refusals[i]);
        assert_int_equal(history(f), 0);
        assert_int_equal(f->told, 0);
    }
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    assert_int_equal(latest(f).contents_count, 2);
    struct page_order o = { 0 };
    engine_mem_refuse(f->engine, ERR_FULL);
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_FULL);
    assert_int_equal(latest(f).contents_count, 2);
    engine_mem_refuse(f->engine, ERR_OK);
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(history(f), 0);
    fixture_free(f);
}

static void r0004_seldom_edited_title_leaks_nothing(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 5; rev++) {
        (void)put(f, rev, -1);
        fake_clock_advance(&f->clock, 20 * GRACE);
        upkeep(f);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    }
    fixture_free(f);
}

static void r0005_title_never_edited_again_is_culled(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name old = put(f, 1, -1);
    struct page_trace t;
    (void)put(f, 2, -1);
    fake_clock_advance(&f->clock, GRACE - 1);
    assert_int_equal(exact(f, old).due_at.ns, T0 + GRACE);
    fake_clock_advance(&f->clock, 1);
    assert_int_equal(gone(f, old, &t), ERR_GONE); /* at its due time, not when a cull comes by */
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 2);
    upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(gone(f, old, &t), ERR_GONE);
    assert_int_equal(t.state, PAGE_CULLED);
    assert_int_equal(t.at.ns, T0 + GRACE);
    fake_clock_advance(&f->clock, 240 * HOUR);
    assert_int_equal(gone(f, old, &t), ERR_NOT_FOUND);
    upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

static void r0006_burst_then_silence_leaks_nothing(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 700; rev++)
        (void)put(f, rev, -1);
    assert_int_equal(history(f), 700);
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(history(f), 1);
    upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    struct pages_stats stats;
    pages_stats_get(f->pages, &stats);
    assert_int_equal(stats.culled, 699);
    fixture_free(f);
}

static void r0007_updates_of_one_instant_are_all_remembered(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name names[4];
    for (unsigned i = 0; i < 4; i++)
        names[i] = put(f, 1 + i / 2, -1); /* the clock stands still */
    assert_true(tid_cmp(names[0].tid, names[1].tid) < 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(exact(f, names[i]).superseded_at.ns, T0);
        assert_name(exact(f, names[i]).superseded_by, names[i + 1]);
    }
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 3);
    fixture_free(f);
}

static void r0008_older_revision_is_stored_beside_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name newest = put(f, 9, -1);
    struct page_put p = { 0 };
    fake_clock_advance(&f->clock, 7 * NS_PER_S);
    assert_int_equal(put_as(f, 4, -1, "an older revision", &p), ERR_OK);
    assert_true(p.created);
    assert_false(p.latest);
    struct page_render r = exact(f, p.stored);
    assert_int_equal(r.superseded_at.ns, T0 + 7 * NS_PER_S);
    assert_int_equal(r.due_at.ns, T0 + 7 * NS_PER_S + GRACE);
    assert_name(r.superseded_by, newest);
    assert_name(latest(f).name, newest);
    struct page_order o = { 0 };
    assert_int_equal(order(f, ORDER_EXTEND, p.stored, &o), ERR_OK);
    assert_int_equal(exact(f, p.stored).due_at.ns, T0 + 7 * NS_PER_S + HOUR + HOUR / 4);
    fixture_free(f);
}

static void r0009_purge_in_one_domain_spares_the_others(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    uint32_t other, first = f->domain;
    assert_int_equal(pages_domain(f->pages, STR("de.example.test"), &other), ERR_OK);
    assert_int_not_equal(first, other);
    (void)put(f, 1, -1);
    (void)put(f, 2, -1);
    f->domain = other;
    (void)put(f, 1, -1);
    (void)put(f, 2, -1);
    struct page_order o = { 0 };
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 2);
    assert_int_equal(history(f), 0);
    f->domain = first;
    assert_int_equal(history(f), 2);
    assert_int_equal(latest(f).name.rev, 2);
    fixture_free(f);
}

static void r0010_every_time_to_live_runs_out(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_TTL));
    struct page_name name = put(f, 1, -1);
    struct page_trace t;
    assert_int_equal(latest(f).due_at.ns, T0 + 50 * NS_PER_S);
    fake_clock_advance(&f->clock, 50 * NS_PER_S);
    assert_int_equal(gone(f, name, &t), ERR_GONE);
    upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), 1);
    fake_clock_advance(&f->clock, 240 * HOUR);
    upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

/* ---- puts ---- */

static void put_again_is_answered_with_what_is_stored(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_put first = { 0 }, p = { 0 };
    assert_int_equal(put_as(f, 3, 2, "<p about=\"a\">x</p>", &first), ERR_OK);
    assert_true(first.created && first.applied && first.latest);
    assert_int_equal(put_as(f, 3, 2, "<p about=\"a\">x</p>", &p), ERR_OK);
    assert_true(!p.created && !p.applied && p.latest);
    assert_int_equal(put_as(f, 3, 2, "<p about=\"b\">x</p>", &p), ERR_CONFLICT);
    assert_int_equal(put_as(f, 3, 4, "<p about='b'>x</p>", &p), ERR_OK); /* equal but for about */
    assert_true(!p.created && !p.applied);
    assert_name(p.stored, first.stored);
    assert_int_equal(put_as(f, 3, -1, "<p>x</p>", &p), ERR_OK);
    assert_name(p.stored, first.stored);
    assert_int_equal(f->told, 1);
    assert_int_equal(put_as(f, 4, 4, "<p>x</p>", &p), ERR_OK); /* of another revision: stored */
    assert_true(p.created);
    struct pages_stats stats;
    pages_stats_get(f->pages, &stats);
    assert_int_equal(stats.puts, 2);
    assert_int_equal(stats.duplicates, 3);
    fixture_free(f);
}

static void put_refuses_bad_input_at_once(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_put p = { 0 };
    assert_int_equal(put_as(f, 0, -1, "x", &p), ERR_BAD);
    assert_int_equal(put_as(f, (uint64_t)1 << 63, -1, "x", &p), ERR_BAD);
    assert_int_equal(put_as(f, 1, 6, "x", &p), ERR_BAD);
    assert_int_equal(put_as(f, 1, 5, "x", &p), ERR_OK);
    assert_int_equal(put_as(f, INT64_MAX, 5, "x", &p), ERR_OK);
    assert_int_equal(latest(f).name.rev, INT64_MAX);
    p = (struct page_put){ .title = STR("T"), .rev = 1 };
    assert_int_equal(sync_put(f->bucket, &p), ERR_BAD);
    p.contents_count = 2;
    p.contents[0] = p.contents[1] = (struct page_put_content){ .name = STR("html") };
    assert_int_equal(sync_put(f->bucket, &p), ERR_BAD);
    p.contents[1].name = STR("a b");
    assert_int_equal(sync_put(f->bucket, &p), ERR_BAD);
    fixture_free(f);
}

static void bytes_come_back_as_they_were_put(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    static char text[20000];
    memset(text, 'x', sizeof(text));
    struct page_put p = { .domain = f->domain, .title = STR("T"), .rev = 1, .contents_count = 3 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .headers = STR("a: b\n"),
                                               .raw = { text, sizeof(text) } };
    p.contents[1] = (struct page_put_content){ .name = STR("empty"), .headers = STR("c: d\n") };
    p.contents[2] = (struct page_put_content){ .name = STR("small"), .raw = STR("q") };
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    struct arena a;
    arena_init(&a, 1u << 20);
    struct engine_view *v = engine_view_begin(f->engine);
    struct page_which w = { .domain = f->domain, .title = STR("T") };
    struct page_render r;
    assert_int_equal(page_find(f->bucket, v, &w, &r, NULL), ERR_OK);
    for (unsigned i = 0; i < 3; i++) {
        str headers, frame, raw;
        const struct page_content *c = page_content_find(&r, p.contents[i].name);
        assert_non_null(c);
        assert_int_equal(page_read(f->bucket, &r, c, &a, i == 1, &headers, &frame), ERR_OK);
        assert_int_equal(page_frame_raw(c, frame, &a, &raw), ERR_OK);
        assert_true(str_eq(headers, p.contents[i].headers));
        assert_true(str_eq(raw, p.contents[i].raw));
    }
    assert_null(page_content_find(&r, STR("htm")));
    assert_true(r.contents[0].stored_bytes < 1000);
    r.contents[0].sum ^= 1;
    str headers, frame;
    assert_int_equal(page_read(f->bucket, &r, &r.contents[0], &a, false, &headers, &frame), ERR_CORRUPT);
    engine_view_end(&v);
    arena_fini(&a);
    fixture_free(f);
}

static void minted_tids_rise_on_a_frozen_clock(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name ahead = put(f, 1, 4), last = ahead;
    for (int i = 0; i < 5; i++) {
        struct page_put p = { 0 };
        char text[16];
        (void)snprintf(text, sizeof(text), "m%d", i);
        assert_int_equal(put_as(f, 1, -1, text, &p), ERR_OK);
        assert_true(tid_cmp(p.stored.tid, last.tid) > 0);
        assert_true(p.latest);
        last = p.stored;
    }
    fixture_free(f);
}

static void cost_of_a_put_does_not_grow(void **state)
{
    (void)state; /* unused */
    static const enum page_policy_kind kinds[] = { POLICY_APP_TTL, POLICY_LATEST, POLICY_INTERVAL, POLICY_LATEST_HASH };
    for (unsigned k = 0; k < COUNT_OF(kinds); k++) {
        struct fixture *f = fixture_new(policy(kinds[k]));
        struct engine_mem_cost early = { 0 };
        for (uint64_t i = 1; i <= 400; i++) {
            struct page_put p = { 0 };
            char text[32];
            (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
            fake_clock_advance(&f->clock, NS_PER_MS);
            assert_int_equal(put_as(f, 7, -1, text, &p), ERR_OK);
            if (i == 10)
                early = engine_mem_last_cost(f->engine);
        }
        struct engine_mem_cost late = engine_mem_last_cost(f->engine);
        assert_true(late.reads <= early.reads);
        assert_true(late.writes <= early.writes);
        fixture_free(f);
    }
}

/* ---- policies ---- */

static void latest_hash_keeps_the_latest_alone(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_LATEST_HASH));
    struct page_name a = put(f, 1, -1), b = put(f, 2, -1);
    struct page_trace t;
    struct page_put p = { 0 };
    assert_name(latest(f).name, b);
    assert_int_equal(gone(f, a, &t), ERR_GONE);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(put_as(f, 1, -1, "late", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_CULLED);
    p.stash_ns = HOUR;
    assert_int_equal(put_as(f, 1, -1, "late, but stashed", &p), ERR_OK);
    assert_int_equal(exact(f, p.stored).state, PAGE_HELD);
    struct page_order o = { 0 };
    assert_int_equal(order(f, ORDER_STASH, b, &o), ERR_OK);
    (void)put(f, 3, -1);
    assert_int_equal(exact(f, b).due_at.ns, T0 + 2 * HOUR);
    fixture_free(f);
}

static void latest_keeps_the_newest_of_each_revision(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_LATEST));
    fake_clock_advance(&f->clock, 10 * NS_PER_S);
    struct page_name a = put(f, 1, 1), b = put(f, 1, 3), c = put(f, 1, 5);
    assert_int_equal(exact(f, a).due_at.ns, T0 + 10 * NS_PER_S + GRACE);
    assert_int_equal(exact(f, b).due_at.ns, INT64_MAX);
    fake_clock_advance(&f->clock, NS_PER_S);
    struct page_name late = put(f, 1, 4);
    assert_int_equal(exact(f, late).due_at.ns, INT64_MAX);
    assert_int_equal(exact(f, b).due_at.ns, T0 + 11 * NS_PER_S + GRACE);
    struct page_name d = put(f, 2, 1);
    fake_clock_advance(&f->clock, 2 * GRACE);
    assert_int_equal(exact(f, c).state, PAGE_ARCHIVE);
    assert_name(latest(f).name, d);
    assert_int_equal(history(f), 3);
    upkeep(f);
    struct page_order o = { 0 };
    struct page_name e = put(f, 1, 2);
    assert_int_equal(exact(f, e).out_at.ns, f->clock.now_ns);
    assert_int_equal(order(f, ORDER_PURGE, c, &o), ERR_OK);
    assert_int_equal(exact(f, e).due_at.ns, INT64_MAX); /* among the newest two again */
    fixture_free(f);
}

static void interval_keeps_the_newest_of_each_interval(void **state)
{
    (void)state; /* unused */
    struct page_policy pol = policy(POLICY_INTERVAL);
    pol.count = 1;
    struct fixture *f = fixture_new(pol);
    fake_clock_advance(&f->clock, HOUR);
    struct page_name a = put(f, 1, 0), b = put(f, 1, 59), c = put(f, 1, 60), d = put(f, 1, 119);
    assert_int_equal(exact(f, a).out_at.ns, T0 + HOUR);
    assert_int_equal(exact(f, b).due_at.ns, INT64_MAX);
    assert_int_equal(exact(f, c).out_at.ns, T0 + HOUR);
    assert_int_equal(exact(f, d).due_at.ns, INT64_MAX);
    fixture_free(f);
}

static void ttl_latest_that_ran_out_leaves_none(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_TTL));
    struct page_name newest = put(f, 2, -1);
    fake_clock_advance(&f->clock, 20 * NS_PER_S);
    struct page_name late = put(f, 1, -1);
    fake_clock_advance(&f->clock, 30 * NS_PER_S);
    struct page_render r;
    struct page_trace t;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(find(f, SELECT_LATEST, (struct page_name){ 0 }, &r, &t), ERR_GONE);
        assert_name(t.name, newest);
        assert_int_equal(exact(f, late).state, PAGE_RECENT);
        upkeep(f);
    }
    fixture_free(f);
}

static void changed_policy_holds_at_once_and_is_planned(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_ALL));
    struct page_name names[300];
    struct page_trace t;
    for (unsigned i = 0; i < 300; i++)
        names[i] = put(f, i + 1, -1);
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(exact(f, names[0]).state, PAGE_ARCHIVE);
    restart(f, policy(POLICY_APP_TTL));
    assert_int_equal(gone(f, names[0], &t), ERR_GONE); /* before any row was written anew */
    assert_int_equal(history(f), 1);
    bool more;
    store_time next;
    assert_int_equal(pages_upkeep(f->pages, &more, &next), ERR_OK);
    assert_true(more);
    restart(f, policy(POLICY_APP_TTL)); /* goes on where it was */
    upkeep(f);
    assert_int_equal(history(f), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    restart(f, policy(POLICY_ALL));
    upkeep(f);
    (void)put(f, 1000, -1);
    assert_int_equal(exact(f, names[299]).due_at.ns, INT64_MAX);
    fixture_free(f);
}

/* ---- orders ---- */

static void purge_fences_and_promotes(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name a = put(f, 1, 0), b = put(f, 2, 1);
    struct page_put p = { 0 };
    struct page_trace t;
    struct page_order o = { 0 };
    fake_clock_advance(&f->clock, 10 * NS_PER_S);
    assert_int_equal(order(f, ORDER_PURGE, b, &o), ERR_OK);
    assert_int_equal(o.purged, 1);
    assert_name(latest(f).name, a);
    assert_int_equal(latest(f).due_at.ns, INT64_MAX);
    assert_int_equal(gone(f, b, &t), ERR_GONE);
    assert_int_equal(t.state, PAGE_PURGED);
    assert_int_equal(t.at.ns, T0 + 10 * NS_PER_S);
    assert_int_equal(put_as(f, 2, 1, "again", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_PURGED);
    assert_int_equal(put_as(f, 2, 2, "another render", &p), ERR_OK);
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ .rev = 2 }, &o), ERR_OK);
    assert_int_equal(put_as(f, 2, 10, "not newer than the purge", &p), ERR_GONE);
    assert_int_equal(put_as(f, 2, 11, "newer", &p), ERR_OK);
    assert_int_equal(put_as(f, 3, 9, "of another revision", &p), ERR_OK);
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 3);
    assert_int_equal(put_as(f, 3, 10, "late", &p), ERR_GONE);
    assert_int_equal(put_as(f, 1, -1, "minted after the fence", &p), ERR_OK);
    assert_true(tid_time(p.stored.tid).ns > T0 + 10 * NS_PER_S);
    assert_name(latest(f).name, p.stored);
    fixture_free(f);
}

static void purge_of_very_many_takes_several_updates(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_ALL));
    for (uint64_t rev = 1; rev <= 4500; rev++)
        (void)put(f, rev, 1);
    struct page_order o = { 0 };
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 4500);
    assert_int_equal(o.phase, 2);
    assert_int_equal(history(f), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), 4500);
    fixture_free(f);
}

static void many_fences_become_one(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_put p = { 0 };
    for (uint64_t rev = 1; rev <= PAGE_FENCES_MAX; rev++)
        assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ .rev = rev }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), PAGE_FENCES_MAX + 1);
    assert_int_equal(put_as(f, PAGE_FENCES_MAX, 0, "x", &p), ERR_GONE);
    assert_int_equal(put_as(f, 1000, 0, "x", &p), ERR_OK);
    assert_int_equal(order(f, ORDER_PURGE, (struct page_name){ .rev = 5000 }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 1);
    assert_int_equal(put_as(f, 1001, 0, "x", &p), ERR_GONE);
    assert_int_equal(latest(f).name.rev, 1000);
    fixture_free(f);
}

static void pins_hold_until_they_are_released(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name a = put(f, 1, -1);
    struct page_order o = { .until = { T0 + 30 * HOUR } };
    struct page_trace t;
    assert_int_equal(order(f, ORDER_EXTEND, a, &o), ERR_OK); /* the latest: nothing to do */
    assert_int_equal(latest(f).requested_until.ns, 0);
    (void)put(f, 2, -1);
    o.until.ns = T0 + 30 * HOUR;
    assert_int_equal(order(f, ORDER_HOLD, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(o.render.due_at.ns, T0 + 30 * HOUR);
    fake_clock_advance(&f->clock, 20 * HOUR);
    upkeep(f);
    assert_int_equal(exact(f, a).state, PAGE_HELD);
    assert_int_equal(order(f, ORDER_RELEASE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(gone(f, a, &t), ERR_GONE);
    assert_int_equal(t.at.ns, T0 + 20 * HOUR); /* readable until then */
    o.until.ns = T0;
    assert_int_equal(order(f, ORDER_HOLD, (struct page_name){ .rev = 2 }, &o), ERR_BAD);
    assert_int_equal(order(f, ORDER_HOLD, (struct page_name){ .rev = 9 }, &o), ERR_NOT_FOUND);
    assert_int_equal(order(f, ORDER_STASH, a, &o), ERR_GONE);
    fixture_free(f);
}

static void extension_is_written_only_when_less_is_left(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name a = put(f, 1, -1);
    struct page_order o = { 0 };
    (void)put(f, 2, -1);
    assert_int_equal(order(f, ORDER_EXTEND, a, &o), ERR_OK);
    store_time due = exact(f, a).due_at;
    assert_int_equal(due.ns, T0 + HOUR + HOUR / 4);
    fake_clock_advance(&f->clock, HOUR / 4);
    struct page_render r = exact(f, a);
    assert_false(page_wants_extension(f->bucket, &r, (store_time){ f->clock.now_ns }));
    assert_int_equal(order(f, ORDER_EXTEND, a, &o), ERR_OK);
    assert_int_equal(exact(f, a).due_at.ns, due.ns);
    fake_clock_advance(&f->clock, 1);
    assert_true(page_wants_extension(f->bucket, &r, (store_time){ f->clock.now_ns }));
    assert_int_equal(r.state, PAGE_HISTORICAL);
    assert_int_equal(order(f, ORDER_EXTEND, a, &o), ERR_OK);
    assert_int_equal(exact(f, a).due_at.ns, due.ns + HOUR / 4 + 1);
    fixture_free(f);
}

static void culled_render_put_again_lives_a_full_grace(void **state)
{
    (void)state; /* unused */
    for (int culled = 0; culled < 2; culled++) {
        struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
        struct page_name a = put(f, 1, 0);
        (void)put(f, 2, 1);
        fake_clock_advance(&f->clock, GRACE);
        if (culled)
            upkeep(f);
        struct page_name again = put(f, 1, 0);
        assert_name(a, again);
        assert_int_equal(exact(f, a).due_at.ns, T0 + 2 * GRACE);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), 0);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 1);
        fixture_free(f);
    }
}

static void ledger_of_a_title_is_bounded(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_LATEST_HASH));
    for (uint64_t rev = 1; rev <= PAGE_LEDGER_ROWS_MAX + 20; rev++)
        (void)put(f, rev, 1);
    struct page_trace t;
    assert_int_equal(engine_mem_rows(f->engine, SPACE_LEDGER), PAGE_LEDGER_ROWS_MAX);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), PAGE_LEDGER_ROWS_MAX);
    assert_int_equal(gone(f, (struct page_name){ .rev = 10, .tid = tid_at(T0 + NS_PER_S, 1) }, &t), ERR_NOT_FOUND);
    assert_int_equal(gone(f, (struct page_name){ .rev = 20, .tid = tid_at(T0 + NS_PER_S, 1) }, &t), ERR_GONE);
    fixture_free(f);
}

/* ---- reading in time ---- */

static err find_at(struct fixture *f, enum page_select select, int64_t at, struct page_render *r)
{
    struct page_which w = { .domain = f->domain, .title = STR("T"), .select = select, .at = { at } };
    struct engine_view *v = engine_view_begin(f->engine);
    err e = page_find(f->bucket, v, &w, r, NULL);
    engine_view_end(&v);
    return e;
}

static void two_clocks_are_told_apart(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_render r;
    struct page_name a = put(f, 1, 0);
    fake_clock_advance(&f->clock, 40 * NS_PER_S);
    struct page_name b = put(f, 3, 20);
    (void)put(f, 2, 10); /* late: never served as latest */
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 - 1, &r), ERR_NOT_FOUND);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0, &r), ERR_OK);
    assert_name(r.name, a);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 + 40 * NS_PER_S - 1, &r), ERR_OK);
    assert_name(r.name, a);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 + 40 * NS_PER_S, &r), ERR_OK);
    assert_name(r.name, b);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 - 1, &r), ERR_NOT_FOUND);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 15 * NS_PER_S, &r), ERR_OK);
    assert_int_equal(r.name.rev, 2);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 20 * NS_PER_S, &r), ERR_OK);
    assert_name(r.name, b);
    fake_clock_advance(&f->clock, GRACE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(find_at(f, SELECT_SERVED_AT, T0, &r), ERR_GONE);
        assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 15 * NS_PER_S, &r), ERR_GONE);
        upkeep(f);
    }
    fixture_free(f);
}

struct listing { char text[64]; };

static bool list_title(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    assert_true(r->superseded_at.ns == INT64_MAX);
    (void)strncat(l->text, title.p, title.n);
    return true;
}

static void titles_come_in_order_once_each(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    static const char *const titles[] = { "b", "a", "ab", "c", "b" };
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        struct page_put p = { .domain = f->domain, .title = str_of(titles[i]), .rev = i + 1, .contents_count = 1 };
        p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
        assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    }
    struct listing all = { "" }, rest = { "" };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_titles(f->bucket, v, f->domain, STR_NONE, list_title, &all), ERR_OK);
    assert_int_equal(page_titles(f->bucket, v, f->domain, STR("a"), list_title, &rest), ERR_OK);
    engine_view_end(&v);
    assert_string_equal(all.text, "aabbc");
    assert_string_equal(rest.text, "abbc");
    fixture_free(f);
}

static void explain_answers_for_everything(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    struct page_name a = put(f, 1, 0), b = put(f, 2, 1);
    struct page_order o = { 0 };
    fake_clock_advance(&f->clock, GRACE);
    (void)put(f, 3, 2);
    assert_int_equal(order(f, ORDER_PURGE, b, &o), ERR_OK);
    const struct { struct page_name name; enum page_state state; } rows[] = {
        { a, PAGE_CULLED }, { b, PAGE_PURGED }, { latest(f).name, PAGE_CURRENT }, { { .rev = 9 }, PAGE_UNKNOWN },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct page_which w = { .domain = f->domain, .title = STR("T"), .select = SELECT_EXACT, .name = rows[i].name };
        struct page_explanation x;
        struct engine_view *v = engine_view_begin(f->engine);
        assert_int_equal(page_explain(f->bucket, v, &w, &x), ERR_OK);
        engine_view_end(&v);
        assert_int_equal(x.state, rows[i].state);
        assert_non_null(x.reason);
    }
    fixture_free(f);
}

/* ---- titles as keys ---- */

static void title_keys_are_normal_and_bounded(void **state)
{
    (void)state; /* unused */
    struct arena a;
    struct err_note note = { "" };
    str key;
    char longest[PAGE_TITLE_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    arena_init(&a, 1u << 20);
    assert_int_equal(page_title_key(&a, STR("e\xcc\x81"), &key, &note), ERR_OK);
    assert_true(str_eq(key, STR("\xc3\xa9")));
    assert_int_equal(page_title_key(&a, (str){ longest, PAGE_TITLE_BYTES_MAX }, &key, &note), ERR_OK);
    assert_int_equal(page_title_key(&a, (str){ longest, sizeof(longest) }, &key, &note), ERR_BAD);
    static const char *const bad[] = { "", ".", "..", "a\x01", "a\x7f", "\xff", "\xed\xa0\x80" };
    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(page_title_key(&a, str_of(bad[i]), &key, &note), ERR_BAD);
    assert_int_equal(page_title_key(&a, (str){ "a\0b", 3 }, &key, &note), ERR_BAD);
    arena_fini(&a);
}

static void check_finds_what_is_damaged(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(policy(POLICY_APP_TTL));
    unsigned found = 0;
    (void)put(f, 1, 0);
    (void)put(f, 2, 1);
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_OK);
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = SPACE_DUE };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    char key[ENGINE_KEY_BYTES_MAX];
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    size_t n = row.key.n;
    memcpy(key, row.key.p, n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR_NONE);
    assert_int_equal(pages_check(f->pages, damage_found, &found), ERR_CORRUPT);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR(""));
    key[7]++;
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR(""));
    assert_int_equal(pages_check(f->pages, damage_found, &found), ERR_CORRUPT);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR_NONE);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r0001_late_render_never_deletes_the_latest),
        cmocka_unit_test(r0002_concurrent_revisions_leave_exactly_one_latest),
        cmocka_unit_test(r0003_bundle_is_written_whole_or_not_at_all),
        cmocka_unit_test(r0004_seldom_edited_title_leaks_nothing),
        cmocka_unit_test(r0005_title_never_edited_again_is_culled),
        cmocka_unit_test(r0006_burst_then_silence_leaks_nothing),
        cmocka_unit_test(r0007_updates_of_one_instant_are_all_remembered),
        cmocka_unit_test(r0008_older_revision_is_stored_beside_the_latest),
        cmocka_unit_test(r0009_purge_in_one_domain_spares_the_others),
        cmocka_unit_test(r0010_every_time_to_live_runs_out),
        cmocka_unit_test(put_again_is_answered_with_what_is_stored),
        cmocka_unit_test(put_refuses_bad_input_at_once),
        cmocka_unit_test(bytes_come_back_as_they_were_put),
        cmocka_unit_test(minted_tids_rise_on_a_frozen_clock),
        cmocka_unit_test(cost_of_a_put_does_not_grow),
        cmocka_unit_test(latest_hash_keeps_the_latest_alone),
        cmocka_unit_test(latest_keeps_the_newest_of_each_revision),
        cmocka_unit_test(interval_keeps_the_newest_of_each_interval),
        cmocka_unit_test(ttl_latest_that_ran_out_leaves_none),
        cmocka_unit_test(changed_policy_holds_at_once_and_is_planned),
        cmocka_unit_test(purge_fences_and_promotes),
        cmocka_unit_test(purge_of_very_many_takes_several_updates),
        cmocka_unit_test(many_fences_become_one),
        cmocka_unit_test(pins_hold_until_they_are_released),
        cmocka_unit_test(extension_is_written_only_when_less_is_left),
        cmocka_unit_test(culled_render_put_again_lives_a_full_grace),
        cmocka_unit_test(ledger_of_a_title_is_bounded),
        cmocka_unit_test(two_clocks_are_told_apart),
        cmocka_unit_test(titles_come_in_order_once_each),
        cmocka_unit_test(explain_answers_for_everything),
        cmocka_unit_test(title_keys_are_normal_and_bounded),
        cmocka_unit_test(check_finds_what_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
