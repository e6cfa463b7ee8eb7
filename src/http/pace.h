/* pace.h - so many requests a second from one client: a bucket of tokens each (Turner 1986, leaky
 * bucket as meter); and which client a request is from.
 *
 * A client is an IPv4 address, however it is written, or an IPv6 /64, of which one host has all;
 * what is no address counts as one client together. A table of fixed size; where two clients meet
 * in one place, the one that has rested longest is forgotten, which gives it a full bucket. Thread:
 * any. */
#ifndef HTTP_PACE_H
#define HTTP_PACE_H

#include "base/address.h"
#include "base/times.h"

enum { PACE_SLOTS = 4096, PACE_WAYS = 4 };

struct pace;
/* Owner: caller. seed: of the hash. Dies when out of memory. */
struct pace *pace_new(uint64_t seed);
void pace_free(struct pace **pp);
/* May this address once more, now? per_s 0: always. */
bool pace_take(struct pace *p, str address, unsigned per_s, mono now);

/* What a request says of where it comes from; p NULL: nothing. */
struct pace_said {
    str peer;          /* of its connection */
    str client_ip;     /* X-Client-IP */
    str forwarded_for; /* X-Forwarded-For */
};
/* Where it comes from, as far as who says it is believed: of the fields only what a trusted proxy
 * sets. */
struct pace_client {
    str addresses[2]; /* a proxy sets one of two fields, and the other may be its client's own: both
                         are paced */
    unsigned count;
    bool own; /* from our own network, through no proxy */
};
struct pace_client pace_client_of(const struct pace_said *said, const struct network *proxies,
                                  unsigned proxies_count);
/* May this client once more, by each of its addresses? Our own network always. */
bool pace_take_client(struct pace *p, const struct pace_client *k, unsigned per_s, mono now);

#endif
