/* conn.c - the socket, the streams and the bytes of a connection; conn_in.c reads what comes,
 * conn_shake.c is the handshake.
 *
 * Invariants:
 *   1 streams[n] is NULL (free), &orphan, or the call that waits on n. A free stream is in
 *     free_streams exactly once. The stream that is free for longest is taken first: an answer that
 *     comes twice meets a free stream;
 *   2 staged holds whole envelopes that a flush has not taken; out holds bytes that the socket has
 *     not taken. Below version 5, and before its framing, envelopes go to out as they are;
 *   3 a callback may end the connection. So `gone` is checked after each callback, and the memory
 *     goes when the last frame inside has left. */
#include "cql/conn_impl.h"

#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PACK_BYTES_MIN = 512, /* a smaller body is not compressed: version 4 */
};

/* ---- its end ---- */

static void conn_free(struct cql_conn *c)
{
    c->magic = 0;
    buf_fini(&c->staged);
    buf_fini(&c->out);
    buf_fini(&c->scratch);
    free(c->body);
    free(c->in);
    free(c->unpacked);
    free(c->streams);
    free(c->free_streams);
    free(c);
}

/* Around everything that may call the owner: until the matching leave the memory stays. */
void cql_conn_enter(struct cql_conn *c)
{
    c->inside++;
}

bool cql_conn_leave(struct cql_conn *c)
{
    bool gone = c->gone;
    if (--c->inside == 0 && gone)
        conn_free(c);
    return !gone;
}

/* Each stream is taken away before its call is told: done may forget other calls, or close the
 * connection. */
static void calls_tell(struct cql_conn *c)
{
    for (unsigned n = 0; n < c->streams_count; n++) {
        struct cql_call *call = c->streams[n];
        c->streams[n] = NULL;
        if (call == NULL || call == &c->orphan)
            continue;
        c->in_flight--;
        call->done(call, NULL);
    }
}

/* conn of each call stays set until after done, so that done can ask why the connection ended. */
static void conn_finish(struct cql_conn *c)
{
    c->gone = true;
    c->open = false;
    cql_transport_close(c->transport);
    cql_transport_free(&c->transport);
    loop_watch_free(&c->watch);
    (void)close(c->fd); /* an error here loses nothing */
    calls_tell(c);
}

/* Ends the connection by a fault of its own, and tells the owner. Calls hear first. */
void cql_conn_fail(struct cql_conn *c, enum cql_end end)
{
    if (c->gone)
        return;
    cql_conn_enter(c);
    conn_finish(c);
    if (!c->disowned)
        c->opts.closed(c->opts.ctx, c, end, &c->why);
    (void)cql_conn_leave(c);
}

void cql_conn_close(struct cql_conn **cp)
{
    struct cql_conn *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CQL_CONN_MAGIC);
    c->disowned = true;
    if (c->gone)
        return; /* its calls are being told of that just now */
    if (c->why.text[0] == '\0')
        err_note_set(&c->why, "the client closed the connection");
    cql_conn_enter(c);
    conn_finish(c);
    (void)cql_conn_leave(c);
}

/* ---- bytes out ---- */

/* Readable is always wanted: a node closes a connection, and answers may come at any time. */
void cql_conn_watch(struct cql_conn *c)
{
    bool writing = !c->connected || c->wants_write || c->out.n > c->out_from;
    loop_watch_start(c->watch, LOOP_READABLE | LOOP_GONE | (writing ? LOOP_WRITABLE : 0));
}

/* Moves the rest to the front only when that is less than half: each byte moves seldom. */
static void out_compact(struct cql_conn *c)
{
    if (c->out_from == c->out.n) {
        buf_clear(&c->out);
    } else if (c->out_from > c->out.n / 2) {
        memmove(c->out.p, c->out.p + c->out_from, c->out.n - c->out_from);
        c->out.n -= c->out_from;
    } else {
        return;
    }
    c->out_from = 0;
}

/* Writes what lies in out. False: the connection has failed. */
bool cql_conn_write(struct cql_conn *c)
{
    while (c->out_from < c->out.n) {
        ssize_t n = cql_transport_write(c->transport, c->out.p + c->out_from,
                                        c->out.n - c->out_from, &c->why);
        if (n == CQL_BROKEN) {
            cql_conn_fail(c, CQL_END_LOST);
            return false;
        }
        if (n < 0) {
            c->blocked = true;
            break; /* readable or writable: the watch asks for both while bytes are unsent */
        }
        if (c->blocked) /* the node takes what lay before its door: it lives */
            c->heard_at = clock_mono(c->opts.clock);
        c->blocked = false;
        c->out_from += (size_t)n;
        c->sent_bytes += (uint64_t)n;
    }
    out_compact(c);
    return true;
}

/* Runs once a turn of the loop, so the requests of a turn share one write and one segment. */
void cql_conn_flush(struct cql_conn *c)
{
    MAGIC_CHECK(c, CQL_CONN_MAGIC);
    /* Nothing may go out before the socket is connected and TLS is up. */
    if (c->gone || !c->secured)
        return;
    if (c->staged.n > 0) {
        c->flushes++;
        if (c->framed)
            cql_segments_put(&c->out, buf_str(&c->staged), c->lz4);
        else
            buf_put(&c->out, buf_str(&c->staged));
        buf_clear(&c->staged);
        if (buf_status(&c->out) != ERR_OK) { /* memory; the limit was seen before */
            err_note_set(&c->why, "no memory for %zu bytes to send", c->out.n);
            cql_conn_fail(c, CQL_END_LOST);
            return;
        }
    }
    cql_conn_enter(c);
    bool fine = cql_conn_write(c);
    if (cql_conn_leave(c) && fine)
        cql_conn_watch(c);
}

/* ---- calls ---- */

bool cql_conn_has_room(const struct cql_conn *c)
{
    /* Half of the limit is kept for requests that are larger than others. */
    return c->open && c->free_count > 0 && c->in_flight < c->opts.streams_max &&
           c->staged.n + c->out.n - c->out_from < CQL_OUT_BYTES_MAX / 2;
}

struct buf *cql_conn_begin(struct cql_conn *c, struct cql_call *call, enum cql_opcode op,
                           unsigned flags, size_t body_bytes_max)
{
    MAGIC_CHECK(c, CQL_CONN_MAGIC);
    INVARIANT(!c->gone);
    INVARIANT(c->free_count > 0);
    /* The limit is seen here, before the body is written: nothing fails in between (cql_conn_end).
     */
    size_t unsent = c->staged.n + c->out.n - c->out_from;
    if (body_bytes_max > CQL_OUT_BYTES_MAX - CQL_HEAD_BYTES ||
        unsent + CQL_HEAD_BYTES + body_bytes_max > CQL_OUT_BYTES_MAX ||
        !buf_reserve(&c->staged, c->staged.n + CQL_HEAD_BYTES + body_bytes_max))
        return NULL;
    call->stream = c->free_streams[c->free_first];
    c->free_first = (c->free_first + 1) % c->streams_count;
    c->free_count--;
    call->conn = c;
    call->flushed = c->flushes;
    c->streams[call->stream] = call;
    c->in_flight++;
    c->begun = cql_wire_begin(&c->staged, c->opts.version, flags, call->stream, op);
    return &c->staged;
}

void cql_conn_end(struct cql_conn *c)
{
    struct buf *out = &c->staged;
    /* Version 5 compresses segments; version 4 compresses bodies, once the handshake is over. */
    bool pack = c->lz4 && !c->framed && c->open;
    size_t body = c->begun + CQL_HEAD_BYTES;
    if (pack && out->n - body >= PACK_BYTES_MIN) {
        buf_clear(&c->scratch);
        if (cql_body_pack(&c->scratch, (str){ .p = out->p + body, .n = out->n - body })) {
            memcpy(out->p + body, c->scratch.p, c->scratch.n);
            out->n = body + c->scratch.n;
            out->p[c->begun + 1] = (char)(out->p[c->begun + 1] | CQL_FLAG_COMPRESSED);
        }
    }
    cql_wire_end(out, c->begun);
    INVARIANT(buf_status(out) == ERR_OK); /* begin got the memory for it */
}

void cql_stream_free(struct cql_conn *c, int16_t stream)
{
    c->streams[stream] = NULL;
    c->free_streams[(c->free_first + c->free_count++) % c->streams_count] = stream;
}

/* The stream stays taken: its answer may still come, and must not meet another call. */
void cql_call_forget(struct cql_call *call)
{
    struct cql_conn *c = call->conn;
    call->conn = NULL;
    if (c == NULL)
        return;
    if (c->gone) { /* its calls are being told: not this one */
        if (c->streams[call->stream] == call) {
            c->streams[call->stream] = NULL;
            c->in_flight--;
        }
        return;
    }
    INVARIANT(c->streams[call->stream] == call);
    c->streams[call->stream] = &c->orphan;
    c->in_flight--;
    c->orphans++; /* the tick looks whether these are too many */
}

bool cql_call_unsent(const struct cql_call *call)
{
    /* flushes counts what was given to the socket. When it is as at begin, nothing of the call was.
     */
    return call->conn != NULL && call->conn->flushes == call->flushed;
}

/* ---- looks ---- */

bool cql_conn_is_open(const struct cql_conn *c)
{
    return c->open;
}

bool cql_conn_was_open(const struct cql_conn *c)
{
    return c->shaking == CQL_SHAKE_DONE;
}

unsigned cql_conn_in_flight(const struct cql_conn *c)
{
    return c->in_flight;
}

unsigned cql_conn_version(const struct cql_conn *c)
{
    return c->opts.version;
}

const struct err_note *cql_conn_why(const struct cql_conn *c)
{
    return &c->why;
}

void cql_conn_bytes(const struct cql_conn *c, uint64_t *sent, uint64_t *received)
{
    *sent = c->sent_bytes;
    *received = c->received_bytes;
}
