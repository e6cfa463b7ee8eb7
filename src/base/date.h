/* date.h - instants as text: RFC 3339 in and out, HTTP dates (RFC 9110 5.6.7) in and out. UTC,
 * proleptic Gregorian. An instant is nanoseconds in 63 bits, so they go from DATE_YEAR_FIRST to
 * DATE_YEAR_LAST, and a few days or months more; beyond is refused. No leap seconds: :60 is read as
 * the next second. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include "base/check.h"
#include "base/str.h"

enum { DATE_RFC3339_BYTES = 30, DATE_HTTP_BYTES = 29 };
#define DATE_YEAR_FIRST "1678"
#define DATE_YEAR_LAST "2261"
#define DATE_S_MAX INT64_C(9214646399) /* the last second of that year, since 1970 */
/* What messages say is wanted. */
#define DATE_WANTED                                                                                \
    "an instant such as 2026-01-01T00:00:00Z, of the years " DATE_YEAR_FIRST " to " DATE_YEAR_LAST

/* "2026-01-01T00:00:00Z", up to 9 fraction digits kept, offsets "+01:00" taken. False: *ns
 * untouched. */
MUST_CHECK bool date_parse_rfc3339(str text, int64_t *ns);
/* The same in whole seconds since 1970, fractions cut; of later years up to 9999: DATE_S_MAX. */
MUST_CHECK bool date_parse_rfc3339_s(str text, int64_t *s);
/* All three HTTP forms (IMF-fixdate, RFC 850, asctime). */
MUST_CHECK bool date_parse_http(str text, int64_t *ns);
/* Either of the two, or whole seconds since 1970; what users of ?at= may write. */
MUST_CHECK bool date_parse_any(str text, int64_t *ns);
/* The same, and seconds since 1970 with a fraction, which is cut; what other systems tell. */
MUST_CHECK bool date_parse_told(str text, int64_t *ns);
/* "2026-01-01T00:00:00.123Z": milliseconds, cut, not rounded. */
void date_format_ms(int64_t ns, char out[DATE_RFC3339_BYTES + 1]);
/* With nine digits. */
void date_format_ns(int64_t ns, char out[DATE_RFC3339_BYTES + 1]);
/* "Thu, 01 Jan 2026 00:00:00 GMT". */
void date_format_http(int64_t ns, char out[DATE_HTTP_BYTES + 1]);

#endif
