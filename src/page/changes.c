/* changes.c - counters of changes, by the hash of a title. */
#include "page/changes.h"

#include "base/check.h"

#include <stdlib.h>
#include <xxhash.h>

struct page_changes *page_changes_new(uint64_t seed)
{
    struct page_changes *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->seed = seed;
    return c;
}

void page_changes_free(struct page_changes **cp)
{
    free(*cp);
    *cp = NULL;
}

static uint32_t slot_of(const struct page_changes *c, uint16_t bucket, uint32_t domain, str title)
{
    /* Bucket and domain go into the seed: the text alone is hashed. */
    uint64_t seed = c->seed ^ ((uint64_t)bucket << 32 | domain);
    return (uint32_t)XXH3_64bits_withSeed(title.p, title.n, seed) % PAGE_CHANGES_SLOTS;
}

struct page_seen page_changes_see(struct page_changes *c, uint16_t bucket, uint32_t domain,
                                  str title)
{
    uint32_t slot = slot_of(c, bucket, domain, title);
    return (struct page_seen){ .slot = slot,
                               /* Acquire, as the read that follows must not begin before it. */
                               .version =
                                   atomic_load_explicit(&c->of[slot], memory_order_acquire) };
}

void page_changes_tell(struct page_changes *c, uint16_t bucket, uint32_t domain, str title)
{
    /* The old value is of no use. */
    (void)atomic_fetch_add_explicit(&c->of[slot_of(c, bucket, domain, title)], 1,
                                    memory_order_acq_rel);
}

void page_changes_tell_all(struct page_changes *c)
{
    for (unsigned slot = 0; slot < PAGE_CHANGES_SLOTS; slot++)
        (void)atomic_fetch_add_explicit(&c->of[slot], 1, memory_order_acq_rel);
}
