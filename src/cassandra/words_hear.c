/* words_hear.c - the wiki's word is heard: decided on the title in all buckets that hear the wiki,
 * as bucket/hear.c decides for the embedded store.
 *
 *   LOAD    the facts of the title in each bucket, and its words, at once
 *   FACTS   what follows from word and marks, in each bucket, at once
 *   WORD    the word, when it is news
 *   AGAIN   the words are read once more; those before the last are deleted
 *   SETTLE  did another server keep a word meanwhile? What follows from that word and the one
 *           before it becomes facts, too
 *
 * Invariants:
 *   1 facts come before the word: a server that breaks off in between has not heard the word, and
 *     hears it once more. With the word first, the next hearing would take it for known, and would
 *     not see that another page has taken the title;
 *   2 all that hides is a fact, and says since when. A put that was asked for before is hidden by
 *     the fold, whichever of both is written first. So a hearing and a put beside each other wait
 *     for nothing;
 *   3 a server that keeps a word reads the words behind that. One thing no fact says: which page a
 *     render is of. The words say it, and of two servers that keep one, the later sees both. */
#include "cassandra/words_impl.h"

#include "title/step.h"

#include <stdlib.h>
#include <string.h>

/* One hearing, or what a put found to settle. It frees itself in hear_end. */
struct hear {
    struct fan fan;
    struct page_hear *q; /* NULL: it settles what a put found */
    struct words_load words;
    struct words_put put;
    struct words_drop drop;
    struct title_word last;
    bool has_last, stored, known; /* known: anything of the title is, in any bucket */
    uint64_t there;               /* the greatest revision that is known to exist at the wiki */
    /* before: the words as this server decided on them, with its own; chain: as they are now. Both
     * in the order of the fold. */
    struct title_said before[WORDS_MAX + 1], chain[WORDS_MAX];
    size_t before_count, chain_count;
};

static struct hear *hear_new(struct cassandra_pages *p, struct store_call *request, uint32_t domain,
                             str title)
{
    struct hear *h = calloc(1, sizeof *h);
    INVARIANT(h != NULL);
    fan_init(&h->fan, p, request, domain, title);
    return h;
}

static void hear_end(struct hear *h, err why)
{
    struct store_call *request = h->fan.request;
    fan_fini(&h->fan);
    free(h);
    store_call_end(request, why);
}

static struct hear *hear_of(struct fan *f)
{
    return CONTAINER_OF(f, struct hear, fan);
}

static void hear_joined_call(struct store_call *c)
{
    fan_join(c->own);
}

/* Reads the words; the fan waits for them (one of `others`). */
static void words_read(struct hear *h)
{
    h->words.call = fan_call(&h->fan, hear_joined_call);
    h->words.call.own = &h->fan;
    h->words.domain = h->fan.domain_name;
    h->words.title = h->fan.title;
    store_call_then(words_load(h->fan.pages->opts.titles, &h->words), &h->words.call);
}

/* ---- facts ---- */

/* A word that is old or lags says nothing of the title; marks are heard in any case. */
static struct title_hearing hearing_of(const struct hear *h)
{
    const struct page_hear *q = h->q;
    bool says = q->word != NULL && (q->is == WORD_SAME || q->is == WORD_NEWS);
    return (struct title_hearing){ .word = says ? q->word : NULL,
                                   .last = h->has_last ? &h->last : NULL,
                                   .marks = q->marks,
                                   .marks_count = q->marks_count };
}

/* Steps all that follows from a hearing, so that each fact is judged behind the facts before. facts
 * NULL: they are only counted. */
static err hearing_step(struct title *t, const struct title_hearing *hearing, struct fact *facts,
                        size_t *count)
{
    unsigned at = 0;
    struct fact fact;
    err e;
    while ((e = title_hearing_next(t, hearing, &at, &fact)) == ERR_OK) {
        /* A purge of many rows is stepped in parts. */
        struct title_part part = { .resumed = false };
        do {
            e = title_step(t, &fact, &part);
            part.resumed = part.more;
            part.from = part.next;
        } while (e == ERR_OK && part.more);
        if (e != ERR_OK)
            break;
        if (facts != NULL)
            facts[*count] = fact;
        ++*count;
        at++;
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Room for the facts of so many hearings; each place of their orders gives one fact at most. */
static err part_facts_new(struct fan_part *p, size_t hearings, unsigned marks_count)
{
    size_t most = hearings * (2 * (size_t)marks_count + 4);
    p->facts_count = p->appended = 0;
    p->facts = arena_calloc(&p->work->arena, most + 1, sizeof *p->facts);
    return p->facts == NULL ? ERR_LIMIT : ERR_OK;
}

/* Notes whether a render is there, and whether a render is above the wiki's newest revision and
 * above `there`. Such a render was deleted, or the wiki's copy is behind. */
static err hear_look(struct hear *h, const struct title *t)
{
    struct page_hear *q = h->q;
    struct page_row row;
    uint64_t above = 0;
    err e = title_newest_alive(t, page_name_first, page_name_last, &row);
    h->stored |= e == ERR_OK;
    if (e == ERR_OK && q->word != NULL)
        e = title_hearing_above(t, q->word, &above);
    if (above > q->above && above > h->there) {
        q->above = above;
        q->known = h->there;
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Is the row of a word to be written: news, or a greater revision that is known? Only of a title
 * that has a word or a render. */
static bool hear_writes(const struct hear *h, const struct title_hearing *hearing)
{
    bool grew = h->has_last && h->there > h->last.there;
    return hearing->word != NULL && (h->has_last || h->stored) && (h->q->is == WORD_NEWS || grew);
}

/* Would the hearing leave rows and words as they are? This only looks: the rows stay as they were.
 */
static err hear_is_idle(struct hear *h, const struct title_hearing *hearing, bool *idle)
{
    err e = ERR_NOT_FOUND;
    h->stored = false;
    for (unsigned i = 0; e == ERR_NOT_FOUND && i < h->fan.count; i++) {
        struct title *t = &h->fan.parts[i].work->memory.title;
        struct fact fact;
        unsigned at = 0;
        /* serial: facts that only hide what is to come are left out, as in the embedded store. */
        t->serial = true;
        e = hear_look(h, t);
        if (e == ERR_OK)
            e = title_hearing_next(t, hearing, &at, &fact);
        t->serial = false;
    }
    *idle = e == ERR_NOT_FOUND && !hear_writes(h, hearing);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Steps the facts that change rows, as the embedded store does. Then it derives the title again:
 * part_decide needs the title as it was. */
static err part_change(struct hear *h, struct fan_part *p, const struct title_hearing *hearing)
{
    struct work *w = p->work;
    struct title *t = &w->memory.title;
    store_time now = t->now;
    size_t count = 0;
    t->serial = true;
    err e = hearing_step(t, hearing, NULL, &count);
    if (e == ERR_OK)
        e = hear_look(h, t);
    t->serial = false;
    h->q->changed |= count > 0;
    return e == ERR_OK && count > 0 ? title_derive(&w->facts, now, &w->arena, &w->memory) : e;
}

/* Makes the facts to write, with facts that hide later puts. Of a title of which nothing is known a
 * word leaves nothing: else each name that anybody asks for would be kept. */
static err part_decide(struct hear *h, struct fan_part *p, const struct title_hearing *hearing)
{
    struct title_hearing here = *hearing;
    if (!h->known)
        here.word = NULL;
    err e = part_facts_new(p, 1, here.marks_count);
    return e == ERR_OK ? hearing_step(&p->work->memory.title, &here, p->facts, &p->facts_count) : e;
}

/* Sets the last word, and how the new word stands to it, before anything is decided. */
static void hear_last(struct hear *h)
{
    struct page_hear *q = h->q;
    const struct title_word *last = words_last(&h->words);
    q->had = h->has_last = last != NULL;
    if (last != NULL)
        h->last = *last;
    if (q->word == NULL)
        return;
    const struct title_said said = { .word = *q->word,
                                     .believed = q->believe,
                                     .doubted = q->doubted };
    q->is = title_said_judge(last, &said);
    /* The caller is told that a later word says the same: it need not ask again. */
    q->echoes = q->is == WORD_OLD && title_word_eq(last, q->word);
    h->there = title_word_there(last, q->word, q->there);
}

/* *lags: the wiki answered from a copy that is behind, so nothing of it is heard. */
static err hear_decide(struct hear *h, const struct title_hearing *hearing, bool *lags)
{
    struct page_hear *q = h->q;
    bool idle;
    err e = hear_is_idle(h, hearing, &idle);
    *lags = (q->behind && (!idle || q->above != 0)) || (q->doubted && q->above != 0);
    if (e != ERR_OK || *lags)
        return e;
    /* The looks before the change do not count. */
    if (!idle) {
        q->above = q->known = 0;
        h->stored = false;
    }
    /* Rows that cannot be read count, too: something is known. */
    h->known = h->words.rows > 0;
    for (unsigned i = 0; i < h->fan.count; i++)
        h->known |= h->fan.parts[i].work->facts.facts_count > 0;
    for (unsigned i = 0; e == ERR_OK && i < h->fan.count; i++) {
        if (!idle)
            e = part_change(h, &h->fan.parts[i], hearing);
        if (e == ERR_OK)
            e = part_decide(h, &h->fan.parts[i], hearing);
    }
    return e;
}

/* ---- settling ---- */

/* Did this server decide on these two words, one behind the other? Then their facts are written. */
static bool pair_is_known(const struct hear *h, const struct title_said *a,
                          const struct title_said *b)
{
    for (size_t i = 1; i < h->before_count; i++)
        if (title_said_cmp(&h->before[i - 1], a) == 0 && title_said_cmp(&h->before[i], b) == 0)
            return true;
    return false;
}

static void hear_settled(struct fan *f)
{
    hear_end(hear_of(f), fan_why(f));
}

/* The facts of each pair of words that this server has not decided on, in the order of the words.
 */
static err part_settle(const struct hear *h, struct fan_part *p)
{
    err e = part_facts_new(p, h->chain_count, 0);
    for (size_t i = 1; e == ERR_OK && i < h->chain_count; i++) {
        const struct title_hearing hearing = { .word = &h->chain[i].word,
                                               .last = &h->chain[i - 1].word };
        if (!pair_is_known(h, &h->chain[i - 1], &h->chain[i]))
            e = hearing_step(&p->work->memory.title, &hearing, p->facts, &p->facts_count);
    }
    return e;
}

/* The titles as they are now, with what other servers wrote. */
static void settle_loaded(struct fan *f)
{
    struct hear *h = hear_of(f);
    err e = fan_why(f);
    for (unsigned i = 0; e == ERR_OK && i < f->count; i++)
        e = part_settle(h, &f->parts[i]);
    if (e != ERR_OK) {
        hear_end(h, e);
        return;
    }
    f->joined = hear_settled;
    fan_append(f, 0);
}

static bool settle_wanted(const struct hear *h)
{
    for (size_t i = 1; i < h->chain_count; i++)
        if (!pair_is_known(h, &h->chain[i - 1], &h->chain[i]))
            return true;
    return false;
}

/* Ends the hearing, unless words of other servers have come in between. */
static void hear_settle(struct hear *h)
{
    if (!settle_wanted(h)) {
        hear_end(h, ERR_OK);
        return;
    }
    h->fan.joined = settle_loaded;
    fan_load(&h->fan, 0);
}

/* Nothing was decided here (before_count 0), so each pair of the chain counts. */
void words_settle(struct cassandra_pages *p, struct store_call *request, uint32_t domain, str title,
                  const struct title_said *chain, size_t count)
{
    struct hear *h = hear_new(p, request, domain, title);
    INVARIANT(count <= WORDS_MAX);
    memcpy(h->chain, chain, count * sizeof *chain);
    h->chain_count = count;
    hear_settle(h);
}

/* ---- the word ---- */

/* The last word that is settled: all before it may be deleted. NULL: none is, or there is one word
 * alone. */
static const struct title_said *drop_before(const struct hear *h, store_time horizon)
{
    for (size_t i = h->words.count; h->words.rows > 1 && i-- > 0;)
        if (!store_time_before(horizon, h->words.said[i].at))
            return &h->words.said[i];
    return NULL;
}

/* The words as they are now. A deletion that failed is left to the next hearing. */
static void hear_again(struct fan *f)
{
    struct hear *h = hear_of(f);
    err e = pages_blame(f->pages, &h->words.call, &h->words.note, f->title);
    if (e != ERR_OK) {
        hear_end(h, e);
        return;
    }
    h->chain_count = h->words.count;
    memcpy(h->chain, h->words.said, h->words.count * sizeof h->chain[0]);
    hear_settle(h);
}

/* Tells listeners of each bucket: a word that is news may leave renders dated there. */
static void hear_tell(const struct hear *h)
{
    for (unsigned i = 0; i < h->fan.count && h->q->is == WORD_NEWS; i++)
        pages_tell(h->fan.parts[i].work->bucket, h->fan.domain, h->fan.title);
}

/* The word is kept, or may be. Old rows go while the words are read again. */
static void hear_kept(struct store_call *c)
{
    struct hear *h = c->own;
    struct fan *f = &h->fan;
    err e = pages_blame(f->pages, c, &h->put.note, f->title);
    /* Also when it failed: it may be there. */
    hear_tell(h);
    if (e != ERR_OK) {
        hear_end(h, e);
        return;
    }
    h->drop.horizon = pages_horizon(f->pages);
    const struct title_said *before = drop_before(h, h->drop.horizon);
    f->joined = hear_again;
    atomic_init(&f->waits, before == NULL ? 1 : 2);
    if (before != NULL) {
        h->put.said = *before; /* a copy: what is read next is written over the words */
        h->drop.before = &h->put.said;
        h->drop.call = fan_call(f, hear_joined_call);
        h->drop.call.own = f;
        h->drop.domain = f->domain_name;
        h->drop.title = f->title;
        store_call_then(words_drop(f->pages->opts.titles, &h->drop), &h->drop.call);
    }
    words_read(h);
}

/* The facts are written in all buckets. A word that is no news ends here. */
static void hear_appended(struct fan *f)
{
    struct hear *h = hear_of(f);
    const struct title_hearing hearing = hearing_of(h);
    err e = fan_why(f);
    if (e != ERR_OK || !hear_writes(h, &hearing)) {
        hear_end(h, e);
        return;
    }
    struct title_said *said = &h->put.said;
    *said = (struct title_said){ .word = *h->q->word,
                                 .at = pages_stamp(f->pages),
                                 .srv = f->pages->opts.srv,
                                 .believed = h->q->believe,
                                 .doubted = h->q->doubted };
    said->word.there = h->there;
    /* The words as this server knows them, its own among them: pairs of these are decided. */
    memcpy(h->before, h->words.said, h->words.count * sizeof h->before[0]);
    h->before[h->words.count] = *said;
    h->before_count = title_words_fold(h->before, h->words.count + 1);
    h->put.call = fan_call(f, hear_kept);
    h->put.call.own = h;
    h->put.domain = f->domain_name;
    h->put.title = f->title;
    store_call_then(words_put(f->pages->opts.titles, &h->put), &h->put.call);
}

/* ---- starting ---- */

/* Facts and words are there, or one of them is not. */
static void hear_loaded(struct fan *f)
{
    struct hear *h = hear_of(f);
    struct page_hear *q = h->q;
    bool lags = false;
    err e = fan_why(f);
    if (e == ERR_OK)
        e = pages_blame(f->pages, &h->words.call, &h->words.note, f->title);
    if (e != ERR_OK) {
        hear_end(h, e);
        return;
    }
    hear_last(h);
    const struct title_hearing hearing = hearing_of(h);
    e = hear_decide(h, &hearing, &lags);
    if (lags) {
        q->is = WORD_LAGS;
        q->above = 0;
    }
    if (e != ERR_OK || lags) {
        hear_end(h, e);
        return;
    }
    /* A word that is said again hides what it hid before: that is everywhere already, so the local
     * quorum does. */
    f->everywhere &= q->marks_count > 0 || q->is != WORD_SAME;
    f->joined = hear_appended;
    fan_append(f, 0);
}

enum store_start cassandra_pages_hear(struct cassandra_pages *p, struct page_hear *q)
{
    INVARIANT(q->marks_count <= PAGE_MARKS_MAX);
    INVARIANT(!q->doubted || q->word != NULL);
    q->is = WORD_SAME;
    q->above = q->known = 0;
    q->echoes = q->changed = false;
    if (q->title.n < 1 || q->title.n > PAGE_TITLE_BYTES_MAX)
        return store_call_done(&q->call, ERR_BAD);
    struct hear *h = hear_new(p, &q->call, q->domain, q->title);
    h->q = q;
    h->fan.joined = hear_loaded;
    /* The words are one more to wait for; they share no memory with the works. */
    fan_load(&h->fan, 1);
    words_read(h);
    return STORE_LATER;
}
