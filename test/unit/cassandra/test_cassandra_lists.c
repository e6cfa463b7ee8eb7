/* Goal: listings on Cassandra tell what the embedded store tells.
 * Method: random histories of puts, orders, upkeep and waits over many titles, on a clock that
 * stands, on both stores. After some steps all listings are read on both, in pages of random
 * lengths. The seed is printed; CASSANDRA_SEED sets it. Then titles that were wholly forgotten, and
 * a put that was under way meanwhile. A real Cassandra (real.h). */
#include "real.h"

#include "../bucket/fixture.h"
#include "base/rng.h"
#include "cassandra/pages.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HISTORIES = 5, STEPS = 160, TITLES = 40, REVS = 4, NAMES_MAX = STEPS, TEXT_MAX = 64 << 10 };
#define BEHIND (10 * NS_PER_S)

struct known {
    unsigned title;
    struct page_name name;
};
struct both {
    struct fixture *f; /* the embedded store */
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    char titles[TITLES][64];
    struct rng rng;
    struct known known[NAMES_MAX];
    unsigned known_count, told;
    struct arena arena;
};

static void call_run(enum store_start start)
{
    if (start == STORE_LATER)
        real_wait("a call");
}

/* ---- both stores ---- */

static struct cassandra_pages *server_new(struct clock *clock, uint32_t srv, struct home *pool,
                                          const struct page_bucket_opts *bucket)
{
    struct err_note note = { .text = "" };
    const struct cassandra_pages_opts o = { .titles = the.titles,
                                            .clock = clock,
                                            .pool = pool,
                                            .srv = srv,
                                            .write_timeout_ns = BEHIND,
                                            .buckets = bucket,
                                            .buckets_count = 1 };
    struct cassandra_pages *p = cassandra_pages_new(&o, &note);
    assert_non_null(p);
    return p;
}

/* Titles that differ at their ends, in length and beyond ASCII. */
static void titles_make(struct both *b)
{
    static const char *const stems[] = {
        "A", "Ab", "\xc3\x84rger", "a", "z", "\xf0\x9f\x98\x80", "Zebra_crossing", "0"
    };
    for (unsigned i = 0; i < TITLES; i++)
        (void)snprintf(b->titles[i], sizeof b->titles[i], "%s%.*s%u", stems[i % COUNT_OF(stems)],
                       (int)(i % 5), "_____", i / (unsigned)COUNT_OF(stems));
}

static void both_open(struct both *b, uint64_t seed, struct page_policy policy, const char *domain)
{
    *b = (struct both){ .known_count = 0 };
    rng_init(&b->rng, seed);
    const struct page_bucket_opts bucket = { .name = "page", .policy = policy, .codec = PAGE_GZIP };
    b->f = fixture_new(policy);
    b->pages = server_new(&b->f->clock.clock, 1, NULL, &bucket);
    b->bucket = cassandra_pages_bucket(b->pages, STR("page"));
    assert_int_equal(cassandra_pages_domain(b->pages, str_of(domain), &b->domain), ERR_OK);
    titles_make(b);
    arena_init(&b->arena, 64 << 20);
}

static void both_close(struct both *b)
{
    arena_fini(&b->arena);
    cassandra_pages_free(&b->pages);
    fixture_free(b->f);
}

static err put_both(struct both *b, unsigned title, uint64_t rev, int64_t stash_ns)
{
    char html[32];
    (void)snprintf(html, sizeof html, "text %u", b->f->texts++);
    struct page_put p = { .domain = b->f->domain,
                          .title = str_of(b->titles[title]),
                          .rev = rev,
                          .has_tid = true,
                          .tid = tid_at(atomic_load(&b->f->clock.now_ns), b->f->texts),
                          .stash_ns = stash_ns,
                          .contents_count = 1 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"),
                                               .headers = STR("content-type: text/html\n"),
                                               .raw = str_of(html) };
    struct page_put q = p;
    err embedded = sync_put(b->f->bucket, &p);
    q.call = real_call();
    q.bucket = b->bucket;
    q.domain = b->domain;
    q.arena = &b->arena;
    call_run(cassandra_pages_put(b->pages, &q));
    if (q.call.why != embedded)
        print_message("put: %s\n", q.note.text);
    assert_int_equal(q.call.why, embedded);
    if (embedded == ERR_OK && p.created && b->known_count < NAMES_MAX)
        b->known[b->known_count++] = (struct known){ .title = title, .name = p.stored };
    return embedded;
}

static void order_both(struct both *b, enum page_order_kind kind, const struct known *k)
{
    struct page_order o = { .kind = kind,
                            .domain = b->f->domain,
                            .title = str_of(b->titles[k->title]),
                            .has_rev = k->name.rev != 0,
                            .has_tid = k->name.rev != 0,
                            .name = k->name,
                            .until.ns = atomic_load(&b->f->clock.now_ns) + 200 * NS_PER_S };
    struct page_order s = o;
    err embedded = sync_order(b->f->bucket, &o);
    s.call = real_call();
    s.bucket = b->bucket;
    s.domain = b->domain;
    call_run(cassandra_pages_order(b->pages, &s));
    assert_int_equal(s.call.why, embedded);
}

static struct cassandra_cull cull_one(struct cassandra_pages *p, uint32_t domain, const char *title)
{
    struct cassandra_cull c = { .call = real_call(),
                                .bucket = cassandra_pages_bucket(p, STR("page")),
                                .domain = domain,
                                .title = str_of(title) };
    call_run(cassandra_pages_cull(p, &c));
    if (c.call.why != ERR_OK)
        print_message("cull: %s\n", c.note.text);
    assert_int_equal(c.call.why, ERR_OK);
    return c;
}

/* ---- listings as text ---- */

struct told {
    char text[TEXT_MAX];
    size_t n;
    unsigned left, count; /* renders that the page takes still; told in all */
};

static bool tell(void *ctx, str title, const struct page_render *r)
{
    struct told *t = ctx;
    char tid[TID_TEXT_BYTES + 1];
    if (t->left == 0)
        return false;
    t->left--;
    t->count++;
    tid_format(r->name.tid, tid);
    int n = snprintf(t->text + t->n, TEXT_MAX - t->n, "%.*s %llu %s until %lld, %s\n",
                     STR_ARG(title), (unsigned long long)r->name.rev, tid,
                     (long long)r->stash_until.ns, page_state_name(r->state));
    assert_true(n > 0 && (size_t)n < TEXT_MAX - t->n);
    t->n += (size_t)n;
    return true;
}

/* All of a listing, page by page. */
static void list_all(struct both *b, bool shared, struct page_list l, struct told *out)
{
    char from[600];
    unsigned pages = 0;
    *out = (struct told){ .count = 0 };
    l.bucket = shared ? b->bucket : b->f->bucket;
    l.domain = shared ? b->domain : b->f->domain;
    l.each = (struct page_each){ .render = tell, .ctx = out };
    l.arena = &b->arena;
    do {
        out->left = (unsigned)rng_below(&b->rng, 12);
        l.steps = 1 + (unsigned)rng_below(&b->rng, 30);
        l.call = real_call();
        if (shared)
            call_run(cassandra_pages_list(b->pages, &l));
        else
            assert_int_equal(page_store_list(pages_store(b->f->pages), &l), STORE_DONE);
        assert_int_equal(l.call.why, ERR_OK);
        assert_true(l.next.n <= sizeof from && pages++ < 10000);
        memcpy(from, l.next.p, l.next.n);
        l.from = (str){ .p = from, .n = l.next.n };
        arena_reset(&b->arena);
    } while (l.from.n > 0);
}

static void same_listing(struct both *b, struct page_list l)
{
    static struct told here, there;
    list_all(b, false, l, &there);
    list_all(b, true, l, &here);
    if (strcmp(here.text, there.text) != 0)
        fail_msg("listing %d of \"%.*s\": the embedded store says\n%sand here stands\n%s",
                 (int)l.what, STR_ARG(l.title), there.text, here.text);
    b->told += here.count;
}

static void same_listings(struct both *b)
{
    const char *one = b->titles[rng_below(&b->rng, TITLES)];
    same_listing(b, (struct page_list){ .what = LIST_TITLES });
    same_listing(b, (struct page_list){ .what = LIST_STASHES });
    same_listing(b, (struct page_list){ .what = LIST_STASHES, .title = str_of(one) });
    same_listing(b, (struct page_list){ .what = LIST_HISTORY, .title = str_of(one) });
}

/* ---- walks ---- */

static bool tell_swept(void *ctx, const struct page_swept *s)
{
    struct told *t = ctx;
    if (t->left == 0)
        return false;
    t->left--;
    int n = snprintf(t->text + t->n, TEXT_MAX - t->n, "%.*s%s\n", STR_ARG(s->title),
                     s->stored ? "" : ", not stored");
    assert_true(n > 0 && (size_t)n < TEXT_MAX - t->n);
    t->n += (size_t)n;
    t->count++;
    return true;
}

static void walk_all(struct both *b, bool shared, struct page_walk w, struct told *out)
{
    char after[PAGE_TITLE_BYTES_MAX];
    *out = (struct told){ .count = 0 };
    w.domain = shared ? b->domain : b->f->domain;
    w.each = tell_swept;
    w.ctx = out;
    do {
        size_t at = out->n;
        w.titles = 1 + (unsigned)rng_below(&b->rng, 9);
        out->left = 1 + (unsigned)rng_below(&b->rng, 9);
        w.call = real_call();
        if (shared)
            call_run(cassandra_pages_walk(b->pages, &w));
        else
            assert_int_equal(page_store_walk(pages_store(b->f->pages), &w), STORE_DONE);
        assert_int_equal(w.call.why, ERR_OK);
        assert_true(out->n > at || !w.more);
        if (!w.more)
            break;
        while (memchr(out->text + at, '\n', out->n - at) != out->text + out->n - 1)
            at = (size_t)((char *)memchr(out->text + at, '\n', out->n - at) - out->text) + 1;
        memcpy(after, out->text + at, out->n - at - 1);
        w.after = (str){ .p = after, .n = out->n - at - 1 };
    } while (true);
}

static bool walk_tells_nothing(void *ctx, const struct page_swept *t)
{
    (void)ctx;
    (void)t;
    return false;
}

/* As the reads of a title: what its cluster did is told to no client. */
static void a_walk_that_the_cluster_does_not_answer_is_unavailable(void **state)
{
    (void)state;
    static struct both b;
    both_open(&b, 8, fix_policy(POLICY_ALL), "late.example");
    struct page_walk w = {
        .call = real_call(), .domain = b.domain, .titles = 1, .each = walk_tells_nothing
    };
    w.call.deadline = (mono){ .ns = 1 };
    call_run(cassandra_pages_walk(b.pages, &w));
    assert_int_equal(w.call.why, ERR_UNAVAILABLE);
    both_close(&b);
}

/* Policy all: nothing is forgotten, so each store has what it was given. */
static void walks_are_the_same_on_both_stores(void **state)
{
    (void)state;
    static struct both b;
    static struct told here, there;
    both_open(&b, 7, fix_policy(POLICY_ALL), "walks.example");
    for (unsigned i = 0; i < 25; i++)
        assert_int_equal(put_both(&b, (unsigned)rng_below(&b.rng, TITLES), 1, 0), ERR_OK);
    for (unsigned i = 0; i < 12; i++) {
        struct page_walk w = { .titles = 1 };
        if (i > 3)
            w.after = str_of(b.titles[rng_below(&b.rng, TITLES)]);
        if (i > 6)
            w.until = str_of(b.titles[rng_below(&b.rng, TITLES)]);
        walk_all(&b, true, w, &here);
        walk_all(&b, false, w, &there);
        assert_string_equal(here.text, there.text);
    }
    both_close(&b);
}

/* ---- histories ---- */

static void step_both(struct both *b)
{
    static const int64_t waits_s[] = { 0, 0, 0, 1, 5, 40, 120, 4000 };
    static const enum page_order_kind kinds[] = { ORDER_STASH, ORDER_STASH, ORDER_UNSTASH,
                                                  ORDER_PURGE, ORDER_HOLD };
    unsigned title = (unsigned)rng_below(&b->rng, TITLES);
    fake_clock_advance(&b->f->clock,
                       NS_PER_S + waits_s[rng_below(&b->rng, COUNT_OF(waits_s))] * NS_PER_S);
    if (b->known_count == 0 || rng_below(&b->rng, 3) > 0) {
        int64_t stash_ns = rng_below(&b->rng, 4) == 0 ? 90 * NS_PER_S : 0;
        (void)put_both(b, title, 1 + rng_below(&b->rng, REVS), stash_ns); /* both say the same */
        return;
    }
    struct known k = b->known[rng_below(&b->rng, b->known_count)];
    enum page_order_kind kind = kinds[rng_below(&b->rng, COUNT_OF(kinds))];
    if (kind == ORDER_PURGE && rng_below(&b->rng, 3) == 0)
        k.name = (struct page_name){ .rev = 0 };
    order_both(b, kind, &k);
}

static void history(struct rng *seeds, unsigned number)
{
    static const enum page_policy_kind kinds[] = { POLICY_APP_TTL, POLICY_ALL, POLICY_LATEST,
                                                   POLICY_INTERVAL, POLICY_TTL };
    static struct both b;
    char domain[40];
    (void)snprintf(domain, sizeof domain, "history-%u.example", number);
    both_open(&b, rng_next(seeds), fix_policy(kinds[number % COUNT_OF(kinds)]), domain);
    same_listings(&b);
    for (unsigned step = 0; step < STEPS; step++) {
        step_both(&b);
        if (rng_below(&b.rng, 16) == 0) {
            fix_upkeep(b.f);
            for (unsigned i = 0; i < TITLES; i++)
                (void)cull_one(b.pages, b.domain, b.titles[i]);
        }
        if (rng_below(&b.rng, 10) == 0)
            same_listings(&b);
    }
    same_listings(&b);
    print_message("%s: %u renders put, %u listed\n",
                  page_policy_name(kinds[number % COUNT_OF(kinds)]), b.known_count, b.told);
    both_close(&b);
}

static void listings_are_the_same_on_both_stores(void **state)
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

/* More of them than the pages of all shards hold at first. */
static void a_large_domain_is_listed_in_its_order(void **state)
{
    (void)state;
    enum { MANY = 700 };
    static struct both b;
    static struct told all;
    both_open(&b, 1, fix_policy(POLICY_ALL), "large.example");
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(b.titles[0], sizeof b.titles[0], "Page_%03u", i * 11 % MANY);
        assert_int_equal(put_both(&b, 0, 1, 0), ERR_OK);
        arena_reset(&b.arena);
    }
    same_listing(&b, (struct page_list){ .what = LIST_TITLES });
    list_all(&b, true, (struct page_list){ .what = LIST_TITLES }, &all);
    assert_int_equal(all.count, MANY);
    both_close(&b);
}

static void a_token_of_another_listing_is_refused(void **state)
{
    (void)state;
    static struct both b;
    static const char *const wrong[] = { "x", "tt\x01", "r1", "sTitle", "s" };
    static const enum page_list_what whats[] = { LIST_TITLES, LIST_STASHES, LIST_HISTORY,
                                                 LIST_STASHES, LIST_TITLES };
    both_open(&b, 1, fix_policy(POLICY_ALL), "tokens.example");
    for (unsigned i = 0; i < COUNT_OF(wrong); i++) {
        struct page_list l = { .call = real_call(),
                               .bucket = b.bucket,
                               .what = whats[i],
                               .domain = b.domain,
                               .title = whats[i] == LIST_HISTORY ? STR("A") : STR(""),
                               .from = str_of(wrong[i]),
                               .arena = &b.arena };
        call_run(cassandra_pages_list(b.pages, &l));
        assert_int_equal(l.call.why, ERR_BAD);
    }
    both_close(&b);
}

/* ---- what is forgotten ---- */

static unsigned rows_of(const char *table, const char *domain)
{
    char text[400];
    (void)snprintf(text, sizeof text, "SELECT title FROM %s.%s WHERE domain = '%s' ALLOW FILTERING",
                   the.keyspace, table, domain);
    return real_rows(text);
}

static void a_title_that_is_wholly_forgotten_is_looked_for_no_more(void **state)
{
    (void)state;
    static struct both b;
    both_open(&b, 1, fix_policy(POLICY_TTL), "forgotten.example");
    assert_int_equal(put_both(&b, 0, 1, 0), ERR_OK);
    assert_int_equal(put_both(&b, 1, 1, 90 * NS_PER_S), ERR_OK);
    assert_int_equal(rows_of("titles", "forgotten.example"), 2);
    assert_int_equal(rows_of("stashes", "forgotten.example"), 1);
    fake_clock_advance(&b.f->clock, 250 * HOUR);
    assert_int_equal(put_both(&b, 1, 2, 0), ERR_OK);
    assert_int_equal(cull_one(b.pages, b.domain, b.titles[0]).forgotten, 1);
    /* A put may be under way that saw the one before. */
    assert_false(cull_one(b.pages, b.domain, b.titles[0]).unlisted);
    fake_clock_advance(&b.f->clock, 3 * BEHIND);
    assert_true(cull_one(b.pages, b.domain, b.titles[0]).unlisted);
    assert_false(cull_one(b.pages, b.domain, b.titles[0]).unlisted);
    assert_false(cull_one(b.pages, b.domain, b.titles[1]).unlisted);
    assert_int_equal(rows_of("titles", "forgotten.example"), 1);
    same_listings(&b);
    assert_int_equal(put_both(&b, 0, 3, 0), ERR_OK);
    assert_int_equal(rows_of("titles", "forgotten.example"), 2);
    same_listings(&b);
    both_close(&b);
}

/* A home with a thread of its own: what runs there may wait for the client's. */
struct own_home {
    struct home home;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    struct task_list tasks;
    bool over;
};

static void own_post(struct home *h, struct task *t)
{
    struct own_home *o = CONTAINER_OF(h, struct own_home, home);
    INVARIANT(pthread_mutex_lock(&o->lock) == 0);
    (void)task_list_put(&o->tasks, t); /* it is woken in any case */
    INVARIANT(pthread_cond_signal(&o->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&o->lock) == 0);
}

static void *own_run(void *ctx)
{
    struct own_home *o = ctx;
    INVARIANT(pthread_mutex_lock(&o->lock) == 0);
    for (;;) {
        struct task *t = task_list_take(&o->tasks);
        if (t == NULL && o->over)
            break;
        if (t == NULL) {
            INVARIANT(pthread_cond_wait(&o->turned, &o->lock) == 0);
            continue;
        }
        INVARIANT(pthread_mutex_unlock(&o->lock) == 0);
        t->run(t);
        INVARIANT(pthread_mutex_lock(&o->lock) == 0);
    }
    INVARIANT(pthread_mutex_unlock(&o->lock) == 0);
    return NULL;
}

static void own_open(struct own_home *o)
{
    *o = (struct own_home){ .home.post = own_post };
    assert_int_equal(pthread_mutex_init(&o->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&o->turned, NULL), 0);
    assert_int_equal(pthread_create(&o->thread, NULL, own_run, o), 0);
}

static void own_end(struct own_home *o)
{
    INVARIANT(pthread_mutex_lock(&o->lock) == 0);
    o->over = true;
    INVARIANT(pthread_cond_signal(&o->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&o->lock) == 0);
}

static struct both under_way;
static struct own_home pool;
static bool unlisted_meanwhile;

static void slow_done(struct store_call *c)
{
    (void)c;
    own_end(&pool);
}

/* Between the load of a put and its decision another server tidies up. */
static err meanwhile(struct page_put *p)
{
    struct both *b = &under_way;
    (void)p;
    unlisted_meanwhile = cull_one(b->pages, b->domain, b->titles[0]).unlisted ||
                         cull_one(b->pages, b->domain, b->titles[0]).unlisted;
    return ERR_OK;
}

static void a_put_under_way_keeps_its_title_listed(void **state)
{
    (void)state;
    struct both *b = &under_way;
    static struct told all;
    const struct page_policy policy = fix_policy(POLICY_TTL);
    const struct page_bucket_opts bucket = { .name = "page", .policy = policy, .codec = PAGE_GZIP };
    both_open(b, 1, policy, "under-way.example");
    own_open(&pool);
    struct cassandra_pages *other = server_new(&b->f->clock.clock, 2, &pool.home, &bucket);
    uint32_t domain;
    assert_int_equal(cassandra_pages_domain(other, STR("under-way.example"), &domain), ERR_OK);
    assert_int_equal(put_both(b, 0, 1, 0), ERR_OK);
    fake_clock_advance(&b->f->clock, 250 * HOUR);
    struct page_put q = { .call = { .home = home_here(), .done = slow_done },
                          .bucket = cassandra_pages_bucket(other, STR("page")),
                          .domain = domain,
                          .title = str_of(b->titles[0]),
                          .rev = 2,
                          .fill = meanwhile,
                          .contents_count = 1,
                          .arena = &b->arena };
    q.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
    assert_int_equal(cassandra_pages_put(other, &q), STORE_LATER);
    assert_int_equal(pthread_join(pool.thread, NULL), 0); /* with the put */
    assert_int_equal(q.call.why, ERR_OK);
    assert_false(unlisted_meanwhile);
    fake_clock_advance(&b->f->clock, 3 * BEHIND);
    assert_false(cull_one(b->pages, b->domain, b->titles[0]).unlisted);
    list_all(b, true, (struct page_list){ .what = LIST_TITLES }, &all);
    assert_int_equal(all.count, 1);
    cassandra_pages_free(&other);
    both_close(b);
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
        cmocka_unit_test(listings_are_the_same_on_both_stores),
        cmocka_unit_test(a_large_domain_is_listed_in_its_order),
        cmocka_unit_test(walks_are_the_same_on_both_stores),
        cmocka_unit_test(a_walk_that_the_cluster_does_not_answer_is_unavailable),
        cmocka_unit_test(a_token_of_another_listing_is_refused),
        cmocka_unit_test(a_title_that_is_wholly_forgotten_is_looked_for_no_more),
        cmocka_unit_test(a_put_under_way_keeps_its_title_listed),
    };
    return cmocka_run_group_tests(tests, setup, real_teardown);
}
