#include "app/pace.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PACE_MAGIC 0x9ace9aceu

struct slot {
    uint64_t hash;      /* 0: free */
    mono full_at;       /* when its bucket will be full */
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

bool pace_take(struct pace *p, str address, unsigned per_s, mono now)
{
    MAGIC_CHECK(p, PACE_MAGIC);
    if (per_s == 0)
        return true;
    uint64_t hash = XXH3_64bits_withSeed(address.p, address.n, p->seed) | 1;
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

static bool is_private_v4(const unsigned char *a)
{
    return a[0] == 127 || a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) || (a[0] == 192 && a[1] == 168) ||
           (a[0] == 169 && a[1] == 254);
}

bool pace_is_private(str address)
{
    static const unsigned char loopback[16] = { [15] = 1 }, mapped[12] = { [10] = 0xff, [11] = 0xff };
    char text[INET6_ADDRSTRLEN];
    unsigned char a[16];
    if (!str_to_cstr(address, text, sizeof text))
        return false;
    if (inet_pton(AF_INET, text, a) == 1)
        return is_private_v4(a);
    if (inet_pton(AF_INET6, text, a) != 1)
        return false;
    if (memcmp(a, mapped, sizeof mapped) == 0)
        return is_private_v4(a + sizeof mapped);
    bool unique_local = (a[0] & 0xfe) == 0xfc, link_local = a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
    return memcmp(a, loopback, sizeof loopback) == 0 || unique_local || link_local;
}
