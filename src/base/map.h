/* map.h - a hash map from byte keys to pointers; insertion order is not kept. Keys are copied.
 * Hash: XXH3-64 with a seed, so that clients cannot choose collisions. Thread: one at a time. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/check.h"
#include "base/str.h"

struct map;
struct map *map_new(uint64_t seed);
/* Values are the caller's. */
void map_free(struct map **mp);
void *map_get(const struct map *m, str key);
/* Returns what was there before, or NULL. value is not NULL. Dies when out of memory. */
void *map_put(struct map *m, str key, void *value);
/* Returns what was removed, or NULL. */
void *map_remove(struct map *m, str key);
size_t map_count(const struct map *m);
/* Calls each for every entry, in no order; each must not change the map. */
void map_each(const struct map *m, void (*each)(void *ctx, str key, void *value), void *ctx);

#endif
