/* timeline.h - rules of effect timeline: what events of the store say was superseded is noted in an
 * index by title and by time (timeline/timeline.h). Private to this folder.
 *
 * Model. The router asks the rule, samples by domain, and writes the entries of the timeline in the
 * store within its own update: they are there with the place it has come to, and need no item. For
 * the timeline in Redis it makes items as for any other effect: an item stays until Redis has its
 * entry (timeline_remote.c, docs/adr/0042). Entries of both are removed by age, so many at a time.
 *   Samplers are in memory: after a restart each domain has its burst again. A sampler remembers
 * the last verdicts, so that what several buckets tell, or an update that failed tells again, costs
 * one token. A replay has a sampler of its own: its events are older than those of now. */
#ifndef CHANGE_TIMELINE_H
#define CHANGE_TIMELINE_H

#include "loop/loop.h"
#include "rule/rule.h"
#include "timeline/remote.h"

enum {
    CHANGE_SAMPLER_DOMAINS_MAX = 1 << 16, /* that a sampler tells apart */
    CHANGE_SAMPLER_VERDICTS = 1024,       /* that it remembers, by their hash */
    CHANGE_EXPIRE_MS = 60 * 1000,         /* how often age is looked at, */
    CHANGE_EXPIRE_MORE_MS = 100,          /* and while there are more old entries */
    CHANGE_SAMPLERS = 2 * RULE_KEEPS,
};

struct change;
struct change_batch;
struct page_service;

/* What an event says. */
enum change_noting {
    NOTING_ENTRY,
    NOTING_NOTHING, /* nothing was superseded */
    NOTING_REFUSED, /* it cannot be kept: its domain is not configured, or it is no event of ours */
};
/* The title is borrowed from the event. Pure but for page, which has the numbers of domains. */
enum change_noting change_timeline_read(const struct page_service *page, struct rule_event *e,
                                        str domain, store_time at, struct timeline_where *w,
                                        struct timeline_entry *out);

/* False: it is not configured. */
bool change_timeline_domain(const struct page_service *page, str name, uint32_t *number);

/* An entry that was sampled, for the store. */
struct change_noted {
    unsigned index;              /* of its rule in the set */
    struct timeline_where where; /* the title is the batch's */
    struct timeline_entry entry;
};
/* Committer. *had: it was noted before. */
MUST_CHECK err change_timeline_note(struct engine_txn *t, const struct change_noted *n, bool *had);

struct change_sampler {
    struct timeline_sampler *sampler; /* NULL: not in use */
    uint32_t rule;                    /* its number */
    int64_t rate_ppm, burst;
    uint64_t replay_until;                      /* 0: of the events of now */
    uint64_t verdicts[CHANGE_SAMPLER_VERDICTS]; /* hash of an entry; its last bit: kept */
};
struct change_timelines {
    struct change_sampler samplers[CHANGE_SAMPLERS]; /* the router's */
    struct loop_job job;                             /* of expiry */
    bool expiring;
    mono expire_at;
    /* of the job */
    int64_t ttl_ns;
    uint32_t from; /* the domain where it goes on */
    bool more;
    unsigned expired;
    err why;
    /* of that in Redis */
    struct timeline_remote_expiry remote;
    struct timeline_named *named; /* its domains, while it goes */
    bool remote_expiring;
    mono remote_at;
};
/* NULL: no rule keeps one there. Under the lock. */
const struct rule *change_timeline_rule(const struct change *c, enum rule_keep keep);
/* Of the rule that keeps it, if there is one. Under the lock. */
void change_timeline_expired(struct change *c, enum rule_keep keep, uint64_t count);
/* All domains by number. Owner: caller, by free; the names are borrowed from page. */
struct timeline_named *change_timeline_names(const struct page_service *page, unsigned *count);
/* The samplers are those of the batch's rules. Loop, before the batch is read. */
void change_samplers_take(struct change *c, const struct change_batch *b);
/* Is that entry of the batch's rule kept? The thread that has the batch. */
bool change_sampler_keeps(struct change *c, const struct change_batch *b, uint32_t rule,
                          const struct timeline_where *w, const struct timeline_entry *e);
/* Begins to expire, if it is time to. Loop; under the lock. */
void change_timelines_kick(struct change *c);
/* Removes all that is old, and returns when that is on disk. Pool thread. */
void change_timelines_expire_all(struct change *c);
void change_timelines_fini(struct change *c);

/* ---- timeline_remote.c ---- */

/* As change_timelines_kick, of that in Redis. */
void change_remote_kick(struct change *c);

#endif
