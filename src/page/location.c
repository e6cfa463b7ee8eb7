/* location.c - writes addresses of pages, absolute and relative, for headers and redirects. */
#include "page/location.h"

#include "http/percent.h"

#include <inttypes.h>

str page_location_base(struct arena *a, str public_url, str domain)
{
    const str hole = STR("{domain}");
    if (public_url.n == 0)
        return arena_printf(a, "/%.*s/v1", STR_ARG(domain));
    /* public_url may name the domain more than once. */
    str base = STR(""), url = public_url;
    while (url.n > 0 && base.p != NULL) {
        size_t at = str_find_str(url, hole);
        bool found = at < url.n;
        base = arena_printf(a, "%.*s%.*s%.*s", STR_ARG(base), STR_ARG(str_take(url, at)),
                            STR_ARG(found ? domain : STR("")));
        url = str_skip(url, at + (found ? hole.n : 0));
    }
    return base;
}

str page_location_styles(struct arena *a, str public_url, str domain)
{
    if (public_url.n == 0)
        return STR_NONE;
    str base = page_location_base(a, public_url, domain);
    /* The host ends with the first slash behind "://". */
    size_t host = str_find_str(base, STR("://")) + 3;
    return str_take(base, host + str_find(str_skip(base, host), '/'));
}

str page_location(struct arena *a, const struct page_location *l)
{
    const struct page_target *t = l->target;
    str base = page_location_base(a, l->public_url, t->domain->name);
    return arena_printf(a, "%.*s/%s/%.*s/%.*s%s%.*s%s%.*s", STR_ARG(base), t->settings->opts->name,
                        STR_ARG(l->content), STR_ARG(http_encode(a, t->title)),
                        l->behind.n > 0 ? "/" : "", STR_ARG(l->behind), l->query.n > 0 ? "?" : "",
                        STR_ARG(l->query));
}

/* From the request's path back to the place of its title. */
static const char *way_back(const struct page_target *t)
{
    return t->has_tid ? "../../" : t->has_rev ? "../" : "";
}

str page_location_redirect(struct arena *a, const struct page_target *from, str target_key,
                           str query)
{
    size_t hash = str_find(target_key, '#');
    str title = str_take(target_key, hash), fragment = str_skip(target_key, hash);
    /* Without redirect=false the client would come back here for ever. */
    bool itself = str_eq(title, http_encode(a, from->title));
    return arena_printf(a, "%s%.*s%s%.*s%s%.*s", way_back(from), STR_ARG(title),
                        query.n > 0 || itself ? "?" : "", STR_ARG(query),
                        !itself       ? ""
                        : query.n > 0 ? "&redirect=false"
                                      : "redirect=false",
                        STR_ARG(fragment));
}

str page_location_moved(struct arena *a, const struct page_target *t, str query)
{
    char tid[TID_TEXT_BYTES + 1] = "";
    if (t->has_tid)
        tid_format(t->name.tid, tid);
    str rev = t->has_rev ? arena_printf(a, "/%" PRIu64, t->name.rev) : STR("");
    return arena_printf(a, "%s%.*s%.*s%s%s%s%.*s", way_back(t), STR_ARG(http_encode(a, t->title)),
                        STR_ARG(rev), t->has_tid ? "/" : "", tid, query.n > 0 ? "?" : "",
                        STR_ARG(query));
}
