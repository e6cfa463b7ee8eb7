/* sweep.c - the titles of a domain over all its buckets, what is forgotten of them, and notes of
 * domains (store/page_sweep.h).
 *
 * A walk has a lane for each bucket that hears the wiki, and one for words. Each stands on the next
 * title of its own; the least of them is told, and the lanes that stand on it go on. */
#include "bucket/sweep.h"

#include "bucket/look.h"
#include "bucket/word.h"
#include "title/title.h"

#include <stdlib.h>
#include <string.h>

/* Revisions that one page_revs looks at: with `since`, few of them may count. */
enum { REVS_LOOKED_MAX = 1000 }; /* of one page_revs */

static bool title_fits(str title)
{
    return title.n >= 1 && title.n <= PAGE_TITLE_BYTES_MAX;
}

/* ---- titles ---- */

/* The next title of one bucket, or of the words. Lives for one walk. */
struct lane {
    uint16_t bucket; /* 0: of words */
    struct engine_cursor *cursor;
    bool over;
    bool heard; /* of words: word is whole */
    struct title_word word;
    size_t title_bytes;
    char title[PAGE_TITLE_BYTES_MAX];
};

/* Borrowed until the lane moves. */
static str lane_title(const struct lane *l)
{
    return (str){ .p = l->title, .n = l->title_bytes };
}

/* Sets a lane before its first title behind w->after; lane_next goes there. */
static void lane_open(struct lane *l, struct engine_view *v, uint16_t bucket,
                      const struct page_walk *w)
{
    struct page_key from, prefix;
    char end[PAGE_BOUND_BYTES_MAX];
    page_key_title(&prefix, bucket, w->domain, STR("x"));
    prefix.n -= 2; /* without the title and its end */
    from = prefix;
    if (w->after.n > 0) {
        /* Behind each key of the title that the last walk ended with. */
        page_key_title(&from, bucket, w->domain, w->after);
        page_key_title_end(&from);
    }
    const struct engine_range range = { .space = bucket == 0 ? SPACE_WORD : SPACE_RENDER,
                                        .from = page_key_str(&from),
                                        .until = engine_prefix_end(page_key_str(&prefix), end) };
    l->bucket = bucket;
    l->over = false;
    l->cursor = engine_cursor_open(v, &range);
}

/* To the next row that names a title; damaged rows are gone past. over: there is none. */
static err lane_next(struct lane *l)
{
    struct engine_row found;
    struct page_key_parts parts;
    err e;
    while ((e = engine_cursor_next(l->cursor, &found)) == ERR_OK || e == ERR_CORRUPT) {
        bool named = l->bucket == 0 ? page_key_title_parse(found.key, &parts)
                                    : page_key_parse(found.key, &parts);
        if (found.key.n == 0)
            return ERR_IO; /* the index itself cannot be read */
        if (e == ERR_CORRUPT || !named || !title_fits(parts.title))
            continue;
        memcpy(l->title, parts.title.p, parts.title.n);
        l->title_bytes = parts.title.n;
        l->heard = l->bucket == 0 && title_word_decode(found.value, &l->word) == ERR_OK;
        return ERR_OK;
    }
    l->over = true;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Past all rows of the title that the lane stands on. */
static err lane_pass(struct lane *l, uint32_t domain)
{
    struct page_key key;
    page_key_title(&key, l->bucket, domain, lane_title(l));
    page_key_title_end(&key);
    /* The seek goes behind all renders of the title: each title costs one step, however many it
     * has. */
    engine_cursor_seek(l->cursor, page_key_str(&key));
    return lane_next(l);
}

/* All lanes of one walk; on the stack of page_walk_start, `of` on the heap. */
struct lanes {
    struct lane *of;
    unsigned count;
};

static err lanes_open(struct lanes *all, struct pages *p, struct engine_view *v,
                      const struct page_walk *w)
{
    err e = ERR_OK;
    all->of = calloc(p->count + 1, sizeof *all->of);
    INVARIANT(all->of != NULL);
    /* The lane of words comes first: its bucket is 0, which no bucket has. */
    lane_open(&all->of[all->count++], v, 0, w);
    for (unsigned i = 0; i < p->count; i++)
        if (bucket_hears(&p->buckets[i]))
            lane_open(&all->of[all->count++], v, p->buckets[i].number, w);
    for (unsigned i = 0; e == ERR_OK && i < all->count; i++)
        e = lane_next(&all->of[i]);
    return e;
}

static void lanes_close(struct lanes *all)
{
    for (unsigned i = 0; i < all->count; i++)
        engine_cursor_close(&all->of[i].cursor);
    free(all->of);
}

/* The title to be told next; NULL: all lanes are over. */
static const struct lane *lanes_least(const struct lanes *all)
{
    const struct lane *least = NULL;
    for (unsigned i = 0; i < all->count; i++) {
        const struct lane *l = &all->of[i];
        if (!l->over && (least == NULL || str_cmp(lane_title(l), lane_title(least)) < 0))
            least = l;
    }
    return least;
}

/* Tells the least title, and moves each lane that stands on it to the next. The lane of words
 * says what was heard of it, the others that it is stored. */
static err lanes_step(struct lanes *all, const struct page_walk *w, const struct lane *least,
                      bool *enough)
{
    char title[PAGE_TITLE_BYTES_MAX];
    struct page_swept swept = { .title = { .p = title, .n = least->title_bytes } };
    err e = ERR_OK;
    /* A copy: least is one of the lanes that move. */
    memcpy(title, least->title, least->title_bytes);
    for (unsigned i = 0; e == ERR_OK && i < all->count; i++) {
        struct lane *l = &all->of[i];
        if (l->over || !str_eq(lane_title(l), swept.title))
            continue;
        swept.stored |= l->bucket != 0;
        if (l->bucket == 0 && l->heard) {
            swept.heard = true;
            swept.word = l->word;
        }
        e = lane_pass(l, w->domain);
    }
    *enough = e == ERR_OK && !w->each(w->ctx, &swept);
    return e;
}

/* All of it runs on the caller's thread, in one view. */
enum store_start page_walk_start(struct pages *p, struct page_walk *w)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    struct lanes all = { .count = 0 };
    struct engine_view *v = engine_view_begin(p->engine);
    err e = lanes_open(&all, p, v, w);
    const struct lane *least = NULL;
    bool enough = w->titles == 0;
    unsigned left = w->titles;
    while (e == ERR_OK && (least = lanes_least(&all)) != NULL && !enough &&
           (w->until.n == 0 || str_cmp(lane_title(least), w->until) <= 0)) {
        e = lanes_step(&all, w, least, &enough);
        enough = enough || --left == 0;
    }
    /* A title is left that was not told: the caller may go on behind the last one. */
    w->more = least != NULL && enough;
    lanes_close(&all);
    engine_view_end(&v);
    return store_call_done(&w->call, e);
}

/* ---- revisions ---- */

/* The greatest revision below `below` in any bucket that hears the wiki, and when its newest
 * render came. *rev 0: there is none. */
static err revs_next(struct pages *p, struct engine_view *v, const struct page_revs *r,
                     uint64_t below, uint64_t *rev, store_time *came)
{
    err e = ERR_OK;
    *rev = 0;
    *came = STORE_TIME_ZERO;
    for (unsigned i = 0; e == ERR_OK && i < p->count; i++) {
        struct title_walk walk;
        struct page_row row;
        struct look k;
        if (!bucket_hears(&p->buckets[i]))
            continue;
        look_init(&k, &p->buckets[i], v, r->domain, r->title);
        /* The first render alive is the greatest; a revision's newest render comes first. */
        title_walk_open(&walk, &k.title, page_name_first, page_name_high(below - 1), false);
        e = title_walk_alive(&walk, &row);
        title_walk_close(&walk);
        if (e == ERR_OK && row.r.name.rev > *rev) {
            *rev = row.r.name.rev;
            *came = row.r.stored_at;
            /* The same revision in another bucket: the later arrival counts. */
        } else if (e == ERR_OK && row.r.name.rev == *rev) {
            *came = store_time_max(*came, row.r.stored_at);
        }
        e = e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    return e;
}

enum store_start page_revs_start(struct pages *p, struct page_revs *r)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    struct engine_view *v = engine_view_begin(p->engine);
    uint64_t below = r->below;
    store_time came;
    err e = ERR_OK;
    r->count = 0;
    /* At revision 1 nothing is below; a full answer and a long search end the call, too. */
    for (unsigned looked = 0; e == ERR_OK && below > 1 && r->count < PAGE_REVS_MAX; looked++) {
        if (looked == REVS_LOOKED_MAX)
            break;
        uint64_t rev = 0;
        e = revs_next(p, v, r, below, &rev, &came);
        below = rev;
        if (e == ERR_OK && rev != 0 && !store_time_before(came, r->since))
            r->revs[r->count++] = rev;
    }
    r->next = below > 1 ? below : 0;
    engine_view_end(&v);
    return store_call_done(&r->call, e);
}

/* ---- forgetting ---- */

/* A page_forget until it is over. Owner: the call; forget_done frees it. */
struct forget_own {
    struct engine_update update;
    struct pages *pages;
};

/* Is a render of the title there, due or not? A damaged row counts as one: its word must not be
 * forgotten for it. */
static err is_stored(struct pages *p, struct engine_view *v, uint32_t domain, str title,
                     bool *stored)
{
    err e = ERR_OK;
    *stored = false;
    for (unsigned i = 0; e == ERR_OK && !*stored && i < p->count; i++) {
        struct page_key from, until;
        struct engine_row found;
        if (!bucket_hears(&p->buckets[i]))
            continue;
        page_key_title(&from, p->buckets[i].number, domain, title);
        until = from;
        page_key_title_end(&until);
        const struct engine_range range = { .space = SPACE_RENDER,
                                            .from = page_key_str(&from),
                                            .until = page_key_str(&until) };
        struct engine_cursor *c = engine_cursor_open(v, &range);
        e = engine_cursor_next(c, &found);
        engine_cursor_close(&c);
        *stored = e == ERR_OK || e == ERR_CORRUPT;
        e = e == ERR_NOT_FOUND || e == ERR_CORRUPT ? ERR_OK : e;
    }
    return e;
}

/* A word goes when nothing of its title is stored, and no render may be under way that it
 * denies. */
static err forget_decide(struct engine_txn *txn, void *ctx)
{
    struct page_forget *f = ctx;
    const struct forget_own *own = f->call.own;
    struct engine_view *v = engine_txn_view(txn);
    err e = ERR_OK;
    f->forgotten = 0;
    for (unsigned i = 0; e == ERR_OK && i < f->count; i++) {
        struct title_word word;
        bool stored = false;
        err had = word_get(v, f->domain, f->titles[i], &word);
        if (had != ERR_OK || !store_time_before(word.asked_at, f->before))
            continue;
        e = is_stored(own->pages, v, f->domain, f->titles[i], &stored);
        if (e != ERR_OK || stored)
            continue;
        e = word_forget(txn, f->domain, f->titles[i]);
        f->forgotten += e == ERR_OK;
    }
    return e;
}

/* On the committer. */
static void forget_done(void *ctx, err why)
{
    struct page_forget *f = ctx;
    free(f->call.own);
    store_call_end(&f->call, why);
}

enum store_start page_forget_start(struct pages *p, struct page_forget *f)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    INVARIANT(f->count <= PAGE_FORGET_MAX);
    struct forget_own *own = calloc(1, sizeof *own);
    INVARIANT(own != NULL);
    own->pages = p;
    own->update = (struct engine_update){ .decide = forget_decide,
                                          .done = forget_done,
                                          .ctx = f,
                                          .deadline = f->call.deadline,
                                          .partition = STR_NONE,
                                          .frees = true };
    f->call.own = own;
    engine_submit(p->engine, &own->update);
    return STORE_LATER;
}

/* ---- notes ---- */

/* A page_note_put until it is over. Owner: the call; note_done frees it. */
struct note_own {
    struct engine_update update;
};

static err note_decide(struct engine_txn *txn, void *ctx)
{
    const struct page_note_put *n = ctx;
    return catalog_note_put(txn, n->domain, n->note, n->bytes);
}

static void note_done(void *ctx, err why)
{
    struct page_note_put *n = ctx;
    free(n->call.own);
    store_call_end(&n->call, why);
}

enum store_start page_note_start(struct pages *p, struct page_note_put *n)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    INVARIANT(n->bytes.n <= PAGE_NOTE_BYTES_MAX);
    struct note_own *own = calloc(1, sizeof *own);
    INVARIANT(own != NULL);
    own->update = (struct engine_update){ .decide = note_decide,
                                          .done = note_done,
                                          .ctx = n,
                                          .deadline = n->call.deadline,
                                          .partition = STR_NONE };
    n->call.own = own;
    engine_submit(p->engine, &own->update);
    return STORE_LATER;
}
