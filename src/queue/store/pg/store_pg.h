/* store_pg.h - the parts of a store in PostgreSQL (queue_pg_open in open.h). Private to
 * store/pg.
 *
 *   store_pg.c          opening, the schema, closing
 *   store_pg_session.c  connections
 *   store_pg_own.c      owning, records, dropping
 *   store_pg_write.c    one job of the pool at a time sends what waits
 *   store_pg_part.c     a partition's part of a write -> statements
 *   store_pg_ops.c      ops of one kind -> a statement
 *   store_pg_scan.c     rows -> what the owner keeps in memory
 *   store_pg_read.c     single batches; bodies
 *
 * Tables, in the schema that the URL's user has first:
 *   queue_store (version, beats)                        one row
 *   queue_deployment (name)                             one row: whose tables these are
 *   queue_part  (queue, partition, epoch, owner, boot)  a row a partition; every write locks it
 * with its epoch and for each partition its own, so that dropping it is dropping them (Q queue, P
 * partition):
 *   queue_Q_P_b batches: (first, count, created, expire, aside, order_key, size, bytes)     never
 *     updated
 *   queue_Q_P_s states of batches that are no longer all in place: (first, states), a byte an item
 *   queue_Q_P_e entries: (kind, at, id, ...)        queue_Q_P_l leases: (id, ...)
 *   queue_Q_P_k keys: (kind 7, name, first, ...); first is the id of the key, then its
 *   digest if it has one queue_Q_P_r the record: (n, counts, ids); each write adds the next row,
 * old ones are deleted by range Ids are bytea of 20 bytes: their order is the order of ids. No
 * column of an index is ever updated, and nothing is searched from an end where deleted rows
 * gather: a snapshot held open for long costs room, not time. SQL's now() is not used. Owner: a
 * random number of this process, whose advisory lock its write connection holds; another process
 * takes a partition over when that lock is free, and from then on the epoch refuses the old one. */
#ifndef QUEUE_STORE_PG_STORE_PG_H
#define QUEUE_STORE_PG_STORE_PG_H

#include "loop/loop.h"
#include "pg/pg.h"
#include "queue/store/open.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PG_READERS = 3,
    PG_GROUP_WRITES_MAX = 64,     /* in one transaction */
    PG_GROUP_BYTES_MAX = 4 << 20, /* of batches; no more writes beyond */
    PG_ARENA_BYTES_MAX = 256 << 20,
    PG_WAITING_MAX = 65536, /* writes */
};

struct store_pg;
struct pg_reader {
    pthread_mutex_t lock;
    struct store_pg *store; /* set while somebody has it */
    struct pg *conn;        /* NULL: not connected */
};

struct store_pg {
    uint32_t magic;
    struct queue_store store;
    char *name, *url, *deployment;
    struct loop *loop;
    struct clock *clock;
    int64_t timeout_ms;
    int64_t owner;
    atomic_uint address; /* of the URL's, the one that took the last connection */
    struct pg_reader readers[PG_READERS];

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t idle;
    struct queue_write *first, *last;
    unsigned waiting;
    bool running;      /* the job is on its way, or at work */
    bool failed;       /* nothing is sent until recover */
    bool opening;      /* the first connection is being made; failed as long */
    atomic_bool ended; /* close came before it was made: it is given up */
    err opened;        /* what came of it, and why */
    struct err_note opened_note;
    struct err_note said; /* of the last failure */
    uint64_t missed;      /* times a reader's connection broke, or could not be had */
    struct loop_job job;

    struct pg *conn; /* the job's; recover's while it does not run, before that the opening's */
    uint64_t writes; /* sent, for what is done now and then */
    /* a lock of another session was last waited for in vain; ns 0: never. The job's */
    mono locked_at;
};
#define STORE_PG_MAGIC 0x57043009u

struct store_pg *store_pg_of(struct queue_store *s);
mono store_pg_deadline(const struct store_pg *s);
/* Connects as a reader does. */
MUST_CHECK err store_pg_connect(struct store_pg *s, struct pg **out, struct err_note *note);

/* A reader's connection, alone, until given back; connects when it has to. Waits for those that
 * have them, until one of them misses its deadline. ERR_UNAVAILABLE. */
MUST_CHECK err store_pg_reader(struct store_pg *s, struct pg_reader **out);
void store_pg_reader_back(struct pg_reader **rp);

/* SQL with the tables of a partition: {b} in format stands for queue_Q_P_b. NULL: the arena is
 * full. */
const char *store_pg_sql(struct arena *a, struct queue_part p, const char *format);
void pg_put_id(struct pg_params *p, struct ksuid id);
/* Keeps what the server said, when it failed. */
void store_pg_keep(struct store_pg *s, const struct pg_outcome *o);
/* INVARIANT-free: an id of another size fails. */
MUST_CHECK bool pg_id(const struct pg_rows *r, unsigned row, unsigned column, struct ksuid *out);

/* Writes of one transaction, as statements. */
enum pg_tag {
    PG_TAG_FENCE,
    PG_TAG_CHANGE,
    PG_TAG_BEAT,
    PG_TAG_OTHER
}; /* what a failure of a statement says */
struct pg_group {
    struct store_pg *s;
    struct arena arena;
    struct queue_write *writes[PG_GROUP_WRITES_MAX];
    unsigned count;
    struct pg_statement *list; /* room for PG_PART_STATEMENTS of each part, and two */
    enum pg_tag *tags;
    unsigned statements;
    unsigned ends[PG_GROUP_WRITES_MAX]; /* statements up to the end of each write sent */
    unsigned stuck; /* the one of them whose statement failed; count: none's did */
    bool full;      /* the arena is; the group cannot be sent */
};
enum { PG_PART_STATEMENTS = 13 };
void pg_group_add_part(struct pg_group *g, const struct queue_write_part *part);

void store_pg_write(struct queue_store *s, struct queue_write *w);
err store_pg_heartbeat(struct queue_store *s, mono deadline);
void store_pg_job_run(struct loop_job *j);
void store_pg_job_done(struct loop_job *j, bool canceled);

/* A reader at work on one partition. */
struct pg_look {
    struct store_pg *s;
    struct queue_part part;
    struct pg_reader *reader;
    struct arena arena;
    bool walking; /* a transaction is open */
};
MUST_CHECK err pg_look_begin(struct pg_look *k, struct queue_store *q, struct queue_part p);
void pg_look_end(struct pg_look *k);
/* Runs one statement for its rows. ERR_NOT_FOUND: the partition is not there. */
MUST_CHECK err pg_look_sql(struct pg_look *k, const char *format, const struct pg_params *params,
                           struct pg_rows **rows);
/* A row of these columns as a batch whose slices point into rows. */
#define PG_BATCH_COLUMNS "b.first, count, created, expire, order_key, states"
MUST_CHECK err pg_batch_at(const struct pg_rows *rows, unsigned at, struct queue_batch *out);

err store_pg_own(struct queue_store *q, const struct queue_part *parts, unsigned count,
                 const unsigned char boot[QUEUE_BOOT_BYTES], struct queue_part_record *out,
                 struct err_note *note);
err store_pg_drop(struct queue_store *s, struct queue_part p);
void store_pg_said(struct queue_store *s, struct err_note *note);
err store_pg_record(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
err store_pg_scan(struct queue_store *s, const struct queue_scan *scan);
err store_pg_batch(struct queue_store *s, struct queue_part p, struct ksuid first, struct arena *a,
                   struct queue_batch *out);
err store_pg_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b);

#endif
