/* date.c - parses and prints instants as RFC 3339 and as HTTP dates. Invariant: an instant
 * outside DATE_YEAR_FIRST to DATE_YEAR_LAST, give or take some months, is refused and never
 * wraps. */
#include "base/date.h"

#include "base/times.h"

#include <string.h>

enum { SECONDS_PER_DAY = 86400, HTTP_PIVOT_YEAR = 70 };

struct civil {
    int64_t year;
    unsigned month, day;           /* from 1 */
    unsigned hour, minute, second; /* second up to 60 */
    unsigned ns;
};

static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
static const char *const weekdays[7] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                         "Thursday", "Friday", "Saturday" };

/* Days since 1970-01-01, and back: H. Hinnant, "chrono-compatible low-level date algorithms". */
static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t shifted = month > 2 ? (int64_t)month - 3 : (int64_t)month + 9;
    int64_t day_of_year = (153 * shifted + 2) / 5 + (int64_t)day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void civil_of_days(int64_t days, struct civil *c)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t shifted = (5 * doy + 2) / 153;
    c->day = (unsigned)(doy - (153 * shifted + 2) / 5 + 1);
    c->month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    c->year = yoe + era * 400 + (c->month <= 2);
}

static unsigned days_in_month(int64_t year, unsigned month)
{
    static const unsigned char days[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool civil_to_s(const struct civil *c, int64_t offset_s, int64_t *s)
{
    if (c->year < 1 || c->year > 9999 || c->month < 1 || c->month > 12)
        return false;
    if (c->day < 1 || c->day > days_in_month(c->year, c->month))
        return false;
    if (c->hour > 23 || c->minute > 59 || c->second > 60)
        return false;
    *s = days_of(c->year, c->month, c->day) * SECONDS_PER_DAY + (int64_t)c->hour * 3600 +
         (int64_t)c->minute * 60 + (int64_t)c->second - offset_s;
    return true;
}

static bool civil_to_ns(const struct civil *c, int64_t offset_s, int64_t *ns)
{
    int64_t s, value, fraction = (int64_t)c->ns;
    if (!civil_to_s(c, offset_s, &s))
        return false;
    /* From below the multiplication may pass the end although the sum with ns would not. */
    if (s < 0 && fraction > 0) {
        s++;
        fraction -= NS_PER_S;
    }
    if (__builtin_mul_overflow(s, NS_PER_S, &value) ||
        __builtin_add_overflow(value, fraction, &value))
        return false;
    *ns = value;
    return true;
}

static struct civil ns_to_civil(int64_t ns)
{
    int64_t s = ns / NS_PER_S, fraction = ns % NS_PER_S;
    if (fraction < 0) {
        s--;
        fraction += NS_PER_S;
    }
    int64_t days = s / SECONDS_PER_DAY, rest = s % SECONDS_PER_DAY;
    if (rest < 0) {
        days--;
        rest += SECONDS_PER_DAY;
    }
    struct civil c = { .hour = (unsigned)(rest / 3600),
                       .minute = (unsigned)(rest / 60 % 60),
                       .second = (unsigned)(rest % 60),
                       .ns = (unsigned)fraction };
    civil_of_days(days, &c);
    return c;
}

/* Each take_ eats the front of *s, or returns false and the parse is over. */
static bool take_char(str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = str_skip(*s, 1);
    return true;
}

static bool take_digits(str *s, size_t n, unsigned *out)
{
    uint64_t value;
    if (s->n < n || !str_to_u64(str_take(*s, n), &value))
        return false;
    *out = (unsigned)value;
    *s = str_skip(*s, n);
    return true;
}

static bool take_month(str *s, unsigned *month)
{
    for (unsigned i = 0; i < COUNT_OF(months); i++) {
        if (str_starts(*s, str_of(months[i]))) {
            *month = i + 1;
            *s = str_skip(*s, 3);
            return true;
        }
    }
    return false;
}

static bool take_clock(str *s, struct civil *c)
{
    return take_digits(s, 2, &c->hour) && take_char(s, ':') && take_digits(s, 2, &c->minute) &&
           take_char(s, ':') && take_digits(s, 2, &c->second);
}

/* At least one digit; past the ninth they are cut. */
static bool take_fraction(str *s, unsigned *ns)
{
    unsigned value = 0;
    size_t n = 0;
    for (; n < s->n && s->p[n] >= '0' && s->p[n] <= '9'; n++)
        if (n < 9)
            value = value * 10 + (unsigned)(s->p[n] - '0');
    if (n == 0)
        return false;
    *s = str_skip(*s, n);
    for (; n < 9; n++)
        value *= 10;
    *ns = value;
    return true;
}

static bool take_offset(str *s, int64_t *offset_s)
{
    if (take_char(s, 'Z') || take_char(s, 'z')) {
        *offset_s = 0;
        return true;
    }
    bool minus = take_char(s, '-');
    unsigned hours, minutes;
    if (!minus && !take_char(s, '+'))
        return false;
    if (!take_digits(s, 2, &hours) || !take_char(s, ':') || !take_digits(s, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59)
        return false;
    *offset_s = ((int64_t)hours * 3600 + (int64_t)minutes * 60) * (minus ? -1 : 1);
    return true;
}

static bool parse_rfc3339(str text, struct civil *out, int64_t *offset_s)
{
    struct civil c = { 0 };
    unsigned year;
    if (!take_digits(&text, 4, &year) || !take_char(&text, '-') ||
        !take_digits(&text, 2, &c.month) || !take_char(&text, '-') ||
        !take_digits(&text, 2, &c.day))
        return false;
    c.year = year;
    if (!take_char(&text, 'T') && !take_char(&text, 't') && !take_char(&text, ' '))
        return false;
    if (!take_clock(&text, &c))
        return false;
    if (take_char(&text, '.') && !take_fraction(&text, &c.ns))
        return false;
    *out = c;
    return take_offset(&text, offset_s) && text.n == 0;
}

bool date_parse_rfc3339(str text, int64_t *ns)
{
    struct civil c;
    int64_t offset_s;
    return parse_rfc3339(text, &c, &offset_s) && civil_to_ns(&c, offset_s, ns);
}

bool date_parse_rfc3339_s(str text, int64_t *s)
{
    struct civil c;
    int64_t offset_s, value;
    if (!parse_rfc3339(text, &c, &offset_s) || !civil_to_s(&c, offset_s, &value))
        return false;
    *s = value < DATE_S_MAX ? value : DATE_S_MAX;
    return true;
}

/* Thu, 01 Jan 2026 00:00:00 GMT */
static bool parse_imf(str text, struct civil *c)
{
    unsigned year;
    if (!take_char(&text, ',') || !take_char(&text, ' ') || !take_digits(&text, 2, &c->day) ||
        !take_char(&text, ' ') || !take_month(&text, &c->month) || !take_char(&text, ' ') ||
        !take_digits(&text, 4, &year) || !take_char(&text, ' '))
        return false;
    c->year = year;
    return take_clock(&text, c) && str_eq(text, STR(" GMT"));
}

/* Thursday, 01-Jan-26 00:00:00 GMT */
static bool parse_rfc850(str text, struct civil *c)
{
    unsigned year;
    if (!take_char(&text, ',') || !take_char(&text, ' ') || !take_digits(&text, 2, &c->day) ||
        !take_char(&text, '-') || !take_month(&text, &c->month) || !take_char(&text, '-') ||
        !take_digits(&text, 2, &year) || !take_char(&text, ' '))
        return false;
    c->year = year < HTTP_PIVOT_YEAR ? 2000 + (int64_t)year : 1900 + (int64_t)year;
    return take_clock(&text, c) && str_eq(text, STR(" GMT"));
}

/* Thu Jan  1 00:00:00 2026 */
static bool parse_asctime(str text, struct civil *c)
{
    unsigned year;
    if (!take_char(&text, ' ') || !take_month(&text, &c->month) || !take_char(&text, ' '))
        return false;
    if (!take_digits(&text, take_char(&text, ' ') ? 1 : 2, &c->day))
        return false;
    if (!take_char(&text, ' ') || !take_clock(&text, c) || !take_char(&text, ' ') ||
        !take_digits(&text, 4, &year))
        return false;
    c->year = year;
    return text.n == 0;
}

bool date_parse_http(str text, int64_t *ns)
{
    for (size_t i = 0; i < COUNT_OF(weekdays); i++) {
        struct civil c = { 0 };
        str whole = str_of(weekdays[i]);
        if (str_starts(text, whole))
            return parse_rfc850(str_skip(text, whole.n), &c) && civil_to_ns(&c, 0, ns);
        if (!str_starts(text, str_take(whole, 3)))
            continue;
        if (parse_imf(str_skip(text, 3), &c))
            return civil_to_ns(&c, 0, ns);
        c = (struct civil){ 0 };
        return parse_asctime(str_skip(text, 3), &c) && civil_to_ns(&c, 0, ns);
    }
    return false;
}

bool date_parse_any(str text, int64_t *ns)
{
    int64_t s, value;
    if (str_to_i64(text, &s)) {
        if (__builtin_mul_overflow(s, NS_PER_S, &value))
            return false;
        *ns = value;
        return true;
    }
    return date_parse_rfc3339(text, ns) || date_parse_http(text, ns);
}

bool date_parse_told(str text, int64_t *ns)
{
    str fraction = text, whole = str_split(&fraction, '.');
    bool digits = whole.n > 0 && fraction.n > 0;
    for (size_t i = 0; i < text.n && digits; i++)
        digits = (text.p[i] >= '0' && text.p[i] <= '9') || i == whole.n;
    return date_parse_any(digits ? whole : text, ns);
}

static char *put_digits(char *at, unsigned value, unsigned digits)
{
    for (unsigned i = digits; i > 0; i--, value /= 10)
        at[i - 1] = (char)('0' + value % 10);
    return at + digits;
}

static char *put_text(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

static char *put_clock(char *at, const struct civil *c)
{
    at = put_digits(at, c->hour, 2);
    *at++ = ':';
    at = put_digits(at, c->minute, 2);
    *at++ = ':';
    return put_digits(at, c->second, 2);
}

static void format_rfc3339(int64_t ns, unsigned fraction_digits, char *at)
{
    struct civil c = ns_to_civil(ns);
    unsigned fraction = fraction_digits == 9 ? c.ns : c.ns / 1000000;
    at = put_digits(at, (unsigned)c.year, 4);
    *at++ = '-';
    at = put_digits(at, c.month, 2);
    *at++ = '-';
    at = put_digits(at, c.day, 2);
    *at++ = 'T';
    at = put_clock(at, &c);
    *at++ = '.';
    at = put_digits(at, fraction, fraction_digits);
    *at++ = 'Z';
    *at = 0;
}

void date_format_ms(int64_t ns, char out[DATE_RFC3339_BYTES + 1])
{
    format_rfc3339(ns, 3, out);
}

void date_format_ns(int64_t ns, char out[DATE_RFC3339_BYTES + 1])
{
    format_rfc3339(ns, 9, out);
}

void date_format_http(int64_t ns, char out[DATE_HTTP_BYTES + 1])
{
    struct civil c = ns_to_civil(ns);
    int64_t weekday = (days_of(c.year, c.month, c.day) % 7 + 7 + 4) % 7; /* day 0 was a Thursday */
    char *at = put_text(out, weekdays[weekday], 3);
    at = put_text(at, ", ", 2);
    at = put_digits(at, c.day, 2);
    *at++ = ' ';
    at = put_text(at, months[c.month - 1], 3);
    *at++ = ' ';
    at = put_digits(at, (unsigned)c.year, 4);
    *at++ = ' ';
    at = put_clock(at, &c);
    (void)put_text(at, " GMT", sizeof " GMT"); /* with its NUL */
}
