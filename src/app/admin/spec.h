/* spec.h - the OpenAPI 3.1 document of what is served, made from the route tables and a row of
 * prose for each label. A route without prose is described by its pattern alone, so none is
 * missing. */
#ifndef APP_ADMIN_SPEC_H
#define APP_ADMIN_SPEC_H

#include "base/arena.h"
#include "base/buf.h"
#include "http/filter.h"

/* Appends the JSON document of what the filter shows; NULL: of all. tables end with NULL.
 * ERR_LIMIT: out or the arena is full. */
MUST_CHECK err spec_render(const struct http_route *const *tables, const struct http_filter *filter,
                           struct arena *a, struct buf *out);

#endif
