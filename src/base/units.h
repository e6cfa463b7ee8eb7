/* units.h - durations and sizes as configuration writes them: "500ms 2s 5m 1h 7d never", "64k 8M
 * 1G". */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/check.h"
#include "base/str.h"

/* A whole number and a unit ms, s, m, h, d; or "never" (DURATION_NEVER); "0" alone is 0. *ns in
 * nanoseconds. False, *ns untouched, on anything else, negative numbers and overflow. */
MUST_CHECK bool units_parse_duration(str text, int64_t *ns);
/* A whole number of bytes, or with k, M, G, T (powers of 1024). */
MUST_CHECK bool units_parse_size(str text, uint64_t *bytes);
enum { UNITS_TEXT_BYTES = 32 };
/* The shortest exact form: "1d", "90s", "never". */
void units_format_duration(int64_t ns, char out[UNITS_TEXT_BYTES]);
void units_format_size(uint64_t bytes, char out[UNITS_TEXT_BYTES]);

#endif
