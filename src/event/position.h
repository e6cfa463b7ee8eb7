/* position.h - a place in an event log, as a client is told it: LOGID-SEQ-INSTANT.
 *
 * LOGID names the log, in 16 hex digits. SEQ is the sequence number of an event, in decimal digits.
 * INSTANT is when the log took it, in milliseconds since 1970. Clients take all of it for one word.
 * A client may bring a position to another server: SEQ says nothing there, INSTANT does. Pure. */
#ifndef EVENT_POSITION_H
#define EVENT_POSITION_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct event_position {
    uint64_t log, seq;
    int64_t at_ms; /* since 1970; not negative */
};
enum { EVENT_POSITION_BYTES = 16 + 1 + 20 + 1 + 19 }; /* at most */

/* Writes EVENT_POSITION_BYTES at most, and says how many. No NUL behind. */
size_t event_position_print(const struct event_position *p, char out[EVENT_POSITION_BYTES]);
/* False: text is no position; *out is untouched. */
bool event_position_parse(str text, struct event_position *out);

#endif
