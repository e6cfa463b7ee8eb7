/* look.h - reading rows of one title as the policy in force sees them.
 *
 * A row planned under an earlier policy is settled when read: as the new policy would have planned
 * it when it came into force. So readers never wait for replanning. Gone (past due_at) rows that no
 * cull has met yet are seen by walks and left out by look_*_alive. Private to this folder. */
#ifndef BUCKET_LOOK_H
#define BUCKET_LOOK_H

#include "bucket/catalog.h"
#include "bucket/page_write.h"

/* Who is told of damaged rows that walks go past. */
struct look_damage {
    const struct page_each *each;
    unsigned count;
    bool stopped; /* each said so: the walk ended with ERR_CORRUPT for it */
};
struct look {
    struct page_bucket *bucket;
    struct engine_view *view;
    store_time now;
    struct page_key title;      /* the prefix */
    struct look_damage *damage; /* NULL: a damaged row ends a walk with ERR_CORRUPT */
};
static inline bool look_alive(const struct look *k, const struct page_row *row)
{
    return store_time_before(k->now, row->r.due_at);
}

/* Has a damaged row (its key; empty: unreadable) been told, so that a walk may go on behind it? */
MUST_CHECK bool look_passes(const struct look *k, str key);

/* The row of this name, gone or not. ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO. */
MUST_CHECK err look_get(const struct look *k, struct page_name name, struct page_row *out);

/* Rows with low <= name <= high, newest first (rising: oldest first). */
struct look_walk {
    const struct look *look;
    struct engine_cursor *cursor;
};
void look_walk_open(struct look_walk *w, const struct look *k, struct page_name low,
                    struct page_name high, bool rising);
/* ERR_NOT_FOUND at the end. */
MUST_CHECK err look_walk_next(struct look_walk *w, struct page_row *out);
MUST_CHECK err look_walk_alive(struct look_walk *w, struct page_row *out);
void look_walk_close(struct look_walk *w);

/* The keys alone, undecoded: for who must get past damaged rows. */
struct engine_cursor *look_names_open(const struct look *k, struct page_name low,
                                      struct page_name high, bool rising);

/* Asks the caller's own condition about the latest render that is shown (NULL: none).
 * ERR_PRECONDITION: no. */
MUST_CHECK err look_allowed(const struct look *k, page_allow_fn *allow, const void *ctx);
/* The newest (oldest) render still alive and not hidden between two names. */
MUST_CHECK err look_newest_shown(const struct look *k, struct page_name low, struct page_name high,
                                 struct page_row *out);
MUST_CHECK err look_oldest_shown(const struct look *k, struct page_name low, struct page_name high,
                                 struct page_row *out);
/* The newest render still alive between two names. */
MUST_CHECK err look_newest_alive(const struct look *k, struct page_name low, struct page_name high,
                                 struct page_row *out);
/* The greatest name between two, stored or traced. ERR_NOT_FOUND. */
MUST_CHECK err look_greatest_known(const struct look *k, struct page_name low,
                                   struct page_name high, struct page_name *out);

/* The least ticks, at least those given, that are greater than all of the revision's tids, stored
 * or traced. */
MUST_CHECK err look_next_ticks(const struct look *k, uint64_t rev, uint64_t *ticks);

/* Decodes a row found by other means, and settles it. look->title must be its title. */
MUST_CHECK err look_decode(const struct look *k, struct page_name name,
                           const struct engine_row *found, struct page_row *out);

/* What is left of a render that is gone but not culled yet. */
void look_trace_of(const struct look *k, const struct page_row *gone, struct page_trace_row *out);
/* Is the trace still to be known? */
static inline bool look_trace_alive(const struct look *k, const struct page_trace_row *t)
{
    return store_time_before(k->now, t->forget_at);
}
/* The newest trace between two names, of culled rows and of gone ones. ERR_NOT_FOUND. */
MUST_CHECK err look_newest_trace(const struct look *k, struct page_name low, struct page_name high,
                                 struct page_trace_row *out);

/* find.c: page_find on a look, with the whole row. */
MUST_CHECK err look_find(const struct look *k, const struct page_which *w, struct page_row *out,
                         struct page_trace *trace);

#endif
