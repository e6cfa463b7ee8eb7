/* conn_in.c - reads what a node sends: bytes to segments, segments to envelopes, envelopes to
 * answers, and answers to their calls.
 *
 * Invariants:
 *   1 head_bytes counts the bytes of the envelope's head that are there; body_bytes those of its
 *     body, once the head is whole;
 *   2 a function that returns false has ended the connection: its caller touches nothing of the
 *     connection but through cql_conn_leave. */
#include "cql/conn_impl.h"

#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than so many reads of one connection would hold up the others of the loop. */
enum { READS_A_TURN = 8 };

static bool conn_corrupt(struct cql_conn *c)
{
    cql_conn_fail(c, CQL_END_LOST);
    return false;
}

/* Rows and prepared statements outlive the call, so their bytes are kept. All else is read at once,
 * and may lie in the input. With flags the kind does not stand at the beginning. */
static bool body_is_kept(const struct cql_head *head, str body)
{
    if (head->opcode != CQL_OP_RESULT)
        return false;
    return head->flags != 0 || body.n < 4 || get_be32(body.p) == CQL_RESULT_ROWS;
}

static struct cql_body *body_new(size_t n)
{
    struct cql_body *b = malloc(sizeof *b + n);
    if (b != NULL)
        b->n = n;
    return b;
}

static void warnings_tell(struct cql_conn *c, struct cql_answer *a)
{
    for (unsigned left = a->warnings_count; left > 0; left--) {
        str warning = cql_answer_warning(a);
        if (c->opts.warned != NULL)
            c->opts.warned(c->opts.ctx, warning);
    }
}

/* Gives the message to its call. Takes the message's columns and body. */
static bool message_deliver(struct cql_conn *c, int16_t stream, struct cql_message *m)
{
    /* Streams below 0 are events, which nobody asked for. */
    if (stream < 0) {
        if (m->answer.op == CQL_OP_EVENT && c->opts.event != NULL)
            c->opts.event(c->opts.ctx, &m->answer.event);
        cql_answer_fini(&m->answer);
        return !c->gone;
    }
    if (c->shaking != CQL_SHAKE_DONE && m->answer.op == CQL_OP_ERROR)
        /* a node that does not speak our version may not know our stream */
        stream = c->call.stream;
    struct cql_call *call = (unsigned)stream < c->streams_count ? c->streams[stream] : NULL;
    if (call == NULL) {
        err_note_set(&c->why, "the node answered on stream %d, on which nothing was asked", stream);
        cql_answer_fini(&m->answer);
        return conn_corrupt(c);
    }
    /* Free before done: done may send the next request on it. */
    cql_stream_free(c, stream);
    if (call == &c->orphan) {
        c->orphans--;
        cql_answer_fini(&m->answer);
    } else {
        c->in_flight--;
        call->conn = NULL;
        call->done(call, m);
    }
    if (!c->gone && c->open)
        c->opts.room(c->opts.ctx, c);
    return !c->gone;
}

/* owned: the body's memory, or NULL: it lies in the input and is copied where it is kept. False:
 * the connection has ended. */
static bool message_take(struct cql_conn *c, const struct cql_head *head, str body,
                         struct cql_body *owned)
{
    if (owned == NULL && body_is_kept(head, body)) {
        owned = body_new(body.n);
        if (owned == NULL) {
            err_note_set(&c->why, "no memory for an answer of %zu bytes", body.n);
            return conn_corrupt(c);
        }
        memcpy(owned->bytes, body.p, body.n);
        body.p = owned->bytes;
    }
    struct cql_message m = { .body = owned };
    struct err_note note = { .text = "" };
    if (cql_answer_parse(head, body, &m.answer, &note) != ERR_OK) {
        err_note_set(&c->why, "an answer cannot be read: %s", note.text);
        free(owned);
        return conn_corrupt(c);
    }
    warnings_tell(c, &m.answer);
    bool here = message_deliver(c, head->stream, &m);
    free(m.body);
    return here;
}

/* An answer that is larger than allowed, as it is sent or unpacked, is dropped. Its caller gets an
 * error that this client makes; the other calls go on. */
static bool body_skipped(struct cql_conn *c, size_t body_bytes)
{
    /* The head is used up before anything is called: a callback may read on. */
    struct cql_head head = c->head;
    c->head_bytes = 0;
    char bytes[256];
    struct buf b;
    buf_init(&b, sizeof bytes);
    buf_put_be32(&b, CQL_ANSWER_TOO_LARGE);
    char text[128];
    int n = snprintf(text, sizeof text, "the answer has %zu bytes, more than %zu", body_bytes,
                     c->opts.answer_bytes_max);
    buf_put_str16(&b, (str){ .p = text, .n = (size_t)n });
    head.opcode = CQL_OP_ERROR;
    head.flags = 0;
    bool here = message_take(c, &head, buf_str(&b), NULL);
    buf_fini(&b);
    return here;
}

/* Version 4: a body that is LZ4. */
static bool body_unpack(struct cql_conn *c, const struct cql_head *head, str body)
{
    size_t bytes;
    struct cql_body *b = NULL;
    /* The size is said by the node, so it is judged before memory is taken. */
    if (!c->lz4 || !cql_body_unpacked_bytes(body, CQL_BODY_BYTES_MAX, &bytes)) {
        err_note_set(&c->why, "a compressed answer of %zu bytes cannot be read", body.n);
        return conn_corrupt(c);
    }
    if (bytes > c->opts.answer_bytes_max)
        return body_skipped(c, bytes);
    b = body_new(bytes);
    if (b == NULL || !cql_body_unpack(body, b->bytes, bytes)) {
        err_note_set(&c->why, "a compressed answer of %zu bytes cannot be unpacked", body.n);
        free(b);
        return conn_corrupt(c);
    }
    return message_take(c, head, (str){ .p = b->bytes, .n = bytes }, b);
}

static bool body_take(struct cql_conn *c, str body, struct cql_body *owned)
{
    struct cql_head head = c->head;
    c->head_bytes = 0;
    if (head.flags & CQL_FLAG_COMPRESSED && !c->framed) {
        bool here = body_unpack(c, &head, body);
        free(owned);
        return here;
    }
    return message_take(c, &head, body, owned);
}

static bool head_take(struct cql_conn *c)
{
    c->head = cql_head_get(c->head_at);
    const struct cql_head *h = &c->head;
    /* A node that refuses our version answers in its own. */
    bool refused = c->shaking != CQL_SHAKE_DONE && h->opcode == CQL_OP_ERROR;
    if (!h->answer || (h->version != c->opts.version && !refused)) {
        err_note_set(&c->why, "not an answer of protocol version %u: it begins with 0x%02x",
                     c->opts.version, (unsigned char)c->head_at[0]);
        return conn_corrupt(c);
    }
    if (h->body_bytes > CQL_BODY_BYTES_MAX) {
        err_note_set(&c->why, "an answer claims %u bytes", h->body_bytes);
        return conn_corrupt(c);
    }
    c->body_bytes = 0;
    return true;
}

/* Takes the next piece of a body that is not whole: into memory of its own, or nowhere when it is
 * too large. */
static bool body_gather(struct cql_conn *c, str *in)
{
    str piece = str_take(*in, c->head.body_bytes - c->body_bytes);
    *in = str_skip(*in, piece.n);
    bool skip = c->head.body_bytes > c->opts.answer_bytes_max;
    if (!skip && c->body == NULL) {
        c->body = body_new(c->head.body_bytes);
        if (c->body == NULL) {
            err_note_set(&c->why, "no memory for an answer of %u bytes", c->head.body_bytes);
            return conn_corrupt(c);
        }
    }
    if (!skip)
        memcpy(c->body->bytes + c->body_bytes, piece.p, piece.n);
    c->body_bytes += piece.n;
    if (c->body_bytes < c->head.body_bytes)
        return true;
    if (skip)
        return body_skipped(c, c->head.body_bytes);
    struct cql_body *b = c->body;
    c->body = NULL;
    return body_take(c, (str){ .p = b->bytes, .n = b->n }, b);
}

/* Takes one envelope, or the rest of the input. A body that is whole in the input is not copied. */
static bool envelope_take(struct cql_conn *c, str *in)
{
    if (c->head_bytes < CQL_HEAD_BYTES) {
        str piece = str_take(*in, CQL_HEAD_BYTES - c->head_bytes);
        memcpy(c->head_at + c->head_bytes, piece.p, piece.n);
        c->head_bytes += (unsigned)piece.n;
        *in = str_skip(*in, piece.n);
        if (c->head_bytes < CQL_HEAD_BYTES)
            return true;
        if (!head_take(c))
            return false;
    }
    size_t bytes = c->head.body_bytes;
    if (c->body_bytes > 0 || in->n < bytes || bytes > c->opts.answer_bytes_max)
        return in->n == 0 || body_gather(c, in);
    str body = str_take(*in, bytes);
    *in = str_skip(*in, bytes);
    return body_take(c, body, NULL);
}

/* The envelopes of one segment. A segment that is not self-contained holds a piece of one. */
static bool payload_take(struct cql_conn *c, const struct cql_segment *s)
{
    /* A self-contained segment begins and ends with an envelope. */
    bool broken = s->self_contained && c->head_bytes > 0;
    str left = s->payload;
    while (!broken && left.n > 0)
        if (!envelope_take(c, &left))
            return false;
    if (broken || (s->self_contained && c->head_bytes > 0)) {
        err_note_set(&c->why, "a self-contained segment holds a piece of an answer");
        return conn_corrupt(c);
    }
    return true;
}

/* Takes what can be taken. Framing may begin in the middle: after the answer to STARTUP all is
 * segments. */
static bool input_take(struct cql_conn *c, str *in)
{
    while (in->n > 0 && !c->framed)
        if (!envelope_take(c, in))
            return false;
    struct cql_segment s;
    while (in->n > 0) {
        switch (cql_segment_take(*in, c->lz4, c->unpacked, &s, &c->why)) {
        case CQL_SEGMENT_SHORT:
            return true;
        case CQL_SEGMENT_BAD:
            return conn_corrupt(c);
        case CQL_SEGMENT_WHOLE:
            *in = str_skip(*in, s.used);
            if (!payload_take(c, &s))
                return false;
        }
    }
    return true;
}

/* One read, and all that follows from it. False: the connection has ended. *more: the socket may
 * have more. */
static bool conn_read_once(struct cql_conn *c, bool *more)
{
    size_t room = CQL_IN_BYTES - c->in_bytes;
    ssize_t n = cql_transport_read(c->transport, c->in + c->in_bytes, room, &c->why);
    *more = n == (ssize_t)room || (n > 0 && cql_transport_holds(c->transport));
    c->wants_write = n == CQL_WANT_WRITE;
    if (n == CQL_WANT_READ || n == CQL_WANT_WRITE)
        return true;
    if (n == 0)
        err_note_set(&c->why, "the node closed the connection");
    if (n <= 0)
        return conn_corrupt(c);
    c->received_bytes += (uint64_t)n;
    c->in_bytes += (size_t)n;
    /* Any byte is a sign of life. */
    c->heard_at = clock_mono(c->opts.clock);
    str in = { .p = c->in, .n = c->in_bytes };
    if (!input_take(c, &in))
        return false;
    memmove(c->in, in.p, in.n);
    c->in_bytes = in.n;
    return true;
}

void cql_conn_read(struct cql_conn *c)
{
    bool more = true;
    /* TLS may hold bytes that the socket does not show: these are read in any case. */
    for (unsigned n = 0; more && (n < READS_A_TURN || cql_transport_holds(c->transport)); n++)
        if (!conn_read_once(c, &more))
            return;
}
