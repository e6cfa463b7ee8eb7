/* find.h - what a read of a title gives, and what explain says. Walks stop at the first answer. */
#ifndef TITLE_FIND_H
#define TITLE_FIND_H

#include "title/title.h"

struct title_which {
    enum page_select select;
    struct page_name name; /* rev for REV; rev and tid for EXACT */
    store_time at;
    bool deleted_too; /* EXACT: also what is deleted at the origin */
};
/* ERR_OK and *out; ERR_GONE and *trace (NULL: not wanted; the newest of what was asked for);
 * ERR_NOT_FOUND; ERR_LIMIT: more than PAGE_AT_STEPS_MAX rows (SERVED_AT) or revisions (CURRENT_AT)
 * would have to be looked at; what the store says. */
MUST_CHECK err title_find(const struct title *t, const struct title_which *w, struct page_row *out,
                          struct page_trace *trace);

/* Fills out but for what was gone past. ERR_OK whatever is known; else what the store says. */
MUST_CHECK err title_explain(const struct title *t, const struct title_which *w,
                             struct page_explanation *out);

#endif
