/* base64.c - three bytes are four letters of six bits. */
#include "codec/base64.h"

static const char standard[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- writing ---- */

size_t base64_size(size_t bytes_n)
{
    return bytes_n / 3 * 4 + (bytes_n % 3 != 0 ? 4 : 0);
}

char *base64_put(char *out, str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t n = bytes.n;
    for (; n >= 3; n -= 3, p += 3) {
        *out++ = standard[p[0] >> 2];
        *out++ = standard[(p[0] & 3) << 4 | p[1] >> 4];
        *out++ = standard[(p[1] & 15) << 2 | p[2] >> 6];
        *out++ = standard[p[2] & 63];
    }
    if (n == 0)
        return out;
    *out++ = standard[p[0] >> 2];
    *out++ = standard[(p[0] & 3) << 4 | (n == 2 ? p[1] >> 4 : 0)];
    *out++ = n == 2 ? standard[(p[1] & 15) << 2] : '=';
    *out++ = '=';
    return out;
}

err base64_encode(struct arena *a, str bytes, str *out)
{
    if (bytes.n > SIZE_MAX / 2)
        return ERR_LIMIT;
    size_t n = base64_size(bytes.n);
    char *text = arena_alloc(a, n + 1);
    if (text == NULL)
        return ERR_LIMIT;
    *base64_put(text, bytes) = '\0';
    *out = (str){ .p = text, .n = n };
    return ERR_OK;
}

str base64_url(struct arena *a, str bytes)
{
    char *text = bytes.n > SIZE_MAX / 2 ? NULL : arena_alloc(a, base64_size(bytes.n));
    if (text == NULL)
        return STR_NONE;
    size_t n = (size_t)(base64_put(text, bytes) - text);
    while (n > 0 && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    return (str){ .p = text, .n = n };
}

/* ---- reading ---- */

enum { BITS = 63, OF_STANDARD = 64, OF_URL = 128, NO_LETTER = 255 };

/* The six bits of a letter, and which alphabet it is of when it is not of both. */
static unsigned letter_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    if (c == '+' || c == '/')
        return OF_STANDARD | (c == '+' ? 62 : 63);
    return c == '-' || c == '_' ? OF_URL | (c == '-' ? 62u : 63u) : NO_LETTER;
}

struct decoder {
    char *end;
    size_t letters, padding;
    uint32_t word;
    unsigned seen; /* OF_STANDARD, OF_URL */
};

/* False: the character does not belong here. */
static bool decode_one(struct decoder *d, char c, unsigned forms)
{
    if ((c == '\r' || c == '\n') && (forms & BASE64_LINE_ENDS) != 0)
        return true;
    if (c == '=')
        return ++d->padding <= 2;
    unsigned value = letter_value(c);
    if (value == NO_LETTER || d->padding > 0)
        return false;
    d->seen |= value;
    d->word = d->word << 6 | (value & BITS);
    if (++d->letters % 4 == 0) {
        *d->end++ = (char)(d->word >> 16 & 0xff);
        *d->end++ = (char)(d->word >> 8 & 0xff);
        *d->end++ = (char)(d->word & 0xff);
    }
    return true;
}

/* The last group, of fewer than four letters, and what all of them say together. */
static bool decode_end(struct decoder *d, unsigned forms)
{
    size_t left = d->letters % 4;
    size_t padding = left == 0 ? 0 : 4 - left;
    bool unpadded = d->padding == 0 && (forms & BASE64_UNPADDED) != 0;
    if (left == 1 || (d->padding != padding && !unpadded))
        return false;
    if ((d->seen & OF_URL) != 0 && ((d->seen & OF_STANDARD) != 0 || (forms & BASE64_URL) == 0))
        return false;
    uint32_t stray = left == 2 ? d->word & 15 : left == 3 ? d->word & 3 : 0;
    if (stray != 0 && (forms & BASE64_STRAY) == 0)
        return false;
    if (left >= 2)
        *d->end++ = (char)(d->word >> (left == 2 ? 4 : 10) & 0xff);
    if (left == 3)
        *d->end++ = (char)(d->word >> 2 & 0xff);
    return true;
}

err base64_decode(struct arena *a, str text, unsigned forms, str *out)
{
    char *bytes = arena_alloc(a, text.n / 4 * 3 + 3);
    struct decoder d = { .end = bytes };
    if (bytes == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < text.n; i++)
        if (!decode_one(&d, text.p[i], forms))
            return ERR_BAD;
    if (!decode_end(&d, forms))
        return ERR_BAD;
    *out = (str){ .p = bytes, .n = (size_t)(d.end - bytes) };
    return ERR_OK;
}
