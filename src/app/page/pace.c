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
    uint64_t bytes_max; /* 0: no limit */
    int64_t ttl_ns;
    pthread_mutex_t lock;
    struct slot slots[PACE_SLOTS];
    uint64_t kept; /* bytes, as of kept_at */
    store_time kept_at;
};

struct pace *pace_new(uint64_t seed, uint64_t bytes_max, int64_t ttl_ns)
{
    struct pace *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    p->magic = PACE_MAGIC;
    p->seed = seed;
    p->bytes_max = bytes_max;
    p->ttl_ns = ttl_ns;
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

/* Gives back what is due, then takes n, when it fits or must be. */
static bool keep(struct pace *p, uint64_t n, bool must, store_time now)
{
    MAGIC_CHECK(p, PACE_MAGIC);
    if (p->bytes_max == 0)
        return true;
    INVARIANT(pthread_mutex_lock(&p->lock) == 0);
    int64_t elapsed = now.ns - p->kept_at.ns;
    bool all = elapsed >= p->ttl_ns;
    double back =
        all ? (double)p->kept : (double)p->bytes_max * (double)elapsed / (double)p->ttl_ns;
    if (all || back >= 1) { /* less than a byte is for a later call */
        p->kept -= back >= (double)p->kept ? p->kept : (uint64_t)back;
        p->kept_at = now;
    }
    bool fits = must || n == 0 || (n <= p->bytes_max && p->kept <= p->bytes_max - n);
    if (fits)
        p->kept += n;
    INVARIANT(pthread_mutex_unlock(&p->lock) == 0);
    return fits;
}

bool pace_keep(struct pace *p, uint64_t n, store_time now)
{
    return keep(p, n, false, now);
}

void pace_keep_too(struct pace *p, uint64_t n, store_time now)
{
    (void)keep(p, n, true, now); /* it fits */
}

void pace_give(struct pace *p, uint64_t n)
{
    MAGIC_CHECK(p, PACE_MAGIC);
    INVARIANT(pthread_mutex_lock(&p->lock) == 0);
    p->kept -= n < p->kept ? n : p->kept;
    INVARIANT(pthread_mutex_unlock(&p->lock) == 0);
}
