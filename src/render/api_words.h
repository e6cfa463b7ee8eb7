/* api_words.h - the query for words, and what api.php says to it. Pure. Private to this folder. */
#ifndef RENDER_API_WORDS_H
#define RENDER_API_WORDS_H

#include "render/siteinfo.h"
#include "render/words.h"

/* Query behind "action=query&...". p NULL: the arena is full. */
str api_words_query(struct arena *a, const struct words *w);
/* Fills w, strings in the arena. s: the wiki's rules of titles, NULL when unknown. Not FINE: w is
 * cleared. */
MUST_CHECK enum render_why api_words_parse(struct arena *a, str json, const struct siteinfo *s,
                                           struct words *w, struct err_note *note);
/* As before it was asked. */
void api_words_clear(struct words *w);

#endif
