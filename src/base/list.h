/* list.h - a doubly linked list of embedded links; a link knows its neighbours, so removal needs no
 * list. A list is a link that points at itself when empty. Thread: one at a time. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct list {
    struct list *prev, *next;
};

/* For CONTAINER_OF in functions that compare and only look. */
static inline void *unconst(const void *p)
{
    return (void *)(uintptr_t)p;
}

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
/* Puts n before at: at the end of the list when at is the list itself. */
static inline void list_put_before(struct list *at, struct list *n)
{
    n->prev = at->prev;
    n->next = at;
    at->prev->next = n;
    at->prev = n;
}
static inline void list_append(struct list *l, struct list *n)
{
    list_put_before(l, n);
}
/* n stands alone afterwards; taking out one that stands alone does nothing. */
static inline void list_remove(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}
/* NULL when empty. */
static inline struct list *list_first(const struct list *l)
{
    return l->next == l ? NULL : l->next;
}
/* Takes the first out; NULL when empty. */
static inline struct list *list_take(struct list *l)
{
    struct list *n = list_first(l);
    if (n != NULL)
        list_remove(n);
    return n;
}
/* All of from behind what l holds; from is empty afterwards. */
static inline void list_join(struct list *l, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = l->prev;
    l->prev->next = from->next;
    from->prev->next = l;
    l->prev = from->prev;
    list_init(from);
}

#endif
