/* release.c - brings outcomes to waiters, a share at a time. Invariant: a waiter stands in one
 * list at any time, and is called exactly once. */
#include "flight/release.h"

#include <stdatomic.h>
#include <stdlib.h>

_Static_assert(sizeof(struct waiting) <= sizeof(((struct flight_waiter *)0)->own),
               "waiting lies in own");

struct waiting *waiting_of(struct flight_waiter *w)
{
    return (struct waiting *)(void *)w->own;
}

struct flight_waiter *waiter_of(struct heap_node *n)
{
    return CONTAINER_OF(CONTAINER_OF(n, struct waiting, node), struct flight_waiter, own);
}

void waiters_add(struct waiters *list, struct flight_waiter *w)
{
    struct waiting *at = waiting_of(w);
    at->prev = list->last;
    at->next = NULL;
    at->in = list;
    if (list->last != NULL)
        waiting_of(list->last)->next = w;
    else
        list->first = w;
    list->last = w;
    list->count++;
}

void waiters_remove(struct flight_waiter *w)
{
    struct waiting *at = waiting_of(w);
    struct waiters *list = at->in;
    INVARIANT(list->count > 0);
    if (at->prev != NULL)
        waiting_of(at->prev)->next = at->next;
    else
        list->first = at->next;
    if (at->next != NULL)
        waiting_of(at->next)->prev = at->prev;
    else
        list->last = at->prev;
    list->count--;
    at->in = NULL;
}

void outcomes_init(struct outcomes *q)
{
    *q = (struct outcomes){ .end = &q->first };
}

static void release_put(struct outcomes *q, struct flight_outcome *o)
{
    INVARIANT(!o->queued);
    o->next = NULL;
    o->queued = true;
    *q->end = o;
    q->end = &o->next;
}

static struct flight_outcome *pop(struct outcomes *q)
{
    struct flight_outcome *o = q->first;
    q->first = o->next;
    if (q->first == NULL)
        q->end = &q->first;
    o->queued = false;
    return o;
}

struct flight_outcome *outcomes_add(struct outcomes *q, err why, struct flight_value *value,
                                    const struct err_note *note)
{
    struct flight_outcome *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    o->why = why;
    o->value = value;
    if (note != NULL)
        o->note = *note;
    release_put(q, o);
    return o;
}

static unsigned take_share(struct flight_outcome *o, struct flight_call *out, unsigned max)
{
    unsigned n = 0;
    for (; n < max && n < FLIGHT_SHARE && o->waiters.first != NULL; n++) {
        struct flight_waiter *w = o->waiters.first;
        waiters_remove(w);
        waiting_of(w)->state = WAITER_CALLED;
        out[n] = (struct flight_call){ .waiter = w, .outcome = o };
    }
    o->called += n;
    return n;
}

unsigned outcomes_take(struct outcomes *q, struct outcomes *spent, struct flight_call *out,
                       unsigned max)
{
    unsigned n = 0;
    while (n < max && q->first != NULL) {
        struct flight_outcome *o = pop(q);
        n += take_share(o, out + n, max - n);
        if (o->waiters.count > 0)
            release_put(q, o);
        else if (o->called == 0)
            release_put(spent, o);
    }
    return n;
}

void outcomes_called(struct outcomes *spent, const struct flight_call *calls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct flight_outcome *o = calls[i].outcome;
        INVARIANT(o->called > 0);
        o->called--;
        if (o->called == 0 && !o->queued)
            release_put(spent, o);
    }
}

void flight_call(const struct flight_call *call)
{
    const struct flight_outcome *o = call->outcome;
    call->waiter->done(call->waiter, o->why, o->value, o->why == ERR_OK ? NULL : &o->note);
}

void flight_outcomes_free(struct flight_outcome *o)
{
    while (o != NULL) {
        struct flight_outcome *next = o->next;
        flight_value_unref(&o->value);
        free(o);
        o = next;
    }
}

struct flight_value *flight_value_ref(struct flight_value *v)
{
    if (v != NULL)
        INVARIANT(atomic_fetch_add(&v->refs, 1) > 0);
    return v;
}

void flight_value_unref(struct flight_value **vp)
{
    struct flight_value *v = *vp;
    *vp = NULL;
    if (v == NULL)
        return;
    unsigned before = atomic_fetch_sub(&v->refs, 1);
    INVARIANT(before > 0);
    if (before == 1)
        v->free(v);
}
