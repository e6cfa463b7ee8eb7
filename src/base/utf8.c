#include "base/utf8.h"

#include <stdlib.h>
#include <uninorm.h>
#include <unistr.h>

static const uint8_t *bytes_of(str s)
{
    return (const uint8_t *)s.p;
}

static bool is_ascii(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return true;
}

bool utf8_valid(str s)
{
    return s.n == 0 || u8_check(bytes_of(s), s.n) == NULL;
}

err utf8_nfc(struct arena *a, str s, str *out)
{
    if (is_ascii(s)) {
        *out = s;
        return ERR_OK;
    }
    if (!utf8_valid(s))
        return ERR_BAD;
    size_t n = 0;
    uint8_t *normal = u8_normalize(UNINORM_NFC, bytes_of(s), s.n, NULL, &n);
    if (normal == NULL)
        return ERR_LIMIT;
    str form = { .p = (const char *)normal, .n = n };
    str kept = str_eq(form, s) ? s : arena_copy(a, form);
    free(normal);
    if (kept.p == NULL)
        return ERR_LIMIT;
    *out = kept;
    return ERR_OK;
}
