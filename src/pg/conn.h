/* conn.h - what is known of a connection. Private to pg.
 *
 * Loop's or pool's: a connection is worked at on the loop. What takes long is a job of the pool
 * (lent): until it is over the loop touches nothing but the members named so. */
#ifndef PG_CONN_H
#define PG_CONN_H

#include "base/list.h"
#include "loop/loop.h"
#include "pg/pg.h"

#include <libpq-fe.h>

struct pg {
    uint32_t magic;
    /* the loop's */
    struct loop *loop;
    struct clock *clock;
    struct loop_watch *watch; /* NULL: lent, or broken */
    struct loop_timer *timer;
    unsigned watched;   /* events that watch waits for */
    struct list coming; /* units that nobody has looked at */
    struct task told;   /* tells of units that ended inside pg_start */
    bool lent, turning, telling, closing, finished;
    struct loop_job job;
    /* who works at it */
    PGconn *conn;
    struct list units;       /* in order; those that were sent are at the front */
    struct list over;        /* ended; their done is to be called */
    bool readable, writable; /* what the watch saw, and nobody has taken up */
    bool pending;            /* not all was written */
    uint64_t unflushed;      /* weight of what was sent since all was written */
    uint64_t received;       /* bytes that came, as far as anybody looked */
    err cause;               /* why it broke: ERR_TIMEOUT, ERR_LIMIT; else libpq knows */
    atomic_bool broken;      /* looked at by any thread */
};
#define PG_MAGIC 0x9c0117ecu
#define PG_DENIED_STATE "42501"

/* A connection that was made, in pipeline mode; on the loop. */
struct pg *pg_conn_new(PGconn *conn, const struct pg_opts *opts);
/* What TCP says it has received since the connection was made. False: it is a socket in a
 * folder. */
bool pg_tcp_received(PGconn *conn, uint64_t *bytes);
/* pg_note.c. What libpq said, in one line. */
void pg_note_of(struct err_note *note, const char *what, const char *text);
/* What the server said of a statement. A right that is missing: which statement wanted it, and of
 * which table. sql: NULL: none. */
void pg_note_of_result(struct err_note *note, const PGresult *result, const char *sql);
/* Why there is no connection. Who used a password is denied for what the server says of it alone:
 * there may be no connection left for them, or no primary. */
err pg_note_of_refusal(PGconn *conn, struct err_note *note);

#endif
