/* Invariants: (1) an entry is in its chain and in the line of age, or in neither; (2) bytes is the sum of all entries'
 * and at most bytes_max; (3) an entry holds one reference. */
#include "list/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    struct entry *chain;
    struct entry *newer, *older;
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *value;
    mono until;        /* answered before it */
    uint32_t cuts;     /* there had been when it came: held while there are no more */
    size_t bytes;
};

struct list_cache {
    pthread_mutex_t lock;
    uint64_t seed;
    size_t bytes, bytes_max;
    uint64_t count;
    struct entry *newest, *oldest;
    struct entry *chains[CACHE_CHAINS];
    uint32_t marks[CACHE_MARKS];
    uint32_t cuts;
    uint64_t turns;
};

struct list_cache *list_cache_new(size_t bytes_max, uint64_t seed)
{
    struct list_cache *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->bytes_max = bytes_max;
    c->seed = seed;
    INVARIANT(pthread_mutex_init(&c->lock, NULL) == 0);
    return c;
}

static uint64_t hash_of(const struct list_cache *c, const unsigned char *id)
{
    return XXH3_64bits_withSeed(id, FLIGHT_ID_BYTES, c->seed);
}

static struct entry **link_of(struct list_cache *c, const unsigned char *id)
{
    struct entry **link = &c->chains[hash_of(c, id) % CACHE_CHAINS];
    while (*link != NULL && memcmp((*link)->id, id, FLIGHT_ID_BYTES) != 0)
        link = &(*link)->chain;
    return link;
}

static uint32_t *mark_of(struct list_cache *c, const unsigned char *id)
{
    return &c->marks[(hash_of(c, id) >> 32) % CACHE_MARKS];
}

static void take_out(struct list_cache *c, struct entry *e)
{
    *link_of(c, e->id) = e->chain;
    *(e->newer != NULL ? &e->newer->older : &c->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &c->oldest) = e->newer;
    INVARIANT(c->bytes >= e->bytes);
    INVARIANT(c->count > 0);
    c->bytes -= e->bytes;
    c->count--;
    struct flight_value *v = &e->value->v;
    flight_value_unref(&v);
    free(e);
}

void list_cache_free(struct list_cache **cp)
{
    struct list_cache *c = *cp;
    if (c == NULL)
        return;
    while (c->oldest != NULL)
        take_out(c, c->oldest);
    (void)pthread_mutex_destroy(&c->lock); /* nobody is left to hold it */
    free(c);
    *cp = NULL;
}

uint32_t list_cache_mark(struct list_cache *c, const unsigned char *id)
{
    pthread_mutex_lock(&c->lock);
    uint32_t mark = *mark_of(c, id);
    pthread_mutex_unlock(&c->lock);
    return mark;
}

uint64_t list_cache_turn(struct list_cache *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t turn = ++c->turns;
    pthread_mutex_unlock(&c->lock);
    return turn;
}

static void add(struct list_cache *c, struct entry *e)
{
    struct entry **link = link_of(c, e->id);
    INVARIANT(*link == NULL);
    *link = e;
    e->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
    c->bytes += e->bytes;
    c->count++;
}

void list_cache_put(struct list_cache *c, const unsigned char *id, uint32_t mark, struct list_value *v, mono until)
{
    size_t bytes = sizeof(struct entry) + sizeof *v + v->count * sizeof(struct list_item) + v->json.n;
    if (until.ns <= v->at.ns || bytes > c->bytes_max)
        return;
    struct entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return;
    *e = (struct entry){ .value = v, .until = until, .bytes = bytes };
    memcpy(e->id, id, FLIGHT_ID_BYTES);
    pthread_mutex_lock(&c->lock);
    struct entry *old = *link_of(c, id);
    bool fits = *mark_of(c, id) == mark && (old == NULL || old->value->turn <= v->turn);
    if (fits) {
        (void)flight_value_ref(&v->v); /* the entry's */
        if (old != NULL)
            take_out(c, old);
        while (c->bytes + bytes > c->bytes_max)
            take_out(c, c->oldest);
        e->cuts = c->cuts;
        add(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    if (!fits)
        free(e);
}

static bool is_valid(const struct list_cache *c, const struct entry *e, mono now)
{
    return e->cuts == c->cuts && list_fresh_ms(e->value, now) > 0;
}

static bool is_held(const struct list_cache *c, const struct entry *e, mono now)
{
    return !e->value->unlike && is_valid(c, e, now);
}

static bool is_answered(const struct list_cache *c, const struct entry *e, mono now, bool alone)
{
    bool young = mono_add_ms(e->value->at, LIST_CACHE_MS).ns > now.ns;
    return e->until.ns > now.ns && (alone || young || (e->value->unlike && is_valid(c, e, now)));
}

struct list_value *list_cache_get(struct list_cache *c, const unsigned char *id, mono now, bool alone)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = *link_of(c, id);
    if (e != NULL && is_answered(c, e, now, alone)) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
    } else if (e != NULL && !is_valid(c, e, now)) {
        take_out(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

struct list_value *list_cache_held(struct list_cache *c, const unsigned char *id, mono now)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = *link_of(c, id);
    if (e != NULL && is_held(c, e, now)) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

void list_cache_cut(struct list_cache *c)
{
    pthread_mutex_lock(&c->lock);
    c->cuts++;
    pthread_mutex_unlock(&c->lock);
}

void list_cache_drop(struct list_cache *c, const unsigned char *id)
{
    pthread_mutex_lock(&c->lock);
    ++*mark_of(c, id);
    struct entry *e = *link_of(c, id);
    if (e != NULL)
        take_out(c, e);
    pthread_mutex_unlock(&c->lock);
}

unsigned list_cache_all(struct list_cache *c, mono now, struct list_cached *out, unsigned max)
{
    unsigned count = 0;
    pthread_mutex_lock(&c->lock);
    for (struct entry *e = c->newest; e != NULL && count < max; e = e->older) {
        if (!is_held(c, e, now))
            continue;
        memcpy(out[count].id, e->id, FLIGHT_ID_BYTES);
        out[count++].value = e->value;
        (void)flight_value_ref(&e->value->v); /* the caller's */
    }
    pthread_mutex_unlock(&c->lock);
    return count;
}

void list_cache_size(struct list_cache *c, uint64_t *count, uint64_t *bytes)
{
    pthread_mutex_lock(&c->lock);
    *count = c->count;
    *bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
}
