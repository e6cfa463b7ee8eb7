/* pace.h - so many requests a second from one address: a bucket of tokens each (Turner 1986, leaky
 * bucket as meter).
 *
 * A client is an IPv4 address, however it is written, or an IPv6 /64, of which one host has all;
 * what is no address counts as one client together. A table of fixed size; where two clients meet
 * in one place, the one that has rested longest is forgotten, which gives it a full bucket. Thread:
 * any. */
#ifndef APP_PAGE_PACE_H
#define APP_PAGE_PACE_H

#include "base/str.h"
#include "base/times.h"

enum { PACE_SLOTS = 4096, PACE_WAYS = 4 };

struct pace;
/* Owner: caller. seed: of the hash. Dies when out of memory. */
struct pace *pace_new(uint64_t seed);
void pace_free(struct pace **pp);
/* May this address once more, now? per_s 0: always. */
bool pace_take(struct pace *p, str address, unsigned per_s, mono now);

#endif
