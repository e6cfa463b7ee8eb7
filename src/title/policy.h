/* policy.h - what a page bucket is configured with: how long renders are kept, and in which form.
 */
#ifndef TITLE_POLICY_H
#define TITLE_POLICY_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum page_policy_kind {
    POLICY_APP_TTL,
    POLICY_ALL,
    POLICY_LATEST_HASH,
    POLICY_LATEST,
    POLICY_INTERVAL,
    POLICY_TTL,
    POLICY_KINDS
};
const char *page_policy_name(enum page_policy_kind k); /* "app_ttl" */

enum { PAGE_POLICY_COUNT_MAX = 1000 }; /* a put looks at so many rows at most */
struct page_policy {
    enum page_policy_kind kind;
    int64_t grace_ttl_ns;      /* app_ttl, latest, interval: after it stops being kept */
    int64_t historical_ttl_ns; /* from the last request that named it */
    int64_t stash_ttl_ns;
    int64_t ledger_ttl_ns; /* of what is gone */
    uint32_t count; /* latest: renders kept of one revision; interval: of each interval of one
                       revision */
    int64_t interval_ns;
    int64_t ttl_ns; /* ttl: from the put, superseded or not */
};

bool page_policies_same(const struct page_policy *a, const struct page_policy *b);

enum page_codec { PAGE_IDENTITY, PAGE_GZIP, PAGE_ZSTD };

struct page_bucket_opts {
    const char *name; /* "page"; interned by the catalog */
    struct page_policy policy;
    enum page_codec codec;       /* how contents are stored [gzip] */
    const char *const *contents; /* allowed names; NULL: any */
    unsigned contents_count;
    bool deaf; /* what stands under a title is not the wiki's: it hears no words and marks */
};
/* May a render in it have a content of this name? Pure. */
static inline bool page_bucket_allows(const struct page_bucket_opts *o, str name)
{
    for (unsigned i = 0; i < o->contents_count; i++)
        if (str_eq(name, str_of(o->contents[i])))
            return true;
    return o->contents == NULL;
}

#endif
