/* stream.c - pulls the pieces of an answer, and sends them as there is room.
 *
 * Invariants
 *  1. pull is called only when all that it gave before is with the kernel.
 *  2. What waits for its client is rest_head, then rest_body, then tail: rest_head is a copy of
 * what lay in the worker's memory, rest_body is the caller's own, tail is static.
 *  3. A stream with a body is in the list of its worker, and counts as one of the server's.
 *  4. A request does not end while a wake is on its way: nobody wakes it once over has returned,
 * and the wake that may still be posted then runs first. */
#include "http/stream.h"

#include "http/conn.h"
#include "http/server.h"
#include "http/streams.h"
#include "http/trace.h"
#include "http/worker.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    STREAM_TURN_PULLS = 8, /* of one connection before others get their turn */
    STREAM_TURN_BYTES = 128 << 10,
    SIZE_LINE_BYTES = 20
};

/* ---- answering ---- */

static bool stream_admit(struct http_server *s)
{
    if (atomic_fetch_add(&s->streams, 1) < s->limits.connections_max / 2)
        return true;
    atomic_fetch_sub(&s->streams, 1);
    return false;
}

static void wake_run(struct task *t)
{
    struct http_conn *c = CONTAINER_OF(t, struct http_conn, stream.wake);
    atomic_store(&c->stream.woken, false);
    conn_stream(c, stream_rouse(c));
}

void http_answer_pull(struct http_exchange *x, int status, int64_t length,
                      const struct http_stream *of, void *ctx)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(status != 204 && status != 304);
    INVARIANT(length >= -1);
    INVARIANT(x->routed && x->stage == STAGE_RUN);
    struct conn_stream *s = &x->conn->stream;
    struct http_server *server = x->conn->server;
    INVARIANT(s->of == NULL);
    s->of = of;
    s->ctx = ctx;
    s->left = length;
    s->chunked = length < 0 && x->version_11;
    bool bare = x->method == HTTP_HEAD || length == 0 || x->reply_failed;
    if (!bare && !stream_admit(server)) {
        x->reply_first = x->reply_last = NULL; /* they were for another answer */
        server->hooks.refuse(x, 503, "overloaded#streams",
                             STR("half of the connections that there may be "
                                 "(http.connections_max) carry streams; try again later"),
                             server->hooks.app);
        return;
    }
    x->patient = true;
    s->wake.run = wake_run;
    s->state = x->reply_failed ? STREAM_NONE : bare ? STREAM_BARE : STREAM_BEGINS;
    atomic_store(&s->wakes, !bare);
    http_answer(x, status, STR(""));
}

void http_wake(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    struct conn_stream *s = &x->conn->stream;
    if (atomic_load(&s->wakes) && !atomic_exchange(&s->woken, true))
        worker_post(x->conn->worker, &s->wake);
}

void http_give_up(struct http_exchange *x)
{
    atomic_store(&x->conn->stream.given_up, true);
    http_wake(x);
}

void stream_frame(const struct http_conn *c, struct buf *b)
{
    if (c->stream.left >= 0)
        buf_printf(b, "Content-Length: %lld\r\n", (long long)c->stream.left);
    else if (c->stream.chunked)
        buf_put(b, STR("Transfer-Encoding: chunked\r\n"));
}

/* ---- ends ---- */

void stream_tell(struct http_conn *c)
{
    struct conn_stream *s = &c->stream;
    if (s->of == NULL || s->told)
        return;
    s->told = true;
    atomic_store(&s->wakes, false);
    if (s->of->over == NULL)
        return;
    struct check_note before = trace_enter(&c->x);
    s->of->over(s->ctx);
    trace_leave(before);
}

static void unsent_limit(struct http_conn *c, int bytes)
{
    if (!c->local) /* fails only when the client is gone, which the next look tells */
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void stream_end(struct http_conn *c)
{
    struct conn_stream *s = &c->stream;
    stream_tell(c);
    if (s->limited)
        unsent_limit(c, 0);
    if (s->listed)
        worker_stream_drop(c);
    if (s->state > STREAM_BARE)
        INVARIANT(atomic_fetch_sub(&c->server->streams, 1) > 0);
    *s = (struct conn_stream){ .state = STREAM_NONE };
}

/* got: STREAM_WHOLE or STREAM_CUT. */
static enum stream_got stream_ended(struct http_conn *c, enum stream_got got)
{
    c->stream.ended = got;
    stream_tell(c);
    if (!atomic_load(&c->stream.woken))
        return got;
    c->stream.state = STREAM_ENDED;
    return STREAM_GOES_ON;
}

enum stream_got stream_drop(struct http_conn *c)
{
    return stream_ended(c, STREAM_CUT);
}

/* The client could take the end of the connection for that of the body. */
static enum stream_got stream_failed(struct http_conn *c)
{
    if (c->stream.left < 0 && !c->stream.chunked)
        c->transport->shutdown(c, TRANSPORT_BREAKS);
    return stream_ended(c, STREAM_CUT);
}

/* ---- pieces ---- */

/* False: it failed, or keeps no promise about its length. */
static bool piece_pull(struct http_conn *c, char *room, str *piece)
{
    struct conn_stream *s = &c->stream;
    struct http_pull p = { .room = room, .ending = http_draining(&c->x) };
    struct check_note before = trace_enter(&c->x);
    s->said = s->of->pull(s->ctx, &p);
    trace_leave(before);
    *piece = p.piece;
    INVARIANT(s->said != HTTP_PULL_MORE || p.piece.n > 0);
    INVARIANT(!p.ending || !s->of->endless || s->said >= HTTP_PULL_END);
    if (s->said == HTTP_PULL_FAILED || s->left < 0)
        return s->said != HTTP_PULL_FAILED;
    if (p.piece.n > (uint64_t)s->left ||
        (s->said == HTTP_PULL_END && p.piece.n != (uint64_t)s->left))
        return false;
    s->left -= (int64_t)p.piece.n;
    if (s->left == 0)
        s->said = HTTP_PULL_END;
    return true;
}

static str piece_tail(const struct conn_stream *s, size_t n)
{
    if (!s->chunked)
        return STR("");
    if (s->said == HTTP_PULL_END)
        return n > 0 ? STR("\r\n0\r\n\r\n") : STR("0\r\n\r\n");
    return n > 0 ? STR("\r\n") : STR("");
}

/* Of p so much went; its first `owned` bytes lie in the worker's memory. False: no memory. */
static bool rest_keep(struct http_conn *c, const struct pieces *p, size_t owned, size_t sent)
{
    size_t n = owned > sent ? owned - sent : 0;
    char *head = n > 0 ? malloc(n) : NULL, *at = head;
    if (n > 0 && head == NULL)
        return false;
    size_t skip = sent;
    for (unsigned i = 0; n > 0 && at < head + n; i++) {
        str part = str_skip((str){ .p = p->v[i].iov_base, .n = p->v[i].iov_len }, skip);
        skip -= p->v[i].iov_len - part.n;
        memcpy(at, part.p, part.n);
        at += part.n;
    }
    c->rest_head = (struct conn_bytes){ .p = head, .n = n };
    return true;
}

static bool rest_is_out(const struct http_conn *c)
{
    return c->rest_head_sent == c->rest_head.n && c->rest_body.n == 0 && c->stream.tail.n == 0;
}

/* All that was given is with the kernel. */
static void piece_is_out(struct http_conn *c)
{
    free(c->rest_head.p);
    c->rest_head = (struct conn_bytes){ .p = NULL };
    c->rest_head_sent = 0;
    c->x.answer_bytes += c->stream.piece_bytes;
    c->stream.piece_bytes = 0;
}

static void rest_skip(struct http_conn *c, size_t sent)
{
    size_t head = c->rest_head.n - c->rest_head_sent;
    head = sent < head ? sent : head;
    sent -= head;
    c->rest_head_sent += head;
    size_t body = sent < c->rest_body.n ? sent : c->rest_body.n;
    c->rest_body = str_skip(c->rest_body, body);
    c->stream.tail = str_skip(c->stream.tail, sent - body);
}

/* head, and behind it one piece and what frames it; some may stay as the rest. False: the client is
 * gone, or there is no memory. */
static bool piece_send(struct http_conn *c, struct pieces *p, const char *room, str piece)
{
    struct conn_stream *s = &c->stream;
    char line[SIZE_LINE_BYTES];
    if (s->chunked && piece.n > 0) {
        int n = snprintf(line, sizeof line, "%zx\r\n", piece.n);
        piece_add(p, (str){ .p = line, .n = (size_t)n });
    }
    bool lent = (uintptr_t)piece.p - (uintptr_t)room >= HTTP_PULL_ROOM_BYTES;
    size_t owned = p->bytes + (lent ? 0 : piece.n);
    s->piece_bytes = piece.n;
    s->tail = piece_tail(s, piece.n);
    piece_add(p, piece);
    piece_add(p, s->tail);
    ssize_t sent = p->count > 0 ? pieces_send(c, p) : 0;
    if (sent < 0 || !rest_keep(c, p, owned, (size_t)sent))
        return false;
    c->rest_body = lent ? piece : STR("");
    rest_skip(c, (size_t)sent > owned ? (size_t)sent - owned : 0);
    return true;
}

/* ---- the machine ---- */

/* In a drain nobody waits for a client that does not read. The kernel is asked, for a transport may
 * have sent less than there is room for. */
static bool stream_is_given_up(const struct http_conn *c)
{
    struct pollfd room = { .fd = c->fd, .events = POLLOUT };
    return c->stream.of->endless && http_draining(&c->x) && poll(&room, 1, 0) == 0;
}

/* A piece waits for its client. */
static enum stream_got stream_full(struct http_conn *c)
{
    if (stream_is_given_up(c))
        return stream_failed(c);
    c->stream.state = STREAM_FULL;
    trace_note(&c->x, TRACE_REST);
    conn_phase_turn(c, PHASE_SEND);
    c->transport->want(c, EPOLLOUT);
    return STREAM_GOES_ON;
}

/* Nothing waits for its client, and there is no more now. */
static enum stream_got stream_wait(struct http_conn *c)
{
    if (atomic_load(&c->left))
        return stream_ended(c, STREAM_CUT);
    c->stream.state = STREAM_WAITS;
    if ((c->events & EPOLLRDHUP) == 0)
        c->transport->want(c, EPOLLRDHUP);
    return STREAM_GOES_ON;
}

/* p: what goes before the next piece. */
static enum stream_got stream_pump(struct http_conn *c, struct pieces *p)
{
    struct conn_stream *s = &c->stream;
    char room[HTTP_PULL_ROOM_BYTES];
    size_t turn = 0;
    for (unsigned i = 0; i < STREAM_TURN_PULLS && turn < STREAM_TURN_BYTES; i++) {
        str piece;
        if (!piece_pull(c, room, &piece))
            return stream_failed(c);
        if (s->said != HTTP_PULL_END && !s->limited)
            unsent_limit(c, HTTP_STREAM_UNSENT_BYTES);
        s->limited = s->limited || s->said != HTTP_PULL_END;
        if (!piece_send(c, p, room, piece))
            return stream_ended(c, STREAM_CUT);
        if (!rest_is_out(c))
            return stream_full(c);
        piece_is_out(c);
        if (s->said != HTTP_PULL_MORE)
            return s->said == HTTP_PULL_END ? stream_ended(c, STREAM_WHOLE) : stream_wait(c);
        pieces_clear(p);
        turn += piece.n;
    }
    s->state = STREAM_FLOWS;
    worker_again(c);
    return STREAM_GOES_ON;
}

static enum stream_got stream_pump_more(struct http_conn *c)
{
    struct pieces p;
    pieces_clear(&p);
    return stream_pump(c, &p);
}

enum stream_got stream_begin(struct http_conn *c, struct pieces *head)
{
    INVARIANT(c->stream.state == STREAM_BEGINS);
    c->stream.state = STREAM_FLOWS;
    c->stream.listed = true;
    worker_stream_add(c);
    conn_phase_set(c, PHASE_STREAM);
    return stream_pump(c, head);
}

static enum stream_got stream_rest_send(struct http_conn *c)
{
    struct conn_stream *s = &c->stream;
    struct pieces p;
    pieces_clear(&p);
    piece_add(&p, conn_rest_head(c));
    piece_add(&p, c->rest_body);
    piece_add(&p, s->tail);
    ssize_t sent = pieces_send(c, &p);
    if (sent < 0)
        return stream_ended(c, STREAM_CUT);
    rest_skip(c, (size_t)sent);
    if (!rest_is_out(c))
        return stream_is_given_up(c) ? stream_failed(c) : STREAM_GOES_ON;
    piece_is_out(c);
    conn_phase_turn(c, PHASE_STREAM);
    if (s->said == HTTP_PULL_MORE)
        return stream_pump_more(c);
    return s->said == HTTP_PULL_END ? stream_ended(c, STREAM_WHOLE) : stream_wait(c);
}

/* Its worker does not read now, and waits for nothing of its socket. */
static void stream_socket_rest(struct http_conn *c, uint32_t events)
{
    bool left = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (left)
        atomic_store(&c->left, true);
    /* of what is always told no more than once */
    c->transport->want(c, left ? EPOLLONESHOT : EPOLLRDHUP);
}

enum stream_got stream_see(struct http_conn *c, uint32_t events)
{
    switch (c->stream.state) {
    case STREAM_FULL:
        return stream_rest_send(c);
    case STREAM_WAITS:
        stream_socket_rest(c, events);
        return atomic_load(&c->left) ? stream_ended(c, STREAM_CUT) : STREAM_GOES_ON;
    case STREAM_FLOWS:
    case STREAM_ENDED:
        stream_socket_rest(c, events);
        return STREAM_GOES_ON;
    case STREAM_NONE:
    case STREAM_BARE:
    case STREAM_BEGINS:
        break;
    }
    INVARIANT(false); /* none of these is being sent in pieces */
}

enum stream_got stream_turn(struct http_conn *c)
{
    return c->stream.state == STREAM_FLOWS ? stream_pump_more(c) : STREAM_GOES_ON;
}

enum stream_got stream_rouse(struct http_conn *c)
{
    struct conn_stream *s = &c->stream;
    if (s->state == STREAM_ENDED)
        return s->ended;
    if (s->said == HTTP_PULL_LATER)
        s->said = HTTP_PULL_MORE;
    bool given_up = atomic_exchange(&s->given_up, false);
    if (s->state == STREAM_FULL && (given_up || stream_is_given_up(c)))
        return stream_failed(c);
    return s->state == STREAM_WAITS ? stream_pump_more(c) : STREAM_GOES_ON;
}
