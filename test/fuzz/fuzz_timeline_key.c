/* Goal: no place in a timeline that a client sends makes its reader leave it, and each entry has
 * one key of each form. Method: the input as a key; one that is read is written again, in both
 * forms. */
#include "timeline/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const str key = { .p = (const char *)data, .n = size };
    struct timeline_where w;
    struct timeline_entry e;
    struct timeline_key by_title, by_time;
    bool is_by_time;
    if (!timeline_key_parse(key, &is_by_time, &w, &e))
        return 0;
    INVARIANT(timeline_key_prefix(&by_title, &w) == ERR_OK);
    timeline_key_tail(&by_title, &e);
    timeline_key_time(&by_time, &w, &e);
    INVARIANT(str_eq(key, timeline_key_str(is_by_time ? &by_time : &by_title)));
    return 0;
}
