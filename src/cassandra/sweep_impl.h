/* sweep_impl.h - what the files of sweep.h share. Private to this folder. */
#ifndef CASSANDRA_SWEEP_IMPL_H
#define CASSANDRA_SWEEP_IMPL_H

#include "cassandra/due.h"
#include "cassandra/sweep.h"

#include "base/rng.h"

enum sweep_kind { SWEEP_DUE, SWEEP_RING, SWEEP_KINDS };
enum { SWEEP_JOB_BYTES_MAX = 128 };

struct lease { /* a row */
    bool known;
    int64_t holder, epoch, place;
    store_time until, done_at;
};
struct found {
    struct page_bucket *bucket;
    uint32_t domain;
    size_t title_bytes;
    char title[PAGE_TITLE_BYTES_MAX];
};
enum sweep_state {
    JOB_IDLE,  /* until again_at */
    JOB_LOOKS, /* which part is to be worked on */
    JOB_TAKES,
    JOB_READS, /* a page */
    JOB_CULLS,
    JOB_KEEPS,
    JOB_GIVES,
};
struct job;
struct sweep_cull {
    struct job *job;
    struct found *found; /* NULL: free */
    struct cassandra_cull cull;
};
struct job {
    struct cassandra_sweep *sweep;
    enum sweep_kind kind;
    enum sweep_state state;
    char name[SWEEP_JOB_BYTES_MAX];
    unsigned parts;
    store_time began, again_at;
    struct lease *leases; /* as last seen */
    unsigned part;        /* of state TAKES to GIVES */
    struct lease mine;
    bool finished; /* GIVES: the part is done */
    /* the page */
    struct found *page;
    unsigned count, at, under_way;
    bool last;          /* of the range, or the hour */
    int64_t page_place; /* where the next one begins */
    char *page_state;   /* of the hour; NULL: its beginning */
    size_t page_state_bytes;
    struct sweep_cull culls[SWEEP_CULLS_MAX];
    bool asking; /* request is under way */
    struct cql_request request;
    struct cql_part cql_part;
    struct cql_values values;
};
struct cassandra_sweep {
    uint32_t magic;
    struct cassandra_sweep_opts opts;
    struct rng rng;
    bool closing;
    store_time paced_at;
    int64_t credit_ns; /* of the pace: each cull costs a second / titles_per_s */
    struct job jobs[SWEEP_KINDS];
    _Atomic uint64_t ranges, hours, titles, failed, bytes_ranges, facts, unlisted, leases,
        leases_lost, unanswered;
    _Atomic int64_t oldest_ns;
    atomic_uint never;
};

/* A request of the job's own; values were put into j->values before. */
void sweep_ask(struct job *j, enum titles_statement statement, void (*done)(struct cql_request *q));
/* Its end: counts a failure. */
err sweep_answered(struct job *j);
/* ---- sweep_lease.c ---- */
void sweep_lease_look(struct job *j, void (*looked)(struct cql_request *q));
bool sweep_lease_rows(
    struct job *j); /* from the answer into j->leases; false: they make no sense */
/* Writes j->mine, if the row has this epoch (-1: if there is none). */
void sweep_lease_set(struct job *j, int64_t epoch, void (*done)(struct cql_request *q));
bool sweep_lease_was_set(struct job *j);

#endif
