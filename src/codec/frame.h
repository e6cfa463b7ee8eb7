/* frame.h - values as they lie in the store and go out over HTTP: as they are, gzip, or zstd.
 *
 * gzip is made by ISA-L at level 1 (docs/adr/0006) and read by libdeflate, one member without a time; zstd is
 * level 3, one frame without a checksum (records have their own). The same bytes give the same frame on the same
 * kind of processor. The raw size is stored beside a frame, so unpacking allocates exactly that and anything else
 * is damage. A struct frame_codec keeps the libraries' working memory between calls: one a thread, one behind a
 * lock, or one out of a struct frame_pool. */
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

/* *out lies in a; with FRAME_IDENTITY it is raw itself. Fails: ERR_LIMIT when a is full. Thread: one at a time. */
MUST_CHECK err frame_compress(struct frame_codec *f, enum frame_coding coding, str raw, struct arena *a, str *out);
/* The same into memory of the caller's, when the frame gets smaller than raw: *n is its size, at most raw.n - 1.
 * False: it does not (identity never does). out: raw.n bytes. Thread: one at a time. */
MUST_CHECK bool frame_squeeze(struct frame_codec *f, enum frame_coding coding, str raw, char *out, size_t *n);
/* Fails: ERR_CORRUPT when frame is not one frame of exactly raw_bytes, ERR_LIMIT when a is full. As above. */
MUST_CHECK err frame_decompress(struct frame_codec *f, enum frame_coding coding, str frame, size_t raw_bytes,
                                struct arena *a, str *out);

/* Codecs that wait for their next user. Thread: any. */
enum { FRAME_POOL_CODECS = 8 };
struct frame_pool { _Atomic(struct frame_codec *) idle[FRAME_POOL_CODECS]; };
void frame_pool_fini(struct frame_pool *p); /* a zeroed pool is an empty one */
struct frame_codec *frame_pool_take(struct frame_pool *p);
void frame_pool_give(struct frame_pool *p, struct frame_codec **fp);

#endif
