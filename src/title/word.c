/* word.c - compares words of the wiki with each other and with renders: which is newer, which
 * renders are dated. Pure.
 *
 * Invariant: times of the wiki (touched, said; whole seconds) are compared with each other alone,
 * and so are ours (asked_at). */
#include "title/word.h"

#include <xxhash.h>

bool title_word_eq(const struct title_word *a, const struct title_word *b)
{
    return a->missing == b->missing && a->redirect == b->redirect && a->page_id == b->page_id &&
           a->rev == b->rev && a->touched == b->touched;
}

uint64_t title_word_hash(const struct title_word *w)
{
    const uint64_t parts[] = { (uint64_t)w->missing | (uint64_t)w->redirect << 1, w->page_id,
                               w->rev, (uint64_t)w->touched };
    return XXH3_64bits(parts, sizeof parts);
}

static bool is_same_page(const struct title_word *last, const struct title_word *w)
{
    return last != NULL && !last->missing && !w->missing && last->page_id == w->page_id;
}

/* By when we asked, since answers may overtake each other; then by what the wiki says of the page
 * itself. */
enum title_word_is title_word_judge(const struct title_word *last, const struct title_word *w)
{
    if (last == NULL)
        return WORD_NEWS;
    if (store_time_before(w->asked_at, last->asked_at))
        return WORD_OLD;
    if (title_word_eq(last, w))
        return WORD_SAME;
    /* The page went back in time: this answer came from a copy of the database that is behind. */
    if (is_same_page(last, w) && (w->touched < last->touched || w->rev < last->rev))
        return WORD_LAGS;
    return WORD_NEWS;
}

bool title_bound_is_none(const struct title_bound *b)
{
    return b->rev == 0 && b->touched == 0 && b->heard.rev == 0 && b->heard.touched == 0;
}

static void raise_u64(uint64_t *to, uint64_t n)
{
    if (n > *to)
        *to = n;
}

static void raise_i64(int64_t *to, int64_t n)
{
    if (n > *to)
        *to = n;
}

/* The bound becomes what reaches both. A heard part that asks for nothing, as of a page that is
 * missing, does not move newest. */
void title_bound_join(struct title_bound *b, const struct title_bound *other)
{
    bool hears = other->heard.rev != 0 || other->heard.touched != 0;
    raise_u64(&b->rev, other->rev);
    raise_i64(&b->touched, other->touched);
    raise_u64(&b->heard.rev, other->heard.rev);
    raise_i64(&b->heard.touched, other->heard.touched);
    if (hears && wiki_newest_is_older(&b->heard.newest, &other->heard.newest))
        b->heard.newest = other->heard.newest;
    /* The heard part asks for as much, and may be reached more easily. */
    if (b->rev <= b->heard.rev)
        b->rev = 0;
    if (b->touched <= b->heard.touched)
        b->touched = 0;
}

static bool reaches(const struct title_word *w, uint64_t rev, int64_t touched)
{
    bool has_rev = rev == 0 || (!w->missing && w->rev >= rev);
    return has_rev && (w->missing || w->touched >= touched);
}

/* A heard part is also reached by an answer that shows a newer change (word.h). */
bool title_word_reaches(const struct title_word *w, const struct title_bound *b)
{
    return reaches(w, b->rev, b->touched) &&
           (reaches(w, b->heard.rev, b->heard.touched) ||
            (b->heard.newest.id != 0 && wiki_newest_is_older(&b->heard.newest, &w->newest)));
}

bool title_word_is_later(const struct title_word *last, const struct title_word *w)
{
    if (w->missing)
        return !last->missing && w->said - last->said >= TITLE_BEHIND_S;
    if (last->missing)
        return w->touched > last->said;
    /* Another page: both numbers have to grow. */
    if (!is_same_page(last, w))
        return w->rev > last->rev && w->touched > last->touched;
    return w->rev >= last->rev && w->touched >= last->touched &&
           (w->rev > last->rev || w->touched > last->touched);
}

uint64_t title_word_there(const struct title_word *last, const struct title_word *w, uint64_t found)
{
    uint64_t known = is_same_page(last, w) ? last->there : 0;
    return known > found ? known : found;
}

struct title_under title_under_of(const struct title_word *w, int64_t revised)
{
    struct title_under u = { .touched = w->touched, .said = w->said, .asked_at = w->asked_at };
    /* The page was touched by this revision alone, and nothing else was on its way: settled as if
     * the wiki had been asked later. */
    if (revised != 0 && w->touched <= revised && u.said < w->touched + TITLE_SETTLE_S)
        u.said = w->touched + TITLE_SETTLE_S;
    return u;
}

/* The word was said `past_s` after the touch, in whole seconds. A touch in the future, by a clock
 * that is ahead, counts as a touch of that instant. */
store_time title_settles_at(const struct title_word *last, int64_t settle_s)
{
    int64_t past_s = last->said > last->touched ? last->said - last->touched : 0;
    int64_t left_s = past_s <= settle_s ? settle_s + 1 - past_s : 0;
    return store_time_add(last->asked_at, left_s * NS_PER_S);
}

/* Made so soon after the touch that the wiki may have used what was there before. */
bool title_is_unsettled(const struct title_word *last, const struct page_render *r,
                        int64_t settle_s)
{
    const struct title_under *m = &r->made;
    return m->said != 0 && !last->missing && m->touched >= last->touched &&
           m->said - m->touched < settle_s;
}

enum title_dated title_dated(const struct title_word *last, const struct page_render *r)
{
    const struct title_under *m = &r->made;
    if (m->said == 0)
        return DATED_NOT;
    /* Touched since, or gone: the render shows an old page. */
    if (last->missing || m->touched < last->touched)
        return DATED_TOUCHED;
    return title_is_unsettled(last, r, TITLE_SETTLE_S) ? DATED_UNSETTLED : DATED_NOT;
}

bool title_has_newer(const struct title_word *last, const struct page_render *r)
{
    return !last->missing && (last->rev > r->name.rev || title_dated(last, r) == DATED_TOUCHED);
}

/* The render was asked for after the word was said, which is in whole seconds. A render that was
 * made once more and came out the same was stored before: how long that took is not known, and was
 * short. */
bool title_is_astride(const struct title_word *w, const struct title_making *m)
{
    const struct title_under *u = &m->made;
    int64_t took_ns = m->stored_at.ns - u->asked_at.ns, past_s = w->touched - u->said;
    if (u->said == 0 || w->rev != m->rev || w->touched <= u->touched)
        return false;
    if (past_s < 0 || past_s > TITLE_MAKING_S_MAX)
        return false;
    return past_s <= 1 || (past_s - 1) * NS_PER_S <= took_ns;
}

store_time title_made_at(const struct page_render *r)
{
    return r->made.said == 0 ? r->stored_at : r->made.asked_at;
}

bool title_word_denies(const struct title_word *last, const struct title_word *under)
{
    if (!store_time_before(under->asked_at, last->asked_at))
        return false;
    return last->missing || last->page_id != under->page_id;
}
