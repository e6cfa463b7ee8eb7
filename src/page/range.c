/* range.c - Range and If-Range against a render, for reads. */
#include "page/range.h"

#include "page/etag.h"

struct http_range page_range(const struct page_range_fields *f, struct page_name name,
                             uint64_t size)
{
    const struct http_range whole = { .kind = RANGE_NONE };
    char text[PAGE_TAG_BYTES + 1];
    if (f->range.n == 0)
        return whole;
    if (f->if_range.n == 0)
        return http_range(f->range, size);
    /* If-Range needs a strong tag (RFC 9110 13.1.5); a date never matches a render. */
    if (str_eq(f->if_range, STR("*")) ||
        !http_etag_matches(f->if_range, page_tag(name, text), false))
        return whole;
    return http_range(f->range, size);
}
