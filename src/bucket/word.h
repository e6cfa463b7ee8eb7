/* word.h - the row of a title's last word (title/word.h): one for all buckets.
 *
 *   key    as of a title of bucket 0, which no bucket is
 *   value  version u8, flags u8 (1 missing, 2 redirect, 4 there), page id and revision as varints,
 *          touched, said, asked at: 8 bytes each; with flag 4 what is there as a varint
 * Private to this folder. The codec is pure, and fuzzed. */
#ifndef BUCKET_WORD_H
#define BUCKET_WORD_H

#include "engine/engine.h"
#include "title/word.h"

enum { PAGE_WORD_BYTES_MAX = 2 + 10 + 10 + 3 * 8 + 10 };
/* out has PAGE_WORD_BYTES_MAX bytes. */
str page_word_encode(const struct title_word *w, char *out);
/* ERR_CORRUPT: *out undefined. */
MUST_CHECK err page_word_decode(str value, struct title_word *out);

/* ERR_NOT_FOUND: nothing was heard of this title. */
MUST_CHECK err word_get(struct engine_view *v, uint32_t domain, str title, struct title_word *out);
MUST_CHECK err word_put(struct engine_txn *t, uint32_t domain, str title,
                        const struct title_word *w);
MUST_CHECK err word_forget(struct engine_txn *t, uint32_t domain, str title);

#endif
