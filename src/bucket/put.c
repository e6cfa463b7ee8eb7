/* put.c - a bundle is checked, compressed and put: one update that decides and steps.
 *
 * Invariants, after every update: those of title/title.h, and a row has a due row exactly when
 * due_stored is not NEVER, and it is filed under due_stored. A put reads the title's row, the
 * fences over its name, the row of its name, the newest of its revision and of its title, its next
 * greater neighbour, and at most `count` rows of its group: nothing grows with history. */
#include "bucket/dated.h"
#include "bucket/edit.h"
#include "bucket/word.h"
#include "store/bundle.h"

#include <string.h>

/* A put until it is over. In the arena of the request, so nothing is freed. */
struct put_own {
    struct engine_update update; /* replaced by a decision that runs again */
    struct engine_blob bundle;
    struct page_render row;
    unsigned char digest[PAGE_DIGEST_BYTES], plain_digest[PAGE_DIGEST_BYTES];
    struct title_answer answer;
    struct feed_batch *changes;
};

static struct put_own *own_of(const struct page_put *p)
{
    return p->call.own;
}

/* The wiki's last word on the title, if there is one. ERR_GONE: by that word what is put was
 * deleted or replaced since it was asked for. */
static err put_heed(struct edit *t, struct page_put *p, struct title_word *last, bool *heard)
{
    *heard = false;
    if (!p->heeds)
        return ERR_OK;
    err e = word_get(t->look.view, p->domain, p->title, last);
    *heard = e == ERR_OK;
    /* A word that cannot be decoded counts as none. ERR_IO ends the put. */
    if (e == ERR_IO || !*heard || p->word == NULL || !title_word_denies(last, p->word))
        return e == ERR_IO ? e : ERR_OK;
    struct title_answer *a = &own_of(p)->answer;
    a->trace = (struct page_trace){ .name = { .rev = p->rev, .tid = p->tid },
                                    .state = PAGE_DELETED,
                                    .at = last->asked_at,
                                    .policy = t->look.title.plan->policy.kind,
                                    .superseded_at = STORE_TIME_NEVER };
    a->note = "deleted at the wiki while it was made";
    return ERR_GONE;
}

/* Under what the render was made. A word that another server brought has no instant of our
 * clock: its arrival counts. */
static struct title_under put_under(const struct edit *t, const struct page_put *p)
{
    struct title_under u = { .said = 0 };
    if (p->word != NULL)
        u = title_under_of(p->word, p->revised);
    if (p->word != NULL && u.asked_at.ns == 0)
        u.asked_at = t->look.title.now;
    return u;
}

/* Decides on the put, and steps its facts. last: what it learns of a newer revision, too. */
static err put_step(struct edit *t, struct page_put *p, const struct title_word *last)
{
    struct put_own *own = own_of(p);
    /* The wiki's newest revision counts as known elsewhere: a put below it is not the latest. */
    uint64_t newest = last != NULL && last->rev > p->rev ? last->rev : 0;
    const struct title_put request = {
        .rev = p->rev,
        .has_tid = p->has_tid,
        .tid = p->tid,
        .random = rng_next(&p->bucket->pages->rng),
        .digest = own->digest,
        .plain_digest = own->plain_digest,
        .contents = own->row.contents,
        .contents_count = own->row.contents_count,
        .stash_ns = p->stash_ns,
        .behind = p->behind > newest ? p->behind : newest,
        .said_at = p->said_at,
        .asked = p->asked,
        .own_name = p->own_name,
        .made = put_under(t, p),
        .allow = page_condition_allow(&p->condition),
        .allow_ctx = &p->condition,
    };
    struct title_part part = { .resumed = false };
    t->blob = own->bundle;
    err e = title_decide_put(&t->look.title, &request, &own->answer);
    return e == ERR_OK ? edit_step(t, &own->answer, &part) : e;
}

/* The first word of a title may leave renders dated that were stored without one: in other
 * buckets, or of greater revisions. */
static err put_first_word(struct engine_txn *txn, const struct page_put *p)
{
    const struct feed_title of = { .domain = p->domain, .title = p->title };
    err e = dated_note(p->bucket->pages, txn, own_of(p)->changes, &of, p->word);
    return e == ERR_OK ? word_put(txn, p->domain, p->title, p->word) : e;
}

/* The engine may run it again: out members are written anew each time. */
static err put_decide(struct engine_txn *txn, void *ctx)
{
    struct page_put *p = ctx;
    struct title_answer *a = &own_of(p)->answer;
    struct title_word last;
    struct page_key key;
    struct edit t;
    bool heard = false;
    title_answer_init(a);
    struct feed_batch *changes = own_of(p)->changes;
    page_key_title(&key, p->bucket->number, p->domain, p->title);
    feed_batch_clear(changes, engine_txn_now(txn));
    err e = edit_begin(&t, txn, p->bucket, &key, changes);
    if (e == ERR_OK)
        e = put_heed(&t, p, &last, &heard);
    feed_set_word(changes, heard ? &last : NULL);
    if (e == ERR_OK)
        e = put_step(&t, p, heard ? &last : NULL);
    if (e == ERR_OK)
        e = edit_end(&t);
    /* Set before the update is known to be written; the caller reads it on ERR_OK alone. */
    p->first = p->heeds && p->word != NULL && !heard;
    if (e == ERR_OK && p->first)
        e = put_first_word(txn, p);
    if (e == ERR_GONE)
        p->trace = a->trace;
    if (a->note != NULL)
        err_note_set(&p->note, "%s", a->note);
    if (e == ERR_OK)
        e = feed_batch_append(changes, txn);
    if (e != ERR_OK)
        return e;
    p->stored = a->name;
    p->bytes = a->bytes;
    p->latest = a->latest;
    p->before = a->before;
    p->applied = p->created = a->created;
    p->pinned_ns = a->pinned_ns;
    return ERR_OK;
}

/* On the committer. An identical render that was known counts as a duplicate. */
static void put_done(void *ctx, err why)
{
    struct page_put *p = ctx;
    struct pages *pages = p->bucket->pages;
    struct put_own *own = own_of(p);
    const struct title_answer *a = &own->answer;
    if (why == ERR_OK) {
        atomic_fetch_add(p->applied ? &pages->puts : &pages->duplicates, 1);
        atomic_fetch_add(&pages->superseded, a->superseded);
        pages_tell_facts(p->bucket, p->domain, p->title, a->facts, a->facts_count);
        if (a->facts_count > 0)
            pages_tell(pages, p->bucket->number, p->domain, p->title);
        feed_batch_tell(&own->changes);
    }
    feed_batch_free(&own->changes);
    store_call_end(&p->call, why);
}

/* ---- starting ---- */

/* Makes the tid: of the instant that the caller prefers, or, where a purge came after that, of
 * the one at which the making began. */
static err put_mint(struct page_put *p)
{
    /* In a view of its own: the decision finds out if the name was taken meanwhile. */
    const struct page_which which = {
        .domain = p->domain, .title = p->title, .select = SELECT_REV, .name = { .rev = p->rev }
    };
    struct engine_view *v = engine_view_begin(p->bucket->pages->engine);
    err e = ERR_GONE;
    if (p->fence.ns != STORE_TIME_ZERO.ns)
        e = page_mint(p->bucket, v, &which, p->fence, p->random, &p->tid);
    if (e == ERR_GONE)
        e = page_mint(p->bucket, v, &which, p->began, p->random, &p->tid);
    engine_view_end(&v);
    p->has_tid = true;
    return e;
}

/* All that is done before the update, on the caller's thread: checks, digests, compression. */
static err put_prepare(struct page_put *p)
{
    struct page_bucket *b = p->bucket;
    struct put_own *own = arena_alloc(p->arena, sizeof *own);
    if (own == NULL)
        return ERR_LIMIT;
    own->row = (struct page_render){ .superseded_at = STORE_TIME_NEVER };
    p->call.own = own;
    err e = ERR_OK;
    /* Without a tid and without began, the decision makes one of the instant of arrival. */
    if (p->began.ns != STORE_TIME_ZERO.ns)
        e = put_mint(p);
    else if (!p->has_tid)
        p->tid = (struct tid){ 0 };
    if (e == ERR_OK && p->fill != NULL)
        e = p->fill(p);
    if (e == ERR_OK)
        e = bundle_check(&b->opts, clock_store(b->pages->clock), p);
    /* What is wrong with the request is told at once; nothing was submitted. */
    if (e != ERR_OK)
        return e;
    bundle_digests(p->contents, p->contents_count, own->digest, own->plain_digest);
    struct bundle_way way = { .codec = b->opts.codec,
                              .frames = frame_pool_take(&b->pages->frames) };
    str bundle = STR_NONE;
    e = bundle_build(&way, p->contents, p->contents_count, p->arena, &own->row, &bundle);
    frame_pool_give(&b->pages->frames, &way.frames);
    /* The hash is made here, so that the committer need not read the bundle. */
    own->bundle = engine_blob_of(bundle);
    if (e != ERR_OK)
        err_note_set(&p->note, "the bundle is too large");
    return e;
}

enum store_start page_put_start(struct page_bucket *b, struct page_put *p)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    p->bucket = b;
    err e = put_prepare(p);
    if (e != ERR_OK)
        return store_call_done(&p->call, e);
    struct put_own *own = own_of(p);
    own->changes = feed_batch_new(&b->pages->feed);
    own->update = (struct engine_update){ .decide = put_decide,
                                          .done = put_done,
                                          .ctx = p,
                                          .deadline = p->call.deadline,
                                          .partition = STR_NONE };
    engine_submit(b->pages->engine, &own->update);
    return STORE_LATER;
}
