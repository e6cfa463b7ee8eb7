/* leave.h - may this reader read that page of a private wiki?
 *
 * Model. What is stored of a private domain was made with the server's own authorization. So each
 * reader is asked about first: the wiki hears the reader's Cookie and Authorization, and says
 * whether they may read the title. Each is asked about apart; nobody waits for what another asked.
 * A yes is kept for the domain's leave_ttl by a digest of domain, title, Cookie and Authorization,
 * in one of LEAVE_PLACES: nothing of a cookie stays in memory. A no is not kept. The title is the
 * one the client wrote: the wiki reads it by its own rules, and what those make of it is the page
 * that is served, or none. What is no title's (a list of titles, a transform without one) is for
 * who has the wiki's right `read`: the leave to read one page is none for the names of others. */
#ifndef PAGE_LEAVE_H
#define PAGE_LEAVE_H

#include "codec/sha256.h"
#include "page/page.h"

enum { LEAVE_PLACES = 4096 };

struct page_leaves;
/* Dies when out of memory. */
struct page_leaves *page_leaves_new(void);
void page_leaves_free(struct page_leaves **lp);

struct page_leave {
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_domain *domain; /* private */
    str title;                        /* empty: has he the right to read, whatever page? */
    str cookie, authorization;        /* as the reader sent them; empty: none */
    struct arena *arena;
    mono deadline;
    struct home *home;
    void (*done)(struct page_leave *l); /* at home, once */
    /* out */
    err why; /* ERR_OK: yes. ERR_DENIED: no. Else it could not be asked: as page_err_of_render */
    int64_t retry_after_s;
    struct err_note note;
    /* the module's */
    unsigned char digest[SHA256_BYTES];
    struct render_request request;
    struct task task;
};
/* Is a yes kept? Thread: any. */
bool page_leave_known(struct page_leave *l);
/* After that. Thread: any. */
void page_leave_ask(struct page_leave *l);

#endif
