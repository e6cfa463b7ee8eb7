/* turn.h - calls that administer queues: each runs on a thread of the pool, in its turn. Part of
 * queue.h.
 *
 * Model. Calls are let in by share: so many at once of those that need one store, for each store;
 * of those that need several stores; of requeues; one that changes the catalogue. The rest wait,
 * first come first within a share. So a store that does not answer holds its own calls and those of
 * several stores, and no call that needs another store alone waits for it. A thread of the pool is
 * held by requeues and changes, and by the others while they read a disk of this machine.
 *
 *   start -> waits for its turn -> until what it looks at was read -> run -> write -> done */
#ifndef QUEUE_TURN_H
#define QUEUE_TURN_H

#include "loop/limiter.h"
#include "queue/later.h"

enum {
    QUEUE_TURNS = 2,
    QUEUE_TURN_MS_MAX = 120000, /* how long it waits for its turn */
    QUEUE_READ_MS_MAX = 2000,   /* and for partitions to be read after a start */
};

enum queue_share {
    SHARE_NONE,   /* asks no store: waits for nothing */
    SHARE_STORE,  /* asks the store of its partition, or those of all */
    SHARE_MEMORY, /* asks no store, once all partitions were read */
    SHARE_REQUEUE,
    SHARE_CHANGE, /* of the catalogue */
};

struct queues;
struct queue;
/* The caller's memory until done. */
struct queue_turn {
    struct queues *queues;
    struct queue *queue; /* NULL: it is about none. The caller holds it */
    enum queue_share share;
    uint32_t partition; /* STORE: or QUEUE_PARTS_ALL */
    /* Pool. ERR_AGAIN: it made a call with later; what that call comes to is what run came to. */
    err (*run)(struct queue_turn *t);
    err (*write)(struct queue_turn *t); /* pool, when all is well: makes the answer; NULL: none */
    void (*done)(struct queue_turn *t, err why); /* once, on the loop; t may be gone behind it */
    struct err_note *note;
    struct queue_later later; /* for run */
    /* the module's */
    bool began, waits, in; /* the latter two are the loop's */
    err why;
    struct limiter_pass pass;
    struct loop_timer *timer;
    mono read_deadline;
};
/* Thread: any. */
void queue_turn_start(struct queue_turn *t);
/* Nobody wants it any more: while it waits for its turn it is done with ERR_GONE, in this call.
 * Thread: the loop's. */
void queue_turn_cancel(struct queue_turn *t);
/* Threads of the pool that turns may hold, beside others', with so many stores, of which disks are
 * on disks of this machine. */
unsigned queue_turn_threads(unsigned stores, unsigned disks);

#endif
