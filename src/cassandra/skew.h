/* skew.h - is this server's clock where those of the cluster are?
 *
 * Facts carry the time of the server that wrote them. A server whose clock is far off would put
 * them where no other server expects them. So each server compares its clock with two nodes, now
 * and then. A node's answer is off by at most half of the time that the exchange took; that much is
 * allowed for.
 * Thread: the client's loop. */
#ifndef CASSANDRA_SKEW_H
#define CASSANDRA_SKEW_H

#include "base/err.h"
#include "base/times.h"

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

#endif
