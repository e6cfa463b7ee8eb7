/* ask.h - the wiki is asked about a page, and what its answer says against stored renders is
 * marked in the store before anybody is told.
 *
 *   fine          its revision is not hidden; where it is the newest, what is stored of greater
 *                 ones was deleted
 *   no page       all of the title was deleted
 *   no revision   that revision was deleted, or is another title's
 *   suppressed    that revision's text is hidden
 *
 * Reads of latest and of a revision that find such a mark ask the wiki again, and its word takes
 * the mark away; an exact render is answered from the mark alone. An origin without api.php may
 * answer from a cache of its own, so it is not believed that its newest revision went down. Servers
 * that share our Redis are told (tell.h). What a copy of the wiki's database says that is behind,
 * against what is known, marks nothing: it is BUSY. */
#ifndef PAGE_ASK_H
#define PAGE_ASK_H

#include "loop/loop.h"
#include "page/check.h"
#include "page/old.h"
#include "page/tell.h"

enum { ASK_MARKS_MAX = 2 };

struct page_ask {
    /* in; borrowed until done */
    const struct page_service *service;
    const struct page_target *target;
    enum render_want want;
    struct page_purge purge; /* a render: is it to come from no cache of the wiki's? */
    mono deadline;
    struct limiter_pass *pass; /* the flight's; may be NULL */
    struct arena *arena;
    void (*done)(struct page_ask *a);
    /* out */
    store_time began; /* when the wiki was asked */
    bool has_word;    /* of the title: word */
    bool behind;      /* it comes from a copy of the wiki's database that is (behind.h) */
    enum render_why why;
    struct render_request request;
    /* the module's */
    struct task task;
    struct page_hear hear;
    struct title_word word;
    struct title_mark marks[ASK_MARKS_MAX];
    unsigned marks_count;
    struct trust_cell *cell; /* of the title: a doubt meanwhile finds it. NULL: no trust */
    struct page_check check;
};
/* done: once, later, on the pool, when the marks are on disk; one that could not be written is
 * logged. Thread: loop. */
void page_ask_start(struct page_ask *a);
/* done comes soon; does nothing once the wiki has answered, or before it is asked. Thread: loop. */
void page_ask_cancel(struct page_ask *a);

#endif
