/* feed.h - the changes of one update, gathered while it decides, told when it is on disk.
 *
 * Nobody follows, and the event log is told nothing: there is no batch, and nothing is gathered.
 * Private to this folder. */
#ifndef BUCKET_FEED_H
#define BUCKET_FEED_H

#include "base/err.h"
#include "store/change.h"
#include "title/row.h"
#include "title/word.h"

#include <pthread.h>

struct engine_txn;
struct pages;
struct feed {
    struct pages *pages;
    struct page_listener listener;
    struct page_follower followers[PAGE_FOLLOWERS_MAX];
    unsigned followers_count;
    pthread_mutex_t lock; /* of last */
    struct page_position last;
};
/* stored_until: no update on disk is later. */
void feed_init(struct feed *f, struct pages *pages, store_time stored_until);
void feed_fini(struct feed *f);
struct page_position feed_position(struct feed *f);

/* Which title the changes that are gathered are of; the text is copied. */
struct feed_title {
    uint16_t bucket;
    uint32_t domain;
    str title;
};

struct feed_batch;
/* NULL: nobody follows, and the event log is told nothing; all below take it. Dies when out of
 * memory. */
struct feed_batch *feed_batch_new(struct feed *f);
void feed_batch_free(struct feed_batch **bp);
/* A decision begins: what an earlier run of it gathered is forgotten. */
void feed_batch_clear(struct feed_batch *b, store_time now);
void feed_note(struct feed_batch *b, const struct feed_title *t, enum page_change_what what,
               const struct page_render *r);
/* The wiki's last word on the title before this update; NULL: there is none. By it some renders are
 * dated already. In a decision, before its first note. */
void feed_set_word(struct feed_batch *b, const struct title_word *last);
/* The wiki says this now. r: the latest render. */
void feed_note_word(struct feed_batch *b, const struct feed_title *t, const struct title_word *w,
                    const struct page_render *r);
/* As it is now; of a row that is read. */
struct page_row_was feed_row_was(const struct page_row *row);
/* A row that is about to be written; it says itself what it was before. */
void feed_note_row(struct feed_batch *b, const struct feed_title *t, struct page_row *row);
/* The end of a decision: what the event log is to hold of it is appended. ERR_IO and others of the
 * engine; ERR_LIMIT. */
MUST_CHECK err feed_batch_append(struct feed_batch *b, struct engine_txn *t);
/* It is on disk: followers get it, and *bp is NULL. On the committer. */
void feed_batch_tell(struct feed_batch **bp);

#endif
