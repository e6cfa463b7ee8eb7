/* stash.h - what clients have kept for the life of an edit (?stash=true): how often one may ask,
 * how much all may have kept, and what an operator sees and takes away of it.
 *
 * Two things are kept: pins on renders of page buckets, and previews (transformed wikitext), whole
 * bundles in a bucket of their own, under "TITLE" or, when made with a user's cookies, "USER#TITLE"
 * (no title holds #). Both count to page.stash_bytes_max by headers and contents as they are
 * stored, for as much of stash_ttl as they add; what is not stored yet must fit as it was sent.
 * What is taken away gives back no more than that.
 *
 *   GET    /v1/admin.stash/{domain}?title=&limit=&page=    items, and next when there may be more
 *   DELETE /v1/admin.stash/{domain}?title=&page=           removes STASH_REMOVE_MAX at most; next
 *                                                          as above
 *
 * One answer has looked at STASH_STEPS_MAX renders at most, so it may have next and no items. */
#ifndef APP_PAGE_STASH_H
#define APP_PAGE_STASH_H

#include "app/page/page_request.h"

enum { STASH_STEPS_MAX = 10000, STASH_REMOVE_MAX = 100 };

struct pace;
/* Owner: caller. What counts clients and bytes: as long as a bucket keeps longest. */
struct pace *stash_pace_new(const struct config *config, uint64_t seed);
/* May this client pin one more render now? The own network is not paced, unless the fields of a
 * proxy say that a request only came through it: then whom a trusted proxy names is, whoever that
 * is (by each of two fields: one may be its client's own), and all clients of another as one.
 * False: answered 429. */
MUST_CHECK bool stash_may_ask(struct http_exchange *x, const struct app *app,
                              const struct config_bucket *config);
/* Is there room for n bytes more? Then they are taken. Thread: any. */
MUST_CHECK bool stash_take(const struct app *app, uint64_t n);
/* Of `taken` bytes so many are kept after all: the rest is free again, or is taken, there being
 * room or not. Thread: any. */
void stash_keep(const struct app *app, uint64_t taken, uint64_t kept);
/* The same after a put. */
void stash_keep_put(const struct app *app, uint64_t taken, const struct page_put *put);
/* A put as it was sent. Pure. */
uint64_t stash_put_bytes(const struct page_put *put);
/* What a pin on this render until ttl_ns from now takes: nothing, when it has one as long. Pure. */
uint64_t stash_pin_bytes(const struct page_render *r, int64_t ttl_ns, store_time now);
/* What n bytes take that are pinned for pinned_ns longer than they were. Pure. */
uint64_t stash_part(uint64_t n, int64_t pinned_ns, int64_t ttl_ns);
/* Answers 507 stash_full. */
void stash_answer_full(struct http_exchange *x);

#endif
