/* ids.c - see ids.h.
 *
 * Invariants: 1. Entries hang in the bucket of their digest, the newest first, and in one line in
 * order of their numbers. 2. There are `buckets` buckets: the first power of two that is not
 * greater than that, and behind it those into which the first ones were already split. With each
 * new entry one more is split, as long as there are fewer buckets than entries. 3. An entry that
 * left is on the list of free ones. Its memory is not given back. */
#include "event/ids.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    PART = 1 << 14, /* entries, or buckets, that get memory together */
    LEAVE = 4,      /* so many leave at most for each that comes */
};
#define NOBODY UINT32_MAX

struct id_entry {
    unsigned char digest[EVENT_DIGEST_BYTES];
    uint64_t seq;   /* 0: it does not count */
    uint32_t below; /* in its bucket; or among the free ones */
    uint32_t newer; /* in the line */
};
_Static_assert(sizeof(struct id_entry) + sizeof(uint32_t) == EVENT_ID_BYTES, "as the header says");

struct parts {
    void **at;
    uint32_t count; /* of parts */
};

struct event_ids {
    struct parts entries, buckets_at;
    uint32_t used; /* entries that were in use ever */
    uint32_t free; /* the first free one of them */
    uint32_t oldest, newest;
    uint32_t buckets, whole; /* whole: the power of two */
    uint64_t behind, max;
    _Atomic uint64_t count, early;
};

/* ---- memory ---- */

static void part_add(struct parts *p, size_t element_bytes)
{
    void **at = realloc(p->at, (p->count + 1) * sizeof *at);
    void *part = calloc(PART, element_bytes);
    INVARIANT(at != NULL && part != NULL);
    p->at = at;
    p->at[p->count++] = part;
}

static void parts_free(struct parts *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        free(p->at[i]);
    free(p->at);
}

static struct id_entry *entry_at(const struct event_ids *i, uint32_t n)
{
    return (struct id_entry *)i->entries.at[n / PART] + n % PART;
}

static uint32_t *bucket_at(const struct event_ids *i, uint32_t n)
{
    return (uint32_t *)i->buckets_at.at[n / PART] + n % PART;
}

struct event_ids *event_ids_new(void)
{
    struct event_ids *i = calloc(1, sizeof *i);
    INVARIANT(i != NULL);
    i->free = i->oldest = i->newest = NOBODY;
    i->buckets = i->whole = 1;
    part_add(&i->buckets_at, sizeof(uint32_t));
    *bucket_at(i, 0) = NOBODY;
    return i;
}

void event_ids_free(struct event_ids **ip)
{
    struct event_ids *i = *ip;
    if (i == NULL)
        return;
    parts_free(&i->entries);
    parts_free(&i->buckets_at);
    free(i);
    *ip = NULL;
}

/* ---- buckets ---- */

static uint32_t bucket_of(const struct event_ids *i, const unsigned char *digest)
{
    uint32_t hash;
    memcpy(&hash, digest, sizeof hash); /* as good as any: it is of SHA-256 */
    uint32_t n = hash & (2 * i->whole - 1);
    return n < i->buckets ? n : n & (i->whole - 1);
}

/* The link that leads to entry n. */
static uint32_t *link_to(const struct event_ids *i, uint32_t n)
{
    uint32_t *link = bucket_at(i, bucket_of(i, entry_at(i, n)->digest));
    while (*link != n)
        link = &entry_at(i, *link)->below;
    return link;
}

/* One bucket more: what of another belongs into it moves there, and order is kept. */
static void bucket_split(struct event_ids *i)
{
    uint32_t from = i->buckets - i->whole;
    if (i->buckets % PART == 0)
        part_add(&i->buckets_at, sizeof(uint32_t));
    uint32_t to = i->buckets++;
    uint32_t *stays = bucket_at(i, from), *goes = bucket_at(i, to);
    for (uint32_t n = *stays; n != NOBODY;) {
        struct id_entry *e = entry_at(i, n);
        uint32_t **end = bucket_of(i, e->digest) == to ? &goes : &stays;
        **end = n;
        *end = &e->below;
        n = e->below;
    }
    *stays = *goes = NOBODY;
    if (i->buckets == 2 * i->whole)
        i->whole = i->buckets;
}

/* ---- coming and going ---- */

static void oldest_leave(struct event_ids *i)
{
    uint32_t n = i->oldest;
    struct id_entry *e = entry_at(i, n);
    *link_to(i, n) = e->below;
    i->oldest = e->newer;
    if (i->oldest == NOBODY)
        i->newest = NOBODY;
    e->below = i->free;
    i->free = n;
    atomic_fetch_sub_explicit(&i->count, 1, memory_order_relaxed);
}

static void some_leave(struct event_ids *i)
{
    for (unsigned n = 0; n < LEAVE && i->oldest != NOBODY; n++) {
        bool counts = entry_at(i, i->oldest)->seq > i->behind;
        if (counts && atomic_load_explicit(&i->count, memory_order_relaxed) < i->max)
            return;
        if (counts)
            atomic_fetch_add_explicit(&i->early, 1, memory_order_relaxed);
        oldest_leave(i);
    }
}

static uint32_t entry_take(struct event_ids *i)
{
    uint32_t n = i->free;
    if (n != NOBODY) {
        i->free = entry_at(i, n)->below;
        return n;
    }
    INVARIANT(i->used < NOBODY);
    if (i->used % PART == 0)
        part_add(&i->entries, sizeof(struct id_entry));
    return i->used++;
}

void event_ids_bound(struct event_ids *i, uint64_t behind, uint64_t max)
{
    i->behind = behind;
    i->max = max;
}

uint64_t event_ids_find(const struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES])
{
    for (uint32_t n = *bucket_at(i, bucket_of(i, digest)); n != NOBODY;) {
        const struct id_entry *e = entry_at(i, n);
        if (memcmp(e->digest, digest, EVENT_DIGEST_BYTES) == 0 && e->seq > 0)
            return i->max > 0 && e->seq > i->behind ? e->seq : 0; /* others are older */
        n = e->below;
    }
    return 0;
}

void event_ids_put(struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES],
                   uint64_t seq)
{
    some_leave(i);
    if (i->max == 0 || seq <= i->behind)
        return;
    uint32_t n = entry_take(i);
    struct id_entry *e = entry_at(i, n);
    uint32_t *top = bucket_at(i, bucket_of(i, digest));
    memcpy(e->digest, digest, EVENT_DIGEST_BYTES);
    e->seq = seq;
    e->below = *top;
    e->newer = NOBODY;
    *top = n;
    if (i->newest == NOBODY)
        i->oldest = n;
    else
        entry_at(i, i->newest)->newer = n;
    i->newest = n;
    if (atomic_fetch_add_explicit(&i->count, 1, memory_order_relaxed) >= i->buckets)
        bucket_split(i);
}

void event_ids_strike(struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES],
                      uint64_t seq)
{
    for (uint32_t n = *bucket_at(i, bucket_of(i, digest)); n != NOBODY;) {
        struct id_entry *e = entry_at(i, n);
        if (e->seq == seq)
            e->seq = 0; /* it leaves in its turn */
        n = e->below;
    }
}

void event_ids_figures(const struct event_ids *i, uint64_t *ids, uint64_t *early)
{
    *ids = atomic_load_explicit(&i->count, memory_order_relaxed);
    *early = atomic_load_explicit(&i->early, memory_order_relaxed);
}
