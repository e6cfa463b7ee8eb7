/* json_text.c - strings of JSON: escapes both ways. */
#include "codec/json_text.h"

#include "base/utf8.h"

#include <string.h>

/* ---- writing ---- */

/* Have a short form: and which. */
static const char short_of[] = "\"\\\b\f\n\r\t", shorts[] = "\"\\bfnrt";

static bool is_plain(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x20 && u != '"' && u != '\\' && u != 0x7f;
}

size_t json_text_size(str s)
{
    size_t n = s.n + 2;
    for (size_t i = 0; i < s.n; i++)
        if (!is_plain(s.p[i]))
            n += memchr(short_of, s.p[i], sizeof short_of - 1) != NULL ? 1 : 5;
    return n;
}

void json_text_escape(char out[6], unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    memcpy(out, "\\u00", 4);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
}

static char *escape_put(char *out, char c)
{
    const char *at = memchr(short_of, c, sizeof short_of - 1);
    if (at == NULL) {
        json_text_escape(out, (unsigned char)c);
        return out + 6;
    }
    *out++ = '\\';
    *out++ = shorts[at - short_of];
    return out;
}

/* Copies what is written as it is, up to the next byte that is not; returns how much that was. */
static size_t plain_put(char *out, str s)
{
    size_t n = 0;
    while (n < s.n && is_plain(s.p[n]))
        n++;
    if (n > 0)
        memcpy(out, s.p, n);
    return n;
}

char *json_text_put(char *out, str s)
{
    *out++ = '"';
    for (;;) {
        size_t n = plain_put(out, s);
        out += n;
        if (n == s.n)
            break;
        out = escape_put(out, s.p[n]);
        s = str_skip(s, n + 1);
    }
    *out++ = '"';
    return out;
}

void json_text_append(struct buf *b, str s)
{
    char *at = buf_extend(b, json_text_size(s));
    if (at != NULL)
        (void)json_text_put(at, s);
}

/* How many bytes at s form one valid character; 0: none do. */
static size_t character(str s)
{
    unsigned char c = (unsigned char)s.p[0];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return n <= s.n && utf8_valid(str_take(s, n)) ? n : 0;
}

/* s with U+FFFD for each byte that is no UTF-8; STR_NONE: the arena is full. */
static str mended(struct arena *a, str s)
{
    char *text = s.n <= SIZE_MAX / 3 ? arena_alloc(a, 3 * s.n) : NULL, *end = text;
    if (text == NULL)
        return STR_NONE;
    while (s.n > 0) {
        size_t n = character(s);
        if (n > 0)
            memcpy(end, s.p, n);
        end += n > 0 ? n : utf8_put(end, 0xfffd);
        s = str_skip(s, n > 0 ? n : 1);
    }
    return (str){ .p = text, .n = (size_t)(end - text) };
}

str json_text_quote(struct arena *a, str s)
{
    str text = utf8_valid(s) ? s : mended(a, s);
    size_t n = s.n > 0 && text.n == 0 ? 0 : json_text_size(text);
    char *out = n == 0 ? NULL : arena_alloc(a, n);
    if (out == NULL)
        return STR_NONE;
    (void)json_text_put(out, text);
    return (str){ .p = out, .n = n };
}

/* ---- reading ---- */

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
