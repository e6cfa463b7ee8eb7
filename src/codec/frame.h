/* frame.h - values as they lie in the store and go out over HTTP: as they are, gzip, or zstd.
 *
 * gzip is libdeflate at level 1, one member without a time; zstd is level 3, one frame without a checksum
 * (records have their own). The same bytes give the same frame. The raw size is stored beside a frame, so
 * unpacking allocates exactly that and anything else is damage. A struct frame_codec keeps the libraries'
 * working memory between calls: one a thread, or one behind a lock. */
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
/* Fails: ERR_CORRUPT when frame is not one frame of exactly raw_bytes, ERR_LIMIT when a is full. As above. */
MUST_CHECK err frame_decompress(struct frame_codec *f, enum frame_coding coding, str frame, size_t raw_bytes,
                                struct arena *a, str *out);

#endif
