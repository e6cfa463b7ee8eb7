/* open.h - the kinds of stores (store.h) there are, how each is opened, and whose it is.
 *
 * A store belongs to the deployment that used it first, one catalogue of queues and those who stand
 * by for it: partitions are known by numbers of a catalogue, so those of another mean other queues.
 * Another deployment is refused, at open or at recover. Who is to stand by, or to take over what is
 * there, has the same catalogue or makes the same queues in the same order, and goes by the same
 * name. Opening blocks: start-up. */
#ifndef QUEUE_STORE_OPEN_H
#define QUEUE_STORE_OPEN_H

#include "queue/store/store.h"

struct clock;
struct engine;
struct file_faults;
struct loop;

/* ---- whose ---- */
enum { QUEUE_DEPLOYMENT_BYTES_MAX = 64, QUEUE_DEPLOYMENT_MADE_BYTES = 33 };
/* ERR_BAD: not letters, digits, . _ - or too many. */
MUST_CHECK err queue_deployment_check(const char *name, struct err_note *note);
/* The name of the deployment whose catalogue is in e: made of high and low when there is none, and
 * kept. Blocks. ERR_CORRUPT, ERR_IO, ERR_FULL. */
MUST_CHECK err queue_deployment(struct engine *e, uint64_t high, uint64_t low,
                                char out[QUEUE_DEPLOYMENT_MADE_BYTES]);
/* Do partitions lie in the store of that name, or are still to be dropped there? Blocks.
 * ERR_CORRUPT, ERR_IO. */
MUST_CHECK err queue_store_used(struct engine *e, const char *name, bool *used);

/* ---- the local kind, on an engine that the caller keeps (the main one) or that this store opens
 * in dir ---- A folder used before folders had owners goes to the first that comes; it is the
 * store's of that name, and no other that was used before takes it. One that is away (used, and no
 * store there, or one without a row) is not made anew, since what went into that would be hidden
 * when it is back: the store opens all the same, is told to failed, answers own with ERR_IO, the
 * rest with ERR_UNAVAILABLE, and recover opens it when it is there. A file QUEUE_ANEW_FILE in the
 * folder gives up what it held; it is removed. */
#define QUEUE_ANEW_FILE "ANEW"
struct queue_local_opts {
    const char *name;
    struct engine *engine; /* borrowed; NULL: */
    const char *dir;       /* an engine of its own here */
    /* of dir: whose it has to be, queue_deployment_check; NULL: anybody's */
    const char *deployment;
    bool used; /* of dir: partitions lie there, queue_store_used */
    struct clock *clock;
    uint64_t segment_bytes, free_bytes_min;
    const struct file_faults *faults;
    void (*failed)(void *ctx, const char *store,
                   const char *what); /* own engine only: it acknowledges nothing more */
    void (*recovered)(void *ctx,
                      store_time greatest); /* opened again, or at last; inside recover */
    void *ctx;
};
/* *greatest: the greatest store_time in dir. ERR_BAD: it is of another deployment or store.
 * ERR_CORRUPT, ERR_IO, ... */
MUST_CHECK err queue_local_open(const struct queue_local_opts *opts, struct queue_store **out,
                                store_time *greatest, struct err_note *note);
/* Looks over all partitions in an engine: counts equal the rows, no batch without a live item,
 * every entry and lease points at an item that is there, bodies can be read. found: a sentence for
 * each damage. Blocks. ERR_CORRUPT, ERR_IO. */
MUST_CHECK err queue_local_check(struct engine *e, void (*found)(void *ctx, const char *what),
                                 void *ctx);

/* ---- PostgreSQL 15 or later, through src/pg: the schema that its user has first ----
 * One owner by epoch; another process gets a partition from own only when the owner's connection
 * has gone, ERR_CONFLICT until then. own of several may have taken some when it fails: own them
 * again. All of it goes on the loop (pg/pg.h): nothing holds a thread but a caller who blocks, and
 * that may not be the loop's. close: on another thread while the loop runs, or on the loop's when
 * it has ended. A server that is away when this is called is no error: the store is unavailable
 * until recover. A first connection that is not over (later) is given up by close. */

struct queue_pg_opts {
    const char *name;
    const char *url;        /* postgresql://user:password@1.2.3.4:5432/db, numeric host */
    const char *deployment; /* whose the database is */
    struct loop *loop;
    struct clock *clock;
    int64_t write_timeout_ms;
    bool later; /* does not wait for the first connection: ask queue_pg_opened */
};
/* ERR_BAD: no URL that can be used; note says what is wrong with it and quotes nothing: a password
 * may be anywhere. */
MUST_CHECK err queue_pg_url_check(const char *url, struct err_note *note);
/* Of the process, before the first of them is opened: no passphrase of a key is asked for at the
 * terminal. */
void queue_pg_init(void);
/* ERR_BAD: the URL, the deployment, a database of another one, tables of another version;
 * ERR_DENIED: the user. */
MUST_CHECK err queue_pg_open(const struct queue_pg_opts *opts, struct queue_store **out,
                             struct err_note *note);
/* What came of the first connection. ERR_AGAIN: nothing yet; ERR_UNAVAILABLE: it is away; ERR_BAD,
 * ERR_DENIED: as above, close it. Never blocks. */
MUST_CHECK err queue_pg_opened(struct queue_store *s, struct err_note *note);

#endif
