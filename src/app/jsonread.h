/* jsonread.h - reading JSON (RFC 8259) as slices of the request: strict, no copies but of escaped
 * strings.
 *
 * A value stays the text it was sent as, so that a stored object comes back byte for byte (numbers
 * of any size, key order, spacing). Depth is bounded by JSONREAD_DEPTH_MAX. The text as a whole
 * must be valid UTF-8: check it once before. Pure. Thread: any. */
#ifndef APP_JSONREAD_H
#define APP_JSONREAD_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { JSONREAD_DEPTH_MAX = 256 };
struct jsonread_member {
    str name, value;
}; /* name decoded, value as written */

/* The one value that text is, without the blanks around it. False: not JSON. */
MUST_CHECK bool jsonread_value(str text, str *value);
/* Members of an object value, in order. ERR_BAD: no object, a name twice; ERR_LIMIT: more than max
 * of them, or the arena. value must come from this module. */
MUST_CHECK err jsonread_members(struct arena *a, str value, struct jsonread_member *out,
                                unsigned max, unsigned *count);
/* The text of a string value, in the arena or inside value. ERR_BAD: no string, or a lone
 * surrogate; ERR_LIMIT. */
MUST_CHECK err jsonread_string(struct arena *a, str value, str *out);
/* Finds a member by name; NULL when absent. */
const struct jsonread_member *jsonread_find(const struct jsonread_member *m, unsigned count,
                                            const char *name);

#endif
