/* step.h - one step of the fold: a fact edits the rows of its title.
 *
 * A fact of many renders is stepped in parts, so that a store can bound what one update writes; the
 * title is as the fact says after the last one. Facts are stepped in the order of fact_cmp; a
 * store that decides serially steps them as they come. */
#ifndef TITLE_STEP_H
#define TITLE_STEP_H

#include "title/title.h"

struct title_part {
    bool resumed; /* not the first part: on from `from`, which is the `next` of the one before */
    struct page_name from;
    /* out */
    bool more;
    struct page_name next;
    bool changed;    /* a stored render */
    uint64_t purged; /* renders, by this part */
    bool ignored;    /* PUT: other bytes are stored under its name, or the same: the first stays */
};
/* t->now is the fact's arrival from here on. Fails with what the store says. */
MUST_CHECK err title_step(struct title *t, const struct fact *f, struct title_part *part);

#endif
