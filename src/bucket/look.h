/* look.h - the rows of one title as the policy in force sees them, for the title machine to look
 * at.
 *
 * A row planned under an earlier policy is settled when read: as the new policy would have planned
 * it when it came into force. So readers never wait for replanning. Gone (past due_at) rows that no
 * cull has met yet are seen by walks and left out by title_*_alive. Private to this folder. */
#ifndef BUCKET_LOOK_H
#define BUCKET_LOOK_H

#include "bucket/catalog.h"
#include "bucket/page_write.h"
#include "title/find.h"

/* Of edit.c; a look alone never edits. */
extern const struct title_ops edit_ops;

/* Who is told of damaged rows that walks go past. */
struct look_damage {
    const struct page_each *each;
    unsigned count;
    bool stopped; /* each said so: the walk ended with ERR_CORRUPT for it */
};
struct look {
    struct title title; /* its ops are those of edit.h */
    struct page_bucket *bucket;
    struct engine_view *view;
    struct page_key key;        /* the title's prefix */
    struct page_title_row row;  /* the title's own, in an edit; for fences */
    struct look_damage *damage; /* NULL: a damaged row ends a walk with ERR_CORRUPT */
};
/* As of now. title: 1 to PAGE_TITLE_BYTES_MAX bytes. */
void look_init(struct look *k, struct page_bucket *b, struct engine_view *v, uint32_t domain,
               str title);
/* The same, but for a title's prefix. */
void look_init_key(struct look *k, struct page_bucket *b, struct engine_view *v,
                   const struct page_key *key);
/* From now on walks go past damaged rows and tell d of them. */
void look_past_damage(struct look *k, struct look_damage *d);

/* Has a damaged row (its key; empty: unreadable) been told, so that a walk may go on behind it? */
MUST_CHECK bool look_passes(const struct look *k, str key);

/* The keys of renders with low <= name <= high alone, undecoded, newest first (rising: oldest
 * first): for who must get past damaged rows. */
struct engine_cursor *look_names_open(const struct look *k, struct page_name low,
                                      struct page_name high, bool rising);

/* Decodes a row found by other means, and settles it. k->key must be its title. */
MUST_CHECK err look_decode(const struct look *k, struct page_name name,
                           const struct engine_row *found, struct page_row *out);

/* find.c: what a read asks of its title. */
struct title_which look_which(const struct page_which *w);

/* ---- struct title_ops, as far as it looks ---- */
MUST_CHECK err look_get(const struct title *t, struct page_name name, struct page_row *out);
void look_walk_open(struct title_walk *w);
MUST_CHECK err look_walk_next(struct title_walk *w, struct page_row *out);
void look_walk_close(struct title_walk *w);
void look_traces_open(struct title_trace_walk *w);
MUST_CHECK err look_traces_next(struct title_trace_walk *w, struct page_trace_row *out);
void look_traces_close(struct title_trace_walk *w);
MUST_CHECK err look_greatest_known(const struct title *t, struct page_name low,
                                   struct page_name high, struct page_name *out);
MUST_CHECK err look_names(const struct title *t, struct page_name low, struct page_name high,
                          struct title_names *out);
MUST_CHECK err look_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
                          store_time *at);
MUST_CHECK err look_silenced(const struct title *t, uint64_t rev, store_time said_at,
                             enum page_state *state, store_time *at);

#endif
