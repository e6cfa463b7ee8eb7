/* settings.c - see settings.h. Invariant: an array of settings never changes once requests may have
 * it; another one takes its place, and the one before stays until the end. */
#include "server/settings.h"

#include "app/config.h"
#include "http/http.h"
#include "server/origins.h"

#include <stdlib.h>
#include <string.h>

struct settings {
    struct settings *before;
    struct page_bucket_opts *opts; /* of each */
    struct page_settings of[];
};

static int64_t age_s_max(const char *cache_control)
{
    uint64_t life_s = cache_control == NULL ? 0 : http_cache_life_s(str_of(cache_control));
    return life_s < INT64_MAX ? (int64_t)life_s : INT64_MAX;
}

static struct settings *settings_new(const struct page_service *page, const struct config *c)
{
    struct settings *s = calloc(1, sizeof *s + c->buckets_count * sizeof s->of[0]);
    INVARIANT(s != NULL);
    s->opts = calloc(c->buckets_count + 1, sizeof *s->opts);
    INVARIANT(s->opts != NULL);
    for (unsigned i = 0; i < c->buckets_count; i++) {
        const struct config_bucket *b = &c->buckets[i];
        s->opts[i] = b->page;
        s->of[i] =
            (struct page_settings){ .bucket = page_store_bucket(page->store, str_of(b->page.name)),
                                    .opts = &s->opts[i],
                                    .cache_control = b->cache_control,
                                    .age_s_max = age_s_max(b->cache_control),
                                    .stale_if_error_ns = b->stale_if_error_ns,
                                    .stash_per_s_max = b->stash_per_s_max };
        INVARIANT(s->of[i].bucket != NULL);
    }
    return s;
}

static void settings_drop(struct settings *s)
{
    free(s->opts);
    free(s);
}

static bool text_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool settings_same(const struct settings *a, const struct settings *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct page_settings *x = &a->of[i], *y = &b->of[i];
        if (!page_policies_same(&x->opts->policy, &y->opts->policy) ||
            !text_same(x->cache_control, y->cache_control) ||
            x->stale_if_error_ns != y->stale_if_error_ns ||
            x->stash_per_s_max != y->stash_per_s_max)
            return false;
    }
    return true;
}

void settings_renew(struct settings **all, struct page_service *page, const struct config *config)
{
    struct settings *next = settings_new(page, config), *now = *all;
    if (now != NULL && settings_same(now, next, config->buckets_count)) {
        settings_drop(next);
        return;
    }
    next->before = now;
    *all = next;
    if (now == NULL) /* at the start: buckets come and go with a restart */
        page->buckets_count = config->buckets_count;
    page->buckets = next->of;
}

void settings_free(struct settings **all)
{
    while (*all != NULL) {
        struct settings *before = (*all)->before;
        settings_drop(*all);
        *all = before;
    }
}

/* ---- policies ---- */

static void policy_add(struct pages_policy *out, unsigned *count, const char *bucket,
                       const struct page_policy *was, const struct page_policy *policy)
{
    if (!page_policies_same(was, policy))
        out[(*count)++] = (struct pages_policy){ .bucket = str_of(bucket), .policy = *policy };
}

unsigned settings_policies(const struct config *running, const struct config *fresh,
                           struct pages_policy *out)
{
    unsigned count = 0;
    for (unsigned i = 0; i < running->buckets_count; i++)
        for (unsigned k = 0; k < fresh->buckets_count; k++) {
            const struct page_bucket_opts *was = &running->buckets[i].page,
                                          *is = &fresh->buckets[k].page;
            if (strcmp(was->name, is->name) == 0)
                policy_add(out, &count, was->name, &was->policy, &is->policy);
        }
    if (origins_wanted(running)) {
        const struct page_bucket_opts was = origins_stash_opts(running),
                                      is = origins_stash_opts(fresh);
        policy_add(out, &count, was.name, &was.policy, &is.policy);
    }
    return count;
}
