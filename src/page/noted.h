/* noted.h - when this server last told the others that a render can be had here (hop.h), so that a
 * hit does so again in time, and not at each hit.
 *
 * A table of a fixed size, in memory alone. What is not in it counts as never told: so after a
 * start, and for renders that others pushed out, the next hit tells it. Of a render that is asked
 * for by many at once one is told to do it. Thread: any, but new and free. No locks. */
#ifndef PAGE_NOTED_H
#define PAGE_NOTED_H

#include "base/check.h"
#include "store/page_store.h"

enum { PAGE_NOTED_PLACES = 1 << 17 };

struct page_noted;
/* Dies when out of memory. seed: of the hashes. */
struct page_noted *page_noted_new(uint64_t seed);
void page_noted_free(struct page_noted **np);

struct page_noted_key {
    const char *bucket;
    uint32_t domain;
    str title;
    struct page_name name;
};
/* Was it not told within age_ns before now? Then it counts as told now. *again: when it is time
 * next; set in both cases. */
MUST_CHECK bool page_noted_due(struct page_noted *n, const struct page_noted_key *key,
                               store_time now, int64_t age_ns, store_time *again);
/* Redis has lost all that was told. */
void page_noted_forget(struct page_noted *n);

#endif
