/* tid.h - the name of a render: a version-1 UUID (RFC 4122) whose 60-bit time is the render's time.
 *
 * Order is by time, then by the remaining eight bytes (clock sequence and node), unsigned; this is
 * the order of Cassandra's timeuuid within one time but with unsigned low bytes, and it is total.
 * The time counts 100 ns from 1582-10-15; store_time is rounded up, so a tid is never older than
 * its instant. */
#ifndef BASE_TID_H
#define BASE_TID_H

#include "base/check.h"
#include "base/str.h"
#include "base/times.h"

enum { TID_TEXT_BYTES = 36, TID_KEY_BYTES = 16, TID_UUID_BYTES = 16 };
#define TID_TICKS_MAX 0x0fffffffffffffffull

struct tid {
    uint64_t ticks; /* 100 ns since 1582-10-15T00:00:00Z, 60 bits */
    uint64_t low;   /* variant, clock sequence and node, as big-endian number; top bits 10 */
};

/* Canonical or upper-case text, 36 bytes, version 1 and variant 10 only. False: *out untouched. */
MUST_CHECK bool tid_parse(str text, struct tid *out);
/* Lower-case text and a NUL. */
void tid_format(struct tid t, char out[TID_TEXT_BYTES + 1]);
/* The bytes of the UUID, as RFC 4122 orders them: what databases and protocols carry. */
void tid_uuid(struct tid t, unsigned char out[TID_UUID_BYTES]);
/* Version 1 and variant 10 only. False: *out untouched. */
MUST_CHECK bool tid_from_uuid(const unsigned char uuid[TID_UUID_BYTES], struct tid *out);
/* <0, 0, >0. */
int tid_cmp(struct tid a, struct tid b);
/* Order-preserving bytes: memcmp of keys is tid_cmp. */
void tid_key(struct tid t, unsigned char out[TID_KEY_BYTES]);
struct tid tid_from_key(const unsigned char key[TID_KEY_BYTES]);
/* The instant, in ns since 1970 (may be negative: tids reach back to 1582). */
store_time tid_time(struct tid t);
/* Ticks of an instant, rounded up to 100 ns; clamped to the 60-bit range. */
uint64_t tid_ticks(store_time t);
/* A tid at ticks; random gives clock sequence and node (the multicast bit is set: no real address).
 * Invariant: ticks <= TID_TICKS_MAX. */
struct tid tid_make(uint64_t ticks, uint64_t random);

#endif
