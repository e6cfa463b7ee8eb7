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
/* Owner: caller. seed: of the hash. bytes_max, ttl_ns: of what is kept, below. Dies when out of
 * memory. */
struct pace *pace_new(uint64_t seed, uint64_t bytes_max, int64_t ttl_ns);
void pace_free(struct pace **pp);
/* May this address once more, now? per_s 0: always. */
bool pace_take(struct pace *p, str address, unsigned per_s, mono now);
/* May n bytes more be kept, of all clients together, when each is kept for ttl_ns? What was taken
 * is given back evenly over ttl_ns, so at most twice bytes_max are kept at any time. bytes_max 0,
 * or n 0: always. */
bool pace_keep(struct pace *p, uint64_t n, store_time now);
/* n bytes more are kept, whether there was room or not. */
void pace_keep_too(struct pace *p, uint64_t n, store_time now);
/* n bytes that were taken are kept no longer. */
void pace_give(struct pace *p, uint64_t n);

#endif
