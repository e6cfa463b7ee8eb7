/* utf8.h - validity, spaces and normal form of titles and names (UTF-8 by RFC 3629, the rest by
 * Unicode through libunistring). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/arena.h"
#include "base/err.h"

/* No overlong forms, no surrogates, nothing above U+10FFFF. */
bool utf8_valid(str s);
/* The text with a '?' for each byte that is no UTF-8: as many whole characters as have room.
 * Returns their bytes. */
size_t utf8_clean(str text, char *out, size_t bytes_max);
/* Writes c, which is no surrogate and at most U+10FFFF, and says in how many bytes: 4 at most. */
size_t utf8_put(char *out, uint32_t c);
/* Does any character of s (valid UTF-8) have Unicode's property White_Space? And has every one
 * (also of none)? */
bool utf8_has_space(str s);
bool utf8_is_blank(str s);
/* The NFC form, in the arena (or s itself when it is in that form already). ERR_BAD: not UTF-8;
 * ERR_LIMIT. */
MUST_CHECK err utf8_nfc(struct arena *a, str s, str *out);

#endif
