/* move.h - items on their way to another queue. Private to move*.c, which say how. */
#ifndef QUEUE_MOVE_MOVE_H
#define QUEUE_MOVE_MOVE_H

#include "queue/lease/wait.h"
#include "queue/order/flush.h"

enum {
    MOVE_ITEMS_MAX = 256,
    MOVE_BYTES_MAX = 4 << 20, /* bodies of one round, after the first */
    MOVE_ARENA_BYTES_MAX = 64 << 20,
};

struct moved {
    struct qitem *item; /* NULL: it was given back, and is no longer the move's */
    struct queue_place place;
    struct ksuid id;
    bool skip; /* the target has it already */
};
enum move_stage { MOVE_NEW, MOVE_DOOM, MOVE_INSERT, MOVE_REMOVE, MOVE_RELEASE };

/* Somebody waits until all moves of an order are over. */
struct move_order {
    struct waiter waiter; /* its good: items that were moved */
    unsigned open; /* items of which nobody can say yet in which queue they end. Source's lock */
};

struct move {
    struct list link; /* part.dying, part.moves, part.later */
    enum move_stage stage;
    mono again_at;
    struct part *part;
    uint64_t generation;
    struct queue_change *change; /* that waits for it; NULL: none */
    struct move_order *order;    /* NULL: nobody waits for it, or was told already */
    bool keeps;                  /* it was ordered, and ends with the first round that fails */
    bool running, doomed, told;  /* doomed: the round is; told: that it cannot go on */
    bool unsure;      /* a write has an unknown outcome, or the items stand in both queues */
    unsigned tries;   /* that failed, one after the other */
    const char *what; /* why the last one failed */
    struct moved *items;
    unsigned count, size;      /* items left; room */
    unsigned round, new_count; /* of this round: the first so many; not skipped */
    unsigned returned;         /* of this round: given back */
    struct queue_store *store;
    uint32_t store_index;
    struct queue_part place;
    uint32_t to_number; /* of a queue that was ordered; 0: by its name */
    char to_name[QUEUE_NAME_BYTES_MAX];
    size_t to_name_bytes;
    struct queue *to; /* a reference; NULL: there is none */
    struct part *to_part;
    uint64_t to_generation, to_epoch;
    uint32_t to_store_index;
    bool removed;        /* from the source */
    struct list by_part; /* part.movers */
    struct batch *batch;
    bool across, placed;
    struct queue_write write;
    struct queue_op *ops;
    unsigned ops_count;
    struct arena arena;
    struct loop_job job;
    err why;
};

/* One that waits to be begun (move_begin), for queue to; c: the order of a client that waits for
 * it, or NULL. Its items are added then, MOVE_ITEMS_MAX at most. Under the lock of the queue of
 * p. */
struct move *move_new(struct part *p, struct queue_change *c, str to);
void move_add(struct move *m, struct qitem *it);

/* move.c. Under the lock of the source: is it still wanted; over; tried again later; one more try
 * failed; the items of its round are in the target, and gone from the source, or not gone. */
bool move_is_current(const struct move *m);
void move_end(struct move *m, err why);
void move_stands_in_both(struct move *m, err why);
void move_later(struct move *m);
void move_failed(struct move *m, err why);
void move_round_over(struct move *m);
/* On the loop: into the target; or nothing came of it. */
void move_insert(void *ctx);
void move_again(void *ctx);
/* move_out.c. Under the lock of the source: an item whose move is over is what it was, or doomed.
 */
void move_put_back(struct move *m, const struct moved *moved);

/* move_in.c. The next round: which items, their bodies, a place for them in the target. Blocks:
 * pool thread. */
MUST_CHECK err move_prepare(struct move *m);
/* The target's side of a write. */
void move_side_of_target(const struct move *m, struct queue_write_part *w);
/* The target's side is over: its items are there, or not. Under no lock. */
void move_deliver(struct move *m);

#endif
