/* queue.h - lease-based work queues: partitions over stores, opportunistic distribution, leases.
 *
 * Model (docs/api.md, 7; docs/peers.md, 2; docs/adr/0019). A queue has partitions 0..n-1,
 * partition i on store i mod n unless weighted or moved. Order, counts and leases of a queue stand
 * in memory under one lock; the store (store.h) holds what is there. A produce goes whole to the
 * eligible partition with the fewest items (ready + scheduled + placing; ties: lowest number),
 * requests in arrival order (place.h). A lease takes from the partition with the oldest ready head
 * not yet promised. Expiry, immediate retry and a due schedule put the item at the tail under a new
 * id, greater than any the partition ever gave; the id is the fence.
 *   Memory: a window of ready items at the head of each partition, filled again from the store;
 * leases and the next scheduled items. Depth does not set it.
 *
 * Errors: err and a note whose text is the sentence for the client, as the peer's contract has it.
 * ERR_BAD, ERR_NOT_FOUND, ERR_CONFLICT: 400; ERR_PRECONDITION: 422; ERR_TIMEOUT, ERR_LIMIT,
 * ERR_UNAVAILABLE: 454; ERR_SHUTDOWN: 453.
 * Requests are the caller's memory until done; borrowed inputs too. A start that does not return
 * ERR_OK does not call done; else done comes exactly once, as a task of the request's home. Thread:
 * any, unless said. Nothing here blocks but what says so. */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/home.h"
#include "base/ksuid.h"
#include "base/str.h"
#include "base/times.h"

enum {
    QUEUE_NAME_BYTES_MAX = 512,
    QUEUE_CLIENT_BYTES_MAX = 512,
    QUEUE_REFERENCE_BYTES_MAX = 2000,
    QUEUE_ATTEMPTS_MAX = 65536,        /* max_attempts of a queue */
    QUEUE_ITEM_ATTEMPTS_MAX = 1 << 29, /* of an imported item; rows that say more count as this */
    QUEUE_PRODUCE_ITEMS_MAX = 1000,
    QUEUE_LEASE_ITEMS_MAX = 1000,
    QUEUE_COMPLETE_IDS_MAX = 1000,
    QUEUE_RETRY_ITEMS_MAX = 1000,
    QUEUE_IMPORT_ITEMS_MAX = 65536,
    QUEUE_FIELD_BYTES_MAX = 2000, /* encoding, kind, reference of an item */
    QUEUE_QUEUES_MAX = 100000,
    QUEUE_PARTITIONS_MAX = 65535,  /* of one queue */
    QUEUE_REQUESTS_MAX = 20000,    /* waiting in one queue; one more gets ERR_LIMIT */
    QUEUE_SOON_NS = 100 * 1000000, /* enqueue_at and retry_at up to this far ahead mean now */
};

struct queues; /* all of a server */
struct queue;  /* one, counted references */

enum queue_durability { QUEUE_SYNC, QUEUE_INTERVAL, QUEUE_NONE };
extern const char *const queue_durability_names[]; /* of each; then NULL */
enum queue_lease_durability {
    QUEUE_LEASE_AUTO,
    QUEUE_LEASE_WRITTEN,
    QUEUE_LEASE_SYNC
}; /* AUTO: by dies_alone */
struct queue_store;
struct engine;
struct queues_opts {
    struct engine *engine; /* the catalogue's: SPACE_QUEUE */
    /* at least one; borrowed, closed by the caller after queues_free */
    struct queue_store *const *stores;
    const unsigned *affinities; /* weight of each, NULL: all 1 */
    unsigned stores_count;
    struct clock *clock;
    struct loop *loop; /* timers, pool */
    struct log *log;
    struct metrics *metrics;          /* NULL: none */
    uint64_t seed;                    /* of minted ids */
    enum queue_durability durability; /* of queues that do not say */
    enum queue_lease_durability lease_durability;
    int64_t write_timeout_ms;      /* of one write to a store [3 s] */
    int64_t idempotency_window_ns; /* [5 min] */
    uint64_t reply_bytes_max;      /* of lease and list replies [8 MiB], at least one item */
    uint32_t partitions_max; /* of all queues together, when one is made; those there are, are all
                                opened */
    unsigned char boot[16];  /* of this machine; zero: every start counts as one */
};
/* Loads the catalogue and the records of all partitions (not their items). Blocks: start-up.
 * ERR_CORRUPT, ERR_IO. A store that cannot be read is in error and tried again; its partitions are
 * not available. */
MUST_CHECK err queues_new(const struct queues_opts *opts, struct queues **out,
                          struct err_note *note);
/* Answers what waits with ERR_SHUTDOWN, for its turn as well, at once and from now on; what is
 * being written is finished.
 * Waits for no change of a queue: a partition that is being moved stays where it was. Blocks not:
 * loop thread. */
void queues_drain(struct queues *qs);
/* After drain: no request, write or job is on its way any more. */
bool queues_idle(struct queues *qs);
/* When idle, and the loop runs no more (but is still there). */
void queues_free(struct queues **qp);
/* Does all that store_time made due (expiries, schedules) and returns when it is on disk. Blocks:
 * pool thread. */
void queues_upkeep_all(struct queues *qs);
/* Test hook: while paused, produce, lease, complete and retry are parked; on resume processed as
 * one batch. */
MUST_CHECK err queues_test_pause(struct queues *qs, str name, bool pause, struct err_note *note);

/* ---- queues ---- */
struct queue_info {
    str name;  /* borrowed as each function says */
    str space; /* namespace */
    str dead_queue, reference;
    int64_t lease_timeout_ns, expire_timeout_ns;
    uint32_t max_attempts; /* 0: no limit */
    uint32_t partitions;
    enum queue_durability durability;
    bool has_durability;
    store_time created_at, updated_at;
};
/* Checks a name as the contract orders: empty, whitespace, '~', length, UTF-8. */
MUST_CHECK err queue_name_check(str name, struct err_note *note);
/* Checks come from the caller's order of queues.create / update (contract 1.6) and are made here.
 * Blocks until on disk, create also until it can be read, so that what is produced right then goes
 * where it belongs: pool thread. update: absent lease and expire timeout (0) and partitions (0)
 * keep what is there; max_attempts, reference and dead_queue are replaced. */
MUST_CHECK err queues_create(struct queues *qs, const struct queue_info *info,
                             struct err_note *note);
MUST_CHECK err queues_update(struct queues *qs, const struct queue_info *info,
                             struct err_note *note);
/* named_too: also one that others name as their dead queue; else ERR_CONFLICT. What dies in those
 * from then on is deleted. */
MUST_CHECK err queues_delete(struct queues *qs, str name, bool named_too, struct err_note *note);
/* ERR_NOT_FOUND: `queue does not exist; no such queue named 'X'`. Give it back with queue_unref. */
MUST_CHECK err queues_find(struct queues *qs, str name, struct queue **out, struct err_note *note);
void queue_unref(struct queue **qp);
#define QUEUE_PARTS_ALL UINT32_MAX
/* Waits until a partition, or all, were read, or cannot be now. Blocks: pool thread. */
void queue_await_read(struct queue *q, uint32_t partition, mono deadline);
MUST_CHECK err queue_info_get(struct queue *q, struct arena *a,
                              struct queue_info *out); /* a copy in the arena */
/* By name from pivot (inclusive, need not exist), in the arena: ends at limit (0: none) and before
 * reply_bytes_max, after at least one queue. */
struct queues_page {
    str pivot, space,
        next; /* space empty: all; next, the pivot of the next page, empty: there is none */
    struct queue_info *found;
    unsigned limit, count;
};
MUST_CHECK err queues_list(struct queues *qs, struct queues_page *page, struct arena *a);

/* ---- items ---- */
struct queue_item_new {
    str encoding, kind, reference, bytes;
    store_time enqueue_at; /* ZERO: now; its expire_timeout begins then */
};
struct queue_produce {
    /* in */
    struct queue *queue;
    const struct queue_item_new *items;
    unsigned items_count;
    mono deadline;       /* request_timeout */
    str idempotency_key; /* empty: none; with another request within its window: ERR_PRECONDITION */
    str order_key;       /* empty: none */
    struct arena *arena;
    struct home *home; /* where done is called */
    void (*done)(struct queue_produce *p, err why);
    void *ctx;
    /* out */
    uint32_t partition;
    struct ksuid first; /* ids are first, first + 1, ... */
    bool repeated;      /* by its idempotency key: nothing new was stored */
    struct err_note note;
    void *own[48]; /* the module's */
};
MUST_CHECK err queue_produce_start(struct queue_produce *p);
#define QUEUE_GONE_NOTE                                                                            \
    "request was given up; the client stopped sending, " /* then what was not done */
/* The client has gone: done comes soon, with ERR_GONE when nothing was written. */
void queue_produce_cancel(struct queue_produce *p);

struct queue_item {
    struct ksuid id;
    str encoding, kind, reference, bytes, source_id;
    uint32_t attempts, max_attempts;
    store_time lease_deadline, expire_at, created_at,
        enqueue_at; /* lease_deadline ZERO: not leased */
    uint64_t token; /* the fencing token of its lease: greater at each lease of the partition */
};
struct queue_lease_request {
    struct queue *queue;
    unsigned batch_size;
    str client_id;
    mono deadline;
    int64_t lease_timeout_ns; /* 0: the queue's */
    bool wants_token; /* fencing tokens are told, and wanted back (docs/api-queues.md, "Leases with
                         tokens") */
    struct arena *arena; /* items are written here */
    struct home *home;   /* where done is called */
    void (*done)(struct queue_lease_request *r, err why);
    void *ctx;
    uint32_t partition;
    struct queue_item *items;
    unsigned items_count;
    struct err_note note;
    void *own[48];
};
MUST_CHECK err queue_lease_start(struct queue_lease_request *r);
void queue_lease_cancel(struct queue_lease_request *r);
/* After done with ERR_OK, the queue held: items from kept on go back with their attempts,
 * untold. */
void queue_lease_give_back(struct queue_lease_request *r, unsigned kept);

/* DELETE: in whatever state; ids of nothing, or named twice, are no error. CLEAR: what is of one of
 * its kinds then. */
enum queue_change_kind {
    CHANGE_COMPLETE,
    CHANGE_RETRY,
    CHANGE_EXTEND,
    CHANGE_DELETE,
    CHANGE_CLEAR
};
struct queue_kinds {
    bool ready, scheduled, leased;
}; /* ready: and all others */
struct queue_change_item {
    str id;              /* text */
    uint64_t token;      /* 0: none given */
    store_time retry_at; /* RETRY; ZERO: now; its expire_timeout begins anew then */
    bool dead;           /* RETRY: to the dead queue */
    int64_t extend_ns;   /* EXTEND: from now */
};
/* All or nothing: a refused one changes nothing. */
struct queue_change {
    struct queue *queue;
    enum queue_change_kind kind;
    struct queue_kinds clears;
    uint32_t partition;
    const struct queue_change_item *items;
    unsigned items_count;
    mono deadline;
    struct arena *arena;
    struct home *home; /* where done is called */
    void (*done)(struct queue_change *c, err why);
    void *ctx;
    struct err_note note;
    void *own[48];
};
MUST_CHECK err queue_change_start(struct queue_change *c);

#endif
