/* title.h - changing the rows of one title inside one update: renders with their due rows, fences;
 * traces: ledger.h.
 *
 * Begin, change, end; the title's own row is written at the end. Every function fails with what the
 * engine says, ERR_CORRUPT or ERR_LIMIT; then the update fails and nothing is written. Private to
 * this folder. */
#ifndef BUCKET_TITLE_H
#define BUCKET_TITLE_H

#include "bucket/look.h"

struct title {
    struct engine_txn *txn;
    struct look look;
    struct page_title_row row, as_read;
    bool had_row;
};
/* key: the title's prefix. */
MUST_CHECK err title_begin(struct title *t, struct engine_txn *txn, struct page_bucket *b,
                           const struct page_key *key);
MUST_CHECK err title_end(struct title *t);

/* A new render with its blob. replaces: a gone row of the same name, or NULL. */
MUST_CHECK err title_insert(struct title *t, struct page_row *row, str blob,
                            const struct page_row *replaces);
/* A stored render whose fields changed. */
MUST_CHECK err title_update(struct title *t, struct page_row *row);
/* Removes a stored render and leaves its trace. Culled: at its due_at; purged: now. */
MUST_CHECK err title_remove(struct title *t, const struct page_row *row, enum page_state state);
/* Writes or deletes a due row; NEVER has none. */
MUST_CHECK err title_file(struct title *t, store_time due, enum page_due_kind kind, str row_key);
MUST_CHECK err title_unfile(struct title *t, store_time due, enum page_due_kind kind, str row_key);

/* The latest fence instant over this name (over every name of the revision when tid is NULL), if
 * any. */
MUST_CHECK err title_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
                           store_time *at);
/* Sets a fence: rev and tid as in page_key_fence. */
MUST_CHECK err title_fence_set(struct title *t, const uint64_t *rev, const struct tid *tid,
                               store_time at);

#endif
