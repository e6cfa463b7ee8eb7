#include "codec/base64.h"

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

err base64_encode(struct arena *a, str bytes, str *out)
{
    size_t size;
    if (__builtin_mul_overflow(bytes.n / 3 + (bytes.n % 3 != 0), 4, &size))
        return ERR_LIMIT;
    char *text = arena_alloc(a, size + 1);
    if (text == NULL)
        return ERR_LIMIT;
    size_t n = 0;
    for (str rest = bytes; rest.n > 0; rest = str_skip(rest, 3)) {
        uint32_t word = 0;
        for (size_t i = 0; i < 3; i++)
            word = word << 8 | (i < rest.n ? (unsigned char)rest.p[i] : 0u);
        for (size_t i = 0; i < 4; i++)
            text[n++] = i <= rest.n ? alphabet[word >> (18 - 6 * i) & 63] : '=';
    }
    text[n] = 0;
    *out = (str){ .p = text, .n = n };
    return ERR_OK;
}

/* The six bits of a letter, or -1. */
static int letter_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* One group of 2 to 4 letters into bytes; false on a foreign letter or bits that no byte takes. */
static bool group_decode(str letters, char *bytes)
{
    uint32_t word = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < letters.n ? letter_value(letters.p[i]) : 0;
        if (value < 0)
            return false;
        word = word << 6 | (uint32_t)value;
    }
    size_t count = letters.n - 1;
    if ((word & (0xffffffu >> 8 * count)) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(word >> (16 - 8 * i) & 0xff);
    return true;
}

err base64_decode(struct arena *a, str text, str *out)
{
    if (text.n % 4 != 0)
        return ERR_BAD;
    size_t padding = str_ends(text, STR("==")) ? 2 : str_ends(text, STR("=")) ? 1 : 0;
    char *bytes = arena_alloc(a, text.n / 4 * 3);
    if (bytes == NULL)
        return ERR_LIMIT;
    size_t n = 0;
    for (str rest = str_take(text, text.n - padding); rest.n > 0; rest = str_skip(rest, 4)) {
        str group = str_take(rest, 4);
        if (!group_decode(group, bytes + n))
            return ERR_BAD;
        n += group.n - 1;
    }
    *out = (str){ .p = bytes, .n = n };
    return ERR_OK;
}
