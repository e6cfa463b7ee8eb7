/* errors.c - remembers the failures of keys for some time, in a hash table and a heap by end of
 * life. Invariant: at most count_max rows; the one that ends first makes room. */
#include "flight/errors.h"

#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum { JITTER_PERCENT = 20 };

static const struct flight_error *error_of(const struct heap_node *n)
{
    return (const struct flight_error *)(const void *)((const char *)n -
                                                       offsetof(struct flight_error, node));
}

static bool ends_before(const struct heap_node *a, const struct heap_node *b)
{
    return error_of(a)->forget_at.ns < error_of(b)->forget_at.ns;
}

static str key_of(const struct flight_error *r)
{
    return (str){ .p = r->key, .n = r->key_bytes };
}

void flight_errors_init(struct flight_errors *e, uint64_t seed, size_t count_max, int64_t base_ms,
                        int64_t max_ms)
{
    *e = (struct flight_errors){
        .by_key = map_new(seed), .count_max = count_max, .base_ms = base_ms, .max_ms = max_ms
    };
    heap_init(&e->by_end, ends_before);
    rng_init(&e->rng, seed);
}

static void errors_drop(struct flight_errors *e, struct flight_error *r)
{
    INVARIANT(map_remove(e->by_key, key_of(r)) == r);
    heap_remove(&e->by_end, &r->node);
    free(r);
}

static struct flight_error *errors_first(const struct flight_errors *e)
{
    struct heap_node *n = heap_first(&e->by_end);
    return n == NULL ? NULL : CONTAINER_OF(n, struct flight_error, node);
}

void flight_errors_fini(struct flight_errors *e)
{
    for (struct flight_error *r = errors_first(e); r != NULL; r = errors_first(e))
        errors_drop(e, r);
    heap_fini(&e->by_end);
    map_free(&e->by_key);
}

static struct flight_error *recall(struct flight_errors *e, mono now, str key)
{
    struct flight_error *r = map_get(e->by_key, key);
    if (r == NULL || now.ns < r->forget_at.ns)
        return r;
    errors_drop(e, r);
    return NULL;
}

const struct flight_error *flight_errors_find(struct flight_errors *e, mono now, str key)
{
    const struct flight_error *r = recall(e, now, key);
    return r != NULL && now.ns < r->until.ns ? r : NULL;
}

static int64_t life_ns(struct flight_errors *e, unsigned in_a_row)
{
    int64_t ms = e->base_ms;
    for (unsigned i = 1; i < in_a_row && ms < e->max_ms; i++)
        ms = ms > e->max_ms / 2 ? e->max_ms : ms * 2;
    if (ms > e->max_ms)
        ms = e->max_ms;
    int64_t span = ms * NS_PER_MS / 100 * JITTER_PERCENT;
    return ms * NS_PER_MS - span + (int64_t)rng_below(&e->rng, 2 * (uint64_t)span + 1);
}

static struct flight_error *record(struct flight_errors *e, str key)
{
    if (map_count(e->by_key) >= e->count_max)
        errors_drop(e, errors_first(e));
    struct flight_error *r = calloc(1, sizeof *r + key.n);
    INVARIANT(r != NULL);
    r->key_bytes = key.n;
    if (key.n > 0)
        memcpy(r->key, key.p, key.n);
    INVARIANT(map_put(e->by_key, key, r) == NULL);
    return r;
}

const struct flight_error *flight_errors_add(struct flight_errors *e, mono now, str key, err why,
                                             const struct err_note *note)
{
    struct flight_error *r = recall(e, now, key);
    if (r != NULL)
        heap_remove(&e->by_end, &r->node);
    else
        r = record(e, key);
    r->in_a_row++;
    r->why = why;
    r->note = note != NULL ? *note : (struct err_note){ 0 };
    r->until = (mono){ .ns = now.ns + life_ns(e, r->in_a_row) };
    r->forget_at = mono_add_ms(r->until, e->max_ms);
    heap_add(&e->by_end, &r->node);
    return r;
}

void flight_errors_forget(struct flight_errors *e, str key)
{
    struct flight_error *r = map_get(e->by_key, key);
    if (r != NULL)
        errors_drop(e, r);
}

size_t flight_errors_count(const struct flight_errors *e)
{
    return map_count(e->by_key);
}
