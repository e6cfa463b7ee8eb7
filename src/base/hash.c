/* hash.c - chains of embedded nodes; slots double when there are as many nodes. */
#include "base/hash.h"

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

void hash_each(const struct hash *h, void (*each)(void *ctx, struct hash_node *n), void *ctx)
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
