/* move.h - items on their way to another queue. Private to move*.c and requeue.c; move.c says how.
 *
 * The source is the queue that the items leave, the target the one they go to. A move works in
 * rounds, of so many items as one write takes. */
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

/* A queue.requeue, which waits for its moves. */
struct move_order {
    struct waiter waiter; /* its good: items that were moved */
    unsigned open;        /* items that may still end in either queue; under the source's lock */
};

struct move {
    struct list link; /* part.dying, part.moves, part.later */
    enum move_stage stage;
    mono again_at;
    struct part *part;
    uint64_t generation;
    struct queue_change *change; /* a client's order that waits for it; NULL: none does */
    struct move_order *order;    /* NULL: there is none, or it was told already */
    bool requeues;               /* of queue.requeue: it ends with the first round that fails */
    bool running;
    bool doomed;      /* the items of the round are, on disk */
    bool told;        /* the operator knows that it cannot go on */
    bool unsure;      /* a write has an unknown outcome, or the items stand in both queues */
    unsigned tries;   /* that failed, one after the other */
    const char *what; /* why the last one failed */
    struct moved *items;
    unsigned count, size; /* items left; room. count changes under the source's lock */
    unsigned round;       /* the first so many of the items are moved now */
    unsigned new_count;   /* of these: not skipped */
    unsigned returned;    /* of these: given back */
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
    err outcome;         /* what it ended with */
    bool removed;        /* from the source */
    struct list by_part; /* part.movers */
    struct batch *batch;
    bool across, placed;
    struct queue_write write;
    struct queue_op *ops;
    unsigned ops_count;
    struct arena arena;
    struct packing *packing; /* of the round that is being read; in the arena */
    unsigned passes;         /* of it: rounds begun */
    struct store_job job;
    err why;
};

/* A move from p to queue to, without items; move_begin begins it. c: the client's order that waits
 * for it, or NULL. The caller adds MOVE_ITEMS_MAX items at most. Under the lock of the source. */
struct move *move_new(struct part *p, struct queue_change *c, str to);
void move_add(struct move *m, struct qitem *it);

/* move.c. Under the lock of the source: */
bool move_is_current(const struct move *m); /* its items are in memory, and its queue goes on */
void move_end(struct move *m, err why);     /* an error: the items it has are put back */
/* The items of the round are in the target, and their removal from the source failed. */
void move_stands_in_both(struct move *m, err why);
void move_later(struct move *m);           /* tried again after a while */
void move_failed(struct move *m, err why); /* counts a try, and tells the operator of many */
void move_round_over(struct move *m);      /* the items of the round are in the target alone */
/* On the loop: writes into the target; takes up a round of which nothing came. */
void move_insert(void *ctx);
void move_again(void *ctx);
/* move_out.c. Under the lock of the source: the item waits in memory again, as before or doomed. */
void move_put_back(struct move *m, const struct moved *moved);

/* move_in.c. A step: chooses the items of the next round, reads their bodies and finds a place for
 * them in the target; why says what came of it. */
bool move_prepare(struct store_job *j);
/* The target's side of a write. */
void move_side_of_target(const struct move *m, struct queue_write_part *w);
/* Takes what became of the write into the target's memory. Under no lock. */
void move_deliver(struct move *m);

#endif
