/* transform_impl.h - one transform under way.
 *
 * Private to transform.c, the way of a request, and transform_keep.c, which keeps transformed
 * wikitext for the edit. */
#ifndef APP_PAGE_TRANSFORM_IMPL_H
#define APP_PAGE_TRANSFORM_IMPL_H

#include "app/page/page_request.h"
#include "app/page/page_title.h"
#include "loop/loop.h"
#include "page/etag.h"
#include "page/transform_body.h"
#include "render/render.h"

enum transform_kind {
    HTML_TO_WIKITEXT,
    HTML_TO_HTML,
    WIKITEXT_TO_HTML,
    WIKITEXT_TO_LINT,
    TRANSFORM_KINDS
};
enum { TRANSFORM_PARTS_MAX = 4 };

struct transform {
    struct http_exchange *x;
    const struct app *app;
    struct arena *arena;
    enum transform_kind kind;
    struct page_target target; /* of the page bucket; name.rev may be 0 */
    struct transform_fields fields;
    bool bundles; /* the origin gives and takes them: the original goes with what is sent */
    bool has_base;
    struct page_edited base;
    mono deadline;
    struct title_wait wait;
    str kept_title; /* under which what is kept for who asks stands */
    struct loop_job job;
    struct task task;
    /* found */
    struct page_read read;
    bool elsewhere; /* it is looked for in the other place */
    err why;
    struct page_trace trace;
    struct err_note note;
    struct transform_original original;
    struct buf body;            /* what the origin is asked with */
    enum transform_holds holds; /* of html to wikitext */
    /* asked */
    bool asking;
    struct transform_request ask;
    struct render_request meta;
    /* kept */
    struct render_content parts[TRANSFORM_PARTS_MAX];
    unsigned parts_count;
    str unwrapped;
    store_time began;
    bool stash_full;
    uint64_t taken; /* of what may be kept for editors */
    struct page_put put;
};

/* 200 with this; etag empty: none. */
void transform_answer(struct transform *t, str headers, str body, str etag);
/* The origin's reply is a bundle: keeps it beside the wikitext, then answers. Thread: loop. */
void transform_keep(struct transform *t);

#endif
