/* model.h - a naive owner of a few partitions: random changes of queues, what they mean as writes,
 * and what a store has to show after them. Everything follows from the seed and the number of
 * steps; a model is a plain value. */
#ifndef TEST_QUEUE_STORE_MODEL_H
#define TEST_QUEUE_STORE_MODEL_H

#include "base/rng.h"
#include "queue/item.h"
#include "queue/store/open.h"

enum {
    MODEL_PARTS = 3,
    MODEL_BATCHES = 48,
    MODEL_BATCH_ITEMS = 24,
    MODEL_ITEMS = 256,
    MODEL_KEYS = 8,
    MODEL_OPS = 128,
    MODEL_ITEM_BYTES_MAX = 20000,
    MODEL_WHY_BYTES = 256,
};

struct model_batch {
    struct ksuid first;
    uint16_t count;
    store_time created_at, expire_at;
    uint64_t bytes;
    bool has_order; /* then its key is the text of its id */
    unsigned char states[MODEL_BATCH_ITEMS];
};
enum model_where { IN_PLACE, AS_READY, AS_SCHEDULED };
struct model_item {
    enum model_where where;
    bool leased;
    struct queue_entry entry; /* order_key is not kept: it is the batch's */
    struct queue_lease lease;
};
struct model_part {
    struct queue_part part;
    uint64_t epoch;
    struct ksuid last_id, settled;
    struct model_batch batches[MODEL_BATCHES];
    struct model_item items[MODEL_ITEMS];
    struct queue_key keys[MODEL_KEYS];
    unsigned batches_count, items_count, keys_count;
};
struct model {
    struct rng rng;
    store_time now;
    uint64_t steps;
    struct model_part parts[MODEL_PARTS];
};

/* A write and the memory it stands on. */
struct model_write {
    struct queue_write write;
    struct queue_op ops[2][MODEL_OPS];
    struct arena arena;
};

/* queue: the number its partitions have. */
void model_init(struct model *m, uint64_t seed, uint32_t queue);
/* All partitions, owned; takes over the epochs. */
err model_own(struct model *m, struct queue_store *s);
/* One random change: m becomes what is to be after it, w what to write; model_write_fini
 * afterwards. */
void model_step(struct model *m, struct model_write *w);
void model_write_fini(struct model_write *w);
/* What the items of a batch are; buf: MODEL_ITEM_BYTES_MAX. */
struct item model_item_of(struct ksuid first, unsigned index, char *buf);
str model_order(const struct model_batch *b, char text[KSUID_TEXT_BYTES + 1]);
/* Writes and waits; a write without rows tells whether the epoch is the owner's. */
err model_write_run(struct queue_store *s, struct queue_write *w);
err model_write_nothing(struct queue_store *s, struct queue_part p, uint64_t epoch);
/* One partition, as any process owns it. */
err model_own_one(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
/* Does the store show exactly this? why: what differs, when it does not. Settled reads only:
 * nothing early waits. */
bool model_shown(const struct model *m, struct queue_store *s, char why[MODEL_WHY_BYTES]);

#endif
