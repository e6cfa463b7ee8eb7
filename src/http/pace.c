/* pace.c - a token bucket for each client, and whom of a request to count.
 *
 * Invariant: a slot holds one client, or none (hash 0). */
#include "http/pace.h"

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

/* ---- the client ---- */

static bool is_network(str address, const struct network *all, unsigned count)
{
    struct address a;
    if (count == 0 || !address_parse(address, &a))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (network_holds(&all[i], &a))
            return true;
    return false;
}

/* What is no address is one client together. */
static void client_add(struct pace_client *k, str address)
{
    struct address one, other;
    bool has_other = address_parse(address, &other);
    if (k->count > 0 && address_parse(k->addresses[0], &one) == has_other &&
        (!has_other || memcmp(one.at, other.at, sizeof one.at) == 0))
        return;
    k->addresses[k->count++] = address;
}

/* The last of X-Forwarded-For that is no proxy of ours: those before it anybody may have
 * written. */
static str forwarded_last(str field, const struct network *proxies, unsigned count)
{
    for (;;) {
        size_t from = field.n;
        while (from > 0 && field.p[from - 1] != ',')
            from--;
        str last = str_trim(str_skip(field, from));
        if (from == 0 || !is_network(last, proxies, count))
            return last;
        field = str_take(field, from - 1);
    }
}

struct pace_client pace_client_of(const struct pace_said *said, const struct network *proxies,
                                  unsigned proxies_count)
{
    struct pace_client k = { .count = 0 };
    struct address a;
    bool forwarded = said->client_ip.p != NULL || said->forwarded_for.p != NULL;
    bool believed = forwarded && networks_hold_peer(proxies, proxies_count, said->peer);
    bool local = str_eq(said->peer, ADDRESS_LOCAL);
    k.own = !forwarded && (local || (address_parse(said->peer, &a) && address_is_private(&a)));
    if (!believed)
        client_add(&k, said->peer);
    if (believed && said->forwarded_for.p != NULL)
        client_add(&k, forwarded_last(said->forwarded_for, proxies, proxies_count));
    if (believed && said->client_ip.p != NULL)
        client_add(&k, str_trim(said->client_ip));
    return k;
}

bool pace_take_client(struct pace *p, const struct pace_client *k, unsigned per_s, mono now)
{
    bool may = true;
    for (unsigned i = 0; i < k->count && may && !k->own; i++)
        may = pace_take(p, k->addresses[i], per_s, now);
    return may;
}
