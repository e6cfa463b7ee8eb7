/* edit.h - the rows of one title inside one update, for the title machine to edit: renders with
 * their due rows, fences; traces: ledger.h.
 *
 * Begin, decide and step (title/), end; the title's own row is written at the end. Every function
 * fails with what the engine says, ERR_CORRUPT or ERR_LIMIT; then the update fails and nothing is
 * written. Private to this folder. */
#ifndef BUCKET_EDIT_H
#define BUCKET_EDIT_H

#include "bucket/feed.h"
#include "bucket/look.h"
#include "title/decide.h"
#include "title/edit.h"
#include "title/step.h"

struct edit {
    struct look look; /* with look.title for the machine, look.row to be written at the end */
    struct engine_txn *txn;
    struct page_title_row as_read;
    bool had_row;
    struct engine_blob blob;    /* of the render that is put */
    struct feed_batch *changes; /* NULL: nobody follows */
    bool joined;                /* the fences became one, for the whole title */
    struct title_seen seen;
};

/* key: the title's prefix. changes: of the update. */
MUST_CHECK err edit_begin(struct edit *t, struct engine_txn *txn, struct page_bucket *b,
                          const struct page_key *key, struct feed_batch *changes);
/* Steps the facts of an answer, each at its place in time. part: of the last fact; when it says
 * that there is more, a later update steps on with it, resumed. Then the answer has one fact. */
MUST_CHECK err edit_step(struct edit *t, struct title_answer *a, struct title_part *part);
/* One part of one fact, at its place in time. */
MUST_CHECK err edit_step_fact(struct edit *t, struct fact *f, struct title_part *part);
MUST_CHECK err edit_end(struct edit *t);

#endif
