/* address.h - IP addresses and networks as numbers. An IPv4 address counts as ::ffff:a.b.c.d,
 * however it is written. Pure. Thread: any. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include "base/check.h"
#include "base/str.h"

enum { ADDRESS_BYTES = 16, ADDRESS_V4_AT = 12 };

struct address {
    unsigned char at[ADDRESS_BYTES];
};
/* False: no numeric address; *out untouched. */
MUST_CHECK bool address_parse(str text, struct address *out);
bool address_is_v4(const struct address *a);
/* Loopback, link-local or private (RFC 1918, 4193). */
bool address_is_private(const struct address *a);

/* What stands for the address of who came over a unix socket: it is of this machine, and none. */
#define ADDRESS_LOCAL STR("unix")

/* All addresses whose first bits are these; or, local, no address but ADDRESS_LOCAL. */
struct network {
    struct address first;
    unsigned bits;
    bool local;
};
/* "192.0.2.0/24", "2001:db8::/32", "unix"; an address alone is a network of one. False: no such
 * thing, or bits set behind its prefix; *out untouched. */
MUST_CHECK bool network_parse(str text, struct network *out);
bool network_holds(const struct network *n, const struct address *a);
/* Does one of them hold peer, an address or ADDRESS_LOCAL? */
bool networks_hold_peer(const struct network *all, unsigned count, str peer);

#endif
