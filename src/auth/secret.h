/* secret.h - the text of keys, and the hash by which a key is known. Private to auth.
 *
 * Key: `qtr-<tag>-<entropy>`, tag 1 to 16 of [0-9a-z], entropy at least 43 of [0-9A-Za-z]: 32
 * random bytes in base62, left padded. Pure. Thread: any. */
#ifndef AUTH_SECRET_H
#define AUTH_SECRET_H

#include "auth/auth.h"

enum { SECRET_HASH_BYTES = 32, SECRET_RANDOM_BYTES = 32, SECRET_TEXT_BYTES_MAX = 128 };

struct secret_hash {
    unsigned char bytes[SECRET_HASH_BYTES];
};

bool secret_tag_valid(str tag);
/* Empty, or a tag; else ERR_BAD and "<field> is invalid; ...". */
MUST_CHECK err tag_check(str tag, const char *field, struct err_note *note);
/* INVARIANT: the tag is valid. */
void secret_format(str tag, const unsigned char random[SECRET_RANDOM_BYTES],
                   char out[AUTH_KEY_BYTES_MAX + 1]);
/* What may be shown of it: `qtr-<tag>-` and eight characters. */
void secret_prefix(str key, char out[AUTH_PREFIX_BYTES_MAX + 1]);
/* Has it the form of a key? */
bool secret_valid(str key);
struct secret_hash secret_hash(str key);
/* In constant time. */
bool secret_hash_eq(const struct secret_hash *a, const struct secret_hash *b);

#endif
