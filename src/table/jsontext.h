/* jsontext.h - writing JSON values into a buf, and base64 into it. Strings are codec/json_text.h's,
 * reading is codec/json.h's.
 *
 * Pure. Doubles and floats are written as the shortest decimal that reads back as the same number;
 * zero has no sign. */
#ifndef TABLE_JSONTEXT_H
#define TABLE_JSONTEXT_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>

enum { JSONTEXT_DEPTH_MAX = 64 };

void jsontext_double(struct buf *b, double v);
void jsontext_float(struct buf *b, float v);
/* Compact, keys in their order. ERR_LIMIT: nested deeper than JSONTEXT_DEPTH_MAX. */
MUST_CHECK err jsontext_any(struct buf *b, const json_t *json);
/* Keys in the order of their bytes: equal values have equal texts. */
MUST_CHECK err jsontext_sorted(struct buf *b, const json_t *json);
/* Standard alphabet, padded, without quotes. */
void jsontext_base64(struct buf *b, str bytes);

#endif
