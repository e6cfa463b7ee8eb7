/* slot.h - the writes of a partition: their memory, and how one follows the other. Private to
 * queue.
 *
 * Model. A partition writes on two tracks: early (leases alone) and main (all else). Of a track one
 * write is on its way; while it is, the next is made behind it, request by request, by the threads
 * that bring them. When the store says that the first is written, the thread that says so sends the
 * next: it need not run the machine for that, and the store's committer finds work in its queue as
 * soon as it has synced a group.
 *   What is made behind a write rests on the write's success: items that it changes are left alone,
 * states of batches are those it leaves. So the next write is sent only after it, and taken back
 * (track_withdraw) when it fails: what stood in it waits again, as if it had not been made.
 *
 *   behind, of the write on its way:
 *   NONE -> HELD <-> OFFERED -> SENT      HELD: being added to, under the lock of the queue
 *            |                            OFFERED: the store's thread sends it after this one
 *            \-> DUE -> SENT              this one is written: sent by who holds it
 *   NONE -> CLOSED                        this one is written, and nothing was behind it
 *
 * Invariants
 *  1. A slot is built from memory that no other main write is changing, but for states of batches.
 *  2. Each write has copies of the states it writes: the next may change a batch while it is read.
 *  3. There is a next only behind one on its way. Both are settled in the order they were sent.
 * Thread: under the lock of the queue, but for slot_written. */
#ifndef QUEUE_ORDER_SLOT_H
#define QUEUE_ORDER_SLOT_H

#include "queue/item.h"
#include "queue/machine.h"

enum step_kind {
    STEP_GONE,     /* complete, delete, die without a dead queue */
    STEP_RETURN,   /* to the tail under id */
    STEP_SCHEDULE, /* until at, same id */
    STEP_EXTEND,   /* lease until at */
    STEP_RELEASE,  /* back in its place, as if never leased */
    STEP_ARRIVE    /* scheduled by its producer */
};
struct step {
    enum step_kind kind;
    struct qitem *item;
    struct ksuid id;
    store_time at, expire_at;
};

/* A batch whose states a write changes. */
struct dirty {
    struct batch *batch;
    unsigned op;
    unsigned char *states; /* own memory */
};

/* The batch of small requests that grows as they come. */
struct slot_pack {
    struct batch *batch; /* NULL: none yet */
    struct item_pack items;
    unsigned op;
    uint64_t bytes;
};

enum slot_behind {
    BEHIND_NONE,
    BEHIND_HELD,
    BEHIND_OFFERED,
    BEHIND_DUE,
    BEHIND_SENT,
    BEHIND_CLOSED
};

enum { SLOT_CALLERS = 2 };

struct move;
/* A write, used again and again; while it rests, by any partition of its queue. */
struct slot {
    struct list link; /* in queue.resting */
    struct queue_write write;
    struct part *part;
    struct arrival arrival;
    err outcome;
    bool is_early;
    bool is_starved;       /* there was no memory for more rows */
    unsigned bit;          /* of batch.dirty: the two main slots of a partition have one each */
    atomic_uint behind;    /* enum slot_behind */
    struct slot *follower; /* while OFFERED, HELD, DUE, SENT */
    /* requests whose tasks are posted when it is written: they run the machine */
    _Atomic(struct req *) callers[SLOT_CALLERS];
    mono started, overdue_at;
    struct heap_node overdue; /* in queue.overdue */
    struct queue_op *ops;
    struct step *steps;
    struct batch **batches; /* put by this write */
    struct dirty *dirty;    /* whose states it changes */
    unsigned ops_count, ops_size, steps_count, steps_size, batches_count, batches_size, dirty_count,
        dirty_size;
    struct slot_pack pack;
    struct list requests, idems, orphans;
    struct move *move;
    uint32_t placing; /* items */
    uint32_t requests_placed;
    unsigned mended;     /* rows of damage it removes */
    bool mends;          /* the last of them, and the counts */
    uint64_t bytes;      /* of the batches put by this write */
    uint64_t generation; /* of the part, as it was built */
};

/* ---- one write ---- */

void slot_free(struct slot **sp);
/* Does a write take so many rows more? */
bool slot_takes(const struct slot *s, unsigned ops);
/* It does, and there is memory for them and as many steps and batches: none of the next four
 * fails. */
bool slot_room(struct slot *s, unsigned ops);
struct queue_op *slot_op(struct slot *s, enum queue_op_kind kind); /* zeroed but for kind */
void slot_step(struct slot *s, const struct step *step);
void slot_batch(struct slot *s, struct batch *b);
/* The item's state becomes to; undo: what it was before the write. */
void slot_state(struct slot *s, const struct qitem *it, enum queue_item_state to);
/* r is in no list; it is WRITING from here on. */
void slot_request(struct slot *s, struct req *r);
/* r leaves it before its outcome. */
void slot_leave(struct req *r);

/* ---- tracks ---- */

/* The slot to build the next write in: a new one, or the one behind the write on its way, held.
 * NULL: the next waits until that write is settled. */
struct slot *track_open(struct part *p, struct track *t);
/* It was built: is sent, or offered. An empty one rests. True: something was sent. */
bool track_close(struct part *p, struct track *t, struct slot *s);
/* Takes back what is made behind the write on its way, if it was not sent. */
void track_withdraw(struct part *p, struct track *t);
/* A request that stands in a write that was not sent waits again. */
void req_recall(struct req *r);
bool part_idle(const struct part *p); /* no write is on its way */

#endif
