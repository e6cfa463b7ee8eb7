/* goduration.c - parses and prints durations as Go does, with Go's words for errors: clients of
 * Querator compare them. */
#include "codec/goduration.h"

#include <string.h>

/* Of the size of a duration; the positive ones end one before. */
#define NS_MAX ((uint64_t)1 << 63)

static const struct {
    str name;
    uint64_t ns;
} units[] = {
    { STR_INIT("ns"), 1 },
    { STR_INIT("us"), 1000 },
    { STR_INIT("\xc2\xb5s"), 1000 }, /* micro sign */
    { STR_INIT("\xce\xbcs"), 1000 }, /* mu */
    { STR_INIT("ms"), 1000000 },
    { STR_INIT("s"), 1000000000 },
    { STR_INIT("m"), UINT64_C(60000000000) },
    { STR_INIT("h"), UINT64_C(3600000000000) },
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- reading ---- */

/* As Go quotes it: bytes outside ASCII and controls as \xNN. p NULL when the arena is full. */
static str quote(struct arena *a, str s)
{
    static const char hex[] = "0123456789abcdef";
    char *text = arena_alloc(a, s.n * 4 + 2), *o = text;
    if (text == NULL)
        return STR_NONE;
    *o++ = '"';
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x80 || c < 0x20) {
            *o++ = '\\';
            *o++ = 'x';
            *o++ = hex[c >> 4];
            *o++ = hex[c & 15];
            continue;
        }
        if (c == '"' || c == '\\')
            *o++ = '\\';
        *o++ = (char)c;
    }
    *o++ = '"';
    return (str){ .p = text, .n = (size_t)(o - text) };
}

static err goduration_refuse(struct arena *a, const char *what, str part, str text, str *why)
{
    str quoted = quote(a, text), unit = part.n == 0 ? STR("") : quote(a, part);
    if (quoted.p == NULL || unit.p == NULL)
        return ERR_LIMIT;
    *why = arena_printf(a, "time: %s%.*s%sduration %.*s", what, STR_ARG(unit),
                        part.n == 0 ? "" : " in ", STR_ARG(quoted));
    return why->p == NULL ? ERR_LIMIT : ERR_BAD;
}

/* The digits at the front of *s. False: too large. */
static bool take_whole(str *s, uint64_t *out)
{
    uint64_t value = 0;
    for (; s->n > 0 && is_digit(s->p[0]); *s = str_skip(*s, 1)) {
        if (value > NS_MAX / 10)
            return false;
        value = value * 10 + (uint64_t)(s->p[0] - '0');
        if (value > NS_MAX)
            return false;
    }
    *out = value;
    return true;
}

/* The digits after a point: those that still fit, and what they are to be divided by. */
static void take_fraction(str *s, uint64_t *out, double *scale)
{
    bool full = false;
    *out = 0;
    *scale = 1;
    for (; s->n > 0 && is_digit(s->p[0]); *s = str_skip(*s, 1)) {
        uint64_t next = *out * 10 + (uint64_t)(s->p[0] - '0');
        full = full || *out > (NS_MAX - 1) / 10 || next > NS_MAX;
        if (full)
            continue;
        *out = next;
        *scale *= 10;
    }
}

static str take_unit(str *s)
{
    size_t n = 0;
    while (n < s->n && s->p[n] != '.' && !is_digit(s->p[n]))
        n++;
    str unit = str_take(*s, n);
    *s = str_skip(*s, n);
    return unit;
}

static uint64_t unit_ns(str name)
{
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (str_eq(units[i].name, name))
            return units[i].ns;
    return 0;
}

enum piece { PIECE_FINE, PIECE_INVALID, PIECE_NO_UNIT, PIECE_UNKNOWN_UNIT };

/* One number with its unit, added to *sum. */
static enum piece take_piece(str *s, uint64_t *sum, str *unit)
{
    uint64_t whole = 0, fraction = 0;
    double scale = 1;
    size_t before = s->n;
    if (s->p[0] != '.' && !is_digit(s->p[0]))
        return PIECE_INVALID;
    if (!take_whole(s, &whole))
        return PIECE_INVALID;
    bool any = s->n != before;
    if (s->n > 0 && s->p[0] == '.') {
        *s = str_skip(*s, 1);
        before = s->n;
        take_fraction(s, &fraction, &scale);
        any |= s->n != before;
    }
    if (!any)
        return PIECE_INVALID;
    *unit = take_unit(s);
    if (unit->n == 0)
        return PIECE_NO_UNIT;
    uint64_t ns = unit_ns(*unit);
    if (ns == 0)
        return PIECE_UNKNOWN_UNIT;
    if (whole > NS_MAX / ns)
        return PIECE_INVALID;
    whole *= ns;
    if (fraction > 0)
        whole += (uint64_t)((double)fraction * ((double)ns / scale));
    *sum += whole;
    return whole > NS_MAX || *sum > NS_MAX ? PIECE_INVALID : PIECE_FINE;
}

err goduration_parse(str text, int64_t *ns, struct arena *a, str *why)
{
    bool minus = str_starts(text, STR("-"));
    str rest = minus || str_starts(text, STR("+")) ? str_skip(text, 1) : text, unit = STR_NONE;
    uint64_t sum = 0;
    enum piece piece = rest.n == 0 ? PIECE_INVALID : PIECE_FINE;
    if (str_eq(rest, STR("0")))
        rest = STR_NONE;
    while (piece == PIECE_FINE && rest.n > 0)
        piece = take_piece(&rest, &sum, &unit);
    if (piece == PIECE_FINE && !minus && sum == NS_MAX)
        piece = PIECE_INVALID;
    switch (piece) {
    case PIECE_FINE:
        *ns = minus ? (int64_t)(0 - sum) : (int64_t)sum;
        return ERR_OK;
    case PIECE_INVALID:
        return goduration_refuse(a, "invalid ", STR_NONE, text, why);
    case PIECE_NO_UNIT:
        return goduration_refuse(a, "missing unit in ", STR_NONE, text, why);
    case PIECE_UNKNOWN_UNIT:
        return goduration_refuse(a, "unknown unit ", unit, text, why);
    }
    check_failed(__FILE__, __LINE__, "a piece of no kind");
}

/* ---- writing: from the end to the front ---- */

static char *put_whole(char *at, uint64_t value)
{
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return at;
}

/* value / 10^digits without zeros at its end; *value becomes the whole part. */
static char *put_fraction(char *at, uint64_t *value, int digits)
{
    bool any = false;
    for (int i = 0; i < digits; i++, *value /= 10) {
        any |= *value % 10 != 0;
        if (any)
            *--at = (char)('0' + *value % 10);
    }
    if (any)
        *--at = '.';
    return at;
}

static char *put_small(char *at, uint64_t ns)
{
    int digits = ns < 1000 ? 0 : ns < 1000000 ? 3 : 6;
    if (ns == 0) {
        *--at = '0';
        return at;
    }
    if (digits == 0)
        *--at = 'n';
    else if (digits == 6)
        *--at = 'm';
    else
        memcpy(at -= 2, "\xc2\xb5", 2);
    at = put_fraction(at, &ns, digits);
    return put_whole(at, ns);
}

static char *put_large(char *at, uint64_t ns)
{
    at = put_fraction(at, &ns, 9);
    at = put_whole(at, ns % 60);
    ns /= 60;
    if (ns == 0)
        return at;
    *--at = 'm';
    at = put_whole(at, ns % 60);
    ns /= 60;
    if (ns == 0)
        return at;
    *--at = 'h';
    return put_whole(at, ns);
}

void goduration_format(int64_t ns, char out[GODURATION_BYTES_MAX + 1])
{
    char text[GODURATION_BYTES_MAX], *end = text + sizeof text, *at = end;
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    *--at = 's';
    at = size < 1000000000 ? put_small(at, size) : put_large(at, size);
    if (ns < 0)
        *--at = '-';
    memcpy(out, at, (size_t)(end - at));
    out[end - at] = '\0';
}
