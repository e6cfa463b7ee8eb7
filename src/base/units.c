/* units.c - parses and prints durations and sizes as options write them. Invariant: a value that
 * is printed parses to the same number. */
#include "base/units.h"

#include "base/times.h"

#include <stdio.h>

struct unit {
    const char *name;
    uint64_t size;
};

/* Greatest first: the format takes the first that divides. */
static const struct unit duration_units[] = {
    { "d", 86400000000000 }, { "h", 3600000000000 }, { "m", 60000000000 },
    { "s", 1000000000 },     { "ms", 1000000 },
};
static const struct unit size_units[] = {
    { "T", 1ull << 40 },
    { "G", 1ull << 30 },
    { "M", 1ull << 20 },
    { "k", 1ull << 10 },
};

static size_t digits_count(str text)
{
    size_t n = 0;
    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
        n++;
    return n;
}

static const struct unit *unit_find(const struct unit *units, size_t count, str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, str_of(units[i].name)))
            return &units[i];
    return NULL;
}

static const struct unit *unit_dividing(const struct unit *units, size_t count, uint64_t value)
{
    for (size_t i = 0; i < count; i++)
        if (value % units[i].size == 0)
            return &units[i];
    return NULL;
}

/* Number and unit multiplied. */
static bool units_parse(str text, const struct unit *units, size_t count, uint64_t *out)
{
    size_t digits = digits_count(text);
    uint64_t number;
    if (!str_to_u64(str_take(text, digits), &number))
        return false;
    const struct unit *unit = unit_find(units, count, str_skip(text, digits));
    if (unit == NULL || __builtin_mul_overflow(number, unit->size, &number))
        return false;
    *out = number;
    return true;
}

bool units_parse_duration(str text, int64_t *ns)
{
    if (str_eq(text, STR("never"))) {
        *ns = DURATION_NEVER;
        return true;
    }
    if (str_eq(text, STR("0"))) {
        *ns = 0;
        return true;
    }
    uint64_t value;
    if (!units_parse(text, duration_units, COUNT_OF(duration_units), &value) || value > INT64_MAX)
        return false;
    *ns = (int64_t)value;
    return true;
}

bool units_parse_size(str text, uint64_t *bytes)
{
    return str_to_u64(text, bytes) || units_parse(text, size_units, COUNT_OF(size_units), bytes);
}

void units_format_duration(int64_t ns, char out[UNITS_TEXT_BYTES])
{
    if (ns == DURATION_NEVER || ns == 0) {
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s", ns == 0 ? "0" : "never"); /* both fit */
        return;
    }
    uint64_t value = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const struct unit *unit = unit_dividing(duration_units, COUNT_OF(duration_units), value);
    uint64_t size = unit == NULL ? 1 : unit->size;
    (void)snprintf(out, UNITS_TEXT_BYTES, "%s%llu%s", ns < 0 ? "-" : "", /* 20 digits at most */
                   (unsigned long long)(value / size), unit == NULL ? "ns" : unit->name);
}

void units_format_size(uint64_t bytes, char out[UNITS_TEXT_BYTES])
{
    const struct unit *unit =
        bytes == 0 ? NULL : unit_dividing(size_units, COUNT_OF(size_units), bytes);
    uint64_t size = unit == NULL ? 1 : unit->size;
    (void)snprintf(out, UNITS_TEXT_BYTES, "%llu%s", /* 20 digits at most */
                   (unsigned long long)(bytes / size), unit == NULL ? "" : unit->name);
}
