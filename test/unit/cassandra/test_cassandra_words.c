/* Goal: what the wiki says of a title holds on Cassandra as in the embedded store, in all its
 * buckets, whichever of two servers hears it.
 * Method: random histories of words, marks, puts under words, orders, words that are forgotten and
 * waits, on a clock that stands. Each request goes to the embedded store and to one of two servers
 * that share a cluster; after each step both are asked for all that a reader can ask, of the other
 * server too. The seed is printed; CASSANDRA_SEED sets it. A real Cassandra (real.h). */
#include "real.h"

#include "../bucket/fixture.h"
#include "base/rng.h"
#include "bucket/pages.h"
#include "cassandra/pages.h"
#include "cassandra/words.h"
#include "engine/store.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HISTORIES = 10, STEPS = 40, NAMES_MAX = 20, REVS = 5, SERVERS = 2, BUCKETS = 3 };

struct both {
    struct fake_clock clock;
    struct engine *engine; /* the embedded store */
    struct pages *pages;
    struct page_bucket *there[BUCKETS];
    uint32_t domain_there;
    struct cassandra_pages *servers[SERVERS];
    struct page_bucket *here[SERVERS][BUCKETS];
    uint32_t domain;
    unsigned server; /* of this step */
    char title[32];
    struct rng rng;
    struct page_name names[BUCKETS][NAMES_MAX];
    unsigned names_count[BUCKETS], texts;
    struct title_word said; /* by the wiki, the last time */
    struct title_word last; /* as the store has it, when heard */
    bool heard;
    store_time heard_at; /* the last hearing */
    unsigned news, changed, above, first, denied, forgotten, dated;
    struct arena arena;
};

static uint64_t below(struct both *b, uint64_t bound)
{
    return rng_below(&b->rng, bound);
}

static store_time now_of(struct both *b)
{
    return clock_store(&b->clock.clock);
}

static void run(enum store_start start)
{
    if (start == STORE_LATER)
        real_wait("a call");
}

static void same_why(err there, err here, const char *what, const char *note)
{
    if (there != here)
        print_message("%s: %s there, %s here (%s)\n", what, err_name(there), err_name(here), note);
    assert_int_equal(there, here);
}

static void same_word(const struct title_word *a, const struct title_word *b)
{
    assert_true(title_word_eq(a, b));
    assert_int_equal(a->said, b->said);
    assert_int_equal(a->asked_at.ns, b->asked_at.ns);
    assert_true(a->there == b->there);
}

static void same_under(struct title_under a, struct title_under b)
{
    assert_int_equal(a.touched, b.touched);
    assert_int_equal(a.said, b.said);
    assert_int_equal(a.asked_at.ns, b.asked_at.ns);
}

/* One hearing has a time of its own in each bucket: the clock of the test stands, so they are a
 * nanosecond apart. */
static void same_time(store_time a, store_time b)
{
    bool same = a.ns == b.ns || (b.ns > a.ns && b.ns - a.ns < BUCKETS);
    if (!same)
        fail_msg("%lld there, %lld here", (long long)a.ns, (long long)b.ns);
}

/* ---- reading ---- */

static void same_read(struct both *b, unsigned bucket, unsigned server, enum page_select select,
                      struct page_name name)
{
    struct page_read x = {
        .bucket = b->there[bucket],
        .which = { .title = STR("T"), .select = select, .name = name },
        .arena = &b->arena,
        .heeds = true,
    };
    struct page_read y = x;
    x.which.domain = b->domain_there;
    assert_int_equal(page_store_read(pages_store(b->pages), &x), STORE_DONE);
    y.call = real_call();
    y.bucket = b->here[server][bucket];
    y.which.domain = b->domain;
    y.which.title = str_of(b->title);
    run(cassandra_pages_read(b->servers[server], &y));
    same_why(x.call.why, y.call.why, "read", "");
    assert_int_equal(x.heard, y.heard);
    if (x.heard)
        same_word(&x.word, &y.word);
    b->heard = x.heard;
    b->last = x.word;
    if (x.call.why == ERR_GONE) {
        assert_name(x.trace.name, y.trace.name);
        assert_int_equal(x.trace.state, y.trace.state);
    }
    if (x.call.why != ERR_OK)
        return;
    assert_name(x.render.name, y.render.name);
    same_time(x.render.superseded_at, y.render.superseded_at);
    same_time(x.render.due_at, y.render.due_at);
    assert_int_equal(x.render.state, y.render.state);
    assert_int_equal(x.render.hidden, y.render.hidden);
    same_under(x.render.made, y.render.made);
    assert_int_equal(x.dated, y.dated);
    b->dated += x.dated != DATED_NOT;
}

static void same_known(struct both *b, unsigned server)
{
    struct page_knows k = { .call = real_call(), .domain = b->domain, .title = str_of(b->title) };
    struct page_knows there = { .domain = b->domain_there, .title = STR("T") };
    assert_int_equal(page_store_knows(pages_store(b->pages), &there), STORE_DONE);
    run(cassandra_pages_knows(b->servers[server], &k));
    same_why(there.call.why, k.call.why, "knows", "");
    assert_int_equal(there.known, k.known);
}

static void same_revs(struct both *b, unsigned server)
{
    struct page_revs x = { .title = STR("T"), .below = 1 + below(b, REVS + 3) };
    if (below(b, 2) == 0)
        x.since.ns = now_of(b).ns - (int64_t)below(b, 100) * NS_PER_S;
    struct page_revs y = x;
    x.domain = b->domain_there;
    assert_int_equal(page_store_revs(pages_store(b->pages), &x), STORE_DONE);
    y.call = real_call();
    y.domain = b->domain;
    y.title = str_of(b->title);
    run(cassandra_pages_revs(b->servers[server], &y));
    same_why(x.call.why, y.call.why, "revs", "");
    assert_int_equal(x.count, y.count);
    assert_true(x.next == y.next);
    for (unsigned i = 0; i < x.count; i++)
        assert_true(x.revs[i] == y.revs[i]);
}

/* Each server sees what the other one wrote. */
static void same_all(struct both *b)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        unsigned server = (unsigned)below(b, SERVERS);
        same_read(b, i, server, SELECT_LATEST, (struct page_name){ .rev = 0 });
        for (uint64_t rev = 1; rev <= REVS; rev++)
            same_read(b, i, server, SELECT_REV, (struct page_name){ .rev = rev });
        for (unsigned k = 0; k < b->names_count[i]; k++)
            same_read(b, i, server, SELECT_EXACT, b->names[i][k]);
    }
    same_known(b, (unsigned)below(b, SERVERS));
    same_revs(b, (unsigned)below(b, SERVERS));
    arena_reset(&b->arena);
}

/* ---- the wiki ---- */

static int64_t wiki_now(struct both *b)
{
    return now_of(b).ns / NS_PER_S;
}

/* Most often what it said before; and it was asked now, or a while ago. */
static struct title_word wiki_says(struct both *b)
{
    struct title_word w = b->said;
    if (w.said == 0 || below(b, 3) != 0) {
        w = (struct title_word){ .missing = below(b, 6) == 0 };
        w.page_id = w.missing ? 0 : 1 + (below(b, 8) == 0);
        w.rev = w.missing ? 0 : 1 + below(b, REVS);
        w.touched = w.missing ? 0 : wiki_now(b) - (int64_t)below(b, 6) * 5;
        w.redirect = !w.missing && below(b, 10) == 0;
    }
    w.said = wiki_now(b);
    w.asked_at = now_of(b);
    w.there = 0;
    b->said = w;
    if (below(b, 6) == 0)
        w.asked_at.ns -= (int64_t)below(b, 30) * NS_PER_S;
    return w;
}

static struct title_mark some_mark(struct both *b)
{
    static const enum page_state states[] = { PAGE_CURRENT, PAGE_SUPPRESSED, PAGE_DELETED };
    struct title_mark m = { .state = states[below(b, COUNT_OF(states))],
                            .first = 1 + below(b, REVS),
                            .said_at = now_of(b) };
    m.last = m.first + below(b, 3);
    return m;
}

/* What hides is a fact of each hearing on Cassandra, and the embedded store keeps the first one
 * (docs/adr/0044). So what was asked for before the last hearing says nothing (WORD_OLD), or was
 * asked for behind that. */
static void ask_behind(struct both *b, struct title_word *w)
{
    bool old = b->heard && store_time_before(w->asked_at, b->last.asked_at);
    if (!old)
        w->asked_at = store_time_max(w->asked_at, store_time_add(b->heard_at, 1));
}

static void hear_both(struct both *b)
{
    struct title_mark marks[3];
    struct title_word w = wiki_says(b);
    ask_behind(b, &w);
    b->heard_at = now_of(b);
    struct page_hear x = { .title = STR("T"), .marks = marks };
    bool words = below(b, 5) != 0;
    x.word = words ? &w : NULL;
    x.marks_count = words && below(b, 2) == 0 ? 0 : 1 + (unsigned)below(b, COUNT_OF(marks));
    for (unsigned i = 0; i < x.marks_count; i++)
        marks[i] = some_mark(b);
    x.believe = below(b, 4) == 0;
    x.behind = below(b, 6) == 0;
    x.doubted = words && below(b, 5) == 0;
    x.there = words && below(b, 6) == 0 ? 1 + below(b, REVS) : 0;
    struct page_hear y = x;
    x.domain = b->domain_there;
    err e = sync_hear(b->pages, &x);
    y.call = real_call();
    y.domain = b->domain;
    y.title = str_of(b->title);
    run(cassandra_pages_hear(b->servers[b->server], &y));
    same_why(e, y.call.why, "hear", "");
    if (words || x.behind)
        assert_int_equal(x.is, y.is);
    assert_int_equal(x.echoes, y.echoes);
    assert_int_equal(x.had, y.had);
    assert_int_equal(x.changed, y.changed);
    assert_true(x.above == y.above);
    assert_true(x.above == 0 || x.known == y.known);
    b->news += words && x.is == WORD_NEWS;
    b->changed += x.changed;
    b->above += x.above != 0;
}

/* ---- renders ---- */

static void put_both(struct both *b)
{
    unsigned bucket = (unsigned)below(b, BUCKETS);
    struct title_word under = wiki_says(b);
    char html[40];
    if (below(b, 8) != 0)
        b->texts++;
    if (below(b, 8) == 0)
        under.asked_at.ns = 0; /* of another server */
    (void)snprintf(html, sizeof html, "text %u", b->texts);
    struct page_put x = {
        .title = STR("T"),
        .rev = !under.missing && below(b, 2) == 0 ? under.rev : 1 + below(b, REVS),
        .has_tid = true,
        .tid = tid_at(now_of(b).ns - (int64_t)below(b, 4) * 7 * NS_PER_S, 1 + below(b, 100)),
        .stash_ns = below(b, 8) == 0 ? 30 * NS_PER_S : 0,
        .asked = below(b, 4) == 0,
        .heeds = true,
        .word = below(b, 4) == 0 ? NULL : &under,
        .revised = below(b, 2) == 0 ? under.touched : 0,
        .contents_count = 1,
        .contents = { { .name = STR("html"), .raw = str_of(html) } },
    };
    struct page_put y = x;
    x.domain = b->domain_there;
    err e = sync_put(b->there[bucket], &x);
    y.call = real_call();
    y.bucket = b->here[b->server][bucket];
    y.domain = b->domain;
    y.title = str_of(b->title);
    y.arena = &b->arena;
    run(cassandra_pages_put(b->servers[b->server], &y));
    same_why(e, y.call.why, "put", y.note.text);
    b->denied += e == ERR_GONE;
    if (e != ERR_OK)
        return;
    assert_int_equal(x.created, y.created);
    assert_int_equal(x.latest, y.latest);
    assert_int_equal(x.first, y.first);
    assert_int_equal(x.pinned_ns, y.pinned_ns);
    assert_name(x.stored, y.stored);
    same_under(x.before, y.before);
    b->first += x.first;
    if (x.created && b->names_count[bucket] < NAMES_MAX)
        b->names[bucket][b->names_count[bucket]++] = x.stored;
}

static void order_as(struct both *b, unsigned bucket, struct page_order x)
{
    struct page_order y = x;
    x.domain = b->domain_there;
    err e = sync_order(b->there[bucket], &x);
    y.call = real_call();
    y.bucket = b->here[b->server][bucket];
    y.domain = b->domain;
    y.title = str_of(b->title);
    run(cassandra_pages_order(b->servers[b->server], &y));
    same_why(e, y.call.why, "order", y.note.text);
    assert_int_equal(x.purged, y.purged);
}

static void order_both(struct both *b)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_STASH,   ORDER_UNSTASH,
                                                  ORDER_HOLD,   ORDER_RELEASE, ORDER_PURGE };
    unsigned bucket = (unsigned)below(b, BUCKETS);
    if (b->names_count[bucket] == 0)
        return;
    struct page_order x = { .kind = kinds[below(b, COUNT_OF(kinds))],
                            .title = STR("T"),
                            .has_rev = true,
                            .has_tid = true,
                            .name = b->names[bucket][below(b, b->names_count[bucket])],
                            .until = { now_of(b).ns + 200 * NS_PER_S } };
    if (x.kind == ORDER_PURGE && below(b, 3) == 0) {
        x.has_rev = x.has_tid = false;
        x.name = (struct page_name){ .rev = 0 };
    }
    order_as(b, bucket, x);
}

/* Often of a title that was purged as a whole. */
static void forget_both(struct both *b)
{
    const str there[] = { STR("T"), STR("unknown") };
    const str here[] = { str_of(b->title), STR("unknown") };
    store_time next;
    fake_clock_advance(&b->clock,
                       (1 + (int64_t)below(b, 3)) * 30 * NS_PER_S); /* behind the horizon */
    for (unsigned i = 0; i < BUCKETS && below(b, 8) != 0; i++)
        order_as(b, i, (struct page_order){ .kind = ORDER_PURGE, .title = STR("T") });
    assert_int_equal(sync_upkeep(b->pages, &next), ERR_OK);
    struct page_forget x = { .domain = b->domain_there,
                             .titles = there,
                             .count = COUNT_OF(there),
                             .before = { now_of(b).ns - 60 * NS_PER_S } };
    struct page_forget y = x;
    err e = sync_forget(b->pages, &x);
    y.call = real_call();
    y.domain = b->domain;
    y.titles = here;
    run(cassandra_pages_forget(b->servers[b->server], &y));
    same_why(e, y.call.why, "forget", "");
    assert_int_equal(x.forgotten, y.forgotten);
    b->forgotten += x.forgotten;
}

static void tidy_both(struct both *b)
{
    store_time next;
    assert_int_equal(sync_upkeep(b->pages, &next), ERR_OK);
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct cassandra_cull c = { .call = real_call(),
                                    .bucket = b->here[b->server][i],
                                    .domain = b->domain,
                                    .title = str_of(b->title) };
        run(cassandra_pages_cull(b->servers[b->server], &c));
        assert_int_equal(c.call.why, ERR_OK);
    }
}

/* ---- histories ---- */

static void both_begin(struct both *b, uint64_t seed, unsigned number)
{
    static const enum page_policy_kind kinds[] = { POLICY_APP_TTL, POLICY_ALL, POLICY_LATEST,
                                                   POLICY_INTERVAL, POLICY_TTL };
    const struct page_bucket_opts buckets[BUCKETS] = {
        { .name = "page", .policy = fix_policy(kinds[number % COUNT_OF(kinds)]) },
        { .name = "mobile", .policy = fix_policy(kinds[(number + 2) % COUNT_OF(kinds)]) },
        { .name = "notes", .policy = fix_policy(POLICY_APP_TTL), .deaf = true },
    };
    struct err_note note = { .text = "" };
    *b = (struct both){ .texts = 0 };
    rng_init(&b->rng, seed);
    fake_clock_init(&b->clock, T0);
    arena_init(&b->arena, 16 << 20);
    (void)snprintf(b->title, sizeof b->title, "History_%u", number);
    b->engine = engine_mem_new(&b->clock.clock);
    const struct pages_opts there = { b->engine, &b->clock.clock, 7, buckets, BUCKETS };
    assert_int_equal(pages_new(&there, &b->pages, &note), ERR_OK);
    assert_int_equal(pages_domain(b->pages, STR("en.example.test"), &b->domain_there), ERR_OK);
    for (unsigned s = 0; s < SERVERS; s++) {
        const struct cassandra_pages_opts here = { .titles = the.titles,
                                                   .clock = &b->clock.clock,
                                                   .srv = 1 + s,
                                                   .write_timeout_ns = 10 * NS_PER_S,
                                                   .buckets = buckets,
                                                   .buckets_count = BUCKETS,
                                                   .each_quorum = s == 1 };
        b->servers[s] = cassandra_pages_new(&here, &note);
        assert_non_null(b->servers[s]);
        assert_int_equal(cassandra_pages_domain(b->servers[s], STR("en.wikipedia.org"), &b->domain),
                         ERR_OK);
        for (unsigned i = 0; i < BUCKETS; i++)
            b->here[s][i] = cassandra_pages_bucket(b->servers[s], str_of(buckets[i].name));
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        b->there[i] = pages_find(b->pages, str_of(buckets[i].name));
}

static void both_end(struct both *b)
{
    assert_int_equal(pages_check(b->pages, damage_found, NULL), ERR_OK);
    for (unsigned s = 0; s < SERVERS; s++)
        cassandra_pages_free(&b->servers[s]);
    pages_free(&b->pages);
    engine_close(&b->engine);
    arena_fini(&b->arena);
}

static void step(struct both *b)
{
    static const int64_t waits_s[] = { 0, 0, 0, 1, 5, 40, 120, 4000, 11 * 86400 };
    uint64_t what = below(b, 100);
    fake_clock_advance(&b->clock, NS_PER_S + waits_s[below(b, COUNT_OF(waits_s))] * NS_PER_S);
    b->server = (unsigned)below(b, SERVERS);
    if (what < 40)
        put_both(b);
    else if (what < 80)
        hear_both(b);
    else if (what < 92)
        order_both(b);
    else if (what < 96)
        forget_both(b);
    else
        tidy_both(b);
}

static void histories_are_the_same_on_both_stores(void **state)
{
    (void)state;
    const char *given = getenv("CASSANDRA_SEED"), *many = getenv("CASSANDRA_HISTORIES");
    uint64_t seed = (uint64_t)time(NULL), histories = HISTORIES;
    if (given != NULL)
        assert_true(str_to_u64(str_of(given), &seed));
    if (many != NULL)
        assert_true(str_to_u64(str_of(many), &histories));
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng seeds;
    rng_init(&seeds, seed);
    for (unsigned i = 0; i < histories; i++) {
        static struct both b;
        both_begin(&b, rng_next(&seeds), i);
        for (unsigned k = 0; k < STEPS; k++) {
            step(&b);
            same_all(&b);
        }
        print_message("%u: %u news, %u changed, %u above, %u first, %u denied, %u dated, %u "
                      "forgotten\n",
                      i, b.news, b.changed, b.above, b.first, b.denied, b.dated, b.forgotten);
        both_end(&b);
    }
}

static void a_note_is_read_as_it_was_written(void **state)
{
    (void)state;
    static struct both b;
    both_begin(&b, 1, 900);
    struct cassandra_note_get g = { .call = real_call(),
                                    .domain = b.domain,
                                    .note = PAGE_NOTE_REDO };
    run(cassandra_pages_note_get(b.servers[0], &g));
    assert_int_equal(g.call.why, ERR_NOT_FOUND);
    for (unsigned i = 0; i < 3; i++) {
        const str texts[] = { STR("one"), STR(""), STR("another") };
        struct page_note_put p = {
            .call = real_call(), .domain = b.domain, .note = PAGE_NOTE_SWEEP, .bytes = texts[i]
        };
        run(cassandra_pages_note_put(b.servers[i % SERVERS], &p));
        assert_int_equal(p.call.why, ERR_OK);
        g = (struct cassandra_note_get){ .call = real_call(),
                                         .domain = b.domain,
                                         .note = PAGE_NOTE_SWEEP };
        run(cassandra_pages_note_get(b.servers[1], &g));
        assert_int_equal(g.call.why, ERR_OK);
        assert_true(str_eq((str){ .p = g.bytes, .n = g.n }, texts[i]));
        fake_clock_advance(&b.clock, NS_PER_S);
    }
    both_end(&b);
}

/* ---- rows ---- */

static struct words_load words_of(struct both *b)
{
    struct words_load l = { .call = real_call(),
                            .domain = STR("en.wikipedia.org"),
                            .title = str_of(b->title) };
    run(words_load(the.titles, &l));
    assert_int_equal(l.call.why, ERR_OK);
    return l;
}

static void hear_news(struct both *b, uint64_t rev)
{
    struct title_word w = {
        .page_id = 1, .rev = rev, .touched = wiki_now(b), .said = wiki_now(b), .asked_at = now_of(b)
    };
    struct page_hear h = {
        .call = real_call(), .domain = b->domain, .title = str_of(b->title), .word = &w
    };
    run(cassandra_pages_hear(b->servers[rev % SERVERS], &h));
    assert_int_equal(h.call.why, ERR_OK);
    assert_int_equal(h.is, WORD_NEWS);
}

/* A render makes the title known; then one word after the other. */
static void words_before_the_last_are_deleted(void **state)
{
    (void)state;
    static struct both b;
    both_begin(&b, 1, 901);
    put_both(&b);
    for (uint64_t rev = 10; rev < 20; rev++) {
        fake_clock_advance(&b.clock, 60 * NS_PER_S);
        hear_news(&b, rev);
        struct words_load l = words_of(&b);
        assert_true(l.rows <= 3);
        assert_true(words_last(&l)->rev == rev);
    }
    for (uint64_t rev = 20; rev < 30; rev++) { /* another server may still read those */
        fake_clock_advance(&b.clock, NS_PER_MS);
        hear_news(&b, rev);
    }
    struct words_load l = words_of(&b);
    assert_true(l.rows >= 11);
    arena_reset(&b.arena);
    both_end(&b);
}

/* A word that is kept late stays, though it was asked for before the one that is the last: who
 * deletes has not seen it. */
static void a_deletion_spares_words_that_come_later(void **state)
{
    (void)state;
    static struct both b;
    both_begin(&b, 1, 902);
    struct words_put p = { .domain = STR("en.wikipedia.org"), .title = str_of(b.title) };
    const int64_t kept_s[] = { 10, 50, 11 }, asked_s[] = { 5, 6, 9 };
    struct title_said last = { .srv = 0 };
    for (unsigned i = 0; i < COUNT_OF(kept_s); i++) {
        p.call = real_call();
        p.said = (struct title_said){ .word = { .page_id = 1,
                                                .rev = 1 + i,
                                                .touched = 1 + i,
                                                .asked_at = { asked_s[i] * NS_PER_S } },
                                      .at = { kept_s[i] * NS_PER_S },
                                      .srv = i };
        run(words_put(the.titles, &p));
        assert_int_equal(p.call.why, ERR_OK);
        last = p.said;
    }
    assert_int_equal(words_of(&b).rows, 3);
    struct words_drop d = { .call = real_call(),
                            .domain = p.domain,
                            .title = p.title,
                            .before = &last,
                            .horizon = { 20 * NS_PER_S } };
    run(words_drop(the.titles, &d));
    assert_int_equal(d.call.why, ERR_OK);
    struct words_load l = words_of(&b);
    assert_int_equal(l.rows, 2);
    assert_int_equal(l.count, 2);
    assert_true(l.said[0].word.rev == 2 && l.said[1].word.rev == 3);
    both_end(&b);
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
        cmocka_unit_test(a_note_is_read_as_it_was_written),
        cmocka_unit_test(words_before_the_last_are_deleted),
        cmocka_unit_test(a_deletion_spares_words_that_come_later),
        cmocka_unit_test(histories_are_the_same_on_both_stores),
    };
    return cmocka_run_group_tests(tests, setup, real_teardown);
}
