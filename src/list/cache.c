/* cache.c - lists that this server has seen, by id and in the order of their age, for list.c and
 * make.c.
 *
 * Invariants
 *  1. An entry is in the table and in the line of age, or in neither.
 *  2. bytes is the sum of all entries' bytes, and at most bytes_max.
 *  3. An entry holds one reference to its list. */
#include "list/cache.h"

#include "base/hash.h"
#include "base/list.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One list, or one version that was replaced. Owner: the cache; under its lock. */
struct entry {
    struct hash_node node;
    struct list age;
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
    struct hash entries;
    struct list ages; /* the oldest first */
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
    hash_init(&c->entries);
    list_init(&c->ages);
    INVARIANT(pthread_mutex_init(&c->lock, NULL) == 0);
    return c;
}

static uint64_t hash_of(const struct list_cache *c, const unsigned char *id)
{
    return hash_of_str((str){ .p = (const char *)id, .n = FLIGHT_ID_BYTES }, c->seed);
}

/* The first entry of the id, and the next; NULL: no more. */
static struct entry *same_id(struct hash_node *n, const unsigned char *id)
{
    for (; n != NULL; n = hash_next(n)) {
        struct entry *e = CONTAINER_OF(n, struct entry, node);
        if (memcmp(e->id, id, FLIGHT_ID_BYTES) == 0)
            return e;
    }
    return NULL;
}

static struct entry *first_of(const struct list_cache *c, const unsigned char *id)
{
    return same_id(hash_first(&c->entries, hash_of(c, id)), id);
}

static struct entry *next_of(const struct entry *e)
{
    return same_id(hash_next(&e->node), e->id);
}

/* The list of an id that is not replaced: there is one at most. */
static struct entry *last_of(const struct list_cache *c, const unsigned char *id)
{
    struct entry *e = first_of(c, id);
    while (e != NULL && e->kept)
        e = next_of(e);
    return e;
}

/* A version that was replaced; NULL: it is not here. */
static struct entry *kept_of(const struct list_cache *c, const unsigned char *id, str version)
{
    struct entry *e = first_of(c, id);
    while (e != NULL && !(e->kept && str_eq(str_of(e->value->version), version)))
        e = next_of(e);
    return e;
}

static struct entry *oldest_of(const struct list_cache *c)
{
    return CONTAINER_OF(list_first(&c->ages), struct entry, age);
}

/* One mark is of many ids: a drop then costs others their place here, and nothing else. */
static uint32_t *mark_of(struct list_cache *c, const unsigned char *id)
{
    return &c->marks[(hash_of(c, id) >> 32) % CACHE_MARKS];
}

/* Under the lock. */
static void take_out(struct list_cache *c, struct entry *e)
{
    hash_remove(&c->entries, &e->node);
    list_remove(&e->age);
    INVARIANT(c->bytes >= e->bytes);
    c->bytes -= e->bytes;
    struct flight_value *v = &e->value->v;
    flight_value_unref(&v);
    free(e);
}

void list_cache_free(struct list_cache **cp)
{
    struct list_cache *c = *cp;
    if (c == NULL)
        return;
    while (!list_empty(&c->ages))
        take_out(c, oldest_of(c));
    hash_fini(&c->entries);
    (void)pthread_mutex_destroy(&c->lock); /* nobody is left to hold it */
    free(c);
    *cp = NULL;
}

/* Taken before a list is asked for: a drop in between moves it. */
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

static void cache_add(struct list_cache *c, struct entry *e)
{
    hash_add(&c->entries, &e->node, hash_of(c, e->id));
    list_append(&c->ages, &e->age);
    c->bytes += e->bytes;
}

static bool is_pinned(const struct entry *e, mono now)
{
    return e->pinned_until.ns > now.ns;
}

/* The oldest go first; a pinned one is moved behind at each read (touch). */
static void make_room(struct list_cache *c, size_t bytes, mono now)
{
    while (c->bytes + bytes > c->bytes_max) {
        struct entry *e = oldest_of(c);
        c->evicted += is_pinned(e, now);
        take_out(c, e);
    }
}

static mono end_of(const struct list_value *v)
{
    return mono_add_ms(v->at, v->stale_ms);
}

/* Of too many versions the one that came first goes. */
static void trim_kept(struct list_cache *c, const unsigned char *id)
{
    struct entry *last = NULL;
    unsigned count = 0;
    for (struct entry *e = first_of(c, id); e != NULL; e = next_of(e)) {
        if (!e->kept)
            continue;
        count++;
        if (last == NULL || e->value->turn < last->value->turn)
            last = e;
    }
    if (count > LIST_VERSIONS_MAX)
        take_out(c, last);
}

/* Another list takes its place. The old one stays under its version alone, unless nobody may name
 * it: a display's, one of other rules, or one that has ended. */
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
    /* A pin counts from when the list came here. */
    if (v->pin_ms > 0)
        e->pinned_until = mono_add_ms(v->at, v->pin_ms);
    memcpy(e->id, id, FLIGHT_ID_BYTES);
    return e;
}

/* Takes the entry in, with a reference of its own. Under the lock. */
static void take_in(struct list_cache *c, struct entry *e)
{
    (void)flight_value_ref(&e->value->v); /* the entry's */
    make_room(c, e->bytes, e->value->at);
    e->cuts = c->cuts;
    cache_add(c, e);
}

/* until before now: the list came too late to be answered, and is not kept. */
void list_cache_put(struct list_cache *c, const unsigned char *id, uint32_t mark,
                    struct list_value *v, mono until)
{
    struct entry *e = until.ns <= v->at.ns ? NULL : entry_new(id, v, until);
    if (e == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    struct entry *old = last_of(c, id);
    /* A drop since the mark, or a list that was begun later, makes this one come too late. */
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

/* A version that came from Redis by its name: it takes nobody's place. */
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

/* After a cut the version may have been dropped elsewhere: it is not answered. */
struct list_value *list_cache_version(struct list_cache *c, const unsigned char *id, str version,
                                      mono now)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = last_of(c, id);
    if (e == NULL || !str_eq(str_of(e->value->version), version))
        e = kept_of(c, id, version);
    /* A cut since it came may have hidden a drop from us: it is not answered any more. */
    if (e != NULL && e->cuts == c->cuts && end_of(e->value).ns > now.ns) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
    } else if (e != NULL && e->kept) {
        take_out(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

/* May it still be the list: no drop can have been missed, and it is fresh or pinned? */
static bool is_valid(const struct list_cache *c, const struct entry *e, mono now)
{
    return e->cuts == c->cuts && (list_fresh_ms(e->value, now) > 0 || is_pinned(e, now));
}

/* A read pins a display's list anew, and moves it behind those that were read before. */
static void touch(struct list_cache *c, struct entry *e, mono now)
{
    if (e->value->pin_ms == 0)
        return;
    e->pinned_until = mono_add_ms(now, e->value->pin_ms);
    list_remove(&e->age);
    list_append(&c->ages, &e->age);
}

/* May it be given back to Redis? One that is unlike the others' may not. */
static bool is_held(const struct list_cache *c, const struct entry *e, mono now)
{
    return !e->value->unlike && is_valid(c, e, now);
}

/* May it be answered: for LIST_CACHE_MS, or for longer when nobody else can be asked? */
static bool is_answered(const struct list_cache *c, const struct entry *e, mono now, bool alone)
{
    bool young = mono_add_ms(e->value->at, LIST_CACHE_MS).ns > now.ns;
    if (alone && is_valid(c, e, now)) /* made here or not, nobody has a better one */
        return true;
    return e->until.ns > now.ns && (alone || young || (e->value->unlike && is_valid(c, e, now)));
}

/* Only an entry that can never be shown or given back again is removed here. */
struct list_value *list_cache_get(struct list_cache *c, const unsigned char *id, mono now,
                                  bool alone)
{
    struct list_value *v = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = last_of(c, id);
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
    struct entry *e = last_of(c, id);
    if (e != NULL && is_held(c, e, now)) {
        v = e->value;
        (void)flight_value_ref(&v->v); /* the caller's */
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

/* Entries are not looked through: each one knows how many cuts there were. */
void list_cache_cut(struct list_cache *c)
{
    pthread_mutex_lock(&c->lock);
    c->cuts++;
    pthread_mutex_unlock(&c->lock);
}

/* The mark moves first: what is on its way with the old mark is not kept. */
void list_cache_drop(struct list_cache *c, const unsigned char *id)
{
    pthread_mutex_lock(&c->lock);
    ++*mark_of(c, id);
    for (struct entry *e; (e = first_of(c, id)) != NULL;)
        take_out(c, e);
    pthread_mutex_unlock(&c->lock);
}

/* Newest first: of more lists than max the latest readers' are given back. */
unsigned list_cache_all(struct list_cache *c, mono now, struct list_cached *out, unsigned max)
{
    unsigned count = 0;
    pthread_mutex_lock(&c->lock);
    for (struct list *n = c->ages.prev; n != &c->ages && count < max; n = n->prev) {
        const struct entry *e = CONTAINER_OF(n, struct entry, age);
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
    *count = c->entries.count;
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
