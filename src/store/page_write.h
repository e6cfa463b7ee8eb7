/* page_write.h - what changes pages: puts, orders, and conditions on them. Part of page_store.h. */
#ifndef STORE_PAGE_WRITE_H
#define STORE_PAGE_WRITE_H

#include "store/page_read.h"

/* What is asked of a render. A writer asks it of the latest, judged with the newest state in the
 * update that writes: of two writers one passes. The names are borrowed until done. */
enum page_match_kind { MATCH_UNASKED, MATCH_LISTED, MATCH_ANY };
struct page_match {
    enum page_match_kind kind;
    const struct page_name *names;
    unsigned count;
};
struct page_condition {
    struct page_match match;      /* the latest is one of them (ANY: there is one) */
    struct page_match none_match; /* it is none of them (ANY: there is none) */
    bool dated;
    store_time before; /* dated: it was rendered before this, or there is none */
};
bool page_condition_is_none(const struct page_condition *c);
/* Of a render (RFC 9110 13.2.2). SAME: it is one of none_match, and all else holds. Pure. */
enum page_verdict { CONDITION_HOLDS, CONDITION_SAME, CONDITION_FAILS };
enum page_verdict page_condition_judge(const struct page_condition *c, struct page_name name);
/* latest NULL: there is none. Pure. */
MUST_CHECK bool page_condition_holds(const struct page_condition *c,
                                     const struct page_name *latest);

struct page_put_content {
    str name;
    str headers; /* "name: value\n" lines, sane ones only */
    str raw;
    str packed; /* one whole frame of packed_codec that holds raw, made by others; empty: none */
    enum page_codec packed_codec;
};
/* call.why: ERR_OK; ERR_BAD, ERR_LIMIT (what is wrong without looking is told at once),
 * ERR_CONFLICT, ERR_GONE (trace), ERR_PRECONDITION, ERR_FULL, ERR_TIMEOUT, ... Identical renders
 * are known. */
struct page_put {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    uint32_t domain;
    str title;
    uint64_t rev;
    /* The tid: given; or with `began` a new one, of a render whose making began then, greater than
     * all the revision has; else a new one of the instant of arrival. */
    bool has_tid;
    struct tid tid;   /* out, too, once it is made of began */
    store_time began; /* ZERO: see above. Purged since: ERR_GONE */
    store_time fence; /* ZERO, or an instant to be preferred, unless it was purged since */
    uint64_t random;  /* of a tid that is made */
    /* Completes the contents once the tid is known; NULL: they are there. Inside the start. What is
     * not ERR_OK is what the put gets. */
    err (*fill)(struct page_put *p);
    unsigned contents_count;
    struct page_put_content contents[PAGE_CONTENTS_MAX];
    int64_t stash_ns; /* > 0: pin at once */
    uint64_t behind;  /* > rev: this revision exists elsewhere, so what is put is not the latest */
    store_time said_at; /* when the origin was asked for it; ZERO: now. A later word against it:
                           ERR_GONE */
    bool heeds;         /* the domain has a wiki: its last word judges what is put */
    const struct title_word *word; /* under which the wiki made it; NULL: none. With heeds */
    int64_t revised; /* when its revision was made, by the wiki's clock; 0: it is not the newest */
    bool asked;    /* made on request: kept for historical_ttl from now when it is not the latest */
    bool own_name; /* with a tid, by which clients know it: an identical render does not do */
    struct page_condition condition; /* does not hold: ERR_PRECONDITION, nothing stored */
    struct arena *arena;             /* for the frames, and the store */
    /* out */
    struct page_name stored;
    bool latest, applied, created; /* created: 201, else 200 */
    bool first;                    /* its word is the first that is known of the title */
    /* Under what the render was made that was the latest until then; said 0: there was none, or no
     * wiki made it. */
    struct title_under before;
    int64_t pinned_ns; /* by how much longer than before it is pinned now */
    /* of the render under that name, as stored, maybe long ago with another codec */
    uint64_t bytes;
    struct page_trace trace;
    /* ERR_GONE by a word of the wiki or a purge: a render that is asked for then or later is above
     * it. ZERO: at any time */
    store_time again_at;
    struct err_note note;
};

/* call.why: ERR_OK; ERR_NOT_FOUND, ERR_GONE with trace (a purge, an unstash of nothing is ERR_OK);
 * ERR_BAD; and as of a put. */
struct page_order {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    enum page_order_kind kind;
    uint32_t domain;
    str title;
    bool has_rev, has_tid; /* PURGE: what is named; else without tid the newest of the revision
                              (RELEASE: all) */
    struct page_name name;
    store_time until;                /* HOLD */
    struct page_condition condition; /* does not hold: ERR_PRECONDITION, nothing changed */
    bool named; /* STASH: the read named its revision, so it extends life too */
    bool drop;  /* UNSTASH (of an exact render): it goes too, as it is kept for its stash alone */
    bool elsewhere; /* PURGE: no stored render becomes the latest in the place of one taken */
    /* out */
    struct page_render render; /* as it is after the order; of an order on a render */
    int64_t pinned_ns; /* STASH: by how much longer than before it is pinned; UNSTASH: how long it
                          was to be */
    uint64_t purged;
    struct page_trace trace;
    struct err_note note;
};

#endif
