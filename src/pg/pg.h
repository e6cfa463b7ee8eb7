/* pg.h - one connection to PostgreSQL: lists of statements, each list one transaction in one round
 * trip, with a deadline.
 *
 * Model. A connection lives on the loop, on libpq in pipeline mode. A list of statements is a unit:
 * sent with an end of its own (Sync), it is one implicit transaction, committed whole or not at
 * all. Units are sent without waiting for the answers to those before, and answered in order.
 * Parameters and results are binary. Nothing here blocks the loop: steps of connecting, what is
 * long to send and answers above PG_LIGHT_BYTES are worked at on the pool; nobody waits there. So a
 * server that does not answer holds no thread.
 *   Addresses are numeric (or the folder of a Unix socket): libpq would resolve names without a
 * deadline. */
#ifndef PG_PG_H
#define PG_PG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/times.h"

#include <stdatomic.h>

struct loop;
struct pg;

/* ERR_BAD: no such URL, a name instead of an address, no address at all, a port or sslmode that is
 * none. note quotes nothing of it: any part may be of a password. */
MUST_CHECK err pg_url_check(const char *url, struct err_note *note);

/* Of the process: nobody is asked at the terminal for the passphrase of a client's key. Before the
 * first pg_open. */
void pg_ask_nobody(void);

struct pg_opts {
    const char *url;         /* postgresql://user:password@1.2.3.4:5432/db */
    const char *application; /* shown in pg_stat_activity */
    const char *settings;    /* more of the session's, as "-c name=value ..."; NULL: none */
    struct loop *loop;
    struct clock *clock;
    atomic_uint *address; /* which of the URL's took the last connection, for the next; NULL: the
                             first one */
    /* the server gives a statement up; a lock after two thirds of it */
    int64_t statement_timeout_ms;
};
/* The caller's until done. */
struct pg_connecting;
struct pg_opening {
    struct pg_opts opts; /* its texts are copied; the URL passed pg_url_check */
    mono deadline;
    /* Loop. ERR_TIMEOUT, ERR_DENIED (user or password), ERR_UNAVAILABLE: note says why. */
    void (*done)(struct pg_opening *o, err why);
    struct pg *conn; /* the caller's, pg_close */
    struct err_note note;
    struct pg_connecting *connecting;
};
/* Of several addresses each has its share of the time, so that one that never answers hides no
 * other, and only a primary is taken, unless the URL has target_session_attrs. Loop; done comes
 * later. */
void pg_opening_start(struct pg_opening *o);
/* done is not called; nothing when it was. Loop. */
void pg_opening_cancel(struct pg_opening *o);
/* Units under way are dropped, and their done is not called. INVARIANT: the pool is not at work on
 * the connection. The pool works on it when units to send, or an answer that comes, are more than
 * PG_LIGHT_BYTES. So close inside a done, or when no unit is under way. *cp becomes NULL; NULL is
 * allowed. Thread: loop. */
void pg_close(struct pg **cp);

/* ---- statements ---- */

enum { PG_PARAMS_MAX = 16, PG_STATE_BYTES = 6 };

/* Values for $1, $2, ... in the order they are put; in the arena. */
struct pg_params {
    struct arena *arena;
    unsigned count;
    bool failed; /* the arena is full, or there are too many */
    unsigned types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int sizes[PG_PARAMS_MAX];
};
void pg_params_init(struct pg_params *p, struct arena *a);
void pg_put_i32(struct pg_params *p, int32_t v);
void pg_put_i64(struct pg_params *p, int64_t v);
void pg_put_bytes(struct pg_params *p, str bytes);
/* Arrays, one-dimensional; count may be 0. */
void pg_put_i32s(struct pg_params *p, const int32_t *v, unsigned count);
void pg_put_i64s(struct pg_params *p, const int64_t *v, unsigned count);
void pg_put_bytes_array(struct pg_params *p, const str *v, unsigned count);

struct pg_statement {
    const char *sql;
    const struct pg_params *params; /* NULL: none */
};

/* What a statement returned. */
struct pg_rows;
unsigned pg_rows_count(const struct pg_rows *r);
/* Borrowed until pg_rows_free; n 0 of NULL. INVARIANT: there are such a row and column. */
str pg_bytes(const struct pg_rows *r, unsigned row, unsigned column);
bool pg_is_null(const struct pg_rows *r, unsigned row, unsigned column);
/* Is the value an int2, int4 or int8, and not NULL? */
bool pg_is_i64(const struct pg_rows *r, unsigned row, unsigned column);
/* The value; 0 when pg_is_i64 is false. */
int64_t pg_i64(const struct pg_rows *r, unsigned row, unsigned column);
void pg_rows_free(struct pg_rows **rp);

struct pg_outcome {
    /* ERR_OK: committed. ERR_IO: nobody knows whether it is committed; open a new connection. All
     * other errors: not committed, and never will be (ERR_FULL, ERR_TIMEOUT of a statement or a
     * lock, ERR_PRECONDITION: SQLSTATE 22 and 23, ERR_DENIED, ERR_LIMIT: build failed,
     * ERR_UNAVAILABLE). ERR_UNAVAILABLE with an empty state: it was not sent whole. A deadline that
     * passes after sending, or an answer of more than 256 MiB, is ERR_IO. */
    err why;
    unsigned failed;            /* index of the statement that failed; count: the commit, or none */
    char state[PG_STATE_BYTES]; /* SQLSTATE, or empty */
    struct err_note note;
};
/* A list of statements on its way; the caller's until done. */
enum {
    PG_LIGHT_BYTES = 256 << 10
}; /* of one unit or answer: sent and read on the loop; more on the pool */
struct pg_unit {
    const struct pg_statement *list;
    unsigned count;
    /* NULL: list is there. Else it sets list and count when they are to be sent, on the pool when
     * weight is more than PG_LIGHT_BYTES. False: ERR_LIMIT, nothing is sent. */
    bool (*build)(struct pg_unit *u);
    uint64_t weight; /* of build: bytes that it sends, or as many as cost the same time */
    mono deadline;
    /* Array of count, for what the statements return. ERR_OK: the caller frees each with
     * pg_rows_free. Else all are NULL. NULL: results are dropped. Not together with build. */
    struct pg_rows **rows;
    void (*done)(struct pg_unit *u); /* loop */
    struct pg_outcome out;
    /* pg's */
    struct list link;
    unsigned at; /* answered statements */
    bool sent, failed;
    uint64_t received_before; /* bytes, on this connection */
};
/* Loop; done comes later. */
void pg_start(struct pg *c, struct pg_unit *u);
/* Of no more use. */
bool pg_broken(const struct pg *c);

#endif
