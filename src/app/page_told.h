/* page_told.h - what the wiki's answer says against stored renders is marked in the store, before anybody is told.
 *
 *   fine          its revision is not hidden; where it is the newest, what is stored of greater ones was deleted
 *   no page       all of the title was deleted
 *   no revision   that revision was deleted, or is another title's
 *   suppressed    that revision's text is hidden
 *
 * Reads of latest and of a revision that find such a mark ask the wiki again, and its word takes the mark away; an
 * exact render is answered from the mark alone. An origin without api.php may answer from a cache of its own, so it is
 * not believed that its newest revision went down. */
#ifndef APP_PAGE_TOLD_H
#define APP_PAGE_TOLD_H

#include "app/page_request.h"
#include "loop/loop.h"
#include "render/render.h"

enum { TOLD_MARKS_MAX = 2 };

struct page_told {
    /* in; borrowed until done */
    const struct app *app;
    const struct page_target *target;
    const struct render_request *ask;
    enum render_why why;
    store_time said_at;         /* when the wiki was asked */
    void (*done)(struct page_told *t);
    /* the module's */
    struct loop_job job;
    struct page_order marks[TOLD_MARKS_MAX];
    unsigned count, next;
};
/* done: once, later, when the marks are on disk; one that could not be written is logged. Thread: loop, done too. */
void page_told_start(struct page_told *t);

#endif
