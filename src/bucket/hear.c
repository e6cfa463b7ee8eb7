/* hear.c - the wiki's word: one update that decides and steps in all buckets of the title, and
 * writes the word; more updates when one may not write it all.
 *
 * Invariant: the word is written with the last of what follows from it. So a process that ends in
 * between has not heard it, and hears it once more. */
#include "bucket/dated.h"
#include "bucket/edit.h"
#include "bucket/word.h"

#include <stdlib.h>

enum { HEAR_FACTS_MAX = 4 }; /* of one update: each edits 1,024 rows at most */

struct hear_fact {
    unsigned bucket; /* its place among the store's */
    struct fact fact;
};
/* A place among the facts of a word: a bucket, and what of it title_hearing_next looks for next. */
struct hear_place {
    unsigned bucket, at;
};
/* A page_hear until it is over. Owner: the call; hear_done frees it. */
struct hear_own {
    struct engine_update update;
    struct pages *pages;
    struct feed_batch *changes;
    bool again, written, later; /* later: not the first update */
    bool has_last, stored;      /* stored: something of the title is */
    uint64_t there;             /* of the word (title/word.h) */
    /* Where the next update goes on: never back, so that what one fact did no other undoes */
    struct hear_place place, next;
    struct title_word last;
    struct hear_fact facts[HEAR_FACTS_MAX];
    unsigned facts_count;
};

static struct hear_own *own_of(const struct page_hear *h)
{
    return h->call.own;
}

/* ---- what is to be done ---- */

/* Reads the last word into *last, and judges the new one by it. */
static err hear_last(struct page_hear *h, struct engine_view *v, struct title_word *last, bool *has)
{
    err e = word_get(v, h->domain, h->title, last);
    h->had = *has = e == ERR_OK;
    if (h->word != NULL) {
        const struct title_said said = { .word = *h->word,
                                         .believed = h->believe,
                                         .doubted = h->doubted };
        h->is = title_said_judge(*has ? last : NULL, &said);
        h->echoes = h->is == WORD_OLD && title_word_eq(last, h->word);
    }
    return e == ERR_IO ? e : ERR_OK; /* a word that cannot be read is written anew */
}

/* What is known to be there once the word is heard (title/word.h). Marks alone change nothing of
 * it. */
static uint64_t hear_there(const struct page_hear *h, const struct title_word *last, bool has_last)
{
    return h->word == NULL ? 0 : title_word_there(has_last ? last : NULL, h->word, h->there);
}

/* What is to be stepped. A word that is old, or lags, makes no facts; marks always do. */
static struct title_hearing hearing_of(const struct page_hear *h, const struct title_word *last,
                                       bool has_last)
{
    bool says = h->word != NULL && (h->is == WORD_SAME || h->is == WORD_NEWS);
    return (struct title_hearing){ .word = says ? h->word : NULL,
                                   .last = has_last ? last : NULL,
                                   .marks = h->marks,
                                   .marks_count = h->marks_count };
}

/* Is a render of the title stored in this bucket? And has it a shown one that is greater than
 * the wiki's newest revision, and than what is known to be there? */
static err hear_look(struct page_hear *h, const struct title *t, uint64_t there, bool *stored)
{
    struct page_row row;
    uint64_t above = 0;
    err e = title_newest_alive(t, page_name_first, page_name_last, &row);
    *stored |= e == ERR_OK;
    if (e == ERR_OK && h->word != NULL)
        e = title_hearing_above(t, h->word, &above);
    if (above > h->above && above > there) {
        h->above = above;
        h->known = there;
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* ---- the update ---- */

/* Writes the word with all that it does: dated_note comes behind the facts of all buckets. */
static err hear_write(struct page_hear *h, struct engine_txn *txn)
{
    struct hear_own *own = own_of(h);
    const struct feed_title of = { .domain = h->domain, .title = h->title };
    struct title_word w = *h->word;
    err e = ERR_OK;
    w.there = own->there;
    own->written = h->is == WORD_NEWS;
    if (own->written)
        e = dated_note(own->pages, txn, own->changes, &of, h->word);
    return e == ERR_OK ? word_put(txn, h->domain, h->title, &w) : e;
}

/* Steps facts until there are no more, or this update may not write more: then own->next says
 * where another one goes on. */
static err hear_step(struct page_hear *h, struct edit *t, const struct title_hearing *hearing,
                     unsigned bucket)
{
    struct hear_own *own = own_of(h);
    /* Only the first bucket of an update goes on from a place; the others begin. */
    unsigned at = bucket == own->place.bucket ? own->place.at : 0;
    err e = ERR_OK;
    while (e == ERR_OK && !own->again) {
        struct title_part part = { .resumed = false };
        struct hear_fact *f = &own->facts[own->facts_count];
        own->again = own->facts_count == HEAR_FACTS_MAX;
        /* Set before the fact is looked for: one that is not done in this update is looked for
         * again. */
        own->next = (struct hear_place){ .bucket = bucket, .at = at };
        if (own->again)
            break;
        e = title_hearing_next(&t->look.title, hearing, &at, &f->fact);
        if (e == ERR_OK)
            e = edit_step_fact(t, &f->fact, &part);
        if (e != ERR_OK)
            break;
        f->bucket = bucket;
        own->facts_count++;
        own->again = part.more;
        at++; /* it is done, or another update goes on with it */
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* One bucket. It is looked at once all its facts are stepped, as they may hide what is stored. */
static err hear_bucket(struct page_hear *h, struct engine_txn *txn,
                       const struct title_hearing *hearing, unsigned i)
{
    struct hear_own *own = own_of(h);
    struct page_bucket *b = &own->pages->buckets[i];
    struct page_key key;
    struct edit t;
    page_key_title(&key, b->number, h->domain, h->title);
    err e = edit_begin(&t, txn, b, &key, own->changes);
    if (e == ERR_OK)
        e = hear_step(h, &t, hearing, i);
    if (e == ERR_OK && !own->again)
        e = hear_look(h, &t.look.title, own->there, &own->stored);
    return e == ERR_OK ? edit_end(&t) : e;
}

/* Is the word to be written: as news, or for a greater revision that is there? A title of which
 * nothing is stored or known has no word. */
static bool hear_writes(const struct page_hear *h, const struct title_hearing *hearing,
                        uint64_t there, bool stored)
{
    bool grew = hearing->last != NULL && there > hearing->last->there;
    return hearing->word != NULL && (hearing->last != NULL || stored) &&
           (h->is == WORD_NEWS || grew);
}

/* The engine may run it again. place stays as it is for that; stored only ever becomes true. */
static err hear_decide(struct engine_txn *txn, void *ctx)
{
    struct page_hear *h = ctx;
    struct hear_own *own = own_of(h);
    struct title_hearing hearing;
    own->again = own->written = false;
    own->facts_count = 0;
    feed_batch_clear(own->changes, engine_txn_now(txn));
    err e = hear_last(h, engine_txn_view(txn), &own->last, &own->has_last);
    hearing = hearing_of(h, &own->last, own->has_last);
    own->there = hear_there(h, &own->last, own->has_last);
    feed_set_word(own->changes, own->has_last ? &own->last : NULL);
    /* The buckets before the place are done, by updates before this one. */
    for (unsigned i = own->place.bucket; e == ERR_OK && !own->again && i < own->pages->count; i++)
        if (bucket_hears(&own->pages->buckets[i]))
            e = hear_bucket(h, txn, &hearing, i);
    if (e == ERR_OK && !own->again && hear_writes(h, &hearing, own->there, own->stored))
        e = hear_write(h, txn);
    return e == ERR_OK ? feed_batch_append(own->changes, txn) : e;
}

/* ---- told ---- */

static void hear_tell_facts(struct page_hear *h, unsigned bucket)
{
    const struct hear_own *own = own_of(h);
    for (unsigned i = 0; i < own->facts_count; i++)
        if (own->facts[i].bucket == bucket)
            pages_tell_facts(&own->pages->buckets[bucket], h->domain, h->title, &own->facts[i].fact,
                             1);
}

/* Tells facts and listeners. A word that is news may leave renders dated in every bucket that
 * hears it: so all of them are told. */
static void hear_tell(struct page_hear *h)
{
    struct hear_own *own = own_of(h);
    bool news = own->written && own->stored;
    if (!news && own->facts_count == 0)
        return;
    h->changed |= own->facts_count > 0;
    for (unsigned i = 0; i < own->pages->count; i++) {
        hear_tell_facts(h, i);
        if (bucket_hears(&own->pages->buckets[i]))
            pages_tell(own->pages, own->pages->buckets[i].number, h->domain, h->title);
    }
}

static void hear_submit(struct page_hear *h);

/* On the committer. Goes on with the next update, or answers the call. */
static void hear_done(void *ctx, err why)
{
    struct page_hear *h = ctx;
    struct hear_own *own = own_of(h);
    if (why == ERR_OK) {
        hear_tell(h);
        feed_batch_tell(&own->changes);
    }
    feed_batch_free(&own->changes);
    if (why == ERR_OK && own->again) {
        own->later = true;
        own->place = own->next;
        hear_submit(h);
        return;
    }
    free(own);
    store_call_end(&h->call, why);
}

/* A word that is half done is finished: updates after the first have no deadline. frees: what
 * the wiki denies is hidden on a full disk, too. */
static void hear_submit(struct page_hear *h)
{
    struct hear_own *own = own_of(h);
    own->changes = feed_batch_new(&own->pages->feed);
    own->update = (struct engine_update){ .decide = hear_decide,
                                          .done = hear_done,
                                          .ctx = h,
                                          .deadline = own->later ? (mono){ .ns = INT64_MAX }
                                                                 : h->call.deadline,
                                          .partition = STR_NONE,
                                          .frees = true };
    engine_submit(own->pages->engine, &own->update);
}

/* ---- starting ---- */

/* ERR_OK: a fact would change something; ERR_NOT_FOUND: none would. Fills h->above in any case. */
static err hear_wants(struct page_hear *h, struct look *k, const struct title_hearing *hearing,
                      uint64_t there, bool *stored)
{
    struct fact f;
    unsigned at = 0;
    err e = hear_look(h, &k->title, there, stored);
    return e != ERR_OK ? e : title_hearing_next(&k->title, hearing, &at, &f);
}

/* Most of what a wiki says changes nothing: then no update is needed. False also when something
 * cannot be read: the update fails by it and says so. */
static bool hear_is_idle(struct pages *p, struct page_hear *h)
{
    struct title_word last;
    bool has_last, stored = false;
    struct look k;
    struct engine_view *v = engine_view_begin(p->engine);
    err e = hear_last(h, v, &last, &has_last);
    struct title_hearing hearing = hearing_of(h, &last, has_last);
    uint64_t there = hear_there(h, &last, has_last);
    /* The loop goes on as long as no bucket has a fact to step. */
    if (e == ERR_OK)
        e = ERR_NOT_FOUND;
    for (unsigned i = 0; e == ERR_NOT_FOUND && i < p->count; i++) {
        if (!bucket_hears(&p->buckets[i]))
            continue;
        look_init(&k, &p->buckets[i], v, h->domain, h->title);
        e = hear_wants(h, &k, &hearing, there, &stored);
    }
    engine_view_end(&v);
    return e == ERR_NOT_FOUND && !hear_writes(h, &hearing, there, stored);
}

enum store_start page_hear_start(struct pages *p, struct page_hear *h)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    INVARIANT(h->marks_count <= PAGE_MARKS_MAX);
    INVARIANT(!h->doubted || h->word != NULL);
    h->is = WORD_SAME;
    h->above = h->known = 0;
    h->echoes = h->changed = false;
    /* A title of another size is in no key. */
    if (h->title.n < 1 || h->title.n > PAGE_TITLE_BYTES_MAX)
        return store_call_done(&h->call, ERR_BAD);
    bool idle = hear_is_idle(p, h);
    /* A copy of the wiki's database that is behind must change nothing; a doubted word must not
     * deny a revision that is stored above it. */
    if ((h->behind && (!idle || h->above != 0)) || (h->doubted && h->above != 0)) {
        h->is = WORD_LAGS;
        h->above = 0;
        idle = true;
    }
    if (idle)
        return store_call_done(&h->call, ERR_OK);
    h->above = h->known = 0; /* the update finds out */
    struct hear_own *own = calloc(1, sizeof *own);
    INVARIANT(own != NULL);
    own->pages = p;
    h->call.own = own;
    hear_submit(h);
    return STORE_LATER;
}

/* ---- is there anything that it would be about? ---- */

/* Is a render of the title alive in this bucket? */
static err known_in(struct page_bucket *b, struct engine_view *v, uint32_t domain, str title,
                    bool *known)
{
    struct look k;
    struct page_row row;
    look_init(&k, b, v, domain, title);
    err e = title_newest_alive(&k.title, page_name_first, page_name_last, &row);
    *known = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err page_knows(struct pages *p, uint32_t domain, str title, bool *known)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    struct title_word last;
    *known = false;
    if (title.n < 1 || title.n > PAGE_TITLE_BYTES_MAX)
        return ERR_BAD;
    struct engine_view *v = engine_view_begin(p->engine);
    err e = word_get(v, domain, title, &last);
    /* A damaged word is one all the same. */
    *known = e == ERR_OK || e == ERR_CORRUPT;
    if (e == ERR_NOT_FOUND || e == ERR_CORRUPT)
        e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && !*known && i < p->count; i++)
        if (bucket_hears(&p->buckets[i]))
            e = known_in(&p->buckets[i], v, domain, title, known);
    engine_view_end(&v);
    return e;
}
