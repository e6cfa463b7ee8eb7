/* Goal: a URL of any bytes is refused, or its parts put together again mean the same. */
#include "base/arena.h"
#include "http/call_url.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct call_url once, again;
    struct err_note note = { .text = "" };
    if (call_url_parse((str){ .p = (const char *)data, .n = size }, &once, &note) != ERR_OK) {
        INVARIANT(note.text[0] != 0);
        return 0;
    }
    INVARIANT(once.host[0] != 0);
    INVARIANT(once.port != 0);
    INVARIANT(once.target.n == 0 || once.target.p[0] == '/' || once.target.p[0] == '?');
    struct arena a;
    arena_init(&a, 1 << 20);
    str text =
        arena_printf(&a, once.numeric6 ? "%s://[%s]:%u%.*s" : "%s://%s:%u%.*s",
                     once.tls ? "https" : "http", once.host, once.port, STR_ARG(once.target));
    if (text.n <= HTTP_URL_BYTES_MAX) {
        INVARIANT(call_url_parse(text, &again, NULL) == ERR_OK);
        INVARIANT(strcmp(again.host, once.host) == 0);
        INVARIANT(again.port == once.port && again.tls == once.tls &&
                  again.numeric == once.numeric);
        INVARIANT(str_eq(again.target, once.target));
    }
    arena_fini(&a);
    return 0;
}
