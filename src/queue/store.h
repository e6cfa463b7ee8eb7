/* store.h - where the partitions of queues live: the door to a local store (the engine) or to PostgreSQL.
 *
 * Model. A store holds partitions, each named by (queue number, partition number). A partition holds
 *   batches   what one produce put there, whole: bodies and the fields its producer gave, never written
 *             again; with a state for each item: ready in its place, elsewhere, gone. A batch goes when all are.
 *   entries   items that left their place in a batch: returned to the tail (ENTRY_READY) or waiting for an
 *             instant (ENTRY_SCHEDULED); they point at their body in a batch
 *   leases    which items are leased, until when
 *   keys      idempotency keys, with their window
 *   one record: counts, the greatest id given, epoch
 * The owner of a queue keeps order and leases in memory and is the only writer, so a write is a list of row
 * changes without conditions, atomic as a whole; the store decides nothing. Writes of one partition are
 * applied in the order they were started.
 *   An id is a KSUID (base/ksuid.h); item i of a batch has the id first + i. FIFO order is the order of ids.
 *
 * Outcomes: ERR_OK on disk (or written, for a lease with early); ERR_FULL, ERR_UNAVAILABLE, ERR_TIMEOUT:
 * definitely nothing of it is or ever will be in the store; ERR_IO: unknown, the store is of no more use to this
 * process until it was opened and read again (queue_store_recover). */
#ifndef QUEUE_STORE_H
#define QUEUE_STORE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/ksuid.h"
#include "base/str.h"
#include "base/times.h"

enum {
    QUEUE_BATCH_ITEMS_MAX = 1000,
    QUEUE_BATCH_BYTES_MAX = 8 << 20, /* encoded */
    QUEUE_WRITE_OPS_MAX = 4096,
    QUEUE_PARTITIONS_MAX = 65535,    /* of one queue */
    QUEUE_STORES_MAX = 64,
};

struct queue_store;
struct queue_part { uint32_t queue, partition; };

/* What a partition is known by after a restart; written with every write, so counts equal the rows. */
struct queue_part_record {
    uint64_t ready, scheduled, leased; /* items */
    uint64_t bytes;                    /* of batches */
    struct ksuid last_id;              /* greatest ever given */
    uint64_t epoch;                    /* raised by each owner and each boot */
    unsigned char boot[16];            /* of the machine that wrote it last */
};

/* Where an item's body is. */
struct queue_place {
    struct ksuid batch;  /* its first id */
    uint16_t index;      /* 0 up */
};

enum queue_item_state { ITEM_IN_PLACE, ITEM_ELSEWHERE, ITEM_GONE, ITEM_STATES };
enum queue_entry_kind { ENTRY_READY, ENTRY_SCHEDULED, ENTRY_KINDS };
struct queue_entry {
    enum queue_entry_kind kind;
    struct ksuid id;
    struct queue_place place;
    store_time enqueue_at;   /* SCHEDULED */
    uint32_t attempts;       /* grants so far */
    store_time created_at, expire_at; /* as the batch says, or later */
};
struct queue_lease {
    struct ksuid id;         /* of the item */
    struct queue_place place;
    bool in_place;           /* ready in its batch; else by an entry of its id */
    store_time deadline;
    uint32_t attempts;       /* this grant included */
    uint64_t token;          /* of our own routes; 0: none */
    store_time created_at, expire_at;
};
struct queue_key { unsigned char hash[16]; struct ksuid first; uint32_t count; store_time expire_at; };

enum queue_op_kind {
    OP_BATCH_PUT,      /* batch */
    OP_BATCH_STATES,   /* batch.first, batch.states: the states as they are now; all GONE: the batch is deleted */
    OP_ENTRY_PUT, OP_ENTRY_DELETE,   /* entry (delete: kind, id, enqueue_at) */
    OP_LEASE_PUT, OP_LEASE_DELETE,   /* lease (delete: id) */
    OP_KEY_PUT, OP_KEY_DELETE,       /* key (delete: hash) */
    OP_KINDS
};
struct queue_batch {
    struct ksuid first;
    uint16_t count;
    store_time created_at, expire_at;
    str order_key;                /* empty: none; at most QUEUE_ORDER_KEY_BYTES_MAX */
    const unsigned char *states;  /* enum queue_item_state, count of them */
    str bytes;                    /* encoded items (item.h); OP_BATCH_PUT only */
};
enum { QUEUE_ORDER_KEY_BYTES_MAX = 256 };
struct queue_op {
    enum queue_op_kind kind;
    union { /* told apart by kind */
        struct queue_batch batch;
        struct queue_entry entry;
        struct queue_lease lease;
        struct queue_key key;
    } u;
};

/* One atomic change of one partition, or of two on the same store (a move to a dead queue). Caller's memory
 * until done. done: any thread, exactly once, possibly before start returns. */
struct queue_write {
    struct {
        struct queue_part part;
        struct queue_part_record record; /* as it is after this write */
        const struct queue_op *ops;
        unsigned ops_count;
    } parts[2];
    unsigned parts_count;
    bool early;            /* only leases: done when written, synced with the next group */
    bool unsynced;         /* durability interval or none: done when written */
    bool frees;            /* only removes: may use the reserve of a full disk */
    mono deadline;         /* past it, if nothing was written yet: ERR_TIMEOUT */
    void (*done)(struct queue_write *w, err why);
    void *ctx;
    void *store_own[16];   /* the store's */
};

/* A table of functions each kind of store fills in. All from any thread unless said. */
struct queue_store_ops {
    void (*write)(struct queue_store *s, struct queue_write *w);
    /* Reads what a partition holds, for its owner's memory. Blocks: a pool job or start-up.
     * Creates the partition when it is not there (record zero). ERR_CORRUPT, ERR_IO, ERR_UNAVAILABLE. */
    err (*record)(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
    /* Ready and scheduled rows in order, from the first id >= from (scheduled: enqueue_at >= at, then id): calls
     * each with an entry, in_place telling whether it stands in its batch; until it returns false. Leased ones
     * are reported too. May block. */
    err (*ready)(struct queue_store *s, struct queue_part p, struct ksuid from,
                 bool (*each)(void *ctx, const struct queue_entry *e, bool in_place, str order_key), void *ctx);
    err (*scheduled)(struct queue_store *s, struct queue_part p, store_time at, struct ksuid from,
                     bool (*each)(void *ctx, const struct queue_entry *e), void *ctx);
    err (*leases)(struct queue_store *s, struct queue_part p,
                  bool (*each)(void *ctx, const struct queue_lease *l), void *ctx);
    err (*keys)(struct queue_store *s, struct queue_part p,
                bool (*each)(void *ctx, const struct queue_key *k), void *ctx);
    /* The states and fields of a batch (bytes empty), in the arena. ERR_NOT_FOUND. */
    err (*batch)(struct queue_store *s, struct queue_part p, struct ksuid first, struct arena *a,
                 struct queue_batch *out);
    /* One encoded item, verified, in the arena. now: only from memory, ERR_AGAIN otherwise. */
    err (*body)(struct queue_store *s, struct queue_part p, struct queue_place at, bool now, struct arena *a,
                str *out);
    /* Removes a partition with all its rows, in bounded steps. Blocks. */
    err (*drop)(struct queue_store *s, struct queue_part p);
    /* After ERR_IO or at start: opens again; ERR_UNAVAILABLE while it cannot. Blocks. */
    err (*recover)(struct queue_store *s, struct err_note *note);
    /* Writes a record of its own and syncs it: is it alive, and how fast? Blocks. */
    err (*heartbeat)(struct queue_store *s, mono deadline);
    void (*close)(struct queue_store **sp);
};
struct queue_store {
    const struct queue_store_ops *ops;
    const char *name;
};

/* The local kind, on an engine that the caller keeps (the main one) or that this store opens in dir. */
struct engine;
struct queue_local_opts {
    const char *name;
    struct engine *engine;   /* borrowed; NULL: */
    const char *dir;         /* an engine of its own here */
    struct clock *clock;
    uint64_t segment_bytes, index_bytes_max, free_bytes_min;
    const struct file_faults *faults;
    void (*failed)(void *ctx, const char *store, const char *what); /* own engine only: it acknowledges nothing more */
    void *ctx;
};
MUST_CHECK err queue_local_open(const struct queue_local_opts *opts, struct queue_store **out, store_time *greatest,
                                struct err_note *note);

/* PostgreSQL, through src/pg. url: postgresql://user:password@1.2.3.4:5432/db, numeric host. One owner by epoch. */
struct loop;
struct queue_pg_opts {
    const char *name, *url;
    struct loop *loop;
    struct clock *clock;
    int64_t write_timeout_ms;
};
MUST_CHECK err queue_pg_open(const struct queue_pg_opts *opts, struct queue_store **out, struct err_note *note);

#endif
