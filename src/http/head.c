/* head.c - heads of requests are judged, strictly; head.h says by which rules. */
#include "http/head.h"

#include "http/negotiate.h"

#include <string.h>
#include <strings.h>

enum { HTTP_VERSION_BYTES = 8, CRLF_BYTES = 2 };
/* The library cuts blanks behind a value off since 1.0: with a NUL in place of the first. */
enum { BLANKS_ARE_CUT = MHD_VERSION >= 0x01000000 };

const char head_not_sent[] = "Cookie";

struct head_pass {
    struct http_exchange *x;
    const char *expected; /* where the next name must start */
    str authority;        /* of an absolute target: it counts, and Host does not; else empty */
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

static bool named(str name, const char *lower)
{
    return strncasecmp(name.p, lower, name.n) == 0;
}

static void take_length(struct head_pass *pass, str value)
{
    pass->lengths++;
    if (!str_to_u64(value, &pass->x->body_declared) || pass->x->body_declared > INT64_MAX)
        fault_set(pass, 400, "Content-Length is not a number");
}

static void take_coding(struct head_pass *pass, str value)
{
    pass->codings++;
    /* The library compares the whole value, so "chunked " would be another coding to it. */
    if (value.n != 7 || !named(value, "chunked"))
        fault_set(pass, 400, "Transfer-Encoding other than chunked");
    pass->chunked = true;
}

static bool is_host(str value)
{
    for (size_t i = 0; i < value.n; i++)
        if (strchr(" \t/@,?#\\<>\"", value.p[i]) != NULL)
            return false;
    return true;
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
            take_host(pass, raw);
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
            take_length(pass, raw);
        break;
    case 15:
        if (named(name, "accept-encoding"))
            common_list(pass, &c->accept_encoding, value);
        else if (named(name, "accept-datetime"))
            common_first(&c->accept_datetime, value);
        break;
    case 17:
        if (named(name, "transfer-encoding"))
            take_coding(pass, raw);
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

/* The piece starts where the one before ended, and only blanks are between name and value. */
static bool tiles(const struct head_pass *pass, const char *name, size_t name_n, const char *value)
{
    if (name != pass->expected || value < name + name_n + 1)
        return false;
    for (const char *p = name + name_n + 1; p < value; p++)
        if (*p != ' ' && *p != '\t')
            return false;
    return true;
}

/* Where the line ends whose value ends here. */
static const char *line_end(const char *value_end)
{
    const char *p = value_end + 1;
    if (!BLANKS_ARE_CUT || (*p != ' ' && *p != '\t' && *p != '\r'))
        return value_end + CRLF_BYTES;
    while (*p == ' ' || *p == '\t')
        p++;
    return p + CRLF_BYTES;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   size_t name_n, const char *value, size_t value_n)
{
    (void)kind; /* header fields alone were asked for */
    struct head_pass *pass = cls;
    if (name == head_not_sent)
        return MHD_YES;
    if (value == NULL || !tiles(pass, name, name_n, value)) {
        fault_set(pass, 400, "a header line is folded, or does not end in CRLF");
        return MHD_NO;
    }
    if (!http_is_token((str){ .p = name, .n = name_n })) {
        fault_set(pass, 400, "a header name holds what no name may hold");
        return MHD_NO;
    }
    if (head_has_control(value, value_n, ' ')) {
        fault_set(pass, 400, "a header value holds a control byte");
        return MHD_NO;
    }
    pass->expected = line_end(value + value_n);
    str name_s = { .p = name, .n = name_n }, raw = { .p = value, .n = value_n };
    str trimmed = raw;
    while (trimmed.n > 0 && (trimmed.p[trimmed.n - 1] == ' ' || trimmed.p[trimmed.n - 1] == '\t'))
        trimmed.n--;
    bool replaced = pass->authority.n > 0 && name_n == 4 && named(name_s, "host");
    if (!header_keep(pass, name_s, replaced ? pass->authority : trimmed))
        return MHD_NO;
    take_common(pass, name_s, trimmed, raw);
    return pass->fault.status == 0 ? MHD_YES : MHD_NO;
}

static size_t head_bytes(const struct http_exchange *x)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info == NULL ? 0 : info->header_size;
}

/* "http://authority/path", as to a proxy: every server must take it (RFC 9112 3.2.2). */
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

static const char *line_fault(struct http_exchange *x, const char *version, str *authority)
{
    size_t method_n = strlen(x->method_name);
    if (!http_is_token((str){ .p = x->method_name, .n = method_n }))
        return "the method is not a token";
    if (x->line_target != x->method_name + method_n + 1 ||
        version != x->line_target + x->line_target_bytes + 1)
        return "the request line has more than two blanks";
    if (head_has_control(x->line_target, x->target.n, '!') ||
        head_has_control(x->query.p, x->query.n, '!'))
        return "the target holds a blank or a control byte";
    return x->line_target[0] == '/' ? NULL : target_fault(x, authority);
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

struct head_fault head_check(struct http_exchange *x, const char *version, size_t head_bytes_max)
{
    size_t bytes = head_bytes(x);
    if (bytes > head_bytes_max)
        return (struct head_fault){ .status = 431, .detail = "the request head is too large" };
    x->version_11 = strcmp(version, "HTTP/1.0") != 0;
    struct head_pass pass = { .x = x,
                              .expected = version + HTTP_VERSION_BYTES + CRLF_BYTES,
                              .headers_size = HTTP_HEADERS_INLINE };
    const char *line = line_fault(x, version, &pass.authority);
    if (line != NULL)
        return (struct head_fault){ .status = 400, .detail = line };
    (void)MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, take_header,
                                      &pass); /* how many is in x */
    if (pass.fault.status == 0 && pass.hosts == 0 && pass.authority.n > 0)
        (void)header_keep(&pass, STR("Host"), pass.authority); /* the fault is kept */
    if (pass.fault.status != 0)
        return pass.fault;
    if (pass.expected + CRLF_BYTES != x->method_name + bytes)
        return (struct head_fault){ .status = 400,
                                    .detail =
                                        "a header line is malformed or does not end in CRLF" };
    if (bytes + x->headers_count * (size_t)HEAD_FIELD_BYTES >
        head_bytes_max + HEAD_ROOM_BYTES - HEAD_ANSWER_BYTES)
        return (struct head_fault){ .status = 431,
                                    .detail = "too many header fields for a head of this size" };
    const char *fields = fields_fault(&pass);
    if (fields != NULL)
        return (struct head_fault){ .status = 400, .detail = fields };
    if (pass.chunked) {
        x->body_declared = UINT64_MAX;
        x->close = true; /* see head.h */
    }
    x->has_body = x->body_declared > 0;
    conditional_set(x);
    return (struct head_fault){ .status = 0 };
}

/* ---- without the library ---- */

/* Up to the next LF, which must follow a CR; without both. */
static bool line_next(str *rest, str *line)
{
    size_t at = str_find(*rest, '\n');
    if (at == rest->n || at == 0 || rest->p[at - 1] != '\r')
        return false;
    *line = str_take(*rest, at - 1);
    *rest = str_skip(*rest, at + 1);
    return true;
}

static bool plain_line(struct http_exchange *x, str line)
{
    const str version = STR(" HTTP/1.1");
    bool get = str_starts(line, STR("GET /"));
    if (!get && !str_starts(line, STR("HEAD /")))
        return false;
    x->method = get ? HTTP_GET : HTTP_HEAD;
    x->method_name = get ? "GET" : "HEAD";
    line = str_skip(line, strlen(x->method_name) + 1);
    if (line.n <= version.n || !str_eq(str_skip(line, line.n - version.n), version))
        return false;
    str target = str_take(line, line.n - version.n);
    if (head_has_control(target.p, target.n, '!'))
        return false;
    size_t mark = str_find(target, '?');
    x->target = str_take(target, mark);
    if (mark < target.n)
        x->query = str_skip(target, mark + 1);
    x->version_11 = true;
    return true;
}

/* What it asks of the connection is for the library to judge. */
static bool is_plain_field(str name, str value)
{
    if (str_eq_nocase(name, STR("connection")))
        return str_eq_nocase(value, STR("keep-alive"));
    return !str_eq_nocase(name, STR("expect")) && !str_eq_nocase(name, STR("upgrade"));
}

static bool plain_field(struct head_pass *pass, str line)
{
    size_t colon = str_find(line, ':');
    if (colon == line.n || !http_is_token(str_take(line, colon)) ||
        pass->x->headers_count == HTTP_HEADERS_INLINE)
        return false;
    str name = str_take(line, colon), raw = str_skip(line, colon + 1);
    while (raw.n > 0 && (raw.p[0] == ' ' || raw.p[0] == '\t'))
        raw = str_skip(raw, 1);
    str value = str_trim(raw);
    if (head_has_control(raw.p, raw.n, ' ') || !is_plain_field(name, value) ||
        !header_keep(pass, name, value))
        return false;
    take_common(pass, name, value, raw);
    return pass->fault.status == 0;
}

bool head_plain(struct http_exchange *x, str bytes, size_t *n)
{
    struct head_pass pass = { .x = x, .headers_size = HTTP_HEADERS_INLINE };
    str rest = bytes, line;
    if (!line_next(&rest, &line) || !plain_line(x, line))
        return false;
    for (;;) {
        if (!line_next(&rest, &line))
            return false;
        if (line.n == 0)
            break;
        if (!plain_field(&pass, line))
            return false;
    }
    if (pass.hosts != 1 || pass.lengths > 0 || pass.codings > 0 || fields_fault(&pass) != NULL)
        return false;
    conditional_set(x);
    *n = bytes.n - rest.n;
    return true;
}
