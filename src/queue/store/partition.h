/* partition.h - what a partition of a store holds: store.h has the model. */
#ifndef QUEUE_STORE_PARTITION_H
#define QUEUE_STORE_PARTITION_H

#include "base/ksuid.h"
#include "base/str.h"
#include "base/times.h"

enum {
    QUEUE_BATCH_ITEMS_MAX = 1000,
    QUEUE_REQUEST_BYTES_MAX = 8 << 20, /* encoded items of a produce or an import */
    QUEUE_BATCH_BYTES_MAX = QUEUE_REQUEST_BYTES_MAX + 4096, /* a move adds where items were */
    QUEUE_ORDER_KEY_BYTES_MAX = 256,
    QUEUE_WRITE_OPS_MAX = 4096,
    QUEUE_OWN_MAX = 4096, /* partitions owned in one call */
    QUEUE_STORES_MAX = 64,
    QUEUE_BOOT_BYTES = 16,
    QUEUE_DIGEST_BYTES = 16,
};

struct queue_part {
    uint32_t queue, partition;
};

/* What a partition is known by after a restart; kept with every write, so counts equal the rows. */
struct queue_part_record {
    uint64_t ready, scheduled,
        leased;           /* items; ready: in place and entries, without the leased ones */
    uint64_t bytes;       /* of batches; the store counts them */
    struct ksuid last_id; /* greatest ever given */
    struct ksuid settled; /* the outcome of batches up to this id was known to their owner */
    uint64_t epoch;       /* raised by each owner */
    unsigned char boot[QUEUE_BOOT_BYTES]; /* of the machine that owned it last; own: before this */
};

/* Where an item's body is. */
struct queue_place {
    struct ksuid batch; /* its first id */
    uint16_t index;     /* 0 up */
};

enum queue_item_state { ITEM_IN_PLACE, ITEM_ELSEWHERE, ITEM_GONE, ITEM_STATES };
enum queue_entry_kind { ENTRY_READY, ENTRY_SCHEDULED, ENTRY_KINDS };
struct queue_entry {
    enum queue_entry_kind kind;
    struct ksuid id;
    struct queue_place place;
    store_time enqueue_at;            /* SCHEDULED */
    uint32_t attempts;                /* grants so far */
    store_time created_at, expire_at; /* as the batch says, or later */
    str order_key;                    /* the batch's */
};
struct queue_lease {
    struct ksuid id; /* of the item */
    struct queue_place place;
    bool in_place; /* ready in its batch; else by an entry of its id */
    store_time deadline;
    uint32_t
        attempts;   /* this grant included; with the owner's marks (step.c), which no store reads */
    uint64_t token; /* of our own routes; 0: none */
    store_time created_at, expire_at;
    str order_key;
};
struct queue_key {
    unsigned char hash[16];
    struct ksuid first;
    uint32_t count;
    store_time expire_at;
    /* of the request; zero: none, as before digests were kept */
    unsigned char digest[QUEUE_DIGEST_BYTES];
};
struct queue_batch {
    struct ksuid first;
    uint16_t count;
    store_time created_at, expire_at;
    str order_key;               /* empty: none; at most QUEUE_ORDER_KEY_BYTES_MAX */
    const unsigned char *states; /* enum queue_item_state, count of them */
    str bytes;                   /* encoded items (item.h); OP_BATCH_PUT only */
};

/* The entry of an item that waits where its batch was written. */
static inline struct queue_entry queue_entry_in_place(const struct queue_batch *b, unsigned index)
{
    return (struct queue_entry){
        .kind = ENTRY_READY,
        .id = ksuid_add(b->first, index),
        .place = { .batch = b->first, .index = (uint16_t)index },
        .created_at = b->created_at,
        .expire_at = b->expire_at,
        .order_key = b->order_key,
    };
}

#endif
