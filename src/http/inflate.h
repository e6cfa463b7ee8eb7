/* inflate.h - undoes gzip and deflate as the bytes come, into a buffer with a maximum. Private to
 * http.
 *
 * gzip may have several members (RFC 1952 2.2). "deflate" is the zlib format, or the bare one that
 * some servers send by that name; the first byte tells them apart. Pure. Thread: one at a time. */
#ifndef HTTP_INFLATE_H
#define HTTP_INFLATE_H

#include "base/buf.h"

#include <zlib.h>

enum inflate_format { INFLATE_GZIP, INFLATE_DEFLATE };

struct inflater {
    z_stream z;
    enum inflate_format format;
    bool begun, ended; /* within a stream's bytes; at the end of one */
};

/* Small, until bytes come. */
void inflater_init(struct inflater *f, enum inflate_format format);
void inflater_fini(struct inflater *f);
/* ERR_BAD: these are no such bytes, or more than the stream has. ERR_LIMIT: out is full. */
MUST_CHECK err inflater_push(struct inflater *f, str in, struct buf *out);
/* No more will come. ERR_BAD: the stream is not whole. No bytes at all are fine. */
MUST_CHECK err inflater_end(const struct inflater *f);

#endif
