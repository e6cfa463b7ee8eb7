/* place.h - which partition a produce request goes to: opportunistic distribution (ADR 19), decided
 * here alone.
 *
 * Rule. A request goes whole to the eligible partition with the least load (ready + scheduled +
 * placing; ties: the lowest number). Requests are placed in order of arrival, and what one adds
 * counts for the next at once, also within a batch. Eligible is an open partition on a store that
 * is not suspect, not in error and not left out by
 *   in flight   as many requests on it as PLACE_IN_FLIGHT_MIN and 3/2 of the mean of the eligible
 *               stores, as the round began; never all of them
 *   slow        writes take over PLACE_SLOW_FACTOR times the median of the eligible stores and over
 *               PLACE_SLOW_NS; not when fewer than half would be left (better slow than crowded)
 * Both compare stores with each other, so with one store they never leave anything out. Source:
 * simulation of least-loaded under degradation; averages after Finagle, without its peaks; the
 * panic rule after Envoy.
 *
 * The load of partitions is kept in one tournament tree a store: O(log n) a change, the best of a
 * store at once. A decision depends on what it saw of each store and nothing else, so a recorded
 * one can be decided again. Pure: no clock, no lock. Thread: one at a time. Private to queue. */
#ifndef QUEUE_ORDER_PLACE_H
#define QUEUE_ORDER_PLACE_H

#include "base/err.h"
#include "base/times.h"

enum {
    PLACE_STORES_MAX = 64,
    PLACE_IN_FLIGHT_MIN = 4,
    PLACE_SLOW_FACTOR = 5,
    PLACE_SLOW_NS = 10 * 1000000,
    PLACE_DECISIONS_MAX = 128, /* kept of a queue */
    PLACE_LOADS_SHOWN = 16,    /* partitions a kept decision shows the loads of */
};
#define PLACE_NONE UINT32_MAX

enum place_status { PLACE_OK, PLACE_SUSPECT, PLACE_ERROR };
const char *place_status_name(enum place_status s);

/* What a decision sees of a store. */
struct place_store {
    enum place_status status;
    uint32_t in_flight; /* requests placed there and not durable, as the round began */
    int64_t write_ns;   /* average of its writes */
    uint32_t partition; /* its least loaded open one, PLACE_NONE: none */
    uint64_t load;
};
/* The decision: the store whose best partition is taken, or PLACE_NONE. */
uint32_t place_pick(const struct place_store *stores, unsigned count);

/* The partitions of a queue. Owner: caller. Dies when out of memory. */
struct place;
struct place *place_new(unsigned stores_count);
void place_free(struct place **pp);
/* Adds a partition, numbers ascending from 0, or moves it to another store. It is closed. */
void place_put(struct place *p, uint32_t partition, uint32_t store);
void place_open(struct place *p, uint32_t partition, bool open);
void place_load(struct place *p, uint32_t partition, uint64_t load);
uint64_t place_load_of(const struct place *p, uint32_t partition);
/* Fills partition and load of each store. */
void place_look(const struct place *p, struct place_store *stores);

/* A decision as it was made. */
struct place_decision {
    uint64_t seq; /* arrival number of the request */
    store_time at;
    uint32_t items, store, partition; /* PLACE_NONE: parked */
    bool fixed;                       /* by its order key: no choice */
    struct place_store *stores;
    uint32_t loads_count;
    uint64_t loads[PLACE_LOADS_SHOWN];
};
void place_record(struct place *p,
                  const struct place_decision *d); /* stores and loads are copied */
unsigned place_decisions(const struct place *p);
/* Newest first: index 0 up. Borrowed until the next record. */
const struct place_decision *place_decision_at(const struct place *p, unsigned index);
/* Decides again from what was recorded: is it the same? */
bool place_replays(const struct place *p, const struct place_decision *d);

#endif
