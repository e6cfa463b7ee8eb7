/* wiki_url.c - takes URLs of a wiki apart, for purges and events. Pure. */
#include "page/wiki_url.h"

#include "http/percent.h"

static const str hole = STR_INIT("$1");

bool wiki_article_path_is(str path)
{
    size_t at = str_find_str(path, hole);
    str rest = str_skip(path, at + hole.n);
    return path.n > 0 && path.p[0] == '/' && at < path.n &&
           str_find_str(rest, hole) == rest.n; /* once */
}

/* ---- hosts ---- */

/* An IPv6 address has colons within its brackets: the port's colon comes behind them. */
str wiki_url_host(str authority)
{
    size_t bracket = str_find(authority, ']');
    size_t from = bracket < authority.n ? bracket : 0;
    return str_take(authority, from + str_find(str_skip(authority, from), ':'));
}

/* A host without a port means that host on each port. */
bool wiki_place_has(const struct wiki_place *p, str authority)
{
    str rest = p->hosts, bare = wiki_url_host(authority);
    while (rest.n > 0) {
        str host = str_trim(str_split(&rest, ','));
        bool has_port = wiki_url_host(host).n < host.n;
        if (host.n > 0 && str_eq_nocase(host, has_port ? authority : bare))
            return true;
    }
    return false;
}

bool wiki_url_parse(str url, struct wiki_url *out)
{
    const str mark = STR("//");
    size_t at = str_find_str(url, mark);
    str scheme = str_take(url, at);
    bool known = scheme.n == 0 || str_eq_nocase(scheme, STR("http:")) ||
                 str_eq_nocase(scheme, STR("https:"));
    if (at == url.n || !known)
        return false;
    str rest = str_skip(url, at + mark.n);
    rest = str_take(rest, str_find(rest, '#'));
    size_t query = str_find(rest, '?');
    str place = str_take(rest, query);
    size_t slash = str_find(place, '/');
    /* Without a host the URL names no wiki. */
    if (slash == 0)
        return false;
    *out = (struct wiki_url){ .authority = str_take(place, slash),
                              .path = slash < place.n ? str_skip(place, slash) : STR("/"),
                              .query = str_skip(rest, query + 1) };
    return true;
}

/* ---- titles ---- */

/* Decodes a title; a text that cannot be decoded names nothing. */
static err decoded(struct arena *a, str text, bool is_form, str *title)
{
    err why = http_decode(a, text, is_form, title);
    if (why == ERR_BAD)
        *title = STR("");
    return why == ERR_BAD ? ERR_OK : why;
}

/* The value of the first `title` of a query. False: there is none. */
static bool query_title(str query, str *value)
{
    while (query.n > 0) {
        str pair = str_split(&query, '&');
        size_t equals = str_find(pair, '=');
        if (!str_eq(str_take(pair, equals), STR("title")))
            continue;
        *value = str_skip(pair, equals + 1);
        return true;
    }
    return false;
}

err wiki_url_title(struct arena *a, const struct wiki_place *p, str path, str query, str *title)
{
    str value;
    size_t at = str_find_str(p->article_path, hole);
    str before = str_take(p->article_path, at), after = str_skip(p->article_path, at + hole.n);
    *title = STR("");
    if (query_title(query, &value)) /* of a script, which may lie below the article path */
        return decoded(a, value, true, title);
    bool fits = path.n > before.n + after.n && str_starts(path, before) && str_ends(path, after);
    if (!fits)
        return ERR_OK;
    return decoded(a, str_take(str_skip(path, before.n), path.n - before.n - after.n), false,
                   title);
}

err wiki_url_own(struct arena *a, str path, str *domain, str *title)
{
    str rest = str_skip(path, 1);
    *title = *domain = STR("");
    str name = str_split(&rest, '/');
    bool own = str_eq(str_split(&rest, '/'), STR("v1"));
    own &= str_eq(str_split(&rest, '/'), STR("page"));
    str content = str_split(&rest, '/'), raw = str_split(&rest, '/');
    if (!own || name.n == 0 || content.n == 0 || raw.n == 0)
        return ERR_OK;
    *domain = name;
    return decoded(a, raw, false, title);
}
