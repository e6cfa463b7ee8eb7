/* store_pg.h - the parts of a store in PostgreSQL (queue_pg_open in open.h). Private to
 * store/pg.
 *
 *   store_pg.c          opening, the schema, recovering, closing
 *   store_pg_session.c  making connections; SQL of tables
 *   store_pg_ask.c      a call on a connection for reading
 *   store_pg_own.c      owning, records, dropping
 *   store_pg_write.c    one group of writes at a time goes to PostgreSQL
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

#include "base/list.h"
#include "loop/loop.h"
#include "pg/pg.h"
#include "queue/lease/wait.h"
#include "queue/store/job.h"
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

/* A connection being made, with what its session needs. The loop's. */
enum { PG_SESSION_STATEMENTS = 3 };
struct pg_link {
    struct store_pg *s;
    mono deadline;
    struct pg *conn;
    struct err_note note;
    void (*done)(struct pg_link *l, err why); /* ERR_OK: conn is the caller's */
    struct pg_opening opening;
    struct pg_unit unit;
    struct pg_rows *rows[PG_SESSION_STATEMENTS];
};
/* Loop. done comes later, and not after a cancel. */
void pg_link_start(struct pg_link *l);
void pg_link_cancel(struct pg_link *l);

/* A connection for reading. The loop's. */
struct pg_ask;
struct pg_reader {
    struct store_pg *s;
    struct pg *conn;    /* NULL: not connected */
    bool busy;          /* somebody has it, or it is being connected or cleaned */
    struct pg_ask *ask; /* who waits for it to be connected */
    struct task back;   /* gives it back */
    bool walking;       /* with a transaction to be ended */
    struct pg_link link;
    struct pg_unit unit; /* ends it */
    struct pg_statement end;
};

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
    uint64_t weight;
    bool each;            /* the transaction of all failed: each alone */
    unsigned at, sending; /* writes on their way: so many from there */
    struct pg_unit unit;
    struct pg_statement *list; /* room for PG_PART_STATEMENTS of each part, and two */
    enum pg_tag *tags;
    unsigned statements;
    unsigned ends[PG_GROUP_WRITES_MAX]; /* statements up to the end of each write sent */
    bool full;                          /* the arena is; the group cannot be sent */
};

/* The connection for writing being made: at the start, or again. */
enum { PG_SCHEMA_STATEMENTS = 7 };
struct pg_beginning {
    struct pg_link link;
    struct pg_unit unit;
    struct arena arena;
    struct pg_statement list[PG_SCHEMA_STATEMENTS];
    struct pg_rows *rows[PG_SCHEMA_STATEMENTS];
    struct pg *before;         /* holds the owner's lock until the next one does */
    struct err_note *note;     /* recover's */
    struct queue_later *later; /* recover's; NULL: the first time */
    bool active;
};
struct pg_recovery {
    struct queue_later *later; /* NULL: none is wanted */
    struct err_note *note;
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

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    struct queue_write *first, *last;
    unsigned waiting;
    bool running; /* a group is on its way, or about to be */
    bool failed;  /* nothing is sent until recover */
    bool opening; /* the first connection is being made; failed as long */
    bool closed;  /* close may go on */
    err opened;   /* what came of it, and why */
    struct err_note opened_note;
    struct err_note said; /* of the last failure */

    /* the loop's */
    struct task turn, begin, close, recovery_task;
    struct pg *conn; /* for writing */
    struct pg_group group;
    struct pg_reader readers[PG_READERS];
    struct list asks; /* wait for a reader */
    unsigned reading; /* readers that are busy */
    struct pg_beginning beginning;
    struct pg_recovery recovery, recovery_next; /* waits until nothing is on its way; posted */
    bool closing;                               /* the same */
    mono locked_at; /* a lock of another session was last waited for in vain; ns 0: never */

    uint64_t writes; /* sent, for what is done now and then; the group's */
};
#define STORE_PG_MAGIC 0x57043009u

struct store_pg *store_pg_of(struct queue_store *s);
mono store_pg_deadline(const struct store_pg *s);
bool store_pg_failed(struct store_pg *s);
/* Nothing is sent until recover. */
void store_pg_fail(struct store_pg *s);
/* Loop. Something ended: recover or close may wait for that. */
void store_pg_settle(struct store_pg *s);

/* SQL with the tables of a partition: {b} in format stands for queue_Q_P_b. NULL: the arena is
 * full. */
const char *store_pg_sql(struct arena *a, struct queue_part p, const char *format);
void pg_put_id(struct pg_params *p, struct ksuid id);
/* Keeps what the server said, when it failed. */
void store_pg_keep(struct store_pg *s, const struct pg_outcome *o);
/* INVARIANT-free: an id of another size fails. */
MUST_CHECK bool pg_id(const struct pg_rows *r, unsigned row, unsigned column, struct ksuid *out);

enum { PG_PART_STATEMENTS = 13 };
void pg_group_add_part(struct pg_group *g, const struct queue_write_part *part);

void store_pg_write(struct queue_store *s, struct queue_write *w);
err store_pg_heartbeat(struct queue_store *s, mono deadline, struct queue_later *later);
/* Loop: sends what waits. */
void store_pg_turn(struct task *t);

/* A call on a reader's connection: statements go out in units, and next looks at what each
 * returned, on the pool. */
enum { PG_ASK_STATEMENTS = 12, PG_ASK_CHUNK_BYTES = 512 };
struct pg_ask {
    struct store_pg *s;
    struct queue_part part;
    struct queue_later *later;
    /* Looks at what got has, of the statements of the last unit, and adds those of the next one. It
     * may keep some rows, and leaves NULL there. False: the call is over, why says how. */
    bool (*next)(struct pg_ask *k);
    /* Of a unit that failed. */
    err (*failed)(const struct pg_outcome *o);
    void (*free)(struct pg_ask *k); /* what next has made, and k */
    unsigned step;                  /* units that were answered; 0: got has nothing */
    err why;
    bool walking;       /* a transaction is open */
    struct arena arena; /* of the statements of one unit */
    struct pg_statement list[PG_ASK_STATEMENTS];
    struct pg_rows *rows[PG_ASK_STATEMENTS], *got[PG_ASK_STATEMENTS];
    unsigned count;
    /* the loop's */
    struct list link;
    struct pg_reader *reader;
    struct task task;
    struct pg_unit unit;
};
/* Its embedding is of the caller, all but these zero. ERR_AGAIN: later is told; without a later it
 * blocks. k is freed by free. */
MUST_CHECK err pg_ask_run(struct pg_ask *k, struct queue_store *q, struct queue_part p,
                          struct queue_later *later);
/* One more statement of the next unit. */
void pg_ask_add(struct pg_ask *k, const char *format, const struct pg_params *params);
/* Parameters of one. */
struct pg_params *pg_ask_params(struct pg_ask *k);
/* Loop. Those that wait for a reader get ERR_UNAVAILABLE. */
void pg_asks_refuse(struct store_pg *s);
/* A row of these columns as a batch whose slices point into rows. */
#define PG_BATCH_COLUMNS "b.first, count, created, expire, order_key, states"
MUST_CHECK err pg_batch_at(const struct pg_rows *rows, unsigned at, struct queue_batch *out);

err store_pg_own(struct queue_store *q, const struct queue_own *o);
err store_pg_drop(struct queue_store *s, struct queue_part p, struct queue_later *later);
void store_pg_said(struct queue_store *s, struct err_note *note);
err store_pg_record(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
err store_pg_scan(struct queue_store *s, const struct queue_scan *scan);
err store_pg_batch(struct queue_store *s, struct queue_part p, const struct queue_batch_look *b);
err store_pg_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b);

#endif
