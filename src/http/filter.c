/* filter.c - whether a listener shows a route, a domain, a path. */
#include "http/filter.h"

#include "http/exchange.h"

#include <string.h>

#define DOMAIN_FIRST "/{domain}/"
#define API_FIRST "/{domain}/v1/"
enum { LISTS_DEPTH_MAX = 2 }; /* "" and "page", "" */

bool http_label_is_of(str label, str name)
{
    return str_starts(label, name) && (label.n == name.n || label.p[name.n] == '.');
}

static bool begins_with_domain(const struct http_route *route)
{
    return str_starts(str_of(route->pattern), STR(DOMAIN_FIRST));
}

bool http_filter_route(const struct http_filter *f, const struct http_route *route)
{
    if (f == NULL)
        return true;
    for (unsigned i = 0; i < f->routes_count && route->label != NULL; i++)
        if (http_label_is_of(str_of(route->label), f->routes[i]))
            return true;
    if (f->routes_count > 0 || route->admin)
        return false;
    bool all = f->domains_count == 0 && f->paths_count == 0;
    return all || begins_with_domain(route) || router_is_health(route);
}

bool http_filter_label(const struct http_filter *f, str label)
{
    for (unsigned i = 0; f != NULL && i < f->routes_count; i++)
        if (http_label_is_of(label, f->routes[i]) || http_label_is_of(f->routes[i], label))
            return true;
    return f == NULL || f->routes_count == 0;
}

bool http_filter_domain(const struct http_filter *f, str domain)
{
    unsigned low = 0, high = f == NULL ? 0 : f->domains_count;
    if (high == 0)
        return true;
    while (low < high) {
        unsigned at = low + (high - low) / 2;
        int order = str_cmp(f->domains[at], domain);
        if (order == 0)
            return true;
        if (order < 0)
            low = at + 1;
        else
            high = at;
    }
    return false;
}

/* Do both have the same first n parts? wild: a part in braces is like any other. */
static bool same_parts(const struct http_filter_path *p, const str *parts, unsigned n, bool wild)
{
    for (unsigned i = 0; i < n; i++) {
        bool any = wild && parts[i].n > 0 && parts[i].p[0] == '{';
        if (!any && !str_eq(p->parts[i], parts[i]))
            return false;
    }
    return true;
}

static bool path_is_shown(const struct http_filter *f, const str *parts, unsigned count, bool wild)
{
    bool lists = count > 0 && count <= LISTS_DEPTH_MAX && parts[count - 1].n == 0;
    if (f == NULL || f->paths_count == 0)
        return true;
    for (unsigned i = 0; i < f->paths_count; i++) {
        const struct http_filter_path *p = &f->paths[i];
        if (p->count <= count && same_parts(p, parts, p->count, wild))
            return true;
        if (lists && count - 1 <= p->count && same_parts(p, parts, count - 1, wild))
            return true;
    }
    return false;
}

bool http_filter_path(const struct http_filter *f, const str *parts, unsigned count)
{
    return path_is_shown(f, parts, count, false);
}

bool http_filter_leads(const struct http_filter *f, const str *parts, unsigned count)
{
    if (f == NULL || f->paths_count == 0)
        return true;
    for (unsigned i = 0; i < f->paths_count; i++) {
        const struct http_filter_path *p = &f->paths[i];
        if (same_parts(p, parts, p->count < count ? p->count : count, false))
            return true;
    }
    return false;
}

bool http_filter_pattern(const struct http_filter *f, const char *pattern)
{
    str parts[ROUTER_SEGMENTS_MAX], rest = str_of(pattern);
    unsigned count = 0;
    if (!str_starts(rest, STR(API_FIRST)))
        return true;
    rest = str_skip(rest, sizeof API_FIRST - 1);
    bool more = true;
    while (more && count < COUNT_OF(parts)) {
        more = str_find(rest, '/') < rest.n;
        parts[count++] = str_split(&rest, '/');
    }
    return path_is_shown(f, parts, count, true);
}

const struct http_filter *http_filter_of(const struct http_exchange *x)
{
    return x->conn->listen->filter;
}
