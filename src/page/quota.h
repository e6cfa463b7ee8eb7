/* quota.h - how many bytes may be kept for a time, of all clients together.
 *
 * What was taken is given back evenly over that time, so at most twice bytes_max are kept at any
 * moment. Thread: any. */
#ifndef PAGE_QUOTA_H
#define PAGE_QUOTA_H

#include "base/check.h"
#include "base/times.h"

struct page_quota;
/* Owner: caller. bytes_max 0: all may be kept. Dies when out of memory. */
struct page_quota *page_quota_new(uint64_t bytes_max, int64_t ttl_ns);
void page_quota_free(struct page_quota **qp);
/* Another limit and time from here on, also for what is kept already. Where there was no limit,
 * nothing counts as kept yet. */
void page_quota_set(struct page_quota *q, uint64_t bytes_max, int64_t ttl_ns);
/* May n bytes more be kept, when each is kept for ttl_ns? Then they are taken. */
MUST_CHECK bool page_quota_take(struct page_quota *q, uint64_t n, store_time now);
/* n bytes more are kept, whether there was room or not. */
void page_quota_take_too(struct page_quota *q, uint64_t n, store_time now);
/* n bytes that were taken are kept no longer. */
void page_quota_give(struct page_quota *q, uint64_t n);

#endif
