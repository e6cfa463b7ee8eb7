/* Goal: no bytes out of Redis make the reader of renders leave its input, and what is read is
 * written back the same. */
#include "page/travel.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct page_travel t;
    if (page_travel_get((str){ .p = (const char *)data, .n = n }, &t) != ERR_OK)
        return 0;
    struct buf b;
    buf_init(&b, n + 64);
    page_travel_put(&b, &t);
    struct page_travel again;
    if (page_travel_get(buf_str(&b), &again) != ERR_OK ||
        again.contents_count != t.contents_count || again.name.rev != t.name.rev)
        abort();
    buf_fini(&b);
    return 0;
}
