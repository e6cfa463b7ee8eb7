/* lists.h - how the titles of a domain are found: rows of the tables `titles` and `stashes`.
 *
 * Model. Both tables have LISTS_SHARDS partitions for each domain of a bucket; a title's shard is a
 * hash of it. Rows only find titles: whether a render is there, or stashed, its facts say. A row is
 * written before the facts that it finds, with their time, and by nobody who saw a put in the title
 * that is not forgotten: that put's row is there.
 *   A row of `titles` goes by lists_drop, some time after the last put of its title was forgotten
 * (pages_cull.c says why then). A row of `stashes` goes by its TTL, some time after its stash has
 * ended; a later stash has a row of its own.
 * Consistency: LOCAL_QUORUM. Private to this folder. Why so: docs/adr/0048. */
#ifndef CASSANDRA_LISTS_H
#define CASSANDRA_LISTS_H

#include "cassandra/titles_impl.h"

enum {
    LISTS_SHARDS = 64,
    LISTS_STASH_KEPT_S = 3600, /* a row of `stashes`, after its stash has ended */
};

int8_t lists_shard(str title);
/* bucket, domain, shard: the partition key. */
void lists_put_shard(struct cql_values *v, str bucket, str domain, int8_t shard);

/* Rows by which a title is found. call.why: as of a titles_append. */
struct lists_put {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    bool there;            /* a row of `titles` */
    store_time stashed_to; /* ZERO: no row of `stashes` */
    store_time at;         /* of the facts to come */
    struct err_note *note;
    /* own */
    struct titles *titles;
    struct cql_request request;
    struct cql_part parts[2];
    struct cql_values values[2];
};
enum store_start lists_put(struct titles *t, struct lists_put *p);

/* The row of `titles` goes, if it is there and no newer than before. */
struct lists_drop {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    store_time before;
    struct err_note *note;
    /* out */
    bool dropped;
    /* own */
    struct titles *titles;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
};
enum store_start lists_drop(struct titles *t, struct lists_drop *d);

#endif
