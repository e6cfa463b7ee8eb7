/* heap.c - A binary min-heap whose nodes lie in their owners. Invariant: each node knows its
 * index, so a node is removed from the middle in O(log n). */
#include "base/heap.h"

#include <stdint.h>
#include <stdlib.h>

enum { HEAP_FIRST_NODES = 16 };

void heap_init(struct heap *h, bool (*less)(const struct heap_node *a, const struct heap_node *b))
{
    *h = (struct heap){ .less = less };
}

void heap_fini(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++)
        h->nodes[i]->place = 0;
    free(h->nodes);
    *h = (struct heap){ .less = h->less };
}

static void put_at(struct heap *h, size_t index, struct heap_node *n)
{
    h->nodes[index] = n;
    n->place = index + 1;
}

static void sift_up(struct heap *h, size_t index, struct heap_node *n)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!h->less(n, h->nodes[parent]))
            break;
        put_at(h, index, h->nodes[parent]);
        index = parent;
    }
    put_at(h, index, n);
}

static void sift_down(struct heap *h, size_t index, struct heap_node *n)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->less(h->nodes[child + 1], h->nodes[child]))
            child++;
        if (!h->less(h->nodes[child], n))
            break;
        put_at(h, index, h->nodes[child]);
        index = child;
    }
    put_at(h, index, n);
}

void heap_add(struct heap *h, struct heap_node *n)
{
    INVARIANT(n->place == 0);
    if (h->count == h->size) {
        size_t size = h->size == 0 ? HEAP_FIRST_NODES : h->size * 2;
        struct heap_node **nodes = reallocarray(h->nodes, size, sizeof(struct heap_node *));
        INVARIANT(nodes != NULL);
        h->nodes = nodes;
        h->size = size;
    }
    h->count++;
    sift_up(h, h->count - 1, n);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    INVARIANT(n->place > 0);
    INVARIANT(n->place <= h->count);
    INVARIANT(h->nodes[n->place - 1] == n);
    size_t index = n->place - 1;
    struct heap_node *last = h->nodes[--h->count];
    n->place = 0;
    if (last == n)
        return;
    if (index > 0 && h->less(last, h->nodes[(index - 1) / 2]))
        sift_up(h, index, last);
    else
        sift_down(h, index, last);
}

struct heap_node *heap_first(const struct heap *h)
{
    return h->count == 0 ? NULL : h->nodes[0];
}
