/* base64.h - RFC 4648 section 4, strict: padded, no line ends, no stray bits, so that one text is
 * one value. */
#ifndef CODEC_BASE64_H
#define CODEC_BASE64_H

#include "base/arena.h"
#include "base/err.h"

/* Into a, with a NUL behind it. Fails: ERR_LIMIT when a is full. */
MUST_CHECK err base64_encode(struct arena *a, str bytes, str *out);
/* Into a. Fails: ERR_BAD for text that base64_encode does not write, ERR_LIMIT when a is full. */
MUST_CHECK err base64_decode(struct arena *a, str text, str *out);

#endif
