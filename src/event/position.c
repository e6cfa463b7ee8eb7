/* position.c - positions as text. One position has one text: leading zeros, signs and capital
 * letters are refused. */
#include "event/position.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOG_DIGITS = 16 };

size_t event_position_print(const struct event_position *p, char out[EVENT_POSITION_BYTES])
{
    char text[EVENT_POSITION_BYTES + 1];
    int n = snprintf(text, sizeof text, "%016" PRIx64 "-%" PRIu64 "-%" PRId64, p->log, p->seq,
                     p->at_ms);
    INVARIANT(p->at_ms >= 0);
    INVARIANT(n > 0 && n < (int)sizeof text);
    memcpy(out, text, (size_t)n);
    return (size_t)n;
}

static bool log_parse(str digits, uint64_t *out)
{
    uint64_t log = 0;
    if (digits.n != LOG_DIGITS)
        return false;
    for (size_t i = 0; i < digits.n; i++) {
        int digit = str_hex_digit(digits.p[i]);
        if (digit < 0 || (digits.p[i] >= 'A' && digits.p[i] <= 'F'))
            return false;
        log = log << 4 | (unsigned)digit;
    }
    *out = log;
    return true;
}

static bool is_plain(str number)
{
    return number.n == 1 || (number.n > 1 && number.p[0] != '0');
}

bool event_position_parse(str text, struct event_position *out)
{
    struct event_position p;
    str log = str_split(&text, '-'), seq = str_split(&text, '-');
    uint64_t at_ms;
    if (!log_parse(log, &p.log) || !is_plain(seq) || !str_to_u64(seq, &p.seq))
        return false;
    if (!is_plain(text) || !str_to_u64(text, &at_ms) || at_ms > INT64_MAX)
        return false;
    p.at_ms = (int64_t)at_ms;
    *out = p;
    return true;
}
