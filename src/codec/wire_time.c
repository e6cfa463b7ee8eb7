/* wire_time.c - instants of years 0001 to 9999 by way of base/date.h, which knows as many as fit in
 * 64 bits of nanoseconds: the calendar repeats each 400 years, so years are moved to 1700..2099 and
 * back. */
#include "codec/wire_table.h"

#include "base/date.h"
#include "base/times.h"

enum { CYCLE_YEARS = 400, FIRST_YEAR = 1700, YEAR_DIGITS = 4, TEXT_BYTES_MIN = 20 };
#define CYCLE_S (INT64_C(146097) * 86400)
#define FIRST_YEAR_S INT64_C(-8520336000) /* 1700-01-01T00:00:00Z */
#define LEAST_S INT64_C(-62135596800)     /* 0001-01-01T00:00:00Z */
#define GREATEST_S INT64_C(253402300799)  /* 9999-12-31T23:59:59Z */

/* Forms that date_parse_rfc3339 takes and protojson does not. */
static bool is_strict(str text)
{
    size_t dot = str_find(text, '.');
    if (text.n < TEXT_BYTES_MIN || text.p[10] != 'T' || str_ends(text, STR("z")))
        return false;
    if (text.p[17] == '6')
        return false; /* no leap second */
    size_t digits = 0;
    while (dot + 1 + digits < text.n && text.p[dot + 1 + digits] >= '0' &&
           text.p[dot + 1 + digits] <= '9')
        digits++;
    return digits <= 9;
}

static bool year_of(str text, int64_t *year)
{
    return text.n > YEAR_DIGITS && str_to_i64(str_take(text, YEAR_DIGITS), year) &&
           text.p[0] != '-';
}

static void year_put(char *at, int64_t year)
{
    for (int i = YEAR_DIGITS - 1; i >= 0; i--, year /= 10)
        at[i] = (char)('0' + year % 10);
}

bool wire_time_parse(str text, int64_t *seconds, int32_t *nanos)
{
    char moved[64];
    int64_t year, ns;
    if (!is_strict(text) || !year_of(text, &year) || !str_to_cstr(text, moved, sizeof moved))
        return false;
    int64_t year_there = FIRST_YEAR + (year + CYCLE_YEARS * 5 - FIRST_YEAR) % CYCLE_YEARS;
    year_put(moved, year_there);
    if (!date_parse_rfc3339(str_of(moved), &ns))
        return false;
    int64_t s = ns / NS_PER_S, rest = ns % NS_PER_S;
    if (rest < 0) {
        s--;
        rest += NS_PER_S;
    }
    s += (year - year_there) / CYCLE_YEARS * CYCLE_S;
    if (s < LEAST_S || s > GREATEST_S)
        return false;
    *seconds = s;
    *nanos = (int32_t)rest;
    return true;
}

size_t wire_time_format(int64_t seconds, int32_t nanos, char out[WIRE_TIME_BYTES + 1])
{
    if (seconds < LEAST_S || seconds > GREATEST_S || nanos < 0 || nanos >= NS_PER_S)
        return 0;
    int64_t cycles = (seconds - FIRST_YEAR_S + 5 * CYCLE_S) / CYCLE_S - 5, year;
    date_format_ns((seconds - cycles * CYCLE_S) * NS_PER_S + nanos, out);
    INVARIANT(str_to_i64(str_take(str_of(out), YEAR_DIGITS), &year));
    year_put(out, year + cycles * CYCLE_YEARS);
    /* nine digits are written: keep 0, 3, 6 or all of them */
    size_t keep = nanos == 0 ? 0 : nanos % 1000000 == 0 ? 4 : nanos % 1000 == 0 ? 7 : 10;
    out[19 + keep] = 'Z';
    out[20 + keep] = '\0';
    return 20 + keep;
}
