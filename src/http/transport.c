/* transport.c - plain sockets, of TCP and of files. Nothing is kept of a connection, and nothing is
 * held back. */
#include "http/transport.h"

#include "http/worker.h"

#include <errno.h>
#include <sys/socket.h>

static bool is_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static ssize_t plain_read(struct http_conn *c, char *at, size_t most)
{
    ssize_t n = recv(c->fd, at, most, MSG_DONTWAIT);
    return n < 0 && is_later() ? TRANSPORT_LATER : n;
}

static ssize_t plain_writev(struct http_conn *c, const struct iovec *v, unsigned count)
{
    const struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = count };
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 && is_later() ? 0 : n;
}

/* Both calls fail only when the client is gone, which the next look tells. */
static void plain_shutdown(struct http_conn *c, enum transport_end how)
{
    const struct linger reset = { .l_onoff = 1 };
    switch (how) {
    case TRANSPORT_WROTE:
        (void)shutdown(c->fd, SHUT_WR);
        break;
    case TRANSPORT_BREAKS:
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        break;
    case TRANSPORT_OVER:
        break;
    }
}

const struct http_transport transport_plain = {
    .read = plain_read, .writev = plain_writev, .want = worker_wants, .shutdown = plain_shutdown
};
