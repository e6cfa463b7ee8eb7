/* sweep.h - upkeep of all titles on Cassandra, by any number of servers: it finds the titles that
 * have something due, and culls each (cassandra_pages_cull).
 *
 * Model. Two jobs, each of many parts. A server works on one part of each at a time, for which it
 * takes a lease.
 *   DUE    a part is a shard of the table `due` (due.h). Hours that are past are read, one behind
 *          the other; the lease's row keeps which is next.
 *   SWEEP  a part is a range of the ring. Its titles are read in the order of their tokens; the row
 *          keeps how far it came, so that who takes over goes on there. Each range is gone through
 *          once in `period`: what was never filed, or was lost, is found by then.
 *   A lease is a row of the table `lease`, which conditional writes alone change. It ends by itself
 * when its holder is gone. Each taking has an epoch of its own, and each further write of the
 * holder asks for that. Who lost a lease finds out at its next write, and does no harm until then:
 * culls of one title are safe on any number of servers at once. It is driven by ticks. At most
 * titles_per_s titles are culled a second, SWEEP_CULLS_MAX of a job at a time. Leases are of one
 * data centre (LOCAL_SERIAL). Why so: docs/adr/0048. Thread: the client's loop, unless said. */
#ifndef CASSANDRA_SWEEP_H
#define CASSANDRA_SWEEP_H

#include "cassandra/pages.h"

enum {
    SWEEP_RANGES_MAX = 1024,
    SWEEP_CULLS_MAX = 4,
    SWEEP_PAGE_TITLES = 32, /* read at a time */
};

struct cassandra_sweep;
struct cassandra_sweep_opts {
    struct cassandra_pages *pages; /* has a number (srv) by the first tick; outlives it */
    struct titles *titles;         /* of pages */
    struct clock *clock;
    struct home *home; /* the client's loop, where culls end; NULL: culls end there anyway, because
                          pages has no pool */
    uint32_t srv;
    uint64_t seed;
    const char *dc; /* as of pages; NULL: "" */
    /* [] is the default where 0 is given. */
    unsigned ranges;       /* of the ring [256]; the same on all servers */
    int64_t period_ns;     /* of a sweep [24 h] */
    int64_t lease_ns;      /* [60 s] */
    int64_t look_ns;       /* between looks for work that there was none of [60 s] */
    unsigned titles_per_s; /* [100] */
};
struct cassandra_sweep *cassandra_sweep_new(const struct cassandra_sweep_opts *o);
/* Goes on with what is due; once a second or more often. */
void cassandra_sweep_tick(struct cassandra_sweep *s);
/* Begins nothing new, and gives leases back. It ends by ticks, or by what is under way. */
void cassandra_sweep_close(struct cassandra_sweep *s);
bool cassandra_sweep_is_closed(const struct cassandra_sweep *s); /* nothing is under way */
void cassandra_sweep_free(struct cassandra_sweep **sp); /* it is closed, or the client stopped */

struct cassandra_sweep_figures {
    uint64_t ranges, hours;       /* gone through to their end */
    uint64_t titles, failed;      /* culled; that could not be */
    uint64_t bytes_ranges, facts; /* deleted */
    uint64_t unlisted;            /* titles of which nothing is left */
    uint64_t leases, leases_lost; /* taken; held no more, as a write of theirs showed */
    uint64_t unanswered;          /* reads and writes of its own that failed */
    uint64_t filed, unfiled;      /* rows of `due`: by all of this client */
    /* of the ring, as last looked at: when the range was gone through that waits for longest, of
     * those that ever were (ZERO: none was); how many never were */
    store_time oldest_at;
    unsigned never;
};
void cassandra_sweep_figures(const struct cassandra_sweep *s,
                             struct cassandra_sweep_figures *out); /* any thread */

#endif
