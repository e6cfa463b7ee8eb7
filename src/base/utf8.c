/* utf8.c - checks and cleans UTF-8, looks for spaces, and brings text to normal form C. Plain
 * ASCII takes a short way through each function; the rest goes to libunistring. */
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unictype.h>
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

size_t utf8_clean(str text, char *out, size_t bytes_max)
{
    size_t n = 0;
    while (text.n > 0) {
        ucs4_t c;
        int size = u8_mbtoucr(&c, bytes_of(text), text.n);
        size_t step = size > 0 ? (size_t)size : 1;
        if (n + step > bytes_max)
            break;
        if (size > 0)
            memcpy(out + n, text.p, step);
        else
            out[n] = '?';
        n += step;
        text = str_skip(text, step);
    }
    return n;
}

size_t utf8_put(char *out, uint32_t c)
{
    int n = u8_uctomb((uint8_t *)out, c, 4);
    INVARIANT(n > 0);
    return (size_t)n;
}

/* How many characters of s there are, and how many of them are spaces. */
static void count_spaces(str s, size_t *characters, size_t *spaces)
{
    *characters = *spaces = 0;
    while (s.n > 0) {
        ucs4_t c;
        int n = u8_mbtouc(&c, bytes_of(s), s.n); /* broken bytes: U+FFFD, at least one each */
        ++*characters;
        *spaces += uc_is_property_white_space(c) ? 1 : 0;
        s = str_skip(s, (size_t)n);
    }
}

bool utf8_has_space(str s)
{
    size_t characters, spaces;
    count_spaces(s, &characters, &spaces);
    return spaces > 0;
}

bool utf8_is_blank(str s)
{
    size_t characters, spaces;
    count_spaces(s, &characters, &spaces);
    return spaces == characters;
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
