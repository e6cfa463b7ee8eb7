/* openapi.c - a path for each of the optional tails of a route, and its operations below it. */
#include "http/openapi.h"

#include <string.h>

enum { PATH_BYTES_MAX = 256, PATHS_MAX = 512 };

static const struct openapi_words *words_of(const struct openapi_opts *o, const char *label)
{
    static const struct openapi_words none = { .summary = "", .answers = "200 Done" };
    for (size_t i = 0; label != NULL && i < o->words_count; i++)
        if (strcmp(o->words[i].label, label) == 0)
            return &o->words[i];
    return &none;
}

static const char *const methods[HTTP_METHODS] = {
    [HTTP_GET] = "get",       [HTTP_HEAD] = "head",       [HTTP_PUT] = "put",  [HTTP_POST] = "post",
    [HTTP_DELETE] = "delete", [HTTP_OPTIONS] = "options", [HTTP_PURGE] = NULL, /* OpenAPI has no
                                                                                  word for it */
};

/* One path without optional tails, and the row it comes from. */
struct path {
    char text[PATH_BYTES_MAX];
    const struct http_route *route;
};
struct paths {
    unsigned count;
    struct path at[PATHS_MAX];
};

/* "/a[/{b}[/{c}]]" gives "/a", "/a/{b}" and "/a/{b}/{c}"; "{+rest}" is written "{rest}". Of these
 * those that the filter shows. */
static void add_paths(struct paths *p, const struct http_route *route,
                      const struct http_filter *filter)
{
    char text[PATH_BYTES_MAX];
    size_t n = 0;
    for (const char *at = route->pattern;; at++) {
        bool cut = *at == '[' || *at == ']' || *at == 0;
        if (cut) {
            INVARIANT(p->count < PATHS_MAX);
            struct path *out = &p->at[p->count];
            memcpy(out->text, text, n);
            out->text[n] = 0;
            out->route = route;
            p->count += http_filter_pattern(filter, out->text);
        }
        if (*at == 0 || *at == ']')
            return;
        if (cut || *at == '+')
            continue;
        INVARIANT(n + 1 < sizeof text);
        text[n++] = *at;
    }
}

static const char *schema_of(const struct openapi_opts *o, const char *path, str name)
{
    for (size_t i = 0; i < o->params_count; i++) {
        const struct openapi_param *p = &o->params[i];
        if (str_eq(name, str_of(p->name)) && (p->below == NULL || strstr(path, p->below) != NULL))
            return p->schema;
    }
    return "\"type\":\"string\"";
}

static void put_param(struct buf *b, const char *in, str name, const char *schema)
{
    bool first = b->n > 0 && b->p[b->n - 1] == '[';
    buf_printf(b, "%s{\"name\":\"%.*s\",\"in\":\"%s\",\"required\":%s,\"schema\":{%s}}",
               first ? "" : ",", STR_ARG(name), in, strcmp(in, "path") == 0 ? "true" : "false",
               schema);
}

static void put_params(struct buf *b, const struct openapi_opts *o, const char *path,
                       const char *query)
{
    str rest = str_of(path);
    buf_put(b, STR(",\"parameters\":["));
    for (size_t at = str_find(rest, '{'); at < rest.n; at = str_find(rest, '{')) {
        rest = str_skip(rest, at + 1);
        str name = str_split(&rest, '}');
        put_param(b, "path", name, schema_of(o, path, name));
    }
    rest = str_of(query);
    while (rest.n > 0) {
        str name = str_split(&rest, ' ');
        put_param(b, "query", name, schema_of(o, path, name));
    }
    buf_put_c(b, ']');
}

static void put_answers(struct buf *b, const char *answers)
{
    str rest = str_of(answers);
    buf_put(b, STR(",\"responses\":{"));
    while (rest.n > 0) {
        str one = str_split(&rest, '|');
        buf_printf(b, "\"%.*s\":{\"description\":\"%.*s\"},", STR_ARG(str_take(one, 3)),
                   STR_ARG(str_skip(one, 4)));
    }
    buf_put(b, STR("\"default\":{\"description\":\"A problem "
                   "document\",\"content\":{\"application/problem+json\":"
                   "{\"schema\":{\"$ref\":\"#/components/schemas/Problem\"}}}}}"));
}

static void put_operation(struct buf *b, const struct openapi_opts *o, const struct path *p)
{
    const struct http_route *r = p->route;
    const struct openapi_words *words = words_of(o, r->label);
    buf_printf(b, "\"%s\":{\"summary\":\"%s\",\"tags\":[\"%s\"]", methods[r->method],
               words->summary, r->label == NULL ? "" : r->label);
    put_params(b, o, p->text, words->query);
    if (r->body_bytes_max > 0)
        buf_printf(
            b, ",\"requestBody\":{\"content\":{\"*/*\":{}},\"description\":\"At most %zu bytes\"}",
            r->body_bytes_max);
    put_answers(b, words->answers);
    if (r->permission != NULL)
        buf_printf(b, ",\"security\":[{},{\"key\":[\"%s\"]}]", r->permission);
    buf_put_c(b, '}');
}

static bool seen_before(const struct paths *p, unsigned at)
{
    for (unsigned i = 0; i < at; i++)
        if (strcmp(p->at[i].text, p->at[at].text) == 0)
            return true;
    return false;
}

static void put_path(struct buf *b, const struct openapi_opts *o, const struct paths *p,
                     unsigned at)
{
    bool first = true;
    buf_printf(b, "\"%s\":{", p->at[at].text);
    for (unsigned i = at; i < p->count; i++) {
        if (strcmp(p->at[i].text, p->at[at].text) != 0)
            continue;
        buf_put(b, first ? STR("") : STR(","));
        put_operation(b, o, &p->at[i]);
        first = false;
    }
    buf_put_c(b, '}');
}

err openapi_render(const struct openapi_opts *o, struct arena *a, struct buf *out)
{
    struct paths *p = arena_alloc(a, sizeof *p);
    if (p == NULL)
        return ERR_LIMIT;
    p->count = 0;
    for (const struct http_route *const *t = o->tables; *t != NULL; t++)
        for (const struct http_route *r = *t; r->pattern != NULL; r++)
            if (methods[r->method] != NULL && http_filter_route(o->filter, r))
                add_paths(p, r, o->filter);
    buf_put(out, str_of(o->head));
    bool first = true;
    for (unsigned i = 0; i < p->count; i++) {
        if (seen_before(p, i))
            continue;
        buf_put(out, first ? STR("") : STR(","));
        put_path(out, o, p, i);
        first = false;
    }
    buf_put(out, str_of(o->tail));
    return buf_status(out);
}
