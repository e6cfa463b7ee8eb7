/* source.h - how many flights each source has. Private to core.c and effects.c.
 *
 * A source is who makes values: a wiki, a list's generator. Its flights take turns at the limiter
 * (loop/limiter.h), where there is one; their keys are bounded here, also where there is none.
 * Pure. */
#ifndef FLIGHT_SOURCE_H
#define FLIGHT_SOURCE_H

struct limiter_key;
struct map;

struct source {
    const struct limiter_key *of; /* flight_maker.source */
    unsigned flights;
};

/* sources: a map of the caller's, by name. */
unsigned source_flights(const struct map *sources, const struct limiter_key *of);
/* One flight more of it, until source_leave. */
struct source *source_join(struct map *sources, const struct limiter_key *of);
void source_leave(struct map *sources, struct source *s);

#endif
