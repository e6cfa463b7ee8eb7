/* head.c - heads of requests are judged, strictly; head.h says by which rules. */
#include "http/head.h"

#include "http/negotiate.h"

#include <string.h>
#include <strings.h>

struct head_pass {
    struct http_exchange *x;
    str authority; /* of an absolute target: it counts, and Host does not; else empty */
    unsigned headers_size;
    unsigned hosts, lengths, codings, authorizations, types;
    bool chunked;
    struct head_fault fault;
};

/* Eight at a time (Mycroft's zero-byte test). */
bool head_has_control(const char *p, size_t n, unsigned char least)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, sizeof w);
        uint64_t low = (w - ones * least) & ~w & tops;
        uint64_t del = w ^ (ones * 0x7f);
        if ((low | ((del - ones) & ~del & tops)) == 0)
            continue;
        for (unsigned i = 0; i < 8;
             i++) /* the test may point at a neighbour; TAB is allowed in values */
            if (((unsigned char)p[i] < least && !(p[i] == '\t' && least == ' ')) || p[i] == 0x7f)
                return true;
    }
    for (; n > 0; p++, n--)
        if (((unsigned char)*p < least && !(*p == '\t' && least == ' ')) || *p == 0x7f)
            return true;
    return false;
}

static void fault_set(struct head_pass *pass, int status, const char *detail)
{
    if (pass->fault.status == 0)
        pass->fault = (struct head_fault){ .status = status, .detail = detail };
}

static bool header_keep(struct head_pass *pass, str name, str value)
{
    struct http_exchange *x = pass->x;
    if (x->headers_count == pass->headers_size) {
        if (pass->headers_size == HTTP_HEADERS_MAX) {
            fault_set(pass, 431, "too many header fields");
            return false;
        }
        struct http_pair *more = arena_calloc(&x->arena, HTTP_HEADERS_MAX, sizeof *more);
        if (more == NULL) {
            fault_set(pass, 431, "no room for the header fields");
            return false;
        }
        memcpy(more, x->headers, x->headers_count * sizeof *more);
        x->headers = more;
        pass->headers_size = HTTP_HEADERS_MAX;
    }
    x->headers[x->headers_count++] = (struct http_pair){ .name = name, .value = value };
    return true;
}

/* A list field that comes again goes on where it stopped (RFC 9110 5.3). */
static void common_list(struct head_pass *pass, str *slot, str value)
{
    if (slot->p == NULL) {
        *slot = value;
        return;
    }
    str joined = arena_printf(&pass->x->arena, "%.*s, %.*s", STR_ARG(*slot), STR_ARG(value));
    if (joined.p == NULL)
        fault_set(pass, 431, "no room for the header fields");
    else
        *slot = joined;
}

static void common_first(str *slot, str value)
{
    if (slot->p == NULL)
        *slot = value;
}

/* lower is as long. Its first letter tells most others apart. */
static bool named(str name, const char *lower)
{
    return (name.p[0] | ('a' ^ 'A')) == lower[0] && strncasecmp(name.p, lower, name.n) == 0;
}

static void take_length(struct head_pass *pass, str value)
{
    size_t digits = 0;
    while (digits < value.n && value.p[digits] >= '0' && value.p[digits] <= '9')
        digits++;
    pass->lengths++;
    if (value.n == 0 || digits < value.n)
        fault_set(pass, 400, "Content-Length is not a number");
    else if (!str_to_u64(value, &pass->x->body_declared) || pass->x->body_declared > INT64_MAX)
        fault_set(pass, 413, "Content-Length is larger than any body may be");
}

/* raw: with blanks at its end. See head.h. */
static void take_coding(struct head_pass *pass, str value, str raw)
{
    pass->codings++;
    pass->x->close = pass->x->close || raw.n != value.n;
    if (value.n != 7 || !named(value, "chunked"))
        fault_set(pass, 400, "Transfer-Encoding other than chunked");
    pass->chunked = true;
}

static bool is_port(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return true;
}

/* A name or a number, perhaps a port (RFC 3986 3.2.2, 3.2.3); one of IPv6 is in brackets. */
static bool is_host(str value)
{
    static const bool never[UINT8_MAX + 1] = {
        [' '] = true, ['\t'] = true, ['/'] = true, ['@'] = true, [','] = true, ['?'] = true,
        ['#'] = true, ['\\'] = true, ['<'] = true, ['>'] = true, ['"'] = true,
    };
    bool fine = true;
    for (size_t i = 0; i < value.n; i++)
        fine = fine && !never[(unsigned char)value.p[i]];
    bool bracketed = value.n > 0 && value.p[0] == '[';
    str rest = str_skip(value, str_find(value, bracketed ? ']' : ':'));
    if (bracketed && rest.n == 0)
        return false;
    rest = bracketed ? str_skip(rest, 1) : rest;
    return fine && (rest.n == 0 || (rest.p[0] == ':' && is_port(str_skip(rest, 1))));
}

/* Of what a client asks of its connection only these two count. */
static void take_connection(struct head_pass *pass, str value)
{
    while (value.n > 0) {
        str token = str_trim(str_split(&value, ','));
        if (str_eq_nocase(token, STR("close")))
            pass->x->close = true;
        else if (str_eq_nocase(token, STR("keep-alive")))
            pass->x->keep_alive = true;
    }
}

static void take_host(struct head_pass *pass, str value)
{
    pass->hosts++;
    if (!is_host(value))
        fault_set(pass, 400, "Host is not a host");
}

/* Names by their length: most fields cost one jump and one comparison. raw keeps blanks at the
 * end. */
static void take_common(struct head_pass *pass, str name, str value, str raw)
{
    struct http_common *c = &pass->x->common;
    switch (name.n) {
    case 4:
        if (named(name, "host"))
            take_host(pass, value);
        break;
    case 5:
        if (named(name, "range"))
            common_first(&c->range, value);
        break;
    case 6:
        if (named(name, "accept"))
            common_list(pass, &c->accept, value);
        else if (named(name, "expect"))
            pass->x->expects_continue = value.n == 12 && named(value, "100-continue");
        break;
    case 8:
        if (named(name, "if-match"))
            common_list(pass, &c->if_match, value);
        else if (named(name, "if-range"))
            common_first(&c->if_range, value);
        break;
    case 10:
        if (named(name, "connection"))
            take_connection(pass, value);
        break;
    case 12:
        if (named(name, "content-type")) {
            pass->types++;
            common_first(&c->content_type, value);
        } else if (named(name, "x-request-id")) {
            common_first(&c->request_id, value);
        }
        break;
    case 13:
        if (named(name, "if-none-match"))
            common_list(pass, &c->if_none_match, value);
        else if (named(name, "cache-control"))
            common_list(pass, &c->cache_control, value);
        else if (named(name, "authorization")) {
            pass->authorizations++;
            common_first(&c->authorization, value);
        }
        break;
    case 14:
        if (named(name, "content-length"))
            take_length(pass, value);
        break;
    case 15:
        if (named(name, "accept-encoding"))
            common_list(pass, &c->accept_encoding, value);
        else if (named(name, "accept-datetime"))
            common_first(&c->accept_datetime, value);
        break;
    case 17:
        if (named(name, "transfer-encoding"))
            take_coding(pass, value, raw);
        else if (named(name, "if-modified-since"))
            common_first(&c->if_modified_since, value);
        break;
    case 19:
        if (named(name, "if-unmodified-since"))
            common_first(&c->if_unmodified_since, value);
        break;
    default:
        break;
    }
}

static const char *target_fault(struct http_exchange *x, str *authority)
{
    const str mark = STR("://");
    size_t scheme_n = str_find_str(x->target, mark);
    str scheme = str_take(x->target, scheme_n), rest = str_skip(x->target, scheme_n + mark.n);
    if (!str_eq_nocase(scheme, STR("http")) && !str_eq_nocase(scheme, STR("https")))
        return "the target does not start with '/'";
    *authority = str_take(rest, str_find(rest, '/'));
    if (authority->n == 0 || !is_host(*authority))
        return "the target has no host of its own";
    x->target = authority->n < rest.n ? str_skip(rest, authority->n) : STR("/");
    return NULL;
}

static const str method_names[HTTP_METHODS] = {
    [HTTP_GET] = STR_INIT("GET"),       [HTTP_HEAD] = STR_INIT("HEAD"),
    [HTTP_PUT] = STR_INIT("PUT"),       [HTTP_POST] = STR_INIT("POST"),
    [HTTP_DELETE] = STR_INIT("DELETE"), [HTTP_OPTIONS] = STR_INIT("OPTIONS"),
    [HTTP_PURGE] = STR_INIT("PURGE"),
};

str head_method_name(enum http_method m)
{
    INVARIANT(m < HTTP_METHODS);
    return method_names[m];
}

static enum http_method method_of(str name)
{
    for (unsigned m = 0; m < HTTP_METHODS; m++)
        if (name.n == method_names[m].n && memcmp(name.p, method_names[m].p, name.n) == 0)
            return (enum http_method)m;
    return HTTP_OTHER;
}

static void method_set(struct head_pass *pass, str name)
{
    struct http_exchange *x = pass->x;
    x->method = method_of(name);
    if (x->method == HTTP_OTHER && !http_is_token(name)) {
        fault_set(pass, 400, "the method is not a token");
        return;
    }
    x->method_name =
        x->method < HTTP_METHODS ? method_names[x->method].p : arena_cstr(&x->arena, name);
    if (x->method_name != NULL)
        return;
    x->method_name = "-";
    fault_set(pass, 431, "no room for the method");
}

/* HTTP/1.x is ours: x above 1 is read as 1 (RFC 9110 2.5). */
static void version_set(struct head_pass *pass, str version)
{
    const str major = STR("HTTP/"), usual = STR("HTTP/1.1");
    pass->x->version_11 = true;
    if (version.n == usual.n && memcmp(version.p, usual.p, usual.n) == 0)
        return;
    bool shaped = version.n == major.n + 3 && str_starts(version, major) && version.p[5] >= '0' &&
                  version.p[5] <= '9' && version.p[6] == '.' && version.p[7] >= '0' &&
                  version.p[7] <= '9';
    if (!shaped)
        fault_set(pass, 400, "the request line does not end in HTTP/1.1");
    else if (version.p[5] != '1')
        fault_set(pass, 505, "the version of HTTP is another than 1");
    pass->x->version_11 = !shaped || version.p[7] != '0';
}

static void target_set(struct head_pass *pass, str target)
{
    struct http_exchange *x = pass->x;
    size_t mark = str_find(target, '?');
    x->target = str_take(target, mark);
    if (mark < target.n)
        x->query = str_skip(target, mark + 1);
    if (target.n == 0 || target.p[0] == ' ')
        fault_set(pass, 400, "the request line has more than two blanks");
    else if (head_has_control(target.p, target.n, '!'))
        fault_set(pass, 400, "the target holds a blank or a control byte");
    else if (str_find(target, '#') < target.n)
        fault_set(pass, 400, "the target has a fragment");
    else if (target.p[0] != '/') {
        const char *fault = target_fault(x, &pass->authority);
        if (fault != NULL)
            fault_set(pass, 400, fault);
    }
}

static void line_take(struct head_pass *pass, str line)
{
    size_t first = str_find(line, ' '), last = line.n;
    while (last > first && line.p[last - 1] != ' ')
        last--;
    method_set(pass, str_take(line, first));
    if (last < first + 2) {
        fault_set(pass, 400, "the request line is not a method, a target and a version");
        return;
    }
    version_set(pass, str_skip(line, last));
    target_set(pass, str_skip(str_take(line, last - 1), first + 1));
}

static const char *fields_fault(const struct head_pass *pass)
{
    const struct http_exchange *x = pass->x;
    if (pass->hosts > 1)
        return "more than one Host";
    if (pass->hosts == 0 && x->version_11)
        return "Host is missing";
    if (pass->lengths > 1)
        return "more than one Content-Length";
    if (pass->codings > 1)
        return "more than one Transfer-Encoding";
    if (pass->lengths > 0 && pass->codings > 0)
        return "both Content-Length and Transfer-Encoding";
    if (pass->codings > 0 && !x->version_11)
        return "Transfer-Encoding in HTTP/1.0";
    if (pass->authorizations > 1)
        return "more than one Authorization";
    if (pass->types > 1)
        return "more than one Content-Type";
    return NULL;
}

static void conditional_set(struct http_exchange *x)
{
    const struct http_common *c = &x->common;
    x->common.any_conditional =
        c->if_match.p != NULL || c->if_none_match.p != NULL || c->if_unmodified_since.p != NULL ||
        c->if_modified_since.p != NULL || c->if_range.p != NULL || c->range.p != NULL;
}

/* ---- lines ---- */

enum line { LINE_WHOLE, LINE_MORE, LINE_BARE };

/* The next line of *rest without its end. */
static enum line line_next(str *rest, str *line)
{
    size_t at = str_find(*rest, '\n');
    if (at == rest->n)
        return LINE_MORE;
    if (at == 0 || rest->p[at - 1] != '\r')
        return LINE_BARE;
    *line = str_take(*rest, at - 1);
    *rest = str_skip(*rest, at + 1);
    return LINE_WHOLE;
}

/* It does not begin with a name and a colon. */
static const char *name_fault(str line)
{
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return "a header line is folded";
    return str_find(line, ':') == line.n ? "a header line has no colon"
                                         : "a header name holds what no name may hold";
}

static void field_take(struct head_pass *pass, str line)
{
    str raw = line, name = http_token_take(&raw);
    if (name.n == 0 || raw.n == 0 || raw.p[0] != ':') {
        fault_set(pass, 400, name_fault(line));
        return;
    }
    raw = str_skip(raw, 1);
    while (raw.n > 0 && (raw.p[0] == ' ' || raw.p[0] == '\t'))
        raw = str_skip(raw, 1);
    if (head_has_control(raw.p, raw.n, ' ')) {
        fault_set(pass, 400, "a header value holds a control byte");
        return;
    }
    str value = str_trim(raw);
    bool replaced = pass->authority.n > 0 && name.n == 4 && named(name, "host");
    if (header_keep(pass, name, replaced ? pass->authority : value))
        take_common(pass, name, value, raw);
}

/* What only the whole head says. */
static void head_settle(struct head_pass *pass)
{
    struct http_exchange *x = pass->x;
    const char *fault = fields_fault(pass);
    if (fault != NULL) {
        fault_set(pass, 400, fault);
        return;
    }
    if (pass->hosts == 0 && pass->authority.n > 0)
        (void)header_keep(pass, STR("Host"), pass->authority); /* the fault is kept */
    if (pass->chunked)
        x->body_declared = UINT64_MAX;
    x->has_body = x->body_declared > 0;
    x->close = x->close || !(x->version_11 || x->keep_alive);
    conditional_set(x);
}

static void empty_lines_skip(str *rest)
{
    for (unsigned i = 0;
         i < HEAD_EMPTY_LINES_MAX && rest->n >= 2 && rest->p[0] == '\r' && rest->p[1] == '\n'; i++)
        *rest = str_skip(*rest, 2);
}

/* What no request begins with is not waited for: a client of TLS waits for us. */
static bool begins_a_line(str rest)
{
    return rest.n == 0 || rest.p[0] == '\r' || http_is_token(str_take(rest, 1));
}

/* The lines of a head, while they are fine. False: its end is not there. */
static bool lines_take(struct head_pass *pass, str *rest)
{
    str line;
    bool first = true;
    while (pass->fault.status == 0) {
        enum line got = line_next(rest, &line);
        if (got == LINE_MORE && (!first || begins_a_line(*rest)))
            return false;
        if (got == LINE_MORE)
            fault_set(pass, 400, "the method is not a token");
        else if (got == LINE_BARE)
            fault_set(pass, 400, "a line of the head does not end in CRLF");
        else if (first)
            line_take(pass, line);
        else if (line.n == 0)
            break;
        else
            field_take(pass, line);
        first = false;
    }
    return true;
}

struct head_fault head_read(struct http_exchange *x, str bytes, size_t *n)
{
    struct head_pass pass = { .x = x, .headers_size = HTTP_HEADERS_INLINE };
    str rest = bytes;
    *n = 0;
    x->method = HTTP_OTHER;
    x->method_name = "-";
    x->target = STR("");
    empty_lines_skip(&rest);
    if (!lines_take(&pass, &rest))
        return (struct head_fault){ .status = 0 };
    if (pass.fault.status == 0)
        head_settle(&pass);
    *n = bytes.n - rest.n;
    if (*n == 0)
        *n = bytes.n; /* a fault in the first line */
    return pass.fault;
}

bool head_has_end(str bytes, size_t from)
{
    str rest = str_skip(bytes, from > 2 ? from - 2 : 0);
    size_t at;
    if (!begins_a_line(bytes))
        return true; /* it will be refused */
    while ((at = str_find(rest, '\n')) < rest.n) {
        const char *lf = rest.p + at;
        size_t before = (size_t)(lf - bytes.p);
        if (before == 0 || lf[-1] != '\r' || (before >= 2 && lf[-2] == '\n' && before > 3))
            return true;
        rest = str_skip(rest, at + 1);
    }
    return false;
}

struct head_fault head_too_large(str bytes)
{
    empty_lines_skip(&bytes);
    if (str_find(bytes, '\n') == bytes.n)
        return (struct head_fault){ .status = 414, .detail = "the request line is too large" };
    return (struct head_fault){ .status = 431, .detail = "the request head is too large" };
}
