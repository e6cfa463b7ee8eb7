/* overlay.h - the rows that are in the log but not yet in LMDB: a skip list with versions.
 *
 * Model. Nodes are ordered by key (space byte first), newest version first. A reader brings the
 * number of the last version it may see and finds, per key, the newest node not above it. Nodes are
 * never changed or removed once published; all memory ends at once when the last reference goes.
 * One writer at a time; any number of readers beside it (after LevelDB's memtable). A pending
 * overlay (the writes of a group that is not on disk yet) belongs to the committer alone, and there
 * a version can be taken back (aborted). Sources: Pugh 1990; LevelDB skiplist.h. */
#ifndef ENGINE_OVERLAY_H
#define ENGINE_OVERLAY_H

#include "engine/engine.h"
#include "vlog/vlog.h"

#include <stdatomic.h>

enum { OVERLAY_HEIGHT_MAX = 12 };

struct overlay_node {
    uint64_t seq;
    struct engine_blob blob; /* fresh: mem points to the caller's bytes, not yet in the log */
    const char *key, *value;
    uint16_t key_n, value_n; /* the key with its space byte */
    bool deleted, aborted, fresh;
    uint8_t height;
    struct overlay_node *written_before; /* by the same txn */
    _Atomic(struct overlay_node *) next[];
};

struct overlay_row {
    str key; /* with its space byte */
    str value;
    struct engine_blob blob;
    bool deleted, fresh;
    uint64_t seq;
};

struct overlay_chunk;
struct overlay {
    struct overlay_chunk *chunks;
    size_t chunk_used;
    uint64_t bytes; /* the writer's */
    uint64_t rows;  /* nodes; the writer's */
    uint64_t random;
    atomic_int height;
    atomic_uint refs;
    struct overlay_node *head;
    /* extents nobody owns any more, although LMDB never knew them; the writer's */
    struct vlog_extent *dead;
    size_t dead_count, dead_size;
    struct vlog_tail start; /* before the first group in here */
    struct vlog_tail end;   /* behind the last one; the writer's */
    store_time greatest;
};

/* With one reference. Dies when out of memory. */
struct overlay *overlay_new(void);
void overlay_ref(struct overlay *o);
/* Frees it when it was the last reference. */
void overlay_unref(struct overlay **op);

/* Copies key, value and inline bytes (blob.mem, unless fresh). row->seq is not below any before for
 * that key. */
struct overlay_node *overlay_add(struct overlay *o, const struct overlay_row *row);
/* Pending only: new contents for a node of the same version. */
void overlay_replace(struct overlay *o, struct overlay_node *n, const struct overlay_row *row);
void overlay_dead_add(struct overlay *o, struct vlog_extent extent);

/* The newest node of key not above seq; NULL. A deleted one is a find. */
struct overlay_node *overlay_find(const struct overlay *o, str key, uint64_t seq);
/* The same for the least key >= key, and the greatest key <= key (or < key). */
struct overlay_node *overlay_at_or_after(const struct overlay *o, str key, uint64_t seq);
struct overlay_node *overlay_before(const struct overlay *o, str key, bool inclusive, uint64_t seq);
/* The visible node of the next greater key. NULL node: the first. */
struct overlay_node *overlay_next(const struct overlay *o, const struct overlay_node *n,
                                  uint64_t seq);

static inline str overlay_key(const struct overlay_node *n)
{
    return (str){ .p = n->key, .n = n->key_n };
}
static inline str overlay_value(const struct overlay_node *n)
{
    return (str){ .p = n->value, .n = n->value_n };
}

#endif
