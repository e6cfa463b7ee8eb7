/* row.h - the values of rows of page buckets: renders, titles, fences; those of traces: traces.h.
 * Pure; fuzzed.
 *
 * Each value starts with its version. A render with PAGE_CONTENTS_MAX contents of the longest names
 * fits ENGINE_VALUE_BYTES_MAX (test row_of_the_greatest_bundle_fits); offsets are not stored,
 * contents lie in the blob one after the other. Private to this folder. */
#ifndef BUCKET_ROW_H
#define BUCKET_ROW_H

#include "base/buf.h"
#include "bucket/page.h"
#include "engine/engine.h"
#include "title/row.h"

/* out has ENGINE_VALUE_BYTES_MAX bytes. Writes r.due_at as the stored one. Invariant:
 * contents_count and names are within their limits. */
str page_row_encode(const struct page_row *row, char *out);
/* Everything but r.name, r.where and r.state, which the value does not hold. ERR_CORRUPT: *out
 * undefined. */
MUST_CHECK err page_row_decode(str value, struct page_row *out);

/* One title: it has a row while it has traces or fences. */
struct page_title_row {
    uint64_t ledger_count, fence_count; /* fences of revisions and renders */
    bool fenced;                        /* the whole title: */
    store_time fence_at;
};
enum { PAGE_TITLE_ROW_BYTES_MAX = 2 + 10 + 10 + 8, PAGE_FENCE_ROW_BYTES = 9 };
str page_title_encode(const struct page_title_row *t, char *out);
MUST_CHECK err page_title_decode(str value, struct page_title_row *out);
str page_fence_encode(store_time at, char *out);
MUST_CHECK err page_fence_decode(str value, store_time *at);

#endif
