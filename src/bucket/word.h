/* word.h - the row of a title's last word (title/word.h): one for all buckets.
 *
 *   key    as of a title of bucket 0, which no bucket is
 *   value  title/words.h
 * Private to this folder. */
#ifndef BUCKET_WORD_H
#define BUCKET_WORD_H

#include "engine/engine.h"
#include "title/words.h"

/* ERR_NOT_FOUND: nothing was heard of this title. */
MUST_CHECK err word_get(struct engine_view *v, uint32_t domain, str title, struct title_word *out);
MUST_CHECK err word_put(struct engine_txn *t, uint32_t domain, str title,
                        const struct title_word *w);
MUST_CHECK err word_forget(struct engine_txn *t, uint32_t domain, str title);

#endif
