/* request.c - makes the requests of an item.
 *
 * Invariants:
 *   1. The scheme, the host and the port of a job's and a purge's URL are those of the target,
 *      which is in the rule.
 *   2. A request has one Host at most. For a whole URL that is its authority, whatever the rule's
 *      headers say: it names the site of which the target purges a page.
 *   3. Nothing is written to *out, unless all requests were made. */
#include "change/request.h"

#include "change/change.h"
#include "codec/json.h"
#include "http/client.h"

#include <string.h>

enum { OWN_HEADERS_MAX = 3, /* Content-Type, Accept-Encoding, hops */ SHOWN = 64 };

struct making {
    const struct change_making *m;
    struct arena *arena;
    struct err_note *note;
    struct http_pair *headers; /* those of the rule, filled in, and ours but for Host */
    unsigned headers_count;
    struct change_request *at;
    unsigned count;
    str named; /* a URL of the requests: all of them have the same origin */
};

static err full(struct making *k)
{
    err_note_set(k->note, "the request finds no room in memory");
    return ERR_LIMIT;
}

/* ---- templates ---- */

/* Fills in t, in the arena. A fault's sentence begins with what and name: "header X-Page". */
static err template_fill(struct making *k, const struct rule_template *t, const char *what,
                         str name, str *out)
{
    const struct change_making *m = k->m;
    struct err_note note = { .text = "" };
    struct buf b;
    buf_init(&b, RULE_EXPANDED_BYTES_MAX);
    err why = rule_expand(m->event, m->verdict, t, m->domains, &b, &note);
    str filled = why == ERR_OK ? arena_copy(k->arena, buf_str(&b)) : STR("");
    buf_fini(&b);
    if (why != ERR_OK) /* also one that is too long is so each time */
        return err_bad(k->note, "%s%.*s: %s", what, STR_ARG(str_take(name, SHOWN)), note.text);
    if (filled.p == NULL)
        return full(k);
    *out = filled;
    return ERR_OK;
}

static bool has_header(const struct making *k, const char *name)
{
    for (unsigned i = 0; i < k->headers_count; i++)
        if (str_eq_nocase(k->headers[i].name, str_of(name)))
            return true;
    return false;
}

static void header_default(struct making *k, const char *name, const char *value)
{
    if (!has_header(k, name))
        k->headers[k->headers_count++] =
            (struct http_pair){ .name = str_of(name), .value = str_of(value) };
}

/* Who sends events because of this request passes it on, and so rules that feed each other end. */
static err header_hops(struct making *k)
{
    str value = arena_printf(k->arena, "%u", k->m->hops);
    if (value.p == NULL)
        return full(k);
    k->headers[k->headers_count++] =
        (struct http_pair){ .name = STR(CHANGE_HOPS_HEADER), .value = value };
    return ERR_OK;
}

/* The text of replies is not read, but for its first line: compressing it is of no use. */
static err headers_fill(struct making *k, bool with_type)
{
    const struct rule *r = k->m->rule;
    k->headers = arena_calloc(k->arena, r->headers_count + OWN_HEADERS_MAX, sizeof *k->headers);
    if (k->headers == NULL)
        return full(k);
    for (unsigned i = 0; i < r->headers_count; i++) {
        struct http_pair *h = &k->headers[k->headers_count];
        h->name = r->headers[i].name;
        if (str_eq_nocase(h->name, STR(CHANGE_HOPS_HEADER)))
            continue; /* it is the server's own */
        err why = template_fill(k, r->headers[i].value, "header ", h->name, &h->value);
        if (why != ERR_OK)
            return why;
        k->headers_count++;
    }
    if (with_type)
        header_default(k, "Content-Type", "application/json");
    header_default(k, "Accept-Encoding", "identity");
    return r->effect == RULE_HTTP ? header_hops(k) : ERR_OK;
}

/* The same headers for a URL of that authority. */
static err headers_with_host(struct making *k, str authority, struct change_request *r)
{
    struct http_pair *all = arena_calloc(k->arena, k->headers_count + 1, sizeof *all);
    if (all == NULL)
        return full(k);
    all[0] = (struct http_pair){ .name = STR("Host"), .value = authority };
    r->headers_count = 1;
    for (unsigned i = 0; i < k->headers_count; i++)
        if (!str_eq_nocase(k->headers[i].name, STR("Host")))
            all[r->headers_count++] = k->headers[i];
    r->headers = all;
    return ERR_OK;
}

/* ---- URLs ---- */

static str str_join(struct arena *a, str x, str y, str z)
{
    return arena_printf(a, "%.*s%.*s%.*s", STR_ARG(x), STR_ARG(y), STR_ARG(z));
}

/* Splits an absolute URL behind its authority. */
static void url_split(str url, str *authority, str *target)
{
    str rest = str_skip(url, str_find_str(url, STR("://")) + 3);
    size_t slash = str_find(rest, '/'), query = str_find(rest, '?');
    *authority = str_take(rest, slash < query ? slash : query);
    *target = str_skip(rest, authority->n);
}

err change_uri_split(str uri, str *authority, str *target, struct err_note *note)
{
    char origin[HTTP_ORIGIN_BYTES_MAX];
    if (uri.n > CHANGE_URI_BYTES_MAX)
        return err_bad(note, "uri is longer than %d bytes", CHANGE_URI_BYTES_MAX);
    if (http_client_origin(uri, origin) != ERR_OK)
        return err_bad(note, "uri is no http or https URL, or has bytes that no URL has");
    url_split(uri, authority, target);
    return ERR_OK;
}

/* Of a path and query at the item's target. */
static err url_at_target(struct making *k, str path, str *url)
{
    str slash = path.n > 0 && path.p[0] == '/' ? STR("") : STR("/");
    *url = str_join(k->arena, k->m->target, slash, path);
    return url->p == NULL ? full(k) : ERR_OK;
}

/* ---- purges ---- */

static void request_put(struct making *k, struct change_request r)
{
    if (r.headers == NULL) {
        r.headers = k->headers;
        r.headers_count = k->headers_count;
    }
    k->at[k->count++] = r;
}

/* A PURGE of a whole URL of authority, at the target. */
static err purge_foreign(struct making *k, str authority, str path)
{
    struct change_request r = { .method = "PURGE" };
    err why = url_at_target(k, path, &r.url);
    if (why == ERR_OK)
        why = headers_with_host(k, authority, &r);
    if (why == ERR_OK)
        request_put(k, r);
    return why;
}

static err purge_own(struct making *k, const struct rule_template *t)
{
    str url, authority, path;
    err why = template_fill(k, t, "urls", STR(""), &url);
    if (why != ERR_OK)
        return why;
    if (url.n > 0 && url.p[0] != '/') {
        url_split(url, &authority, &path);
        return purge_foreign(k, authority, path);
    }
    struct change_request r = { .method = "PURGE" };
    why = url_at_target(k, url, &r.url);
    if (why == ERR_OK)
        request_put(k, r);
    return why;
}

/* The member "uri" of the event, which rule_event_begin found to be JSON. */
static err event_uri(struct making *k, str *uri)
{
    str rest, quoted, value, name, found = STR_NONE;
    if (!json_slice_value(k->m->given->bytes, &rest))
        return err_bad(k->note, "the event is no JSON");
    while (json_slice_pair(&rest, &quoted, &value)) {
        err why = json_slice_string(k->arena, quoted, &name);
        if (why == ERR_LIMIT)
            return full(k);
        if (why != ERR_OK || !str_eq(name, STR("uri")))
            continue;
        if (found.p != NULL)
            return err_bad(k->note, "the event has uri twice");
        found = value;
    }
    err why = found.p == NULL ? ERR_BAD : json_slice_string(k->arena, found, uri);
    if (why == ERR_LIMIT)
        return full(k);
    return why == ERR_OK ? ERR_OK : err_bad(k->note, "the event has no text uri to purge");
}

static err relay_make(struct making *k)
{
    str uri, authority, path;
    err why = event_uri(k, &uri);
    if (why == ERR_OK)
        why = change_uri_split(uri, &authority, &path, k->note);
    return why == ERR_OK ? purge_foreign(k, authority, path) : why;
}

static err purges_make(struct making *k)
{
    const struct rule *r = k->m->rule;
    err why = headers_fill(k, false);
    if (why == ERR_OK && str_eq(k->m->given->stream, STR(CHANGE_PURGES)))
        return relay_make(k);
    for (unsigned i = 0; i < r->urls_count && why == ERR_OK; i++)
        why = purge_own(k, r->urls[i]);
    return why;
}

/* ---- jobs and others ---- */

static err job_make(struct making *k)
{
    err why = headers_fill(k, true);
    if (why == ERR_OK)
        request_put(k, (struct change_request){
                           .method = "POST", .url = k->m->target, .body = k->m->given->bytes });
    return why;
}

static err http_make(struct making *k)
{
    const struct rule *r = k->m->rule;
    struct change_request request = { .method = arena_cstr(k->arena, r->method) };
    if (request.method == NULL)
        return full(k);
    err why = headers_fill(k, r->body != RULE_BODY_NONE);
    if (why == ERR_OK)
        why = template_fill(k, r->url, "url", STR(""), &request.url);
    if (why == ERR_OK && r->body == RULE_BODY_TEMPLATE)
        why = template_fill(k, r->body_template, "body", STR(""), &request.body);
    if (r->body == RULE_BODY_EVENT)
        request.body = k->m->given->bytes;
    k->named = request.url;
    if (why == ERR_OK)
        request_put(k, request);
    return why;
}

/* ---- all ---- */

static err make_by_effect(struct making *k)
{
    switch (k->m->rule->effect) {
    case RULE_HTTP:
        return http_make(k);
    case RULE_JOB:
        return job_make(k);
    case RULE_PURGE:
        return purges_make(k);
    case RULE_LOOK:
    case RULE_PRODUCE:
    case RULE_TIMELINE:
    case RULE_DROP:
    case RULE_EFFECTS:
        break;
    }
    INVARIANT(false); /* the others make no requests */
    return ERR_BAD;
}

/* An item outlives the rule that it was made by: the rule of its name may have other targets. */
static bool has_target(const struct rule *r, str target)
{
    if (r->effect == RULE_HTTP)
        return target.n == 0;
    for (unsigned i = 0; i < r->targets.count; i++)
        if (str_eq(r->targets.p[i], target))
            return true;
    return false;
}

err change_requests_make(const struct change_making *m, struct arena *a,
                         struct change_requests *out, struct err_note *note)
{
    struct making k = { .m = m, .arena = a, .note = note, .named = m->target };
    char origin[HTTP_ORIGIN_BYTES_MAX];
    if (!has_target(m->rule, m->target))
        return err_bad(note, "the rule has no target %.*s", STR_ARG(str_take(m->target, SHOWN)));
    unsigned count_max = m->rule->urls_count + 1;
    k.at = arena_calloc(a, count_max, sizeof *k.at);
    if (k.at == NULL)
        return full(&k);
    err why = make_by_effect(&k);
    if (why != ERR_OK)
        return why;
    if (http_client_origin(k.named, origin) != ERR_OK)
        return err_bad(note, "the URL names nobody whom one can ask");
    str target = arena_copy(a, str_of(origin));
    if (target.p == NULL)
        return full(&k);
    *out = (struct change_requests){ .at = k.at, .count = k.count, .target = target };
    return ERR_OK;
}
