/* decide_word.c - makes facts of what the wiki says of a title (title_hearing_next). Pure; for
 * bucket/hear.c and cassandra/words_hear.c.
 *
 *   missing             all revisions were deleted
 *   another page        all but its newest revision were deleted: until the wiki says that one is
 *                       there, and this title's
 *   its newest revision it is shown, unless the text is hidden, and is the latest again when it
 *                       waited for that
 *
 * A newer revision than ours supersedes nothing by itself: the stored render stays within reach
 * until the newer one is put.
 * Invariant: first facts that hide, then facts that show, last the fact which is the latest. So no
 * fact undoes one before. */
#include "title/decide.h"
#include "title/steps.h"

/* A mark from the future counts from now: no put that comes later was asked for before it. */
static struct fact mark_fact(const struct title *t, const struct title_mark *m)
{
    static const enum fact_what whats[PAGE_STATES] = { [PAGE_CURRENT] = FACT_SHOWN,
                                                       [PAGE_SUPPRESSED] = FACT_SUPPRESSED,
                                                       [PAGE_DELETED] = FACT_DELETED };
    INVARIANT(whats[m->state] != 0);
    return (struct fact){ .what = whats[m->state],
                          .at = t->now,
                          .name = { .rev = m->first },
                          .rev_last = m->last,
                          .said_at = store_time_min(m->said_at, t->now) };
}

/* The fact of a mark, if it would change a render. Where several servers put, hiding is always a
 * fact: a render for which the wiki was asked before may be on its way. */
static err want_mark(const struct title *t, const struct title_mark *m, struct fact *f)
{
    struct page_row row;
    /* No revisions: such as those below revision 1. */
    if (m->first > m->last)
        return ERR_NOT_FOUND;
    *f = mark_fact(t, m);
    if (!t->serial && f->what != FACT_SHOWN)
        return ERR_OK;
    return mark_next(t, f, page_name_high(m->last), &row);
}

/* Has another page taken the title? Both words name a page, and not the same. */
static bool is_replaced(const struct title_hearing *h)
{
    return h->last != NULL && !h->last->missing && !h->word->missing &&
           h->last->page_id != h->word->page_id;
}

/* The renders above or below the wiki's newest revision, when all of them were deleted: the page is
 * missing, or another page has the title. */
static err want_deleted(const struct title *t, const struct title_hearing *h, bool above,
                        struct fact *f)
{
    const struct title_word *w = h->word;
    struct title_mark m = { .state = PAGE_DELETED, .said_at = w->asked_at };
    if (above)
        m.first = w->missing ? 0 : w->rev + 1;
    m.last = above ? PAGE_REV_MAX : w->rev - 1;
    /* A missing page has no newest revision, so all revisions are above. */
    if (!(w->missing ? above : is_replaced(h) && (above || w->rev > 0)))
        return ERR_NOT_FOUND;
    return want_mark(t, &m, f);
}

/* Does a mark of the same hearing hide this revision? It says more than the word does. */
static bool is_marked(const struct title_hearing *h, uint64_t rev)
{
    for (unsigned i = 0; i < h->marks_count; i++)
        if (h->marks[i].state != PAGE_CURRENT && h->marks[i].first <= rev &&
            rev <= h->marks[i].last)
            return true;
    return false;
}

/* The wiki's newest revision is there, so a deletion of it goes. Its text may be hidden all the
 * same, and stays so. */
static err want_shown(const struct title *t, const struct title_hearing *h, struct fact *f)
{
    uint64_t rev = h->word->rev;
    const struct title_mark m = {
        .state = PAGE_CURRENT, .first = rev, .last = rev, .said_at = h->word->asked_at
    };
    struct page_row row;
    if (h->word->missing || is_marked(h, rev))
        return ERR_NOT_FOUND;
    err e = title_newest_alive(t, page_name_low(rev), page_name_high(rev), &row);
    if (e == ERR_OK && row.r.hidden != PAGE_DELETED)
        e = ERR_NOT_FOUND;
    return e == ERR_OK ? want_mark(t, &m, f) : e;
}

/* Says which revision is the latest when the greatest shown render waits for that. */
static err want_newest(const struct title *t, const struct title_hearing *h, struct fact *f)
{
    const struct title_word *w = h->word;
    struct page_row row;
    bool wanted = false;
    if (w->missing)
        return ERR_NOT_FOUND;
    err e = title_newest_shown(t, page_name_first, page_name_last, &row);
    /* ERR_NOT_FOUND: there is no render to be the latest. */
    if (e != ERR_OK)
        return e;
    if (!title_is_latest(&row.r) && w->rev == row.r.name.rev)
        e = title_waits(t, &row.r, &wanted);
    *f = (struct fact){ .what = FACT_WORD,
                        .at = t->now,
                        .name = { .rev = w->rev },
                        .said_at = store_time_min(w->asked_at, t->now) };
    return e != ERR_OK || wanted ? e : ERR_NOT_FOUND;
}

/* A mark, when it is its turn: hiding first. Of a page that is missing nothing is shown. */
static err want_mark_of(const struct title *t, const struct title_hearing *h, unsigned i,
                        bool hides, struct fact *f)
{
    const struct title_mark *m = &h->marks[i];
    bool gone = h->word != NULL && h->word->missing;
    if ((m->state != PAGE_CURRENT) != hides || (!hides && gone))
        return ERR_NOT_FOUND;
    return want_mark(t, m, f);
}

/* The fact at a place of the order: n marks that hide, two places of a deletion, n marks that show.
 * Then the newest revision shown, and the latest. */
static err decide_word_want(const struct title *t, const struct title_hearing *h, unsigned at,
                            struct fact *f)
{
    unsigned n = h->marks_count;
    if (at < n)
        return want_mark_of(t, h, at, true, f);
    at -= n;
    if (at < 2)
        return h->word == NULL ? ERR_NOT_FOUND : want_deleted(t, h, at == 1, f);
    at -= 2;
    if (at < n)
        return want_mark_of(t, h, at, false, f);
    if (h->word == NULL)
        return ERR_NOT_FOUND;
    return at == n ? want_shown(t, h, f) : want_newest(t, h, f);
}

err title_hearing_next(const struct title *t, const struct title_hearing *h, unsigned *at,
                       struct fact *f)
{
    /* As many as decide_word_want has. */
    unsigned places = 2 * h->marks_count + 4;
    err e = ERR_NOT_FOUND;
    while (e == ERR_NOT_FOUND && *at < places) {
        e = decide_word_want(t, h, *at, f);
        *at += e == ERR_NOT_FOUND;
    }
    return e;
}

err title_hearing_above(const struct title *t, const struct title_word *word, uint64_t *rev)
{
    struct page_row row;
    *rev = 0;
    if (word->missing)
        return ERR_OK;
    err e = title_newest_shown(t, page_name_low(word->rev + 1), page_name_last, &row);
    if (e == ERR_OK)
        *rev = row.r.name.rev;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}
