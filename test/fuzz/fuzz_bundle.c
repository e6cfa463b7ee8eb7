/* Goal: no body of a PUT breaks the bundle parser; what it takes has fine names and headers that
 * read back as they were kept. */
#include "page/bundle.h"
#include "page/content.h"
#include "page/headers.h"
#include "store/page_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void content_check(const struct page_put_content *c)
{
    struct http_pair line;
    str lines = c->headers, value;
    unsigned count = 0;
    INVARIANT(page_content_is_fine(c->name));
    while (headers_next(&lines, &line)) {
        INVARIANT(headers_may_keep(line.name, HEADERS_ALL));
        INVARIANT(headers_value_is_sane(line.value));
        INVARIANT(headers_find(c->headers, line.name, &value));
        count++;
    }
    INVARIANT(count >= 1 && count <= PAGE_HEADERS_MAX); /* a content-type at least */
    INVARIANT(c->raw.n == 0 || c->raw.p != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct page_put_content contents[PAGE_CONTENTS_MAX];
    struct err_note note = { { 0 } };
    unsigned count = 0;
    str text = { .p = (const char *)data, .n = size };
    arena_init(&a, 8 << 20);
    err why = bundle_parse(&a, text, contents, &count, &note);
    if (why == ERR_OK)
        for (unsigned i = 0; i < count; i++)
            content_check(&contents[i]);
    else
        INVARIANT(why == ERR_LIMIT || note.text[0] != 0);
    arena_fini(&a);
    return 0;
}
