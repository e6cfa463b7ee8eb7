/* kept.h - what clients keep for the life of an edit (stash.h), for operators: seen, and taken
 * away.
 *
 * Calls as those of a store (store/store.h): DONE, or LATER and then done at home. Items come page
 * bucket after page bucket, in the order of the configuration, then previews. One call has looked
 * at PAGE_KEPT_STEPS_MAX renders at most, so it may give `next` and no items. Thread: any but the
 * loop. */
#ifndef PAGE_KEPT_H
#define PAGE_KEPT_H

#include "base/buf.h"
#include "page/page.h"

enum { PAGE_KEPT_STEPS_MAX = 10000 };

struct page_kept {
    struct page_bucket *bucket;
    const char *bucket_name; /* NULL: a preview */
    str key, title;          /* as stored (of a preview with its user); of the page. In the arena */
    str user;                /* digits; empty: nobody in particular */
    struct page_name name;   /* as the editor knows it */
    store_time until;
    uint64_t bytes;
};
/* call.why: ERR_BAD: from is of no such listing; else as of a page_list. */
struct page_kept_list {
    struct store_call call;
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_domain *domain;
    str title; /* a key; empty: all of the domain */
    str from;  /* a next that such a listing gave; n 0: the beginning */
    unsigned limit;
    struct arena *arena;
    /* out */
    struct page_kept *items;
    unsigned count;
    str next; /* opaque bytes; n 0: that was all */
    /* the module's */
    unsigned at, damaged; /* damaged: left out, and told in the log */
    bool starved;
    struct page_list list; /* of the bucket at which it is */
};
MUST_CHECK enum store_start page_kept_list(struct page_kept_list *l);

/* One as a member of a listing: {"kind":"pin","bucket":...,...}. */
void page_kept_json(struct buf *b, const struct page_kept *k);

/* Lists as list says, and unstashes each item found. Look at list.call.why first: when the listing
 * failed, call.why is ERR_OK. Then call.why is the outcome of the unstash that ended it, and
 * order.note its note. removed and bytes count what was taken away before an error, too. */
struct page_kept_removal {
    struct store_call call;
    struct page_kept_list list; /* in, but for its call */
    /* out */
    unsigned removed;
    uint64_t bytes; /* that they took */
    struct page_order order;
};
MUST_CHECK enum store_start page_kept_remove(struct page_kept_removal *r);

#endif
