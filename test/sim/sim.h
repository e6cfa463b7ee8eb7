/* sim.h - the queue in a simulated world: what is simulated, and what its clients know. Private to
 * test/sim. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "../unit/bucket/engine_mem.h"
#include "queue/order/flush.h"
#include "queue/queue.h"
#include "queue/store/open.h"
#include "record.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STORES = 3,
    PARTS = 4,
    ITEMS_MAX = 4000,
    ASKS_MAX = 64,
    BATCH_MAX = 6,
    KEYS = 3,
    MAX_ATTEMPTS = 4
};
/* REPLY: room for one reply of items, not for all that a lease may ask for. */
enum { BODY_LARGE = 1500000, ARENA_SMALL = 1 << 20, ARENA_LARGE = 20 << 20, ARENA_REPLY = 6 << 20 };
#define LEASE_NS (10 * NS_PER_S)
#define SLOW_NS (30 * NS_PER_MS) /* of one write; those that wait for each other end in time */

enum told { TOLD_NOTHING, TOLD_OK, TOLD_FAILED, TOLD_UNKNOWN };
struct thing { /* one item as its clients know it */
    enum told produced, completed;
    unsigned request; /* number of its produce */
    int key;          /* order key, -1: none */
    store_time not_before;
    unsigned grants;          /* delivered */
    bool held;                /* by a client, as far as that knows */
    bool asked, asked_before; /* an end of it was asked for and the answer is not known */
    bool dies;                /* it was asked into the dead queue */
    bool deleted;             /* its end was asked for by an administrator */
    struct ksuid place;       /* in its partition; NIL: nobody was told */
    store_time produced_at;
    store_time deadline;
    struct ksuid id;
    uint32_t partition;
    uint64_t token;
    unsigned seen; /* in the final count */
};

struct ask {
    struct sim *sim;
    struct arena arena;
    bool used, answered;
    unsigned first, count; /* things */
    unsigned things[BATCH_MAX];
    unsigned life;
    uint64_t op; /* its number in the record */
    union {
        struct queue_produce produce;
        struct queue_lease_request lease;
        struct queue_change change;
    } u;
    struct queue_item_new items[BATCH_MAX];
    struct queue_change_item changes[BATCH_MAX];
    char ids[BATCH_MAX][KSUID_TEXT_BYTES + 1];
    int kind; /* enum req_kind */
};

/* What differs from SIM_PLAIN: */
enum sim_mode {
    SIM_PLAIN,
    SIM_WIDE,  /* order keys for most; short lives; administrators delete */
    SIM_LARGE, /* bodies of all sizes, so that bytes decide how much goes at once */
    SIM_SLOW   /* stores delay and never fail; leases wait about as long as a write takes */
};
struct sim {
    struct world world;
    uint64_t seed;
    enum sim_mode mode;
    bool has_dead; /* what dies goes to the dead queue */
    int64_t expire_ns;
    struct engine *catalogue, *engines[STORES];
    struct queue_store *inner[STORES];
    struct sim_store *stores[STORES];
    struct queue_store *outer[STORES];
    struct queues *queues;
    struct queue *q, *dead;
    struct thing things[ITEMS_MAX];
    unsigned things_count, requests, life;
    struct ask asks[ASKS_MAX];
    uint64_t grants, oks, unknowns, failures, crashes;
    struct record *record; /* NULL: none */
};

#define CHECK(s, cond)                                                                             \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "seed %llu: %s:%d: %s\n", (unsigned long long)(s)->seed, __FILE__,     \
                    __LINE__, #cond);                                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

store_time sim_now(const struct sim *s);
uint64_t sim_pick(struct sim *s, uint64_t n);
unsigned sim_thing(struct sim *s, const struct queue_item *it); /* the number its body says */

/* sim_open.c: a world, its stores and its queues; s has its seed. */
void sim_open(struct sim *s);
void sim_run(struct sim *s, int64_t ns);
void sim_restart(struct sim *s, bool killed);
void sim_close(struct sim *s);
/* sim_end.c: everything is taken out and counted. */
void sim_count_all(struct sim *s);
/* Its life may have ended. A retry that put it off may have made it longer. */
bool sim_may_be_over(const struct sim *s, const struct thing *t);

#endif
