#include "codec/wire_base64.h"

static const char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum { NO_LETTER = 255, LINE_END = 254, PADDING = 253 };

/* Six bits of each character in the standard alphabet; in the other one - and _ stand for + and
 * /. */
static unsigned char value_of(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned char)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned char)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (unsigned char)(c - '0' + 52);
    if (c == (url ? '-' : '+'))
        return 62;
    if (c == (url ? '_' : '/'))
        return 63;
    if (c == '\r' || c == '\n')
        return LINE_END;
    return c == '=' ? PADDING : NO_LETTER;
}

struct decoder {
    char *out;
    size_t out_n, letters_n, padding_n;
    uint32_t word;
};

/* False: the character does not belong here. */
static bool decode_one(struct decoder *d, unsigned char value)
{
    if (value == LINE_END)
        return true;
    if (value == PADDING) {
        d->padding_n++;
        return d->padding_n <= 2;
    }
    if (value == NO_LETTER || d->padding_n > 0)
        return false;
    d->word = d->word << 6 | value;
    if (++d->letters_n % 4 != 0)
        return true;
    d->out[d->out_n++] = (char)(d->word >> 16 & 0xff);
    d->out[d->out_n++] = (char)(d->word >> 8 & 0xff);
    d->out[d->out_n++] = (char)(d->word & 0xff);
    return true;
}

/* The last group, of fewer than four letters. */
static bool decode_end(struct decoder *d)
{
    size_t left = d->letters_n % 4;
    if (left == 1 || (d->padding_n > 0 && left + d->padding_n != 4))
        return false;
    if (left >= 2)
        d->out[d->out_n++] = (char)(d->word >> (left == 2 ? 4 : 10) & 0xff);
    if (left == 3)
        d->out[d->out_n++] = (char)(d->word >> 2 & 0xff);
    return true;
}

err wire_base64_decode(struct arena *a, str text, str *out)
{
    struct decoder d = { .out = arena_alloc(a, text.n / 4 * 3 + 3) };
    if (d.out == NULL)
        return ERR_LIMIT;
    bool url = str_find(text, '-') < text.n || str_find(text, '_') < text.n;
    for (size_t i = 0; i < text.n; i++)
        if (!decode_one(&d, value_of(text.p[i], url)))
            return ERR_BAD;
    if (!decode_end(&d))
        return ERR_BAD;
    *out = (str){ .p = d.out, .n = d.out_n };
    return ERR_OK;
}

size_t wire_base64_size(size_t bytes_n)
{
    return bytes_n / 3 * 4 + (bytes_n % 3 != 0 ? 4 : 0);
}

void wire_base64_put(char *out, str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t n = bytes.n;
    for (; n >= 3; n -= 3, p += 3) {
        *out++ = letters[p[0] >> 2];
        *out++ = letters[(p[0] & 3) << 4 | p[1] >> 4];
        *out++ = letters[(p[1] & 15) << 2 | p[2] >> 6];
        *out++ = letters[p[2] & 63];
    }
    if (n == 0)
        return;
    *out++ = letters[p[0] >> 2];
    *out++ = letters[(p[0] & 3) << 4 | (n == 2 ? p[1] >> 4 : 0)];
    *out++ = n == 2 ? letters[(p[1] & 15) << 2] : '=';
    *out++ = '=';
}
