/* scratch.h - a fresh directory for a test, removed with all in it at the end; and an engine inside
 * one. */
#ifndef UNIT_SCRATCH_H
#define UNIT_SCRATCH_H

#include "engine/engine.h"

struct scratch {
    char dir[64];
};
/* Dies when it cannot. */
void scratch_make(struct scratch *s);
void scratch_remove(struct scratch *s);

/* A clock that stands where it is put. */
struct still_clock {
    struct clock clock;
    int64_t ns;
};
void still_clock_init(struct still_clock *c, int64_t ns);

/* Opens and starts an engine in the scratch directory; fails the test with the note otherwise. */
struct engine *scratch_engine(const struct scratch *s, struct clock *clock);

#endif
