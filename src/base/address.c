/* address.c - parses IP addresses and networks and compares them as 16-byte numbers. Invariant:
 * an IPv4 address is held in its mapped form, so that one comparison serves both families. */
#include "base/address.h"

#include <arpa/inet.h>
#include <string.h>

enum { ADDRESS_BITS = 8 * ADDRESS_BYTES, V4_BITS = 32 };
static const unsigned char mapped[ADDRESS_V4_AT] = { [10] = 0xff, [11] = 0xff };

bool address_parse(str text, struct address *out)
{
    char line[INET6_ADDRSTRLEN];
    struct address a;
    if (!str_to_cstr(text, line, sizeof line))
        return false;
    memcpy(a.at, mapped, sizeof mapped);
    if (inet_pton(AF_INET, line, a.at + ADDRESS_V4_AT) != 1 && inet_pton(AF_INET6, line, a.at) != 1)
        return false;
    *out = a;
    return true;
}

bool address_is_v4(const struct address *a)
{
    return memcmp(a->at, mapped, sizeof mapped) == 0;
}

static bool is_private_v4(const unsigned char *a)
{
    return a[0] == 127 || a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
           (a[0] == 192 && a[1] == 168) || (a[0] == 169 && a[1] == 254);
}

bool address_is_private(const struct address *a)
{
    static const unsigned char loopback[ADDRESS_BYTES] = { [15] = 1 };
    if (address_is_v4(a))
        return is_private_v4(a->at + ADDRESS_V4_AT);
    bool unique_local = (a->at[0] & 0xfe) == 0xfc,
         link_local = a->at[0] == 0xfe && (a->at[1] & 0xc0) == 0x80;
    return memcmp(a->at, loopback, sizeof loopback) == 0 || unique_local || link_local;
}

static bool bit(const struct address *a, unsigned i)
{
    return (a->at[i / 8] >> (7 - i % 8) & 1) != 0;
}

bool network_parse(str text, struct network *out)
{
    struct network n = { .bits = ADDRESS_BITS };
    size_t slash = str_find(text, '/');
    uint64_t bits;
    if (str_eq(text, ADDRESS_LOCAL)) {
        *out = (struct network){ .local = true };
        return true;
    }
    if (!address_parse(str_take(text, slash), &n.first))
        return false;
    if (slash < text.n) {
        unsigned most = address_is_v4(&n.first) ? V4_BITS : ADDRESS_BITS;
        if (!str_to_u64(str_skip(text, slash + 1), &bits) || bits > most)
            return false;
        n.bits = ADDRESS_BITS - most + (unsigned)bits;
    }
    for (unsigned i = n.bits; i < ADDRESS_BITS; i++)
        if (bit(&n.first, i))
            return false;
    *out = n;
    return true;
}

bool network_holds(const struct network *n, const struct address *a)
{
    if (n->local)
        return false;
    for (unsigned i = 0; i < n->bits; i++)
        if (bit(&n->first, i) != bit(a, i))
            return false;
    return true;
}

bool networks_hold_peer(const struct network *all, unsigned count, str peer)
{
    struct address a;
    bool local = str_eq(peer, ADDRESS_LOCAL), held = false;
    if (!local && !address_parse(peer, &a))
        return false;
    for (unsigned i = 0; i < count && !held; i++)
        held = local ? all[i].local : network_holds(&all[i], &a);
    return held;
}
