/* map.c - entries with their keys, in a table of hash.h. */
#include "base/map.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define MAP_MAGIC 0x3a9c0de1u

struct entry {
    struct hash_node node;
    void *value;
    size_t key_bytes;
    char key[];
};

struct map {
    uint32_t magic;
    uint64_t seed;
    struct hash entries;
};

struct map *map_new(uint64_t seed)
{
    struct map *m = malloc(sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct map){ .magic = MAP_MAGIC, .seed = seed };
    hash_init(&m->entries);
    return m;
}

static struct entry *entry_of(struct hash_node *n)
{
    return CONTAINER_OF(n, struct entry, node);
}

static void entry_free(void *ctx, struct hash_node *n)
{
    (void)ctx;
    free(entry_of(n));
}

void map_free(struct map **mp)
{
    struct map *m = *mp;
    if (m == NULL)
        return;
    MAGIC_CHECK(m, MAP_MAGIC);
    hash_each(&m->entries, entry_free, NULL);
    hash_fini(&m->entries);
    m->magic = 0;
    free(m);
    *mp = NULL;
}

static str entry_key(const struct entry *e)
{
    return (str){ .p = e->key, .n = e->key_bytes };
}

static struct entry *map_find(const struct map *m, str key, uint64_t hash)
{
    for (struct hash_node *n = hash_first(&m->entries, hash); n != NULL; n = hash_next(n))
        if (str_eq(entry_key(entry_of(n)), key))
            return entry_of(n);
    return NULL;
}

void *map_get(const struct map *m, str key)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    const struct entry *e = map_find(m, key, hash_of_str(key, m->seed));
    return e == NULL ? NULL : e->value;
}

void *map_put(struct map *m, str key, void *value)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    INVARIANT(value != NULL);
    uint64_t hash = hash_of_str(key, m->seed);
    struct entry *e = map_find(m, key, hash);
    if (e != NULL) {
        void *before = e->value;
        e->value = value;
        return before;
    }
    INVARIANT(key.n < SIZE_MAX - sizeof *e);
    e = malloc(sizeof *e + key.n);
    INVARIANT(e != NULL);
    *e = (struct entry){ .value = value, .key_bytes = key.n };
    if (key.n > 0)
        memcpy(e->key, key.p, key.n);
    hash_add(&m->entries, &e->node, hash);
    return NULL;
}

void *map_remove(struct map *m, str key)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    struct entry *e = map_find(m, key, hash_of_str(key, m->seed));
    if (e == NULL)
        return NULL;
    void *value = e->value;
    hash_remove(&m->entries, &e->node);
    free(e);
    return value;
}

size_t map_count(const struct map *m)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    return m->entries.count;
}

struct visit {
    void (*each)(void *ctx, str key, void *value);
    void *ctx;
};

static void entry_visit(void *ctx, struct hash_node *n)
{
    const struct visit *v = ctx;
    const struct entry *e = entry_of(n);
    v->each(v->ctx, entry_key(e), e->value);
}

void map_each(const struct map *m, void (*each)(void *ctx, str key, void *value), void *ctx)
{
    MAGIC_CHECK(m, MAP_MAGIC);
    struct visit v = { .each = each, .ctx = ctx };
    hash_each(&m->entries, entry_visit, &v);
}
