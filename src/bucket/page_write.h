/* page_write.h - puts and orders of page buckets. Part of page.h. */
#ifndef BUCKET_PAGE_WRITE_H
#define BUCKET_PAGE_WRITE_H

#include "bucket/page.h"
#include "title/decide.h"

/* ---- writing. Each request is the caller's memory until done; done: engine thread, short. ---- */
struct page_put_content {
    str name;
    str headers; /* "name: value\n" lines, sane ones only */
    str raw;
    str packed; /* one whole frame of packed_codec that holds raw, made by others; empty: none */
    enum page_codec packed_codec;
};
struct page_put {
    /* in; borrowed until done */
    uint32_t domain;
    str title;
    uint64_t rev;
    bool has_tid;
    struct tid tid;
    unsigned contents_count;
    struct page_put_content contents[PAGE_CONTENTS_MAX];
    int64_t stash_ns; /* > 0: pin at once */
    uint64_t behind;  /* > rev: this revision exists elsewhere, so what is put is not the latest */
    store_time said_at; /* when the origin was asked for it; ZERO: now. A later word against it:
                           ERR_GONE */
    bool asked; /* made on request: kept for historical_ttl from now when it is not the latest */
    /* NULL, or the caller's own condition; false: ERR_PRECONDITION, nothing stored */
    page_allow_fn *allow;
    const void *allow_ctx;
    mono deadline;
    struct arena *arena; /* for the frames; the caller's */
    void (*done)(struct page_put *p, err why);
    void *ctx;
    /* out: ERR_OK; else ERR_CONFLICT, ERR_GONE (trace), ERR_BAD, and what the engine says */
    struct page_name stored;
    bool latest, applied, created; /* created: 201, else 200 */
    int64_t pinned_ns;             /* by how much longer than before it is pinned now */
    /* of the render under that name, as stored, maybe long ago with another codec */
    uint64_t bytes;
    struct page_trace trace;
    struct err_note note;
    /* the module's */
    struct page_bucket *bucket;
    struct engine_update update;
    str bundle;
    struct page_render row;
    unsigned char digest[16], plain_digest[16];
    struct title_answer answer;
};
/* Compresses on the calling thread, then submits. Refuses at once (ERR_BAD, ERR_LIMIT; done not
 * called) what is wrong without looking: rev, names, tid too far ahead. Identical renders are known
 * by plain_digest (bucket/bundle.h). */
MUST_CHECK err page_put_start(struct page_bucket *b, struct page_put *p);
/* The tid to put a render of rev under whose making began then, greater than all rev had. ERR_GONE:
 * purged since. */
MUST_CHECK err page_mint(struct page_bucket *b, struct engine_view *v, const struct page_which *rev,
                         store_time began, uint64_t random, struct tid *out);

struct page_order {
    /* in */
    enum page_order_kind kind;
    uint32_t domain;
    str title;
    bool has_rev, has_tid; /* PURGE: what is named; else without tid the newest of the revision
                              (RELEASE: all) */
    struct page_name name;
    store_time until; /* HOLD */
    /* NULL, or the caller's own condition; false: ERR_PRECONDITION, nothing changed */
    page_allow_fn *allow;
    const void *allow_ctx;
    bool named; /* STASH: the read named its revision, so it extends life too */
    bool drop;  /* UNSTASH (of an exact render): it goes too, as it is kept for its stash alone */
    bool elsewhere;       /* PURGE: no stored render becomes the latest in the place of one taken */
    uint64_t rev_last;    /* MARK: of name.rev to it */
    enum page_state mark; /* MARK: SUPPRESSED, DELETED; CURRENT: not hidden any more */
    store_time said_at;   /* MARK: when the origin was asked; what is stored later is spared */
    mono deadline;
    void (*done)(struct page_order *o, err why);
    void *ctx;
    /* out; ERR_NOT_FOUND, ERR_GONE with trace (a purge, an unstash of nothing is ERR_OK) */
    struct page_render render; /* as it is after the order; its blob is not readable */
    uint64_t purged;
    int64_t pinned_ns; /* STASH: by how much longer than before it is pinned; UNSTASH: how long it
                          was to be */
    struct page_trace trace;
    struct err_note note;
    /* the module's */
    struct page_bucket *bucket;
    struct engine_update update;
    unsigned phase;
    bool changed, more, settling;
    uint64_t purged_now;
    struct title_answer answer;
    struct page_name from,
        next_from; /* PURGE, RELEASE of many rows: several updates; where the next goes on */
};
/* Would such a mark change a stored render? Thread: any; never blocks. */
MUST_CHECK bool page_wants_mark(struct page_bucket *b, struct engine_view *v,
                                const struct page_order *mark);
/* done is called for whatever becomes of it, also for what is wrong at once (ERR_BAD). */
void page_order_start(struct page_bucket *b, struct page_order *o);

#endif
