/* cluster_figures.h - the metrics of the cluster that keeps the pages. Private to server.
 * Thread: the loop's. */
#ifndef SERVER_CLUSTER_FIGURES_H
#define SERVER_CLUSTER_FIGURES_H

#include "base/times.h"

struct cassandra_store;
struct cql;
struct metrics;
struct cluster_figures;
/* metrics outlives it. Owner: caller. */
struct cluster_figures *cluster_figures_new(struct metrics *m);
void cluster_figures_free(struct cluster_figures **fp);
void cluster_figures_set(const struct cluster_figures *f, const struct cql *client,
                         const struct cassandra_store *store, store_time now);

#endif
