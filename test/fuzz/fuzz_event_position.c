/* Goal: no text that a client sends for a position makes its reader leave it, a position has one
 * text alone, and rows of the event log that are damaged are refused and not read past their end.
 * Method: the input as a position, as the head of the log, and as an event's row. */
#include "event/position.h"
#include "event/rows.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void position(str text)
{
    struct event_position p;
    char out[EVENT_POSITION_BYTES];
    if (!event_position_parse(text, &p))
        return;
    size_t n = event_position_print(&p, out);
    INVARIANT(str_eq(text, (str){ .p = out, .n = n }));
}

static void head(str value)
{
    struct event_head h;
    char out[EVENT_HEAD_BYTES];
    if (event_head_decode(value, &h) == ERR_OK)
        INVARIANT(str_eq(value, event_head_encode(&h, out)));
}

static void row(str value)
{
    struct event_row r;
    char out[EVENT_VALUE_BYTES];
    if (event_row_decode(value, &r) == ERR_OK)
        INVARIANT(str_eq(value, event_row_encode(&r, out)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const str input = { .p = (const char *)data, .n = size };
    position(input);
    head(input);
    row(input);
    return 0;
}
