/* words_first.c - a put that brings the first word of its title: its facts and the word are written
 * at once, for pages_write.c.
 *
 * Behind that the words are read again. Another server may have kept a word meanwhile, and its
 * hearing may not have known this one (words_hear.c); what follows from both becomes facts.
 * Invariant: the request ends when facts and word have both ended, and never before. */
#include "cassandra/words_impl.h"

#include <stdlib.h>

struct first {
    struct work *work;          /* NULL: it failed */
    struct store_call *request; /* the put's */
    struct page_put *q;
    struct store_call facts; /* the work's, meanwhile */
    struct words_put word;
    struct words_load again;
    atomic_uint waits;
};

static void first_free(struct first *f)
{
    if (f->work != NULL)
        work_free(f->work);
    free(f);
}

static void first_end(struct first *f, err why)
{
    struct store_call *request = f->request;
    first_free(f);
    store_call_end(request, why);
}

/* The words as they are now. One alone is ours: nothing follows. */
static void first_read(struct store_call *c)
{
    struct first *f = c->own;
    err e = work_blame(f->work, c->why, true, &f->again.note);
    if (e != ERR_OK || f->again.count <= 1) {
        first_end(f, e);
        return;
    }
    words_settle(f->work->pages, f->request, f->q->domain, f->q->title, f->again.said,
                 f->again.count);
    first_free(f);
}

static struct store_call first_call(struct first *f, void (*done)(struct store_call *c))
{
    return (struct store_call){
        .home = f->request->home, .done = done, .deadline = f->request->deadline, .own = f
    };
}

/* Facts or word are over. Behind both the words are read, unless one failed. */
static void first_join(struct first *f)
{
    if (atomic_fetch_sub(&f->waits, 1) != 1)
        return;
    /* The word may have been written, also when its answer was lost. */
    err e =
        f->work == NULL ? f->facts.why : work_blame(f->work, f->word.call.why, true, &f->word.note);
    if (e != ERR_OK) {
        first_end(f, e);
        return;
    }
    (void)atomic_fetch_add(&f->work->pages->puts, f->work->append.facts_count > 0); /* a figure */
    f->again.call = first_call(f, first_read);
    f->again.domain = f->work->key.domain;
    f->again.title = f->q->title;
    store_call_then(words_load(f->work->pages->opts.titles, &f->again), &f->again.call);
}

static void first_kept(struct store_call *c)
{
    first_join(c->own);
}

static void first_appended(struct work *w)
{
    first_join(w->call->own);
}

/* The work ended itself: the cluster has not taken the facts. */
static void first_failed(struct store_call *c)
{
    struct first *f = c->own;
    f->work = NULL;
    first_join(f);
}

void words_first(struct work *w, struct fact *facts, unsigned facts_count,
                 const struct titles_bytes *bytes)
{
    struct first *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    struct cassandra_pages *p = w->pages;
    f->work = w;
    f->request = w->call;
    f->q = w->request;
    f->facts = first_call(f, first_failed);
    f->word = (struct words_put){ .call = first_call(f, first_kept),
                                  .domain = w->key.domain,
                                  .title = w->key.title,
                                  .said = { .word = *f->q->word, .srv = p->opts.srv } };
    f->word.said.at = pages_stamp(p);
    /* Until the end the work's call is this one: work_end must not end the put while the word is
     * under way. */
    w->call = &f->facts;
    w->appended = first_appended;
    atomic_init(&f->waits, facts_count > 0 ? 2 : 1);
    /* Both are under way at once: the fold needs no order between them. */
    store_call_then(words_put(p->opts.titles, &f->word), &f->word.call);
    if (facts_count > 0)
        work_append(w, facts, facts_count, bytes);
}
