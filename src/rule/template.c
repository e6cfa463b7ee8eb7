/* template.c - reads texts with placeholders: {domain}, {title}, {rev}, {tid}, {stream}, {kind},
 * the names of captures, and members by path. In headers and bodies {{ and }} are braces.
 *
 * Invariants:
 *   1. A placeholder in a URL is behind its authority, or it is {domain} and all of the host.
 *   2. All else in a URL are characters of a URL (RFC 3986), and no segment of it is a dot or two.
 * What values may be is seen when a template is filled in (expand.c). */
#include "codec/json.h"
#include "codec/json_text.h"
#include "rule/rule_impl.h"

#include <string.h>

enum { PIECES_MAX = RULE_VALUES_MAX };

/* Pieces as they are read: literal is what comes before the next placeholder. */
struct builder {
    struct rule_reading *r;
    const yaml_node_t *at;
    struct buf literal;
    struct rule_piece pieces[PIECES_MAX];
    unsigned count;
    size_t bytes; /* of all literals */
};

/* ---- pieces ---- */

static bool literal_end(struct builder *b)
{
    str text = buf_str(&b->literal);
    if (text.n == 0)
        return true;
    b->bytes += text.n;
    if (b->bytes > RULE_EXPANDED_BYTES_MAX || buf_status(&b->literal) != ERR_OK)
        return rule_fail(b->r, b->at, "is longer than %d bytes", RULE_EXPANDED_BYTES_MAX);
    if (b->count == PIECES_MAX)
        return rule_fail(b->r, b->at, "has more than %d placeholders", PIECES_MAX / 2);
    struct rule_piece piece = { .is_placeholder = false };
    if (!rule_keep(b->r, b->at, text, &piece.text))
        return false;
    b->pieces[b->count++] = piece;
    buf_clear(&b->literal);
    return true;
}

static bool placeholder_add(struct builder *b, str name, bool is_whole)
{
    struct rule_piece piece = { .is_placeholder = true, .is_whole = is_whole };
    const struct rule *rule = b->r->rule;
    if (!literal_end(b))
        return false;
    if (b->count == PIECES_MAX)
        return rule_fail(b->r, b->at, "has more than %d placeholders", PIECES_MAX / 2);
    if (!rule_keep(b->r, b->at, name, &piece.text))
        return false;
    bool found = false;
    for (unsigned i = 0; i < rule->captures_count && !found; i++) {
        found = str_eq(rule->captures[i], name);
        piece.subject = (struct rule_subject){ .kind = RULE_SUBJECT_CAPTURE, .index = i };
    }
    const char *wrong =
        found ? NULL : rule_subject_find(&b->r->set->paths, piece.text, &piece.subject);
    if (wrong != NULL)
        return rule_fail(b->r, b->at, "has {%.*s}, which %s", STR_ARG(str_take(name, 64)), wrong);
    b->pieces[b->count++] = piece;
    return true;
}

/* How a template's own text is put: as it is, or escaped for JSON. */
static void literal_put(struct builder *b, enum rule_template_kind kind, str text)
{
    if (kind != RULE_TEMPLATE_BODY) {
        buf_put(&b->literal, text);
        return;
    }
    size_t before = b->literal.n;
    json_text_append(&b->literal, text);
    if (buf_status(&b->literal) != ERR_OK)
        return;
    b->literal.n--; /* without the quotes */
    memmove(b->literal.p + before, b->literal.p + before + 1, b->literal.n - before - 1);
    b->literal.n--;
}

/* The next brace of text from i on is one of a pair that stands for itself. */
static bool is_double(str text, size_t i, enum rule_template_kind kind)
{
    bool may = kind == RULE_TEMPLATE_HEADER || kind == RULE_TEMPLATE_BODY;
    return may && i + 1 < text.n && text.p[i + 1] == text.p[i];
}

static bool text_read(struct builder *b, enum rule_template_kind kind, str text)
{
    size_t i = 0;
    while (i < text.n) {
        size_t plain = i;
        while (plain < text.n && text.p[plain] != '{' && text.p[plain] != '}')
            plain++;
        literal_put(b, kind, (str){ .p = text.p + i, .n = plain - i });
        i = plain;
        if (i == text.n)
            break;
        if (is_double(text, i, kind)) {
            buf_put_c(&b->literal, text.p[i]);
            i += 2;
            continue;
        }
        str rest = str_skip(text, i + 1);
        size_t end = str_find(rest, '}');
        if (text.p[i] == '}' || end == rest.n)
            return rule_fail(b->r, b->at,
                             text.p[i] == '}' ? "has a } without a {" : "has a { without a }");
        if (!placeholder_add(b, str_take(rest, end), false))
            return false;
        i += end + 2;
    }
    return true;
}

static bool template_end(struct builder *b, enum rule_template_kind kind, str source,
                         bool host_is_domain, const struct rule_template **out)
{
    if (!literal_end(b))
        return false;
    struct rule_piece *pieces = rule_alloc(b->r, b->at, b->count + 1, sizeof *pieces);
    struct rule_template *t = rule_alloc(b->r, b->at, 1, sizeof *t);
    if (pieces == NULL || t == NULL)
        return false;
    memcpy(pieces, b->pieces, b->count * sizeof *pieces);
    *t = (struct rule_template){ .kind = kind,
                                 .source = source,
                                 .pieces = pieces,
                                 .pieces_count = b->count,
                                 .host_is_domain = host_is_domain };
    *out = t;
    return true;
}

/* ---- URLs ---- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_port(str s)
{
    uint64_t port;
    return s.n <= 5 && str_to_u64(s, &port) && port >= 1 && port <= 65535;
}

/* host[:port], [v6][:port], {domain}[:port] */
static const char *authority_check(str s, bool *host_is_domain)
{
    str host = str_take(s, str_find(s, ':')), port = str_skip(s, host.n);
    *host_is_domain = str_eq(host, STR("{domain}"));
    if (s.n > 0 && s.p[0] == '[') {
        host = str_take(s, str_find(s, ']') + 1);
        port = str_skip(s, host.n);
        for (size_t i = 1; i + 1 < host.n; i++)
            if (str_hex_digit(host.p[i]) < 0 && host.p[i] != ':' && host.p[i] != '.')
                return "has no address between its brackets";
        if (host.n < 4 || host.p[host.n - 1] != ']')
            return "has no address between its brackets";
    } else if (!*host_is_domain) {
        if (str_find(s, '@') < s.n)
            return "has a user in its address; headers are for that";
        if (str_find(s, '{') < s.n)
            return "has a placeholder in its host; {domain} alone may be there, as all of it";
        for (size_t i = 0; i < host.n; i++)
            if (!is_alnum(host.p[i]) && host.p[i] != '.' && host.p[i] != '-' && host.p[i] != '_')
                return "has a host with characters that no host has";
        if (host.n == 0)
            return "has no host";
    }
    return port.n == 0 || (port.p[0] == ':' && is_port(str_skip(port, 1)))
               ? NULL
               : "has a port that is none";
}

static bool is_dots(str s)
{
    return str_eq(s, STR(".")) || str_eq(s, STR("..")) || str_eq_nocase(s, STR("%2e")) ||
           str_eq_nocase(s, STR("%2e.")) || str_eq_nocase(s, STR(".%2e")) ||
           str_eq_nocase(s, STR("%2e%2e"));
}

/* What is behind the authority; placeholders are looked at elsewhere. */
static const char *path_check(str s)
{
    str path = str_take(s, str_find(s, '?'));
    while (path.p != NULL)
        if (is_dots(str_split(&path, '/')))
            return "has . or .. in its path";
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '{') {
            i += str_find(str_skip(s, i), '}');
            continue;
        }
        if (s.p[i] == '%' &&
            (i + 2 >= s.n || str_hex_digit(s.p[i + 1]) < 0 || str_hex_digit(s.p[i + 2]) < 0))
            return "has a % that is no percent-encoding";
        if (s.p[i] == '#')
            return "has a #, which no request carries";
        if (!is_alnum(s.p[i]) && strchr("-._~!$&'()*+,;=:@/?%}", s.p[i]) == NULL)
            return "has a character that has to be percent-encoded";
    }
    return NULL;
}

static size_t scheme_bytes(str url)
{
    return str_starts(url, STR("http://")) ? 7 : str_starts(url, STR("https://")) ? 8 : 0;
}

static str authority_of(str url)
{
    str rest = str_skip(url, scheme_bytes(url));
    size_t slash = str_find(rest, '/'), query = str_find(rest, '?');
    return str_take(rest, slash < query ? slash : query);
}

static const char *url_check(str url, bool *host_is_domain)
{
    if (scheme_bytes(url) == 0)
        return "wants a URL that begins with http:// or https://";
    str authority = authority_of(url);
    const char *wrong = authority_check(authority, host_is_domain);
    return wrong != NULL ? wrong : path_check(str_skip(url, scheme_bytes(url) + authority.n));
}

bool rule_read_target(struct rule_reading *r, const yaml_node_t *n, bool with_path, str *out)
{
    str url;
    bool host_is_domain = false;
    if (!rule_read_text(r, n, &url))
        return false;
    const char *wrong = url_check(url, &host_is_domain);
    if (wrong == NULL && str_find(url, '{') < url.n)
        wrong = "has a placeholder; targets have none";
    if (wrong != NULL)
        return rule_fail(r, n, "%s", wrong);
    size_t origin = scheme_bytes(url) + authority_of(url).n;
    str path = str_skip(url, origin);
    if (!with_path && path.n > 0 && !str_eq(path, STR("/")))
        return rule_fail(r, n, "wants http://HOST:PORT without a path; urls are for that");
    *out = with_path ? url : str_take(url, origin);
    return true;
}

/* ---- templates ---- */

static const char *source_check(enum rule_template_kind kind, str source, bool *host_is_domain)
{
    switch (kind) {
    case RULE_TEMPLATE_URL:
        return url_check(source, host_is_domain);
    case RULE_TEMPLATE_PATH:
        return str_starts(source, STR("//")) ? "begins with two slashes" : path_check(source);
    case RULE_TEMPLATE_HOST:
        return authority_check(source, host_is_domain);
    case RULE_TEMPLATE_HEADER:
    case RULE_TEMPLATE_BODY:
        break;
    }
    return NULL;
}

bool rule_read_template(struct rule_reading *r, const yaml_node_t *n, enum rule_template_kind kind,
                        const struct rule_template **out)
{
    struct builder b = { .r = r, .at = n };
    bool host_is_domain = false;
    str source;
    if (!rule_read_text(r, n, &source))
        return false;
    const char *wrong = source_check(kind, source, &host_is_domain);
    if (wrong != NULL)
        return rule_fail(r, n, "%s", wrong);
    buf_init(&b.literal, RULE_EXPANDED_BYTES_MAX);
    bool fine = text_read(&b, kind, source) && template_end(&b, kind, source, host_is_domain, out);
    buf_fini(&b.literal);
    return fine;
}

bool rule_feeds_events(const struct rule *r)
{
    if (r->effect != RULE_HTTP)
        return false;
    str rest = str_skip(r->url->source, str_find_str(r->url->source, STR("://")) + 3);
    str path = str_skip(rest, str_find(rest, '/'));
    return str_eq(str_take(path, str_find(path, '?')), STR("/v1/events"));
}

str rule_template_source(const struct rule_template *t)
{
    return t->source;
}

/* ---- bodies ---- */

static bool is_json_word(const yaml_node_t *n)
{
    str text = yaml_doc_text(n), value;
    return n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && json_slice_value(text, &value) &&
           value.n == text.n && value.p[0] != '"';
}

static bool body_text(struct builder *b, const yaml_node_t *n)
{
    str text;
    if (yaml_doc_is_null(n) || is_json_word(n)) {
        buf_put(&b->literal, yaml_doc_is_null(n) ? STR("null") : yaml_doc_text(n));
        return true;
    }
    if (yaml_doc_text(n).n == 0) {
        buf_put(&b->literal, STR("\"\""));
        return true;
    }
    if (!rule_read_text(b->r, n, &text))
        return false;
    str inner = str_skip(text, 1);
    if (text.p[0] == '{' && !is_double(text, 0, RULE_TEMPLATE_BODY) &&
        str_find(inner, '}') + 1 == inner.n)
        return placeholder_add(b, str_take(inner, inner.n - 1), true);
    buf_put_c(&b->literal, '"');
    bool fine = text_read(b, RULE_TEMPLATE_BODY, text);
    buf_put_c(&b->literal, '"');
    return fine;
}

/* Recursion ends at RULE_DEPTH_MAX; every node adds a byte at least, so that aliases cannot make
 * few lines large. */
static bool body_node(struct builder *b, const yaml_node_t *n, unsigned depth)
{
    struct rule_reading *r = b->r;
    b->at = n;
    if (depth > RULE_DEPTH_MAX)
        return rule_fail(r, n, "is nested deeper than %d", RULE_DEPTH_MAX);
    if (buf_status(&b->literal) != ERR_OK || b->bytes + b->literal.n > RULE_EXPANDED_BYTES_MAX)
        return rule_fail(r, n, "is longer than %d bytes", RULE_EXPANDED_BYTES_MAX);
    if (n->type == YAML_SCALAR_NODE)
        return body_text(b, n);
    bool is_list = n->type == YAML_SEQUENCE_NODE;
    if (!is_list && !rule_read_mapping(r, n, RULE_VALUES_MAX))
        return false;
    unsigned count = is_list ? rule_items(n) : rule_pairs(n);
    buf_put_c(&b->literal, is_list ? '[' : '{');
    for (unsigned i = 0; i < count; i++) {
        const yaml_node_pair_t *pair = is_list ? NULL : &n->data.mapping.pairs.start[i];
        if (i > 0)
            buf_put_c(&b->literal, ',');
        str name;
        if (!is_list && !rule_read_text(r, rule_node(r, pair->key), &name))
            return false;
        if (!is_list) {
            json_text_append(&b->literal, name);
            buf_put_c(&b->literal, ':');
        }
        if (!body_node(b, is_list ? rule_list_at(r, n, i) : rule_node(r, pair->value), depth + 1))
            return false;
    }
    buf_put_c(&b->literal, is_list ? ']' : '}');
    return true;
}

bool rule_read_body(struct rule_reading *r, const yaml_node_t *n, const struct rule_template **out)
{
    struct builder b = { .r = r, .at = n };
    buf_init(&b.literal, 2 * RULE_EXPANDED_BYTES_MAX);
    bool fine =
        body_node(&b, n, 1) && template_end(&b, RULE_TEMPLATE_BODY, STR("a template"), false, out);
    buf_fini(&b.literal);
    return fine;
}
