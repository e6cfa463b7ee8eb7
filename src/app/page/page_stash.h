/* page_stash.h - what clients keep for the life of an edit (?stash=true): how often one may ask,
 * and what an operator sees and takes away of it (page/stash.h, page/kept.h).
 *
 *   GET    /v1/admin.stash/{domain}?title=&limit=&page=    items, and next when there may be more
 *   DELETE /v1/admin.stash/{domain}?title=&page=           removes STASH_REMOVE_MAX at most; next
 *                                                          as above */
#ifndef APP_PAGE_PAGE_STASH_H
#define APP_PAGE_PAGE_STASH_H

#include "app/page/page_request.h"

enum { STASH_REMOVE_MAX = 100 };

/* May this client pin one more render now? The own network is not paced, unless the fields of a
 * proxy say that a request only came through it: then whom a trusted proxy names is, whoever that
 * is (by each of two fields: one may be its client's own), and all clients of another as one.
 * False: answered 429. */
MUST_CHECK bool stash_may_ask(struct http_exchange *x, const struct app *app,
                              const struct page_settings *settings);
/* Answers 507 stash_full. */
void stash_answer_full(struct http_exchange *x);

#endif
