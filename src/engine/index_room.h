/* index_room.h - what the index may still take of its map. Private to this folder. */
#ifndef ENGINE_INDEX_ROOM_H
#define ENGINE_INDEX_ROOM_H

#include "engine/overlay.h"

struct engine;

/* What a commit of the index has to do. */
struct index_load {
    uint64_t rows, bytes;
};

/* One tree of LMDB, and what there is for all of them; pages. */
struct index_tree {
    uint64_t depth, leaves, branches;
};
struct index_room {
    uint64_t txn, oldest; /* when measured: the last commit, the oldest somebody still reads */
    uint64_t used, tail;  /* up to the last page in use; behind it */
    uint64_t free;        /* in the free list, for the next commit */
    uint64_t pages;       /* commits may take, of both */
    uint64_t reserve;     /* of these, for updates that free */
    uint64_t list_pages;  /* the free list itself */
    struct index_tree rows, dead, segments;
};

/* What is left of the map, into e->room. Under the space lock. ERR_IO. */
MUST_CHECK err index_measure(struct engine *e);
/* The same, but does what makes more of it free for the next commit while less than wanted is. The
 * indexer's. */
MUST_CHECK err index_refresh(struct engine *e, uint64_t wanted);
/* At most what a commit of the load takes. */
uint64_t index_pages(const struct index_room *r, struct index_load load);
/* Can commits of these loads, one after the other, be sure of their pages, when besides are to
 * stay? */
bool index_fits(const struct index_room *r, const struct index_load loads[], size_t count,
                uint64_t besides);
static inline struct index_load overlay_load(const struct overlay *o)
{
    return (struct index_load){ .rows = o->rows, .bytes = o->bytes };
}

#endif
