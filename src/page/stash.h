/* stash.h - how much of what clients keep for the life of an edit counts to page.stash_bytes_max.
 *
 * Two things are kept: pins on renders, and previews. Both count by headers and contents as they
 * are stored, for as much of stash_ttl as they add; what is not stored yet must fit as it was sent.
 * What is taken away gives back no more than that. Thread: any. */
#ifndef PAGE_STASH_H
#define PAGE_STASH_H

#include "page/page.h"

enum { PAGE_PREVIEW_REVS = 1 };
/* user 0: nobody in particular. STR_NONE: the arena is full. Pure. */
str page_preview_key(struct arena *a, uint64_t user, str title);
/* The other way round: user in digits, or empty. Slices of key. Pure. */
void page_preview_split(str key, str *user, str *title);

/* What may be kept, of all of the service's buckets: for as long as a bucket keeps longest.
 * Owner: caller; released with page_quota_free. */
struct page_quota *page_stash_quota_new(const struct page_service *s, uint64_t bytes_max);
/* The same limit anew, after the buckets' settings changed. */
void page_stash_quota_set(const struct page_service *s, uint64_t bytes_max);
/* Is there room for n bytes more? Then they are taken. */
MUST_CHECK bool page_stash_take(const struct page_service *s, uint64_t n);
/* Of `taken` bytes so many are kept after all: the rest is free again, or is taken, there being
 * room or not. */
void page_stash_keep(const struct page_service *s, uint64_t taken, uint64_t kept);
/* The same after a put. */
void page_stash_keep_put(const struct page_service *s, uint64_t taken, const struct page_put *put);
/* A put as it was sent. Pure. */
uint64_t page_stash_put_bytes(const struct page_put *put);
/* What a pin on this render until ttl_ns from now takes: nothing, when it has one as long. Pure. */
uint64_t page_stash_pin_bytes(const struct page_render *r, int64_t ttl_ns, store_time now);
/* What n bytes take that are pinned for pinned_ns longer than they were. Pure. */
uint64_t page_stash_part(uint64_t n, int64_t pinned_ns, int64_t ttl_ns);

#endif
