/* place.h - where a render that is put belongs among those of its title. Private to this folder. */
#ifndef TITLE_PLACE_H
#define TITLE_PLACE_H

#include "title/seen.h"

/* Fills t->seen->place for this put: its row, with when it is due, and whom it touches. Looks
 * alone. place.latest is taken for what it says when latest_known; same and has_same are not
 * touched. hidden: the put's row is (CURRENT: not), as of hidden_at. */
MUST_CHECK err title_place(struct title *t, const struct fact *put, enum page_state hidden,
                           store_time hidden_at);

#endif
