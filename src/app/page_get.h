/* page_get.h - one GET of a content: what was found and how it will be answered. Private to
 * page_get*.c. */
#ifndef APP_PAGE_GET_H
#define APP_PAGE_GET_H

#include "app/hot.h"
#include "app/page_request.h"
#include "http/negotiate.h"
#include "loop/loop.h"

struct page_get {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct page_which which;
    struct hot_mark mark; /* taken before the view */
    struct page_render render;
    const struct page_content *content;
    bool stash;      /* ?stash=true */
    bool negotiated; /* Accept-Datetime or ?at= chose the render */
    bool plain;      /* nothing in the request but path and codings: a ready answer will do */
    bool extended;   /* the answer waited for a longer life */
    /* decided by page_get_decide */
    int status;              /* 200, 206, 304, 406, 412, 416 */
    enum http_coding coding; /* of the answer */
    struct http_range range; /* of 206 */
    /* read */
    str headers, frame;
    str body; /* the frame, or its raw bytes when the answer is identity */
    /* waiting */
    struct page_order order;
    struct engine_pin pin;
    bool pinned, cold;
    struct loop_job job;
    err read_result;
};

/* Which answer the conditions of the request ask for, once render and content are known. Pure but
 * for g. */
void page_get_decide(struct page_get *g);
/* Answers as decided; headers and body are there for 200 and 206. Short: may run on the committer.
 */
void page_get_answer(struct page_get *g);
/* Bits for the variants of a ready answer; -1: what the client accepts is too odd for one. */
int page_get_variant(const struct http_common *c);

#endif
