/* page_request.h - what the handlers of pages share: what a request is about, titles as their wiki
 * writes them, the answers for what is missing. Private to page*.c, but for the handlers.
 *
 * A function that says "false: answered" has given the client its answer; the handler just returns.
 */
#ifndef APP_PAGE_PAGE_REQUEST_H
#define APP_PAGE_PAGE_REQUEST_H

#include "app/app.h"
#include "app/call.h"
#include "page/etag.h"
#include "page/get.h"
#include "page/json.h"
#include "page/listing.h"
#include "page/title.h"

/* What each begins with; in the arena of its exchange. */
struct page_request {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
};
/* Zeroed memory of that size for a struct that begins with a page_request, which is filled in: the
 * path is parsed as below. NULL: answered. */
MUST_CHECK void *page_request_new(struct http_exchange *x, const struct app *app, size_t size);
/* {domain}, {bucket}, {content}, {title}, {rev}, {tid}. A route without a bucket means the first,
 * and there {rev} may be 0. False: answered. */
MUST_CHECK bool page_target_parse(struct http_exchange *x, const struct app *app,
                                  struct page_target *out);
/* The same, and the title as the wiki writes it by the rules that are known: what is asked of the
 * store alone does not wait for the rules. False: answered. */
MUST_CHECK bool page_target_settled(struct http_exchange *x, const struct app *app,
                                    struct page_target *out);
bool page_title_settled(struct http_exchange *x, struct page_target *target);

/* ---- what the request wishes ---- */
/* As bits of enum page_get_flag: NO_CACHE, ONLY_CACHED, NO_STALE, SCRIPT. */
unsigned page_wishes(const struct http_exchange *x);
/* A flag of the query: true|false, 1|0, yes|no. *out stays when it is absent. False: answered. */
MUST_CHECK bool page_flag(struct http_exchange *x, const char *name, bool *out);
/* If-Match, If-None-Match and If-Unmodified-Since, as sent and as they are meant. False: answered,
 * the arena is full. */
MUST_CHECK bool page_condition_of(struct http_exchange *x, struct page_condition_fields *fields,
                                  struct page_condition *out);
/* Until when it waits for what others make: flight.wait_timeout, or less by Prefer: wait=SECONDS
 * (RFC 7240). */
mono page_wait_deadline(const struct http_exchange *x, const struct app *app);
/* For a read that is about to wait (enum page_wait): defers x once. False: it must not wait, for
 * the server drains. */
bool page_waits(struct http_exchange *x, bool *deferred, enum page_wait what);

/* ---- answers ---- */
/* 410 with reason, at and policy when why is ERR_GONE, else app_fail. 404 what the wiki deleted;
 * 403 what is hidden, if compat.hidden says so. trace may be NULL. */
void page_fail(struct http_exchange *x, const struct app *app, err why,
               const struct page_trace *trace, const struct err_note *note);
/* 413, naming page.body_bytes_max. */
void app_page_too_large(struct http_exchange *x, const struct app *app);
/* 400 or 404 of what is no title, else app_fail. */
void page_title_bad(struct http_exchange *x, err why, const struct err_note *note);
/* 301 to the title that target has now. */
void page_moved(struct http_exchange *x, const struct page_target *target);
/* Answers with JSON; 503 when there is none, for it grew too large. */
void page_answer_json(struct http_exchange *x, str json, str etag);
/* "https://host:port" of public_url: there the wiki's own style sheets are, too. Empty: there is
 * none. */
str page_styles(const struct app *app, struct arena *a, str domain);

/* ---- a title that may have to wait for its wiki's rules, and what is kept for editors ---- */
struct title_wait {
    struct page_title_wait page; /* the module's */
    struct page_request *r;
    /* The title is settled, and x is deferred. Inside title_wait_start, or later at x's home. Else
     * it is answered, and nothing is called */
    void (*go)(struct page_request *r);
};
/* Thread: x's. */
void title_wait_start(struct title_wait *w, struct page_request *r,
                      void (*go)(struct page_request *r));
/* May this client pin one more render now? The own network is not paced, unless the fields of a
 * proxy say that a request only came through it: then whom a trusted proxy names is, whoever that
 * is (by each of two fields: one may be its client's own), and all clients of another as one.
 * False: answered 429. */
MUST_CHECK bool stash_may_ask(struct http_exchange *x, const struct app *app,
                              const struct page_settings *settings);
/* Answers 507 stash_full. */
void stash_answer_full(struct http_exchange *x);

/* ---- route handlers; kind of their route in brackets ---- */
void app_page_put_bundle(struct http_exchange *x, void *app);
void app_page_put_content(struct http_exchange *x, void *app);
void app_page_get_content(struct http_exchange *x, void *app);
void app_page_get_listing(struct http_exchange *x, void *app); /* enum page_list_what */
void app_page_get_explanation(struct http_exchange *x, void *app);
void app_page_get_wiki(struct http_exchange *x, void *app); /* enum render_want */
void app_transform_post(struct http_exchange *x, void *app);
void app_page_order(struct http_exchange *x, void *app); /* enum page_order_kind */

/* Of what a private wiki has: does the wiki let this reader read the title of the path? */
bool app_page_gate(struct http_exchange *x, void *app);
/* The ready answer to this request, sent; false when there is none. Whoever calls has checked
 * permission. */
bool app_page_hot_answer(struct http_exchange *x, const struct app *app);
/* What page_service.shape_free wants: shapes are answers of page_answer.c. */
void app_page_shape_free(void *shape);

#endif
