#include "app/stash.h"

#include "app/errors.h"
#include "app/pace.h"

bool stash_may_ask(struct http_exchange *x, const struct app *app, const struct config_bucket *config)
{
    str address = http_peer(x), said;
    bool own = pace_is_private(address), told = own && http_header(x, "x-client-ip", &said);
    if (told)
        address = said;
    if ((own && !told) || pace_take(app->pace, address, config->stash_per_s_max, clock_mono(app->clock)))
        return true;
    http_reply_header(x, STR("retry-after"), STR("1"));
    app_problem(x, 429, "request_rate_exceeded", NULL,
                STR("Too many requests with stash=true from this address (stash_per_s_max)."), STR_NONE);
    return false;
}

/* ---- how much ---- */

bool stash_take(const struct app *app, uint64_t n)
{
    const struct config_bucket *first = &app->config->buckets[0];
    return pace_keep(app->pace, n, first->stash_bytes_max, first->page.policy.stash_ttl_ns, clock_store(app->clock));
}

static uint64_t bytes_of(const struct page_render *r)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < r->contents_count; i++)
        n += (uint64_t)r->contents[i].headers_bytes + r->contents[i].stored_bytes;
    return n;
}

uint64_t stash_pin_bytes(const struct page_render *r, int64_t ttl_ns, store_time now)
{
    store_time until = store_time_add(now, ttl_ns);
    store_time from = store_time_before(now, r->stash_until) ? r->stash_until : now;
    if (!store_time_before(from, until))
        return 0;
    return (uint64_t)((double)bytes_of(r) * ((double)(until.ns - from.ns) / (double)(until.ns - now.ns)));
}

void stash_answer_full(struct http_exchange *x)
{
    app_problem(x, 507, "stash_full", NULL, STR("Too much is kept for editors already (page.stash_bytes_max)."),
                STR_NONE);
}
