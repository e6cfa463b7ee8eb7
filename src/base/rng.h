/* rng.h - pseudo-random numbers from a seed (xoshiro256**, Blackman and Vigna 2018).
 *
 * Not for secrets: keys and tokens come from the kernel through loop/entropy.h. Thread: one at a
 * time. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* Any seed will do; equal seeds give equal sequences. */
void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
/* Uniform in [0, bound); bound > 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* Uniform in [0, 1). */
double rng_unit(struct rng *r);

#endif
