/* rowkey.h - keys of rows: fields one after the other, so that memcmp of two keys orders them by
 * their fields.
 *
 * Numbers are fixed-width big-endian; `_desc` stores the complement, which turns the order round.
 * Text ends with 00 01 and a 00 inside is 00 ff, so that no text's key runs into its neighbour's
 * whatever follows it (the encoding of FoundationDB's tuples, with CockroachDB's two-byte end). A
 * key is built in place, no allocation: one over ROWKEY_BYTES_MAX fails as a whole. Thread: any. */
#ifndef CODEC_ROWKEY_H
#define CODEC_ROWKEY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/tid.h"

enum { ROWKEY_BYTES_MAX = 500 };

struct rowkey {
    size_t n;
    bool failed; /* some put had no room; those after it did nothing */
    unsigned char bytes[ROWKEY_BYTES_MAX];
};

void rowkey_init(struct rowkey *k);
/* ERR_OK or ERR_LIMIT: whether all of the key is there. */
MUST_CHECK err rowkey_status(const struct rowkey *k);
/* The bytes so far; borrowed from k until its next change. */
str rowkey_str(const struct rowkey *k);

void rowkey_put_u8(struct rowkey *k, uint8_t v);
void rowkey_put_u16(struct rowkey *k, uint16_t v);
void rowkey_put_u32(struct rowkey *k, uint32_t v);
void rowkey_put_u64(struct rowkey *k, uint64_t v);
void rowkey_put_i64(struct rowkey *k, int64_t v);
void rowkey_put_u64_desc(struct rowkey *k, uint64_t v);
void rowkey_put_tid(struct rowkey *k, struct tid t);
void rowkey_put_tid_desc(struct rowkey *k, struct tid t);
/* Any bytes, ended and escaped. */
void rowkey_put_text(struct rowkey *k, str s);
/* Bytes as they are: only as the last field, or of a fixed width. */
void rowkey_put_raw(struct rowkey *k, str s);
/* Turns k into the least key above all keys that begin with it: the end of a scan over a prefix.
 * Empty (no such key: scan to the end) when k is all ff. */
void rowkey_prefix_end(struct rowkey *k);

/* The fields again, in the same order; past the end or on bytes no put wrote, c fails and they give
 * zero. */
int64_t rowkey_get_i64(struct cursor *c);
uint64_t rowkey_get_u64_desc(struct cursor *c);
struct tid rowkey_get_tid(struct cursor *c);
struct tid rowkey_get_tid_desc(struct cursor *c);
/* Borrowed from the key when nothing in it was escaped, else a copy in a; c fails when a is full.
 * u8, u16, u32 and u64 are read by cursor_u8 and its like. */
str rowkey_get_text(struct cursor *c, struct arena *a);

#endif
