/* stash.c - counts what is kept for editors, for reads, transforms and kept.c. */
#include "page/stash.h"

#include "page/quota.h"

#include <inttypes.h>

str page_preview_key(struct arena *a, uint64_t user, str title)
{
    /* A wiki's titles hold no '#': the user can be split off again. */
    return user == 0 ? title : arena_printf(a, "%" PRIu64 "#%.*s", user, STR_ARG(title));
}

void page_preview_split(str key, str *user, str *title)
{
    size_t mark = str_find(key, '#');
    *user = str_take(key, mark < key.n ? mark : 0);
    *title = str_skip(key, mark < key.n ? mark + 1 : 0);
}

/* One quota for all buckets: bytes flow back as slowly as the longest stash lasts. */
static int64_t longest_ns(const struct page_service *s)
{
    const struct page_settings *buckets = page_settings_now(s);
    int64_t ttl_ns = 0;
    for (unsigned i = 0; i < s->buckets_count; i++)
        if (buckets[i].opts->policy.stash_ttl_ns > ttl_ns)
            ttl_ns = buckets[i].opts->policy.stash_ttl_ns;
    return ttl_ns;
}

struct page_quota *page_stash_quota_new(const struct page_service *s, uint64_t bytes_max)
{
    return page_quota_new(bytes_max, longest_ns(s));
}

void page_stash_quota_set(const struct page_service *s, uint64_t bytes_max)
{
    page_quota_set(s->quota, bytes_max, longest_ns(s));
}

bool page_stash_take(const struct page_service *s, uint64_t n)
{
    return page_quota_take(s->quota, n, clock_store(s->clock));
}

void page_stash_keep(const struct page_service *s, uint64_t taken, uint64_t kept)
{
    if (kept < taken)
        page_quota_give(s->quota, taken - kept);
    else if (kept > taken) /* a pin on it ended meanwhile, or what was there already is larger than
                              what was sent */
        page_quota_take_too(s->quota, kept - taken, clock_store(s->clock));
}

void page_stash_keep_put(const struct page_service *s, uint64_t taken, const struct page_put *put)
{
    bool stored = put->call.why == ERR_OK;
    page_stash_keep(s, taken,
                    stored ? page_stash_part(put->bytes, put->pinned_ns, put->stash_ns) : 0);
}

/* As it was sent: what is stored may be smaller, and page_stash_keep_put gives that back. */
uint64_t page_stash_put_bytes(const struct page_put *put)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < put->contents_count; i++)
        n += (uint64_t)put->contents[i].headers.n + put->contents[i].raw.n;
    return n;
}

/* The part of n that a pin adds, by how much longer than before it lasts. */
uint64_t page_stash_part(uint64_t n, int64_t pinned_ns, int64_t ttl_ns)
{
    if (pinned_ns <= 0)
        return 0;
    if (pinned_ns >= ttl_ns || ttl_ns == INT64_MAX) /* of never there are no parts */
        return n;
    return (uint64_t)((double)n * ((double)pinned_ns / (double)ttl_ns));
}

uint64_t page_stash_pin_bytes(const struct page_render *r, int64_t ttl_ns, store_time now)
{
    /* A pin that is there already counts for what it covers. */
    store_time until = store_time_add(now, ttl_ns);
    store_time from = store_time_before(now, r->stash_until) ? r->stash_until : now;
    return page_stash_part(page_render_bytes(r), until.ns - from.ns, ttl_ns);
}
