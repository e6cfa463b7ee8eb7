/* record.h - what stands in a log segment, byte by byte. Pure; no I/O.
 *
 *   segment = segment header, group, group, ...
 *   group   = group header, meta, value record, value record, ...      one write, one sync
 *   meta    = mutations: the rows of the group as they are after it, each key once
 *   value record = value header, key, value
 * All numbers big-endian. Every sum is seeded with the store's random id and with the place it
 * stands at (segment, offset): bytes that a client stored, or that were copied from elsewhere,
 * never pass for a header.
 *
 *   group header, 64: magic 4, version 2, zero 2, seq 8, store_time 8, meta bytes 4, mutations 4,
 *                     value bytes 8, values 4, unsynced 4, sum of meta 8, sum of the 56 bytes
 *                     before 8
 *   value header, 40: magic 4, space 1, version 1, key bytes 2, value bytes 4, zero 4, seq 8, XXH3
 *                     of value 8, sum of the 32 bytes before and the key 8
 *   segment header, 64: magic 8, version 4, number 4, store id 16, zero 24, sum of the 56 bytes
 *     before 8
 *   mutation: kind 1, blob 1, space 1, key bytes 2, value bytes 2, [blob], key, value, [inline
 *             bytes] blob of RECORD_BLOB_INLINE: bytes 2, XXH3 8
 *             blob of RECORD_BLOB_LOG: segment 4, extent offset 8, extent bytes 4, value offset 4,
 *               bytes 4, XXH3 8 */
#ifndef VLOG_RECORD_H
#define VLOG_RECORD_H

#include "base/buf.h"
#include "base/times.h"

enum {
    RECORD_ID_BYTES = 16,
    RECORD_SEGMENT_BYTES = 64,
    RECORD_GROUP_BYTES = 64,
    RECORD_VALUE_BYTES = 40,
    RECORD_MAGIC_BYTES = 4, /* of groups and values, for searching */
};

/* Where a header stands; part of its sum. */
struct record_spot {
    const unsigned char *id;
    uint32_t segment;
    uint64_t offset;
};

struct record_group {
    uint64_t seq;
    store_time time;
    uint64_t values_bytes;
    uint32_t meta_bytes;
    uint32_t mutations;
    uint32_t values;
    uint32_t unsynced; /* so many groups right before this one were not known to be on disk when it
                          was written */
};

struct record_value {
    uint64_t seq;
    uint64_t hash;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t space;
};

enum record_blob { RECORD_BLOB_NONE, RECORD_BLOB_INLINE, RECORD_BLOB_LOG, RECORD_BLOBS };

/* Place of a value in the log: extents are what space is counted in, and lie side by side. */
struct record_place {
    uint64_t hash;
    uint64_t extent_offset;
    uint32_t extent_size;
    uint32_t value_offset; /* from extent_offset */
    uint32_t segment;
    uint32_t n;
};

/* One row as it is after the group. Slices are borrowed. */
struct record_mutation {
    bool deleted;
    uint8_t space;
    enum record_blob blob;
    str key, value;
    str bytes;                 /* BLOB_INLINE: the blob */
    struct record_place place; /* BLOB_LOG; of BLOB_INLINE only n and hash */
};

/* The first four bytes of a group header. Static. */
str record_group_magic(void);

void record_segment_encode(struct record_spot at, char out[RECORD_SEGMENT_BYTES]);
MUST_CHECK err record_segment_decode(str bytes, struct record_spot at);

void record_group_encode(const struct record_group *g, struct record_spot at, str meta,
                         char out[RECORD_GROUP_BYTES]);
/* Checks the header alone. ERR_CORRUPT. */
MUST_CHECK err record_group_decode(str bytes, struct record_spot at, struct record_group *out);
/* Whether meta is what the header (RECORD_GROUP_BYTES at header) was written with. */
bool record_meta_fits(const char *header, struct record_spot at, str meta);

void record_value_encode(const struct record_value *v, struct record_spot at, str key,
                         char out[RECORD_VALUE_BYTES]);
/* bytes: header and, behind it, the key. Checks both. ERR_CORRUPT; ERR_LIMIT when the key is cut
 * off: *out then holds lengths that are not yet checked. */
MUST_CHECK err record_value_decode(str bytes, struct record_spot at, struct record_value *out);

size_t record_mutation_size(const struct record_mutation *m);
void record_mutation_encode(const struct record_mutation *m, struct buf *out);
/* Takes one mutation off the cursor. ERR_CORRUPT. Slices point into the cursor's bytes. */
MUST_CHECK err record_mutation_decode(struct cursor *c, struct record_mutation *out);

#endif
