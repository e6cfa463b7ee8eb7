#include "fixture.h"
#include "bucket/page_write.h"
#include "engine/store.h"

#include <stdio.h>
#include <string.h>

static void on_change(void *ctx, uint16_t bucket, uint32_t domain, str title)
{
    struct fixture *f = ctx;
    assert_true(bucket > 0 && domain > 0 && title.n > 0);
    f->told++;
}

struct page_policy fix_policy(enum page_policy_kind kind)
{
    return (struct page_policy){ .kind = kind,
                                 .grace_ttl_ns = GRACE,
                                 .historical_ttl_ns = HOUR,
                                 .stash_ttl_ns = 2 * HOUR,
                                 .ledger_ttl_ns = 240 * HOUR,
                                 .count = 2,
                                 .interval_ns = 60 * NS_PER_S,
                                 .ttl_ns = 50 * NS_PER_S };
}

static void pages_start(struct fixture *f, struct page_policy p)
{
    const struct page_bucket_opts opts = { .name = "page", .policy = p, .codec = PAGE_GZIP };
    struct err_note note = { "" };
    const struct pages_opts all = { f->engine, &f->clock.clock, 7, &opts, 1 };
    assert_int_equal(pages_new(&all, &f->pages, &note), ERR_OK);
    f->bucket = pages_find(f->pages, STR("page"));
    assert_non_null(f->bucket);
    assert_int_equal(pages_domain(f->pages, STR("en.example.test"), &f->domain), ERR_OK);
    const struct page_listener listener = { .changed = on_change, .ctx = f };
    page_store_listen(pages_store(f->pages), &listener);
}

struct fixture *fixture_new(struct page_policy p)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fake_clock_init(&f->clock, T0);
    f->engine = engine_mem_new(&f->clock.clock);
    pages_start(f, p);
    return f;
}

void damage_found(void *ctx, const char *what)
{
    (void)ctx; /* the message says all */
    print_error("check: %s\n", what);
}

void fixture_free(struct fixture *f)
{
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_OK);
    pages_free(&f->pages);
    engine_close(&f->engine);
    free(f);
}

void fix_restart(struct fixture *f, struct page_policy p)
{
    pages_free(&f->pages);
    pages_start(f, p);
}

err fix_put_as(struct fixture *f, uint64_t rev, int64_t tid_s, const char *text, struct page_put *p)
{
    *p = (struct page_put){ .domain = f->domain,
                            .title = STR("T"),
                            .rev = rev,
                            .has_tid = tid_s >= 0,
                            .contents_count = 1,
                            .stash_ns = p->stash_ns,
                            .behind = p->behind,
                            .asked = p->asked,
                            .heeds = p->heeds,
                            .word = p->word,
                            .said_at = p->said_at };
    if (tid_s >= 0)
        p->tid = tid_at(T0 + tid_s * NS_PER_S, 1);
    p->contents[0] = (struct page_put_content){ .name = STR("html"),
                                                .headers = STR("content-type: text/html\n"),
                                                .raw = str_of(text) };
    return sync_put(f->bucket, p);
}

struct page_name fix_put(struct fixture *f, uint64_t rev, int64_t tid_s)
{
    struct page_put p = { 0 };
    char text[64];
    (void)snprintf(text, sizeof(text), "text %u of %llu", f->texts++, (unsigned long long)rev);
    assert_int_equal(fix_put_as(f, rev, tid_s, text, &p), ERR_OK);
    assert_true(p.applied);
    return p.stored;
}

err fix_find(struct fixture *f, enum page_select select, struct page_name name,
             struct page_render *r, struct page_trace *trace)
{
    struct page_which w = {
        .domain = f->domain, .title = STR("T"), .select = select, .name = name
    };
    struct engine_view *v = engine_view_begin(f->engine);
    err e = page_find(f->bucket, v, &w, r, trace);
    engine_view_end(&v);
    return e;
}

struct page_render fix_latest(struct fixture *f)
{
    struct page_render r;
    assert_int_equal(fix_find(f, SELECT_LATEST, (struct page_name){ 0 }, &r, NULL), ERR_OK);
    assert_int_equal(r.superseded_at.ns, INT64_MAX);
    return r;
}

struct page_render fix_exact(struct fixture *f, struct page_name name)
{
    struct page_render r;
    assert_int_equal(fix_find(f, SELECT_EXACT, name, &r, NULL), ERR_OK);
    return r;
}

err fix_gone(struct fixture *f, struct page_name name, struct page_trace *t)
{
    struct page_render r;
    *t = (struct page_trace){ 0 };
    return fix_find(f, SELECT_EXACT, name, &r, t);
}

void assert_name(struct page_name a, struct page_name b)
{
    assert_int_equal(a.rev, b.rev);
    assert_int_equal(tid_cmp(a.tid, b.tid), 0);
}

static bool count_render(void *ctx, str title, const struct page_render *r)
{
    assert_true(str_eq(title, STR("T")));
    assert_true(r->contents_count > 0);
    ++*(unsigned *)ctx;
    return true;
}

unsigned fix_history(struct fixture *f)
{
    unsigned n = 0;
    const struct page_each each = { .render = count_render, .ctx = &n };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_history(f->bucket, v, f->domain, STR("T"), NULL, &each), ERR_OK);
    engine_view_end(&v);
    return n;
}

void fix_upkeep(struct fixture *f)
{
    store_time next;
    assert_int_equal(sync_upkeep(f->pages, &next), ERR_OK);
    assert_true(next.ns > f->clock.now_ns);
}

err fix_order(struct fixture *f, enum page_order_kind kind, struct page_name name,
              struct page_order *o)
{
    const struct page_order as = *o;
    *o = (struct page_order){ .kind = kind,
                              .domain = f->domain,
                              .title = STR("T"),
                              .until = as.until,
                              .name = name,
                              .has_rev = name.rev != 0,
                              .has_tid = name.tid.low != 0,
                              .elsewhere = as.elsewhere };
    return sync_order(f->bucket, o);
}

err fix_hear(struct fixture *f, const struct title_word *word, struct page_hear *h)
{
    struct title_word w;
    if (word != NULL)
        w = *word;
    if (word != NULL && w.asked_at.ns == 0)
        w.asked_at.ns = f->clock.now_ns;
    *h = (struct page_hear){ .domain = f->domain,
                             .title = STR("T"),
                             .word = word == NULL ? NULL : &w,
                             .believe = h->believe,
                             .behind = h->behind,
                             .doubted = h->doubted,
                             .there = h->there,
                             .marks = h->marks,
                             .marks_count = h->marks_count };
    err e = sync_hear(f->pages, h);
    h->word = NULL;
    return e;
}

err fix_mark(struct fixture *f, struct title_mark mark)
{
    struct page_hear h = { .marks = &mark, .marks_count = 1 };
    if (mark.said_at.ns == 0)
        mark.said_at.ns = f->clock.now_ns;
    return fix_hear(f, NULL, &h);
}
