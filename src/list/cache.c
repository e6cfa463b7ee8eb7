/* Invariants: (1) an entry is in its chain and in the line of age, or in neither; (2) bytes is the
 * sum of all entries' and at most bytes_max; (3) an entry holds one reference. */
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
    mono pinned_until; /* held before it */
    bool kept;         /* a version that was replaced; found by its version alone */
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
    uint64_t turns, evicted;
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

static struct entry **chain_of(struct list_cache *c, const unsigned char *id)
{
    return &c->chains[hash_of(c, id) % CACHE_CHAINS];
}

static bool is_of(const struct entry *e, const unsigned char *id)
{
    return memcmp(e->id, id, FLIGHT_ID_BYTES) == 0;
}

static struct entry **link_of(struct list_cache *c, const unsigned char *id)
{
    struct entry **link = chain_of(c, id);
    while (*link != NULL && ((*link)->kept || !is_of(*link, id)))
        link = &(*link)->chain;
    return link;
}

static struct entry *kept_of(struct list_cache *c, const unsigned char *id, str version)
{
    struct entry *e = *chain_of(c, id);
    while (e != NULL && !(e->kept && is_of(e, id) && str_eq(str_of(e->value->version), version)))
        e = e->chain;
    return e;
}

static uint32_t *mark_of(struct list_cache *c, const unsigned char *id)
{
    return &c->marks[(hash_of(c, id) >> 32) % CACHE_MARKS];
}

static void take_out(struct list_cache *c, struct entry *e)
{
    struct entry **link = chain_of(c, e->id);
    while (*link != e)
        link = &(*link)->chain;
    *link = e->chain;
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

static void add_newest(struct list_cache *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void add(struct list_cache *c, struct entry *e)
{
    struct entry **first = chain_of(c, e->id);
    e->chain = *first;
    *first = e;
    add_newest(c, e);
    c->bytes += e->bytes;
    c->count++;
}

static bool is_pinned(const struct entry *e, mono now)
{
    return e->pinned_until.ns > now.ns;
}

static void make_room(struct list_cache *c, size_t bytes, mono now)
{
    while (c->bytes + bytes > c->bytes_max) {
        c->evicted += is_pinned(c->oldest, now);
        take_out(c, c->oldest);
    }
}

static mono end_of(const struct list_value *v)
{
    return mono_add_ms(v->at, v->stale_ms);
}

/* Too many versions of it: the one that came first goes. */
static void trim_kept(struct list_cache *c, const unsigned char *id)
{
    struct entry *last = NULL;
    unsigned count = 0;
    for (struct entry *e = *chain_of(c, id); e != NULL; e = e->chain) {
        if (!e->kept || !is_of(e, id))
            continue;
        count++;
        if (last == NULL || e->value->turn < last->value->turn)
            last = e;
    }
    if (count > LIST_VERSIONS_MAX)
        take_out(c, last);
}

/* Another takes its place: whoever names its version gets it still. */
static void replace(struct list_cache *c, struct entry *old, const struct list_value *by)
{
    str version = str_of(old->value->version);
    bool ends = old->value->pin_ms > 0 || old->value->unlike || end_of(old->value).ns <= by->at.ns;
    if (ends || str_eq(version, str_of(by->version)) || kept_of(c, old->id, version) != NULL) {
        take_out(c, old);
        return;
    }
    old->kept = true;
    old->until = end_of(old->value);
    trim_kept(c, old->id);
}

static struct entry *entry_new(const unsigned char *id, struct list_value *v, mono until)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    size_t bytes = sizeof *e + sizeof *v + v->count * sizeof(struct list_item) + v->json.n;
    *e = (struct entry){ .value = v, .until = until, .bytes = bytes };
    if (v->pin_ms > 0)
        e->pinned_until = mono_add_ms(v->at, v->pin_ms);
    memcpy(e->id, id, FLIGHT_ID_BYTES);
    return e;
}

/* Under the lock. */
static void take_in(struct list_cache *c, struct entry *e)
{
    (void)flight_value_ref(&e->value->v); /* the entry's */
    make_room(c, e->bytes, e->value->at);
    e->cuts = c->cuts;
    add(c, e);
}

void list_cache_put(struct list_cache *c, const unsigned char *id, uint32_t mark,
                    struct list_value *v, mono until)
{
    struct entry *e = until.ns <= v->at.ns ? NULL : entry_new(id, v, until);
    if (e == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    struct entry *old = *link_of(c, id);
    bool fits = *mark_of(c, id) == mark && (old == NULL || old->value->turn <= v->turn) &&
                e->bytes <= c->bytes_max;
    if (fits) {
        if (old != NULL)
            replace(c, old, v);
        take_in(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    if (!fits)
        free(e);
}

void list_cache_keep(struct list_cache *c, const unsigned char *id, uint32_t mark,
                     struct list_value *v)
{
    struct entry *e = entry_new(id, v, end_of(v));
    if (e == NULL)
        return;
    e->kept = true;
    pthread_mutex_lock(&c->lock);
    bool fits = *mark_of(c, id) == mark && kept_of(c, id, str_of(v->version)) == NULL &&
                e->bytes <= c->bytes_max;
    if (fits) {
        take_in(c, e);
        trim_kept(c, id);
    }
    pthread_mutex_unlock(&c->lock);
    if (!fits)
        free(e);
}

struct list_value *list_cache_version(struct list_cache *c, const unsigned char *id, str version,
                                      mono now)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = *link_of(c, id);
    if (e == NULL || !str_eq(str_of(e->value->version), version))
        e = kept_of(c, id, version);
    if (e != NULL && e->cuts == c->cuts && end_of(e->value).ns > now.ns) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
    } else if (e != NULL && e->kept) {
        take_out(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

static bool is_valid(const struct list_cache *c, const struct entry *e, mono now)
{
    return e->cuts == c->cuts && (list_fresh_ms(e->value, now) > 0 || is_pinned(e, now));
}

/* It was read: a pinned one stays, and others go before it. */
static void touch(struct list_cache *c, struct entry *e, mono now)
{
    if (e->value->pin_ms == 0)
        return;
    e->pinned_until = mono_add_ms(now, e->value->pin_ms);
    if (c->newest == e)
        return;
    e->newer->older = e->older;
    *(e->older != NULL ? &e->older->newer : &c->oldest) = e->newer;
    add_newest(c, e);
}

static bool is_held(const struct list_cache *c, const struct entry *e, mono now)
{
    return !e->value->unlike && is_valid(c, e, now);
}

static bool is_answered(const struct list_cache *c, const struct entry *e, mono now, bool alone)
{
    bool young = mono_add_ms(e->value->at, LIST_CACHE_MS).ns > now.ns;
    if (alone && is_valid(c, e, now)) /* made here or not, nobody has a better one */
        return true;
    return e->until.ns > now.ns && (alone || young || (e->value->unlike && is_valid(c, e, now)));
}

struct list_value *list_cache_get(struct list_cache *c, const unsigned char *id, mono now,
                                  bool alone)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = *link_of(c, id);
    if (e != NULL && is_answered(c, e, now, alone)) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
        touch(c, e, now);
    } else if (e != NULL && !is_valid(c, e, now) && end_of(e->value).ns <= now.ns) {
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
    struct entry *next;
    for (struct entry *e = *chain_of(c, id); e != NULL; e = next) {
        next = e->chain;
        if (is_of(e, id))
            take_out(c, e);
    }
    pthread_mutex_unlock(&c->lock);
}

unsigned list_cache_all(struct list_cache *c, mono now, struct list_cached *out, unsigned max)
{
    unsigned count = 0;
    pthread_mutex_lock(&c->lock);
    for (struct entry *e = c->newest; e != NULL && count < max; e = e->older) {
        if (e->kept || !is_held(c, e, now))
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

uint64_t list_cache_evicted(struct list_cache *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t evicted = c->evicted;
    pthread_mutex_unlock(&c->lock);
    return evicted;
}
