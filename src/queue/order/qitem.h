/* qitem.h - items in memory, the batches that hold their bodies, and their order keys. Part of
 * part.h, which has the states and the invariants. Private to queue. */
#ifndef QUEUE_ORDER_QITEM_H
#define QUEUE_ORDER_QITEM_H

#include "base/hash.h"
#include "base/heap.h"
#include "base/ksuid.h"
#include "base/list.h"
#include "queue/store/store.h"

#include <stdatomic.h>

enum qitem_state {
    QITEM_FREE,
    QITEM_READY,
    QITEM_TAIL,
    QITEM_BEHIND,
    QITEM_GRANTING,
    QITEM_LEASED,
    QITEM_SCHEDULED,
    QITEM_ENDING,
    QITEM_MOVING,
    QITEM_DAMAGED,
    QITEM_STATES
};

/* Encoded items that a request and the batch made of it both hold: a write outlives a request that
 * timed out. */
struct shared {
    atomic_uint refs;
    str bytes;
    char *memory; /* bytes stand in it */
    size_t memory_bytes;
};
struct shared *shared_new(str bytes); /* a copy; NULL: no memory */
void shared_unref(struct shared **sp);

struct batch {
    struct hash_node node;
    struct ksuid first;
    uint32_t refs; /* items, writes and replies that look at it */
    uint16_t count;
    bool known;          /* in part.batches */
    unsigned char dirty; /* bits of slots that write its states (slot.h) */
    unsigned dirty_at[2];
    uint16_t room; /* of states, in own memory; 0: they stand behind */
    store_time created_at, expire_at;
    str order_key;                 /* own memory */
    struct shared *bytes;          /* encoded; NULL: only in the store */
    atomic_uint_least64_t *cached; /* where bytes are counted; NULL: kept for the write alone */
    unsigned char *states;
};

struct okey;
struct qitem {
    struct hash_node by_id;
    struct list link;     /* ready, behind, due, or of its reply */
    struct heap_node due; /* in queue.due: LEASED, SCHEDULED */
    struct batch *batch;
    struct part *part;
    struct okey *key; /* of its order key; NULL: none */
    struct ksuid id;
    store_time created_at, expire_at, ready_at, due_at;
    store_time wake_at; /* in the heap: due_at, or later after a failure */
    uint64_t token;     /* the fencing token of its lease */
    uint32_t attempts;
    uint32_t ordered_to; /* doomed by an order: the number of the queue it goes to; 0: by none */
    uint16_t index;
    bool in_place;
    bool doomed; /* LEASED, MOVING: nobody is given it here any more, it goes to another queue */
    unsigned char state, from; /* enum qitem_state; from: what it was before ENDING or MOVING */
    uint64_t mark;             /* of the request that looks at it */
};

/* One order key with an item here. */
struct okey {
    struct hash_node node;
    unsigned char hash[16];
    uint32_t items; /* in memory, wherever they are: it stands as long as one does, or is marked */
    struct qitem *active;   /* the first, in memory */
    struct list behind;     /* by id */
    bool marked;            /* a row says: this one first, in memory or not */
    struct ksuid marked_id; /* the place of that one */
    /* its id when it was left behind the window; NIL: not known, as after a start */
    struct ksuid away_id;
};

#endif
