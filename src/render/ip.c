/* ip.c - brings IP addresses in titles of user pages to the form that MediaWiki gives them. */
#include "render/siteinfo.h"

#include <string.h>

enum { GROUPS = 8, OCTETS = 4 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static str without_zeros(str s)
{
    while (s.n > 1 && s.p[0] == '0')
        s = str_skip(s, 1);
    return s;
}

/* Is s a range such as "/24", of at most bits? An empty text is none, and fine. */
static bool is_range(str s, uint64_t bits)
{
    uint64_t n;
    return s.n == 0 || (s.p[0] == '/' && s.n <= 4 && str_to_u64(str_skip(s, 1), &n) && n <= bits);
}

/* Four numbers to 255, leading zeros dropped. False: it is no such address. */
static bool split_v4(str address, str octets[OCTETS])
{
    for (unsigned i = 0; i < OCTETS; i++) {
        uint64_t n;
        if (address.p == NULL)
            return false;
        octets[i] = str_split(&address, '.');
        if (octets[i].n > 3 || !str_to_u64(octets[i], &n) || n > 255)
            return false;
        octets[i] = without_zeros(octets[i]);
    }
    return address.p == NULL;
}

/* STR_NONE: it is no such address. */
static str format_v4(struct arena *a, str address, str range)
{
    str o[OCTETS];
    if (!split_v4(address, o) || !is_range(range, 32))
        return STR_NONE;
    return arena_printf(a, "%.*s.%.*s.%.*s.%.*s%.*s", STR_ARG(o[0]), STR_ARG(o[1]), STR_ARG(o[2]),
                        STR_ARG(o[3]), STR_ARG(range));
}

/* Splits groups between colons. Returns how many; GROUPS + 1: they are no groups. An empty text has
 * none. */
static unsigned split_v6(str s, str groups[GROUPS])
{
    unsigned count = 0;
    while (s.p != NULL && s.n > 0) {
        str g = str_split(&s, ':');
        if (count == GROUPS || g.n == 0 || g.n > 4 || (s.p != NULL && s.n == 0))
            return GROUPS + 1;
        for (size_t i = 0; i < g.n; i++)
            if (!is_hex(g.p[i]))
                return GROUPS + 1;
        groups[count++] = without_zeros(g);
    }
    return count;
}

/* "::" stands for as many zero groups as are missing, one at least. */
static bool expand_v6(str address, str out[GROUPS])
{
    str head[GROUPS], tail[GROUPS];
    size_t gap = str_find_str(address, STR("::"));
    bool whole = gap == address.n;
    unsigned before = split_v6(str_take(address, gap), head);
    unsigned after = whole ? 0 : split_v6(str_skip(address, gap + 2), tail);
    if (before > GROUPS || after > GROUPS || (whole ? before != GROUPS : before + after >= GROUPS))
        return false;
    for (unsigned i = 0; i < GROUPS; i++)
        out[i] = i < before ? head[i] : i >= GROUPS - after ? tail[i - (GROUPS - after)] : STR("0");
    return true;
}

/* Groups in capitals, as MediaWiki writes them. STR_NONE: it is no such address. */
static str format_v6(struct arena *a, str address, str range)
{
    str g[GROUPS];
    if (!expand_v6(address, g) || !is_range(range, 128))
        return STR_NONE;
    char text[GROUPS * 5], *at = text;
    for (unsigned i = 0; i < GROUPS; i++) {
        for (size_t k = 0; k < g[i].n; k++) {
            char c = g[i].p[k];
            *at++ = c >= 'a' && c <= 'f' ? (char)(c - 'a' + 'A') : c;
        }
        *at++ = ':';
    }
    return arena_printf(a, "%.*s%.*s", (int)(at - 1 - text), text, STR_ARG(range));
}

/* What is no address stays as it is: it is the name of a user. */
str title_ip(struct arena *a, str s)
{
    size_t slash = str_find(s, '/');
    str address = str_take(s, slash), range = str_skip(s, slash);
    if (address.n == 0 || address.n > GROUPS * 5)
        return s;
    str out = format_v4(a, address, range);
    if (out.p == NULL)
        out = format_v6(a, address, range);
    return out.p != NULL ? out : s;
}
