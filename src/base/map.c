#include "base/map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MAP_MAGIC 0x3a9c0de1u
enum { MAP_FIRST_SLOTS = 16 };

struct entry {
    struct entry *next;
    void *value;
    uint64_t hash;
    size_t key_bytes;
    char key[];
};

struct map {
    uint32_t magic;
    uint64_t seed;
    struct entry **slots; /* chains; slots_count is a power of two */
    size_t slots_count, count;
};

struct map *map_new(uint64_t seed)
{
    struct map *m = malloc(sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct map){ .magic = MAP_MAGIC, .seed = seed, .slots_count = MAP_FIRST_SLOTS };
    m->slots = calloc(m->slots_count, sizeof(struct entry *));
    INVARIANT(m->slots != NULL);
    return m;
}

void map_free(struct map **mp)
{
    struct map *m = *mp;
    if (m == NULL)
        return;
    MAGIC_CHECK(m, MAP_MAGIC);
    for (size_t i = 0; i < m->slots_count; i++) {
        while (m->slots[i] != NULL) {
            struct entry *e = m->slots[i];
            m->slots[i] = e->next;
            free(e);
        }
    }
    free(m->slots);
    m->magic = 0;
    free(m);
    *mp = NULL;
}

static uint64_t hash_of(const struct map *m, str key)
{
    return XXH3_64bits_withSeed(key.n == 0 ? "" : key.p, key.n, m->seed);
}

static str entry_key(const struct entry *e)
{
    return (str){ .p = e->key, .n = e->key_bytes };
}

/* The link that points at key's entry, or the chain's last link (which holds NULL). */
static struct entry **find(const struct map *m, str key, uint64_t hash)
{
    struct entry **link = &m->slots[hash & (m->slots_count - 1)];
    while (*link != NULL && ((*link)->hash != hash || !str_eq(entry_key(*link), key)))
        link = &(*link)->next;
    return link;
}

static void grow(struct map *m)
{
    size_t count = m->slots_count * 2;
    struct entry **slots = calloc(count, sizeof(struct entry *));
    INVARIANT(slots != NULL);
    for (size_t i = 0; i < m->slots_count; i++) {
        while (m->slots[i] != NULL) {
            struct entry *e = m->slots[i];
            m->slots[i] = e->next;
            e->next = slots[e->hash & (count - 1)];
            slots[e->hash & (count - 1)] = e;
        }
    }
    free(m->slots);
    m->slots = slots;
    m->slots_count = count;
}

void *map_get(const struct map *m, str key)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    const struct entry *e = *find(m, key, hash_of(m, key));
    return e == NULL ? NULL : e->value;
}

void *map_put(struct map *m, str key, void *value)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    INVARIANT(value != NULL);
    uint64_t hash = hash_of(m, key);
    struct entry *e = *find(m, key, hash);
    if (e != NULL) {
        void *before = e->value;
        e->value = value;
        return before;
    }
    if (m->count >= m->slots_count)
        grow(m);
    INVARIANT(key.n < SIZE_MAX - sizeof *e);
    e = malloc(sizeof *e + key.n);
    INVARIANT(e != NULL);
    struct entry **slot = &m->slots[hash & (m->slots_count - 1)];
    *e = (struct entry){ .next = *slot, .value = value, .hash = hash, .key_bytes = key.n };
    if (key.n > 0)
        memcpy(e->key, key.p, key.n);
    *slot = e;
    m->count++;
    return NULL;
}

void *map_remove(struct map *m, str key)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    struct entry **link = find(m, key, hash_of(m, key));
    struct entry *e = *link;
    if (e == NULL)
        return NULL;
    void *value = e->value;
    *link = e->next;
    free(e);
    m->count--;
    return value;
}

size_t map_count(const struct map *m)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    return m->count;
}

void map_each(const struct map *m, void (*each)(void *ctx, str key, void *value), void *ctx)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    for (size_t i = 0; i < m->slots_count; i++)
        for (const struct entry *e = m->slots[i]; e != NULL; e = e->next)
            each(ctx, entry_key(e), e->value);
}
