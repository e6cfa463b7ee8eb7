/* Goal: no event of a wiki breaks the reader, however it is built; what is an event has a stream,
 * and its titles are as few as there is room for. Method: the input is a body of POST /v1/events.
 */
#include "base/utf8.h"
#include "codec/json.h"
#include "page/wiki_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void event_try(struct arena *a, str json)
{
    struct wiki_event e = { .titles_count = EVENT_TITLES_MAX + 1 };
    struct err_note note = { .text = "" };
    struct arena_mark mark = arena_mark(a);
    err why = wiki_event_parse(a, json, &e, &note);
    INVARIANT(why == ERR_OK || why == ERR_BAD || why == ERR_LIMIT);
    if (why == ERR_BAD)
        INVARIANT(note.text[0] != 0);
    if (why == ERR_OK) {
        INVARIANT(e.stream.n > 0);
        INVARIANT(e.titles_count <= EVENT_TITLES_MAX);
        for (unsigned i = 0; i < e.titles_count; i++)
            INVARIANT(e.titles[i].title.n > 0 && e.titles[i].bound.touched >= 0);
    }
    arena_release(a, mark);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = { .p = (const char *)data, .n = size }, value, item;
    struct arena a;
    if (!utf8_valid(text) || !json_slice_value(text, &value))
        return 0;
    arena_init(&a, 1 << 20);
    if (value.p[0] != '[')
        event_try(&a, value);
    for (str rest = value; json_slice_item(&rest, &item);)
        event_try(&a, item);
    arena_fini(&a);
    return 0;
}
