/* conn_stream.h - what a connection keeps of an answer in pieces. Private to http.
 *
 * The states are explained in streams.h. http_answer_pull fills it; from then on it is the worker's
 * but for wakes, woken, given_up and wake. */
#ifndef HTTP_CONN_STREAM_H
#define HTTP_CONN_STREAM_H

#include "base/home.h"
#include "http/stream.h"

#include <stdatomic.h>

struct http_conn;

/* What conn.c does next. */
enum stream_got {
    STREAM_GOES_ON, /* nothing */
    STREAM_WHOLE,   /* ends the request: all is out */
    STREAM_CUT      /* ends the connection */
};

enum stream_state {
    STREAM_NONE,
    STREAM_BARE,
    STREAM_BEGINS,
    STREAM_FLOWS,
    STREAM_FULL,
    STREAM_WAITS,
    STREAM_ENDED
};

struct conn_stream {
    const struct http_stream *of; /* NULL: there is none */
    void *ctx;
    enum stream_state state;
    enum http_pulled said; /* by the last pull; a wake makes MORE of LATER */
    enum stream_got ended; /* in STREAM_ENDED */
    bool chunked;
    bool limited;         /* TCP_NOTSENT_LOWAT is set */
    bool listed;          /* in its worker's list */
    bool told;            /* over was called */
    atomic_bool wakes;    /* http_wake does something */
    atomic_bool woken;    /* wake is posted, and has not run */
    atomic_bool given_up; /* by http_give_up; the next wake sees to it */
    struct task wake;
    int64_t left;                  /* of a declared length; -1: none is */
    uint64_t piece_bytes;          /* of the piece that is on its way */
    str tail;                      /* what is unsent of what frames the piece behind it; static */
    struct http_conn *prev, *next; /* the worker's list */
};

#endif
