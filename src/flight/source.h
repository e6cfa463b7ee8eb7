/* source.h - whose turn it is to have a flight begun. Private to core.c and effects.c.
 *
 * Flights of one source (a wiki, a list's generator) are begun in order of joining, at most
 * makes_max of them at once; sources that have one to begin and room for it take turns, so that one
 * that hangs delays nobody else. Pure. */
#ifndef FLIGHT_SOURCE_H
#define FLIGHT_SOURCE_H

#include "base/list.h"

struct flight;
struct map;

struct source {
    const void *of; /* flight_maker.source */
    unsigned flights, making;
    struct list queue; /* flights QUEUED, in order of joining */
    struct list turn;  /* alone: not in turn */
};
struct sources {
    struct map *by_of;
    struct list turns; /* sources that have a flight to begin, and room */
    unsigned makes_max;
};

void sources_init(struct sources *all, unsigned makes_max);
void sources_fini(struct sources *all); /* no flight is left */

/* How many flights it has. */
unsigned source_flights(const struct sources *all, const void *of);
/* One flight more of it, until source_leave. */
struct source *source_join(struct sources *all, const void *of);
void source_leave(struct sources *all, struct source *s);

/* f, of s, waits for its turn; no longer. */
void source_enqueue(struct sources *all, struct source *s, struct flight *f);
void source_dequeue(struct source *s, struct flight *f);
/* The flight to begin next; NULL: none may. */
struct flight *sources_next(const struct sources *all);
/* What sources_next gave is being made, and leaves the queue; has been made. */
void source_begun(struct sources *all, struct source *s, struct flight *f);
void source_ended(struct sources *all, struct source *s);

#endif
