/* change.h - what happens to titles, told to those who follow a store. Part of page_store.h.
 *
 * Model. Each edit of a stored render is a change: it became the latest, was superseded, goes at
 * another instant, is gone. Changes of one update are told together, after it is on disk: in the
 * order of the store's updates, so of one title in the order they happened; culls as all others. A
 * change is told once while the process lives. What was written before a kill and not told then is
 * not told after it.
 *   A position names a change for good: positions rise strictly, also over restarts and kills. So
 * who keeps the last position it worked on sees by page_store_position, at the next start, whether
 * it may have missed any. */
#ifndef STORE_CHANGE_H
#define STORE_CHANGE_H

#include "base/home.h"
#include "title/stored.h"

enum { PAGE_FOLLOWERS_MAX = 4 };

/* The instant of an update, or just after it, and a count within that. */
struct page_position {
    store_time at;
    uint32_t n;
};
static inline int page_position_cmp(struct page_position a, struct page_position b)
{
    if (a.at.ns != b.at.ns)
        return a.at.ns < b.at.ns ? -1 : 1;
    return (a.n > b.n) - (a.n < b.n);
}

enum page_change_what {
    CHANGE_STORED,     /* it is new, and superseded by `by` already */
    CHANGE_LATEST,     /* it is the latest now: new, shown again, or what was newer is gone */
    CHANGE_SUPERSEDED, /* by `by`: a render, or a revision that is not made (tid zero) */
    CHANGE_HIDDEN,     /* the wiki says that its text is hidden, or deleted */
    CHANGE_SHOWN,      /* ... that it is not, any more */
    CHANGE_DATED,  /* the wiki has something newer: `by`.rev is its newest revision. Told once of
                      a render, until it is made anew */
    CHANGE_DUE,    /* it goes at another instant than before */
    CHANGE_CULLED, /* it is gone: it was due */
    CHANGE_PURGED, /* it is gone: somebody, or the end of its stash, said so */
    CHANGE_WHATS
};
const char *page_change_name(enum page_change_what what); /* "latest" */

struct page_change {
    enum page_change_what what;
    uint16_t bucket;
    uint32_t domain;
    str title;
    struct page_name name, by;
    enum page_state hidden; /* HIDDEN: SUPPRESSED or DELETED */
    struct page_position position;
};

/* Told of every title that changed, after it is on disk and before its writer is. On the store's
 * thread: bounded, without a lock and without memory. It keeps what writers see of their own. */
struct page_listener {
    void (*changed)(void *ctx, uint16_t bucket, uint32_t domain, str title);
    void *ctx;
};

/* Given all changes of each update, in a task at its home, which runs all that it was posted before
 * the store is freed. The changes are the store's, until told returns. */
struct page_follower {
    void (*told)(void *ctx, const struct page_change *changes, unsigned count);
    void *ctx;
    struct home *home;
};

#endif
