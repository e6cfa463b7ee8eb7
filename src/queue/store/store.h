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
#include "queue/store/partition.h"

struct queue_store;
struct queue_later; /* later.h */

/* Bodies to read, in order, until they have bytes_max bytes together. The first is read whatever
 * its size. */
struct queue_bodies {
    const struct queue_place *at;
    unsigned count;
    uint64_t bytes_max; /* of encoded items */
    bool now; /* never blocks, nor is answered later: ERR_AGAIN when they are not in memory */
    struct queue_later *later;
    struct arena *arena;
    str *out;      /* room for count; encoded items (item.h), verified, in the arena */
    unsigned read; /* out: how many of them */
};

/* For stores: those before it have so many bytes, and the next one does not fit any more. */
static inline bool queue_bodies_full(const struct queue_bodies *b, uint64_t bytes, uint64_t more)
{
    return bytes > 0 && (bytes > b->bytes_max || more > b->bytes_max - bytes);
}

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
    struct ksuid from; /* READY, SCHEDULED */
    store_time at;     /* SCHEDULED */
    /* false: no more. One call at a time, of later on any thread of the pool */
    bool (*each)(void *ctx, const struct queue_row *row);
    void *ctx;
    struct queue_later *later;
};

/* Makes the caller the owner of count partitions (all or none): creates those that are not there,
 * raises their epochs and writes boot, on disk. */
struct queue_own {
    const struct queue_part *parts;
    unsigned count;
    const unsigned char *boot;     /* QUEUE_BOOT_BYTES */
    struct queue_part_record *out; /* count of them, as they are now, boot as it was before */
    struct err_note *note;
    struct queue_later *later;
};

/* The states and fields of a batch (bytes empty), in the arena. */
struct queue_batch_look {
    struct ksuid first;
    struct arena *arena;
    struct queue_batch *out;
    struct queue_later *later;
};

/* A table of functions each kind of store fills in. All from any thread. Those that read block (a
 * pool job or start-up), unless said, and show everything acknowledged before; what was only
 * written early may be missing for a moment. Each stops when its callback returns false, which is
 * no error. Slices given to callbacks are valid inside the call; a callback must not call the
 * store. ERR_CORRUPT, ERR_IO, ERR_UNAVAILABLE. */
struct queue_store_ops {
    void (*write)(struct queue_store *s, struct queue_write *w);
    /* ERR_LIMIT; ERR_CONFLICT: another process that lives owns one; ERR_GONE: of one that is there,
     * what says whose it is was taken away by others. The note says more. */
    err (*own)(struct queue_store *s, const struct queue_own *o);
    /* ERR_NOT_FOUND: no such partition. */
    err (*record)(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
    /* One consistent state of the rows of one kind. A partition that is not there has none. */
    err (*scan)(struct queue_store *s, const struct queue_scan *scan);
    /* ERR_NOT_FOUND, ERR_LIMIT (arena). */
    err (*batch)(struct queue_store *s, struct queue_part p, const struct queue_batch_look *b);
    /* ERR_AGAIN, ERR_NOT_FOUND, ERR_LIMIT (arena). */
    err (*bodies)(struct queue_store *s, struct queue_part p, struct queue_bodies *b);
    /* Removes a partition with all its rows, its record first, so that its owner can write no more;
     * in bounded steps, goes on where it stopped when called again. ERR_CONFLICT: another process
     * that lives owns it; nothing was removed. */
    err (*drop)(struct queue_store *s, struct queue_part p, struct queue_later *later);
    /* After ERR_IO: opens again; ERR_UNAVAILABLE while it cannot. One at a time. The store keeps
     * others out: a call that runs is waited for, one that comes gets ERR_UNAVAILABLE. Writes are
     * answered first. */
    err (*recover)(struct queue_store *s, struct err_note *note, struct queue_later *later);
    /* Writes a record of its own, on the way that writes take, and syncs it: is it alive, and how
     * fast? Outcomes as of a write; ERR_IO: it needs recover; ERR_CORRUPT: the record is gone. */
    err (*heartbeat)(struct queue_store *s, mono deadline, struct queue_later *later);
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
};

#endif
