/* walk.h - goes over one segment from its header to its end and yields the value records that are
 * alive.
 *
 * A segment is a row of extents without gaps; what is dead is in the index, everything else must be
 * a value record, the first of a group with the group's header and meta before it. So every byte is
 * accounted for. Reads through a window; the transaction given must stay open. Thread: one at a
 * time. */
#ifndef ENGINE_WALK_H
#define ENGINE_WALK_H

#include "engine/parts.h"

struct walk {
    struct engine *engine;
    MDB_txn *txn;
    uint32_t segment;
    uint64_t at, end;
    struct vlog_extent dead; /* the dead range at or behind at; size 0: none */
    uint64_t dead_bytes;     /* skipped so far */
    char *window;
    uint64_t window_start;
    size_t window_n;
};
enum { WALK_WINDOW_BYTES = 1 << 20 };

struct walk_record {
    struct engine_blob blob;
    enum engine_space space;
    char key[ENGINE_KEY_BYTES_MAX];
    size_t key_n;
};

/* end: behind the last byte the index knows of. Owner: caller, walk_fini. */
void walk_init(struct walk *w, struct engine *e, MDB_txn *txn, uint32_t segment, uint64_t end);
void walk_fini(struct walk *w);
/* ERR_NOT_FOUND at the end. ERR_CORRUPT: neither dead nor a record at w->at, which stays;
 * walk_resync goes on. ERR_IO. */
MUST_CHECK err walk_next(struct walk *w, struct walk_record *out);
/* Moves to the next place behind w->at where a record, a group or a dead range begins. ERR_IO. */
MUST_CHECK err walk_resync(struct walk *w);

#endif
