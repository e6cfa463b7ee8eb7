/* derive.h - a title from its facts.
 *
 * The facts of a title and the policies of its bucket say all: derive sorts them and folds them by
 * step.h over rows in memory. The order in which a store gives the facts does not matter, nor how
 * often it gives one. Of several puts of one name, the one that came first counts for as long as
 * its render is there; the others are as if they were not. What is due is culled at its instant. */
#ifndef TITLE_DERIVE_H
#define TITLE_DERIVE_H

#include "title/memory.h"

/* A policy comes into force. plan.number greater than before: all rows are planned anew. */
struct title_plan {
    struct page_plan plan;
    store_time at;
    uint32_t n; /* as of facts: before those of its instant that have no less */
};
struct title_facts {
    const struct fact *facts;
    size_t facts_count;
    const struct title_plan *plans; /* as they came into force; the first one before all facts */
    size_t plans_count;             /* at least 1 */
};
/* The title as it is now, or at its latest fact when that is later. Everything is in the arena and
 * borrows the facts and plans. ERR_LIMIT: the arena is full. */
MUST_CHECK err title_derive(const struct title_facts *in, store_time now, struct arena *a,
                            struct title_memory *out);

/* Which facts may a store delete, once no fact will come any more whose time is not behind the
 * horizon, and no put that the wiki was asked for before that? Without them, derive says the same
 * for every instant from the horizon and the last fact on.
 *   puts    of the lowest names, up to `up_to`, that were all forgotten at the horizon: neither
 *           stored nor traced
 *   pins    and their ends, of such names;
 *   marks   and words, of such revisions or before all puts that stay
 *   purges  that a later one covers, when all puts that stay are later than both
 * All puts go first, or all together: a put whose purge is deleted before it comes back. Bytes are
 * another matter: they are free from when their render is gone. */
struct title_forget {
    bool any;               /* is any put forgotten? */
    struct page_name up_to; /* with any */
    store_time horizon;
    const struct fact *first_kept; /* the earliest put that stays; NULL: none does */
    store_time least_said_at;      /* of those that stay */
};
MUST_CHECK err title_forget(const struct title_facts *in, store_time horizon, struct arena *a,
                            struct title_forget *out);
/* The same for no more names than up to this one. */
void title_forget_less(const struct title_facts *in, struct title_forget *f,
                       struct page_name up_to);
/* Is this one of them? It is one of in. */
bool title_forgets(const struct title_facts *in, const struct title_forget *f,
                   const struct fact *fact);

#endif
