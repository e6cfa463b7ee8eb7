/* range.h - which part of a content is sent (RFC 9110 14). Pure. */
#ifndef PAGE_RANGE_H
#define PAGE_RANGE_H

#include "http/negotiate.h"
#include "store/page_store.h"

/* Header fields as they were sent; n 0: absent. */
struct page_range_fields {
    str range, if_range;
};
/* Of a render's content of so many bytes, sent as identity. With If-Range only of the very render
 * it names. */
struct http_range page_range(const struct page_range_fields *f, struct page_name name,
                             uint64_t size);

#endif
