/* cache.h - lists this server has seen, by id. Private to list.
 *
 * A list is answered from here until the instant its putter names, and held beyond that while it is
 * fresh: to be given back to a Redis that lost it. What is held was valid as long as every drop was
 * heard of: list_cache_cut says that some may have been missed, and ends the holding of all that is
 * here.
 *   A pinned list is held until pin_ms after it was read here last. Versions that were replaced
 *   stand beside the last. A drop must not be undone by a list that was on its way: whoever asks
 * takes a mark before, and what comes with an old mark is not kept. One mark is of many ids, so a
 * drop may cost another list its place here.
 *   Nor does a list take the place of one that was begun after it: they have turns. In bytes_max;
 * the oldest go first, pinned ones by when they were read. Thread: any. */
#ifndef LIST_CACHE_H
#define LIST_CACHE_H

#include "list/list.h"

enum { CACHE_MARKS = 1 << 12 };
struct list_cache;
struct list_cache *list_cache_new(size_t bytes_max, uint64_t seed);
void list_cache_free(struct list_cache **cp);
uint32_t list_cache_mark(struct list_cache *c, const unsigned char *id);
/* A later one than all before; for list_value.turn. */
uint64_t list_cache_turn(struct list_cache *c);
/* In place of what is there; not when the mark is old, what is there has a later turn, or now is
 * not before until. */
void list_cache_put(struct list_cache *c, const unsigned char *id, uint32_t mark,
                    struct list_value *v, mono until);
/* With a reference; NULL. get: may be answered, for LIST_CACHE_MS at most unless alone, which says
 * that nobody else can be asked: what was made without Redis must not be shown beside what the
 * others have once it is back; but of one that is unlike theirs they have nothing that could be
 * shown here. held: is fresh and may be given back. */
struct list_value *list_cache_get(struct list_cache *c, const unsigned char *id, mono now,
                                  bool alone);
struct list_value *list_cache_held(struct list_cache *c, const unsigned char *id, mono now);
void list_cache_cut(struct list_cache *c);
void list_cache_drop(struct list_cache *c, const unsigned char *id);
/* The list of that version, until it may no longer be shown; with a reference; NULL. What another
 * takes the place of is kept, LIST_VERSIONS_MAX of an id. */
struct list_value *list_cache_version(struct list_cache *c, const unsigned char *id, str version,
                                      mono now);
void list_cache_keep(struct list_cache *c, const unsigned char *id, uint32_t mark,
                     struct list_value *v);
/* Copies of references to all that is held, newest first; at most max. The caller releases them. */
struct list_cached {
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *value;
};
unsigned list_cache_all(struct list_cache *c, mono now, struct list_cached *out, unsigned max);
void list_cache_size(struct list_cache *c, uint64_t *count, uint64_t *bytes);
uint64_t list_cache_evicted(struct list_cache *c); /* pinned lists that had to go for others */

#endif
