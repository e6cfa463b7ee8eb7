/* trace.h - what happens to some titles within some days: the same for every strategy.
 *
 * Titles are drawn by Zipf's law. A creation is a new revision or, three times of ten, a new render
 * of the latest one. Of the later ones of a title
 *   6 % come late: a newer one was made five seconds after it and came at once, while it came
 *       minutes later, and one in five of them up to 36 hours later; one lookup asks for it within
 *       grace_ttl of its arrival
 *   6 % come with another one at once, at two servers: two revisions, or two renders of one
 * For each creation there are `looks` lookups of the latest at any time; an editor with probability
 * 0.9, who looks up the latest html and its data-parsoid, and both again by name when done (half
 * an hour later as a rule, one in five at any time within grace_ttl; four of nine came shortly
 * before this creation); and `olds` times somebody who looks up one of the last revisions
 * by number, has it rendered when it is gone, and looks it up by name within grace_ttl.
 * No draw depends on an answer. Pure: the same seed gives the same trace. */
#ifndef STRATEGIES_TRACE_H
#define STRATEGIES_TRACE_H

#include "base/rng.h"
#include "title/stored.h"

enum event_kind {
    EVENT_PUT,
    EVENT_RACE,   /* a put, and a second one at once */
    EVENT_LATEST, /* a lookup */
    EVENT_OPEN,   /* an editor comes: the answer is kept in a slot */
    EVENT_CLOSE,  /* by the name in the slot */
    EVENT_OLD,    /* a lookup by revision, into a slot */
    EVENT_BACK,   /* by the name in the slot */
    EVENT_KNOWN,  /* by the name of a late put */
};
struct made {
    struct page_name name, previous;
};
struct event {
    store_time at;
    unsigned order; /* among those of one instant */
    enum event_kind kind;
    unsigned title, slot;
    struct made made, second; /* OLD: made.name.rev; KNOWN: made.name */
    double draw;              /* of the range delete */
};
struct trace_opts {
    uint64_t seed;
    unsigned titles, creations;
    store_time begin, end;
    int64_t ttl_ns;
    unsigned looks;
    double olds; /* below 1: a probability */
};
struct trace {
    struct event *events; /* in order */
    unsigned count, room, slots;
    unsigned puts, late, races;
    struct trace_opts opts;
    struct rng rng;
};
void trace_make(struct trace *t, const struct trace_opts *o);
void trace_fini(struct trace *t);

#endif
