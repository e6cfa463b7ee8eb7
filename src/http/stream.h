/* stream.h - an answer that is given in pieces, as its client takes them.
 *
 * Model. A stream is a cursor: http_answer_pull stores a table of two functions, and the worker
 * that owns the connection calls pull whenever the client has room for more. pull gives the next
 * piece, or says LATER; then the stream waits, without a thread and without a buffer, until
 * http_wake says that there may be more. So what lies unsent for a client is bounded: one piece
 * here, and HTTP_STREAM_UNSENT_BYTES in the kernel (TCP_NOTSENT_LOWAT). A client that stops reading
 * is not pulled for.
 *
 * Framing. With a length, Content-Length: pull gives exactly so many bytes. Without, chunks; to a
 * client of HTTP/1.0 the end of the connection is the end of the body. The connection goes on after
 * a stream as after any answer. HEAD gets the head alone, and pull is not called. What fails midway
 * is cut: without a last chunk, short of its length, or, in HTTP/1.0, by a reset. A unix socket has
 * no reset: there a client of HTTP/1.0 has to see by the body itself that it is not whole.
 *
 * Lifetime. pull and over are called by one thread at a time, on the worker, never beside each
 * other; over is called exactly once, always, as the last: the stream is out, failed, was refused,
 * or its client left. Until over returns, x, its arena and ctx stay. http_server_free calls over on
 * its own thread for streams that are open. http_wake(x) is allowed from the handler's first line
 * until over returns. So a list of subscribers needs one lock of its caller:
 *
 *   handler   lock, put into the list, unlock; http_answer_pull
 *   pull      lock, take what there is, unlock
 *   others    lock, add what there is, http_wake each of the list, unlock
 *   over      lock, take out of the list, unlock
 *
 * http_wake takes no lock that is held while pull or over run. Whoever wakes many inside the lock
 * wakes each worker no more than once: its first pull waits for the lock.
 *
 * Who is slow. While a piece waits for its client, the client must take send_bytes_per_s_min. A
 * stream that waits for LATER is not slow, for however long. When its client closes, or shuts its
 * writing side, while the stream waits, the client has left. One that vanished without a word is
 * found by what is sent to it: a stream that is silent for long sends something now and then, which
 * is its caller's to do.
 *
 * A drain. A stream that waits is pulled once more; see `ending`. An endless stream ends at once
 * whatever its client does: when a piece waits for room, the connection is cut, and what the kernel
 * has taken still arrives. A finite stream goes on, as any answer that was begun before. */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/http.h"

enum {
    HTTP_PULL_ROOM_BYTES = 16 << 10,
    HTTP_STREAM_UNSENT_BYTES = 16 << 10 /* beyond that the kernel takes no more */
};

enum http_pulled {
    HTTP_PULL_MORE,  /* a piece, and there is more: pull is called again when it is out */
    HTTP_PULL_LATER, /* a piece or nothing, and no more before http_wake */
    HTTP_PULL_END,   /* a piece or nothing: the last */
    HTTP_PULL_FAILED /* the rest is not to be had; what was given now is not sent */
};

struct http_pull {
    char *room; /* may be written to; HTTP_PULL_ROOM_BYTES */
    /* The server drains. An endless stream says END now, with its last words. A finite one may go
     * on, as any answer that was begun before the drain. */
    bool ending;
    str piece; /* out: in room, or the caller's own, which stays as it is until the next pull, or
                  over. Of any size; not empty with MORE */
};

struct http_stream { /* static, or alive until over has returned */
    /* Must not block, and not take longer than a handler on a worker may (200 us). What takes
     * longer is made elsewhere, behind LATER and http_wake. Thread: x's worker. */
    enum http_pulled (*pull)(void *ctx, struct http_pull *p);
    void (*over)(void *ctx); /* may be NULL. Thread: x's worker, or that of http_server_free */
    bool endless;            /* it ends by its client's leaving, or by a drain */
};

/* Answers. status: none that has no body. length: of the body; -1: it is not known. Before it
 * returns x may be over, if it was deferred. At most half of connections_max are streams: with one
 * more x is refused with 503 "overloaded#streams" by hooks.refuse, and pull is not called. A stream
 * is not among the slow requests (slow.h). Not from the early hook. Thread: the handler, or any one
 * thread after http_defer. */
void http_answer_pull(struct http_exchange *x, int status, int64_t length,
                      const struct http_stream *of, void *ctx);
/* There may be more: pull is called, unless a piece is still on its way, when it is called behind
 * that. Several calls may become one. Thread: any, pull's too. Never blocks for long. */
void http_wake(struct http_exchange *x);
/* The client is given up: while a piece waits for it, the connection is cut, as in a drain. Else
 * nothing happens but a wake. Allowed when http_wake is. Thread: any. */
void http_give_up(struct http_exchange *x);

#endif
