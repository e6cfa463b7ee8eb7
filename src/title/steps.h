/* steps.h - the steps of facts that are of many renders. Private to this folder. */
#ifndef TITLE_STEPS_H
#define TITLE_STEPS_H

#include "title/edit.h"
#include "title/step.h"

MUST_CHECK err step_put(struct title *t, const struct fact *f, struct title_part *part);
MUST_CHECK err step_mark(struct title *t, const struct fact *f, struct title_part *part);
MUST_CHECK err step_purge(struct title *t, const struct fact *f, struct title_part *part);
/* One render of a group is gone by order: the next one is among its newest `count` again. */
MUST_CHECK err step_refill(struct title *t, struct page_name gone);
/* The newest render at or below high that a mark would change. ERR_NOT_FOUND. */
MUST_CHECK err mark_next(const struct title *t, const struct fact *mark, struct page_name high,
                         struct page_row *out);
/* The renders that a name stands for: itself, those of its revision (tid zero), all (rev 0). */
void title_range(struct page_name of, struct page_name *low, struct page_name *high);

#endif
