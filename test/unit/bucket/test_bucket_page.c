/* Goal: puts, policies and orders do what docs/api.md, 2, says. Method: a bucket on an engine in
 * memory that runs each decision twice, on a clock the test moves. */
#include "bucket/key.h"
#include "fixture.h"

#include "base/buf.h"
#include "bucket/page_write.h"

#include <stdio.h>
#include <string.h>

/* ---- puts ---- */

static void put_again_is_answered_with_what_is_stored(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put first = { 0 }, p = { 0 };
    assert_int_equal(fix_put_as(f, 3, 2, "<p about=\"a\">x</p>", &first), ERR_OK);
    assert_true(first.created && first.applied && first.latest);
    assert_int_equal(fix_put_as(f, 3, 2, "<p about=\"a\">x</p>", &p), ERR_OK);
    assert_true(!p.created && !p.applied && p.latest);
    assert_int_equal(fix_put_as(f, 3, 2, "<p about=\"b\">x</p>", &p), ERR_CONFLICT);
    assert_int_equal(fix_put_as(f, 3, 4, "<p about='b'>x</p>", &p),
                     ERR_OK); /* equal but for about */
    assert_true(!p.created && !p.applied);
    assert_name(p.stored, first.stored);
    assert_int_equal(fix_put_as(f, 3, -1, "<p>x</p>", &p), ERR_OK);
    assert_name(p.stored, first.stored);
    assert_int_equal(f->told, 1);
    assert_int_equal(fix_put_as(f, 4, 4, "<p>x</p>", &p), ERR_OK); /* of another revision: stored */
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
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put p = { 0 };
    assert_int_equal(fix_put_as(f, 0, -1, "x", &p), ERR_BAD);
    assert_int_equal(fix_put_as(f, (uint64_t)1 << 63, -1, "x", &p), ERR_BAD);
    assert_int_equal(fix_put_as(f, 1, 6, "x", &p), ERR_BAD);
    assert_int_equal(fix_put_as(f, 1, 5, "x", &p), ERR_OK);
    assert_int_equal(fix_put_as(f, INT64_MAX, 5, "x", &p), ERR_OK);
    assert_int_equal(fix_latest(f).name.rev, INT64_MAX);
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
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    static char text[20000];
    memset(text, 'x', sizeof(text));
    struct page_put p = { .domain = f->domain, .title = STR("T"), .rev = 1, .contents_count = 3 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"),
                                               .headers = STR("a: b\n"),
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
        struct page_bytes bytes;
        str raw;
        const struct page_content *c = page_content_find(&r, p.contents[i].name);
        assert_non_null(c);
        assert_int_equal(page_read(f->bucket, &r, c, &a, i == 1, &bytes), ERR_OK);
        assert_int_equal(frame_raw(c, bytes.frame, &a, &raw), ERR_OK);
        assert_true(str_eq(bytes.headers, p.contents[i].headers));
        assert_true(str_eq(raw, p.contents[i].raw));
    }
    assert_null(page_content_find(&r, STR("htm")));
    assert_true(r.contents[0].stored_bytes < 1000);
    r.contents[0].sum ^= 1;
    struct page_bytes bytes;
    assert_int_equal(page_read(f->bucket, &r, &r.contents[0], &a, false, &bytes), ERR_CORRUPT);
    engine_view_end(&v);
    arena_fini(&a);
    fixture_free(f);
}

static void minted_tids_rise_on_a_frozen_clock(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name ahead = fix_put(f, 1, 4), last = ahead;
    for (int i = 0; i < 5; i++) {
        struct page_put p = { 0 };
        char text[16];
        (void)snprintf(text, sizeof(text), "m%d", i);
        assert_int_equal(fix_put_as(f, 1, -1, text, &p), ERR_OK);
        assert_true(tid_cmp(p.stored.tid, last.tid) > 0);
        assert_true(p.latest);
        last = p.stored;
    }
    fixture_free(f);
}

static void cost_of_a_put_does_not_grow(void **state)
{
    (void)state; /* unused */
    static const enum page_policy_kind kinds[] = { POLICY_APP_TTL, POLICY_LATEST, POLICY_INTERVAL,
                                                   POLICY_LATEST_HASH };
    for (unsigned k = 0; k < COUNT_OF(kinds); k++) {
        struct fixture *f = fixture_new(fix_policy(kinds[k]));
        struct engine_mem_cost early = { 0 };
        for (uint64_t i = 1; i <= 400; i++) {
            struct page_put p = { 0 };
            char text[32];
            (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
            fake_clock_advance(&f->clock, NS_PER_MS);
            assert_int_equal(fix_put_as(f, 7, -1, text, &p), ERR_OK);
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
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST_HASH));
    struct page_name a = fix_put(f, 1, -1), b = fix_put(f, 2, -1);
    struct page_trace t;
    struct page_put p = { 0 };
    assert_name(fix_latest(f).name, b);
    assert_int_equal(fix_gone(f, a, &t), ERR_GONE);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(fix_put_as(f, 1, -1, "late", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_CULLED);
    p.stash_ns = HOUR;
    assert_int_equal(fix_put_as(f, 1, -1, "late, but stashed", &p), ERR_OK);
    assert_int_equal(fix_exact(f, p.stored).state, PAGE_HELD);
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_STASH, b, &o), ERR_OK);
    (void)fix_put(f, 3, -1);
    assert_int_equal(fix_exact(f, b).due_at.ns, T0 + 2 * HOUR);
    fixture_free(f);
}

static void latest_keeps_the_newest_of_each_revision(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST));
    fake_clock_advance(&f->clock, 10 * NS_PER_S);
    struct page_name a = fix_put(f, 1, 1), b = fix_put(f, 1, 3), c = fix_put(f, 1, 5);
    assert_int_equal(fix_exact(f, a).due_at.ns, T0 + 10 * NS_PER_S + GRACE);
    assert_int_equal(fix_exact(f, b).due_at.ns, INT64_MAX);
    fake_clock_advance(&f->clock, NS_PER_S);
    struct page_name late = fix_put(f, 1, 4);
    assert_int_equal(fix_exact(f, late).due_at.ns, INT64_MAX);
    assert_int_equal(fix_exact(f, b).due_at.ns, T0 + 11 * NS_PER_S + GRACE);
    struct page_name d = fix_put(f, 2, 1);
    fake_clock_advance(&f->clock, 2 * GRACE);
    assert_int_equal(fix_exact(f, c).state, PAGE_ARCHIVE);
    assert_name(fix_latest(f).name, d);
    assert_int_equal(fix_history(f), 3);
    fix_upkeep(f);
    struct page_order o = { 0 };
    struct page_name e = fix_put(f, 1, 2);
    assert_int_equal(fix_exact(f, e).out_at.ns, f->clock.now_ns);
    assert_int_equal(fix_order(f, ORDER_PURGE, c, &o), ERR_OK);
    assert_int_equal(fix_exact(f, e).due_at.ns, INT64_MAX); /* among the newest two again */
    fixture_free(f);
}

static void interval_keeps_the_newest_of_each_interval(void **state)
{
    (void)state; /* unused */
    struct page_policy pol = fix_policy(POLICY_INTERVAL);
    pol.count = 1;
    struct fixture *f = fixture_new(pol);
    fake_clock_advance(&f->clock, HOUR);
    struct page_name a = fix_put(f, 1, 0), b = fix_put(f, 1, 59), c = fix_put(f, 1, 60),
                     d = fix_put(f, 1, 119);
    assert_int_equal(fix_exact(f, a).out_at.ns, T0 + HOUR);
    assert_int_equal(fix_exact(f, b).due_at.ns, INT64_MAX);
    assert_int_equal(fix_exact(f, c).out_at.ns, T0 + HOUR);
    assert_int_equal(fix_exact(f, d).due_at.ns, INT64_MAX);
    fixture_free(f);
}

static void ttl_latest_that_ran_out_leaves_none(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_TTL));
    struct page_name newest = fix_put(f, 2, -1);
    fake_clock_advance(&f->clock, 20 * NS_PER_S);
    struct page_name late = fix_put(f, 1, -1);
    fake_clock_advance(&f->clock, 30 * NS_PER_S);
    struct page_render r;
    struct page_trace t;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fix_find(f, SELECT_LATEST, (struct page_name){ 0 }, &r, &t), ERR_GONE);
        assert_name(t.name, newest);
        assert_int_equal(fix_exact(f, late).state, PAGE_RECENT);
        fix_upkeep(f);
    }
    fixture_free(f);
}

static void changed_policy_holds_at_once_and_is_planned(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name names[300];
    struct page_trace t;
    for (unsigned i = 0; i < 300; i++)
        names[i] = fix_put(f, i + 1, -1);
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(fix_exact(f, names[0]).state, PAGE_ARCHIVE);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    assert_int_equal(fix_gone(f, names[0], &t), ERR_GONE); /* before any row was written anew */
    assert_int_equal(fix_history(f), 1);
    bool more;
    store_time next;
    assert_int_equal(pages_upkeep(f->pages, &more, &next), ERR_OK);
    assert_true(more);
    fix_restart(f, fix_policy(POLICY_APP_TTL)); /* goes on where it was */
    fix_upkeep(f);
    assert_int_equal(fix_history(f), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    fix_restart(f, fix_policy(POLICY_ALL));
    fix_upkeep(f);
    (void)fix_put(f, 1000, -1);
    assert_int_equal(fix_exact(f, names[299]).due_at.ns, INT64_MAX);
    fixture_free(f);
}

/* Found by model_pages --seed 520: a purge before the replanning made room for what had run out. */
static void r0011_what_ran_out_stays_gone_when_a_purge_thins_its_group(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name names[5];
    struct page_order o = { 0 };
    struct page_trace t;
    for (unsigned i = 0; i < 5; i++)
        names[i] = fix_put(f, 1, -1);
    fix_restart(f, fix_policy(POLICY_LATEST)); /* keeps two; nothing is written anew yet */
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(fix_gone(f, names[2], &t), ERR_GONE);
    assert_int_equal(fix_order(f, ORDER_PURGE, names[4], &o), ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fix_gone(f, names[2], &t), ERR_GONE);
        assert_int_equal(t.state, PAGE_CULLED);
        assert_int_equal(t.at.ns, T0 + GRACE);
        assert_name(fix_latest(f).name, names[3]);
        fix_upkeep(f);
    }
    fixture_free(f);
}

static void bucket_no_longer_configured_is_culled_all_the_same(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct err_note note = { "" };
    store_time next;
    (void)fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    pages_free(&f->pages);
    const struct pages_opts none = { .engine = f->engine, .clock = &f->clock.clock, .seed = 7 };
    assert_int_equal(pages_new(&none, &f->pages, &note), ERR_OK);
    assert_null(pages_find(f->pages, STR("page")));
    fake_clock_advance(&f->clock, GRACE);
    assert_int_equal(sync_upkeep(f->pages, &next), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    assert_int_equal(fix_latest(f).name.rev, 2);
    fixture_free(f);
}

static void condition_of_the_caller_is_judged_where_it_is_decided(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put p = { .domain = f->domain,
                          .title = STR("T"),
                          .rev = 3,
                          .contents_count = 1,
                          .condition.none_match.kind = MATCH_ANY };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    assert_int_equal(sync_put(f->bucket, &p), ERR_PRECONDITION);
    const struct page_name first = p.stored;
    p.rev = 4;
    p.condition =
        (struct page_condition){ .match = { .kind = MATCH_LISTED, .names = &first, .count = 1 } };
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    assert_int_equal(fix_history(f), 2);
    fixture_free(f);
}

static void policy_that_contradicts_itself_is_refused(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_bucket_opts opts[4];
    for (unsigned i = 0; i < COUNT_OF(opts); i++)
        opts[i] =
            (struct page_bucket_opts){ .name = "other", .policy = fix_policy(POLICY_INTERVAL) };
    opts[0].policy.count = 0;
    opts[1].policy.count = PAGE_POLICY_COUNT_MAX + 1;
    opts[2].policy.interval_ns = 0;
    opts[3].policy.grace_ttl_ns = -1;
    for (unsigned i = 0; i < COUNT_OF(opts); i++) {
        struct err_note note = { "" };
        struct pages *p = NULL;
        const struct pages_opts one = { f->engine, &f->clock.clock, 1, &opts[i], 1 };
        assert_int_equal(pages_new(&one, &p, &note), ERR_BAD);
        assert_null(p);
        assert_true(note.text[0] != 0);
    }
    fixture_free(f);
}

/* ---- orders ---- */

static void purge_fences_and_promotes(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name a = fix_put(f, 1, 0), b = fix_put(f, 2, 1);
    struct page_put p = { 0 };
    struct page_trace t;
    struct page_order o = { 0 };
    fake_clock_advance(&f->clock, 10 * NS_PER_S);
    assert_int_equal(fix_order(f, ORDER_PURGE, b, &o), ERR_OK);
    assert_int_equal(o.purged, 1);
    assert_name(fix_latest(f).name, a);
    assert_int_equal(fix_latest(f).due_at.ns, INT64_MAX);
    assert_int_equal(fix_gone(f, b, &t), ERR_GONE);
    assert_int_equal(t.state, PAGE_PURGED);
    assert_int_equal(t.at.ns, T0 + 10 * NS_PER_S);
    assert_int_equal(fix_put_as(f, 2, 1, "again", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_PURGED);
    assert_int_equal(fix_put_as(f, 2, 2, "another render", &p), ERR_OK);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 2 }, &o), ERR_OK);
    assert_int_equal(fix_put_as(f, 2, 10, "not newer than the purge", &p), ERR_GONE);
    assert_int_equal(fix_put_as(f, 2, 11, "newer", &p), ERR_OK);
    assert_int_equal(fix_put_as(f, 3, 9, "of another revision", &p), ERR_OK);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 3);
    assert_int_equal(fix_put_as(f, 3, 10, "late", &p), ERR_GONE);
    assert_int_equal(fix_put_as(f, 1, -1, "minted after the fence", &p), ERR_OK);
    assert_true(tid_time(p.stored.tid).ns > T0 + 10 * NS_PER_S);
    assert_name(fix_latest(f).name, p.stored);
    fixture_free(f);
}

static void purge_of_very_many_takes_several_updates(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    for (uint64_t rev = 1; rev <= 4500; rev++)
        (void)fix_put(f, rev, 1);
    struct page_order o = { 0 };
    unsigned told = f->told;
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(o.purged, 4500);
    assert_int_equal(f->told - told, 3); /* once for each update */
    assert_int_equal(fix_history(f), 0);
    assert_int_equal(traces_stored(f->engine), 4500);
    fixture_free(f);
}

/* The purge of the first update joins the fences; those that follow go on with the purge. */
static void purge_that_joins_fences_takes_very_many(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_order o = { 0 };
    for (uint64_t rev = 2; rev <= PAGE_FENCES_MAX + 1; rev++)
        assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = rev }, &o), ERR_OK);
    fake_clock_advance(&f->clock, NS_PER_S);
    for (unsigned i = 0; i < 4500; i++)
        (void)fix_put(f, 1, -1);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(o.purged, 4500);
    assert_int_equal(fix_history(f), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 1);
    fixture_free(f);
}

static void fence_stands_when_its_traces_are_forgotten(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_put p = { 0 };
    struct page_name old = fix_put(f, 1, 0);
    fake_clock_advance(&f->clock, 10 * NS_PER_S);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    fake_clock_advance(&f->clock, 10 * 365 * 24 * HOUR);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(fix_put_as(f, 1, 0, "an import, again", &p), ERR_GONE);
    assert_int_equal(p.trace.state, PAGE_PURGED);
    assert_int_equal(fix_find(f, SELECT_EXACT, old, &(struct page_render){ 0 }, NULL),
                     ERR_NOT_FOUND);
    fixture_free(f);
}

static void many_fences_become_one(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_put p = { 0 };
    for (uint64_t rev = 1; rev <= PAGE_FENCES_MAX; rev++)
        assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = rev }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), PAGE_FENCES_MAX + 1);
    assert_int_equal(fix_put_as(f, PAGE_FENCES_MAX, 0, "x", &p), ERR_GONE);
    assert_int_equal(fix_put_as(f, 1000, 0, "x", &p), ERR_OK);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 5000 }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 1);
    assert_int_equal(fix_put_as(f, 1001, 0, "x", &p), ERR_GONE);
    assert_int_equal(fix_latest(f).name.rev, 1000);
    fixture_free(f);
}

static void release_of_very_many_takes_several_updates(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    enum { RENDERS = 2500 };
    struct page_order o = { 0 };
    fake_clock_advance(&f->clock, RENDERS * NS_PER_S);
    for (int i = 0; i < RENDERS; i++) {
        struct page_name name = fix_put(f, 1, i);
        o.until.ns = T0 + 30 * HOUR;
        assert_int_equal(fix_order(f, ORDER_HOLD, name, &o), ERR_OK);
    }
    unsigned told = f->told;
    assert_int_equal(fix_order(f, ORDER_RELEASE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(f->told - told, 3); /* once for each update */
    assert_int_equal(o.render.hold_until.ns, 0);
    for (int i = 0; i < RENDERS; i += 100) {
        const struct page_name name = { .rev = 1, .tid = tid_at(T0 + i * NS_PER_S, 1) };
        assert_int_equal(fix_exact(f, name).hold_until.ns, 0);
    }
    fixture_free(f);
}

static void pins_hold_until_they_are_released(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name a = fix_put(f, 1, -1);
    struct page_order o = { .until = { T0 + 30 * HOUR } };
    struct page_trace t;
    assert_int_equal(fix_order(f, ORDER_EXTEND, a, &o),
                     ERR_OK); /* the latest: for when it is superseded */
    assert_int_equal(fix_latest(f).requested_until.ns, T0 + HOUR + HOUR / 4);
    assert_int_equal(fix_latest(f).due_at.ns, INT64_MAX);
    (void)fix_put(f, 2, -1);
    o.until.ns = T0 + 30 * HOUR;
    assert_int_equal(fix_order(f, ORDER_HOLD, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(o.render.due_at.ns, T0 + 30 * HOUR);
    fake_clock_advance(&f->clock, 20 * HOUR);
    fix_upkeep(f);
    assert_int_equal(fix_exact(f, a).state, PAGE_HELD);
    assert_int_equal(fix_order(f, ORDER_RELEASE, (struct page_name){ .rev = 1 }, &o), ERR_OK);
    assert_int_equal(fix_gone(f, a, &t), ERR_GONE);
    assert_int_equal(t.at.ns, T0 + 20 * HOUR); /* readable until then */
    o.until.ns = T0;
    assert_int_equal(fix_order(f, ORDER_HOLD, (struct page_name){ .rev = 2 }, &o), ERR_BAD);
    assert_int_equal(fix_order(f, ORDER_HOLD, (struct page_name){ .rev = 9 }, &o), ERR_NOT_FOUND);
    assert_int_equal(fix_order(f, ORDER_STASH, a, &o), ERR_GONE);
    fixture_free(f);
}

static void extension_is_written_only_when_less_is_left(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name a = fix_put(f, 1, -1);
    struct page_order o = { 0 };
    (void)fix_put(f, 2, -1);
    assert_int_equal(fix_order(f, ORDER_EXTEND, a, &o), ERR_OK);
    store_time due = fix_exact(f, a).due_at;
    assert_int_equal(due.ns, T0 + HOUR + HOUR / 4);
    fake_clock_advance(&f->clock, HOUR / 4);
    struct page_render r = fix_exact(f, a);
    assert_false(page_wants_extension(f->bucket, &r, (store_time){ f->clock.now_ns }));
    assert_int_equal(fix_order(f, ORDER_EXTEND, a, &o), ERR_OK);
    assert_int_equal(fix_exact(f, a).due_at.ns, due.ns);
    fake_clock_advance(&f->clock, 1);
    assert_true(page_wants_extension(f->bucket, &r, (store_time){ f->clock.now_ns }));
    assert_int_equal(r.state, PAGE_HISTORICAL);
    assert_int_equal(fix_order(f, ORDER_EXTEND, a, &o), ERR_OK);
    assert_int_equal(fix_exact(f, a).due_at.ns, due.ns + HOUR / 4 + 1);
    fixture_free(f);
}

static void culled_render_put_again_lives_a_full_grace(void **state)
{
    (void)state; /* unused */
    for (int culled = 0; culled < 2; culled++) {
        struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
        struct page_name a = fix_put(f, 1, 0);
        (void)fix_put(f, 2, 1);
        fake_clock_advance(&f->clock, GRACE);
        if (culled)
            fix_upkeep(f);
        struct page_name again = fix_put(f, 1, 0);
        assert_name(a, again);
        assert_int_equal(fix_exact(f, a).due_at.ns, T0 + 2 * GRACE);
        assert_int_equal(traces_stored(f->engine), 0);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE),
                         culled ? 2 : 1); /* its trace's finds nothing, later */
        fixture_free(f);
    }
}

static void traces_of_a_step_are_filed_and_forgotten_together(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST_HASH));
    enum { CULLED = 6000 }; /* more than one update looks at */
    for (uint64_t rev = 1; rev <= CULLED + 1; rev++)
        (void)fix_put(f, rev, 1);
    fake_clock_advance(&f->clock, 7 * HOUR);
    (void)fix_put(f, CULLED + 2, 1);
    assert_int_equal(traces_stored(f->engine), CULLED + 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 2);
    fake_clock_advance(&f->clock, 237 * HOUR); /* 244 behind the first: a step is 3.75 */
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 1);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 1);
    fake_clock_advance(&f->clock, 13 * HOUR);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_TITLE), 0);
    fixture_free(f);
}

/* As a store before had them: each trace in a row and under a due row of its own. */
static err file_alone(struct engine_txn *t, void *ctx)
{
    const struct engine_range all = { .space = SPACE_LEDGER };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &all);
    struct engine_row row;
    char key[600], value[OLD_TRACE_BYTES_MAX];
    struct page_key_parts parts;
    struct page_traces traces;
    err e = engine_cursor_next(c, &row);
    (void)ctx; /* the only trace there is */
    if (e == ERR_OK)
        assert_true(page_key_parse(row.key, &parts));
    if (e == ERR_OK) {
        put_be64(key, (uint64_t)(T0 + GRACE + 240 * HOUR) ^ (uint64_t)1 << 63);
        key[8] = 2;
        memcpy(key + 9, row.key.p, row.key.n);
        e = page_traces_decode(row.value, parts.name, &traces);
    }
    size_t n = 9 + row.key.n;
    engine_cursor_close(&c);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_DUE, (str){ key, n }, STR(""), STR_NONE);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_LEDGER, (str){ key + 9, n - 9 },
                           old_trace(&traces.trace[0], value), STR_NONE);
    const struct engine_range dues = { .space = SPACE_DUE, .reversed = true };
    c = engine_cursor_open(engine_txn_view(t), &dues);
    if (e == ERR_OK)
        e = engine_cursor_next(c, &row);
    if (e == ERR_OK) {
        memcpy(key, row.key.p, row.key.n);
        e = engine_txn_delete(t, SPACE_DUE, (str){ key, row.key.n });
    }
    engine_cursor_close(&c);
    return e;
}

static void traces_of_a_store_before_are_forgotten_too(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_trace t;
    struct page_name old = fix_put(f, 1, 0);
    (void)fix_put(f, 2, 1);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_update_wait(f->engine, file_alone, NULL), ERR_OK);
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_OK);
    assert_int_equal(fix_gone(f, old, &t), ERR_GONE);
    fake_clock_advance(&f->clock, 240 * HOUR);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

static err lose_title(struct engine_txn *t, void *ctx)
{
    const struct engine_range all = { .space = SPACE_TITLE };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &all);
    struct engine_row row;
    char key[600];
    err e = engine_cursor_next(c, &row);
    (void)ctx; /* the only title there is */
    if (e == ERR_OK) {
        memcpy(key, row.key.p, row.key.n);
        e = engine_txn_delete(t, SPACE_TITLE, (str){ key, row.key.n });
    }
    engine_cursor_close(&c);
    return e;
}

static void traces_nobody_counts_are_forgotten_and_hold_up_nothing(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    (void)fix_put(f, 1, 0);
    (void)fix_put(f, 2, 1);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 1);
    assert_int_equal(engine_update_wait(f->engine, lose_title, NULL), ERR_OK);
    fake_clock_advance(&f->clock, (240 + 6) * HOUR);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

static void ledger_of_a_title_is_bounded(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST_HASH));
    for (uint64_t rev = 1; rev <= PAGE_TITLE_TRACES_MAX + 20; rev++)
        (void)fix_put(f, rev, 1);
    struct page_trace t;
    uint64_t traces = traces_stored(f->engine);
    assert_in_range(traces, PAGE_TITLE_TRACES_MAX - PAGE_LEDGER_DROP, PAGE_TITLE_TRACES_MAX);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 1); /* all were culled at one instant */
    const uint64_t lowest = PAGE_TITLE_TRACES_MAX + 20 - traces;
    struct tid tid = tid_at(T0 + NS_PER_S, 1);
    assert_int_equal(fix_gone(f, (struct page_name){ .rev = lowest - 1, .tid = tid }, &t),
                     ERR_NOT_FOUND);
    assert_int_equal(fix_gone(f, (struct page_name){ .rev = lowest, .tid = tid }, &t), ERR_GONE);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(r0011_what_ran_out_stays_gone_when_a_purge_thins_its_group),
        cmocka_unit_test(bucket_no_longer_configured_is_culled_all_the_same),
        cmocka_unit_test(condition_of_the_caller_is_judged_where_it_is_decided),
        cmocka_unit_test(policy_that_contradicts_itself_is_refused),
        cmocka_unit_test(purge_fences_and_promotes),
        cmocka_unit_test(purge_of_very_many_takes_several_updates),
        cmocka_unit_test(purge_that_joins_fences_takes_very_many),
        cmocka_unit_test(fence_stands_when_its_traces_are_forgotten),
        cmocka_unit_test(many_fences_become_one),
        cmocka_unit_test(release_of_very_many_takes_several_updates),
        cmocka_unit_test(pins_hold_until_they_are_released),
        cmocka_unit_test(extension_is_written_only_when_less_is_left),
        cmocka_unit_test(culled_render_put_again_lives_a_full_grace),
        cmocka_unit_test(traces_of_a_step_are_filed_and_forgotten_together),
        cmocka_unit_test(traces_of_a_store_before_are_forgotten_too),
        cmocka_unit_test(traces_nobody_counts_are_forgotten_and_hold_up_nothing),
        cmocka_unit_test(ledger_of_a_title_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
