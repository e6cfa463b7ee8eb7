/* sampler.c - a token bucket per domain: rate entries_per_s, depth burst. Pure. */
#include "timeline/timeline.h"

#include <stdlib.h>

struct bucket {
    double tokens;
    store_time filled_at;
    bool used;
};

struct timeline_sampler {
    struct timeline_sampler_opts opts;
    struct bucket *buckets;
};

struct timeline_sampler *timeline_sampler_new(const struct timeline_sampler_opts *opts)
{
    INVARIANT(opts->domains_max > 0);
    struct timeline_sampler *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->opts = *opts;
    if (s->opts.burst < 1)
        s->opts.burst = 1;
    s->buckets = calloc(opts->domains_max, sizeof s->buckets[0]);
    INVARIANT(s->buckets != NULL);
    return s;
}

void timeline_sampler_free(struct timeline_sampler **sp)
{
    if (*sp == NULL)
        return;
    free((*sp)->buckets);
    free(*sp);
    *sp = NULL;
}

static void sampler_refill(const struct timeline_sampler_opts *opts, struct bucket *b,
                           store_time at)
{
    if (!b->used) {
        *b = (struct bucket){ .tokens = opts->burst, .filled_at = at, .used = true };
        return;
    }
    if (!store_time_before(b->filled_at, at))
        return;
    double elapsed_s = (double)(at.ns - b->filled_at.ns) / (double)NS_PER_S;
    b->tokens += elapsed_s * opts->entries_per_s;
    if (b->tokens > opts->burst)
        b->tokens = opts->burst;
    b->filled_at = at;
}

bool timeline_sample(struct timeline_sampler *s, uint32_t domain, store_time at)
{
    if (s->opts.entries_per_s <= 0)
        return true;
    uint32_t last = s->opts.domains_max - 1;
    struct bucket *b = &s->buckets[domain < last ? domain : last];
    sampler_refill(&s->opts, b, at);
    if (b->tokens < 1)
        return false;
    b->tokens -= 1;
    return true;
}
