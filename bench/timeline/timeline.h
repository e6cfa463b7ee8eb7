/* timeline.h - when revisions and renders of a title were superseded, for engines that cannot find
 * it out from the rows; and the sampling that keeps these indexes small on busy domains.
 *
 * Model. Two timelines, as the seed has them: of revisions (by title) and of renders (by title and
 * revision). An entry says: at this instant this revision (render) was superseded. The newest entry
 * that is at least grace_ttl old names what may be culled with one range delete: everything up to
 * and with it.
 *   Losing entries only delays culling. Entries of one instant do not overwrite each other (the
 * published implementation lost them), and the newest entry that was not applied is never forgotten
 * by age.
 *   Sampling: each domain may add so many entries a second (a token bucket); a quiet domain keeps
 * all of its entries, a busy one a steady rate. Source: RESTBase/StorageDesign "Index/Time-line
 * storage". */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include "base/tid.h"
#include "engine/engine.h"

enum timeline_kind { TIMELINE_REVISION, TIMELINE_RENDER };

struct timeline_where {
    enum timeline_kind kind;
    uint32_t domain;
    str title;
    uint64_t rev; /* of TIMELINE_RENDER: whose renders */
};

struct timeline_entry {
    store_time at;  /* when it was superseded */
    uint64_t rev;   /* what was superseded */
    struct tid tid; /* the render; zero in TIMELINE_REVISION */
};

enum { TIMELINE_TITLE_BYTES_MAX = 440, TIMELINE_FORGET_MAX = 1000 };

/* Adds an entry; the same again changes nothing. ERR_LIMIT: title too long. */
MUST_CHECK err timeline_add(struct engine_txn *t, const struct timeline_where *w,
                            const struct timeline_entry *e);
/* The newest entry with at <= not_after. ERR_NOT_FOUND. */
MUST_CHECK err timeline_find(struct engine_view *v, const struct timeline_where *w,
                             store_time not_after, struct timeline_entry *out);
/* What entry names was culled: it and all older ones go, at most TIMELINE_FORGET_MAX now. *count:
 * how many. */
MUST_CHECK err timeline_applied(struct engine_txn *t, const struct timeline_where *w,
                                const struct timeline_entry *entry, unsigned *count);
/* Entries with at < before go, but never the newest of them: it may not have been applied yet. */
MUST_CHECK err timeline_expire(struct engine_txn *t, const struct timeline_where *w,
                               store_time before, unsigned *count);
/* Entries of one kind in a domain. Walks them all: benchmarks and checks. */
MUST_CHECK err timeline_count(struct engine_view *v, enum timeline_kind kind, uint32_t domain,
                              uint64_t *out);

/* Pure. Thread: one at a time. */
struct timeline_sampler;
struct timeline_sampler_opts {
    double entries_per_s; /* of one domain; <= 0: every entry is kept */
    double burst;         /* entries at once after a pause; at least 1 */
    uint32_t domains_max; /* domain numbers from here on share the last bucket */
};
/* Owner: caller. Dies when out of memory. */
struct timeline_sampler *timeline_sampler_new(const struct timeline_sampler_opts *opts);
void timeline_sampler_free(struct timeline_sampler **sp);
/* Is the entry of this instant kept? Instants of one domain that go back count as no time
 * passed. */
bool timeline_sample(struct timeline_sampler *s, uint32_t domain, store_time at);

#endif
