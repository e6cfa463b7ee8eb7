/* page_get.h - GET of a content: the request becomes a read (page/get.h), its outcome an answer.
 * Private to page_get.c, page_answer.c and page_edge.c. */
#ifndef APP_PAGE_PAGE_GET_H
#define APP_PAGE_PAGE_GET_H

#include "app/page/page_request.h"

struct content_get {
    struct page_get page;
    struct http_exchange *x;
    const struct app *app;
    bool deferred, tells_gone; /* tells_gone: it is told when its client leaves */
    /* of an answer with a content, once page_edge_choose has looked */
    const char *cache_control;
    int64_t age_s_max; /* as of page_settings */
};
/* Does Accept name a specification's version? A "profile" with capitals is none: no peer writes it
 * so. */
bool page_names_profile(const struct http_exchange *x);
/* Answers as the outcome says. Thread: x's. */
void content_answer(struct content_get *g);

#endif
