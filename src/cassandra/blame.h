/* blame.h - what a failure of the cluster is to the caller of a store: ERR_UNAVAILABLE, with a note
 * that tells whether something was written, and names no node. The log gets the error, the node and
 * the consistency, in at most one line a second. Thread: any. */
#ifndef CASSANDRA_BLAME_H
#define CASSANDRA_BLAME_H

#include "base/err.h"
#include "base/log.h"
#include "base/times.h"
#include "store/store.h"

#include <stdatomic.h>

#define BLAME_AWAY_TEXT "The cluster that keeps this does not answer."

struct blame {
    struct log *log; /* NULL: silent */
    struct clock *clock;
    _Atomic int64_t told_ns; /* mono: when the log was told last */
};
/* The error is the cluster's. Not so: a limit, damage, the end of this server, what is not there,
 * and the time of a call that was canceled. */
bool blame_is_due(err why, const struct store_call *call);
/* cause: of what failed. unknown: of a write that may have happened, or may happen yet. of: the
 * title or the key. told: what the caller is told; may be NULL. */
err blame_cluster(struct blame *b, err why, const struct err_note *cause, bool unknown, str of,
                  struct err_note *told);
/* The log's part alone. */
void blame_log(struct blame *b, err why, const struct err_note *cause, str of);

#endif
