/* skew.h - is this server's clock where those of the cluster are?
 *
 * Facts carry the time of the server that wrote them. A server whose clock is far off would put
 * them where no other server expects them. So each server compares its clock with two nodes, now
 * and then. A node's answer is off by at most half of the time that the exchange took; that much is
 * allowed for.
 *
 * Between two comparisons the machine's clock may be set. Then store_time moves against the time
 * that has really passed, and a guard shows that at once.
 * Thread: the client's loop; skew_guard_holds: any. */
#ifndef CASSANDRA_SKEW_H
#define CASSANDRA_SKEW_H

#include "base/err.h"
#include "base/times.h"

#include <stdatomic.h>

struct cql;
struct skew_opts {
    struct cql *client;
    struct clock *clock;
    mono deadline;
};
/* ahead_ns: by how much this clock is ahead of the node that is nearest to it; below 0: behind. So
 * one node whose clock is wrong stops nobody. why: of the last that failed, when none answered. */
typedef void skew_done_fn(void *ctx, err why, int64_t ahead_ns);
void skew_look(const struct skew_opts *o, skew_done_fn *done, void *ctx);

/* The distance of store_time from the elapsed time at the last comparison. Zeros: there was none.
 */
struct skew_guard {
    int64_t moved_ns_max;
    atomic_bool known;
    atomic_int_least64_t apart_ns;
};
/* Taken before the request of a comparison is sent: a clock that is set while it runs counts. */
int64_t skew_apart(struct clock *c);
void skew_guard_set(struct skew_guard *g, int64_t apart_ns);
/* False: since then store_time moved by more than moved_ns_max against the elapsed time. */
bool skew_guard_holds(const struct skew_guard *g, struct clock *c);

#endif
