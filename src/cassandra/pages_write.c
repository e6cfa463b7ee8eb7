/* pages_write.c - puts and orders: a title is derived, a decision is made (title/decide.h), and its
 * facts are appended.
 *
 * A put hashes and compresses on the pool, between the load and the decision: some bytes contain
 * the name of the render. The bytes are built once, the decision may be made twice (work_stamp,
 * work_without). */
#include "cassandra/words_impl.h"

#include "store/bundle.h"

/* ---- puts ---- */

struct put_own { /* in the work's arena */
    struct title_answer answer;
    struct titles_bytes bytes;
    struct page_render row; /* its contents */
    struct page_row there;  /* what stands for it already */
    str blob;
    unsigned char digest[PAGE_DIGEST_BYTES], plain_digest[PAGE_DIGEST_BYTES];
};

/* When the whole revision was purged last; ZERO: never, as far as the title knows. */
static store_time put_purged_at(const struct work *w, uint64_t rev)
{
    const struct title *t = &w->memory.title;
    store_time at;
    bool fenced;
    err e = t->ops->fence(t, rev, NULL, &fenced, &at);
    return e == ERR_OK && fenced ? at : STORE_TIME_ZERO;
}

/* Makes the tid: of the instant that the caller prefers; when that was purged since, of the instant
 * when the making began. */
static err put_mint(const struct work *w, struct page_put *q)
{
    struct title_mint m = {
        .rev = q->rev, .began = q->fence, .gone_if_purged = true, .random = q->random
    };
    err e = ERR_GONE;
    if (q->fence.ns != STORE_TIME_ZERO.ns)
        e = title_mint(&w->memory.title, &m, &q->tid);
    m.began = q->began;
    if (e == ERR_GONE)
        e = title_mint(&w->memory.title, &m, &q->tid);
    /* Another server's clock may be ahead of this one. A render that is asked for at once would be
     * purged again, so the caller hears from when on it pays. */
    if (e == ERR_GONE) /* another server's clock may be ahead: the same would be purged again */
        q->again_at = put_purged_at(w, q->rev);
    q->has_tid = true;
    return e;
}

/* Makes the tid, lets the caller complete the contents, and builds digests and frames. On the pool,
 * and once in the life of a put. */
static err put_build(struct work *w, struct page_put *q, struct put_own *own)
{
    struct cassandra_pages *p = w->pages;
    err e = ERR_OK;
    if (q->began.ns != STORE_TIME_ZERO.ns)
        e = put_mint(w, q);
    else if (!q->has_tid)
        /* The decision mints one (has_tid is false); it must not be left undefined till then. */
        q->tid = (struct tid){ 0 };
    if (e == ERR_OK && q->fill != NULL)
        e = q->fill(q);
    if (e == ERR_OK)
        e = bundle_check(&w->bucket->opts, clock_store(p->opts.clock), q);
    if (e != ERR_OK)
        return e;
    bundle_digests(q->contents, q->contents_count, own->digest, own->plain_digest);
    struct bundle_way way = { .codec = w->bucket->opts.codec,
                              /* Compressors are taken from a pool of the store and given back: each
                               * is large. */
                              .frames = frame_pool_take(&p->frames) };
    e = bundle_build(&way, q->contents, q->contents_count, q->arena, &own->row, &own->blob);
    frame_pool_give(&p->frames, &way.frames);
    if (e != ERR_OK)
        err_note_set(&q->note, "the bundle is too large");
    return e;
}

/* Under which word of the wiki the render was made: kept in its fact, so that a later word can
 * judge it. */
static struct title_under put_under(const struct work *w, const struct page_put *q)
{
    struct title_under u = { .said = 0 };
    if (q->word != NULL)
        u = title_under_of(q->word, q->revised);
    if (q->word != NULL && u.asked_at.ns == 0)
        u.asked_at = w->memory.title.now;
    return u;
}

/* Judges the put by the wiki's last word. ERR_GONE: the word denies what is put. Words that cannot
 * be read fail the put, since they might deny it. */
static err put_heed(struct work *w, struct page_put *q)
{
    const struct title_word *last = work_word(w);
    err e = w->words == NULL ? ERR_OK : w->words->call.why;
    if (e != ERR_OK)
        return work_blame(w, e, false, &w->words->note);
    q->first = q->heeds && q->word != NULL && last == NULL;
    if (last == NULL || q->word == NULL || !title_word_denies(last, q->word))
        return ERR_OK;
    /* The client hears what a read would say of such a render. */
    q->trace = (struct page_trace){ .name = { .rev = q->rev, .tid = q->tid },
                                    .state = PAGE_DELETED,
                                    .at = last->asked_at,
                                    .policy = w->memory.title.plan->policy.kind,
                                    .superseded_at = STORE_TIME_NEVER };
    err_note_set(&q->note, "deleted at the wiki while it was made");
    return ERR_GONE;
}

/* The greatest revision that is known to exist elsewhere, by the caller or the wiki; 0: none. */
static uint64_t put_behind(const struct work *w, const struct page_put *q)
{
    const struct title_word *last = work_word(w);
    uint64_t newest = last != NULL && last->rev > q->rev ? last->rev : 0;
    return q->behind > newest ? q->behind : newest;
}

/* Decides, and tells the request what came of it. Nothing is written yet. */
static err put_decide(struct work *w, struct page_put *q, struct put_own *own)
{
    const struct title_put request = { .rev = q->rev,
                                       .has_tid = q->has_tid,
                                       .tid = q->tid,
                                       .random = q->random,
                                       .digest = own->digest,
                                       .plain_digest = own->plain_digest,
                                       .contents = own->row.contents,
                                       .contents_count = own->row.contents_count,
                                       .stash_ns = q->stash_ns,
                                       .behind = put_behind(w, q),
                                       .said_at = q->said_at,
                                       .asked = q->asked,
                                       .own_name = q->own_name,
                                       .made = put_under(w, q),
                                       .allow = work_allow(&q->condition),
                                       .allow_ctx = &q->condition };
    struct title_answer *a = &own->answer;
    title_answer_init(a);
    err e = title_decide_put(&w->memory.title, &request, a);
    if (e == ERR_GONE)
        q->trace = a->trace;
    if (e == ERR_GONE && a->trace.state != PAGE_PURGED)
        /* A word hides what was asked for by then; asked for later, the render is above it. */
        q->again_at = title_said_until(&w->memory.title, a->trace.at);
    if (a->note != NULL)
        err_note_set(&q->note, "%s", a->note);
    if (e != ERR_OK)
        return e;
    q->stored = a->name;
    q->bytes = a->bytes;
    q->latest = a->latest;
    q->before = a->before;
    q->applied = q->created = a->created;
    q->pinned_ns = a->pinned_ns;
    return ERR_OK;
}

/* The bytes go out with the fact that puts them. NULL: no new render, such as a put of bytes that
 * are there. */
static const struct titles_bytes *put_bytes(struct put_own *own)
{
    for (unsigned i = 0; i < own->answer.facts_count; i++)
        if (own->answer.facts[i].what == FACT_PUT) {
            own->bytes = (struct titles_bytes){ .name = own->answer.facts[i].name,
                                                .digest = own->digest,
                                                .contents = own->row.contents,
                                                .contents_count = own->row.contents_count,
                                                .blob = own->blob };
            return &own->bytes;
        }
    return NULL;
}

/* Is there room for one more render? Each request reads all facts of its title. A title that is
 * rendered each second would fill its partition within the window of its policy. Of the renders
 * that policy keeps for good the latest alone counts: time does not lift a limit on the others. */
static err put_room(struct work *w, struct page_put *q, const struct title_answer *a)
{
    const struct title_memory *m = &w->memory;
    unsigned max = w->pages->opts.renders_max;
    /* The latest is kept for good until it is superseded, and then counts as the others. */
    size_t count = m->rows_count > 0;
    bool puts = false;
    for (unsigned i = 0; i < a->facts_count; i++)
        puts = puts || a->facts[i].what == FACT_PUT;
    for (size_t i = 0; i < m->rows_count; i++)
        count += m->rows[i]->r.due_at.ns != INT64_MAX;
    err e = work_room(w, a->facts, a->facts_count);
    if (e != ERR_OK || !puts || max == 0 || count < max)
        return e;
    err_note_set(&q->note,
                 "too_many_renders: the title has %zu renders that its policy keeps yet, as many "
                 "as page.renders_max lets it have",
                 count);
    return ERR_AGAIN;
}

static void put_appended(struct work *w)
{
    (void)atomic_fetch_add(&w->pages->puts, 1); /* a figure */
    work_end(w, ERR_OK);
}

static void put_write(struct work *w)
{
    struct page_put *q = w->request;
    struct put_own *own = w->call->own;
    /* The decision must be made again at its stamp; put_loaded runs again, with the same bytes. */
    if (own->answer.facts_count > 0 && !work_stamp(w))
        return;
    if (own->answer.facts_count == 0)
        (void)atomic_fetch_add(&w->pages->duplicates, 1);
    /* The first word of a title is written beside the put, also when the put itself changes
     * nothing. */
    if (q->first)
        words_first(w, own->answer.facts, own->answer.facts_count, put_bytes(own));
    else if (own->answer.facts_count == 0)
        work_end(w, ERR_OK);
    else
        work_append(w, own->answer.facts, own->answer.facts_count, put_bytes(own));
}

/* The put is answered by a render that is there already. Its bytes have to be on a quorum before
 * that is said. */
static void put_looked(struct work *w, err why)
{
    const struct put_own *own = w->call->own;
    if (why == ERR_OK)
        put_write(w);
    else if (why == ERR_NOT_FOUND)
        /* They are not: the put looks again, and may put the render itself. */
        work_without(w, &own->there);
    else
        work_end(w, why);
}

/* Builds the bytes. A look that comes again, as when bytes were missing, finds them built. */
static err put_begin(struct work *w, struct page_put *q)
{
    struct put_own *own = w->call->own;
    if (own != NULL)
        return ERR_OK;
    w->call->own = own = arena_alloc(&w->arena, sizeof *own);
    if (own == NULL)
        return ERR_LIMIT;
    own->row = (struct page_render){ .superseded_at = STORE_TIME_NEVER };
    return put_build(w, q, own);
}

/* The order of the steps is that of answers: a put that is malformed, denied, decided or crowded is
 * told the first of these. */
static void put_loaded(struct work *w)
{
    struct page_put *q = w->request;
    err e = put_begin(w, q);
    struct put_own *own = w->call->own;
    if (e == ERR_OK)
        e = put_heed(w, q);
    if (e == ERR_OK)
        e = put_decide(w, q, own);
    if (e == ERR_OK)
        e = put_room(w, q, &own->answer);
    if (e != ERR_OK)
        work_end(w, e);
    /* `stored` is another render's name, or the same render: no new one was made. */
    else if (!q->created && title_get(&w->memory.title, q->stored, &own->there) == ERR_OK)
        work_look_bytes(w, &own->there, put_looked);
    else
        put_write(w);
}

enum store_start cassandra_pages_put(struct cassandra_pages *p, struct page_put *q)
{
    struct work *w = work_new(p, q->bucket, &q->call);
    q->call.own = NULL;
    w->request = q;
    w->note = &q->note;
    w->heeds = q->heeds;
    w->loaded = put_loaded;
    w->appended = put_appended;
    /* On the pool from the start: hashing and compressing may take milliseconds. */
    work_start(w, q->domain, q->title, pages_pool(p, &q->call));
    return STORE_LATER;
}

/* ---- orders ---- */

/* An order is written. The title with the facts of the order shows the effect.
 */
static void order_appended(struct work *w)
{
    struct page_order *o = w->request;
    const struct title_answer *a = w->call->own;
    struct title_memory *after = arena_alloc(&w->arena, sizeof *after);
    err e = after == NULL ? ERR_LIMIT : work_after(w, a, after);
    if (e == ERR_OK && o->kind == ORDER_PURGE) {
        o->purged = w->memory.rows_count - after->rows_count;
        (void)atomic_fetch_add(&w->pages->purged, o->purged);
    } else if (e == ERR_OK && o->kind != ORDER_UNSTASH) {
        struct page_row row;
        err found = title_get(&after->title, o->render.name, &row);
        if (found == ERR_OK)
            o->render = row.r;
        else if (o->kind != ORDER_RELEASE) /* which lets a render go that is past due */
            e = found;
        if (e == ERR_OK && o->kind == ORDER_EXTEND)
            (void)atomic_fetch_add(&w->pages->extended, 1); /* a figure */
    }
    work_end(w, e);
}

/* As put_loaded: runs once more when the decision has to be made at its stamp. */
static void order_loaded(struct work *w)
{
    struct page_order *o = w->request;
    const struct title_order request = { .kind = o->kind,
                                         .has_rev = o->has_rev,
                                         .has_tid = o->has_tid,
                                         .name = o->name,
                                         .until = o->until,
                                         .named = o->named,
                                         .drop = o->drop,
                                         .elsewhere = o->elsewhere,
                                         .allow = work_allow(&o->condition),
                                         .allow_ctx = &o->condition };
    struct title_answer *a = arena_alloc(&w->arena, sizeof *a);
    if (a == NULL) {
        work_end(w, ERR_LIMIT);
        return;
    }
    title_answer_init(a);
    /* In the request, since order_appended needs the facts again. */
    o->call.own = a;
    err e = title_decide_order(&w->memory.title, &request, &o->render, a);
    if (e == ERR_GONE)
        o->trace = a->trace;
    o->pinned_ns = a->pinned_ns;
    if (a->note != NULL)
        err_note_set(&o->note, "%s", a->note);
    if (e == ERR_OK)
        e = work_room(w, a->facts, a->facts_count);
    if (e != ERR_OK || a->facts_count == 0)
        work_end(w, e);
    else if (work_stamp(w))
        work_append(w, a->facts, a->facts_count, NULL);
}

void pages_order_start(struct cassandra_pages *p, struct page_order *o)
{
    struct work *w = work_new(p, o->bucket, &o->call);
    w->request = o;
    w->note = &o->note;
    w->loaded = order_loaded;
    w->appended = order_appended;
    work_start(w, o->domain, o->title, pages_pool(p, &o->call));
}

enum store_start cassandra_pages_order(struct cassandra_pages *p, struct page_order *o)
{
    o->purged = 0;
    if (o->title.n < 1 || o->title.n > PAGE_TITLE_BYTES_MAX || (o->has_tid && !o->has_rev)) {
        err_note_set(&o->note,
                     "the title is empty or too long, or a tid is given without its revision");
        return store_call_done(&o->call, ERR_BAD);
    }
    /* Conditions are judged one by one, so an order with a condition cannot stand for others. */
    if (o->kind == ORDER_EXTEND && o->has_tid && work_allow(&o->condition) == NULL)
        return pages_extend(p, o);
    pages_order_start(p, o);
    return STORE_LATER;
}
