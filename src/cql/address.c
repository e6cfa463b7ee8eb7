/* address.c - addresses of nodes as text and as the kernel has them, for contact points, nodes and
 * logs. Also the map from the address that a node tells to the address where the client reaches it.
 *
 * Invariant: an address is zero behind its own bytes (cql_address_read), so two equal addresses are
 * equal byte by byte. */
#include "cql/cql_impl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cql_address_print(const struct sockaddr_storage *a, char out[CQL_NODE_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host); /* room enough */
        (void)snprintf(out, CQL_NODE_TEXT_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const void *)a;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(out, CQL_NODE_TEXT_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
}

/* Text that cql_address_print has made, or an operator has written: both have brackets around IPv6
 * when a port follows. */
void cql_address_host(const char *text, char out[CQL_NODE_TEXT_BYTES])
{
    bool brackets = text[0] == '[';
    const char *end = strrchr(text, brackets ? ']' : ':');
    size_t n = end == NULL ? strlen(text) : (size_t)(end - text);
    (void)snprintf(out, CQL_NODE_TEXT_BYTES, "%.*s", (int)(n - brackets), text + brackets);
}

bool cql_address_read(const char *host, uint16_t port, struct sockaddr_storage *out,
                      socklen_t *bytes)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        memcpy(out, &in, sizeof in);
        *bytes = sizeof in;
        return true;
    }
    if (inet_pton(AF_INET6, host, &in6.sin6_addr) == 1) {
        memcpy(out, &in6, sizeof in6);
        *bytes = sizeof in6;
        return true;
    }
    return false;
}

bool cql_address_same(const struct sockaddr_storage *a, socklen_t a_bytes,
                      const struct sockaddr_storage *b, socklen_t b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

/* Reads "host", "host:port" or "[v6]:port", where host is a number. port counts where the text has
 * none. */
static bool text_read(const char *text, uint16_t port, struct sockaddr_storage *out,
                      socklen_t *bytes)
{
    char host[CQL_NODE_TEXT_BYTES];
    /* An IPv6 address without brackets has colons and no port, so the whole text is tried first. */
    if (cql_address_read(text, port, out, bytes))
        return true;
    const char *colon = strrchr(text, ':');
    uint64_t said;
    if (colon == NULL || !str_to_u64(str_of(colon + 1), &said) || said == 0 || said > UINT16_MAX)
        return false;
    if (text[0] == '[' && (colon == text || colon[-1] != ']'))
        return false;
    cql_address_host(text, host);
    return cql_address_read(host, (uint16_t)said, out, bytes);
}

uint16_t cql_address_port(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *in = (const void *)a; /* the port is at the same place in both */
    return ntohs(in->sin_port);
}

/* Does the map's text mean this address? Without a port it means the address at every port. */
static bool text_means(const char *text, const struct sockaddr_storage *a, socklen_t bytes)
{
    struct sockaddr_storage from;
    socklen_t from_bytes;
    uint16_t port = cql_address_port(a);
    return text_read(text, port, &from, &from_bytes) &&
           cql_address_same(&from, from_bytes, a, bytes);
}

/* The first mapping that fits counts, and the address is not mapped again. */
void cql_address_map(const struct cql *c, struct sockaddr_storage *a, socklen_t *bytes)
{
    for (unsigned i = 0; i < c->opts.mapped_count; i++) {
        const struct cql_mapped *m = &c->opts.mapped[i];
        if (!text_means(m->from, a, *bytes))
            continue;
        struct sockaddr_storage to;
        socklen_t to_bytes;
        if (text_read(m->to, cql_address_port(a), &to, &to_bytes)) { /* cql_new has tried it */
            *a = to;
            *bytes = to_bytes;
        }
        return;
    }
}

bool cql_address_text_is_good(const char *text)
{
    struct sockaddr_storage a;
    socklen_t bytes;
    return text_read(text, CQL_PORT, &a, &bytes);
}

/* Contact points are mostly names, so nothing is looked up here; the port is given as text for
 * getaddrinfo. */
bool cql_point_split(const char *text, char host[CQL_HOST_BYTES_MAX + 1], char port[6])
{
    str t = str_of(text), digits = STR("9042");
    bool brackets = t.n > 0 && t.p[0] == '[';
    size_t end = brackets ? str_find(t, ']') : str_find(t, ':');
    /* Two colons and no brackets: an IPv6 address without a port. */
    bool many = !brackets && end < t.n && str_find(str_skip(t, end + 1), ':') < t.n - end - 1;
    str name = many ? t : brackets ? str_skip(str_take(t, end), 1) : str_take(t, end);
    str rest = many ? STR_NONE : str_skip(t, end + brackets);
    if (rest.n > 0 && rest.p[0] == ':')
        digits = str_skip(rest, 1);
    uint64_t number;
    return name.n > 0 && (!brackets || end < t.n) && (rest.n == 0 || rest.p[0] == ':') &&
           str_to_cstr(name, host, CQL_HOST_BYTES_MAX + 1) && str_to_u64(digits, &number) &&
           number > 0 && number <= UINT16_MAX && str_to_cstr(digits, port, 6);
}
