/* mark.h - hides renders the origin says are suppressed or deleted, and shows them again.
 *
 * Invariant, over the rows of a title: what is hidden is superseded, as a rule by a revision not
 * made; so no hidden render is the latest. The latest word holds: a mark spares what was stored
 * after the origin was asked, and showing spares what was hidden after that. SUPPRESSED is stronger
 * than DELETED. Private to this folder. */
#ifndef BUCKET_MARK_H
#define BUCKET_MARK_H

#include "bucket/title.h"

struct title_mark {
    struct page_name low, high; /* low <= name <= high */
    enum page_state state;      /* SUPPRESSED, DELETED; CURRENT: to be shown */
    store_time said_at;
    /* out */
    bool changed;
    bool more; /* MARK_BATCH rows were written: again, with high = next */
    struct page_name next;
};
/* Newest first. */
MUST_CHECK err title_mark_set(struct title *t, struct title_mark *m);
/* Is it hidden, by a word later than said_at? */
static inline bool title_mark_is_after(const struct page_row *row, store_time said_at)
{
    return row->r.hidden != PAGE_CURRENT && store_time_before(said_at, row->r.hidden_at);
}

#endif
