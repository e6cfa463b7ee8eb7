/* frame.h - values as they lie in the store and go out over HTTP: as they are, gzip, or zstd.
 *
 * gzip is made by ISA-L at level 1 (docs/adr/0006) and read by libdeflate, one member without a
 * time; zstd is level 3, one frame without a checksum (records have their own). The same bytes give
 * the same frame on the same kind of processor. The raw size is stored beside a frame, so unpacking
 * allocates exactly that and anything else is damage. A struct frame_codec keeps the libraries'
 * working memory between calls: one a thread, one behind a lock, or one out of a struct
 * frame_pool. */
#ifndef CODEC_FRAME_H
#define CODEC_FRAME_H

#include "base/arena.h"
#include "base/err.h"

enum frame_coding { FRAME_IDENTITY, FRAME_GZIP, FRAME_ZSTD, FRAME_CODINGS };
struct frame_codec;

/* Owner: caller. Dies when out of memory. */
struct frame_codec *frame_codec_new(void);
void frame_codec_free(struct frame_codec **fp);
/* "identity", "gzip", "zstd": the names of HTTP. Static. */
const char *frame_coding_name(enum frame_coding coding);
/* By a name of HTTP's, in any letter case; empty: identity. False: unknown, and *out is identity.
 */
MUST_CHECK bool frame_coding_find(str name, enum frame_coding *out);

/* *out lies in a; with FRAME_IDENTITY it is raw itself. Fails: ERR_LIMIT when a is full,
 * ERR_UNAVAILABLE when there is no memory to work in. Thread: one at a time. */
MUST_CHECK err frame_compress(struct frame_codec *f, enum frame_coding coding, str raw,
                              struct arena *a, str *out);
/* The same into memory of the caller's, when the frame gets smaller than raw: *n is its size, at
 * most raw.n - 1. False: it does not (identity never does), or there is no memory to work in. out:
 * raw.n bytes. Thread: one at a time. */
MUST_CHECK bool frame_squeeze(struct frame_codec *f, enum frame_coding coding, str raw, char *out,
                              size_t *n);
/* Fails: ERR_CORRUPT when frame is not one frame of exactly raw_bytes, ERR_LIMIT when a is full,
 * ERR_UNAVAILABLE when there is no memory to work in. As above. */
MUST_CHECK err frame_decompress(struct frame_codec *f, enum frame_coding coding, str frame,
                                size_t raw_bytes, struct arena *a, str *out);

/* How many bytes a frame of a stranger's says that it holds, or is found to: nothing is allocated
 * for them, and frame_unpack is to be asked next, which checks every byte. Fails: ERR_BAD (not one
 * whole frame, a window of zstd of more than FRAME_WINDOW_BYTES_MAX), ERR_LIMIT (more than
 * raw_max), ERR_UNAVAILABLE (no memory). As above. */
enum { FRAME_WINDOW_BYTES_MAX = 8 << 20 }; /* RFC 9659 */
MUST_CHECK err frame_measure(enum frame_coding coding, str frame, size_t raw_max,
                             size_t *raw_bytes);
/* As frame_decompress, of a frame that was measured: gzip is read by zlib, as clients read it.
 * libdeflate takes codes of deflate that stand for nothing (286, 287; distances 30, 31), and such a
 * frame must not be stored. Fails: ERR_UNAVAILABLE too (no memory). */
MUST_CHECK err frame_unpack(struct frame_codec *f, enum frame_coding coding, str frame,
                            size_t raw_bytes, struct arena *a, str *out);
/* What the tail of a member of gzip says of the bytes it holds. */
struct frame_sum {
    size_t bytes;
    uint32_t crc;
};
struct frame_sum frame_sum_of(str raw);
/* Does the tail of frame say so? Other bytes may have that sum. False too for what is no member.
 * Thread: any. */
bool frame_gzip_says(str frame, struct frame_sum sum);
/* Does a member of gzip that frame_unpack took hold raw? All of it is undone when its tail says so,
 * without memory for what it holds. False too for what is no such member. Fails: ERR_UNAVAILABLE
 * (no memory). Thread: any. */
MUST_CHECK err frame_gzip_holds(str frame, str raw, bool *holds);
/* May a frame of a stranger's be stored as it came? It says nothing of its writer but for the
 * bytes. */
bool frame_is_plain(enum frame_coding coding, str frame);
/* What a plain frame still tells is taken out: the time of gzip. */
void frame_clean(enum frame_coding coding, char *frame, size_t n);

/* Codecs that wait for their next user. Thread: any. */
enum { FRAME_POOL_CODECS = 8 };
struct frame_pool {
    _Atomic(struct frame_codec *) idle[FRAME_POOL_CODECS];
};
void frame_pool_fini(struct frame_pool *p); /* a zeroed pool is an empty one */
struct frame_codec *frame_pool_take(struct frame_pool *p);
void frame_pool_give(struct frame_pool *p, struct frame_codec **fp);

#endif
