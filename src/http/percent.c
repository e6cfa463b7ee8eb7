/* percent.c - percent-encodes and decodes parts of URLs. */
#include "http/percent.h"

#include <string.h>

bool percent_valid(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%')
            continue;
        if (s.n - i < 3 || str_hex_digit(s.p[i + 1]) < 0 || str_hex_digit(s.p[i + 2]) < 0)
            return false;
        i += 2;
    }
    return true;
}

static bool is_unreserved(unsigned char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

bool percent_is_plain(str s)
{
    size_t i = 0;
    while (i < s.n && is_unreserved((unsigned char)s.p[i]))
        i++;
    return i == s.n && s.n > 0;
}

str http_encode(struct arena *a, str s)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += is_unreserved((unsigned char)s.p[i]) ? 1 : 3;
    char *at = arena_alloc(a, n + 1);
    if (at == NULL)
        return STR_NONE;
    char *to = at;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (is_unreserved(c)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = 0;
    return (str){ .p = at, .n = n };
}

err http_decode(struct arena *a, str s, bool plus_is_space, str *out)
{
    if (!percent_valid(s))
        return ERR_BAD;
    char *at = arena_alloc(a, s.n + 1);
    if (at == NULL)
        return ERR_LIMIT;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            at[n++] = (char)(str_hex_digit(s.p[i + 1]) * 16 + str_hex_digit(s.p[i + 2]));
            i += 2;
        } else {
            at[n++] = plus_is_space && s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    at[n] = 0;
    *out = (str){ .p = at, .n = n };
    return ERR_OK;
}
