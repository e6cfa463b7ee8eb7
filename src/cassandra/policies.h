/* policies.h - the policies of page buckets, as all servers of a cluster have them.
 *
 * Model. What a render's fate is follows from the policies of its bucket as they came into force
 * (title/derive.h). All servers must know the same ones, each before its instant. So they are cells
 * of the catalogue's scope "policies" (catalog.h), one for each that ever came: bucket and number
 * -> policy, and from when. None is ever changed or deleted. The first of a bucket is in force from
 * the beginning; a later one comes into force POLICIES_AHEAD_NS after it was written at the
 * soonest, and behind the one before it. Servers look each second, so all know it by then.
 *   The file of a server says the policies too. They must be the last ones of the catalogue, or it
 * does not start: policies_check. `palimpsest policy apply` writes those of a file: policies_apply.
 *   Those of buckets of values stand there, too, by the names of their tables: ".key_value.NAME",
 * ".key_rev_value.NAME". Their ttl is that of values, and the times of pages are 0. They are
 * compared alone: what a bucket keeps its schema says, which is made of the options once.
 * Thread: any. */
#ifndef CASSANDRA_POLICIES_H
#define CASSANDRA_POLICIES_H

#include "cassandra/catalog.h"

#include "base/arena.h"
#include "title/derive.h"

#define POLICIES_SCOPE "policies"
#define POLICIES_AHEAD_NS (60 * NS_PER_S)

enum {
    POLICIES_AHEAD_SKEWS = 20,     /* so many times max_skew ahead, when that is more */
    POLICIES_OF_BUCKET_MAX = 1000, /* that ever came */
    POLICIES_BUCKETS_MAX = 65,     /* as many as a configuration has, and that of stashes */
    POLICIES_STALE_MS = 30000,     /* who has not looked for so long knows them no more */
};

/* Those of one bucket, in order. None: count 0. ERR_CORRUPT: a cell cannot be read, or one is
 * missing; ERR_LIMIT: the arena is full. */
struct policies {
    const struct title_plan *plans;
    size_t count;
};
MUST_CHECK err policies_of(const struct catalog_rows *rows, str bucket, struct arena *a,
                           struct policies *out, struct err_note *note);
/* The one in force at an instant; NULL: there is none. */
const struct title_plan *policies_at(const struct policies *p, store_time now);
/* ERR_CONFLICT: a bucket's last policy is another one, or there is none. The note says which
 * bucket, and what to do. */
MUST_CHECK err policies_check(const struct catalog_rows *rows,
                              const struct page_bucket_opts *buckets, unsigned count,
                              struct err_note *note);
/* In words: "app_ttl, grace_ttl 1d, ..."; the options that its kind looks at. */
struct buf;
void policies_print(const char *bucket, const struct page_policy *p, struct buf *out);
/* ERR_BAD with a note: on a store of many servers it cannot promise what pins need. */
MUST_CHECK err policies_fit(const struct page_bucket_opts *bucket, int64_t max_skew_ns,
                            struct err_note *note);

/* Writes what is other in buckets than in the catalogue, all at once. */
struct policies_applied {
    str bucket;            /* of in */
    struct title_plan was; /* plan.number 0: there was none */
    struct title_plan now;
};
struct policies_apply {
    struct store_call call;
    /* in; borrowed until done */
    struct catalog *catalog;
    const struct page_bucket_opts *buckets; /* policies_fit */
    unsigned count;                         /* POLICIES_BUCKETS_MAX at most */
    store_time now;                         /* by a clock that is right */
    int64_t max_skew_ns;
    bool dry; /* say what would be, and write nothing */
    struct arena *arena;
    /* out */
    struct policies_applied applied[POLICIES_BUCKETS_MAX];
    unsigned applied_count; /* 0: they are the same */
    bool unknown;           /* it failed, and may have happened */
    struct err_note note;
};
/* As catalog_change; somebody else's change meanwhile makes it look again. */
enum store_start policies_apply(struct policies_apply *p);

#endif
