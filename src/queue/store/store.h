/* store.h - where the partitions of queues live: the door to a local store (the engine) or to
 * PostgreSQL, which open.h opens.
 *
 * Model. A store holds partitions, each named by (queue number, partition number); queue 0 is the
 * store's own. A partition holds
 *   batches   what one produce put there, whole: bodies and the fields its producer gave, never
 *             written again; with a state for each item: ready in its place, elsewhere, gone. A
 *   batch goes when all are. entries   items that left their place in a batch: returned to the tail
 *             (ENTRY_READY) or waiting for an instant (ENTRY_SCHEDULED); they point at their body
 *             in a batch
 *   leases    which items are leased, until when; the item stays where it is, in place or as an
 *             entry
 *   keys      idempotency keys, with their window
 *   one record: counts, the greatest id given, epoch
 * The owner of a queue keeps order and leases in memory and is the only writer, so a write is a
 * list of row changes without conditions, atomic as a whole; the store decides nothing but whether
 * the writer still is the owner (its epoch). Writes of one store are applied in the order they were
 * started; one may fail and a later one not, so counts are changed, not set. A write that
 * contradicts what is stored (states of a batch that is not there, a count below zero) changes
 * nothing and gets ERR_CORRUPT.
 *   An id is a KSUID (base/ksuid.h); item i of a batch has the id first + i; batches do not
 * overlap. FIFO order is the order of ids.
 *
 * Outcomes: ERR_OK on disk (or written, for early and unsynced); ERR_FULL, ERR_UNAVAILABLE,
 * ERR_TIMEOUT, ERR_LIMIT, ERR_CORRUPT, ERR_CONFLICT (no longer the owner), ERR_SHUTDOWN: definitely
 * nothing of it is or ever will be in the store; ERR_IO: unknown. After it the store answers
 * ERR_UNAVAILABLE until recover; then own the partitions again: that fences what may still be on
 * its way. Then read them. */
#ifndef QUEUE_STORE_STORE_H
#define QUEUE_STORE_STORE_H

#include "queue/queue.h"

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

struct queue_store;
struct queue_part {
    uint32_t queue, partition;
};

/* Bodies to read, in order, until they have bytes_max bytes together. The first is read whatever
 * its size. */
struct queue_bodies {
    const struct queue_place *at;
    unsigned count;
    uint64_t bytes_max; /* of encoded items */
    bool now;           /* never blocks: ERR_AGAIN when they are not in memory */
    struct arena *arena;
    str *out;      /* room for count; encoded items (item.h), verified, in the arena */
    unsigned read; /* out: how many of them */
};

/* For stores: those that were read have so many bytes, and the next one does not fit any more. */
static inline bool queue_bodies_full(const struct queue_bodies *b, uint64_t bytes, uint64_t more)
{
    return b->read > 0 && (bytes > b->bytes_max || more > b->bytes_max - bytes);
}

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

enum queue_op_kind {
    OP_BATCH_PUT, /* batch; one at least is not gone */
    /* batch.first, count, states as they are now; all GONE: the batch is deleted */
    OP_BATCH_STATES,
    OP_ENTRY_PUT,
    OP_ENTRY_DELETE, /* entry (delete: kind, id, enqueue_at) */
    OP_LEASE_PUT,
    OP_LEASE_DELETE, /* lease (put again: a new deadline; delete: id) */
    OP_KEY_PUT,
    OP_KEY_DELETE, /* key (delete: hash) */
    OP_KINDS
};
struct queue_op {
    enum queue_op_kind kind;
    union { /* told apart by kind */
        struct queue_batch batch;
        struct queue_entry entry;
        struct queue_lease lease;
        struct queue_key key;
    } u;
};

/* One atomic change of one partition, or of two on the same store (a move to a dead queue).
 * Caller's memory until done, with all it points to. done: any thread, exactly once, possibly
 * before write returns. */
struct queue_write {
    struct queue_write_part {
        struct queue_part part;
        uint64_t epoch;                   /* as own gave it */
        int64_t ready, scheduled, leased; /* how the record's counts change */
        struct ksuid last_id, settled;    /* the record keeps the greater one */
        const struct queue_op *ops;
        unsigned ops_count;
    } parts[2];
    unsigned parts_count;
    bool early; /* only leases: done when written, synced with the next group */
    /* Durability interval or none: done when written. What was only written may be lost when the
     * machine stops (of PostgreSQL: when its server dies), the last first, and nothing that a later
     * synced write has covered. */
    bool unsynced;
    bool frees; /* removes, or leases what is to be removed: may use the reserve of a full disk */
    mono deadline; /* past it, if nothing was written yet: ERR_TIMEOUT; ns 0: none */
    void (*done)(struct queue_write *w, err why);
    void *ctx;
    void *store_own[16]; /* the store's */
};

/* What a scan shows. LEASES and KEYS: all of them. READY: items in order of ids, from the first id
 * >= from, in their batches and as entries, leased ones too. The cost is that of the rows from
 * there on, batches without an item in place included: start where you know to. SCHEDULED: entries
 * with (enqueue_at, id) >= (at, from), in that order. */
enum queue_scan_kind { SCAN_READY, SCAN_SCHEDULED, SCAN_LEASES, SCAN_KEYS };
struct queue_row {
    union { /* told apart by the scan's kind */
        struct queue_entry entry;
        struct queue_lease lease;
        struct queue_key key;
    } u;
    bool in_place; /* READY: the item stands in its batch, never leased before */
};
struct queue_scan {
    struct queue_part part;
    enum queue_scan_kind kind;
    struct ksuid from;                                    /* READY, SCHEDULED */
    store_time at;                                        /* SCHEDULED */
    bool (*each)(void *ctx, const struct queue_row *row); /* false: no more */
    void *ctx;
};

/* A table of functions each kind of store fills in. All from any thread. Those that read block (a
 * pool job or start-up), unless said, and show everything acknowledged before; what was only
 * written early may be missing for a moment. Each stops when its callback returns false, which is
 * no error. Slices given to callbacks are valid inside the call; a callback must not call the
 * store. ERR_CORRUPT, ERR_IO, ERR_UNAVAILABLE. */
struct queue_store_ops {
    void (*write)(struct queue_store *s, struct queue_write *w);
    /* Makes the caller the owner of count partitions (all or none): creates those that are not
     * there, raises their epochs and writes boot, on disk. *out as they are now, boot as it was
     * before. Blocks. ERR_LIMIT; ERR_CONFLICT: another process that lives owns one. */
    err (*own)(struct queue_store *s, const struct queue_part *parts, unsigned count,
               const unsigned char boot[QUEUE_BOOT_BYTES], struct queue_part_record *out,
               struct err_note *note);
    /* ERR_NOT_FOUND: no such partition. */
    err (*record)(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
    /* One consistent state of the rows of one kind. A partition that is not there has none. */
    err (*scan)(struct queue_store *s, const struct queue_scan *scan);
    /* The states and fields of a batch (bytes empty), in the arena. ERR_NOT_FOUND, ERR_LIMIT
     * (arena). */
    err (*batch)(struct queue_store *s, struct queue_part p, struct ksuid first, struct arena *a,
                 struct queue_batch *out);
    /* ERR_AGAIN, ERR_NOT_FOUND, ERR_LIMIT (arena). */
    err (*bodies)(struct queue_store *s, struct queue_part p, struct queue_bodies *b);
    /* Removes a partition with all its rows, its record first, so that its owner can write no more;
     * in bounded steps, goes on where it stopped when called again. Blocks. */
    err (*drop)(struct queue_store *s, struct queue_part p);
    /* After ERR_IO: opens again; ERR_UNAVAILABLE while it cannot. One at a time. The store keeps
     * others out: a call that runs is waited for, one that comes gets ERR_UNAVAILABLE. Writes are
     * answered first. Blocks. */
    err (*recover)(struct queue_store *s, struct err_note *note);
    /* Writes a record of its own, on the way that writes take, and syncs it: is it alive, and how
     * fast? Outcomes as of a write; ERR_IO: it needs recover; ERR_CORRUPT: the record is gone.
     * Blocks. */
    err (*heartbeat)(struct queue_store *s, mono deadline);
    /* Gives freed space back to the disk, a bounded part at a time; *more: there is more to give
     * now. NULL: somebody else does it for this store. ERR_UNAVAILABLE, ERR_IO. Blocks. */
    err (*reclaim)(struct queue_store *s, bool *more);
    /* What the store said of its last failure, for the log; empty: nothing. NULL: it never says a
     * word. Blocks not. */
    void (*said)(struct queue_store *s, struct err_note *note);
    void (*close)(struct queue_store **sp); /* answers what was written first */
};
struct queue_store {
    const struct queue_store_ops *ops;
    const char *name;
    /* Its server may die while this process lives. What was written early is lost then: a lease
     * that was given is forgotten when the partition is read again. */
    bool dies_alone;
    unsigned jobs_max; /* that read from it at once: each may hold a thread while it does not
                          answer; 0: any */
};

#endif
