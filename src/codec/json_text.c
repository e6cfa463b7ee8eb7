#include "codec/json_text.h"

#include "base/utf8.h"

#include <string.h>

enum { HEX_DIGITS = 4 };

static bool take_hex(str *s, uint32_t *out)
{
    uint32_t value = 0;
    if (s->n < HEX_DIGITS)
        return false;
    for (size_t i = 0; i < HEX_DIGITS; i++) {
        int digit = str_hex_digit(s->p[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    *s = str_skip(*s, HEX_DIGITS);
    *out = value;
    return true;
}

/* What follows \u, with its other half when it is one of a pair. */
static bool take_unicode(str *s, uint32_t *out)
{
    uint32_t c, low;
    if (!take_hex(s, &c) || (c >= 0xdc00 && c <= 0xdfff))
        return false;
    *out = c;
    if (c < 0xd800 || c > 0xdbff)
        return true;
    if (!str_starts(*s, STR("\\u")))
        return false;
    *s = str_skip(*s, 2);
    if (!take_hex(s, &low) || low < 0xdc00 || low > 0xdfff)
        return false;
    *out = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* s: behind a backslash. */
static bool take_escape(str *s, uint32_t *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->n == 0)
        return false;
    char c = s->p[0];
    *s = str_skip(*s, 1);
    if (c == 'u')
        return take_unicode(s, out);
    const char *at = memchr(from, c, sizeof from - 1);
    if (at == NULL)
        return false;
    *out = (unsigned char)to[at - from];
    return true;
}

err json_text_unescape(struct arena *a, str quoted, str *out)
{
    if (str_find(quoted, '\\') == quoted.n) {
        *out = quoted;
        return ERR_OK;
    }
    char *text = arena_alloc(a, quoted.n),
         *end = text; /* an escape is never shorter than what it means */
    if (text == NULL)
        return ERR_LIMIT;
    for (;;) {
        size_t n = str_find(quoted, '\\');
        memcpy(end, quoted.p, n);
        end += n;
        if (n == quoted.n)
            break;
        uint32_t c;
        quoted = str_skip(quoted, n + 1);
        if (!take_escape(&quoted, &c))
            return ERR_BAD;
        end += utf8_put(end, c);
    }
    *out = (str){ .p = text, .n = (size_t)(end - text) };
    return ERR_OK;
}
