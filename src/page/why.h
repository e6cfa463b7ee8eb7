/* why.h - what a reader of a title would get now, and why, in each bucket: for operators. Changes
 * nothing and asks nobody. */
#ifndef PAGE_WHY_H
#define PAGE_WHY_H

#include "page/old.h"
#include "page/remake.h"

struct page_why_bucket {
    const struct page_settings *settings;
    err why; /* ERR_OK: render is the latest; ERR_GONE: trace; ERR_NOT_FOUND; of the store */
    struct page_render render;
    struct page_trace trace;
    enum title_dated dated; /* UNSETTLED: by settle_s */
    enum page_old old;
    struct remake_place line; /* of what is made anew without a reader */
};
/* call.why: ERR_OK; ERR_LIMIT: the arena. */
struct page_why {
    struct store_call call;
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_domain *domain;
    str title;                     /* a key */
    const struct title_word *told; /* what the wiki said just now; NULL: nobody asked it */
    struct arena *arena;
    /* out */
    bool is_checked; /* the domain's origin is asked for words; else heard, age and need say nothing
                      */
    /* The word that the store has heard last. Where nothing of the title is stored: what was told,
     * or that there is no such page, as far as that is known (said 0) */
    bool heard;
    struct title_word word;
    int64_t age_ns;        /* of the trust in it; TRUST_NEVER: there is none */
    store_time doubted_at; /* since when nothing is trusted; ZERO: it is not in doubt */
    enum trust_need need;  /* of who reads the latest */
    int64_t settle_s;      /* is_checked: how long after its page was touched a render settles */
    unsigned count;
    struct page_why_bucket *buckets;
    /* the module's */
    struct page_read read;
};
/* Thread: any but the loop. */
MUST_CHECK enum store_start page_why_start(struct page_why *w);

#endif
