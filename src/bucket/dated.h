/* dated.h - which latest renders a word of the wiki leaves dated, in all buckets that hear it.
 * Private to this folder. */
#ifndef BUCKET_DATED_H
#define BUCKET_DATED_H

#include "bucket/feed.h"

/* In a decision that writes this word, behind all else that it does to the title: notes them in b;
 * NULL: nothing is noted. */
MUST_CHECK err dated_note(struct pages *p, struct engine_txn *txn, struct feed_batch *b,
                          const struct feed_title *of, const struct title_word *w);

#endif
