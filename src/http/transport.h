/* transport.h - how the bytes of a connection travel: a table of four functions. Private to http.
 *
 * Model. A connection reads, writes, waits and shuts through the table of its listener. The table
 * of plain sockets is here. TLS, or a PROXY line ahead of the first head, is another table.
 *   What a transport remembers of a connection hangs at c->carried. It makes that in its first
 * call, and lets go of it in shutdown with TRANSPORT_OVER, which each connection gets once, last.
 *   The worker's epoll set knows the descriptor alone. A transport that has received bytes and not
 * yet given them away sets c->holds, and calls worker_again: then it is asked again.
 *   The sweep cuts a connection at its descriptor, whatever the transport. Thread: the worker's
 * that has the connection. */
#ifndef HTTP_TRANSPORT_H
#define HTTP_TRANSPORT_H

#include "http/exchange.h"

#include <sys/types.h>

enum { TRANSPORT_LATER = -2 }; /* nothing came yet */

enum transport_end {
    TRANSPORT_WROTE,  /* nothing is written any more; what the client sends is still read */
    TRANSPORT_BREAKS, /* the client must see that what it got is not whole; OVER follows */
    TRANSPORT_OVER    /* the descriptor is closed next */
};

struct http_transport {
    /* How many bytes came, at least one; TRANSPORT_LATER; else the client is gone. */
    ssize_t (*read)(struct http_conn *c, char *at, size_t most);
    /* How many bytes went; 0: there is no room now; -1: the client is gone. */
    ssize_t (*writev)(struct http_conn *c, const struct iovec *v, unsigned count);
    /* The connection is seen to once it is ready for these events of epoll: by worker_wants of
     * those that make it so. */
    void (*want)(struct http_conn *c, uint32_t events);
    void (*shutdown)(struct http_conn *c, enum transport_end how);
};

extern const struct http_transport transport_plain;

/* ---- what is written, in pieces ---- */

enum { PIECES_MAX = 6 };
struct pieces {
    struct iovec v[PIECES_MAX]; /* count of them */
    unsigned count;
    size_t bytes;
};

static inline void pieces_clear(struct pieces *p)
{
    p->count = 0;
    p->bytes = 0;
}

static inline void piece_add(struct pieces *p, str s)
{
    if (s.n == 0)
        return;
    INVARIANT(p->count < PIECES_MAX);
    p->v[p->count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)s.p, .iov_len = s.n };
    p->bytes += s.n;
}

/* As writev has it. */
static inline ssize_t pieces_send(struct http_conn *c, const struct pieces *p)
{
    ssize_t n = c->transport->writev(c, p->v, p->count);
    if (n > 0)
        atomic_fetch_add_explicit(&c->sent_bytes, (uint64_t)n, memory_order_relaxed);
    return n;
}

#endif
