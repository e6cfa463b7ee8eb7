/* Invariants: (1) a connection is in the epoll set of its lane alone, and only that lane's thread
 * touches it, but for what the sweep may see; (2) its exchange is IDLE unless it is being answered;
 * (3) rest_head or rest_body is not empty exactly while it waits for EPOLLOUT; (4) the first
 * kept_bytes of what the kernel has of it are answered; (5) it is told of once (EPOLLET), so
 * whoever leaves bytes that were not looked at asks to be told again. */
#include "http/lane.h"

#include "base/date.h"
#include "http/head.h"
#include "loop/busy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    LANE_HEAD_BYTES_MAX = 4096, /* a longer one is the library's */
    /* of answered requests with the kernel; one more look, and they are taken */
    LANE_KEPT_BYTES_MAX = 512,
    LANE_EVENTS_MAX = 64,
    LANE_PIPELINE_MAX = 16, /* requests of one connection before others get their turn */
    LANE_ACCEPTS_MAX = 16,
    /* a lane that runs and waits so much less than a full one gets of its connections */
    LANE_EASE_PERCENT = 30,
    LANE_NO_FILES_MS = 100, /* after an accept that found no descriptor or memory */
    LAST_LINES_BYTES = 6 + DATE_HTTP_BYTES + 4, /* "Date: ", line end, empty line */
    AGE_LINE_BYTES_MAX = 32
};

static const uint32_t read_events = EPOLLIN | EPOLLRDHUP | EPOLLET;

struct lane {
    uint32_t magic;
    struct listener *listener;
    struct http_server *server;
    int set, wake;
    pthread_t thread;
    bool running, resting; /* resting: does not accept for a while */
    atomic_uint conns_count;
    struct busy busy;
    int64_t date_s; /* of last_lines; 0: none yet */
    char last_lines[LAST_LINES_BYTES + 1];
    char head[LANE_KEPT_BYTES_MAX + LANE_HEAD_BYTES_MAX];
};
#define LANE_MAGIC 0x1a9e1a9eu

/* ---- ends ---- */

static void request_end(struct http_conn *c, bool whole)
{
    struct http_exchange *x = &c->x;
    const struct http_hooks *hooks = &c->server->hooks;
    c->rest_head = c->rest_body = STR_NONE;
    if (hooks->finished != NULL)
        hooks->finished(x, x->status, clock_mono(c->server->clock).ns - x->began.ns,
                        whole ? x->answer_bytes : 0, hooks->app);
    exchange_end(x);
    conn_phase_set(c, PHASE_IDLE);
}

/* Takes what was answered out of the kernel, which need not copy it. */
static bool kept_take(struct http_conn *c)
{
    size_t n = c->kept_bytes;
    c->kept_bytes = 0;
    return n == 0 || recv(c->fd, c->lane->head, n, MSG_TRUNC | MSG_DONTWAIT) == (ssize_t)n;
}

static void conn_end(struct http_conn *c)
{
    int fd = c->fd;
    if (c->x.stage == STAGE_SENT)
        request_end(c, false);
    (void)kept_take(c); /* or closing would reset, and the client lose what it has not read; if not,
                           it is gone */
    atomic_fetch_sub(&c->lane->conns_count, 1);
    conns_close(c);
    close(fd);
}

/* Out of its lane, in no other yet. */
static void conn_leave(struct http_conn *c)
{
    struct epoll_event none = { 0 };
    INVARIANT(epoll_ctl(c->lane->set, EPOLL_CTL_DEL, c->fd, &none) == 0);
    atomic_fetch_sub(&c->lane->conns_count, 1);
}

/* Workers get them in turn: lanes do not share the work evenly. */
static void conn_hand(struct http_conn *c)
{
    struct listener *l = c->lane->listener;
    if (!kept_take(c)) {
        conn_end(c);
        return;
    }
    conn_leave(c);
    conns_hand(c, l->workers[atomic_fetch_add(&l->handed_count, 1) % l->workers_count]);
}

/* It is w's from here on. False: the kernel has no memory for it, and c is over. */
static bool conn_enter(struct http_conn *c, struct lane *w)
{
    struct epoll_event e = { .events = read_events, .data.ptr = c };
    c->lane = w;
    atomic_fetch_add(&w->conns_count, 1);
    if (epoll_ctl(w->set, EPOLL_CTL_ADD, c->fd, &e) == 0)
        return true;
    conn_end(c);
    return false;
}

/* ---- sending ---- */

static void conn_wants(struct http_conn *c, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.ptr = c };
    INVARIANT(epoll_ctl(c->lane->set, EPOLL_CTL_MOD, c->fd, &e) == 0);
}

/* Date, and the end of the head. */
static str last_lines(struct lane *w)
{
    int64_t now = clock_wall(w->server->clock).ns;
    if (now / NS_PER_S != w->date_s) {
        w->date_s = now / NS_PER_S;
        memcpy(w->last_lines, "Date: ", 6);
        date_format_http(now, w->last_lines + 6);
        memcpy(w->last_lines + 6 + DATE_HTTP_BYTES, "\r\n\r\n", 5);
    }
    return (str){ .p = w->last_lines, .n = LAST_LINES_BYTES };
}

/* Empty: the answer has none. */
static str age_line(const struct http_exchange *x, char room[static AGE_LINE_BYTES_MAX])
{
    if (!x->has_age)
        return STR("");
    char *at = room + AGE_LINE_BYTES_MAX;
    uint64_t left = (uint64_t)x->age_s;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    at -= 5;
    memcpy(at, "Age: ", 5);
    return (str){ .p = at, .n = (size_t)(room + AGE_LINE_BYTES_MAX - at) };
}

enum { PIECES_MAX = 5 };
struct pieces {
    struct iovec v[PIECES_MAX];
    unsigned count;
    size_t bytes;
};

static void piece_add(struct pieces *p, str s)
{
    if (s.n == 0)
        return;
    INVARIANT(p->count < PIECES_MAX);
    p->v[p->count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)s.p, .iov_len = s.n };
    p->bytes += s.n;
}

/* How many bytes went; -1: the client is gone. */
static ssize_t pieces_send(const struct http_conn *c, struct pieces *p)
{
    struct msghdr m = { .msg_iov = p->v, .msg_iovlen = p->count };
    ssize_t n;
    do
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : n;
}

/* Fields of this request alone. p NULL: no room. */
static str own_fields(struct http_exchange *x)
{
    str all = STR("");
    for (const struct reply_header *h = x->reply_first; h != NULL && all.p != NULL; h = h->next)
        all = arena_printf(&x->arena, "%.*s%s: %s\r\n", STR_ARG(all), h->name, h->value);
    return all;
}

/* The lane's buffer is for the next connection: what is to be known of this request until its end
 * moves to its arena, and so does what is left of the answer's head. False: no room. */
static bool request_keep(struct http_conn *c, str request, const struct pieces *p,
                         size_t head_bytes, size_t sent)
{
    struct http_exchange *x = &c->x;
    size_t n;
    str copy = arena_copy(&x->arena, request);
    char *head = arena_alloc(&x->arena, head_bytes), *at = head;
    if (copy.p == NULL || head == NULL)
        return false;
    for (unsigned i = 0; at < head + head_bytes; at += p->v[i].iov_len, i++)
        memcpy(at, p->v[i].iov_base, p->v[i].iov_len);
    x->headers_count = 0;
    x->common = (struct http_common){ 0 };
    x->query = x->request_id = STR_NONE;
    INVARIANT(head_plain(x, copy, &n));
    c->rest_head = str_skip((str){ .p = head, .n = head_bytes }, sent);
    str ready_head, body;
    exchange_ready_parts(x, &ready_head, &body);
    c->rest_body = str_skip(body, sent > head_bytes ? sent - head_bytes : 0);
    return true;
}

/* False: c is over. */
static bool answer_send(struct http_conn *c, str request)
{
    struct pieces p = { .count = 0 };
    char age[AGE_LINE_BYTES_MAX];
    str head, body, own = own_fields(&c->x);
    exchange_ready_parts(&c->x, &head, &body);
    piece_add(&p, head);
    piece_add(&p, own);
    piece_add(&p, age_line(&c->x, age));
    piece_add(&p, last_lines(c->lane));
    size_t head_bytes = p.bytes;
    piece_add(&p, body);
    ssize_t sent = own.p == NULL ? -1 : pieces_send(c, &p);
    if (sent == (ssize_t)p.bytes) {
        request_end(c, true);
        return true;
    }
    if (sent < 0 || !request_keep(c, request, &p, head_bytes, (size_t)sent)) {
        conn_end(c);
        return false;
    }
    conn_wants(c, EPOLLOUT);
    return true;
}

static void rest_send(struct http_conn *c)
{
    struct pieces p = { .count = 0 };
    piece_add(&p, c->rest_head);
    piece_add(&p, c->rest_body);
    ssize_t sent = pieces_send(c, &p);
    if (sent < 0) {
        conn_end(c);
        return;
    }
    size_t of_head = (size_t)sent < c->rest_head.n ? (size_t)sent : c->rest_head.n;
    c->rest_head = str_skip(c->rest_head, of_head);
    c->rest_body = str_skip(c->rest_body, (size_t)sent - of_head);
    if (c->rest_head.n + c->rest_body.n > 0)
        return;
    request_end(c, true);
    conn_wants(c, read_events);
}

/* ---- requests ---- */

/* Is there a ready answer to the request at the start of bytes, to be sent now? *n: its size. When
 * not, the exchange is as before. */
static bool request_ready(struct http_conn *c, str bytes, size_t *n)
{
    struct http_exchange *x = &c->x;
    const struct http_hooks *hooks = &c->server->hooks;
    x->stage = STAGE_RUN;
    x->began = clock_mono(c->server->clock);
    bool plain = head_plain(x, bytes, n) && *n <= c->server->limits.head_bytes_max,
         asks = plain && !http_draining(x);
    if (asks && hooks->early(x, hooks->app) && x->ready != NULL) {
        x->stage = STAGE_SENT;
        conn_phase_set(c, PHASE_SEND);
        if (!http_draining(x)) /* still, now that whoever set it sees this one */
            return true;
        conn_phase_set(c, PHASE_IDLE);
    }
    c->asked = asks && x->status == 0;
    exchange_end(x);
    return false;
}

/* Answers what is ready of what has come. more: there may be what bytes do not show. True: c waits
 * for requests here. */
static bool conn_answer(struct http_conn *c, str bytes, bool more)
{
    for (unsigned i = 0; i < LANE_PIPELINE_MAX && bytes.n > 0; i++) {
        size_t n = 0;
        if (!request_ready(c, bytes, &n)) {
            conn_hand(c);
            return false;
        }
        c->kept_bytes += n;
        if (!answer_send(c, str_take(bytes, n)) || c->x.stage == STAGE_SENT)
            return false;
        bytes = str_skip(bytes, n);
    }
    if (more || bytes.n > 0)
        conn_wants(c, read_events);
    return true;
}

/* Looks at what the kernel has, kept bytes first. 0: the client has ended; -1: as errno says. */
static ssize_t conn_look(struct http_conn *c)
{
    ssize_t n;
    do
        n = recv(c->fd, c->lane->head, c->kept_bytes + LANE_HEAD_BYTES_MAX,
                 MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* ended: the client sends no more than is there. What was answered is taken when it is much, or
 * nothing is behind it: most requests go without that system call. True: c waits for requests
 * here. */
static bool conn_read(struct http_conn *c, bool ended)
{
    ssize_t n = c->kept_bytes > LANE_KEPT_BYTES_MAX && !kept_take(c) ? 0 : conn_look(c);
    if (n > 0 && (size_t)n <= c->kept_bytes)
        n = kept_take(c) ? conn_look(c) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return true;
    size_t kept = c->kept_bytes;
    if (n > 0)
        return conn_answer(c, (str){ .p = c->lane->head + kept, .n = (size_t)n - kept },
                           ended || (size_t)n == kept + LANE_HEAD_BYTES_MAX);
    conn_end(c);
    return false;
}

/* ---- accepting ---- */

/* The first that is not full: threads are few as long as they suffice. All are: the one with the
 * fewest. */
static struct lane *lane_for_next(struct listener *l)
{
    mono now = clock_mono(l->server->clock);
    struct lane *least = &l->lanes[0];
    for (unsigned i = 0; i < l->lanes_count; i++) {
        struct lane *w = &l->lanes[i];
        if (!busy_full(&w->busy, now))
            return w;
        if (atomic_load(&w->conns_count) < atomic_load(&least->conns_count))
            least = w;
    }
    return least;
}

static void conn_begin(struct listener *l, int fd, const struct sockaddr *addr)
{
    struct http_conn *c = conns_open(l, fd, addr);
    if (c == NULL)
        close(fd);
    else
        (void)conn_enter(c, lane_for_next(l)); /* else it was closed */
}

static void listen_watch(struct lane *w, int op)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = w->listener };
    INVARIANT(epoll_ctl(w->set, op, w->listener->fd, &e) == 0);
    w->resting = op == EPOLL_CTL_DEL;
}

static void accept_some(struct lane *w)
{
    for (unsigned i = 0; i < LANE_ACCEPTS_MAX; i++) {
        struct sockaddr_storage addr;
        socklen_t addr_n = sizeof addr;
        int fd = accept4(w->listener->fd, (struct sockaddr *)&addr, &addr_n,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            conn_begin(w->listener, fd, (const struct sockaddr *)&addr);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            listen_watch(w, EPOLL_CTL_DEL);
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* ---- the thread ---- */

/* Who takes from w, which is full; NULL: nobody has much less to do. */
static struct lane *lane_relief(const struct lane *w, mono now)
{
    struct listener *l = w->listener;
    if (l->server->lanes_restless)
        return &l->lanes[(unsigned)(w - l->lanes + 1) % l->lanes_count];
    for (unsigned i = 0; i < l->lanes_count; i++)
        if (busy_percent(&l->lanes[i].busy, now) + LANE_EASE_PERCENT <= busy_percent(&w->busy, now))
            return &l->lanes[i];
    return NULL;
}

/* relief: gets the connection when it waits for requests; NULL: w keeps it. */
static void event_see(struct lane *w, const struct epoll_event *e, struct lane *relief)
{
    if (e->data.ptr == w)
        return; /* woken to quit */
    if (e->data.ptr == w->listener) {
        accept_some(w);
        return;
    }
    struct http_conn *c = e->data.ptr;
    MAGIC_CHECK(c, CONN_MAGIC);
    if (c->x.stage == STAGE_SENT) {
        rest_send(c);
    } else if (conn_read(c, (e->events & EPOLLRDHUP) != 0) && relief != NULL) {
        conn_leave(c);
        (void)conn_enter(c, relief); /* else it was closed */
    }
}

static void *lane_run(void *lane)
{
    struct lane *w = lane;
    struct epoll_event events[LANE_EVENTS_MAX];
    MAGIC_CHECK(w, LANE_MAGIC);
    while (!atomic_load_explicit(&w->server->stopping, memory_order_relaxed)) {
        int n = epoll_wait(w->set, events, LANE_EVENTS_MAX, w->resting ? LANE_NO_FILES_MS : -1);
        mono now = clock_mono(w->server->clock);
        if (w->resting)
            listen_watch(w, EPOLL_CTL_ADD);
        bool restless = w->server->lanes_restless;
        struct lane *relief = busy_look(&w->busy, now) || restless ? lane_relief(w, now) : NULL;
        for (int i = 0; i < n; i++)
            event_see(w, &events[i],
                      i % 2 == 1 || restless ? relief : NULL); /* of every two one goes */
    }
    return NULL;
}

static bool lane_start(struct listener *l, struct lane *w)
{
    *w = (struct lane){ .magic = LANE_MAGIC, .listener = l, .server = l->server };
    w->set = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = w };
    return w->set >= 0 && w->wake >= 0 && epoll_ctl(w->set, EPOLL_CTL_ADD, w->wake, &e) == 0;
}

bool lanes_start(struct listener *l, unsigned count)
{
    l->lanes = calloc(count, sizeof *l->lanes);
    INVARIANT(l->lanes != NULL);
    bool fine = true;
    while (fine && l->lanes_count < count)
        fine = lane_start(l, &l->lanes[l->lanes_count++]);
    for (unsigned i = 0; fine && i < count; i++) { /* all are there before one accepts */
        struct lane *w = &l->lanes[i];
        listen_watch(w, EPOLL_CTL_ADD);
        fine = w->running = pthread_create(&w->thread, NULL, lane_run, w) == 0;
    }
    return fine;
}

/* The first of this listener that a lane still has; the table's lock is not held over its end. */
static struct http_conn *conn_left(struct listener *l)
{
    struct http_server *s = l->server;
    pthread_mutex_lock(&s->conns_lock);
    struct http_conn *c = s->conns;
    while (c != NULL &&
           (c->listen != &l->opts || c->lane == NULL)) /* in this order: others' lanes may run */
        c = c->next;
    pthread_mutex_unlock(&s->conns_lock);
    return c;
}

void lanes_quit(struct listener *l)
{
    for (unsigned i = 0; i < l->lanes_count; i++)
        if (l->lanes[i].running)
            (void)eventfd_write(l->lanes[i].wake, 1); /* cannot be full */
    for (unsigned i = 0; i < l->lanes_count; i++) {
        if (l->lanes[i].running)
            INVARIANT(pthread_join(l->lanes[i].thread, NULL) == 0);
        l->lanes[i].running = false;
    }
    for (struct http_conn *c = conn_left(l); c != NULL; c = conn_left(l))
        conn_end(c);
}

void lanes_stop(struct listener *l)
{
    lanes_quit(l);
    for (unsigned i = 0; i < l->lanes_count; i++) {
        struct lane *w = &l->lanes[i];
        if (w->set >= 0)
            close(w->set);
        if (w->wake >= 0)
            close(w->wake);
    }
    free(l->lanes);
    l->lanes = NULL;
    l->lanes_count = 0;
}
