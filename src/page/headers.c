/* headers.c - which header fields are kept with a content, for puts, and lines of kept fields,
 * for answers. The lists are linear: a request has few fields. */
#include "page/headers.h"

#include "http/negotiate.h"
#include "store/page_store.h"

#include <string.h>

/* Never kept, each for the reason headers.h gives; docs/api.md lists the same. A word stands
 * between hyphens. */
static const char *const dropped_words[] = {
    "access",   "agent",       "attribution", "auth",      "authentication", "authorization",
    "browsing", "cache",       "cdn",         "client",    "cookie",         "cookie2",
    "cross",    "csrf",        "digest",      "forwarded", "integrity",      "isolation",
    "origin",   "permissions", "policies",    "policy",    "proxy",          "reporting",
    "security", "session",     "storage",     "surrogate", "token",          "trial",
    "upgrade",  "worker",      "xsrf",
};
static const char *const dropped[] = {
    "a-im",
    "accept",
    "age",
    "allow",
    "alt-svc",
    "alt-used",
    "alternates",
    "api-key",
    "available-dictionary",
    "b3",
    "baggage",
    "clear-site-data",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "critical-ch",
    "date",
    "default-style",
    "delta-base",
    "device-memory",
    "dictionary-id",
    "dnt",
    "downlink",
    "early-data",
    "ect",
    "etag",
    "expect",
    "expect-ct",
    "expires",
    "from",
    "host",
    "http2-settings",
    "idempotency-key",
    "im",
    "keep-alive",
    "last-event-id",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "memento-datetime",
    "negotiate",
    "nel",
    "no-vary-search",
    "p3p",
    "pragma",
    "prefer",
    "preference-applied",
    "priority",
    "purpose",
    "range",
    "referer",
    "refresh",
    "replay-nonce",
    "report-to",
    "retry-after",
    "rtt",
    "save-data",
    "server",
    "server-timing",
    "set-login",
    "signature",
    "signature-input",
    "sourcemap",
    "speculation-rules",
    "status",
    "supports-loading-mode",
    "tcn",
    "te",
    "tk",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "use-as-dictionary",
    "variant-key",
    "variants",
    "vary",
    "via",
    "warning",
    "window-target",
    "www-authenticate",
    "x-api-key",
    "x-archive-files",
    "x-cascade",
    "x-content-type-options",
    "x-dns-prefetch-control",
    "x-download-options",
    "x-esi",
    "x-frame-options",
    "x-http-method-override",
    "x-method-override",
    "x-moz",
    "x-purpose",
    "x-real-ip",
    "x-requested-with",
    "x-sendfile",
    "x-sendfile2",
    "x-served-by",
    "x-sourcemap",
    "x-ua-compatible",
    "x-webkit-csp",
    "x-xss-protection",
    "xkey",
};
static const char *const dropped_prefixes[] = {
    "accept-",     "akamai-",    "cf-",        "cloudflare-",     "edge-",
    "fastly-",     "if-",        "netlify-",   "public-key-pins", "sec-",
    "vercel-",     "x-accel-",   "x-akamai-",  "x-amz-",          "x-amzn-",
    "x-b3-",       "x-datadog-", "x-envoy-",   "x-lighttpd-",     "x-litespeed-",
    "x-original-", "x-reproxy-", "x-request-", "x-rewrite-",      "x-store-",
    "x-varnish",   "x-vercel-",
};
/* Of these a key_value bucket keeps what the writer named by x-store-NAME: they describe the
 * value. */
static const char *const value_fields[] = { "content-location", "last-modified", "location",
                                            "vary" };

static bool starts_nocase(str s, str prefix)
{
    return s.n >= prefix.n && str_eq_nocase(str_take(s, prefix.n), prefix);
}

static bool is_among(str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(name, str_of(names[i])))
            return true;
    return false;
}

static bool has_dropped_word(str name)
{
    while (name.n > 0)
        if (is_among(str_split(&name, '-'), dropped_words, COUNT_OF(dropped_words)))
            return true;
    return false;
}

/* The name is judged by rules from the narrow to the wide; values are judged by themselves. */
bool headers_may_keep(str name, enum headers_rule rule)
{
    if (!http_is_token(name))
        return false;
    if (rule == HEADERS_VALUE && is_among(name, value_fields, COUNT_OF(value_fields)))
        return true;
    if (has_dropped_word(name) || is_among(name, dropped, COUNT_OF(dropped)))
        return false;
    for (size_t i = 0; i < COUNT_OF(dropped_prefixes); i++)
        if (starts_nocase(name, str_of(dropped_prefixes[i])))
            return false;
    return true;
}

bool headers_value_is_sane(str value)
{
    if (value.n > PAGE_HEADERS_BYTES_MAX)
        return false;
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static str headers_lower(struct arena *a, str name)
{
    char *at = arena_alloc(a, name.n);
    if (at == NULL)
        return STR_NONE;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        at[i] = (c >= 'A' && c <= 'Z') ? (char)(c - 'A' + 'a') : c;
    }
    return (str){ .p = at, .n = name.n };
}

/* The name that a field is kept under; empty: the field is not kept. An x-store-content-type
 * goes before the content-type of the request. */
static str kept_name(const struct http_pair *fields, unsigned count, unsigned at,
                     enum headers_rule rule)
{
    str name = fields[at].name;
    if (rule != HEADERS_ALL) {
        if (starts_nocase(name, STR("x-store-")))
            name = str_skip(name, STR("x-store-").n);
        else if (!str_eq_nocase(name, STR("content-type")))
            return STR_NONE;
        else
            for (unsigned i = 0; i < count; i++)
                if (str_eq_nocase(fields[i].name, STR("x-store-content-type")))
                    return STR_NONE;
    }
    return headers_may_keep(name, rule) ? name : STR_NONE;
}

err headers_keep(struct arena *a, const struct http_pair *fields, unsigned count,
                 enum headers_rule rule, str *lines, struct err_note *note)
{
    /* One line buffer for all: no more may be kept. */
    char *out = arena_alloc(a, PAGE_HEADERS_BYTES_MAX);
    if (out == NULL)
        return ERR_LIMIT;
    size_t used = 0;
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        str name = headers_lower(a, kept_name(fields, count, i, rule)),
            value = str_trim(fields[i].value), before;
        /* The first field of a name counts. */
        if (name.n == 0 || headers_find((str){ .p = out, .n = used }, name, &before))
            continue;
        /* ": " and the end of the line. */
        size_t need = name.n + value.n + 3;
        if (++kept > PAGE_HEADERS_MAX || need > PAGE_HEADERS_BYTES_MAX - used) {
            err_note_set(note, "more than %d headers or %d bytes of them", PAGE_HEADERS_MAX,
                         PAGE_HEADERS_BYTES_MAX);
            return ERR_LIMIT;
        }
        if (!headers_value_is_sane(value))
            return err_bad(note, "the value of header %.*s has control characters",
                           (int)(name.n < 64 ? name.n : 64), name.p);
        memcpy(out + used, name.p, name.n);
        memcpy(out + used + name.n, ": ", 2);
        if (value.n > 0)
            memcpy(out + used + name.n + 2, value.p, value.n);
        used += need;
        out[used - 1] = '\n';
    }
    *lines = (str){ .p = out, .n = used };
    return ERR_OK;
}

bool headers_next(str *lines, struct http_pair *out)
{
    while (lines->n > 0) {
        str line = str_split(lines, '\n');
        size_t colon = str_find(line, ':');
        /* Stored lines have a name and a colon; others are passed over. */
        if (colon == 0 || colon == line.n)
            continue;
        *out = (struct http_pair){ .name = str_take(line, colon),
                                   .value = str_trim(str_skip(line, colon + 1)) };
        return true;
    }
    return false;
}

bool headers_find(str lines, str name, str *value)
{
    struct http_pair line;
    while (headers_next(&lines, &line)) {
        if (!str_eq_nocase(line.name, name))
            continue;
        *value = line.value;
        return true;
    }
    return false;
}
