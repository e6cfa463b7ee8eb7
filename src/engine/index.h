/* index.h - the tables in LMDB: who reads and writes which bytes. Private to index*.c.
 *
 *   row      space, key            -> sum 8, kind 1, [blob], value
 *                                     kind 1: bytes 2, hash 8, the bytes; kind 2: place 32 as in
 *                                     vlog/record.h
 *   dead     segment 4, offset 8   -> bytes 8, sum 8      ranges nobody owns, merged with their
 *            neighbours
 *   segment  number 4              -> end 8, dead bytes 8, sum 8
 *   meta     "position"            -> seq 8, segment 4, offset 8, greatest store_time 8, sum 8
 *            "store"               -> id 16, sum 8
 * A sum is XXH3 over key and value: LMDB has no checksums of its own. The int results are
 * LMDB's. */
#ifndef ENGINE_INDEX_H
#define ENGINE_INDEX_H

#include "engine/parts.h"

#include <xxhash.h>

enum { INDEX_SUM_BYTES = 8, INDEX_PAGE_BYTES = 4096 };

static inline MDB_val index_val(str s)
{
    return (MDB_val){ .mv_data = (void *)(uintptr_t)s.p, .mv_size = s.n };
}

static inline str index_str(MDB_val v)
{
    return (str){ .p = v.mv_data, .n = v.mv_size };
}

static inline uint64_t index_sum(str key, str rest)
{
    return XXH3_64bits_withSeed(rest.p, rest.n, XXH3_64bits(key.p, key.n));
}

/* ---- small rows: n bytes and their sum; bytes has room for it ---- */
int index_small_put(MDB_txn *txn, MDB_dbi dbi, str key, char *bytes, size_t n);
err index_small_check(MDB_val key, MDB_val value, size_t n);
/* ERR_NOT_FOUND, ERR_CORRUPT. */
err index_small_get(MDB_txn *txn, MDB_dbi dbi, str key, size_t n, const char **out);

/* ERR_NOT_FOUND: *out is an empty segment of that number. */
err index_segment_get(struct engine *e, MDB_txn *txn, uint32_t number, struct index_segment *out);
int index_segment_put(struct engine *e, MDB_txn *txn, const struct index_segment *s);
/* Adds a range and merges it with its neighbours. c: any cursor on the dead ranges. */
int index_dead_add(struct engine *e, MDB_txn *txn, MDB_cursor *c, struct vlog_extent x);
int index_position_put(struct engine *e, MDB_txn *txn, struct vlog_tail at, store_time greatest);

/* ---- index_blocks.c; all of it under the space lock but index_rest ---- */
/* Blocks for data.mdb ahead of its last page, enough for o (NULL: only the reserve); sets
 * e->index_full. ERR_FULL; ERR_IO. */
MUST_CHECK err index_headroom(struct engine *e, const struct overlay *o);
/* A commit of next to nothing: what the last one freed is free for the one after the next. Does
 * nothing when there is no room for it. */
MUST_CHECK err index_step(struct engine *e);
/* Whether the file has holes; once, at the start. */
void index_find_holes(struct engine *e);
/* Fills the holes: before each write transaction that index_headroom does not precede. ERR_FULL;
 * ERR_IO. */
MUST_CHECK err index_fill(struct engine *e);
/* Nothing was written for a while: gives blocks back where the disk has plenty, else takes them
 * again. Bounded work; true: there is more to give. What cannot be given stays. */
bool index_rest(struct engine *e);

#endif
