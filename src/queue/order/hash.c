#include "queue/order/hash.h"

#include <stdlib.h>
#include <xxhash.h>

enum { HASH_FIRST_SLOTS = 16 };

void hash_init(struct hash *h)
{
    *h = (struct hash){ .slots = NULL };
}

void hash_fini(struct hash *h)
{
    free(h->slots);
    hash_init(h);
}

static void grow(struct hash *h)
{
    size_t count = h->slots_count == 0 ? HASH_FIRST_SLOTS : h->slots_count * 2;
    struct hash_node **slots = calloc(count, sizeof(struct hash_node *));
    if (slots == NULL && h->slots != NULL)
        return; /* chains are longer than they might be */
    INVARIANT(slots != NULL);
    for (size_t i = 0; i < h->slots_count; i++) {
        while (h->slots[i] != NULL) {
            struct hash_node *n = h->slots[i];
            h->slots[i] = n->next;
            n->next = slots[n->hash & (count - 1)];
            slots[n->hash & (count - 1)] = n;
        }
    }
    free(h->slots);
    h->slots = slots;
    h->slots_count = count;
}

void hash_add(struct hash *h, struct hash_node *n, uint64_t hash)
{
    if (h->count >= h->slots_count)
        grow(h);
    struct hash_node **slot = &h->slots[hash & (h->slots_count - 1)];
    n->hash = hash;
    n->next = *slot;
    *slot = n;
    h->count++;
}

void hash_remove(struct hash *h, struct hash_node *n)
{
    INVARIANT(h->slots_count > 0);
    struct hash_node **link = &h->slots[n->hash & (h->slots_count - 1)];
    while (*link != NULL && *link != n)
        link = &(*link)->next;
    INVARIANT(*link == n);
    *link = n->next;
    n->next = NULL;
    h->count--;
}

static struct hash_node *same(struct hash_node *n, uint64_t hash)
{
    while (n != NULL && n->hash != hash)
        n = n->next;
    return n;
}

struct hash_node *hash_first(const struct hash *h, uint64_t hash)
{
    return h->slots_count == 0 ? NULL : same(h->slots[hash & (h->slots_count - 1)], hash);
}

struct hash_node *hash_next(const struct hash_node *n)
{
    return same(n->next, n->hash);
}

void hash_each(struct hash *h, void (*each)(void *ctx, struct hash_node *n), void *ctx)
{
    for (size_t i = 0; i < h->slots_count; i++) {
        for (struct hash_node *n = h->slots[i], *next; n != NULL; n = next) {
            next = n->next;
            each(ctx, n);
        }
    }
}

uint64_t hash_of_str(str s, uint64_t seed)
{
    return XXH3_64bits_withSeed(s.n == 0 ? "" : s.p, s.n, seed);
}

uint64_t hash_of_ksuid(struct ksuid k)
{
    uint64_t x = k.low ^ (k.high * UINT64_C(0x9e3779b97f4a7c15)) ^ ((uint64_t)k.seconds << 32);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}
