#include "app/page/pace.h"

#include "base/address.h"
#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PACE_MAGIC 0x9ace9aceu
enum { NETWORK_BYTES = 8 };

struct slot {
    uint64_t hash; /* 0: free */
    mono full_at;  /* when its bucket will be full */
};
struct pace {
    uint32_t magic;
    uint64_t seed;
    pthread_mutex_t lock;
    struct slot slots[PACE_SLOTS];
};

struct pace *pace_new(uint64_t seed)
{
    struct pace *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    p->magic = PACE_MAGIC;
    p->seed = seed;
    INVARIANT(pthread_mutex_init(&p->lock, NULL) == 0);
    return p;
}

void pace_free(struct pace **pp)
{
    if (*pp == NULL)
        return;
    MAGIC_CHECK(*pp, PACE_MAGIC);
    (*pp)->magic = 0;
    INVARIANT(pthread_mutex_destroy(&(*pp)->lock) == 0);
    free(*pp);
    *pp = NULL;
}

/* The slot of this hash, or the one to forget. */
static struct slot *slot_of(struct pace *p, uint64_t hash)
{
    struct slot *first = &p->slots[hash % (PACE_SLOTS / PACE_WAYS) * PACE_WAYS], *oldest = first;
    for (struct slot *s = first; s < first + PACE_WAYS; s++) {
        if (s->hash == hash)
            return s;
        if (s->full_at.ns < oldest->full_at.ns)
            oldest = s;
    }
    *oldest = (struct slot){ .hash = hash };
    return oldest;
}

static uint64_t client_hash(const struct pace *p, str address)
{
    struct address a = { { 0 } };
    size_t n = !address_parse(address, &a) ? 0 : address_is_v4(&a) ? ADDRESS_BYTES : NETWORK_BYTES;
    return XXH3_64bits_withSeed(a.at, n, p->seed) | 1;
}

bool pace_take(struct pace *p, str address, unsigned per_s, mono now)
{
    MAGIC_CHECK(p, PACE_MAGIC);
    if (per_s == 0)
        return true;
    uint64_t hash = client_hash(p, address);
    int64_t token_ns = NS_PER_S / per_s;
    INVARIANT(pthread_mutex_lock(&p->lock) == 0);
    struct slot *s = slot_of(p, hash);
    int64_t full_at = s->full_at.ns > now.ns ? s->full_at.ns : now.ns;
    bool fits = full_at + token_ns - now.ns <= NS_PER_S;
    if (fits)
        s->full_at.ns = full_at + token_ns;
    INVARIANT(pthread_mutex_unlock(&p->lock) == 0);
    return fits;
}
