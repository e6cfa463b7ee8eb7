/* page_title.h - the title of a request, as its wiki writes it; requests that wait for the rules,
 * and readers that are sent to another title. */
#ifndef APP_PAGE_PAGE_TITLE_H
#define APP_PAGE_PAGE_TITLE_H

#include "app/page/page_request.h"
#include "page/title.h"

struct title_wait {
    /* in; borrowed until go is called, or the request was answered */
    struct http_exchange *x;
    struct page_target *target;
    mono deadline;
    /* The title is settled, and x is deferred. Inside title_wait_start, or later at x's home. Else
     * it is answered, and nothing is called */
    void (*go)(struct title_wait *w);
    struct page_title_wait page; /* the module's */
};
/* Thread: x's. */
void title_wait_start(struct title_wait *w);
/* By the rules that are known; without them the title counts as it is written. False: answered. */
MUST_CHECK bool title_settle(struct http_exchange *x, struct page_target *target);
void title_answer_bad(struct http_exchange *x, err why, const struct err_note *note);
/* 301 to the title that target has now. */
void title_answer_moved(struct http_exchange *x, const struct page_target *target);

#endif
