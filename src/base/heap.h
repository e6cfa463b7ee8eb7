/* heap.h - a binary min-heap of embedded nodes; a node knows its place, so removal is O(log n).
 * Thread: one at a time. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
    size_t place; /* 0: not in a heap; else index + 1 */
};
struct heap {
    struct heap_node **nodes;
    size_t count, size;
    bool (*less)(const struct heap_node *a, const struct heap_node *b);
};
void heap_init(struct heap *h, bool (*less)(const struct heap_node *a, const struct heap_node *b));
void heap_fini(struct heap *h);                        /* nodes are the caller's */
void heap_add(struct heap *h, struct heap_node *n);    /* dies when out of memory */
void heap_remove(struct heap *h, struct heap_node *n); /* n is in h */
struct heap_node *heap_first(const struct heap *h);    /* NULL when empty */

#endif
