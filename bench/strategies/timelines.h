/* timelines.h - the seed's timelines on Cassandra, all entries and sampled: see timelines.c. */
#ifndef STRATEGIES_TIMELINES_H
#define STRATEGIES_TIMELINES_H

#include "strategies/database.h"

/* argv as of main: POINT, DC and KEYSPACE from the first on. The exit status. */
int timelines_run(struct databases *ds, char **argv, store_time end);

#endif
