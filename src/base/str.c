/* str.c - compares, cuts, searches and converts borrowed slices. Nothing here copies or
 * allocates, but str_to_cstr into the caller's array. */
#include "base/str.h"

#include <string.h>

str str_of(const char *cstring)
{
    if (cstring == NULL)
        return STR_NONE;
    return (str){ .p = cstring, .n = strlen(cstring) };
}

bool str_eq(str a, str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static char str_lower(char c)
{
    return (c >= 'A' && c <= 'Z') ? (char)(c - 'A' + 'a') : c;
}

bool str_eq_nocase(str a, str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (str_lower(a.p[i]) != str_lower(b.p[i]))
            return false;
    return true;
}

bool str_starts(str s, str prefix)
{
    return s.n >= prefix.n && str_eq(str_take(s, prefix.n), prefix);
}

bool str_ends(str s, str suffix)
{
    return s.n >= suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

int str_cmp(str a, str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n == 0 ? 0 : memcmp(a.p, b.p, n);
    if (order != 0)
        return order;
    return (a.n > b.n) - (a.n < b.n);
}

str str_skip(str s, size_t n)
{
    if (n >= s.n)
        return (str){ .p = s.p == NULL ? NULL : s.p + s.n, .n = 0 };
    return (str){ .p = s.p + n, .n = s.n - n };
}

str str_take(str s, size_t n)
{
    return (str){ .p = s.p, .n = n < s.n ? n : s.n };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

str str_trim(str s)
{
    while (s.n > 0 && is_blank(s.p[0]))
        s = str_skip(s, 1);
    while (s.n > 0 && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

size_t str_find(str s, char c)
{
    if (s.n == 0)
        return 0;
    const char *at = memchr(s.p, c, s.n);
    return at == NULL ? s.n : (size_t)(at - s.p);
}

size_t str_find_str(str s, str needle)
{
    if (needle.n == 0)
        return 0;
    if (needle.n > s.n)
        return s.n;
    for (size_t i = 0; i + needle.n <= s.n; i++) {
        const char *at = memchr(s.p + i, needle.p[0], s.n - needle.n - i + 1);
        if (at == NULL)
            return s.n;
        i = (size_t)(at - s.p);
        if (memcmp(at, needle.p, needle.n) == 0)
            return i;
    }
    return s.n;
}

str str_split(str *rest, char sep)
{
    size_t at = str_find(*rest, sep);
    str head = str_take(*rest, at);
    *rest = at == rest->n ? STR_NONE : str_skip(*rest, at + 1);
    return head;
}

bool str_to_u64(str s, uint64_t *out)
{
    if (s.n == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value))
            return false;
        if (__builtin_add_overflow(value, (uint64_t)(s.p[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool str_to_i64(str s, int64_t *out)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t value;
    if (!str_to_u64(negative ? str_skip(s, 1) : s, &value))
        return false;
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1u : 0u);
    if (value > limit)
        return false;
    if (negative)
        *out = value == limit ? INT64_MIN : -(int64_t)value;
    else
        *out = (int64_t)value;
    return true;
}

int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool str_to_cstr(str s, char *dst, size_t dst_size)
{
    if (s.n >= dst_size || (s.n > 0 && memchr(s.p, 0, s.n) != NULL))
        return false;
    if (s.n > 0)
        memcpy(dst, s.p, s.n);
    dst[s.n] = 0;
    return true;
}
