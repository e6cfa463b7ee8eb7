/* limiter_world.h - a limiter driven by hand: a clock that is a number, and guests with passes. For
 * tests. One world at a time. */
#ifndef TEST_LIMITER_WORLD_H
#define TEST_LIMITER_WORLD_H

#include "loop/limiter.h"

enum { GUESTS = 64 };

struct guest {
    struct limiter_pass pass;
    const struct limiter_key *key;
    uint64_t arrived;
    unsigned goes, place; /* place: the how manieth to be let in; 0: not */
    bool late;
};
struct world {
    struct clock clock;
    int64_t now_ns;
    struct limiter *limiter;
    struct guest guests[GUESTS];
    unsigned count, let_in;
    uint64_t arrivals;
};

struct world *world_new(void);
/* All leave. */
void world_free(struct world *w);
struct limiter_figures figures(const struct world *w, enum limiter_level level,
                               const struct limiter_key *key);
/* g is OUT; its pass has flags and a deadline. */
enum limiter_state guest_enter(struct world *w, struct guest *g, const struct limiter_key *key);

#endif
