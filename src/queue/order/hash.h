/* hash.h - a chained hash table of embedded nodes: no memory of its own but the slots. The caller
 * compares keys and gives the hash. Thread: one at a time. Private to queue. */
#ifndef QUEUE_ORDER_HASH_H
#define QUEUE_ORDER_HASH_H

#include "base/check.h"
#include "base/ksuid.h"
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
/* The first node of a hash, and the next of the same hash; NULL: no more. */
struct hash_node *hash_first(const struct hash *h, uint64_t hash);
struct hash_node *hash_next(const struct hash_node *n);
/* Calls each for all, in no order; each may free the node. */
void hash_each(struct hash *h, void (*each)(void *ctx, struct hash_node *n), void *ctx);

uint64_t hash_of_str(str s, uint64_t seed);
uint64_t hash_of_ksuid(struct ksuid k);

#endif
