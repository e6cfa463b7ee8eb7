/* page_request.h - what the handlers of page routes share: the path, the answers for what is
 * missing, JSON of renders, listings. Private to page*.c.
 *
 * A function that says "false: answered" has given the client its answer; the handler just returns.
 */
#ifndef APP_PAGE_PAGE_REQUEST_H
#define APP_PAGE_PAGE_REQUEST_H

#include "app/app.h"
#include "base/buf.h"
#include "page/etag.h"
#include "page/get.h"
#include "page/json.h"
#include "page/page.h"
#include "store/page_store.h"

enum { LISTING_LIMIT_DEFAULT = 100, LISTING_LIMIT_MAX = 1000, LISTING_BYTES_MAX = 8 << 20 };

/* False: answered. */
MUST_CHECK bool app_page_target_parse(struct http_exchange *x, const struct app *app,
                                      struct page_target *out);
/* Of a path without bucket or content: the first bucket; {title}, {rev} optional, {rev} may be 0.
 * False: answered. */
MUST_CHECK bool app_page_target_of_page(struct http_exchange *x, const struct app *app,
                                        struct page_target *out);
/* 410 with reason, at and policy when why is ERR_GONE, else app_fail. 404 what the wiki deleted;
 * 403 what is hidden, if compat.hidden says so. trace may be NULL. */
void app_page_fail(struct http_exchange *x, const struct app *app, err why,
                   const struct page_trace *trace, const struct err_note *note);
/* Refuses with 503 when the server drains: for requests that would have to wait. False: answered.
 */
MUST_CHECK bool app_page_may_wait(struct http_exchange *x);
/* What the fields of a read wish, as bits of enum page_get_flag: NO_CACHE, ONLY_CACHED, NO_STALE,
 * SCRIPT. */
unsigned app_page_wishes(const struct http_exchange *x);
/* For a handler that has started a call, whose home is http_home: done runs here when the call is
 * over, else x is deferred. */
void app_page_call(struct http_exchange *x, enum store_start start, struct store_call *c);
/* 413, naming page.body_bytes_max. */
void app_page_too_large(struct http_exchange *x, const struct app *app);
/* Until when a request waits for what others make: flight.wait_timeout, or less by Prefer:
 * wait=SECONDS (RFC 7240). */
mono app_wait_deadline(const struct http_exchange *x, const struct app *app);

/* "https://host:port" of public_url: there the wiki's own style sheets are, too. Empty: there is
 * none. */
str app_page_styles(const struct app *app, struct arena *a, str domain);

/* If-Match, If-None-Match and If-Unmodified-Since, as sent and as they are meant. False: answered,
 * the arena is full. */
MUST_CHECK bool app_page_condition(struct http_exchange *x, struct page_condition_fields *fields,
                                   struct page_condition *out);

/* A flag of the query: true|false, 1|0, yes|no. *out stays when it is absent. False: answered. */
MUST_CHECK bool app_page_flag(struct http_exchange *x, const char *name, bool *out);
/* ?limit= and ?page=, a token: base64url of what a listing of the store gave; n 0 when absent.
 * False: answered. */
MUST_CHECK bool app_page_listing(struct http_exchange *x, unsigned *limit, str *from);
/* 400: page is no token. */
void app_page_bad_token(struct http_exchange *x);
/* Answers with what b holds, or 503 when it overflowed; b ends. */
void app_page_answer_buf(struct http_exchange *x, int status, struct buf *b, str etag);
/* Of the title what the store knows, in RESTBase's shape. */
void app_page_title_stored(struct http_exchange *x, const struct app *app,
                           const struct page_target *t);

/* Route handlers. */
void app_page_put_bundle(struct http_exchange *x, void *app);
void app_page_put_content(struct http_exchange *x, void *app);
void app_page_get_content(struct http_exchange *x, void *app);
void app_page_get_history(struct http_exchange *x, void *app);
void app_page_get_explanation(struct http_exchange *x, void *app);
void app_page_get_titles(struct http_exchange *x, void *app);
void app_page_get_title(struct http_exchange *x, void *app);
void app_page_get_wikitext(struct http_exchange *x, void *app);
void app_page_get_lint(struct http_exchange *x, void *app);
void app_transform_post(struct http_exchange *x, void *app);
void app_page_put_hold(struct http_exchange *x, void *app);
void app_page_delete_hold(struct http_exchange *x, void *app);
void app_page_delete_all(struct http_exchange *x, void *app);

/* The ready answer to this request, sent; false when there is none. Whoever calls has checked
 * permission. */
bool app_page_hot_answer(struct http_exchange *x, const struct app *app);
/* Does Accept name a specification's version? A "profile" with capitals is none: no peer writes it
 * so. */
bool app_page_names_profile(const struct http_exchange *x);
/* What page_service.shape_free wants: shapes are answers of page_answer.c. */
void app_page_shape_free(void *shape);

#endif
