/* Goal: no bytes out of Redis make the reader of renders leave its input, and what is read is
 * written back the same. */
#include "app/page/render_travel.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct render_travel t;
    if (render_travel_get((str){ .p = (const char *)data, .n = n }, &t) != ERR_OK)
        return 0;
    struct buf b;
    buf_init(&b, n + 64);
    render_travel_put(&b, &t);
    struct render_travel again;
    if (render_travel_get(buf_str(&b), &again) != ERR_OK ||
        again.contents_count != t.contents_count || again.name.rev != t.name.rev)
        abort();
    buf_fini(&b);
    return 0;
}
