/* world.h - a virtual machine for deterministic simulation: time, the loop (in the place of
 * src/loop), stores that delay, fail and lose their answers. Everything follows from one seed.
 * Single thread. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/rng.h"
#include "base/times.h"
#include "loop/loop.h"
#include "queue/store/store.h"

struct world {
    struct rng rng;
    int64_t now_ns;   /* real time */
    int64_t store_ns; /* store_time, which may jump ahead */
    struct clock clock;
    struct loop *loop;
};
void world_init(struct world *w, uint64_t seed);
void world_fini(struct world *w);
/* Runs everything that is due now; true: something ran. */
bool world_run_due(struct world *w);
/* Goes to the next event, or by at most ns. */
void world_advance(struct world *w, int64_t ns_max);
/* The next event's instant; INT64_MAX: none. */
int64_t world_next(const struct world *w);
void world_at(struct world *w, int64_t delay_ns, void (*fn)(void *ctx), void *ctx);

/* A store between the queue and a real one: writes take time, in order; some fail, some get no
 * answer. */
struct sim_faults {
    unsigned fail_permille, unknown_permille; /* of writes */
    int64_t delay_ns;                         /* a write takes up to so long */
    bool down;                                /* definite failures until lifted */
    bool crashed;                             /* nothing is written any more */
};
struct sim_store;
struct sim_store *sim_store_new(struct world *w, struct queue_store *inner, const char *name);
struct queue_store *sim_store_of(struct sim_store *s);
struct sim_faults *sim_store_faults(struct sim_store *s);
void sim_store_reopen(struct sim_store *s); /* as a new process finds it */
bool sim_store_broken(const struct sim_store *s);
unsigned sim_store_waiting(const struct sim_store *s);
void sim_store_free(struct sim_store **sp);

#endif
