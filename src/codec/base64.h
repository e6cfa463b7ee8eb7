/* base64.h - base64 (RFC 4648), the one of this program. Pure. Thread: any. */
#ifndef CODEC_BASE64_H
#define CODEC_BASE64_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* What base64_decode takes besides what base64_encode writes. Without a form one text is one
 * value. */
enum base64_form {
    BASE64_STRICT = 0,
    BASE64_URL = 1,       /* - and _ for + and /; not both alphabets in one text */
    BASE64_UNPADDED = 2,  /* no padding; padding that is there must be right */
    BASE64_LINE_ENDS = 4, /* CR and LF anywhere */
    BASE64_STRAY = 8,     /* bits at the end that belong to no byte */
    BASE64_TOKEN = BASE64_URL | BASE64_UNPADDED,
    BASE64_GO = BASE64_TOKEN | BASE64_LINE_ENDS | BASE64_STRAY /* as Go reads it in JSON */
};

/* Characters of so many bytes, padded. */
size_t base64_size(size_t bytes_n);
/* Writes base64_size(bytes.n) characters of the standard alphabet; returns their end. */
char *base64_put(char *out, str bytes);
/* The same into a, with a NUL behind it. Fails: ERR_LIMIT when a is full. */
MUST_CHECK err base64_encode(struct arena *a, str bytes, str *out);
/* URL alphabet without padding, into a; STR_NONE when it is full. */
str base64_url(struct arena *a, str bytes);
/* Into a. forms: of enum base64_form. Fails: ERR_BAD, ERR_LIMIT when a is full. */
MUST_CHECK err base64_decode(struct arena *a, str text, unsigned forms, str *out);

#endif
