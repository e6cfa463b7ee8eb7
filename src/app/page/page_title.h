/* page_title.h - the title of a request, as its wiki writes it; requests that wait for the rules,
 * and readers that are sent to another title. */
#ifndef APP_PAGE_PAGE_TITLE_H
#define APP_PAGE_PAGE_TITLE_H

#include "app/page/page_request.h"
#include "page/title.h"

struct title_wait {
    /* in; borrowed until go or failed is called, or the request was answered */
    struct http_exchange *x;
    struct page_target *target;
    mono deadline;
    /* The title is settled; page.seen says how. Inside title_wait_start, or later at x's home; then
     * deferred is true. What is no title of the wiki is answered, and nothing is called. */
    void (*go)(struct title_wait *w);
    /* The rules cannot be had: page.why and page.note. NULL: app_origin_fail. */
    void (*failed)(struct title_wait *w);
    bool deferred; /* x is; it will be when that has to be waited for */
    /* the module's, but for what is named above */
    struct page_title_wait page;
};
/* Thread: x's. */
void title_wait_start(struct title_wait *w);
/* At once: false when the rules are not known, and target->title stays as it is; or when *bad, and
 * it has answered. */
MUST_CHECK bool title_settle(struct http_exchange *x, struct page_target *target,
                             struct page_title_seen *seen, bool *bad);
void title_answer_bad(struct http_exchange *x, err why, const struct err_note *note);
/* 301 to the title that target has now. */
void title_answer_moved(struct http_exchange *x, const struct page_target *target);
/* Answers so when readers are sent to the title as the wiki writes it: true. Who would not follow
 * (scripts of another site, who asks for it anew) and pages of users are served all the same. */
MUST_CHECK bool title_moves(struct http_exchange *x, const struct page_target *target,
                            struct page_title_seen seen);

#endif
