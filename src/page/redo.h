/* redo.h - all renders of a domain that were made before now are too old, and made anew by their
 * next readers, or when their next word comes (remake.h): what no word of the wiki tells of has
 * changed (its configuration, messages of its interface). Of this server's store; the instant
 * outlives a restart. */
#ifndef PAGE_REDO_H
#define PAGE_REDO_H

#include "page/page.h"

enum { REDO_BYTES = 9 };

struct page_redo {
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_domain *domain; /* redo_ns is there */
    struct home *home;
    void (*done)(struct page_redo *r); /* once, later */
    /* out */
    err why; /* as of a put. ERR_OK: on disk, and obeyed from here on */
    store_time at;
    /* the module's */
    struct page_note_put note;
    char bytes[REDO_BYTES];
};
/* Thread: any. */
void page_redo_start(struct page_redo *r);
/* What was told before the last stop. Blocks: start-up only. ERR_CORRUPT, ERR_IO. */
MUST_CHECK err page_redo_load(const struct page_service *s, const struct page_domain *d);

#endif
