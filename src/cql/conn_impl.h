/* conn_impl.h - what the files of a connection share. Private to them. Thread: loop. */
#ifndef CQL_CONN_IMPL_H
#define CQL_CONN_IMPL_H

#include "cql/conn.h"
#include "cql/segment.h"

enum {
    CQL_IN_BYTES = 256 << 10, /* holds a whole segment, and what one read brings */
};

enum cql_shake {
    CQL_SHAKE_CONNECT, /* the socket, then TLS */
    CQL_SHAKE_OPTIONS,
    CQL_SHAKE_STARTUP,
    CQL_SHAKE_AUTH,
    CQL_SHAKE_DONE,
    CQL_SHAKES
};

struct cql_conn {
    uint32_t magic;
    struct cql_conn_opts opts;
    char host[CQL_HOST_BYTES_MAX + 1];
    struct err_note why;
    int fd;
    struct loop_watch *watch;
    struct cql_transport *transport;
    enum cql_shake shaking;
    bool connected; /* the socket is */
    bool secured;   /* TLS is, where it is asked for: envelopes may go out */
    bool framed;    /* version 5, behind the answer to STARTUP: segments */
    bool lz4;       /* agreed upon */
    bool open, gone;
    bool disowned;    /* closed by its owner, who is not told of its end */
    bool wants_write; /* TLS reads only after it has written */
    bool asked_life;  /* OPTIONS is under way, to see whether the node still answers */
    unsigned inside;
    bool blocked;  /* the socket took no more */
    mono deadline; /* of the handshake */
    mono heard_at;
    mono life_at; /* a sign of life is wanted since; older than heard_at: not now */
    /* out */
    struct buf staged, out, scratch;
    size_t out_from, begun;
    uint64_t flushes, sent_bytes, received_bytes;
    /* in */
    char *in, *unpacked;
    size_t in_bytes;
    char head_at[CQL_HEAD_BYTES];
    unsigned head_bytes;
    struct cql_head head;
    struct cql_body *body;
    size_t body_bytes;
    /* streams */
    struct cql_call **streams;
    int16_t *free_streams; /* a ring */
    unsigned streams_count, free_first, free_count, in_flight, orphans;
    struct cql_call orphan; /* an address: stands on a stream whose caller has gone */
    struct cql_call call;   /* of the handshake, later of the sign of life */
};
#define CQL_CONN_MAGIC 0xca55c044u

void cql_conn_enter(struct cql_conn *c);
/* False: it has gone, and may be freed already. */
bool cql_conn_leave(struct cql_conn *c);
/* c->why says why. Does nothing when it has gone already. */
void cql_conn_fail(struct cql_conn *c, enum cql_end end);
void cql_conn_watch(struct cql_conn *c);
void cql_stream_free(struct cql_conn *c, int16_t stream);
/* What is in out, as far as the socket takes it. False: it has ended. */
bool cql_conn_write(struct cql_conn *c);
/* What the socket has. May end it. */
void cql_conn_read(struct cql_conn *c);

/* Over a socket that connects, or is connected. Owner of fd: the connection. */
struct cql_conn *cql_conn_over(int fd, const struct cql_conn_opts *o);
/* Before the handshake's first answer: the socket can do what was waited for. May end it. */
void cql_shake_go_on(struct cql_conn *c);

#endif
