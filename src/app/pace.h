/* pace.h - so many requests a second from one address: a bucket of tokens each (Turner 1986, leaky bucket as meter).
 *
 * Addresses of private networks and of this machine are not paced: a wiki's own servers ask for many users. A table
 * of fixed size; where two addresses meet in one place, the one that has rested longest is forgotten, which gives
 * it a full bucket. Thread: any. */
#ifndef APP_PACE_H
#define APP_PACE_H

#include "base/str.h"
#include "base/times.h"

enum { PACE_SLOTS = 4096, PACE_WAYS = 4 };

struct pace;
/* Owner: caller. seed: of the hash. Dies when out of memory. */
struct pace *pace_new(uint64_t seed);
void pace_free(struct pace **pp);
/* May this address once more, now? per_s 0: always. */
bool pace_take(struct pace *p, str address, unsigned per_s, mono now);
/* Loopback, link-local or private (RFC 1918, 4193), as number; false for what is no address. */
bool pace_is_private(str address);

#endif
