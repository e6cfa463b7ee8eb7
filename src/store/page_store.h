/* page_store.h - page buckets of a store: what their callers see, whichever store it is.
 *
 * Model. A title of a domain has renders, ordered by (rev, tid); the greatest is the latest. A
 * render is a bundle of named contents stored, read, superseded and culled together. A put takes
 * its sorted place: greater than all, it is the latest and supersedes the one that was; else it is
 * superseded at its arrival by its next greater neighbour, or by a newer revision known to exist
 * elsewhere, of which no render is stored yet (a name with tid zero: then no stored render is the
 * latest).
 *   due_at is when a render is gone: policy's (from superseded_at) or later by a request, a stash
 *     or a hold;
 * NEVER for what policy keeps. A render past due_at is not served, whether or not it was culled
 * already. A cull leaves a trace for ledger_ttl. A purge leaves a fence: tids in its range not
 * after the purge are refused. The wiki's word hides renders that are suppressed or deleted there:
 * to reads they are gone (ERR_GONE, the trace's state says which), and never the latest; they stay
 * until they are due, and a put of their revision shows them again.
 *   Requests: page_read.h, page_write.h, page_word.h, page_sweep.h. Stores: bucket/pages.h, on the
 * embedded engine. Source: RESTBase/StorageDesign "Retention policies using application-enforced
 * TTLs". */
#ifndef STORE_PAGE_STORE_H
#define STORE_PAGE_STORE_H

#include "store/change.h"
#include "store/page_read.h"
#include "store/page_sweep.h"
#include "store/page_word.h"
#include "store/page_write.h"

struct page_store;

struct pages_stats {
    uint64_t culled, purged, extended, overdue_ns_max, superseded, puts, duplicates, replanned;
    uint64_t damaged; /* rows listings, checks and culls went past */
};

/* What a store does; see the functions below. */
struct page_store_ops {
    err (*domain)(struct page_store *s, str name, uint32_t *out);
    struct page_bucket *(*bucket)(struct page_store *s, str name);
    const struct page_policy *(*bucket_policy)(const struct page_bucket *b);
    uint16_t (*bucket_number)(const struct page_bucket *b);
    enum store_start (*read)(struct page_store *s, struct page_read *r);
    enum store_start (*put)(struct page_store *s, struct page_put *p);
    enum store_start (*order)(struct page_store *s, struct page_order *o);
    enum store_start (*hear)(struct page_store *s, struct page_hear *h);
    enum store_start (*knows)(struct page_store *s, struct page_knows *k);
    enum store_start (*list)(struct page_store *s, struct page_list *l);
    enum store_start (*explain)(struct page_store *s, struct page_explain *x);
    enum store_start (*walk)(struct page_store *s, struct page_walk *w);
    enum store_start (*revs)(struct page_store *s, struct page_revs *r);
    enum store_start (*forget)(struct page_store *s, struct page_forget *f);
    enum store_start (*note_put)(struct page_store *s, struct page_note_put *n);
    err (*note_get)(struct page_store *s, uint32_t domain, enum page_note note, char *out,
                    size_t *n);
    err (*upkeep)(struct page_store *s, bool *more, store_time *next);
    bool (*ready)(struct page_store *s, struct err_note *note); /* NULL: always */
    void (*stats)(struct page_store *s, struct pages_stats *out);
    err (*check)(struct page_store *s, void (*found)(void *ctx, const char *what), void *ctx);
    void (*listen)(struct page_store *s, const struct page_listener *l);
    void (*follow)(struct page_store *s, const struct page_follower *f);
    struct page_position (*position)(struct page_store *s);
};
struct page_store {
    const struct page_store_ops *ops;
};

/* The number a configured domain is stored under, on every start. Blocks: start-up only. */
MUST_CHECK static inline err page_store_domain(struct page_store *s, str name, uint32_t *out)
{
    return s->ops->domain(s, name, out);
}
/* NULL: unknown. */
static inline struct page_bucket *page_store_bucket(struct page_store *s, str name)
{
    return s->ops->bucket(s, name);
}
/* The one in force now; what it points to lives as long as the store. Thread: any. */
static inline const struct page_policy *page_store_bucket_policy(const struct page_store *s,
                                                                 const struct page_bucket *b)
{
    return s->ops->bucket_policy(b);
}
/* As a follower is told it. */
static inline uint16_t page_store_bucket_number(const struct page_store *s,
                                                const struct page_bucket *b)
{
    return s->ops->bucket_number(b);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_read(struct page_store *s, struct page_read *r)
{
    return s->ops->read(s, r);
}
/* Compresses on the calling thread. Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_put(struct page_store *s, struct page_put *p)
{
    return s->ops->put(s, p);
}
/* Thread: any. */
MUST_CHECK static inline enum store_start page_store_order(struct page_store *s,
                                                           struct page_order *o)
{
    return s->ops->order(s, o);
}
/* Looks first. Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_hear(struct page_store *s, struct page_hear *h)
{
    return s->ops->hear(s, h);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_knows(struct page_store *s,
                                                           struct page_knows *k)
{
    return s->ops->knows(s, k);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_list(struct page_store *s, struct page_list *l)
{
    return s->ops->list(s, l);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_explain(struct page_store *s,
                                                             struct page_explain *x)
{
    return s->ops->explain(s, x);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_walk(struct page_store *s, struct page_walk *w)
{
    return s->ops->walk(s, w);
}
/* Thread: any but the loop. */
MUST_CHECK static inline enum store_start page_store_revs(struct page_store *s, struct page_revs *r)
{
    return s->ops->revs(s, r);
}
/* Thread: any. */
MUST_CHECK static inline enum store_start page_store_forget(struct page_store *s,
                                                            struct page_forget *f)
{
    return s->ops->forget(s, f);
}
/* Thread: any. */
MUST_CHECK static inline enum store_start page_store_note_put(struct page_store *s,
                                                              struct page_note_put *n)
{
    return s->ops->note_put(s, n);
}
/* out has PAGE_NOTE_BYTES_MAX bytes. ERR_NOT_FOUND: none was ever put. ERR_CORRUPT, ERR_IO. Thread:
 * any but the loop. */
MUST_CHECK static inline err page_store_note_get(struct page_store *s, uint32_t domain,
                                                 enum page_note note, char *out, size_t *n)
{
    return s->ops->note_get(s, domain, note, out, n);
}
/* Culls what is due, forgets old traces, goes on replanning after a policy change: one batch.
 * *more: there is more to do now; *next: when the next row falls due (NEVER: none). Blocks until on
 * disk: a pool job. */
MUST_CHECK static inline err page_store_upkeep(struct page_store *s, bool *more, store_time *next)
{
    return s->ops->upkeep(s, more, next);
}
/* Do requests have a chance just now? The note says why not, in words for any client. Thread: any.
 */
static inline bool page_store_ready(struct page_store *s, struct err_note *note)
{
    return s->ops->ready == NULL || s->ops->ready(s, note);
}
static inline void page_store_stats(struct page_store *s, struct pages_stats *out)
{
    s->ops->stats(s, out);
}
/* Verifies what rows must hold among each other. Online. Blocks. */
MUST_CHECK static inline err page_store_check(struct page_store *s,
                                              void (*found)(void *ctx, const char *what), void *ctx)
{
    return s->ops->check(s, found, ctx);
}
/* One listener, before anything is written. */
static inline void page_store_listen(struct page_store *s, const struct page_listener *l)
{
    s->ops->listen(s, l);
}
/* PAGE_FOLLOWERS_MAX of them, before anything is written. */
static inline void page_store_follow(struct page_store *s, const struct page_follower *f)
{
    s->ops->follow(s, f);
}
/* No change on disk has a greater one, and all that are told later have. At a start it is as great
 * as that of the last update on disk, of whatever kind. Thread: any. */
static inline struct page_position page_store_position(struct page_store *s)
{
    return s->ops->position(s);
}

#endif
