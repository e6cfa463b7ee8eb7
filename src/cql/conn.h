/* conn.h - one connection to one node: connects, shakes hands, and carries up to streams_max
 * requests at a time, each on a stream of its own.
 *
 * Model. A call is one request under way. It is begun and ended (its body is written straight into
 * the connection's output), and what a turn of the loop has gathered goes out in one write. Its
 * answer comes back once, or the connection ends and the call is told so. A call that nobody waits
 * for any more is forgotten: its stream stays taken until the answer comes, and more than
 * orphans_max of such streams end the connection. A connection from which nothing came for
 * heartbeat_ms is asked OPTIONS; no answer within answer_timeout_ms ends it.
 * Private to cql. Thread: loop. */
#ifndef CQL_CONN_H
#define CQL_CONN_H

#include "cql/answer.h"
#include "cql/cql.h"

#include <sys/socket.h>

enum {
    CQL_OUT_BYTES_MAX = 64 << 20, /* unsent, of one connection; one more request is refused */
    CQL_HOST_BYTES_MAX = 255,
    CQL_ANSWER_TOO_LARGE = 0x7f000001, /* a code of ours, which no server sends */
};

/* The bytes of one answer, kept for whoever reads its rows. */
struct cql_body {
    size_t n;
    char bytes[];
};
struct cql_message {
    struct cql_answer answer; /* borrows the body */
    struct cql_body *body;    /* NULL: the answer is good during the call of done alone. Whoever
                                 wants it longer takes it and sets this to NULL */
};

/* A call's done (cql.h): once, unless forgotten. m NULL: the connection ended first; call->conn is
 * still there and cql_conn_why says why. The answer's columns are done's to drop. */

/* Why a connection ended. */
enum cql_end {
    CQL_END_LOST,    /* cut, refused, silent, or it sent what cannot be read */
    CQL_END_VERSION, /* the node refuses the protocol version */
    CQL_END_DENIED,  /* the node refuses the credentials, or wants some that we lack */
};

struct cql_conn_opts {
    struct loop *loop;
    struct clock *clock;
    struct sockaddr_storage address;
    socklen_t address_bytes;
    const char *host;    /* as it was asked for; for TLS. Copied */
    struct cql_tls *tls; /* NULL: plain */
    unsigned version;
    bool lz4;         /* when the node has it too */
    const char *user; /* NULL: none. Borrowed for the connection's life, as password is */
    const char *password;
    bool
        plain_anywhere; /* a password goes over an unencrypted connection that leaves the machine */
    unsigned streams_max, orphans_max;
    size_t answer_bytes_max;
    int64_t connect_timeout_ms, heartbeat_ms, answer_timeout_ms;
    void (*opened)(void *ctx, struct cql_conn *c);
    /* The connection frees itself after it. Its calls have been told before. */
    void (*closed)(void *ctx, struct cql_conn *c, enum cql_end end, const struct err_note *why);
    void (*event)(void *ctx, const struct cql_event *e); /* NULL: none are expected */
    void (*warned)(void *ctx, str warning);
    /* Something was answered: a stream is free. */
    void (*room)(void *ctx, struct cql_conn *c);
    void *ctx;
};
/* NULL: the kernel gives no socket; the note says why. */
struct cql_conn *cql_conn_open(const struct cql_conn_opts *opts, struct err_note *note);
/* Tells all calls, then goes; closed is not called. Allowed inside every callback. */
void cql_conn_close(struct cql_conn **cp);
/* Of the caller's clock: ends it when a deadline of its own has passed, asks for a sign of life. */
void cql_conn_tick(struct cql_conn *c, mono now);

bool cql_conn_is_open(const struct cql_conn *c);  /* the handshake is over, and it has not ended */
bool cql_conn_was_open(const struct cql_conn *c); /* the handshake was over once */
bool cql_conn_has_room(const struct cql_conn *c);
unsigned cql_conn_in_flight(const struct cql_conn *c); /* orphans are not counted */
unsigned cql_conn_version(const struct cql_conn *c);
/* Why it ended, in done and closed. */
const struct err_note *cql_conn_why(const struct cql_conn *c);
/* Bytes so far, each way, as they went over the wire. */
void cql_conn_bytes(const struct cql_conn *c, uint64_t *sent, uint64_t *received);

/* Begins a request; its body goes to what is returned, at most body_bytes_max of it. NULL: too much
 * is unsent already, or no memory is left. INVARIANT: there is room; call->done is set. */
struct buf *cql_conn_begin(struct cql_conn *c, struct cql_call *call, enum cql_opcode op,
                           unsigned flags, size_t body_bytes_max);
void cql_conn_end(struct cql_conn *c); /* of the request begun last */
/* What was ended goes out. Called once a turn; may tell calls and close. */
void cql_conn_flush(struct cql_conn *c);
/* Nothing more is told of this call. */
void cql_call_forget(struct cql_call *call);
/* Not a byte of it can have left: in done, when the connection ended. */
bool cql_call_unsent(const struct cql_call *call);

#endif
