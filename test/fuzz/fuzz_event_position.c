/* Goal: no text that a client sends for a position makes its reader leave it, a position has one
 * text alone, and rows of the event log that are damaged are refused and not read past their end.
 * Method: the input as a position, as the head of the log, as an event's row, and as the blob of a
 * row of several events. */
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
    struct event_head h, again;
    char out[EVENT_HEAD_BYTES];
    if (event_head_decode(value, &h) != ERR_OK)
        return;
    /* Its texts may differ in the number that is not used any more. */
    INVARIANT(event_head_decode(event_head_encode(&h, out), &again) == ERR_OK);
    INVARIANT(memcmp(&h, &again, sizeof h) == 0);
}

static void row(str value)
{
    struct event_row r;
    char out[EVENT_VALUE_BYTES];
    if (event_row_decode(value, &r) == ERR_OK)
        INVARIANT(str_eq(value, event_row_encode(&r, out)));
}

static void several(str blob)
{
    const struct event_row r = { .count = 100, .events = 2 + (unsigned)(blob.n % 4) };
    struct event_walk w;
    struct event_one one;
    unsigned count = 0;
    size_t bytes = 0;
    if (event_walk_begin(&w, 50, &r, blob) != ERR_OK)
        return;
    while (event_walk_next(&w, &one)) {
        INVARIANT(one.seq == 51 - r.events + count && one.count == 101 - r.events + count);
        bytes += event_has_id(one.digest) + one.stream.n + one.domain.n + one.text.n;
        count++;
    }
    INVARIANT(count == r.events && bytes <= blob.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const str input = { .p = (const char *)data, .n = size };
    position(input);
    head(input);
    row(input);
    several(input);
    return 0;
}
