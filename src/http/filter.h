/* filter.h - what one listener shows: some routes, some domains, some paths below a domain.
 *
 * Model. What a filter does not name is a path that no route has. Nobody looks whether it exists:
 * so what is hidden is answered as what never was, in the same time. A filter is made at the start
 * and read only after it. NULL stands for a filter that shows everything. Pure. */
#ifndef HTTP_FILTER_H
#define HTTP_FILTER_H

#include "http/http.h"

enum { HTTP_FILTER_PARTS_MAX = 4 };
/* The first segments of a path behind /{domain}/v1/: "page", "html". */
struct http_filter_path {
    str parts[HTTP_FILTER_PARTS_MAX];
    unsigned count;
};
/* Members with count 0 hide nothing. */
struct http_filter {
    /* labels of routes, or what labels begin with before a dot. None: routes that are no operator's
     * and, beside domains or paths, are health or begin with {domain} */
    const str *routes;
    unsigned routes_count;
    const str *domains; /* sorted by str_cmp; of paths that begin with {domain} */
    unsigned domains_count;
    const struct http_filter_path *paths; /* of the same; each shows what begins with it */
    unsigned paths_count;
};

/* Is name the label, or what it begins with before a dot? */
bool http_label_is_of(str label, str name);

bool http_filter_route(const struct http_filter *f, const struct http_route *route);
/* Is that label named, or one that begins with it, or none at all? */
bool http_filter_label(const struct http_filter *f, str label);
bool http_filter_domain(const struct http_filter *f, str domain);
/* parts: decoded. The lists of names below /{domain}/v1/ and below a bucket are shown, too, where
 * they lead to what is: their last part is empty. */
bool http_filter_path(const struct http_filter *f, const str *parts, unsigned count);
/* Is it shown, or something below it? */
bool http_filter_leads(const struct http_filter *f, const str *parts, unsigned count);
/* Could a path of this pattern be shown? Without optional tails. */
bool http_filter_pattern(const struct http_filter *f, const char *pattern);

/* Of the listener that x came to; NULL: everything. */
const struct http_filter *http_filter_of(const struct http_exchange *x);

#endif
