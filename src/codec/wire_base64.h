/* wire_base64.h - base64 as JSON of protobuf has it: either alphabet in, padded or not; the
 * standard one out. As Go reads it: line ends inside are passed over, stray bits at the end too.
 * Private to codec/wire*.c. */
#ifndef CODEC_WIRE_BASE64_H
#define CODEC_WIRE_BASE64_H

#include "base/arena.h"
#include "base/err.h"

/* Into a. Fails: ERR_BAD, ERR_LIMIT when a is full. */
MUST_CHECK err wire_base64_decode(struct arena *a, str text, str *out);
size_t wire_base64_size(size_t bytes_n);
/* Writes wire_base64_size(bytes.n) characters. */
void wire_base64_put(char *out, str bytes);

#endif
