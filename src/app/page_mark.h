/* page_mark.h - marks on stored renders of one title, written one after the other: what the wiki says against them
 * (bucket/page.h, ORDER_MARK). Private to page*.c, render_make.c, purge_all.c. */
#ifndef APP_PAGE_MARK_H
#define APP_PAGE_MARK_H

#include "app/page_request.h"
#include "loop/loop.h"

enum { PAGE_MARKS_MAX = 2 };

struct page_marks {
    /* in; borrowed until done */
    const struct app *app;
    struct page_bucket *bucket;
    const struct app_domain *domain;
    str title;
    unsigned count;             /* out: how many would have changed something */
    struct page_order marks[PAGE_MARKS_MAX];
    void (*done)(struct page_marks *m);
    /* the module's */
    struct loop_job job;
    unsigned next;
};
/* One more: these revisions are in that state, as the wiki said then. */
void page_marks_add(struct page_marks *m, enum page_state state, uint64_t first, uint64_t last, store_time said_at);
/* done: once, later, when the marks that change something are on disk; one that could not be written is logged.
 * Thread: loop, done too. */
void page_marks_start(struct page_marks *m);

#endif
