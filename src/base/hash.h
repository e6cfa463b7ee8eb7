/* hash.h - a chained hash table of embedded nodes: no memory of its own but the slots. The caller
 * compares keys and gives the hash, whose low bits choose the slot; seeded where clients choose the
 * keys (hash_of_str). map.h stands on it, for who wants keys copied. Thread: one at a time. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/check.h"
#include "base/str.h"

#include <stdint.h>

struct hash_node {
    struct hash_node *next;
    uint64_t hash;
};
struct hash {
    struct hash_node **slots; /* a power of two of them; NULL until the first node */
    size_t slots_count, count;
};

void hash_init(struct hash *h);
void hash_fini(struct hash *h); /* nodes are the caller's */
void hash_add(struct hash *h, struct hash_node *n, uint64_t hash);
void hash_remove(struct hash *h, struct hash_node *n); /* n is in h */
static inline struct hash_node *hash_same(struct hash_node *n, uint64_t hash)
{
    while (n != NULL && n->hash != hash)
        n = n->next;
    return n;
}
/* The first node of a hash, and the next of the same hash; NULL: no more. */
static inline struct hash_node *hash_first(const struct hash *h, uint64_t hash)
{
    return h->slots_count == 0 ? NULL : hash_same(h->slots[hash & (h->slots_count - 1)], hash);
}
static inline struct hash_node *hash_next(const struct hash_node *n)
{
    return hash_same(n->next, n->hash);
}
/* Calls each for all, in no order; each may free the node. */
void hash_each(const struct hash *h, void (*each)(void *ctx, struct hash_node *n), void *ctx);

/* XXH3-64. */
uint64_t hash_of_str(str s, uint64_t seed);

#endif
