/* buckets.c - see buckets.h. */
#include "server/buckets.h"

#include "server/origins.h"

#include <stdio.h>

/* Of a policy of values only what it looks at, and the ttl that is an option of its own. */
static struct page_bucket_opts value_opts(struct server_buckets *b, const struct config_bucket *v)
{
    bool revs = v->kind == KIND_KEY_REV_VALUE;
    char *name = b->names[b->count];
    int n = snprintf(name, SERVER_BUCKET_NAME_BYTES_MAX, ".%s.%s",
                     revs ? "key_rev_value" : "key_value", v->page.name);
    INVARIANT(n > 0 && n < SERVER_BUCKET_NAME_BYTES_MAX); /* names are limited */
    struct page_policy policy = { .kind = POLICY_ALL, .ttl_ns = v->value_ttl_ns };
    if (revs && v->page.policy.kind != POLICY_ALL) {
        policy.kind = v->page.policy.kind;
        policy.grace_ttl_ns = v->page.policy.grace_ttl_ns;
        policy.count = v->page.policy.count;
        policy.interval_ns = v->page.policy.interval_ns;
    }
    return (struct page_bucket_opts){ .name = name, .policy = policy };
}

void server_buckets_take(struct server_buckets *b, const struct config *c)
{
    b->count = 0;
    for (unsigned i = 0; i < c->buckets_count; i++)
        b->of[b->count++] = c->buckets[i].page;
    if (origins_wanted(c))
        b->of[b->count++] = origins_stash_opts(c);
    b->pages = b->count;
    for (unsigned i = 0; i < c->values_count; i++) {
        b->of[b->count] = value_opts(b, &c->values[i]);
        b->count++;
    }
}
