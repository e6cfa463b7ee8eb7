/* seen.h - what a decision saw of a title, so that the steps after it need not look again.
 *
 * Invariant: what is here is what the rows would say. Each edit goes through edit.h, which keeps or
 * forgets it. Private to this folder, but for its size. */
#ifndef TITLE_SEEN_H
#define TITLE_SEEN_H

#include "title/title.h"

/* Where a render that is put belongs. */
struct title_place {
    struct page_row row;  /* the new one */
    struct page_row same; /* of its name: gone, to be replaced */
    bool has_same;
    struct page_row latest; /* the greatest that is shown */
    bool latest_known, has_latest;
    bool greatest;          /* the new one is greater than all that are shown */
    struct page_row faller; /* grouped: the one that falls out */
    bool has_faller;
};
struct title_seen {
    bool has_last; /* last: a render that was looked at or written */
    bool placed;   /* place: of the render place.row.r.name, which is about to be put */
    /* A decision made a fact that shows a revision: until it is stepped, what it will show counts
     * as shown. */
    bool shows;
    uint64_t shows_rev;
    store_time shows_said_at;
    struct page_row last;
    struct title_place place;
};
/* Leaves the rows as they are: they are large. */
static inline void title_seen_init(struct title_seen *s)
{
    s->has_last = s->placed = s->shows = false;
    s->place.latest_known = s->place.has_same = false;
}
static inline bool title_is_shown(const struct title *t, const struct page_row *row)
{
    const struct title_seen *s = t->seen;
    if (row->r.hidden == PAGE_CURRENT)
        return true;
    return s != NULL && s->shows && s->shows_rev == row->r.name.rev &&
           !store_time_before(s->shows_said_at, title_said_until(t, row->r.hidden_at));
}

#endif
