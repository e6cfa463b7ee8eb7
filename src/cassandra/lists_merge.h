/* lists_merge.h - titles in key order, merged from all shards of one or several buckets.
 *
 * Model. Each shard of each bucket is a lane, which holds a page of titles. The least title of all
 * lanes is next. A page that is used up is read anew, at most LISTS_READS_MAX at a time; pages grow
 * from LISTS_ROWS_MIN rows to LISTS_ROWS_MAX. Private to this folder. Thread: one at a time; what
 * a read ends with is taken at the call's home, and then lists_turned is called there. */
#ifndef CASSANDRA_LISTS_MERGE_H
#define CASSANDRA_LISTS_MERGE_H

#include "cassandra/lists.h"

#include <stdatomic.h>

enum { LISTS_READS_MAX = 16, LISTS_ROWS_MIN = 4, LISTS_ROWS_MAX = 64, LISTS_BUCKETS_MAX = 64 };

/* An object that is driven by what ends on any threads. Each of its parts, as the last that it
 * does, calls lists_turned, which runs step: never two at once, and once more when a part has ended
 * meanwhile. step returns true when the object is gone: not before all parts that were begun have
 * turned, which `taken` counts. */
struct lists_turns {
    bool (*step)(struct lists_turns *t);
    uint64_t taken;
    atomic_uint waiting;
};
void lists_turned(struct lists_turns *t);

struct lists_merge_opts {
    struct titles *titles;
    enum titles_statement statement; /* TITLES_LISTED, TITLES_STASHED */
    const str *buckets;              /* borrowed while it lives, as all here */
    unsigned buckets_count;          /* LISTS_BUCKETS_MAX at most */
    str domain;
    str from;                      /* the least title wanted; empty: all */
    bool after;                    /* from itself is not wanted */
    const struct store_call *call; /* whose home and deadline reads have */
    struct lists_turns *turns;     /* told that a read has ended: ask again */
};
struct lists_title {
    str title;        /* good until the next look */
    store_time until; /* TITLES_STASHED: when its last stash ends that a row tells of */
    uint64_t buckets; /* where it is, as bits */
};
enum lists_next { LISTS_TITLE, LISTS_WAIT, LISTS_OVER, LISTS_FAILED };

struct lists_merge;
struct lists_merge *lists_merge_new(const struct lists_merge_opts *o);
void lists_merge_free(struct lists_merge **mp); /* no read is under way */
/* The least title, and past it. WAIT: a read is under way. FAILED: *why. */
enum lists_next lists_merge_next(struct lists_merge *m, struct lists_title *out, err *why);
uint64_t lists_merge_reads(const struct lists_merge *m); /* begun; each calls turned once */

#endif
