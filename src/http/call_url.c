/* call_url.c - splits a URL into host, port, path and what the Host header says. Invariant: a
 * URL with a byte that cannot be sent in a request line is refused. */
#include "http/call_url.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_sendable(str url)
{
    for (size_t i = 0; i < url.n; i++)
        if ((unsigned char)url.p[i] <= ' ' || (unsigned char)url.p[i] >= 0x7f || url.p[i] == '#')
            return false;
    return true;
}

static bool host_is_name(const char *host)
{
    size_t n = strlen(host);
    for (size_t i = 0; i < n; i++) {
        char c = host[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_'))
            return false;
    }
    return n > 0 && host[0] != '.';
}

static bool host_take(str host, bool bracketed, struct call_url *out)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (!str_to_cstr(host, out->host, sizeof out->host))
        return false;
    for (char *c = out->host; *c != 0; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    out->numeric6 = inet_pton(AF_INET6, out->host, address) == 1;
    out->numeric = out->numeric6 || inet_pton(AF_INET, out->host, address) == 1;
    if (bracketed || out->numeric6)
        return bracketed && out->numeric6;
    return out->numeric || host_is_name(out->host);
}

/* "host", "host:port", "[v6]", "[v6]:port" */
static bool authority_take(str authority, struct call_url *out)
{
    str host, port;
    bool bracketed = str_starts(authority, STR("["));
    if (bracketed) {
        size_t end = str_find(authority, ']');
        if (end == authority.n)
            return false;
        host = str_skip(str_take(authority, end), 1);
        port = str_skip(authority, end + 1);
        if (port.n > 0 && port.p[0] != ':')
            return false;
    } else {
        size_t end = str_find(authority, ':');
        host = str_take(authority, end);
        port = str_skip(authority, end);
    }
    uint64_t number = out->tls ? 443 : 80;
    if (port.n > 0 &&
        (!str_to_u64(str_skip(port, 1), &number) || number == 0 || number > UINT16_MAX))
        return false;
    out->port = (uint16_t)number;
    return host_take(host, bracketed, out);
}

err call_url_parse(str url, struct call_url *out, struct err_note *note)
{
    struct call_url u = { .tls = false };
    if (url.n > HTTP_URL_BYTES_MAX)
        return err_bad(note, "the url is too long");
    if (!is_sendable(url))
        return err_bad(note, "the url holds what no url may hold");
    str scheme = str_take(url, str_find_str(url, STR("://")));
    u.tls = str_eq_nocase(scheme, STR("https"));
    if (!u.tls && !str_eq_nocase(scheme, STR("http")))
        return err_bad(note, "the url is not http or https");
    str rest = str_skip(url, scheme.n + 3);
    size_t slash = str_find(rest, '/'), mark = str_find(rest, '?');
    str authority = str_take(rest, slash < mark ? slash : mark);
    u.target = str_skip(rest, authority.n);
    if (!authority_take(authority, &u))
        return err_bad(note, "the url's host or port is not one");
    *out = u;
    return ERR_OK;
}
