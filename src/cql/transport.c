/* transport.c - a connected socket that never blocks, and the choice between plain and TLS. For
 * conn.c.
 *
 * Invariants:
 *   1 a transport that broke stays broken and says the same reason each time;
 *   2 no call raises SIGPIPE: OpenSSL writes through cql_socket_write, too. */
#include "cql/transport_tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct cql_transport {
    uint32_t magic;
    struct cql_socket socket;
    struct cql_session *session; /* NULL: plain */
    bool broken, closed;
    struct err_note why; /* it broke */
};
#define CQL_TRANSPORT_MAGIC 0xc9174a05u

/* The result of a call of the socket; a failure is kept in s->error. again: what to wait for when
 * the socket is not ready. */
static ssize_t socket_result(struct cql_socket *s, ssize_t n, int again)
{
    if (n >= 0)
        return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return again;
    s->error = errno;
    return CQL_BROKEN;
}

ssize_t cql_socket_read(struct cql_socket *s, char *to, size_t n)
{
    ssize_t got;
    do
        got = recv(s->fd, to, n, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    s->ended = s->ended || got == 0; /* the node has closed its side */
    return socket_result(s, got, CQL_WANT_READ);
}

ssize_t cql_socket_write(struct cql_socket *s, const char *from, size_t n)
{
    ssize_t taken;
    do
        taken = send(s->fd, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (taken < 0 && errno == EINTR);
    return socket_result(s, taken, CQL_WANT_WRITE);
}

struct cql_transport *cql_transport_new(int fd, struct cql_tls *tls, const char *host)
{
    struct cql_transport *t = malloc(sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct cql_transport){ .magic = CQL_TRANSPORT_MAGIC, .socket.fd = fd };
    if (tls != NULL) {
        /* Without a session the transport is broken at once: cql_transport_open tells why. */
        t->session = cql_session_new(tls, &t->socket, host, &t->why);
        t->broken = t->session == NULL;
    }
    return t;
}

/* The socket's descriptor is the connection's to close. */
void cql_transport_free(struct cql_transport **tp)
{
    struct cql_transport *t = *tp;
    *tp = NULL;
    if (t == NULL)
        return;
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    cql_session_free(&t->session);
    t->magic = 0;
    free(t);
}

/* Keeps the first reason why the transport broke, and gives it each time. */
static ssize_t transport_result(struct cql_transport *t, ssize_t result, const char *doing,
                                struct err_note *note)
{
    if (result != CQL_BROKEN)
        return result;
    /* A session sets its own reason. */
    if (!t->broken && t->session == NULL)
        err_note_set(&t->why, "cannot %s: %s", doing, strerror(t->socket.error));
    t->broken = true;
    if (note != NULL)
        *note = t->why;
    return result;
}

int cql_transport_open(struct cql_transport *t, struct err_note *note)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    INVARIANT(!t->closed);
    int result = CQL_BROKEN;
    if (!t->broken)
        result = t->session == NULL ? 0 : cql_session_open(t->session, &t->why);
    return (int)transport_result(t, result, "connect", note);
}

ssize_t cql_transport_read(struct cql_transport *t, char *to, size_t n, struct err_note *note)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    INVARIANT(n > 0);
    INVARIANT(!t->closed);
    ssize_t result = CQL_BROKEN;
    if (!t->broken)
        result = t->session == NULL ? cql_socket_read(&t->socket, to, n)
                                    : cql_session_read(t->session, to, n, &t->why);
    return transport_result(t, result, "read", note);
}

ssize_t cql_transport_write(struct cql_transport *t, const char *from, size_t n,
                            struct err_note *note)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    INVARIANT(n > 0);
    INVARIANT(!t->closed);
    ssize_t result = CQL_BROKEN;
    if (!t->broken)
        result = t->session == NULL ? cql_socket_write(&t->socket, from, n)
                                    : cql_session_write(t->session, from, n, &t->why);
    return transport_result(t, result, "write", note);
}

/* A session may have decrypted more than the last read took. A poll of the socket would not tell.
 */
bool cql_transport_holds(const struct cql_transport *t)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    return !t->broken && t->session != NULL && cql_session_holds(t->session);
}

/* A broken session says no good-bye: SSL_shutdown must not follow a fatal error. */
void cql_transport_close(struct cql_transport *t)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    if (!t->closed && !t->broken && t->session != NULL)
        cql_session_close(t->session);
    t->closed = true;
}

const char *cql_transport_cipher(const struct cql_transport *t)
{
    MAGIC_CHECK(t, CQL_TRANSPORT_MAGIC);
    return t->session == NULL ? "" : cql_session_cipher(t->session);
}
