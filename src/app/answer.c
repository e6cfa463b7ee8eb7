/* answer.c - answers with content. Fields that a browser heeds (policies, CORS) are added here and
 * nowhere else. */
#include "app/answer.h"

#include "app/table/value_path.h"
#include "http/filter.h"
#include "store/page_store.h"

static bool starts_nocase(str s, str prefix)
{
    return s.n >= prefix.n && str_eq_nocase(str_take(s, prefix.n), prefix);
}

int64_t headers_wait_ms(const struct http_exchange *x, int64_t most_ms)
{
    str field;
    uint64_t seconds;
    if (http_header(x, "prefer", &field) && http_prefer_wait(field, &seconds) &&
        seconds < (uint64_t)most_ms / 1000)
        return 1000 * (int64_t)seconds;
    return most_ms;
}

void answer_add(struct answer *w, str name, str value)
{
    INVARIANT(w->count < ANSWER_HEADERS_MAX);
    w->headers[w->count++] = (struct http_pair){ .name = name, .value = value };
}

void answer_add_vary(struct answer *w, struct arena *a, str field)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct http_pair *h = &w->headers[i];
        if (!str_eq_nocase(h->name, STR("vary")))
            continue;
        for (str rest = h->value; rest.n > 0;) {
            str one = str_trim(str_split(&rest, ','));
            if (str_eq_nocase(one, field) || str_eq(one, STR("*")))
                return;
        }
        h->value = arena_printf(a, "%.*s, %.*s", STR_ARG(h->value), STR_ARG(field));
        return;
    }
    answer_add(w, STR("vary"), field);
}

void answer_add_kept(struct answer *w, str lines, enum headers_rule rule)
{
    struct http_pair line;
    unsigned kept = 0;
    while (kept < PAGE_HEADERS_MAX && headers_next(&lines, &line)) {
        if (!headers_may_keep(line.name, rule) || !headers_value_is_sane(line.value))
            continue;
        answer_add(w, line.name, line.value);
        kept++;
    }
}

str answer_add_type(struct answer *w, str lines)
{
    str type = STR("application/octet-stream");
    if (!headers_find(lines, STR("content-type"), &type))
        answer_add(w, STR("content-type"), type);
    return type;
}

/* Is it a document that a browser may run scripts of? */
static bool is_document(str content_type)
{
    str type = str_trim(str_take(content_type, str_find(content_type, ';')));
    return str_eq_nocase(type, STR("text/html")) || str_eq_nocase(type, STR("image/svg+xml")) ||
           str_eq_nocase(type, STR("application/xhtml+xml")) ||
           str_eq_nocase(type, STR("text/xml")) || str_eq_nocase(type, STR("application/xml"));
}

/* "en.example.test" -> "*.example.test": styles come from any sibling of a wiki. */
static str policy_of(struct arena *a, str domain, str styles)
{
    const char *star = "";
    str rest = str_skip(domain, str_find(domain, '.') + 1);
    if (str_find(rest, '.') < rest.n) {
        star = "*.";
        domain = rest;
    }
    if (domain.n == 0)
        return STR("default-src 'none'; media-src *; img-src *; frame-ancestors 'self'");
    return arena_printf(
        a,
        "default-src 'none'; media-src *; img-src *; style-src http://%s%.*s https://%s%.*s%s%.*s "
        "'unsafe-inline'; frame-ancestors 'self'",
        star, STR_ARG(domain), star, STR_ARG(domain), styles.n > 0 ? " " : "", STR_ARG(styles));
}

void answer_add_security(struct answer *w, struct arena *a, str content_type, str domain)
{
    answer_add_security_and(w, a, content_type, domain, STR_NONE);
}

void answer_add_security_and(struct answer *w, struct arena *a, str content_type, str domain,
                             str styles)
{
    static const struct {
        const char *name, *value;
    } always[] = {
        { "x-content-type-options", "nosniff" },
        { "referrer-policy", "origin-when-cross-origin" },
        { "x-frame-options", "SAMEORIGIN" },
        { "access-control-allow-origin", "*" },
        { "access-control-expose-headers", "etag" },
    };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        answer_add(w, str_of(always[i].name), str_of(always[i].value));
    str policy = is_document(content_type) ? policy_of(a, domain, styles) : STR_NONE;
    if (policy.n == 0) /* no document, or no memory left for its policy: the strict one */
        policy = STR("default-src 'none'; frame-ancestors 'none'");
    answer_add(w, STR("content-security-policy"), policy);
}

bool answer_shared(const struct http_exchange *x)
{
    const struct http_route *route = http_route(x);
    str path = route == NULL ? http_target(x) : str_of(route->pattern);
    bool known = route != NULL || http_filter_of(x) == NULL; /* hidden, it is any path */
    bool own = str_eq(path, STR("/metrics")) || str_starts(path, STR("/v2/"));
    if (str_starts(path, STR("/v1/")) || (known && own))
        return false;
    return !http_is_withheld(x) && (!value_path(path) || http_is_shared(x));
}

static void headers_send(struct http_exchange *x, const struct answer *w)
{
    bool shared = answer_shared(x), withheld = http_is_withheld(x);
    for (unsigned i = 0; i < w->count; i++) {
        const struct http_pair *h = &w->headers[i];
        if (withheld && str_eq_nocase(h->name, STR("cache-control")))
            http_reply_header(x, h->name, STR(HEADERS_CACHE_NONE));
        else if (shared || !starts_nocase(h->name, STR("access-control-")))
            http_reply_header(x, h->name, h->value);
    }
}

void answer_send(struct http_exchange *x, const struct answer *w)
{
    headers_send(x, w);
    http_answer(x, w->status, w->body);
}

void answer_send_pull(struct http_exchange *x, const struct answer *w, int64_t length,
                      const struct http_stream *of, void *ctx)
{
    headers_send(x, w);
    http_answer_pull(x, w->status, length, of, ctx);
}

static struct answer json_answer(struct http_exchange *x, int status, str body,
                                 const char *cache_control)
{
    struct answer w = { .status = status, .body = body };
    str type = STR("application/json; charset=utf-8");
    answer_add(&w, STR("content-type"), type);
    answer_add(&w, STR("cache-control"),
               str_of(cache_control == NULL ? HEADERS_CACHE_PRIVATE : cache_control));
    answer_add_security(&w, http_arena(x), type, STR_NONE);
    return w;
}

void answer_json(struct http_exchange *x, int status, str body, const char *cache_control)
{
    const struct answer w = json_answer(x, status, body, cache_control);
    answer_send(x, &w);
}

void answer_json_pull(struct http_exchange *x, int status, const char *cache_control,
                      const struct http_stream *of, void *ctx)
{
    const struct answer w = json_answer(x, status, STR_NONE, cache_control);
    answer_send_pull(x, &w, -1, of, ctx);
}
