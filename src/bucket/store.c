/* store.c - the page store that the embedded engine is (store/page_store.h).
 *
 * A read finds its render in a view and takes what is in memory inside it. Contents that are not
 * are read on the pool, behind a pin that keeps their bytes; those inside the row, or not written
 * yet, are in memory always. So nothing of the engine outlives the call. */
#include "bucket/list.h"
#include "bucket/page_write.h"
#include "bucket/sweep.h"
#include "bucket/word.h"

static struct pages *pages_of(struct page_store *s)
{
    struct pages *p = CONTAINER_OF(s, struct pages, store);
    MAGIC_CHECK(p, PAGES_MAGIC);
    return p;
}

/* ---- reading ---- */

/* A read that goes on elsewhere, as some bytes are not in memory. In the arena of its request. */
struct read_cold {
    struct page_read *read;
    struct engine_pin pin;
    unsigned left; /* bits of contents */
    struct task task;
};

/* One content into its place in bodies. now: ERR_AGAIN when its bytes are not in memory. */
static err content_read(struct page_read *r, unsigned i, bool now)
{
    const struct page_content *c = r->contents[i];
    struct page_body *b = &r->bodies[i];
    str *frame = arena_alloc(r->arena, sizeof *frame);
    if (frame == NULL)
        return ERR_LIMIT;
    struct page_bytes bytes;
    err e = page_read(r->bucket, &r->render, c, r->arena, now, &bytes);
    if (e != ERR_OK)
        return e;
    *frame = bytes.frame;
    b->headers = bytes.headers;
    b->codec = c->codec;
    b->raw_bytes = c->raw_bytes;
    b->pieces = frame;
    b->pieces_count = 1;
    return ERR_OK;
}

/* Reads the contents of *left, and takes each that was read out of *left. After ERR_AGAIN the
 * pool goes on with the rest. */
static err contents_read(struct page_read *r, unsigned *left, bool now)
{
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && *left >> i != 0; i++) {
        if ((*left & BIT(i)) != 0)
            e = content_read(r, i, now);
        if (e == ERR_OK)
            *left &= ~BIT(i);
    }
    return e;
}

/* Finds the wanted contents; says which to read, as bits: those that choose names, or all that
 * are there. */
static unsigned contents_choose(struct page_read *r)
{
    unsigned there = 0;
    for (unsigned i = 0; i < r->wanted_count; i++) {
        r->contents[i] = page_content_find(&r->render, r->wanted[i]);
        r->bodies[i] = (struct page_body){ .pieces_count = 0 };
        if (r->contents[i] != NULL)
            there |= BIT(i);
    }
    return r->choose == NULL ? there : there & r->choose(r);
}

/* A word that cannot be read is as good as none: the wiki is asked again. */
static void read_word(struct page_read *r, struct engine_view *v)
{
    r->heard = r->heeds && word_get(v, r->which.domain, r->which.title, &r->word) == ERR_OK;
}

/* All of a read that needs the view. *left: contents that are still to be read. */
static err read_now(struct page_read *r, struct engine_view *v, unsigned *left)
{
    /* The word is wanted also when no render is found: it may say that the page is missing. */
    read_word(r, v);
    err e = page_find(r->bucket, v, &r->which, &r->render, &r->trace);
    r->found = e == ERR_OK;
    if (e != ERR_OK)
        return e;
    r->dated = r->heard ? title_dated(&r->word, &r->render) : DATED_NOT;
    r->lasts_until = page_lasts_until(r->bucket, &r->render);
    *left = contents_choose(r);
    return contents_read(r, left, true);
}

/* Reads what is left, and lets the pin go. May block. A canceled read is not begun. */
static err read_cold(struct read_cold *c)
{
    err e = ERR_TIMEOUT;
    if (!store_call_canceled(&c->read->call))
        e = contents_read(c->read, &c->left, false);
    engine_unpin(c->read->bucket->pages->engine, c->pin);
    return e;
}

static void read_cold_run(struct task *t)
{
    struct read_cold *c = CONTAINER_OF(t, struct read_cold, task);
    store_call_end(&c->read->call, read_cold(c));
}

static enum store_start pages_read(struct page_store *s, struct page_read *r)
{
    struct pages *p = pages_of(s);
    struct read_cold *c = NULL;
    unsigned left = 0;
    struct engine_view *v = engine_view_begin(p->engine);
    err e = read_now(r, v, &left);
    if (e == ERR_AGAIN) {
        c = arena_alloc(r->arena, sizeof *c);
        e = ERR_LIMIT;
    }
    /* The pin is taken inside the view: from here on it keeps the bytes in their place. */
    if (c != NULL)
        *c = (struct read_cold){
            .read = r, .pin = engine_pin(v), .left = left, .task = { .run = read_cold_run }
        };
    engine_view_end(&v);
    /* Done, failed, or without memory for the way over the pool. */
    if (c == NULL)
        return store_call_done(&r->call, e);
    /* Without a pool (tools, tests) the caller blocks. */
    if (p->pool == NULL)
        return store_call_done(&r->call, read_cold(c));
    home_post(p->pool, &c->task);
    return STORE_LATER;
}

static enum store_start pages_list(struct page_store *s, struct page_list *l)
{
    struct engine_view *v = engine_view_begin(pages_of(s)->engine);
    err e = bucket_list(l, v);
    engine_view_end(&v);
    return store_call_done(&l->call, e);
}

static enum store_start pages_explain(struct page_store *s, struct page_explain *x)
{
    struct engine_view *v = engine_view_begin(pages_of(s)->engine);
    err e = page_explain(x->bucket, v, &x->which, &x->is);
    engine_view_end(&v);
    return store_call_done(&x->call, e);
}

/* ---- writing ---- */

static bool condition_allow(const void *ctx, const struct page_render *latest)
{
    return page_condition_holds(ctx, latest == NULL ? NULL : &latest->name);
}

page_allow_fn *page_condition_allow(const struct page_condition *c)
{
    return page_condition_is_none(c) ? NULL : condition_allow;
}

static enum store_start pages_put(struct page_store *s, struct page_put *p)
{
    INVARIANT(p->bucket->pages == pages_of(s));
    return page_put_start(p->bucket, p);
}

static enum store_start pages_hear(struct page_store *s, struct page_hear *h)
{
    return page_hear_start(pages_of(s), h);
}

static enum store_start pages_knows(struct page_store *s, struct page_knows *k)
{
    return store_call_done(&k->call, page_knows(pages_of(s), k->domain, k->title, &k->known));
}

static enum store_start pages_order(struct page_store *s, struct page_order *o)
{
    INVARIANT(o->bucket->pages == pages_of(s));
    return page_order_start(o->bucket, o);
}

/* ---- domains ---- */

static enum store_start pages_walk(struct page_store *s, struct page_walk *w)
{
    return page_walk_start(pages_of(s), w);
}

static enum store_start pages_revs(struct page_store *s, struct page_revs *r)
{
    return page_revs_start(pages_of(s), r);
}

static enum store_start pages_forget(struct page_store *s, struct page_forget *f)
{
    return page_forget_start(pages_of(s), f);
}

static enum store_start pages_note_put(struct page_store *s, struct page_note_put *n)
{
    return page_note_start(pages_of(s), n);
}

static err pages_note_get(struct page_store *s, uint32_t domain, enum page_note note, char *out,
                          size_t *n)
{
    struct engine_view *v = engine_view_begin(pages_of(s)->engine);
    err e = catalog_note_get(v, domain, note, out, n);
    engine_view_end(&v);
    return e;
}

/* ---- the rest ---- */

static err pages_domain_of(struct page_store *s, str name, uint32_t *out)
{
    return pages_domain(pages_of(s), name, out);
}

static struct page_bucket *pages_bucket(struct page_store *s, str name)
{
    return pages_find(pages_of(s), name);
}

static err pages_store_upkeep(struct page_store *s, bool *more, store_time *next)
{
    return pages_upkeep(pages_of(s), more, next);
}

static void pages_stats(struct page_store *s, struct pages_stats *out)
{
    pages_stats_get(pages_of(s), out);
}

static err pages_store_check(struct page_store *s, void (*found)(void *ctx, const char *what),
                             void *ctx)
{
    return pages_check(pages_of(s), found, ctx);
}

static void pages_listen(struct page_store *s, const struct page_listener *l)
{
    pages_of(s)->feed.listener = *l;
}

static void pages_follow(struct page_store *s, const struct page_follower *f)
{
    struct feed *feed = &pages_of(s)->feed;
    INVARIANT(feed->followers_count < PAGE_FOLLOWERS_MAX);
    feed->followers[feed->followers_count++] = *f;
}

static struct page_position pages_position(struct page_store *s)
{
    return feed_position(&pages_of(s)->feed);
}

static const struct page_store_ops pages_ops = {
    .domain = pages_domain_of,
    .bucket = pages_bucket,
    .bucket_policy = page_bucket_policy,
    .bucket_number = page_bucket_number,
    .read = pages_read,
    .put = pages_put,
    .order = pages_order,
    .hear = pages_hear,
    .knows = pages_knows,
    .list = pages_list,
    .explain = pages_explain,
    .walk = pages_walk,
    .revs = pages_revs,
    .forget = pages_forget,
    .note_put = pages_note_put,
    .note_get = pages_note_get,
    .upkeep = pages_store_upkeep,
    .stats = pages_stats,
    .check = pages_store_check,
    .listen = pages_listen,
    .follow = pages_follow,
    .position = pages_position,
};

struct page_store *pages_store(struct pages *p)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    p->store.ops = &pages_ops;
    return &p->store;
}

void pages_read_on(struct pages *p, struct home *pool)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    p->pool = pool;
}
