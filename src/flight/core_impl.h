/* core_impl.h - what a flight and the table of all consist of; core.c has the invariants. Private
 * to core.c, effects.c and source.c. */
#ifndef FLIGHT_CORE_IMPL_H
#define FLIGHT_CORE_IMPL_H

#include "base/list.h"
#include "flight/core.h"
#include "flight/release.h"
#include "flight/source.h"
#include "loop/limiter.h"

enum { FLIGHT_VERSION_BYTES_MAX = 64 };
#define FLIGHT_MAGIC 0xf119417eu

enum flight_state {
    FLIGHT_AFTER,
    FLIGHT_QUEUED,
    FLIGHT_MAKING,
    FLIGHT_STOPPING,
    FLIGHT_ENDED,
    FLIGHT_STATES
};
struct flight {
    uint32_t magic;
    struct flight_core *core;
    struct source *source;
    enum flight_state state;
    struct flight *prev, *next; /* all */
    struct limiter_pass pass;   /* from QUEUED until it ends, where there is a limiter */
    struct list admitted;       /* QUEUED, and its turn has come; else alone */
    struct flight *before, *after;
    struct flight *todo_next;
    bool in_todo;
    unsigned todo;         /* bits of enum flight_do */
    struct heap_node node; /* by deadline, while MAKING */
    mono born, began, deadline;
    struct flight_maker maker;
    struct waiters waiters;
    struct share_call *share; /* takes part across servers; loop thread sets it */
    uint64_t fence;
    enum flight_detail made;   /* LED: here; REMOTE: elsewhere; DEGRADED: here, see flight_alone */
    enum flight_detail detail; /* of its waiters, when not how they came */
    char version[FLIGHT_VERSION_BYTES_MAX + 1];
    bool current; /* in the map */
    size_t key_bytes;
    char key[];
};

struct flight_core {
    struct flight_opts opts;
    void *owner;
    struct map *by_key;
    struct flight *all;
    struct map *sources;
    void (*turn_came)(struct limiter_pass *p, bool in);
    struct list admitted; /* in order of their turns */
    struct flight *todo_first, **todo_end;
    struct heap deadlines, makes; /* of waiters, of flights MAKING */
    struct flight_errors errors;
    struct outcomes ready, spent;
    /* the largest that ever held, of flights_max and so on: for checks */
    unsigned makes_peak, flights_peak, source_peak, waiters_peak, waiters_all_peak;
    struct flight_stats stats;
    bool drained;
};

#endif
