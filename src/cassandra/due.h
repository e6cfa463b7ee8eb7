/* due.h - which titles have something due in which hour: rows of the table `due`.
 *
 * Model. A row says that upkeep has something to do in a title at an instant: a render runs out, or
 * a trace is to be forgotten. It is filed under the hour of that instant, one of DUE_SHARDS, and
 * the data centre, beside the write that made it so: nobody waits for it, one copy is enough, and
 * what fails is left to the sweep. Rows end by TTL, DUE_KEPT_S after their hour. A title is filed
 * when its earliest due instant moves forward; a cull files the next one. With a due_sample below 1
 * any write files it, with that probability: what is rendered often is filed soon all the same.
 * Source: the sampled timelines of RESTBase/StorageDesign. Private to this folder. Thread: any. */
#ifndef CASSANDRA_DUE_H
#define CASSANDRA_DUE_H

#include "cassandra/lists.h"
#include "cassandra/pages_impl.h"

enum {
    DUE_SHARDS = 16,
    DUE_HOUR_S = 3600,
    DUE_KEPT_S = 7 * 86400,
    DUE_AHEAD_S = 400 * 86400, /* what is due later is left to the sweep */
    DUE_FILING_MAX = 256,      /* under way at a time; one more is left to the sweep */
    DUE_ACTS_TOLD = 100,       /* so many facts more of a title that are no put: it is filed */
};

static inline int32_t due_hour(store_time at)
{
    return (int32_t)(at.ns / (DUE_HOUR_S * NS_PER_S));
}
/* When upkeep of a title has something to do next, by these facts; NEVER. spared: so many puts more
 * whose bytes are gone. */
store_time dues_next(const struct title_facts *in, const struct title_memory *m, size_t spared);
/* Files a title. */
void dues_file(struct cassandra_pages *p, const struct titles_key *key, store_time at);
/* A decision was appended: files its title if that made something due. */
void dues_appended(struct work *w);

#endif
