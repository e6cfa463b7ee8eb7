/* cors.c - judges whether a request may have been sent by a page of another site, and whether it
 * may do harm here. app.c asks before a route that changes something runs. The rules are in
 * cors.h. */
#include "app/cors.h"

#include "app/errors.h"
#include "auth/auth.h"
#include "base/address.h"
#include "http/filter.h"

/* Routes of queues ask for their permissions themselves: any of them may change something. */
static bool changes(const struct http_exchange *x)
{
    const char *permission = http_route(x)->permission;
    if (http_method(x) == HTTP_GET || http_method(x) == HTTP_HEAD)
        return false;
    return permission == NULL || !str_ends(str_of(permission), STR(".read"));
}

/* Does the browser say that a page of another site sent it? */
static bool is_foreign(const struct http_exchange *x)
{
    str site, origin, host = STR_NONE;
    if (http_header(x, "sec-fetch-site", &site) && str_eq_nocase(site, STR("cross-site")))
        return true;
    if (!http_header(x, "origin", &origin))
        return false;
    (void)http_header(x, "host", &host); /* one that is missing is nobody's origin */
    size_t colon = str_find(origin, ':');
    str authority = str_skip(origin, colon);
    return !str_starts(authority, STR("://")) || !str_eq_nocase(str_skip(authority, 3), host);
}

static bool rules_server(const struct http_exchange *x)
{
    const struct http_route *route = http_route(x);
    for (const struct http_route *r = app_authority_routes; r->pattern != NULL; r++)
        if (r == route)
            return true;
    return route->admin;
}

static bool is_numeric(str host)
{
    struct address a;
    bool six = host.n > 1 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (six)
        host = str_take(str_skip(host, 1), host.n - 2);
    return six == (str_find(host, ':') < host.n) && address_parse(host, &a);
}

/* A number, localhost, or a domain that the listener shows. */
static bool is_known(const struct http_filter *v, str authority, const struct app *app)
{
    bool bracketed = authority.n > 0 && authority.p[0] == '[';
    size_t end = bracketed ? str_find(authority, ']') + 1 : str_find(authority, ':');
    str host = str_take(authority, end), port = str_skip(authority, end);
    if (port.n > 0 && port.p[0] != ':')
        return false;
    if (is_numeric(host) || str_eq_nocase(host, STR("localhost")))
        return true;
    for (unsigned i = 0; i < app->page.domains_count; i++)
        if (str_eq_nocase(host, app->page.domains[i].name) &&
            http_filter_domain(v, app->page.domains[i].name))
            return true;
    return false;
}

static bool by_browser(const struct http_exchange *x)
{
    str value;
    return http_header(x, "origin", &value) || http_header(x, "sec-fetch-site", &value);
}

bool cors_may(struct http_exchange *x, const struct app *app)
{
    str host;
    if (auth_enabled(app->auth) && auth_is_bearer(http_common(x)->authorization))
        return true;
    if (changes(x) && is_foreign(x)) {
        app_problem(x, 403, "forbidden#site", NULL,
                    STR("A page of another site may not change anything here while no key is asked "
                        "for: Origin must "
                        "name the request's Host, and Sec-Fetch-Site must not be cross-site."),
                    STR_NONE);
        return false;
    }
    bool asks = rules_server(x) || (changes(x) && by_browser(x));
    if (!asks || !http_header(x, "host", &host) || is_known(http_filter_of(x), host, app))
        return true;
    app_problem(x, 403, "forbidden#host", NULL,
                STR("While no key is asked for, this is done only under a Host that is a numeric "
                    "address, localhost, "
                    "or a domain that is served here."),
                STR_NONE);
    return false;
}
