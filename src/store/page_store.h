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
 * after the purge are refused. A mark hides renders the origin says are suppressed or deleted: to
 * reads they are gone (ERR_GONE, the trace's state says which), and never the latest; they stay
 * until they are due, and a put of their revision shows them again.
 *   Stores: bucket/pages.h, on the embedded engine.
 * Source: RESTBase/StorageDesign "Retention policies using application-enforced TTLs". */
#ifndef STORE_PAGE_STORE_H
#define STORE_PAGE_STORE_H

#include "base/arena.h"
#include "store/store.h"
#include "title/stored.h"

enum {
    PAGE_TITLE_BYTES_MAX = 440,
    PAGE_HEADERS_MAX = 32, /* of one content */
    PAGE_HEADERS_BYTES_MAX = 8192,
    PAGE_BYTES_MAX = 64 << 20, /* of all contents of a render */
    PAGE_DAMAGED_MAX = 1000,   /* damaged rows one listing goes past */
    PAGE_WANTED_MAX = 4, /* contents of one read */
};
#define PAGE_TID_AHEAD_NS (5 * NS_PER_S) /* a tid further in the future is refused */

struct page_store;
struct page_bucket; /* as its store has it */

/* The key of a title: UTF-8, NFC, 1 to PAGE_TITLE_BYTES_MAX bytes, no control bytes, not "." or
 * ".."; else ERR_BAD. Pure. */
MUST_CHECK err page_title_key(struct arena *a, str title, str *out, struct err_note *note);

/* ---- reading ---- */

struct page_which {
    uint32_t domain;
    str title; /* a key */
    enum page_select select;
    struct page_name name; /* rev for REV; rev and tid for EXACT */
    bool deleted_too;      /* EXACT: also what is deleted at the origin, for who edits it still */
    store_time at;         /* SERVED_AT, CURRENT_AT */
};

/* A content as it is stored: verified, in pieces, in the arena of its read. */
struct page_body {
    str headers; /* "name: value\n" lines */
    enum page_codec codec;
    uint64_t raw_bytes; /* decoded */
    const str *pieces;
    unsigned pieces_count; /* 0: it was not read */
};
/* All of it in one piece: itself, when it is. STR_NONE: the arena is full. */
str page_body_whole(const struct page_body *b, struct arena *a);
/* The same decoded; itself when the codec is identity. ERR_CORRUPT, ERR_LIMIT. */
MUST_CHECK err page_body_raw(const struct page_body *b, struct arena *a, str *raw);

/* One render and contents of it. call.why: ERR_OK; ERR_GONE and trace (the newest of what was asked
 * for); ERR_NOT_FOUND; ERR_CORRUPT; ERR_IO; ERR_LIMIT (the arena is full, or more than
 * PAGE_AT_STEPS_MAX). Under policy ttl the latest may run out before renders put late: then there
 * is none. Cost: a few seeks; SERVED_AT and CURRENT_AT walk the title's renders down to the
 * instant. What lies in memory is read at once. */
struct page_read {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    struct page_which which;
    struct arena *arena; /* of what is read */
    unsigned wanted_count;
    str wanted[PAGE_WANTED_MAX]; /* names of contents */
    /* Which of those to read, as bits, once render and contents are known; NULL: all that are
     * there. Inside the start. Pure but for the request. */
    unsigned (*choose)(struct page_read *r);
    /* out */
    bool found; /* render is; else why says that there is none. Contents may fail still */
    struct page_render render;
    /* up to and with which instant a read that names the render has not to extend its life first
     * (ORDER_EXTEND), as long as the title does not change; NEVER: at no time */
    store_time lasts_until;
    struct page_trace trace;
    const struct page_content *contents[PAGE_WANTED_MAX]; /* NULL: the render has none of it */
    struct page_body bodies[PAGE_WANTED_MAX];
};

/* ---- the store ---- */

struct pages_stats {
    uint64_t culled, purged, extended, overdue_ns_max, superseded, puts, duplicates, replanned;
    uint64_t damaged; /* rows listings, checks and culls went past */
};

/* Told of every title that changed, after it is on disk and before its writer is. On the store's
 * thread: short. */
struct page_follower {
    void (*changed)(void *ctx, uint16_t bucket, uint32_t domain, str title);
    void *ctx;
};

/* What a store does; see the functions below. */
struct page_store_ops {
    err (*domain)(struct page_store *s, str name, uint32_t *out);
    struct page_bucket *(*bucket)(struct page_store *s, str name);
    const struct page_bucket_opts *(*bucket_opts)(const struct page_bucket *b);
    uint16_t (*bucket_number)(const struct page_bucket *b);
    enum store_start (*read)(struct page_store *s, struct page_read *r);
    err (*upkeep)(struct page_store *s, bool *more, store_time *next);
    void (*stats)(struct page_store *s, struct pages_stats *out);
    err (*check)(struct page_store *s, void (*found)(void *ctx, const char *what), void *ctx);
    void (*follow)(struct page_store *s, const struct page_follower *f);
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
static inline const struct page_bucket_opts *page_store_bucket_opts(const struct page_store *s,
                                                                    const struct page_bucket *b)
{
    return s->ops->bucket_opts(b);
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
/* Culls what is due, forgets old traces, goes on replanning after a policy change: one batch.
 * *more: there is more to do now; *next: when the next row falls due (NEVER: none). Blocks until on
 * disk: a pool job. */
MUST_CHECK static inline err page_store_upkeep(struct page_store *s, bool *more, store_time *next)
{
    return s->ops->upkeep(s, more, next);
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
/* One follower, before anything is written. */
static inline void page_store_follow(struct page_store *s, const struct page_follower *f)
{
    s->ops->follow(s, f);
}

#endif
