/* slow.c - a server's slowest requests of the last hour, for an operator who asks why it is slow.
 *
 * Invariants
 *  1. least_ns is HTTP_SLOW_NS_MIN while there is room, else more than the fastest one kept took:
 *     so a fast request takes no lock.
 *  2. The sweep takes old ones away, and with them lowers least_ns: slow hours do not hide those
 *     that come after them. */
#include "http/slow_kept.h"

#include <stdlib.h>

#define SLOW_KEPT_NS (3600 * NS_PER_S)
#define SLOW_SWEEP_NS (10 * NS_PER_S)

struct slow *slow_new(void)
{
    struct slow *s = calloc(1, sizeof *s); /* pages that nothing is kept in take no memory */
    INVARIANT(s != NULL);
    s->magic = SLOW_MAGIC;
    atomic_init(&s->least_ns, HTTP_SLOW_NS_MIN);
    INVARIANT(pthread_mutex_init(&s->lock, NULL) == 0);
    return s;
}

void slow_free(struct slow **sp)
{
    if (*sp == NULL)
        return;
    struct slow *s = *sp;
    MAGIC_CHECK(s, SLOW_MAGIC);
    *sp = NULL;
    INVARIANT(pthread_mutex_destroy(&s->lock) == 0);
    s->magic = 0;
    free(s);
}

static void slow_lock(struct slow *s)
{
    MAGIC_CHECK(s, SLOW_MAGIC);
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
}

static void slow_unlock(struct slow *s)
{
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

static void old_drop(struct slow *s, mono now)
{
    for (unsigned i = 0; i < s->count;)
        if (now.ns - s->kept[i].finished.ns < SLOW_KEPT_NS)
            i++;
        else
            s->kept[i] = s->kept[--s->count];
}

/* Some are kept. */
static struct http_slow *fastest(struct slow *s)
{
    struct http_slow *f = &s->kept[0];
    for (unsigned i = 1; i < s->count; i++)
        if (s->kept[i].ns < f->ns)
            f = &s->kept[i];
    return f;
}

static void least_set(struct slow *s)
{
    int64_t least = s->count < HTTP_SLOW_MAX ? HTTP_SLOW_NS_MIN : fastest(s)->ns + 1;
    atomic_store_explicit(&s->least_ns, least, memory_order_relaxed);
}

void slow_keep(struct slow *s, const struct http_slow *r)
{
    slow_lock(s);
    old_drop(s, r->finished);
    if (s->count < HTTP_SLOW_MAX)
        s->kept[s->count++] = *r;
    else if (r->ns > fastest(s)->ns)
        *fastest(s) = *r;
    least_set(s);
    slow_unlock(s);
}

void slow_sweep(struct slow *s, mono now)
{
    int64_t swept = atomic_load(&s->swept_ns);
    if (now.ns - swept < SLOW_SWEEP_NS)
        return;
    atomic_store(&s->swept_ns, now.ns); /* two at once do no harm */
    slow_lock(s);
    old_drop(s, now);
    least_set(s);
    slow_unlock(s);
}

/* The slower one first; of two that took as long, the later. */
static int slower(const void *a, const void *b)
{
    const struct http_slow *x = *(const struct http_slow *const *)a,
                           *y = *(const struct http_slow *const *)b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->finished.ns < y->finished.ns) - (x->finished.ns > y->finished.ns);
}

unsigned slow_list(struct slow *s, mono now, struct http_slow *out, unsigned max)
{
    const struct http_slow *order[HTTP_SLOW_MAX];
    slow_lock(s);
    old_drop(s, now);
    least_set(s);
    for (unsigned i = 0; i < s->count; i++)
        order[i] = &s->kept[i];
    qsort(order, s->count, sizeof order[0], slower);
    unsigned count = s->count < max ? s->count : max;
    for (unsigned i = 0; i < count; i++)
        out[i] = *order[i];
    slow_unlock(s);
    return count;
}
