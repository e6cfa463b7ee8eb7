/* rows.h - how a local store lays partitions out in SPACE_PARTITION. Private to store/local.
 *
 *   key: queue 4, partition 2, kind 1, then
 *    1 record     -
 *    2 batch      first id 20
 *    3 aside      first id 20
 *    4 ready      id 20
 *    5 scheduled  enqueue_at 8 (sign flipped), id 20
 *    6 lease      id 20
 *    7 key        hash 16
 *    9 heartbeat  - (queue 0 only)
 *   10 owner      - (queue 0 only)
 *
 *   value: version 1 (which is 1), then
 *    1 record     ready 8, scheduled 8, leased 8, bytes 8, last id 20, settled 20, epoch 8, boot 16
 *    2 batch      count 2, created 8, expire 8, states in 2 bits each from the low end, order key;
 *                 its blob: the bodies (item.h)
 *    3 aside      as a batch: one put without an item in place, which a walk over those does not
 * meet 4 ready      batch 20, index 2, attempts 4, created 8, expire 8, order key 5 scheduled  as
 * ready 6 lease      batch 20, index 2, in place 1, deadline 8, attempts 4, token 8, created 8,
 *                 expire 8, order key
 *    7 key        first id 20, count 4, expire 8, digest 16 or nothing
 *    9 heartbeat  count 8
 *   10 owner      the name of the deployment whose store it is; of partition 1 the name of the
 * store Numbers are big-endian. The order key is what is left of a value. Kind 8 was never written.
 * Pure. Thread: any. */
#ifndef QUEUE_STORE_LOCAL_ROWS_H
#define QUEUE_STORE_LOCAL_ROWS_H

#include "queue/store/store.h"

enum row_kind {
    ROW_RECORD = 1,
    ROW_BATCH,
    ROW_ASIDE,
    ROW_READY,
    ROW_SCHEDULED,
    ROW_LEASE,
    ROW_KEY,
    ROW_UNUSED, /* 8 */
    ROW_HEARTBEAT,
    ROW_OWNER,
    ROW_KINDS
};
enum {
    ROW_PART_BYTES = 6,
    ROW_PREFIX_BYTES = ROW_PART_BYTES + 1,
    ROW_KEY_BYTES_MAX = ROW_PREFIX_BYTES + 8 + KSUID_BYTES,
    ROW_VALUE_BYTES_MAX = 19 + QUEUE_BATCH_ITEMS_MAX / 4 + QUEUE_ORDER_KEY_BYTES_MAX,
};

struct row_key {
    size_t n;
    char bytes[ROW_KEY_BYTES_MAX];
};
static inline str row_key_str(const struct row_key *k)
{
    return (str){ .p = k->bytes, .n = k->n };
}

/* Keys. INVARIANT: the partition's number fits. */
struct row_key row_key_prefix(struct queue_part p, enum row_kind kind);
struct row_key row_key_id(struct queue_part p, enum row_kind kind, struct ksuid id);
struct row_key row_key_scheduled(struct queue_part p, store_time at, struct ksuid id);
struct row_key row_key_hash(struct queue_part p, const unsigned char hash[16]);
/* Any key taken apart; what its kind does not have is zero. ERR_CORRUPT. */
struct row_key_parts {
    struct queue_part part;
    enum row_kind kind;
    struct ksuid id; /* batch, aside, ready, scheduled, lease */
    store_time at;   /* scheduled */
    unsigned char hash[16];
};
MUST_CHECK err row_key_parse(str key, struct row_key_parts *out);

/* Values. Encoding writes at most ROW_VALUE_BYTES_MAX to buf and returns what it wrote; INVARIANT:
 * counts and order keys fit. Decoding: ERR_CORRUPT; order keys and states point into value and
 * states; key fields are the caller's. */
str row_record_encode(const struct queue_part_record *r, char *buf);
MUST_CHECK err row_record_decode(str value, struct queue_part_record *out);
str row_batch_encode(const struct queue_batch *b, char *buf);
MUST_CHECK err row_batch_decode(str value, unsigned char states[QUEUE_BATCH_ITEMS_MAX],
                                struct queue_batch *out);
str row_entry_encode(const struct queue_entry *e, char *buf);
MUST_CHECK err row_entry_decode(str value, struct queue_entry *out);
str row_lease_encode(const struct queue_lease *l, char *buf);
MUST_CHECK err row_lease_decode(str value, struct queue_lease *out);
bool queue_key_has_digest(const struct queue_key *k);
str row_key_encode(const struct queue_key *k, char *buf);
MUST_CHECK err row_key_decode(str value, struct queue_key *out);
str row_heartbeat_encode(uint64_t count, char *buf);
MUST_CHECK err row_heartbeat_decode(str value, uint64_t *out);
str row_owner_encode(str name, char *buf);
MUST_CHECK err row_owner_decode(str value, str *out);

#endif
