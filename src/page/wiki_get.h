/* wiki_get.h - one read of what only the wiki knows of a page (wiki.h), as get.h is one of a
 * content.
 *
 * The title is settled, then the wiki is asked. Where it is away, or nobody may be asked, metadata
 * is what the store knows; there is no such answer for wikitext and lint. All runs at the caller's
 * home. */
#ifndef PAGE_WIKI_GET_H
#define PAGE_WIKI_GET_H

#include "page/get.h"
#include "page/wiki.h"

enum wiki_outcome {
    WIKI_TOLD,      /* word, and detail */
    WIKI_STORED,    /* stored.render; why: ERR_OK, or as the wiki failed */
    WIKI_MOVED,     /* target.title is how the wiki writes it: the client is to go there */
    WIKI_BAD_TITLE, /* why and note */
    WIKI_UNCACHED,  /* it would have to be asked */
    WIKI_REFUSED,   /* it had to wait, and must not */
    WIKI_FAILED,    /* why, note and retry_ms, of the origin */
};
struct page_wiki_get {
    /* in; borrowed until done */
    const struct page_service *service;
    struct arena *arena;
    struct home *home;
    struct page_target target; /* its domain has an origin */
    enum render_want want;     /* META, WIKITEXT or LINT */
    unsigned flags;            /* NO_CACHE, SCRIPT, ONLY_CACHED, NO_STALE of enum page_get_flag */
    /* It is about to wait; fills in deadline for WAIT_OTHERS. False: it must not wait; the answer
     * is ignored for WAIT_READ. At home, or inside page_wiki_get_start */
    bool (*wait)(struct page_wiki_get *g, enum page_wait what);
    mono deadline;
    /* Once: inside page_wiki_get_start, or later at home. All below is there until it returns. g
     * may be gone behind it */
    void (*done)(struct page_wiki_get *g);
    /* out */
    enum wiki_outcome outcome;
    struct page_word *word; /* read only */
    enum flight_detail detail;
    struct page_read stored;
    err why;
    struct err_note note;
    int64_t retry_ms;
    struct page_title_seen title_seen;
    /* the module's */
    bool moved; /* the title is the wiki's own word */
    struct page_title_wait title;
    struct flight_waiter flight;
    struct task task;
};
void page_wiki_get_start(struct page_wiki_get *g);

#endif
