/* conns.c - the table of all connections, and the sweep over it.
 *
 * A sweep sees each connection's phase and cuts it by shutdown(2); its worker then notices, and
 * ends it. A descriptor in the table is open: a connection leaves it before that is closed.
 *
 *   IDLE     nothing of a request is there: idle_timeout_ms.
 *   HEAD     some of its head is: head_timeout_ms.
 *   BODY, SEND   in each window of head_timeout_ms at least bytes_per_s_min times its length must
 *            move: body bytes that came, or bytes the client's kernel acknowledged (TCP_INFO),
 *            or that a client on a unix socket read (SIOCOUTQ).
 *   WORK, STREAM   ours: no limit here.
 *   LINGER   CONNS_LINGER_NS.
 * Nobody is cut because we were slow: not when bytes of a body lie unread; and the windows of SEND
 * are of the time in which something lay in the socket. */
#include "base/address.h"
#include "http/server.h"
#include "http/slow_kept.h"
#include "http/transport.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNS_PROBE_NS = 1000000000, CONNS_STALLED_NS = 1000000000 };
#define CONNS_LINGER_NS (INT64_C(2) * NS_PER_S)

/* Counted first: workers accept at once, and none of them passes the limit. False: they are so
 * many already. */
static bool conns_take(struct http_server *s)
{
    unsigned count = atomic_load(&s->conns_count);
    while (count < s->limits.connections_max)
        if (atomic_compare_exchange_weak(&s->conns_count, &count, count + 1))
            return true;
    return false;
}

static void peer_format(const struct sockaddr *addr, char peer[HTTP_PEER_BYTES])
{
    peer[0] = 0;
    if (addr == NULL)
        return;
    if (addr->sa_family == AF_UNIX) {
        (void)str_to_cstr(ADDRESS_LOCAL, peer, HTTP_PEER_BYTES); /* it fits */
        return;
    }
    const void *at = NULL;
    if (addr->sa_family == AF_INET)
        at = &((const struct sockaddr_in *)(const void *)addr)->sin_addr;
    else if (addr->sa_family == AF_INET6)
        at = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
    if (at == NULL || inet_ntop(addr->sa_family, at, peer, HTTP_PEER_BYTES) == NULL)
        peer[0] = 0;
}

static struct http_conn *conn_new(struct listener *l, int fd, const struct sockaddr *addr)
{
    struct http_conn *c = malloc(sizeof *c);
    INVARIANT(c != NULL);
    memset(c, 0, offsetof(struct http_conn, x) + offsetof(struct http_exchange, headers_inline));
    c->magic = CONN_MAGIC;
    c->server = l->server;
    c->listen = &l->opts;
    c->transport = l->opts.transport != NULL ? l->opts.transport : &transport_plain;
    c->fd = fd;
    peer_format(addr, c->peer);
    c->local = addr != NULL && addr->sa_family == AF_UNIX;
    c->swept_phase = UINT64_MAX;
    c->x.magic = EXCHANGE_MAGIC;
    c->x.self = &c->x;
    c->x.conn = c;
    c->x.headers = c->x.headers_inline;
    INVARIANT(pthread_mutex_init(&c->strand_lock, NULL) == 0);
    arena_init(&c->x.arena, l->server->limits.arena_bytes_max);
    arena_share(&c->x.arena, l->server->limits.budget);
    return c;
}

static void conn_add(struct http_server *s, struct http_conn *c)
{
    pthread_mutex_lock(&s->conns_lock);
    c->next = s->conns;
    if (s->conns != NULL)
        s->conns->prev = c;
    s->conns = c;
    pthread_mutex_unlock(&s->conns_lock);
}

static void conn_remove(struct http_server *s, struct http_conn *c)
{
    pthread_mutex_lock(&s->conns_lock);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    pthread_mutex_unlock(&s->conns_lock);
}

struct http_conn *conns_open(struct listener *l, int fd, const struct sockaddr *addr)
{
    if (!conns_take(l->server))
        return NULL;
    struct http_conn *c = conn_new(l, fd, addr);
    conn_add(l->server, c);
    return c;
}

void conns_close(struct http_conn *c)
{
    MAGIC_CHECK(c, CONN_MAGIC);
    INVARIANT(c->x.stage == STAGE_IDLE);
    struct http_server *s = c->server;
    conn_remove(s, c);
    c->transport->shutdown(c, TRANSPORT_OVER);
    close(c->fd);
    arena_fini(&c->x.arena);
    INVARIANT(pthread_mutex_destroy(&c->strand_lock) == 0);
    c->magic = 0;
    free(c);
    INVARIANT(atomic_fetch_sub(&s->conns_count, 1) > 0); /* last: another may come now */
}

/* ---- the sweep ---- */

static struct tcp_info conn_tcp(const struct http_conn *c)
{
    struct tcp_info info = { 0 };
    socklen_t n = sizeof info;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
        return (struct tcp_info){ 0 };
    return info;
}

/* How often the kernel is asked about a connection. */
static int64_t probe_every_ns(int64_t head_ns)
{
    return head_ns / 4 < CONNS_PROBE_NS ? head_ns / 4 : CONNS_PROBE_NS;
}

struct window {
    int64_t least_ns; /* of its length */
    int64_t spare_ns; /* longer by that, in which nothing has to move */
    int64_t rate;     /* bytes a second */
};

/* Did too little move in the window that ends now? Starts the next one when enough did. */
static bool window_is_overdue(struct http_conn *c, uint64_t bytes, const struct window *w,
                              int64_t now)
{
    if (c->window_ns == 0) {
        c->window_ns = now;
        c->window_bytes = bytes;
        return false;
    }
    int64_t elapsed = now - c->window_ns - w->spare_ns;
    if (elapsed < w->least_ns)
        return false;
    uint64_t least = (uint64_t)(w->rate * (elapsed / NS_PER_MS) / 1000);
    if (bytes - c->window_bytes < least)
        return true;
    c->window_ns = now;
    c->window_bytes = bytes;
    return false;
}

static bool body_is_overdue(const struct http_limits *l, struct http_conn *c, int64_t now)
{
    int unread = 0;
    const struct window w = { .least_ns = l->head_timeout_ms * NS_PER_MS,
                              .rate = l->body_bytes_per_s_min };
    if (!window_is_overdue(c, c->moved_bytes, &w, now))
        return false;
    if (ioctl(c->fd, SIOCINQ, &unread) != 0 || unread == 0)
        return true;
    c->window_ns = 0; /* its worker has not come to it */
    return false;
}

/* Of a unix socket the kernel tells what lies in it, with what that takes beside its bytes. A piece
 * is gone from there once all of it was read: so a client has the time that all that lies there may
 * take at the least rate. */
static bool local_is_overdue(const struct http_limits *l, struct http_conn *c, int64_t now)
{
    enum { QUEUED_MAX = 1 << 30 };
    int queued = 0;
    if (ioctl(c->fd, SIOCOUTQ, &queued) != 0 || queued <= 0 || queued > QUEUED_MAX) {
        c->window_ns = 0; /* all was taken: it is our turn */
        return false;
    }
    uint64_t sent = atomic_load_explicit(&c->sent_bytes, memory_order_relaxed),
             taken = sent + QUEUED_MAX - (uint64_t)queued;
    if (c->window_ns != 0 && taken < c->window_bytes)
        taken = c->window_bytes; /* more lies there, and takes room */
    const struct window w = { .least_ns = l->head_timeout_ms * NS_PER_MS,
                              .spare_ns = queued * NS_PER_S / l->send_bytes_per_s_min,
                              .rate = l->send_bytes_per_s_min };
    return window_is_overdue(c, taken, &w, now);
}

/* The kernel counts the time in which something was unsent or not acknowledged. */
static bool send_is_overdue(const struct http_limits *l, struct http_conn *c, int64_t now)
{
    int64_t head_ns = l->head_timeout_ms * NS_PER_MS;
    if (now - c->probe_ns < probe_every_ns(head_ns))
        return false;
    c->probe_ns = now;
    if (c->local)
        return local_is_overdue(l, c, now);
    const struct tcp_info info = conn_tcp(c);
    int64_t busy_ns = 1 + (int64_t)info.tcpi_busy_time * NS_PER_US;
    const struct window w = { .least_ns = head_ns, .rate = l->send_bytes_per_s_min };
    return window_is_overdue(c, info.tcpi_bytes_acked, &w, busy_ns);
}

static bool conn_is_overdue(const struct http_limits *l, struct http_conn *c, int64_t now)
{
    uint64_t phase = atomic_load_explicit(&c->phase, memory_order_relaxed);
    if (phase != c->swept_phase) {
        c->swept_phase = phase;
        c->phase_seen_ns = c->probe_ns = now;
        c->window_ns = 0;
    }
    uint64_t moved = atomic_load_explicit(&c->body_bytes, memory_order_relaxed);
    if (moved != c->moved_bytes || c->moved_ns == 0) {
        c->moved_bytes = moved;
        c->moved_ns = now;
    }
    switch (phase_of(phase)) {
    case PHASE_IDLE:
        return now - c->phase_seen_ns >= l->idle_timeout_ms * NS_PER_MS;
    case PHASE_HEAD:
        return now - c->phase_seen_ns >= l->head_timeout_ms * NS_PER_MS;
    case PHASE_BODY:
        return body_is_overdue(l, c, now);
    case PHASE_SEND:
        return send_is_overdue(l, c, now);
    case PHASE_LINGER:
        return now - c->phase_seen_ns >= CONNS_LINGER_NS;
    case PHASE_WORK:
    case PHASE_STREAM:
        return false;
    }
    return false;
}

/* Under the table's lock. A reader that was too slow is reset, or the kernel would keep what it has
 * not taken. Both calls fail only when the client is gone already. */
static void conn_cut(struct http_conn *c)
{
    const struct linger reset = { .l_onoff = 1 };
    c->cut = true;
    if (phase_of(c->swept_phase) == PHASE_SEND)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)shutdown(c->fd, SHUT_RDWR);
}

void http_server_sweep(struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    int64_t now = clock_mono(s->clock).ns;
    unsigned cut = 0;
    pthread_mutex_lock(&s->conns_lock);
    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (c->cut || !conn_is_overdue(&s->limits, c, now))
            continue;
        conn_cut(c);
        cut++;
    }
    pthread_mutex_unlock(&s->conns_lock);
    slow_sweep(s->slow, (mono){ .ns = now });
    atomic_fetch_add(&s->cut, cut);
    if (cut > 0)
        log_event(s->log, LOG_DEBUG, "http.cut", LOG_INT("connections", cut));
}

uint64_t http_server_cut(const struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    return atomic_load(&s->cut);
}

unsigned http_server_open_requests(const struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    struct http_server *self =
        (struct http_server *)(uintptr_t)s; /* the lock is no part of its value */
    int64_t now = clock_mono(s->clock).ns;
    unsigned count = 0;
    pthread_mutex_lock(&self->conns_lock);
    for (const struct http_conn *c = s->conns; c != NULL; c = c->next) {
        enum phase phase = phase_of(atomic_load_explicit(&c->phase, memory_order_relaxed));
        bool stalled =
            phase == PHASE_BODY && c->moved_ns != 0 && now - c->moved_ns > CONNS_STALLED_NS;
        count += phase != PHASE_IDLE && phase != PHASE_HEAD && phase != PHASE_LINGER && !stalled;
    }
    pthread_mutex_unlock(&self->conns_lock);
    return count;
}

static bool phase_sends(uint64_t word)
{
    return phase_of(word) == PHASE_SEND || phase_of(word) == PHASE_STREAM;
}

/* A worker sets the phase and then looks whether the server drains, or refuses; here that was set
 * before the look at phases. So what does not know of it is seen. */
void conns_owe(struct http_server *s)
{
    pthread_mutex_lock(&s->conns_lock);
    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        c->owed_phase = atomic_load(&c->phase);
        c->owed = phase_of(c->owed_phase) == PHASE_WORK || phase_sends(c->owed_phase);
    }
    pthread_mutex_unlock(&s->conns_lock);
}

/* Still the request it was: the phase has not changed, or from work to sending alone. A stream that
 * waits and one that sends are in the same change. */
static bool is_owed(const struct http_conn *c)
{
    uint64_t now = atomic_load(&c->phase), was = c->owed_phase;
    if (!c->owed || now == was)
        return c->owed;
    uint64_t changes = (now >> PHASE_BITS) - (was >> PHASE_BITS);
    return phase_sends(now) && changes == (phase_of(was) == PHASE_WORK);
}

unsigned http_server_owed_requests(const struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    struct http_server *self =
        (struct http_server *)(uintptr_t)s; /* the lock is no part of its value */
    unsigned count = 0;
    pthread_mutex_lock(&self->conns_lock);
    for (const struct http_conn *c = s->conns; c != NULL; c = c->next)
        count += is_owed(c);
    pthread_mutex_unlock(&self->conns_lock);
    unsigned deferred = atomic_load(&s->deferred);
    return count > deferred ? count : deferred;
}
