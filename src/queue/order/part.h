/* part.h - what of a partition stands in memory: items near its head, leases, the next schedules.
 * Private to queue.
 *
 *                 +--------- expiry, retry, release ----------+
 *                 v                                           |
 *   produce -> READY -> GRANTING -> LEASED -> ENDING -> gone  |
 *              ^  ^                    |  \______/------------+
 *      BEHIND -+  +--- SCHEDULED <-----+ retry later
 *
 *   READY, LEASED, SCHEDULED -> MOVING -> ENDING
 *   GRANTING -- write failed --> READY
 *   ENDING -- write failed --> where it was
 *   GRANTING -- its body cannot be read --> DAMAGED -- cleared, or past its time --> ENDING
 *
 * Invariants
 *  1. Ready items are in order of ids; every ready item up to edge is in memory, whole: all are.
 *     Behind the edge only firsts of order keys are, fetched by their place when what waits for
 *  them leaves no memory to read on. 2. Counts are those of the store: they change when a write was
 *  answered, by what it changed. 3. An item ENDING or GRANTING belongs to exactly one write, MOVING
 *    to one move.
 *  4. Of an order key at most one item is READY, GRANTING, LEASED or put off; others wait BEHIND,
 *     or end with it.
 *  5. A batch in memory has the states the store has; while dirty, those of the write on its way.
 * Thread: under the lock of the queue. */
#ifndef QUEUE_ORDER_PART_H
#define QUEUE_ORDER_PART_H

#include "queue/order/qitem.h"

#include <stdatomic.h>

enum {
    PART_WINDOW_ITEMS = 4096, /* ready items of a partition in memory */
    PART_REFILL_ITEMS = 1024, /* fewer than this in memory: read on */
    /* waiting behind their order key, in memory: no more of the window is read */
    PART_BEHIND_ITEMS = 65536,
    PART_FIRSTS_ITEMS = 256, /* firsts of order keys fetched from behind the window at once */
    PART_SEEK_ROWS = 16384,  /* ready rows looked through at once for those whose id is not known */
    PART_SCHEDULED_ITEMS = 4096, /* the next schedules in memory */
    PART_LOST_MAX = 65536, /* leases remembered as lost; more of them stand until they expire */
};

/* Who begins the next write of a partition. */
enum part_first { FIRST_PRODUCE, FIRST_CHANGE, FIRST_MOVE };

/* The deadline tells it from a later lease of the same item. */
struct lost_lease {
    struct ksuid id;
    store_time deadline;
};

enum part_mode { PART_OPEN, PART_DRAINING, PART_PAUSED };

/* A completion with a token: saying it again is no error. */
struct recent {
    struct ksuid id;
    uint64_t token;
};

struct queue;
struct slot;
/* Writes of one kind (slot.h): the one on its way, and the one behind it. */
struct track {
    struct slot *sent, *next;
};
struct part {
    struct queue *queue;
    uint32_t number, store;
    enum part_mode mode;
    bool loaded;                            /* memory is what the store has */
    bool loading, refilling, refilling_due; /* a job reads */
    bool held;                              /* until held_until */
    bool closed;                            /* is being moved to another store */
    bool queued;                            /* in queue.work */
    bool frees_only;                        /* the disk was full: removals first */
    uint64_t epoch, tokens;          /* of fencing tokens: the high bits, and how many were given */
    struct queue_part_record record; /* as it was owned, until it is read */
    uint64_t generation;             /* of the memory: raised when it was thrown away */
    uint64_t churn; /* batches with live items that left memory: what was read before may be old */
    struct recent *recent; /* a ring; NULL until the first */
    unsigned recent_at;
    bool failing; /* its memory was lost to an error of its store */
    bool foreign; /* another process owns it */
    bool broken;  /* others took away what says whose it is */
    bool unsure;  /* items may have been moved here: only the store knows */
    bool stale, owned,
        seen; /* to be read again; owned: epoch and counts are known; seen: its keys too */
    struct ksuid last_id; /* greatest given */
    struct ksuid done_id; /* greatest whose batch or entry is known to be there */
    int64_t ready, scheduled, leased;
    int64_t granting, placing;
    uint64_t failures, moves_failed;
    unsigned moves_running;
    atomic_uint_least64_t damaged; /* items whose bodies could not be had, so far */
    struct damage *damage;         /* rows that point at nothing, to be removed; NULL: none */
    struct hash items, batches, okeys;
    struct list ready_list;
    struct list tail; /* TAIL: became ready while more of the window is being read */
    bool tail_over;   /* more did than are kept */
    size_t tail_items, ready_items, behind_items, scheduled_items; /* in memory */
    bool whole, whole_due; /* nothing more in the store than is here */
    struct ksuid edge;     /* ready: read up to here */
    bool firsts_away;      /* a first of an order key may stand behind the edge */
    bool sought_all;       /* no id of such a one is unknown but those of schedules */
    struct ksuid sought;   /* up to here, if that is behind the edge */
    store_time edge_at;    /* scheduled: read up to (edge_at, edge_id) */
    struct ksuid edge_id;
    store_time expire_min;   /* no ready item here expires before */
    struct heap_node expire; /* in queue.expires, by expire_min */
    bool expire_due;
    struct heap_node head; /* in queue.heads: has a ready item that may be leased */
    struct list work;      /* in queue.work */
    unsigned looking;      /* jobs that look for ids */
    struct list produces, changes, grants, fetching; /* requests */
    struct list due, orphans; /* items: to be returned; leased without anybody */
    /* items without anybody in a write, of their lease or of their way back to their place: nothing
     * behind them is given before they are there */
    int64_t releasing;
    struct lost_lease *lost; /* leases nobody was told of, when memory was thrown away */
    size_t lost_count, lost_size;
    struct list moves;                    /* struct move, ready to be written */
    struct list dying, later, movers;     /* struct move: being gathered, tried again later, all */
    struct list old_idems, unknown_idems; /* keys past their window; of an unknown outcome */
    struct list unknown;                  /* produce requests whose outcome only the store knows */
    enum part_first first;
    mono held_until; /* after a failure: not before */
    int64_t held_ms;
    struct track main, early;
    uint64_t settled;  /* writes */
    bool apart_wanted; /* a change waits for a write that is behind no other */
};

/* Batches. */
struct batch *batch_new(uint16_t count, str order_key);
/* So many more items, in place: of one that was made for none. */
void batch_grow(struct batch *b, unsigned count);
/* Its encoded bytes: a reference, until its write is over. */
void batch_bytes_set(struct batch *b, struct shared *bytes);
/* Keeps them longer, when all that are kept stay within bytes_max. */
void batch_keep(struct batch *b, atomic_uint_least64_t *cached, uint64_t bytes_max);
void batch_written(struct batch *b); /* its write is over */
void batch_ref(struct batch *b);
void batch_unref(struct part *p, struct batch *b);            /* p NULL: not known to a partition */
struct batch *part_batch(struct part *p, struct ksuid first); /* NULL: not in memory */
void part_batch_add(struct part *p, struct batch *b);
/* The encoded item, when its bytes are here. */
MUST_CHECK bool batch_item(const struct batch *b, unsigned index, str *out);

/* Items. */
struct qitem *part_item(struct part *p, struct ksuid id);
struct qitem *part_item_new(struct part *p, struct batch *b, unsigned index, struct ksuid id);
void part_item_free(struct part *p, struct qitem *it);
void qitem_move(struct qitem *it, enum qitem_state to);
/* A new id: after all given before, of now when that is later. n: so many in a row. */
struct ksuid part_ids(struct part *p, uint32_t n, store_time now, uint64_t random);
/* When it was given. Ids that older versions gave say the second alone. */
store_time id_time(struct ksuid id);
/* Into the ready list (or behind its key) by its id. It is in memory, in no list. */
void part_ready_put(struct part *p, struct qitem *it);
/* At the end of what was not read yet: kept while the rest is being read, else gone from memory. */
void part_tail_put(struct part *p, struct qitem *it);
void part_tail_end(struct part *p, bool all_read);
/* Out of the list it stands in by its state, which it keeps. */
void part_unlist(struct part *p, struct qitem *it);
void part_expire_set(struct part *p, store_time at);
struct qitem *part_head(const struct part *p);
/* it came to an end: the next of its key has its turn. */
void part_okey_end(struct part *p, struct qitem *it);
void part_key_of(struct part *p,
                 struct qitem *it); /* finds the order key of its batch, if it has one */
void part_okey_hash(str key, unsigned char out[16]);
struct okey *part_okey(struct part *p, const unsigned char hash[16], bool make);
bool okey_may(const struct okey *k, const struct qitem *it);   /* it is first, or nobody is */
bool okey_marks(const struct okey *k, const struct qitem *it); /* the row says: it */

/* The lease of it, should it turn out to stand when the partition is read, was given to nobody. One
 * with another deadline is not that one: another server owned the partition meanwhile, and gave the
 * item to somebody. All of them are lost first, then sorted, then asked for. */
void part_lose(struct part *p, const struct qitem *it);
void part_lost_sort(struct part *p);
bool part_was_lost(const struct part *p, const struct qitem *it);
void part_lost_end(struct part *p);

void damage_forget(struct part *p); /* damage.c: what was found is found again when it is read */
/* Throws all of the memory away: items must be in no write. */
void part_forget(struct part *p);
void part_init(struct part *p, struct queue *q, uint32_t number, uint32_t store);
void part_fini(struct part *p);

#endif
