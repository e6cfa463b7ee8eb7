/* Goal: nothing that a Redis answers makes the reader of a timeline leave it, and each member that
 * is ours has one form. Method: the input as a member of a domain's set, as one of a title's, and
 * as a score; what is read is written again. */
#include "timeline/remote_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void member(str text)
{
    struct timeline_where w = { .domain = 0 };
    struct timeline_entry e = { .rev = 0 };
    struct timeline_key again;
    struct timeline_remote_key key;
    if (!timeline_remote_member_parse(text, &w, &e))
        return;
    timeline_remote_member(&w, &e, &again);
    INVARIANT(str_eq(text, timeline_key_str(&again)));
    INVARIANT(timeline_remote_key_title(&key, STR("d"), w.kind, w.title) == ERR_OK);
}

static void tail(str text)
{
    struct timeline_where w = { .kind = TIMELINE_RENDER, .title = STR("T") };
    struct timeline_entry e = { .rev = 0 };
    struct timeline_key again;
    if (!timeline_remote_tail_parse(text, &w, &e))
        return;
    timeline_remote_member(&w, &e, &again);
    INVARIANT(str_ends(timeline_key_str(&again), text));
}

static void score(str text)
{
    int64_t us = -1;
    if (!timeline_remote_score_parse(text, &us))
        return;
    INVARIANT(us >= 0);
    INVARIANT(us <= (int64_t)1 << 53);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const str text = { .p = (const char *)data, .n = size };
    member(text);
    tail(text);
    score(text);
    return 0;
}
