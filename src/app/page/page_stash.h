/* page_stash.h - what clients have kept for the life of an edit (?stash=true): how often one may
 * ask, how much all may have kept, and what an operator sees and takes away of it.
 *
 * Two things are kept: pins on renders of page buckets, and previews (transformed wikitext), whole
 * bundles in a bucket of their own, under "TITLE" or, when made with a user's cookies, "USER#TITLE"
 * (no title holds #). page/stash.h says how they count.
 *
 *   GET    /v1/admin.stash/{domain}?title=&limit=&page=    items, and next when there may be more
 *   DELETE /v1/admin.stash/{domain}?title=&page=           removes STASH_REMOVE_MAX at most; next
 *                                                          as above
 *
 * One answer has looked at STASH_STEPS_MAX renders at most, so it may have next and no items. */
#ifndef APP_PAGE_PAGE_STASH_H
#define APP_PAGE_PAGE_STASH_H

#include "app/page/page_request.h"
#include "page/stash.h"

enum { STASH_STEPS_MAX = 10000, STASH_REMOVE_MAX = 100 };

struct page_quota;
/* What may be kept, of all buckets: for as long as a bucket keeps longest. Owner: caller. */
struct page_quota *stash_quota_new(const struct config *config);
/* May this client pin one more render now? The own network is not paced, unless the fields of a
 * proxy say that a request only came through it: then whom a trusted proxy names is, whoever that
 * is (by each of two fields: one may be its client's own), and all clients of another as one.
 * False: answered 429. */
MUST_CHECK bool stash_may_ask(struct http_exchange *x, const struct app *app,
                              const struct page_settings *settings);
/* Answers 507 stash_full. */
void stash_answer_full(struct http_exchange *x);

#endif
