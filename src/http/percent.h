/* percent.h - percent-encoding (RFC 3986 2.1). Pure. */
#ifndef HTTP_PERCENT_H
#define HTTP_PERCENT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Percent-encodes into the arena all but unreserved characters (RFC 3986). */
str http_encode(struct arena *a, str s);
/* ERR_BAD on a broken escape. plus_is_space: form data. */
MUST_CHECK err http_decode(struct arena *a, str s, bool plus_is_space, str *out);
/* Nothing in it has to be encoded; false for what is empty. */
bool percent_is_plain(str s);
/* Every '%' is followed by two hex digits. */
bool percent_valid(str s);

#endif
