/* cluster_figures.c - the metrics of the client of Cassandra, and of the page store on it: set from
 * the loop, so that a scrape asks nobody. */
#include "server/cluster_figures.h"

#include "base/metrics.h"
#include "cassandra/store.h"
#include "cassandra/sweep.h"
#include "cql/cql.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 64 }; /* that are looked at */

static const struct {
    const char *what;
    size_t at;
} sweep_rows[] = {
#define ROW(name, field)                                                                           \
    {                                                                                              \
        name, offsetof(struct cassandra_sweep_figures, field)                                      \
    }
    ROW("ranges", ranges),         ROW("hours", hours),        ROW("titles", titles),
    ROW("failed", failed),         ROW("bytes", bytes_ranges), ROW("facts", facts),
    ROW("leases", leases),         ROW("lost", leases_lost),   ROW("unlisted", unlisted),
    ROW("unanswered", unanswered),
#undef ROW
};
enum { SWEEP_FIGURES = COUNT_OF(sweep_rows) };

struct cluster_figures {
    struct metric *ready, *up, *down, *requests[3], *failed, *refused, *timeouts, *retries,
        *speculated_won, *speculated_lost, *in_flight, *waiting, *sent, *received, *p99, *ahead,
        *skewed, *whole, *sweep[SWEEP_FIGURES], *oldest, *never, *filed, *unfiled;
};

struct cluster_figures *cluster_figures_new(struct metrics *m)
{
    static const char *const ways[] = { "execute", "batch", "text" }; /* enum cql_way */
    struct metric_family *nodes = metrics_row(m, METRIC_CLUSTER_NODES),
                         *requests = metrics_row(m, METRIC_CLUSTER_REQUESTS),
                         *problems = metrics_row(m, METRIC_CLUSTER_PROBLEMS),
                         *speculated = metrics_row(m, METRIC_CLUSTER_SPECULATED),
                         *bytes = metrics_row(m, METRIC_CLUSTER_BYTES),
                         *sweep = metrics_row(m, METRIC_CLUSTER_SWEEP),
                         *due = metrics_row(m, METRIC_CLUSTER_DUE);
    struct cluster_figures *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    *f = (struct cluster_figures){
        .ready = metrics_one(m, METRIC_CLUSTER_READY),
        .up = metric_of(nodes, "up"),
        .down = metric_of(nodes, "down"),
        .failed = metric_of(problems, "failed"),
        .refused = metric_of(problems, "refused"),
        .timeouts = metric_of(problems, "timeout"),
        .retries = metric_of(problems, "retried"),
        .speculated_won = metric_of(speculated, "second"),
        .speculated_lost = metric_of(speculated, "first"),
        .in_flight = metrics_one(m, METRIC_CLUSTER_IN_FLIGHT),
        .waiting = metrics_one(m, METRIC_CLUSTER_WAITING),
        .sent = metric_of(bytes, "sent"),
        .received = metric_of(bytes, "received"),
        .p99 = metrics_one(m, METRIC_CLUSTER_READ_P99_US),
        .ahead = metrics_one(m, METRIC_CLUSTER_CLOCK_AHEAD_MS),
        .skewed = metrics_one(m, METRIC_CLUSTER_CLOCK_SKEW),
        .whole = metrics_one(m, METRIC_CLUSTER_WHOLE),
        .oldest = metrics_one(m, METRIC_CLUSTER_SWEEP_OLDEST_S),
        .never = metrics_one(m, METRIC_CLUSTER_SWEEP_NEVER),
        .filed = metric_of(due, "filed"),
        .unfiled = metric_of(due, "unfiled"),
    };
    for (size_t i = 0; i < SWEEP_FIGURES; i++)
        f->sweep[i] = metric_of(sweep, sweep_rows[i].what);
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        f->requests[i] = metric_of(requests, ways[i]);
    return f;
}

void cluster_figures_free(struct cluster_figures **fp)
{
    free(*fp);
    *fp = NULL;
}

static void nodes_set(const struct cluster_figures *f, const struct cql *client)
{
    static const struct cql_node_stats none;
    struct cql_node_stats nodes[NODES_MAX] = { none };
    unsigned count = cql_nodes(client, nodes, NODES_MAX), up = 0, down = 0;
    for (unsigned i = 0; i < count && i < NODES_MAX; i++) {
        up += nodes[i].local && nodes[i].up;
        down += nodes[i].local && !nodes[i].up;
    }
    metric_set(f->up, up);
    metric_set(f->down, down);
}

static void sweep_set(const struct cluster_figures *f, const struct cassandra_store *store,
                      store_time now)
{
    struct cassandra_sweep_figures s;
    cassandra_store_swept(store, &s);
    for (size_t i = 0; i < SWEEP_FIGURES; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&s + sweep_rows[i].at, sizeof value);
        metric_set(f->sweep[i], (int64_t)value);
    }
    metric_set(f->filed, (int64_t)s.filed);
    metric_set(f->unfiled, (int64_t)s.unfiled);
    metric_set(f->never, s.never);
    metric_set(f->oldest, s.oldest_at.ns == 0 ? 0 : (now.ns - s.oldest_at.ns) / NS_PER_S);
}

void cluster_figures_set(const struct cluster_figures *f, const struct cql *client,
                         const struct cassandra_store *store, store_time now)
{
    struct cql_stats s;
    struct cassandra_store_state state;
    cql_stats(client, &s);
    cassandra_store_look(store, &state);
    nodes_set(f, client);
    for (size_t i = 0; i < COUNT_OF(f->requests); i++)
        metric_set(f->requests[i], (int64_t)s.requests[i]);
    metric_set(f->ready, state.ready);
    metric_set(f->failed, (int64_t)s.failed);
    metric_set(f->refused, (int64_t)s.refused);
    metric_set(f->timeouts, (int64_t)s.timeouts);
    metric_set(f->retries, (int64_t)s.retries);
    metric_set(f->speculated_won, (int64_t)s.speculated_won);
    metric_set(f->speculated_lost, (int64_t)(s.speculated - s.speculated_won));
    metric_set(f->in_flight, s.in_flight);
    metric_set(f->waiting, s.waiting);
    metric_set(f->sent, (int64_t)s.bytes_sent);
    metric_set(f->received, (int64_t)s.bytes_received);
    metric_set(f->p99, s.p99_ns / NS_PER_US);
    metric_set(f->ahead, state.ahead_ns / NS_PER_MS);
    metric_set(f->skewed, state.skewed);
    metric_set(f->whole, state.whole);
    sweep_set(f, store, now);
}
