/* Goal: pages on Cassandra answer as the embedded store does.
 * Method: random histories of puts, orders and waits, on a clock that stands, on both stores; after
 * each step both are asked for the latest, for each name, and for the history. The seed is printed;
 * CASSANDRA_SEED sets it. Then two servers that put at once, and a ledger of what they
 * acknowledged. A real Cassandra (real.h). */
#include "real.h"

#include "../bucket/fixture.h"
#include "base/rng.h"
#include "cassandra/pages.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HISTORIES = 12, STEPS = 24, NAMES_MAX = STEPS, REVS = 5 };

struct both {
    struct fixture *f; /* the embedded store */
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    char title[32];
    struct rng rng;
    struct page_name names[NAMES_MAX];
    unsigned names_count, ranges, forgotten;
    struct arena arena;
};

static void call_run(struct store_call *call, enum store_start start)
{
    (void)call;
    if (start == STORE_LATER)
        real_wait("a call");
}

static err shared_read(struct both *b, enum page_select select, struct page_name name,
                       struct page_read *r)
{
    *r = (struct page_read){
        .call = real_call(),
        .bucket = b->bucket,
        .which = { .domain = b->domain, .title = str_of(b->title), .select = select, .name = name },
        .arena = &b->arena,
        .wanted_count = 1,
        .wanted = { STR("html") }
    };
    call_run(&r->call, cassandra_pages_read(b->pages, r));
    return r->call.why;
}

static void same_render(const struct page_render *a, const struct page_render *b)
{
    assert_name(a->name, b->name);
    assert_int_equal(a->superseded_at.ns, b->superseded_at.ns);
    assert_int_equal(a->due_at.ns, b->due_at.ns);
    assert_int_equal(a->state, b->state);
}

static void same_at(struct both *b, enum page_select select, struct page_name name)
{
    struct page_render r;
    struct page_trace t;
    struct page_read q;
    err embedded = fix_find(b->f, select, name, &r, &t);
    err shared = shared_read(b, select, name, &q);
    if (embedded != shared)
        print_message("rev %llu: %s there, %s here\n", (unsigned long long)name.rev,
                      err_name(embedded), err_name(shared));
    assert_int_equal(embedded, shared);
    if (embedded == ERR_OK) {
        same_render(&r, &q.render);
        str raw;
        assert_int_equal(page_body_raw(&q.bodies[0], &b->arena, &raw), ERR_OK);
        assert_true(str_starts(raw, STR("text ")));
    }
    if (embedded == ERR_GONE) {
        assert_name(t.name, q.trace.name);
        assert_int_equal(t.state, q.trace.state);
    }
}

static bool count_render(void *ctx, str title, const struct page_render *r)
{
    (void)title;
    (void)r;
    ++*(unsigned *)ctx;
    return true;
}

static void same_all(struct both *b)
{
    same_at(b, SELECT_LATEST, (struct page_name){ .rev = 0 });
    for (uint64_t rev = 1; rev <= REVS; rev++)
        same_at(b, SELECT_REV, (struct page_name){ .rev = rev });
    for (unsigned i = 0; i < b->names_count; i++)
        same_at(b, SELECT_EXACT, b->names[i]);
    unsigned seen = 0;
    struct page_list l = { .call = real_call(),
                           .bucket = b->bucket,
                           .what = LIST_HISTORY,
                           .domain = b->domain,
                           .title = str_of(b->title),
                           .each = { .render = count_render, .ctx = &seen },
                           .arena = &b->arena };
    call_run(&l.call, cassandra_pages_list(b->pages, &l));
    assert_int_equal(l.call.why, ERR_OK);
    assert_int_equal(seen, fix_history(b->f));
    arena_reset(&b->arena);
}

static void put_both(struct both *b, unsigned step)
{
    uint64_t rev = 1 + rng_below(&b->rng, REVS);
    int64_t ago = (int64_t)rng_below(&b->rng, 4) * 7;
    int64_t at_s = (atomic_load(&b->f->clock.now_ns) - T0) / NS_PER_S;
    at_s = at_s < ago ? at_s : at_s - ago; /* below 0 the store would make the tid */
    bool again = b->names_count > 0 && rng_below(&b->rng, 8) == 0;
    unsigned text = again ? step - 1 : step; /* sometimes the bytes of before */
    char html[32];
    (void)snprintf(html, sizeof html, "text %u of %llu", text, (unsigned long long)rev);
    struct page_put p = { .stash_ns = rng_below(&b->rng, 6) == 0 ? 30 * NS_PER_S : 0,
                          .asked = rng_below(&b->rng, 4) == 0 };
    struct page_put q = p;
    err embedded = fix_put_as(b->f, rev, at_s, html, &p);
    q.call = real_call();
    q.bucket = b->bucket;
    q.domain = b->domain;
    q.title = str_of(b->title);
    q.rev = rev;
    q.has_tid = true;
    q.tid = p.tid;
    q.arena = &b->arena;
    q.contents_count = p.contents_count;
    memcpy(q.contents, p.contents, sizeof q.contents);
    q.contents[0].raw = str_of(html);
    call_run(&q.call, cassandra_pages_put(b->pages, &q));
    if (embedded != q.call.why)
        print_message("put: %s there, %s here (%s)\n", err_name(embedded), err_name(q.call.why),
                      q.note.text);
    assert_int_equal(embedded, q.call.why);
    if (embedded != ERR_OK)
        return;
    assert_int_equal(p.created, q.created);
    assert_int_equal(p.latest, q.latest);
    assert_name(p.stored, q.stored);
    if (p.created && b->names_count < NAMES_MAX)
        b->names[b->names_count++] = p.stored;
}

static void order_both(struct both *b)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_STASH,   ORDER_UNSTASH,
                                                  ORDER_HOLD,   ORDER_RELEASE, ORDER_PURGE };
    enum page_order_kind kind = kinds[rng_below(&b->rng, COUNT_OF(kinds))];
    struct page_name name = b->names[rng_below(&b->rng, b->names_count)];
    if (kind == ORDER_PURGE && rng_below(&b->rng, 3) == 0)
        name.tid = (struct tid){ 0 };
    if (kind == ORDER_PURGE && rng_below(&b->rng, 6) == 0)
        name = (struct page_name){ .rev = 0 };
    struct page_order o = {
        .until = { .ns = atomic_load(&b->f->clock.now_ns) + 200 * NS_PER_S },
        .elsewhere = kind == ORDER_PURGE && rng_below(&b->rng, 4) == 0,
    };
    struct page_order s = o;
    err embedded = fix_order(b->f, kind, name, &o);
    s.call = real_call();
    s.bucket = b->bucket;
    s.domain = b->domain;
    s.title = str_of(b->title);
    s.kind = kind;
    s.has_rev = o.has_rev;
    s.has_tid = o.has_tid;
    s.name = name;
    call_run(&s.call, cassandra_pages_order(b->pages, &s));
    if (embedded != s.call.why)
        print_message("order %d: %s there, %s here (%s)\n", (int)kind, err_name(embedded),
                      err_name(s.call.why), s.note.text);
    assert_int_equal(embedded, s.call.why);
    if (embedded != ERR_OK)
        return;
    assert_int_equal(o.purged, s.purged);
    assert_int_equal(o.pinned_ns, s.pinned_ns);
    if (kind != ORDER_PURGE && kind != ORDER_UNSTASH)
        same_render(&o.render, &s.render);
}

/* Both tidy up; what they answer is the same as before. */
static void cull_both(struct both *b)
{
    struct cassandra_cull c = {
        .call = real_call(), .bucket = b->bucket, .domain = b->domain, .title = str_of(b->title)
    };
    fix_upkeep(b->f);
    call_run(&c.call, cassandra_pages_cull(b->pages, &c));
    if (c.call.why != ERR_OK)
        print_message("cull: %s\n", c.note.text);
    assert_int_equal(c.call.why, ERR_OK);
    b->ranges += c.ranges;
    b->forgotten += c.forgotten;
}

static void history(struct rng *seeds, unsigned number)
{
    static const enum page_policy_kind kinds[] = { POLICY_APP_TTL, POLICY_ALL, POLICY_LATEST,
                                                   POLICY_INTERVAL, POLICY_TTL };
    struct both b = { .names_count = 0 };
    const struct page_policy policy = fix_policy(kinds[number % COUNT_OF(kinds)]);
    const struct page_bucket_opts bucket = { .name = "page", .policy = policy, .codec = PAGE_GZIP };
    struct err_note note = { .text = "" };
    rng_init(&b.rng, rng_next(seeds));
    b.f = fixture_new(policy);
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = &b.f->clock.clock,
                                            .srv = 1,
                                            .write_timeout_ns = 10 * NS_PER_S,
                                            .buckets = &bucket,
                                            .buckets_count = 1 };
    b.pages = cassandra_pages_new(&o, &note);
    assert_non_null(b.pages);
    b.bucket = cassandra_pages_bucket(b.pages, STR("page"));
    assert_int_equal(cassandra_pages_domain(b.pages, STR("en.wikipedia.org"), &b.domain), ERR_OK);
    (void)snprintf(b.title, sizeof b.title, "History_%u", number);
    arena_init(&b.arena, 16 << 20);
    for (unsigned step = 0; step < STEPS; step++) {
        static const int64_t waits_s[] = { 0, 0, 1, 5, 40, 120, 4000, 11 * 86400 };
        fake_clock_advance(&b.f->clock,
                           NS_PER_S + waits_s[rng_below(&b.rng, COUNT_OF(waits_s))] * NS_PER_S);
        if (b.names_count == 0 || rng_below(&b.rng, 2) == 0)
            put_both(&b, step);
        else
            order_both(&b);
        same_all(&b);
        if (rng_below(&b.rng, 4) == 0) {
            cull_both(&b);
            same_all(&b);
        }
    }
    print_message("%s: %u renders put, %u ranges culled, %u facts forgotten\n",
                  page_policy_name(policy.kind), b.names_count, b.ranges, b.forgotten);
    arena_fini(&b.arena);
    cassandra_pages_free(&b.pages);
    fixture_free(b.f);
}

static void histories_are_the_same_on_both_stores(void **state)
{
    (void)state;
    const char *given = getenv("CASSANDRA_SEED");
    uint64_t seed = (uint64_t)time(NULL);
    if (given != NULL)
        assert_true(str_to_u64(str_of(given), &seed));
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng seeds;
    rng_init(&seeds, seed);
    for (unsigned i = 0; i < HISTORIES; i++)
        history(&seeds, i);
}

static void a_policy_without_a_window_is_refused(void **state)
{
    (void)state;
    struct page_policy policy = fix_policy(POLICY_LATEST_HASH);
    struct page_bucket_opts bucket = { .name = "page", .policy = policy };
    struct err_note note = { .text = "" };
    struct cassandra_pages_opts o = { .titles = the.titles,
                                      .clock = the.clock,
                                      .max_skew_ns = 500 * NS_PER_MS,
                                      .buckets = &bucket,
                                      .buckets_count = 1 };
    assert_null(cassandra_pages_new(&o, &note));
    assert_non_null(strstr(note.text, "latest_hash"));
    bucket.policy = fix_policy(POLICY_APP_TTL);
    bucket.policy.grace_ttl_ns = NS_PER_S;
    assert_null(cassandra_pages_new(&o, &note));
}

/* ---- too many renders ---- */

static err put_once(struct cassandra_pages *p, uint32_t domain, unsigned text, struct arena *a)
{
    char html[16];
    (void)snprintf(html, sizeof html, "text %u", text);
    struct page_put q = { .call = real_call(),
                          .bucket = cassandra_pages_bucket(p, STR("page")),
                          .domain = domain,
                          .title = STR("Hot"),
                          .rev = 1,
                          .random = text,
                          .contents_count = 1,
                          .arena = a };
    q.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(html) };
    call_run(&q.call, cassandra_pages_put(p, &q));
    return q.call.why;
}

static void renders_up_to_the_limit(enum page_policy_kind kind, const char *name)
{
    enum { MAX = 3 };
    struct fake_clock clock;
    struct err_note note = { .text = "" };
    struct arena a;
    uint32_t domain;
    const struct page_policy policy = fix_policy(kind);
    const struct page_bucket_opts bucket = { .name = "page", .policy = policy };
    fake_clock_init(&clock, T0);
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = &clock.clock,
                                            .srv = 1,
                                            .buckets = &bucket,
                                            .buckets_count = 1,
                                            .renders_max = MAX };
    struct cassandra_pages *p = cassandra_pages_new(&o, &note);
    assert_non_null(p);
    assert_int_equal(cassandra_pages_domain(p, str_of(name), &domain), ERR_OK);
    arena_init(&a, 16 << 20);
    for (unsigned i = 0; i < 2 * MAX; i++) {
        fake_clock_advance(&clock, NS_PER_S);
        assert_int_equal(put_once(p, domain, i, &a),
                         i < MAX || kind == POLICY_ALL ? ERR_OK : ERR_AGAIN);
    }
    assert_int_equal(put_once(p, domain, kind == POLICY_ALL ? 2 * MAX - 1 : MAX - 1, &a),
                     ERR_OK); /* it is there */
    fake_clock_advance(&clock, GRACE);
    assert_int_equal(put_once(p, domain, 2 * MAX, &a), ERR_OK);
    arena_fini(&a);
    cassandra_pages_free(&p);
}

static void a_title_takes_no_more_renders_than_it_may_have(void **state)
{
    (void)state;
    renders_up_to_the_limit(POLICY_APP_TTL, "hot.example");
}

static void what_policy_keeps_for_good_does_not_count(void **state)
{
    (void)state;
    renders_up_to_the_limit(POLICY_ALL, "kept.example");
}

/* ---- two servers ---- */

enum { SERVERS = 2, WRITERS = 8, PUTS = 20, PUTS_MAX = 2000 };

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool over;
};
struct writer {
    struct cassandra_pages *pages;
    unsigned number, puts, acknowledged, failed;
    struct page_name names[PUTS_MAX];
    struct page_put put;
    struct waiter waiter;
};

static void put_told(struct store_call *c)
{
    struct page_put *p = CONTAINER_OF(c, struct page_put, call);
    struct writer *w = CONTAINER_OF(p, struct writer, put);
    INVARIANT(pthread_mutex_lock(&w->waiter.lock) == 0);
    w->waiter.over = true;
    INVARIANT(pthread_cond_signal(&w->waiter.turned) == 0);
    INVARIANT(pthread_mutex_unlock(&w->waiter.lock) == 0);
}

static err put_wait(struct writer *w)
{
    w->waiter.over = false;
    enum store_start start = cassandra_pages_put(w->pages, &w->put);
    INVARIANT(start == STORE_LATER);
    INVARIANT(pthread_mutex_lock(&w->waiter.lock) == 0);
    while (!w->waiter.over) /* the put has a deadline of its own */
        INVARIANT(pthread_cond_wait(&w->waiter.turned, &w->waiter.lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w->waiter.lock) == 0);
    return w->put.call.why;
}

static void *writer_run(void *ctx)
{
    struct writer *w = ctx;
    uint32_t domain;
    INVARIANT(cassandra_pages_domain(w->pages, STR("en.wikipedia.org"), &domain) == ERR_OK);
    for (unsigned i = 0; i < w->puts; i++) {
        struct arena a;
        char html[40];
        int n = snprintf(html, sizeof html, "writer %u, put %u", w->number, i);
        arena_init(&a, 1 << 20);
        w->put = (struct page_put){ .call = { .home = home_here(), .done = put_told },
                                    .bucket = cassandra_pages_bucket(w->pages, STR("page")),
                                    .domain = domain,
                                    .title = STR("Contended"),
                                    .rev = 1 + (w->number + i) % REVS,
                                    .random = w->number * 1000 + i,
                                    .contents_count = 1,
                                    .arena = &a };
        w->put.contents[0] =
            (struct page_put_content){ .name = STR("html"), .raw = { .p = html, .n = (size_t)n } };
        err why = put_wait(w);
        if (why == ERR_OK && w->put.created)
            w->names[w->acknowledged++] = w->put.stored;
        if (why != ERR_OK && w->failed++ == 0)
            print_message("a put failed: %s: %s\n", err_name(why), w->put.note.text);
        arena_fini(&a);
    }
    return NULL;
}

static void writers_run(struct cassandra_pages **pages, struct writer *writers, unsigned puts)
{
    pthread_t threads[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .pages = pages[i % SERVERS], .number = i, .puts = puts };
        assert_int_equal(pthread_mutex_init(&writers[i].waiter.lock, NULL), 0);
        assert_int_equal(pthread_cond_init(&writers[i].waiter.turned, NULL), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, writer_run, &writers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Each render that was acknowledged is there on each server, and none that is less than the
 * greatest of them is the latest. A put that failed may have been stored. */
static void ledger_check(struct cassandra_pages *pages, const struct writer *writers)
{
    struct both b = { .pages = pages, .title = "Contended" };
    struct page_name greatest = { .rev = 0 };
    struct page_read r;
    arena_init(&b.arena, 64 << 20);
    b.bucket = cassandra_pages_bucket(pages, STR("page"));
    assert_int_equal(cassandra_pages_domain(pages, STR("en.wikipedia.org"), &b.domain), ERR_OK);
    for (unsigned i = 0; i < WRITERS; i++)
        for (unsigned k = 0; k < writers[i].acknowledged; k++) {
            struct page_name name = writers[i].names[k];
            if (page_name_cmp(name, greatest) > 0)
                greatest = name;
            assert_int_equal(shared_read(&b, SELECT_EXACT, name, &r), ERR_OK);
            arena_reset(&b.arena);
        }
    assert_int_equal(shared_read(&b, SELECT_LATEST, (struct page_name){ .rev = 0 }, &r), ERR_OK);
    assert_true(page_name_cmp(r.render.name, greatest) >= 0);
    arena_fini(&b.arena);
}

static void two_servers_lose_nothing_that_they_acknowledged(void **state)
{
    (void)state;
    static struct writer writers[WRITERS];
    struct cassandra_pages *pages[SERVERS];
    struct page_policy policy = fix_policy(POLICY_ALL); /* nothing may end on the way */
    const struct page_bucket_opts bucket = { .name = "page", .policy = policy, .codec = PAGE_GZIP };
    struct err_note note = { .text = "" };
    unsigned acknowledged = 0, failed = 0;
    uint64_t puts = PUTS;
    const char *given = getenv("CASSANDRA_PUTS");
    if (given != NULL)
        assert_true(str_to_u64(str_of(given), &puts) && puts > 0 && puts <= PUTS_MAX);
    for (unsigned i = 0; i < SERVERS; i++) {
        const struct cassandra_pages_opts o = { .titles = the.titles,
                                                .clock = the.clock,
                                                .srv = 11 + i,
                                                .max_skew_ns = 500 * NS_PER_MS,
                                                .write_timeout_ns = 10 * NS_PER_S,
                                                .buckets = &bucket,
                                                .buckets_count = 1 };
        pages[i] = cassandra_pages_new(&o, &note);
        assert_non_null(pages[i]);
    }
    writers_run(pages, writers, (unsigned)puts);
    for (unsigned i = 0; i < WRITERS; i++) {
        acknowledged += writers[i].acknowledged;
        failed += writers[i].failed;
    }
    print_message("%u puts acknowledged, %u failed\n", acknowledged, failed);
    assert_true(acknowledged > WRITERS * puts / 2);
    for (unsigned i = 0; i < SERVERS; i++)
        ledger_check(pages[i], writers);
    for (unsigned i = 0; i < SERVERS; i++)
        cassandra_pages_free(&pages[i]);
}

/* ---- a put of which the fact alone came through ---- */

struct torn {
    struct fake_clock clock;
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    struct arena arena;
};

static void torn_open(struct torn *t, const char *domain)
{
    static const struct page_bucket_opts opts = {
        .name = "torn",
        .policy = { .kind = POLICY_APP_TTL,
                    .grace_ttl_ns = 100 * NS_PER_S,
                    .historical_ttl_ns = 200 * NS_PER_S,
                    .stash_ttl_ns = 300 * NS_PER_S,
                    .ledger_ttl_ns = 1000 * NS_PER_S },
        .codec = PAGE_IDENTITY,
    };
    struct err_note note;
    memset(t, 0, sizeof *t);
    fake_clock_init(&t->clock, T0);
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = &t->clock.clock,
                                            .srv = 1,
                                            .buckets = &opts,
                                            .buckets_count = 1 };
    t->pages = cassandra_pages_new(&o, &note);
    assert_non_null(t->pages);
    assert_int_equal(cassandra_pages_domain(t->pages, str_of(domain), &t->domain), ERR_OK);
    t->bucket = cassandra_pages_bucket(t->pages, STR("torn"));
    arena_init(&t->arena, 16 << 20);
}

static void torn_close(struct torn *t)
{
    cassandra_pages_free(&t->pages);
    arena_fini(&t->arena);
}

static struct page_put torn_put(struct torn *t, uint64_t rev, const char *body)
{
    fake_clock_advance(&t->clock, NS_PER_S);
    struct page_put q = { .call = real_call(),
                          .bucket = t->bucket,
                          .domain = t->domain,
                          .title = STR("T"),
                          .rev = rev,
                          .random = rev,
                          .contents_count = 1,
                          .contents = { { .name = STR("html"), .raw = str_of(body) } },
                          .arena = &t->arena };
    call_run(&q.call, cassandra_pages_put(t->pages, &q));
    assert_int_equal(q.call.why, ERR_OK);
    return q;
}

/* Its bytes go, as if they had never come; the fact stays. */
static void torn_tear(struct torn *t, const char *domain, uint64_t rev)
{
    char text[400];
    (void)snprintf(text, sizeof text,
                   "DELETE FROM %s.body USING TIMESTAMP %lld WHERE bucket = 'torn' AND "
                   "domain = '%s' AND title = 'T' AND content = 'html' AND rev = %llu",
                   the.keyspace, (long long)(clock_store(&t->clock.clock).ns / NS_PER_US), domain,
                   (unsigned long long)rev); /* it fits */
    real_run(text);
}

/* ERR_OK: body is what is read. */
static err torn_read(struct torn *t, enum page_select select, struct page_name name,
                     const char *body)
{
    struct page_read r = {
        .call = real_call(),
        .bucket = t->bucket,
        .which = { .domain = t->domain, .title = STR("T"), .select = select, .name = name },
        .arena = &t->arena,
        .wanted_count = 1,
        .wanted = { STR("html") }
    };
    call_run(&r.call, cassandra_pages_read(t->pages, &r));
    if (r.call.why == ERR_OK) {
        str raw;
        assert_int_equal(page_body_raw(&r.bodies[0], &t->arena, &raw), ERR_OK);
        assert_true(str_eq(raw, str_of(body)));
    }
    return r.call.why;
}

/* Nobody was told that it is stored: the one before is the latest, until it is put again. */
static void a_render_without_bytes_is_passed_over_until_it_is_put_again(void **state)
{
    (void)state;
    struct torn t;
    torn_open(&t, "again.test");
    const struct page_name none = { .rev = 0 };
    (void)torn_put(&t, 1, "one");
    struct page_put two = torn_put(&t, 2, "two");
    assert_int_equal(torn_read(&t, SELECT_LATEST, none, "two"), ERR_OK);
    torn_tear(&t, "again.test", 2);
    assert_int_equal(torn_read(&t, SELECT_LATEST, none, "one"), ERR_OK);
    assert_int_equal(torn_read(&t, SELECT_EXACT, two.stored, ""), ERR_NOT_FOUND);
    struct page_put again = torn_put(&t, 2, "two");
    assert_true(again.created); /* not answered by what nobody can read */
    assert_int_equal(torn_read(&t, SELECT_LATEST, none, "two"), ERR_OK);
    assert_false(torn_put(&t, 2, "two").created);
    torn_close(&t);
}

static void what_a_render_without_bytes_superseded_is_not_culled(void **state)
{
    (void)state;
    struct torn t;
    torn_open(&t, "cull.test");
    const struct page_name none = { .rev = 0 };
    (void)torn_put(&t, 1, "one");
    (void)torn_put(&t, 2, "two");
    torn_tear(&t, "cull.test", 2);
    for (unsigned i = 0; i < 2; i++) {
        fake_clock_advance(&t.clock, 150 * NS_PER_S); /* behind the grace of the first */
        struct cassandra_cull c = {
            .call = real_call(), .bucket = t.bucket, .domain = t.domain, .title = STR("T")
        };
        call_run(&c.call, cassandra_pages_cull(t.pages, &c));
        assert_int_equal(c.call.why, ERR_OK);
        assert_int_equal(c.ranges, i);
        if (i == 0)
            assert_int_equal(torn_read(&t, SELECT_LATEST, none, "one"), ERR_OK);
        (void)torn_put(&t, 2, "two");
    }
    assert_int_equal(torn_read(&t, SELECT_LATEST, none, "two"), ERR_OK);
    torn_close(&t);
}

/* A cull has a limit of content names; what it could not name, the next one deletes. */
static void bytes_of_any_number_of_contents_are_culled(void **state)
{
    (void)state;
    enum { RENDERS = 70 };
    struct torn t;
    torn_open(&t, "contents.test");
    for (unsigned i = 1; i <= RENDERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "part-%u", i); /* it fits */
        fake_clock_advance(&t.clock, NS_PER_S);
        struct page_put q = { .call = real_call(),
                              .bucket = t.bucket,
                              .domain = t.domain,
                              .title = STR("T"),
                              .rev = i,
                              .random = i,
                              .contents_count = 1,
                              .contents = { { .name = str_of(name), .raw = str_of(name) } },
                              .arena = &t.arena };
        call_run(&q.call, cassandra_pages_put(t.pages, &q));
        assert_int_equal(q.call.why, ERR_OK);
    }
    fake_clock_advance(&t.clock, 500 * NS_PER_S);
    for (unsigned i = 0; i < 2; i++) {
        struct cassandra_cull c = {
            .call = real_call(), .bucket = t.bucket, .domain = t.domain, .title = STR("T")
        };
        call_run(&c.call, cassandra_pages_cull(t.pages, &c));
        assert_int_equal(c.call.why, ERR_OK);
    }
    char text[300];
    (void)snprintf(text, sizeof text,
                   "SELECT rev FROM %s.body WHERE bucket = 'torn' AND "
                   "domain = 'contents.test' AND title = 'T'",
                   the.keyspace); /* it fits */
    assert_int_equal(real_rows(text), 1);
    torn_close(&t);
}

/* As large as page.body_bytes_max may be: what was acknowledged can be read. */
static void the_largest_render_can_be_read(void **state)
{
    (void)state;
    struct torn t;
    torn_open(&t, "large.test");
    arena_fini(&t.arena);
    arena_init(&t.arena, 4 * (size_t)PAGE_BYTES_MAX);
    const size_t n = PAGE_BYTES_MAX - 64;
    char *body = malloc(n + 1);
    assert_non_null(body);
    memset(body, 'x', n);
    body[n] = '\0';
    (void)torn_put(&t, 1, body);
    assert_int_equal(torn_read(&t, SELECT_LATEST, (struct page_name){ .rev = 0 }, body), ERR_OK);
    assert_false(torn_put(&t, 1, body).created);
    free(body);
    torn_close(&t);
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
        cmocka_unit_test(a_policy_without_a_window_is_refused),
        cmocka_unit_test(histories_are_the_same_on_both_stores),
        cmocka_unit_test(a_title_takes_no_more_renders_than_it_may_have),
        cmocka_unit_test(what_policy_keeps_for_good_does_not_count),
        cmocka_unit_test(two_servers_lose_nothing_that_they_acknowledged),
        cmocka_unit_test(a_render_without_bytes_is_passed_over_until_it_is_put_again),
        cmocka_unit_test(what_a_render_without_bytes_superseded_is_not_culled),
        cmocka_unit_test(bytes_of_any_number_of_contents_are_culled),
        cmocka_unit_test(the_largest_render_can_be_read),
    };
    const struct CMUnitTest ledger[] = {
        cmocka_unit_test(two_servers_lose_nothing_that_they_acknowledged),
    };
    return getenv("CASSANDRA_PUTS") != NULL ? cmocka_run_group_tests(ledger, setup, real_teardown)
                                            : cmocka_run_group_tests(tests, setup, real_teardown);
}
