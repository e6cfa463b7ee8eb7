/* rng.c - A small pseudo-random generator for jitter and simulations; keys and tokens come from
 * loop/entropy.h. Invariant: the same seed gives the same sequence. */
#include "base/rng.h"

#include "base/check.h"

static uint64_t rotate_left(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

/* splitmix64: spreads a poor seed over the whole state, and never gives four zeros in a row. */
static uint64_t seed_next(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ull;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void rng_init(struct rng *r, uint64_t seed)
{
    for (size_t i = 0; i < COUNT_OF(r->s); i++)
        r->s[i] = seed_next(&seed);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t result = rotate_left(r->s[1] * 5, 7) * 9;
    uint64_t shifted = r->s[1] << 17;
    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= shifted;
    r->s[3] = rotate_left(r->s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    INVARIANT(bound > 0);
    uint64_t unfair = (0 - bound) % bound; /* this many values at the bottom would count twice */
    uint64_t v = rng_next(r);
    while (v < unfair)
        v = rng_next(r);
    return v % bound;
}

double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1.0p-53;
}
