/* conn.c - a connection reads requests, waits while they are in work, sends answers, and ends.
 *
 * Invariants
 *  1. Its exchange is IDLE, and nothing is in rest_head and rest_body, unless a request is under
 *     way.
 *  2. What the exchange says of a head points into `head`, or into the worker's room within the
 *     very call that received it.
 *  3. It is in its worker's epoll set until its end, and reads nothing while stage is RUN or SENT:
 *     what came behind a request waits in left_over, and beyond that with the kernel. */
#include "http/conn.h"

#include "http/gone.h"
#include "http/head.h"
#include "http/server.h"
#include "http/slow_kept.h"
#include "http/streams.h"
#include "http/trace.h"
#include "http/worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    CONN_PIPELINE_MAX = 16,           /* requests of one connection before others get their turn */
    CONN_BODY_TURN_BYTES = 128 << 10, /* the same of a body */
    CONN_LINGER_LOOKS = 4
};

/* What a step leaves. */
enum step {
    STEP_NEXT, /* what comes next may be looked at */
    STEP_READ, /* more must come first */
    STEP_TURN, /* there may be more to look at, after others */
    STEP_WAIT, /* in work, or being sent, or lingering */
    STEP_OVER  /* the connection is no more */
};

static const uint32_t wants_reading = EPOLLIN | EPOLLRDHUP;

/* ---- bytes of its own ---- */

static void bytes_free(struct conn_bytes *b)
{
    free(b->p);
    *b = (struct conn_bytes){ .p = NULL };
}

/* s may not lie in b. False: there is no memory, and b is as it was. */
static bool bytes_set(struct conn_bytes *b, str s)
{
    char *p = s.n == 0 ? NULL : malloc(s.n);
    if (s.n > 0 && p == NULL)
        return false;
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    free(b->p);
    *b = (struct conn_bytes){ .p = p, .n = s.n };
    return true;
}

static ssize_t bytes_receive(struct http_conn *c, char *at, size_t most)
{
    return c->transport->read(c, at, most);
}

static void conn_wants(struct http_conn *c, uint32_t events)
{
    c->transport->want(c, events);
}

/* ---- ends ---- */

static void request_end(struct http_conn *c, bool whole)
{
    struct http_exchange *x = &c->x;
    const struct http_hooks *hooks = &c->server->hooks;
    int status = x->stage == STAGE_SENT ? x->status : 0;
    uint64_t bytes = whole || stream_is(c) ? x->answer_bytes : 0;
    trace_note(x, whole ? TRACE_SENT : TRACE_CUT);
    int64_t ns = clock_mono(c->server->clock).ns - x->began.ns;
    if (c->stream.of != NULL)
        stream_end(c);
    if (hooks->finished != NULL)
        hooks->finished(x, status, ns, bytes, hooks->app);
    if (slow_wants(c->server->slow, ns))
        trace_keep(x, status, ns, bytes);
    exchange_end(x);
    bytes_free(&c->head);
    bytes_free(&c->rest_head);
    c->rest_head_sent = 0;
    c->rest_body = STR_NONE;
    conn_phase_set(c, PHASE_IDLE);
}

void conn_end(struct http_conn *c)
{
    if (c->x.stage != STAGE_IDLE)
        request_end(c, false);
    bytes_free(&c->left_over);
    worker_forgets(c);
    conns_close(c);
}

static enum step conn_over(struct http_conn *c)
{
    conn_end(c);
    return STEP_OVER;
}

/* Drops what has come. */
static enum step linger(struct http_conn *c)
{
    size_t size;
    char *room = worker_room(c->worker, &size);
    for (unsigned i = 0; i < CONN_LINGER_LOOKS; i++) {
        ssize_t n = bytes_receive(c, room, size);
        if (n == TRANSPORT_LATER)
            break;
        if (n > 0)
            c->lingered += (uint64_t)n;
        if (n <= 0 || c->lingered > c->server->limits.body_drain_bytes_max)
            return conn_over(c);
    }
    conn_wants(c, wants_reading);
    return STEP_WAIT;
}

/* All is sent, and there is to be no more. */
static enum step linger_begin(struct http_conn *c)
{
    bytes_free(&c->left_over);
    c->lingers = true;
    conn_phase_set(c, PHASE_LINGER);
    c->transport->shutdown(c, TRANSPORT_WROTE);
    return linger(c);
}

/* ---- sending ---- */

/* What the exchange says of its head lies in the worker's room: it moves to the connection. */
static bool head_keep(struct http_conn *c, str head)
{
    if (!bytes_set(&c->head, head))
        return false;
    exchange_rebase(&c->x, head, c->head.p);
    return true;
}

/* So much of the answer went; the worker's buffers are for others. False: no memory. */
static bool rest_keep(struct http_conn *c, const struct pieces *p, size_t head_bytes, str body,
                      size_t sent)
{
    char *head = malloc(head_bytes), *at = head;
    if (head == NULL)
        return false;
    for (unsigned i = 0; at < head + head_bytes; at += p->v[i].iov_len, i++)
        memcpy(at, p->v[i].iov_base, p->v[i].iov_len);
    c->rest_head = (struct conn_bytes){ .p = head, .n = head_bytes };
    c->rest_head_sent = sent < head_bytes ? sent : head_bytes;
    c->rest_body = str_skip(body, sent - c->rest_head_sent);
    return true;
}

static enum step answer_is_out(struct http_conn *c)
{
    bool close = c->x.close;
    request_end(c, true);
    return close ? linger_begin(c) : STEP_NEXT;
}

static enum step stream_step(struct http_conn *c, enum stream_got got)
{
    if (got == STREAM_GOES_ON)
        return STEP_WAIT;
    if (got == STREAM_CUT)
        return conn_over(c);
    c->x.close = c->x.close || http_draining(&c->x); /* its head may not have said so */
    return answer_is_out(c);
}

static enum step stream_send(struct http_conn *c)
{
    struct pieces p;
    struct answer_parts parts;
    const struct conn_stream *s = &c->stream;
    c->x.stage = STAGE_SENT;
    c->x.close = c->x.close || (s->left < 0 && !s->chunked);
    if (!answer_parts(&c->x, worker_answer_room(c->worker), &parts))
        return stream_step(c, stream_drop(c));
    pieces_clear(&p);
    piece_add(&p, parts.head);
    piece_add(&p, parts.own);
    piece_add(&p, worker_last_lines(c->worker));
    return stream_step(c, stream_begin(c, &p));
}

/* head: as long as it lies in the worker's room; else empty. */
static enum step answer_send(struct http_conn *c, str head)
{
    struct pieces p;
    struct answer_parts parts;
    c->x.stage = STAGE_SENT;
    if (!answer_parts(&c->x, worker_answer_room(c->worker), &parts))
        return conn_over(c);
    pieces_clear(&p);
    piece_add(&p, parts.head);
    piece_add(&p, parts.own);
    piece_add(&p, worker_last_lines(c->worker));
    size_t head_bytes = p.bytes;
    piece_add(&p, parts.body);
    ssize_t sent = pieces_send(c, &p);
    if (sent == (ssize_t)p.bytes)
        return answer_is_out(c);
    if (sent < 0 || !rest_keep(c, &p, head_bytes, parts.body, (size_t)sent) ||
        (head.n > 0 && !head_keep(c, head)))
        return conn_over(c);
    trace_note(&c->x, TRACE_REST);
    conn_phase_set(c, PHASE_SEND);
    conn_wants(c, EPOLLOUT);
    return STEP_WAIT;
}

/* Of a handler. */
static enum step answer_begin(struct http_conn *c)
{
    return stream_is(c) ? stream_send(c) : answer_send(c, STR(""));
}

static enum step rest_send(struct http_conn *c)
{
    struct pieces p;
    pieces_clear(&p);
    piece_add(&p, conn_rest_head(c));
    piece_add(&p, c->rest_body);
    ssize_t sent = pieces_send(c, &p);
    if (sent < 0)
        return conn_over(c);
    if (sent == (ssize_t)p.bytes)
        return answer_is_out(c);
    size_t head_left = c->rest_head.n - c->rest_head_sent,
           of_head = (size_t)sent < head_left ? (size_t)sent : head_left;
    c->rest_head_sent += of_head;
    c->rest_body = str_skip(c->rest_body, (size_t)sent - of_head);
    return STEP_WAIT;
}

/* ---- requests ---- */

static enum step work_begin(struct http_conn *c)
{
    if (serve_run(&c->x) || c->x.deferred)
        return STEP_WAIT;
    INVARIANT(c->x.status != 0);
    return answer_begin(c);
}

/* False: the server ends. http_server_free says so before it looks at phases: it sees this one, or
 * is seen here. */
static bool work_may_begin(struct http_conn *c)
{
    conn_phase_set(c, PHASE_WORK);
    return !atomic_load(&c->server->stopping);
}

/* False: the client is gone, or got a part and has no room for the rest. */
static bool continue_is_sent(struct http_conn *c)
{
    struct pieces p;
    str text = STR("HTTP/1.1 100 Continue\r\n\r\n");
    size_t all = text.n;
    ssize_t sent = 1;
    while (text.n > 0 && sent > 0) {
        pieces_clear(&p);
        piece_add(&p, text);
        sent = pieces_send(c, &p);
        text = str_skip(text, sent > 0 ? (size_t)sent : 0);
    }
    /* No room for any, behind answers that wait: a client goes on by itself after a while. */
    return text.n == 0 || (sent == 0 && text.n == all);
}

/* A request whose head is fine, and lies in the worker's room. came: what is behind it there. */
static enum step request_begin(struct http_conn *c, str head, bool came)
{
    struct http_exchange *x = &c->x;
    if (!x->has_body && serve_early(x))
        return answer_send(c, head);
    if (!head_keep(c, head))
        return conn_over(c);
    serve_head(x);
    if (x->stage == STAGE_RUN)
        return x->status == 0 ? work_begin(c) : answer_send(c, STR(""));
    bool waits = x->stage == STAGE_BODY && x->expects_continue && x->version_11;
    return waits && !came && !continue_is_sent(c) ? conn_over(c) : STEP_NEXT;
}

static enum step head_take(struct http_conn *c, str *bytes)
{
    struct http_exchange *x = &c->x;
    size_t n, most = c->server->limits.head_bytes_max;
    if (bytes->n == 0)
        return STEP_READ;
    x->began = clock_mono(c->server->clock);
    struct head_fault fault = head_read(x, *bytes, &n);
    if (n == 0 && bytes->n <= most) {
        exchange_end(x);
        if (phase_of(atomic_load_explicit(&c->phase, memory_order_relaxed)) != PHASE_HEAD)
            conn_phase_set(c, PHASE_HEAD);
        return STEP_READ;
    }
    if (n == 0 || (fault.status == 0 && n > most))
        fault = head_too_large(str_take(*bytes, most));
    if (!work_may_begin(c))
        return conn_over(c);
    x->stage = STAGE_RUN;
    str head = { .p = bytes->p, .n = n == 0 ? bytes->n : n };
    *bytes = (str){ .p = bytes->p + head.n, .n = bytes->n - head.n };
    if (fault.status == 0)
        return request_begin(c, head, bytes->n > 0);
    *bytes = STR("");
    serve_refuse(x, fault);
    return answer_send(c, head);
}

static enum step body_is_read(struct http_conn *c)
{
    return work_may_begin(c) ? work_begin(c) : conn_over(c);
}

/* More of it is refused than is worth reading: the answer goes out now. */
static enum step body_is_hopeless(struct http_conn *c)
{
    c->x.close = true;
    c->x.stage = STAGE_RUN;
    return answer_send(c, STR(""));
}

static enum step chunks_take(struct http_conn *c, str *bytes)
{
    str piece;
    enum chunk_got got;
    while ((got = chunk_next(&c->x.chunks, bytes, &piece)) == CHUNK_DATA)
        if (!serve_body_take(&c->x, piece))
            return body_is_hopeless(c);
    if (got == CHUNK_MORE)
        return STEP_READ;
    if (got == CHUNK_END) { /* odd: see head.h; more than read_size lets others keep */
        bool last = c->x.chunks.odd || bytes->n > c->server->limits.head_bytes_max + 1;
        c->x.close = c->x.close || last;
        return body_is_read(c);
    }
    serve_refuse_body(&c->x, got == CHUNK_TOO_LARGE);
    return answer_send(c, STR(""));
}

static enum step body_take(struct http_conn *c, str *bytes)
{
    struct http_exchange *x = &c->x;
    if (bytes->n == 0)
        return STEP_READ;
    if (x->body_declared == UINT64_MAX)
        return chunks_take(c, bytes);
    str piece = str_take(*bytes, x->body_declared - x->body_seen);
    *bytes = str_skip(*bytes, piece.n);
    if (!serve_body_take(x, piece))
        return body_is_hopeless(c);
    return x->body_seen == x->body_declared ? body_is_read(c) : STEP_READ;
}

bool conn_collects(const struct http_conn *c)
{
    return c->x.stage == STAGE_BODY || c->x.stage == STAGE_DROP;
}

/* ---- reading ---- */

/* Takes of bytes, which lie in the worker's room, and keeps what is left. */
static enum step bytes_take(struct http_conn *c, str bytes)
{
    enum step got = STEP_NEXT;
    for (unsigned i = 0; got == STEP_NEXT && i < CONN_PIPELINE_MAX; i++)
        got = conn_collects(c) ? body_take(c, &bytes) : head_take(c, &bytes);
    if (got == STEP_OVER || c->lingers)
        return got;
    if (got == STEP_WAIT && c->x.close)
        bytes = STR(""); /* no request is read behind this one */
    if (!bytes_set(&c->left_over, bytes)) {
        if (got != STEP_WAIT)
            return conn_over(c);
        bytes_free(&c->left_over); /* others may hold the exchange: what is lost ends it later */
        c->x.close = true;
        return got;
    }
    c->left_scanned = bytes.n;
    if (got == STEP_NEXT)
        got = bytes.n > 0 ? STEP_TURN : STEP_READ;
    if (got == STEP_TURN)
        worker_again(c);
    if (got != STEP_WAIT)
        conn_wants(c, wants_reading);
    return got;
}

/* A declared body goes straight to where it is collected. */
static enum step body_receive(struct http_conn *c, char *room, size_t n)
{
    n = n < CONN_BODY_TURN_BYTES ? n : CONN_BODY_TURN_BYTES;
    ssize_t got = bytes_receive(c, room, n);
    if (got == TRANSPORT_LATER)
        return STEP_READ;
    if (got <= 0)
        return conn_over(c);
    if (!serve_body_came(&c->x, (size_t)got))
        return body_is_hopeless(c);
    return c->x.body_seen == c->x.body_declared ? body_is_read(c) : STEP_READ;
}

/* left_over, in the worker's room. */
static str left_over_lay(struct http_conn *c, size_t *size)
{
    char *room = worker_room(c->worker, size);
    INVARIANT(c->left_over.n <= *size);
    if (c->left_over.n > 0)
        memcpy(room, c->left_over.p, c->left_over.n);
    return (str){ .p = room, .n = c->left_over.n };
}

/* Some bytes of a head more: they are read when its end is there, or never will be. */
static bool head_still_grows(const struct http_conn *c, str bytes)
{
    return c->left_over.n > 0 && !conn_collects(c) && bytes.n <= c->server->limits.head_bytes_max &&
           !head_has_end(bytes, c->left_scanned);
}

/* How much of the room is filled. What is kept behind a request counts nowhere: no more than a
 * head. Where chunks end is not known: more than that behind them ends the connection. */
static size_t read_size(const struct http_conn *c, size_t room)
{
    uint64_t body = conn_collects(c) ? c->x.body_declared - c->x.body_seen : 0;
    uint64_t most = c->server->limits.head_bytes_max + 1;
    return body < room && most + body < room ? (size_t)(most + body) : room;
}

static enum step conn_read(struct http_conn *c)
{
    size_t size, n = 0;
    char *body = conn_collects(c) ? serve_body_room(&c->x, &n) : NULL;
    if (body != NULL) {
        INVARIANT(c->left_over.n == 0); /* of the body, it would come first */
        enum step got = body_receive(c, body, n);
        if (got == STEP_NEXT) /* answered, and nothing is left over */
            conn_wants(c, wants_reading);
        return got;
    }
    str bytes = left_over_lay(c, &size);
    size = read_size(c, size);
    ssize_t got = bytes_receive(c, (char *)(uintptr_t)bytes.p + bytes.n, size - bytes.n);
    if (got == TRANSPORT_LATER)
        return STEP_READ;
    if (got <= 0)
        return conn_over(c);
    bytes.n += (size_t)got;
    if (!head_still_grows(c, bytes))
        return bytes_take(c, bytes);
    if (!bytes_set(&c->left_over, bytes))
        return conn_over(c);
    c->left_scanned = bytes.n;
    return STEP_READ;
}

/* ---- what its worker calls ---- */

/* In work: nothing is read, and who leaves is told of once. */
static void work_see(struct http_conn *c, uint32_t events)
{
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) {
        conn_wants(c, EPOLLRDHUP);
        return;
    }
    conn_wants(c, EPOLLONESHOT); /* of what is always told no more than once */
    if (!atomic_exchange(&c->left, true))
        gone_left(&c->x);
}

/* Its answer is out. */
static void conn_go_on(struct http_conn *c, enum step got)
{
    if (got != STEP_NEXT)
        return;
    conn_wants(c, wants_reading);
    if (c->left_over.n > 0 || c->holds)
        worker_again(c);
}

bool conn_see(struct http_conn *c, uint32_t events)
{
    MAGIC_CHECK(c, CONN_MAGIC);
    if (c->lingers) {
        (void)linger(c);
        return false;
    }
    if (c->x.stage == STAGE_RUN) {
        work_see(c, events);
        return false;
    }
    if (c->x.stage == STAGE_SENT) {
        conn_go_on(c, stream_is(c) ? stream_step(c, stream_see(c, events)) : rest_send(c));
        return false;
    }
    if (c->again)
        return false;
    enum step got = conn_read(c);
    return (got == STEP_READ || got == STEP_NEXT) && c->x.stage == STAGE_IDLE &&
           c->left_over.n == 0;
}

void conn_stream(struct http_conn *c, enum stream_got got)
{
    conn_go_on(c, stream_step(c, got));
}

/* What was received before, then what its transport holds. */
static void conn_read_on(struct http_conn *c)
{
    size_t size;
    enum step got = c->left_over.n > 0 ? bytes_take(c, left_over_lay(c, &size)) : STEP_READ;
    if (got == STEP_READ && c->holds)
        (void)conn_see(c, EPOLLIN); /* as if its descriptor told of them */
}

void conn_again(struct http_conn *c)
{
    MAGIC_CHECK(c, CONN_MAGIC);
    if (c->x.stage == STAGE_SENT && stream_is(c))
        conn_stream(c, stream_turn(c));
    else if ((c->x.stage == STAGE_IDLE || conn_collects(c)) && !c->lingers)
        conn_read_on(c);
}

void conn_answer(struct http_conn *c)
{
    MAGIC_CHECK(c, CONN_MAGIC);
    INVARIANT(c->x.stage == STAGE_RUN && c->x.status != 0);
    if (c->x.deferred)
        INVARIANT(atomic_fetch_sub(&c->server->deferred, 1) > 0);
    trace_note(&c->x, TRACE_SEND);
    conn_go_on(c, answer_begin(c));
}
