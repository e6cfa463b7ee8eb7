/* ksuid.h - K-sortable unique ids: 20 bytes, four of seconds since 2014-05-13T16:53:20Z and sixteen
 * of payload; as text 27 characters of base62, whose order is the order of the bytes (segment.io's
 * KSUID). Pure. Thread: any. */
#ifndef BASE_KSUID_H
#define BASE_KSUID_H

#include "base/check.h"
#include "base/str.h"
#include "base/times.h"

#include <stdint.h>

enum { KSUID_BYTES = 20, KSUID_TEXT_BYTES = 27 };
#define KSUID_EPOCH_S INT64_C(1400000000)

struct ksuid {
    uint32_t seconds;
    uint64_t high, low;
};
#define KSUID_NIL ((struct ksuid){ .seconds = 0 })

/* 27 base62 characters, not above the greatest id. False: *out untouched. */
MUST_CHECK bool ksuid_parse(str text, struct ksuid *out);
/* Why text is none, in the words of segment.io's library. */
const char *ksuid_refusal(str text);
void ksuid_format(struct ksuid k, char out[KSUID_TEXT_BYTES + 1]);
int ksuid_cmp(struct ksuid a, struct ksuid b); /* <0, 0, >0 */
/* k + n over all 160 bits. Invariant: no overflow. */
struct ksuid ksuid_add(struct ksuid k, uint64_t n);
/* a - b when it fits in 64 bits and a >= b. */
MUST_CHECK bool ksuid_distance(struct ksuid a, struct ksuid b, uint64_t *out);
/* The second of t (clamped to what fits) and this payload. */
struct ksuid ksuid_at(store_time t, uint64_t high, uint64_t low);
void ksuid_key(struct ksuid k, unsigned char out[KSUID_BYTES]);
struct ksuid ksuid_from_key(const unsigned char key[KSUID_BYTES]);
/* For tables; not seeded: clients do not choose ids. */
uint64_t ksuid_hash(struct ksuid k);

#endif
