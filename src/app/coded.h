/* coded.h - the body of a PUT that was sent in gzip or zstd: undone before anything looks at it.
 *
 * One member, one frame, nothing behind it, at most raw_max bytes once undone, a window of zstd of
 * at most 8 MiB. Such a body costs no more memory than it may hold: what it says of its size is
 * looked at first, and checked then. Digests, conditions and limits are of the raw bytes. Thread:
 * any. */
#ifndef APP_CODED_H
#define APP_CODED_H

#include "app/app.h"
#include "codec/frame.h"

struct coded_body {
    str raw;
    enum frame_coding coding; /* as it was sent */
    str frame;                /* as it was sent, when it may be stored so; else empty */
};

/* The request's body, in raw as it is meant. coding: the name of the coding, empty: none. False:
 * answered, 415 with Accept-Encoding, 400 bad_request#invalid_coding, 413 or 503. */
MUST_CHECK bool coded_body_read(struct http_exchange *x, const struct app *app, str coding,
                                size_t raw_max, struct coded_body *out);
/* Do both names mean one coding? */
bool coded_same(str one, str other);

#endif
