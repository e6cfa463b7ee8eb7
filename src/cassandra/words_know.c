/* words_know.c - what is known of a title in all buckets that hear the wiki, what is forgotten of
 * it, and notes of domains. For the sweeps that ask the wiki (store/page_sweep.h). */
#include "cassandra/words_impl.h"

#include <stdlib.h>
#include <string.h>

enum { REVS_LOOKED_MAX = 1000 }; /* of one page_revs */

/* A title that cannot be stored is unknown without a question. */
static bool title_fits(str title)
{
    return title.n >= 1 && title.n <= PAGE_TITLE_BYTES_MAX;
}

/* Is a render of the title there? All parts were loaded. */
static bool fan_stores(const struct fan *f)
{
    for (unsigned i = 0; i < f->count; i++)
        if (f->parts[i].work->memory.rows_count > 0) /* what is due is a trace */
            return true;
    return false;
}

/* ---- is it known? ---- */

/* One question whether a title is known. The words are read first: most titles that are asked about
 * have one, and then no facts are loaded. */
struct knows_own {
    struct fan fan;
    struct page_knows *k;
    struct words_load words;
};

static void knows_end(struct knows_own *o, err why)
{
    struct page_knows *k = o->k;
    fan_fini(&o->fan);
    free(o);
    store_call_end(&k->call, why);
}

static void knows_loaded(struct fan *f)
{
    struct knows_own *o = CONTAINER_OF(f, struct knows_own, fan);
    err e = fan_why(f);
    if (e == ERR_OK)
        o->k->known = fan_stores(f);
    knows_end(o, e);
}

static void knows_heard(struct store_call *c)
{
    struct knows_own *o = c->own;
    err e = pages_blame(o->fan.pages, c, &o->words.note, o->k->title);
    o->k->known = o->words.rows > 0; /* also a word that cannot be read */
    if (e != ERR_OK || o->k->known)
        knows_end(o, e);
    else
        fan_load(&o->fan, 0);
}

enum store_start cassandra_pages_knows(struct cassandra_pages *p, struct page_knows *k)
{
    k->known = false;
    if (!title_fits(k->title))
        return store_call_done(&k->call, ERR_BAD);
    struct knows_own *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    o->k = k;
    fan_init(&o->fan, p, &k->call, k->domain, k->title);
    o->fan.joined = knows_loaded;
    o->words.call = fan_call(&o->fan, knows_heard);
    o->words.call.own = o;
    o->words.domain = o->fan.domain_name;
    o->words.title = k->title;
    store_call_then(words_load(p->opts.titles, &o->words), &o->words.call);
    return STORE_LATER;
}

/* ---- revisions ---- */

struct revs_own {
    struct fan fan;
    struct page_revs *r;
};

/* The greatest revision below that over all buckets, and when its newest render came. *rev 0: there
 * is none. */
static void revs_next(const struct fan *f, uint64_t below, uint64_t *rev, store_time *came)
{
    *rev = 0;
    *came = STORE_TIME_ZERO;
    for (unsigned i = 0; i < f->count; i++) {
        struct page_row row;
        if (title_newest_alive(&f->parts[i].work->memory.title, page_name_first,
                               page_name_high(below - 1), &row) != ERR_OK)
            continue;
        if (row.r.name.rev > *rev) {
            *rev = row.r.name.rev;
            /* Of one revision in several buckets the render that came last counts. */
            *came = row.r.stored_at;
        } else if (row.r.name.rev == *rev) {
            *came = store_time_max(*came, row.r.stored_at);
        }
    }
}

/* Walks down from r->below. It stops after so many looks, and r->next says where to go on. */
static void revs_tell(const struct fan *f, struct page_revs *r)
{
    uint64_t below = r->below;
    for (unsigned looked = 0; below > 1 && r->count < PAGE_REVS_MAX && looked < REVS_LOOKED_MAX;
         looked++) {
        store_time came;
        revs_next(f, below, &below, &came);
        if (below != 0 && !store_time_before(came, r->since))
            r->revs[r->count++] = below;
    }
    r->next = below > 1 ? below : 0;
}

static void revs_loaded(struct fan *f)
{
    struct revs_own *o = CONTAINER_OF(f, struct revs_own, fan);
    struct page_revs *r = o->r;
    err e = fan_why(f);
    if (e == ERR_OK)
        revs_tell(f, r);
    fan_fini(f);
    free(o);
    store_call_end(&r->call, e);
}

enum store_start cassandra_pages_revs(struct cassandra_pages *p, struct page_revs *r)
{
    r->count = 0;
    r->next = 0;
    if (!title_fits(r->title))
        return store_call_done(&r->call, ERR_OK);
    struct revs_own *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    o->r = r;
    fan_init(&o->fan, p, &r->call, r->domain, r->title);
    o->fan.joined = revs_loaded;
    fan_load(&o->fan, 0);
    return STORE_LATER;
}

/* ---- forgetting ---- */

/* Forgets titles one behind the other: reads the words; when they are old enough, the facts; then
 * the words go. A word that came within the horizon stays, and its title is forgotten another time:
 * a deletion as of the horizon would spare it. */
struct forget_own {
    struct fan fan;
    struct page_forget *f;
    struct words_load words;
    struct words_drop drop;
    store_time horizon;
    unsigned at; /* of the titles */
};

static void forget_next(struct forget_own *o);

static void forget_end(struct forget_own *o, err why)
{
    struct page_forget *f = o->f;
    fan_fini(&o->fan);
    free(o);
    store_call_end(&f->call, why);
}

static void forget_dropped(struct store_call *c)
{
    struct forget_own *o = c->own;
    err e = pages_blame(o->fan.pages, c, &o->drop.note, o->fan.title);
    if (e != ERR_OK) {
        forget_end(o, e);
        return;
    }
    o->f->forgotten++;
    forget_next(o);
}

/* A title that has a render again stays. */
static void forget_loaded(struct fan *fan)
{
    struct forget_own *o = CONTAINER_OF(fan, struct forget_own, fan);
    err e = fan_why(fan);
    if (e != ERR_OK) {
        forget_end(o, e);
        return;
    }
    if (fan_stores(fan)) {
        forget_next(o);
        return;
    }
    /* before NULL: all words that were kept by the horizon. */
    o->drop = (struct words_drop){ .call = fan_call(fan, forget_dropped),
                                   .domain = fan->domain_name,
                                   .title = fan->title,
                                   .horizon = o->horizon };
    o->drop.call.own = o;
    store_call_then(words_drop(fan->pages->opts.titles, &o->drop), &o->drop.call);
}

/* Old enough: asked for before f->before, and no row was kept behind the horizon. */
static void forget_heard(struct store_call *c)
{
    struct forget_own *o = c->own;
    const struct title_word *last = words_last(&o->words);
    err e = pages_blame(o->fan.pages, c, &o->words.note, o->fan.title);
    if (e != ERR_OK)
        forget_end(o, e);
    else if (last != NULL && store_time_before(last->asked_at, o->f->before) &&
             !store_time_before(o->horizon, o->words.kept_max))
        fan_load(&o->fan, 0);
    else
        forget_next(o);
}

/* The next title that can be stored; works of the one before are freed by fan_load or fan_fini. */
static void forget_next(struct forget_own *o)
{
    struct fan *fan = &o->fan;
    while (o->at < o->f->count && !title_fits(o->f->titles[o->at]))
        o->at++;
    if (o->at == o->f->count) {
        forget_end(o, ERR_OK);
        return;
    }
    fan->title = o->f->titles[o->at++];
    o->words.call = fan_call(fan, forget_heard);
    o->words.call.own = o;
    o->words.domain = fan->domain_name;
    o->words.title = fan->title;
    store_call_then(words_load(fan->pages->opts.titles, &o->words), &o->words.call);
}

enum store_start cassandra_pages_forget(struct cassandra_pages *p, struct page_forget *f)
{
    INVARIANT(f->count <= PAGE_FORGET_MAX);
    struct forget_own *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    f->forgotten = 0;
    o->f = f;
    o->horizon = pages_horizon(p);
    /* The title is set by forget_next. */
    fan_init(&o->fan, p, &f->call, f->domain, STR(""));
    o->fan.joined = forget_loaded;
    if (f->count == 0) {
        forget_end(o, ERR_OK);
        return STORE_LATER;
    }
    forget_next(o);
    return STORE_LATER;
}

/* ---- notes ---- */

/* One note on its way, for a put or a get. It frees itself in note_over. */
struct note_own {
    struct words_note row;
    struct cassandra_pages *pages;
    struct store_call *request;
    struct cassandra_note_get *get; /* NULL: a put */
};

static void note_over(struct store_call *c)
{
    struct note_own *o = c->own;
    struct store_call *request = o->request;
    err why = pages_blame(o->pages, c, &o->row.note, o->row.domain);
    if (o->get != NULL && why == ERR_OK) {
        memcpy(o->get->bytes, o->row.got, o->row.got_bytes);
        o->get->n = o->row.got_bytes;
    }
    free(o);
    store_call_end(request, why);
}

static struct note_own *note_new(struct cassandra_pages *p, struct store_call *request,
                                 uint32_t domain, enum page_note kind)
{
    struct note_own *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    o->pages = p;
    o->request = request;
    o->row.domain = pages_domain_name(p, domain);
    o->row.kind = kind;
    o->row.call = (struct store_call){
        .home = request->home, .done = note_over, .deadline = request->deadline, .own = o
    };
    return o;
}

enum store_start cassandra_pages_note_put(struct cassandra_pages *p, struct page_note_put *n)
{
    struct note_own *o = note_new(p, &n->call, n->domain, n->note);
    o->row.bytes = n->bytes;
    /* Two servers that write one note at once: the later stamp wins. */
    o->row.at = pages_stamp(p);
    store_call_then(words_note_put(p->opts.titles, &o->row), &o->row.call);
    return STORE_LATER;
}

enum store_start cassandra_pages_note_get(struct cassandra_pages *p, struct cassandra_note_get *n)
{
    struct note_own *o = note_new(p, &n->call, n->domain, n->note);
    o->get = n;
    store_call_then(words_note_get(p->opts.titles, &o->row), &o->row.call);
    return STORE_LATER;
}
