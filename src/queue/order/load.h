/* load.h - a job that reads some of a partition for its memory. Private to load*.c: load.c starts
 * it and merges what it read, under the lock of the queue; load_read.c reads, on a thread of the
 * pool, without the lock. */
#ifndef QUEUE_ORDER_LOAD_H
#define QUEUE_ORDER_LOAD_H

#include "queue/order/flush.h"

enum job_kind { JOB_LOAD, JOB_READY, JOB_SCHEDULED, JOB_FIRSTS };
struct first {
    struct ksuid id;
    unsigned char hash[16];
};
struct row {
    struct queue_entry entry;
    bool in_place;
};
struct rows {
    struct row *rows;
    unsigned count, size, max;
    bool more;
};
/* In this order; which of them, says the kind. */
enum load_stage {
    LOAD_OWN,
    LOAD_LEASES,
    LOAD_KEYS,
    LOAD_UNKNOWN,
    LOAD_FIRSTS,
    LOAD_SEEK,
    LOAD_READY,
    LOAD_SCHEDULED,
    LOAD_BATCHES, /* that the rows point at */
    LOAD_OVER
};
struct part_job {
    struct store_job job;
    enum load_stage stage;
    unsigned index;           /* of calls in this stage */
    struct read_batch *batch; /* being read */
    struct err_note note;     /* of owning */
    struct part *part;
    struct queue_store *store;
    struct queue_part place;
    enum job_kind kind;
    uint64_t generation, churn;
    struct ksuid from;
    store_time from_at;
    /* PART_FIRSTS_ITEMS; NULL but of JOB_FIRSTS: all partitions are loaded at once */
    struct first *firsts;
    unsigned firsts_count, rows_sought;
    struct ksuid sought;
    bool seeks, sought_all;
    bool owned;
    bool is_starved; /* no memory for what is being read */
    struct queue_part_record record;
    struct rows ready, scheduled;
    struct queue_lease *leases;
    unsigned leases_count, leases_size;
    struct queue_key *keys;
    unsigned keys_count, keys_size;
    struct ksuid *unknown; /* batches asked for */
    bool *unknown_there;
    unsigned unknown_count;
    struct hash batches; /* struct read_batch */
    struct arena arena;
    uint32_t store_index;
    err why;
};
struct read_batch {
    struct hash_node node;
    struct queue_batch batch;
};

/* Its step: fills what it reads into, and why. */
bool load_step(struct store_job *job);
/* The batch of that first id that it read; NULL: it read none. */
struct read_batch *load_batch_of(struct part_job *j, struct ksuid first);

#endif
