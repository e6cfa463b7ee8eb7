/* page_write.h - puts and orders of page buckets. Part of page.h. */
#ifndef BUCKET_PAGE_WRITE_H
#define BUCKET_PAGE_WRITE_H

#include "bucket/page.h"
#include "title/decide.h"

/* ---- writing. Each request is the caller's memory until done; done: engine thread, short. ---- */
/* page_condition_holds; ctx: a page_condition. NULL when there is none. */
page_allow_fn *page_condition_allow(const struct page_condition *c);

/* As page_store_put. Identical renders are known by plain_digest (store/bundle.h). */
MUST_CHECK enum store_start page_put_start(struct page_bucket *b, struct page_put *p);
/* The tid to put a render of rev under whose making began then, greater than all rev had. ERR_GONE:
 * purged since. */
MUST_CHECK err page_mint(struct page_bucket *b, struct engine_view *v, const struct page_which *rev,
                         store_time began, uint64_t random, struct tid *out);

/* As page_store_order. */
MUST_CHECK enum store_start page_order_start(struct page_bucket *b, struct page_order *o);
/* As page_store_hear. */
MUST_CHECK enum store_start page_hear_start(struct pages *p, struct page_hear *h);
/* page_store_knows */
MUST_CHECK err page_knows(struct pages *p, uint32_t domain, str title, bool *known);

#endif
