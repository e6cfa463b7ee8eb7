/* edit.h - editing the rows of a title, and what was seen of it with them. Private to this
 * folder. */
#ifndef TITLE_EDIT_H
#define TITLE_EDIT_H

#include "title/seen.h"

MUST_CHECK err title_insert(struct title *t, struct page_row *row, const struct page_row *replaced);
/* A stored render whose fields changed. */
MUST_CHECK err title_update(struct title *t, struct page_row *row);
/* Takes a stored render away and leaves its trace. Culled: at its due_at; purged: now. */
MUST_CHECK err title_remove(struct title *t, const struct page_row *row, enum page_state state);
/* Updated while it is alive, else culled. */
MUST_CHECK err title_update_or_cull(struct title *t, struct page_row *row);
/* Nothing seen holds any longer. */
void title_unsee(struct title *t);

#endif
