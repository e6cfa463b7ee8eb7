/* secret.c - makes the text of a key, checks it, and hashes it. Invariant: the store gets the
 * hash and the prefix of a key, never its text. */
#include "auth/secret.h"

#include "base/buf.h"
#include "base/ksuid.h"
#include "codec/sha256.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum { ENTROPY_DIGITS = 43, NUMBER_BYTES_MAX = 32 };
static const char digits62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* The number in bytes (big-endian) as digits of base 62, left padded; INVARIANT: it fits. */
static void base62(const unsigned char *bytes, size_t n, char *out, size_t digits)
{
    unsigned char number[NUMBER_BYTES_MAX];
    INVARIANT(n <= sizeof number);
    memcpy(number, bytes, n);
    for (size_t d = digits; d > 0; d--) {
        unsigned rest = 0;
        for (size_t i = 0; i < n; i++) {
            unsigned now = rest << 8 | number[i];
            number[i] = (unsigned char)(now / 62);
            rest = now % 62;
        }
        out[d - 1] = digits62[rest];
    }
    for (size_t i = 0; i < n; i++)
        INVARIANT(number[i] == 0);
    out[digits] = '\0';
}

bool secret_tag_valid(str tag)
{
    if (tag.n == 0 || tag.n > AUTH_TAG_BYTES_MAX)
        return false;
    for (size_t i = 0; i < tag.n; i++)
        if (!((tag.p[i] >= '0' && tag.p[i] <= '9') || (tag.p[i] >= 'a' && tag.p[i] <= 'z')))
            return false;
    return true;
}

err tag_check(str tag, const char *field, struct err_note *note)
{
    if (tag.n == 0 || secret_tag_valid(tag))
        return ERR_OK;
    if (tag.n > AUTH_TAG_BYTES_MAX)
        err_note_set(note, "%s is invalid; cannot be greater than %d characters", field,
                     AUTH_TAG_BYTES_MAX);
    else
        err_note_set(note, "%s is invalid; must be lowercase alphanumeric only", field);
    return ERR_BAD;
}

void secret_format(str tag, const unsigned char random[SECRET_RANDOM_BYTES],
                   char out[AUTH_KEY_BYTES_MAX + 1])
{
    INVARIANT(secret_tag_valid(tag));
    char entropy[ENTROPY_DIGITS + 1];
    base62(random, SECRET_RANDOM_BYTES, entropy, ENTROPY_DIGITS);
    (void)snprintf(out, AUTH_KEY_BYTES_MAX + 1, "qtr-%.*s-%s", STR_ARG(tag),
                   entropy); /* fits by its size */
    OPENSSL_cleanse(entropy, sizeof entropy);
}

void secret_prefix(str key, char out[AUTH_PREFIX_BYTES_MAX + 1])
{
    size_t dash = 4 + str_find(str_skip(key, 4), '-');
    str shown = str_take(key, dash + 1 + 8);
    INVARIANT(str_to_cstr(shown, out, AUTH_PREFIX_BYTES_MAX + 1));
}

bool secret_valid(str key)
{
    if (key.n > SECRET_TEXT_BYTES_MAX || !str_starts(key, STR("qtr-")))
        return false;
    str rest = str_skip(key, 4);
    if (!secret_tag_valid(str_split(&rest, '-')) || rest.n < ENTROPY_DIGITS)
        return false;
    for (size_t i = 0; i < rest.n; i++)
        if (rest.p[i] == '\0' || strchr(digits62, rest.p[i]) == NULL)
            return false;
    return true;
}

struct secret_hash secret_hash(str key)
{
    struct secret_hash h;
    sha256_of(key, h.bytes);
    return h;
}

bool secret_hash_eq(const struct secret_hash *a, const struct secret_hash *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
