/* sync.h - page buckets as a test calls them: one thing after the other, on a clock it moves. */
#ifndef TEST_BUCKET_SYNC_H
#define TEST_BUCKET_SYNC_H

#include "bucket/page.h"

struct fake_clock { struct clock clock; _Atomic int64_t now_ns; };
void fake_clock_init(struct fake_clock *c, int64_t now_ns);
void fake_clock_advance(struct fake_clock *c, int64_t ns);

/* Fill in everything but the module's own, arena, done and ctx; return what done got, or the refusal. */
err sync_put(struct page_bucket *b, struct page_put *p);
err sync_order(struct page_bucket *b, struct page_order *o);
/* Upkeep until there is nothing more to do now. */
err sync_upkeep(struct pages *p, store_time *next);

/* A tid whose time is this instant; low tells apart. */
struct tid tid_at(int64_t ns, uint64_t low);

#endif
