/* times.h - three kinds of time that do not mix, and the interface through which time is read.
 *
 * mono: real elapsed time; sockets, request deadlines, drain. wall: what a human sees. store_time:
 * leases, schedules, expiry, culls, tids; never goes back, and the only one that test hooks move
 * (docs/architecture.md, "Time"). All count nanoseconds; wall and store_time since
 * 1970-01-01T00:00:00Z. A duration is int64_t with its unit in the name. Nobody below src/loop
 * reads a kernel clock: a struct clock is handed down. */
#ifndef BASE_TIMES_H
#define BASE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mono {
    int64_t ns;
} mono;
typedef struct wall {
    int64_t ns;
} wall;
typedef struct store_time {
    int64_t ns;
} store_time;

#define NS_PER_US ((int64_t)1000)
#define NS_PER_MS ((int64_t)1000000)
#define NS_PER_S ((int64_t)1000000000)
#define STORE_TIME_NEVER ((store_time){ .ns = INT64_MAX })
#define STORE_TIME_ZERO ((store_time){ .ns = 0 })
#define DURATION_NEVER INT64_MAX /* "never" as a duration, whatever its unit */

/* t + ns, saturating; NEVER stays NEVER and DURATION_NEVER gives NEVER. */
store_time store_time_add(store_time t, int64_t ns);
mono mono_add_ms(mono t, int64_t ms);
static inline bool store_time_before(store_time a, store_time b)
{
    return a.ns < b.ns;
}
static inline store_time store_time_max(store_time a, store_time b)
{
    return a.ns > b.ns ? a : b;
}
static inline store_time store_time_min(store_time a, store_time b)
{
    return a.ns < b.ns ? a : b;
}

/* Where time comes from. Thread: every function from any thread. */
struct clock {
    store_time (*store_now)(struct clock *c);
    mono (*mono_now)(struct clock *c);
    wall (*wall_now)(struct clock *c);
};
static inline store_time clock_store(struct clock *c)
{
    return c->store_now(c);
}
static inline mono clock_mono(struct clock *c)
{
    return c->mono_now(c);
}
static inline wall clock_wall(struct clock *c)
{
    return c->wall_now(c);
}

#endif
