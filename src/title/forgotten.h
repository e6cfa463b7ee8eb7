/* forgotten.h - what derive, cull and forget ask of facts alike. Private to this folder. */
#ifndef TITLE_FORGOTTEN_H
#define TITLE_FORGOTTEN_H

#include "title/derive.h"

/* The facts that say what was forgotten. */
MUST_CHECK err forgotten_find(const struct title_facts *in, struct arena *a,
                              struct title_forgotten *out);
/* Is this a put that one of them tells of? */
bool forgotten_has(const struct title_forgotten *g, const struct fact *fact);
/* The title at the horizon, of the facts behind it alone: what comes later may pin what was still
 * there. */
MUST_CHECK err title_derive_behind(const struct title_facts *in, const struct title_forgotten *gone,
                                   store_time horizon, struct arena *a, struct title_memory *out);

#endif
