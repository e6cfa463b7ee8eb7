/* conn_shake.c - how a connection begins, and how it shows later that it still lives.
 *
 *   CONNECT --socket, TLS--> OPTIONS --SUPPORTED--> STARTUP --READY--> DONE
 *     of a node that wants a password: STARTUP --AUTHENTICATE--> AUTH --AUTH_SUCCESS--> DONE
 *
 * Version 5 frames what follows the answer to STARTUP, in both directions.
 * Invariant: the handshake has one request under way (call), which later asks for signs of life. */
#include "cql/conn_impl.h"

#include "loop/loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHAKE_BODY_BYTES = 4096 };

static const unsigned shake_next[CQL_SHAKES] = {
    [CQL_SHAKE_CONNECT] = BIT(CQL_SHAKE_OPTIONS),
    [CQL_SHAKE_OPTIONS] = BIT(CQL_SHAKE_STARTUP),
    [CQL_SHAKE_STARTUP] = BIT(CQL_SHAKE_AUTH) | BIT(CQL_SHAKE_DONE),
    [CQL_SHAKE_AUTH] = BIT(CQL_SHAKE_DONE),
    [CQL_SHAKE_DONE] = 0,
};

static void shake_move(struct cql_conn *c, enum cql_shake to)
{
    INVARIANT(shake_next[c->shaking] & BIT(to));
    c->shaking = to;
}

static void shake_answered(struct cql_call *call, struct cql_message *m);

static struct buf *shake_begin(struct cql_conn *c, enum cql_opcode op)
{
    c->call.done = shake_answered;
    struct buf *out = cql_conn_begin(c, &c->call, op, 0, SHAKE_BODY_BYTES);
    INVARIANT(out != NULL); /* the first request of a connection: a few bytes */
    return out;
}

static void shake_send(struct cql_conn *c)
{
    cql_conn_end(c);
    cql_conn_flush(c);
}

static void options_send(struct cql_conn *c)
{
    shake_move(c, CQL_SHAKE_OPTIONS);
    (void)shake_begin(c, CQL_OP_OPTIONS);
    shake_send(c);
}

static void startup_send(struct cql_conn *c, bool lz4)
{
    shake_move(c, CQL_SHAKE_STARTUP);
    c->lz4 = lz4;
    const struct cql_pair options[] = {
        { STR("CQL_VERSION"), STR("3.0.0") },
        { STR("DRIVER_NAME"), STR("palimpsest") },
        { STR("THROW_ON_OVERLOAD"), STR("1") }, /* else an overloaded node stops reading */
        { STR("COMPRESSION"), STR("lz4") },
    };
    struct buf *out = shake_begin(c, CQL_OP_STARTUP);
    /* COMPRESSION is the last of them, and left out without lz4. */
    cql_body_startup(out, options, (unsigned)COUNT_OF(options) - !lz4);
    shake_send(c);
}

/* The owner may use, close or forget the connection inside opened. */
static void shake_done(struct cql_conn *c)
{
    shake_move(c, CQL_SHAKE_DONE);
    c->open = true;
    c->opts.opened(c->opts.ctx, c);
}

/* A password in the clear goes no further than this machine, unless that was allowed. */
static bool password_may_go(const struct cql_conn *c)
{
    const struct sockaddr *a = (const void *)&c->opts.address;
    if (c->opts.tls != NULL || c->opts.plain_anywhere)
        return true;
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *in6 = (const void *)a;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* No user, or a password that must not go in the clear: the same end, with another note. */
static void auth_send(struct cql_conn *c, str authenticator)
{
    if (c->opts.user == NULL || !password_may_go(c)) {
        err_note_set(&c->why,
                     c->opts.user == NULL
                         ? "the node asks for a user and a password (%.*s), and none is set"
                         : "the node asks for a password (%.*s), and the connection has no TLS",
                     STR_ARG(str_take(authenticator, 80)));
        cql_conn_fail(c, CQL_END_DENIED);
        return;
    }
    shake_move(c, CQL_SHAKE_AUTH);
    struct buf *out = shake_begin(c, CQL_OP_AUTH_RESPONSE);
    cql_body_auth_plain(out, str_of(c->opts.user), str_of(c->opts.password));
    shake_send(c);
}

static void shake_failed(struct cql_conn *c, const struct cql_failure *f)
{
    err_note_set(&c->why, "the node refuses the connection: %s: %.*s", cql_code_name(f->code),
                 STR_ARG(str_take(f->message, 160)));
    bool denied = f->code == CQL_BAD_CREDENTIALS || f->code == CQL_UNAUTHORIZED;
    /* Later a protocol error is no question of the version. */
    bool version = f->code == CQL_PROTOCOL_ERROR && c->shaking <= CQL_SHAKE_STARTUP;
    cql_conn_fail(c, denied ? CQL_END_DENIED : version ? CQL_END_VERSION : CQL_END_LOST);
}

static void shake_odd(struct cql_conn *c, enum cql_opcode op)
{
    err_note_set(&c->why, "the node answers the handshake with opcode 0x%02x", (unsigned)op);
    cql_conn_fail(c, CQL_END_LOST);
}

static void startup_answered(struct cql_conn *c, const struct cql_answer *a)
{
    /* From this answer on, also when it asks for a password. */
    c->framed = c->opts.version >= 5;
    if (a->op == CQL_OP_READY)
        shake_done(c);
    else if (a->op == CQL_OP_AUTHENTICATE)
        auth_send(c, a->authenticator);
    else
        shake_odd(c, a->op);
}

static void shake_answered(struct cql_call *call, struct cql_message *m)
{
    struct cql_conn *c = CONTAINER_OF(call, struct cql_conn, call);
    if (m == NULL)
        return; /* the end of the connection is told elsewhere */
    const struct cql_answer *a = &m->answer;
    if (a->op == CQL_OP_ERROR)
        shake_failed(c, &a->failure);
    else if (c->shaking == CQL_SHAKE_OPTIONS && a->op == CQL_OP_SUPPORTED)
        startup_send(c, c->opts.lz4 && cql_supports(a, STR("COMPRESSION"), STR("lz4")));
    else if (c->shaking == CQL_SHAKE_STARTUP)
        startup_answered(c, a);
    else if (c->shaking == CQL_SHAKE_AUTH && a->op == CQL_OP_AUTH_SUCCESS)
        shake_done(c);
    else if (c->shaking == CQL_SHAKE_AUTH && a->op == CQL_OP_AUTH_CHALLENGE)
        err_note_set(&c->why, "the node wants more than a user and a password"),
            cql_conn_fail(c, CQL_END_DENIED);
    else
        shake_odd(c, a->op);
    cql_answer_fini(&m->answer);
}

/* ---- the socket ---- */

/* The socket is ready while it connects, or TLS has to go on. */
void cql_shake_go_on(struct cql_conn *c)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (!c->connected && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 &&
        error != 0) {
        err_note_set(&c->why, "connect: %s", strerror(error));
        cql_conn_fail(c, CQL_END_LOST);
        return;
    }
    c->connected = true;
    int opened = cql_transport_open(c->transport, &c->why);
    if (opened == CQL_BROKEN) {
        cql_conn_fail(c, CQL_END_LOST);
        return;
    }
    c->wants_write = opened == CQL_WANT_WRITE;
    c->secured = opened == 0;
    if (c->secured)
        options_send(c);
    else
        cql_conn_watch(c);
}

/* The watch's callback: all that happens to a connection by the kernel. */
static void conn_ready(void *ctx, unsigned events)
{
    struct cql_conn *c = ctx;
    MAGIC_CHECK(c, CQL_CONN_MAGIC);
    cql_conn_enter(c);
    if (events & LOOP_ERROR) {
        int error = 0;
        socklen_t bytes = sizeof error;
        (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes); /* 0: none is known */
        err_note_set(&c->why, "%s: %s", c->connected ? "lost" : "connect", strerror(error));
        cql_conn_fail(c, CQL_END_LOST);
    } else if (!c->secured) {
        cql_shake_go_on(c);
    } else {
        /* TLS may have to write before it can read: then writable means read again. */
        if (events & (LOOP_READABLE | LOOP_GONE) || c->wants_write)
            cql_conn_read(c);
        if (!c->gone && cql_conn_write(c))
            cql_conn_watch(c);
    }
    (void)cql_conn_leave(c);
}

static int socket_open(const struct cql_conn_opts *o, struct err_note *note)
{
    int fd = socket(o->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without */
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    if (fd < 0 ||
        (connect(fd, (const void *)&o->address, o->address_bytes) != 0 && errno != EINPROGRESS)) {
        err_note_set(note, "%s: %s", fd < 0 ? "socket" : "connect", strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    return fd;
}

struct cql_conn *cql_conn_open(const struct cql_conn_opts *o, struct err_note *note)
{
    int fd = socket_open(o, note);
    return fd < 0 ? NULL : cql_conn_over(fd, o);
}

struct cql_conn *cql_conn_over(int fd, const struct cql_conn_opts *o)
{
    INVARIANT(o->version >= CQL_VERSION_MIN);
    INVARIANT(o->version <= CQL_VERSION_MAX);
    INVARIANT(o->streams_max > 0);
    INVARIANT(o->streams_max + o->orphans_max + 1 <= CQL_STREAMS_MAX);
    struct cql_conn *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = CQL_CONN_MAGIC;
    c->opts = *o;
    (void)snprintf(c->host, sizeof c->host, "%s", o->host);
    c->opts.host = c->host;
    c->fd = fd;
    c->heard_at = clock_mono(o->clock);
    c->deadline = mono_add_ms(c->heard_at, o->connect_timeout_ms);
    buf_init(&c->staged, CQL_OUT_BYTES_MAX + CQL_HEAD_BYTES);
    buf_init(&c->out, 2 * (size_t)CQL_OUT_BYTES_MAX); /* segments add their headers */
    buf_init(&c->scratch, CQL_OUT_BYTES_MAX);
    /* orphans keep their streams, so there are more streams than requests. */
    c->streams_count = o->streams_max + o->orphans_max + 1; /* and the sign of life */
    c->streams = calloc(c->streams_count, sizeof *c->streams);
    c->free_streams = calloc(c->streams_count, sizeof *c->free_streams);
    c->in = malloc(CQL_IN_BYTES);
    c->unpacked = malloc(CQL_SEGMENT_BYTES_MAX);
    INVARIANT(c->streams != NULL && c->free_streams != NULL);
    INVARIANT(c->in != NULL && c->unpacked != NULL);
    for (; c->free_count < c->streams_count; c->free_count++)
        c->free_streams[c->free_count] = (int16_t)c->free_count;
    c->transport = cql_transport_new(fd, o->tls, c->host);
    c->watch = loop_watch_new(o->loop, fd, conn_ready, c);
    cql_conn_watch(c);
    return c;
}

/* ---- the sign of life ---- */

static void life_answered(struct cql_call *call, struct cql_message *m)
{
    struct cql_conn *c = CONTAINER_OF(call, struct cql_conn, call);
    c->asked_life = false;
    if (m != NULL)
        cql_answer_fini(&m->answer);
}

/* An answer of any kind is a sign of life (conn_in.c); OPTIONS is the cheapest question. */
static void life_ask(struct cql_conn *c)
{
    c->call.done = life_answered;
    /* Without a free stream so much is under way that an answer is due anyway. Else the deadline of
     * life_judge ends the connection. */
    if (c->free_count == 0 || cql_conn_begin(c, &c->call, CQL_OP_OPTIONS, 0, 0) == NULL)
        return;
    c->asked_life = true;
    cql_conn_end(c);
    cql_conn_flush(c);
}

/* The time without a sign counts from when a sign was wanted: a client that stood still itself has
 * heard nothing either. */
static void life_judge(struct cql_conn *c, mono now)
{
    const struct cql_conn_opts *o = &c->opts;
    if (now.ns < mono_add_ms(c->heard_at, o->heartbeat_ms).ns)
        return;
    /* The first look since something came: from now on a sign is wanted. */
    if (c->life_at.ns <= c->heard_at.ns)
        c->life_at = now;
    if (now.ns >= mono_add_ms(c->life_at, o->answer_timeout_ms).ns) {
        err_note_set(&c->why, "nothing came for %lld ms",
                     (long long)((now.ns - c->heard_at.ns) / NS_PER_MS));
        cql_conn_fail(c, CQL_END_LOST);
    } else if (!c->asked_life) {
        life_ask(c);
    }
}

/* The owner of the connection calls this each tick. May end it. */
void cql_conn_tick(struct cql_conn *c, mono now)
{
    MAGIC_CHECK(c, CQL_CONN_MAGIC);
    const struct cql_conn_opts *o = &c->opts;
    if (c->gone)
        return;
    if (c->shaking != CQL_SHAKE_DONE) {
        if (now.ns < c->deadline.ns)
            return;
        err_note_set(&c->why, "not ready within %lld ms (%s)", (long long)o->connect_timeout_ms,
                     c->connected ? "it accepts and does not answer" : "it does not accept");
        cql_conn_fail(c, CQL_END_LOST);
    } else if (c->orphans > o->orphans_max) {
        err_note_set(&c->why, "%u requests that were given up are still unanswered", c->orphans);
        cql_conn_fail(c, CQL_END_LOST);
    } else {
        life_judge(c, now);
    }
}
