/* stored.c - plain values of renders: the order of names, the words for states and policies, sums
 * over contents. Pure. */
#include "title/stored.h"

#include "base/check.h"

const struct page_name page_name_first = { .rev = 0 };
const struct page_name page_name_last = { .rev = UINT64_MAX,
                                          .tid = { .ticks = UINT64_MAX, .low = UINT64_MAX } };

int page_name_cmp(struct page_name a, struct page_name b)
{
    if (a.rev != b.rev)
        return a.rev < b.rev ? -1 : 1;
    return tid_cmp(a.tid, b.tid);
}

/* A tid of zeros is no render's, so it lies before all renders of the revision. */
struct page_name page_name_low(uint64_t rev)
{
    return (struct page_name){ .rev = rev };
}

struct page_name page_name_high(uint64_t rev)
{
    return (struct page_name){ .rev = rev, .tid = { .ticks = UINT64_MAX, .low = UINT64_MAX } };
}

/* The number (rev, ticks, low) is counted up, with carries. */
struct page_name page_name_above(struct page_name name)
{
    if (name.tid.low++ == UINT64_MAX && name.tid.ticks++ == UINT64_MAX)
        INVARIANT(name.rev++ < UINT64_MAX);
    return name;
}

struct page_name page_name_below(struct page_name name)
{
    if (name.tid.low-- == 0 && name.tid.ticks-- == 0)
        INVARIANT(name.rev-- > 0);
    return name;
}

const struct page_content *page_content_find(const struct page_render *r, str name)
{
    for (unsigned i = 0; i < r->contents_count; i++)
        if (str_eq(name, str_of(r->contents[i].name)))
            return &r->contents[i];
    return NULL;
}

/* In the blob, headers stand before the body of each content. */
uint64_t page_render_bytes(const struct page_render *r)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < r->contents_count; i++)
        n += (uint64_t)r->contents[i].headers_bytes + r->contents[i].stored_bytes;
    return n;
}

/* All fields count, also fields that the kind does not look at: policies are compared as they were
 * applied. */
bool page_policies_same(const struct page_policy *a, const struct page_policy *b)
{
    return a->kind == b->kind && a->grace_ttl_ns == b->grace_ttl_ns &&
           a->historical_ttl_ns == b->historical_ttl_ns && a->stash_ttl_ns == b->stash_ttl_ns &&
           a->ledger_ttl_ns == b->ledger_ttl_ns && a->count == b->count &&
           a->interval_ns == b->interval_ns && a->ttl_ns == b->ttl_ns;
}

const char *page_policy_name(enum page_policy_kind k)
{
    static const char *const names[POLICY_KINDS] = { "app_ttl", "all",      "latest_hash",
                                                     "latest",  "interval", "ttl" };
    INVARIANT(k < POLICY_KINDS);
    return names[k];
}

const char *page_state_name(enum page_state s)
{
    static const char *const names[PAGE_STATES] = { "current", "recent", "historical", "held",
                                                    "archive", "culled", "purged",     "suppressed",
                                                    "unknown", "deleted" };
    INVARIANT(s < PAGE_STATES);
    return names[s];
}
