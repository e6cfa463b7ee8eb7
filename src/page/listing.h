/* listing.h - renders of a title, or titles of a domain, as a listing in JSON (docs/api.md, 2).
 *
 * A call as those of a store (store/store.h): DONE, or LATER and then done at home. Rows that are
 * stored and cannot be read take nobody else's place: the listing names them apart, and the log
 * counts them. Thread: any but the loop. */
#ifndef PAGE_LISTING_H
#define PAGE_LISTING_H

#include "codec/json_list.h"
#include "page/page.h"

enum { PAGE_JSON_BYTES_MAX = 8 << 20 }; /* of one listing, or of what is said of one render */

/* call.why: ERR_BAD: from is of no such listing; of a history ERR_NOT_FOUND, the title never had a
 * render, or ERR_GONE, what it had is gone and trace says why; else as of a page_list. */
struct page_listing {
    struct store_call call;
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_target *target; /* of a history, its title */
    enum page_list_what what;         /* HISTORY or TITLES */
    unsigned limit;
    str from; /* a next that such a listing gave; n 0: the beginning */
    struct arena *arena;
    /* out */
    str json; /* with why ERR_OK; p NULL: it would be too long, or the arena is full */
    struct page_trace trace;
    /* the module's */
    struct json_list text;
    union {
        struct page_list list;
        struct page_read read;
    };
};
MUST_CHECK enum store_start page_listing(struct page_listing *l);

/* Logs that an answer about t went past rows that cannot be read. */
void page_tell_damage(const struct page_service *s, const struct page_target *t, unsigned rows);

#endif
