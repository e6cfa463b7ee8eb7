/* openapi.h - an OpenAPI 3.1 document of routes, with words for their labels. A route without words
 * is described by its pattern alone, so none is missing. Pure. */
#ifndef HTTP_OPENAPI_H
#define HTTP_OPENAPI_H

#include "base/buf.h"
#include "http/filter.h"

struct openapi_words {
    const char *label, *summary;
    const char *query;   /* names of query parameters, by spaces; NULL: none */
    const char *answers; /* "200 text|404 text" beside the default problem */
};
/* What a parameter of this name is, below a path that holds `below` (NULL: any): the first that
 * fits; else it is a string. */
struct openapi_param {
    const char *name, *below, *schema;
};
struct openapi_opts {
    const char *head, *tail; /* JSON around the paths; tail defines the schema Problem */
    const struct http_route *const *tables; /* each ends with a row whose pattern is NULL; ended by
                                               NULL */
    const struct openapi_words *words;
    size_t words_count;
    const struct openapi_param *params;
    size_t params_count;
    const struct http_filter *filter; /* NULL: all routes */
};
/* Appends the document. ERR_LIMIT: out or the arena is full. */
MUST_CHECK err openapi_render(const struct openapi_opts *o, struct arena *a, struct buf *out);

#endif
