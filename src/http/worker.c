/* worker.c - threads that wait for connections, sockets that listen, and tasks.
 *
 * Invariants
 *  1. Tasks that wait have `woken`: the eventfd was written, or the worker looks by itself before
 *     it waits. So a group of tasks costs one write.
 *  2. A connection is in the set of its worker alone, and only that worker touches it, but for what
 *     the sweep may see; it is in the worker's list exactly while `again` says so.
 *  3. A connection is freed only by its own worker, in a call for it: so what one epoll_wait tells
 * of the others stays true. */
#include "http/worker.h"

#include "base/date.h"
#include "http/conn.h"
#include "http/trace.h"
#include "loop/busy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKER_TASKS_MAX = 256, /* run in one turn: sockets get between them */
    WORKER_EVENTS_MAX = 64,
    WORKER_ACCEPTS_MAX = 16,
    WORKER_BODIES_MAX = 4, /* read of in one turn: who is answered at once gets between them */
    WORKER_ROOM_BYTES = 64 << 10, /* beyond a head */
    /* a worker that runs and waits so much less than a full one gets of its connections */
    WORKER_EASE_PERCENT = 30,
    WORKER_NO_FILES_MS = 100, /* after an accept that found no descriptor or memory */
    WORKER_NAME_BYTES = 16,
    LAST_LINES_BYTES = 6 + DATE_HTTP_BYTES + 4, /* "Date: ", line end, empty line */
    ANSWER_HEAD_BYTES_MAX = 64 << 20            /* of what one answer's own fields may take */
};

struct http_worker {
    uint32_t magic;
    struct http_server *server;
    int set, wake; /* wake: eventfd */
    pthread_t thread;
    bool running;
    bool resting;                /* does not accept for a while */
    bool gone[HTTP_LISTENS_MAX]; /* inherited listeners that are not in the set any more */
    pthread_mutex_t lock;        /* of the next, but a look at woken */
    struct task_list tasks;
    atomic_bool woken;
    atomic_uint conns_count;
    struct busy busy;
    unsigned bodies_from;    /* whose turn it is, of those whose bodies are read */
    struct http_conn *again; /* a list; its order does not matter */
    struct http_conn *streams;
    struct task drain;
    int64_t date_s; /* of last_lines; 0: none yet */
    char last_lines[LAST_LINES_BYTES + 1];
    struct answer_room answer;
    size_t room_bytes;
    char *room;
};
#define WORKER_MAGIC 0x3080e401u

/* The worker whose thread this is; NULL: none's. */
static _Thread_local struct http_worker *worker_here;

/* ---- tasks ---- */

static void worker_lock(struct http_worker *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
}

static void worker_unlock(struct http_worker *w)
{
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

/* Under the lock. woken is set first: the worker may be here and look at it before the write
 * returns. Its own thread looks before it waits. */
static void worker_wake(struct http_worker *w)
{
    if (!atomic_exchange(&w->woken, true) && w != worker_here)
        (void)eventfd_write(w->wake, 1); /* cannot be full */
}

void worker_post(struct http_worker *w, struct task *t)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    worker_lock(w);
    (void)task_list_put(&w->tasks, t); /* woken says more than whether it was empty */
    worker_wake(w);
    worker_unlock(w);
}

/* What it is of is there until it has run: an answer is sent by a task behind this one. */
static void task_run(struct task *t)
{
    struct http_exchange *x = exchange_of_task(t);
    if (x == NULL) {
        t->run(t);
        return;
    }
    struct check_note before = trace_enter(x);
    trace_note(x, TRACE_TASK);
    t->run(t); /* may post t again, or end it */
    trace_leave(before);
}

/* Runs some. True: there are more. */
static bool tasks_run(struct http_worker *w)
{
    struct task_list taken = { .first = NULL };
    if (!atomic_load(
            &w->woken)) /* nothing was posted; else it would be set by now, or the eventfd */
        return false;
    worker_lock(w);
    for (unsigned i = 0; i < WORKER_TASKS_MAX && w->tasks.first != NULL; i++)
        (void)task_list_put(&taken, task_list_take(&w->tasks)); /* in their order */
    w->woken = true;                                            /* it looks once more, below */
    worker_unlock(w);
    for (struct task *t = task_list_take(&taken); t != NULL; t = task_list_take(&taken))
        task_run(t);
    worker_lock(w);
    bool more = w->tasks.first != NULL;
    w->woken = more;
    worker_unlock(w);
    return more;
}

/* ---- for connections ---- */

char *worker_room(struct http_worker *w, size_t *size)
{
    *size = w->room_bytes;
    return w->room;
}

struct answer_room *worker_answer_room(struct http_worker *w)
{
    return &w->answer;
}

str worker_last_lines(struct http_worker *w)
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

void worker_wants(struct http_conn *c, uint32_t events)
{
    if (events == c->events)
        return;
    struct epoll_event e = { .events = events, .data.ptr = c };
    INVARIANT(epoll_ctl(c->worker->set, EPOLL_CTL_MOD, c->fd, &e) == 0);
    c->events = events;
}

void worker_again(struct http_conn *c)
{
    if (c->again)
        return;
    c->again = true;
    c->again_next = c->worker->again;
    c->worker->again = c;
}

static void again_drop(struct http_conn *c)
{
    struct http_conn **at = &c->worker->again;
    while (*at != c)
        at = &(*at)->again_next;
    *at = c->again_next;
    c->again = false;
}

/* Closing alone would not take it out of the set while a process that was forked has it open. */
void worker_forgets(struct http_conn *c)
{
    struct epoll_event none = { 0 };
    if (c->again)
        again_drop(c);
    (void)epoll_ctl(c->worker->set, EPOLL_CTL_DEL, c->fd, &none); /* fails when it never came in */
    atomic_fetch_sub(&c->worker->conns_count, 1);
}

/* Each that is in the list now once; what comes in meanwhile waits for the next turn. */
static void again_see(struct http_worker *w)
{
    struct http_conn *list = w->again;
    w->again = NULL;
    while (list != NULL) {
        struct http_conn *c = list;
        list = c->again_next;
        c->again = false;
        conn_again(c); /* ends none but c */
    }
}

/* ---- streams ---- */

void worker_stream_add(struct http_conn *c)
{
    struct http_worker *w = c->worker;
    c->stream.prev = NULL;
    c->stream.next = w->streams;
    if (w->streams != NULL)
        w->streams->stream.prev = c;
    w->streams = c;
}

void worker_stream_drop(struct http_conn *c)
{
    struct http_conn *prev = c->stream.prev, *next = c->stream.next;
    if (prev != NULL)
        prev->stream.next = next;
    else
        c->worker->streams = next;
    if (next != NULL)
        next->stream.prev = prev;
}

/* ---- whose a connection is ---- */

/* It is w's from here on. False: the kernel has no memory for it, and c is over. */
static bool conn_enter(struct http_conn *c, struct http_worker *w)
{
    c->worker = w;
    c->events = EPOLLIN | EPOLLRDHUP;
    struct epoll_event e = { .events = c->events, .data.ptr = c };
    atomic_fetch_add(&w->conns_count, 1);
    int fd = c->fd;
    if (epoll_ctl(w->set, EPOLL_CTL_ADD, fd, &e) == 0)
        return true; /* another thread may have it now */
    conn_end(c);
    return false;
}

/* It waits for a request here: it waits there from now on. */
static void conn_move(struct http_conn *c, struct http_worker *to)
{
    struct epoll_event none = { 0 };
    INVARIANT(epoll_ctl(c->worker->set, EPOLL_CTL_DEL, c->fd, &none) == 0);
    atomic_fetch_sub(&c->worker->conns_count, 1);
    (void)conn_enter(c, to); /* else it was closed */
}

/* ---- accepting ---- */

/* The first that is not full: threads are few as long as they suffice. All are: the one with the
 * fewest. */
static struct http_worker *worker_for_next(struct http_server *s)
{
    mono now = clock_mono(s->clock);
    struct http_worker *least = &s->workers[0];
    for (unsigned i = 0; i < s->workers_count; i++) {
        struct http_worker *w = &s->workers[i];
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
        (void)conn_enter(c, worker_for_next(l->server)); /* else it was closed */
}

/* The first count of them. */
static void listeners_leave(struct http_worker *w, unsigned count)
{
    struct epoll_event none = { 0 };
    for (unsigned i = 0; i < count; i++)
        if (!w->gone[i])
            INVARIANT(epoll_ctl(w->set, EPOLL_CTL_DEL, w->server->listeners[i].fd, &none) == 0);
    w->resting = true;
}

/* All, or none for a while: the kernel may have no memory for them, or no room (max_user_watches).
 */
static void listeners_watch(struct http_worker *w)
{
    for (unsigned i = 0; i < w->server->listeners_count; i++) {
        struct listener *l = &w->server->listeners[i];
        struct epoll_event e = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = l };
        if (w->gone[i] || epoll_ctl(w->set, EPOLL_CTL_ADD, l->fd, &e) == 0)
            continue;
        INVARIANT(errno == ENOMEM || errno == ENOSPC);
        listeners_leave(w, i);
        return;
    }
    w->resting = false;
}

/* In a drain nobody is accepted who can wait for the next server. Until a worker has left a
 * listening socket it accepts there: the kernel wakes one for each who comes, and a server that is
 * there already would not hear of who woke a worker that turns away. */
static void inherited_leave(struct http_worker *w)
{
    struct epoll_event none = { 0 };
    for (unsigned i = 0; i < w->server->listeners_count; i++) {
        const struct listener *l = &w->server->listeners[i];
        if (l->opts.inherited == 0 || w->gone[i])
            continue;
        if (!w->resting)
            INVARIANT(epoll_ctl(w->set, EPOLL_CTL_DEL, l->fd, &none) == 0);
        w->gone[i] = true;
    }
}

static void drain_run(struct task *t)
{
    struct http_worker *w = CONTAINER_OF(t, struct http_worker, drain);
    struct http_conn *next;
    inherited_leave(w);
    for (struct http_conn *c = w->streams; c != NULL; c = next) {
        next = c->stream.next;
        if (c->stream.state != STREAM_ENDED) /* its wake ends it */
            conn_stream(c, stream_rouse(c)); /* ends none but c */
    }
}

void workers_drain(struct http_server *s)
{
    for (unsigned i = 0; i < s->workers_count; i++) {
        s->workers[i].drain.run = drain_run;
        worker_post(&s->workers[i], &s->workers[i].drain);
    }
}

static void accept_some(struct http_worker *w, struct listener *l)
{
    for (unsigned i = 0; i < WORKER_ACCEPTS_MAX && !w->resting; i++) {
        struct sockaddr_storage addr;
        socklen_t addr_n = sizeof addr;
        int fd = accept4(l->fd, (struct sockaddr *)&addr, &addr_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            conn_begin(l, fd, (const struct sockaddr *)&addr);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            listeners_leave(w, w->server->listeners_count);
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* ---- the thread ---- */

/* Who takes from w, which is full; NULL: nobody has much less to do. */
static struct http_worker *worker_relief(struct http_worker *w, mono now)
{
    struct http_server *s = w->server;
    if (s->restless)
        return &s->workers[(unsigned)(w - s->workers + 1) % s->workers_count];
    for (unsigned i = 0; i < s->workers_count; i++)
        if (busy_percent(&s->workers[i].busy, now) + WORKER_EASE_PERCENT <=
            busy_percent(&w->busy, now))
            return &s->workers[i];
    return NULL;
}

static bool is_listener(const struct http_server *s, const void *p)
{
    const char *at = p, *first = (const char *)s->listeners;
    return at >= first && at < first + sizeof s->listeners;
}

/* relief: gets the connection when it waits for requests; NULL: w keeps it. */
static void event_see(struct http_worker *w, const struct epoll_event *e,
                      struct http_worker *relief)
{
    eventfd_t count;
    if (e->data.ptr == w) {
        (void)eventfd_read(w->wake, &count); /* it says nothing but that there is something */
        return;
    }
    if (is_listener(w->server, e->data.ptr)) {
        accept_some(w, e->data.ptr);
        return;
    }
    struct http_conn *c = e->data.ptr;
    if (conn_see(c, e->events) && relief != NULL && !c->again)
        conn_move(c, relief);
}

static bool is_of_body(const struct http_worker *w, const struct epoll_event *e)
{
    return e->data.ptr != w && !is_listener(w->server, e->data.ptr) && conn_collects(e->data.ptr);
}

/* A few of them by turns; the set tells of the others again. */
static void bodies_see(struct http_worker *w, const struct epoll_event *bodies, unsigned count)
{
    unsigned most = count < WORKER_BODIES_MAX ? count : WORKER_BODIES_MAX, from = w->bodies_from;
    for (unsigned i = 0; i < most; i++)
        event_see(w, &bodies[(from + i) % count], NULL);
    w->bodies_from = from + most;
}

static void events_see(struct http_worker *w, int timeout_ms)
{
    struct epoll_event events[WORKER_EVENTS_MAX];
    bool restless = w->server->restless;
    int n = epoll_wait(w->set, events, WORKER_EVENTS_MAX, timeout_ms);
    INVARIANT(n >= 0 || errno == EINTR);
    mono now = clock_mono(w->server->clock);
    if (w->resting)
        listeners_watch(w);
    struct http_worker *relief =
        busy_look(&w->busy, now) || restless ? worker_relief(w, now) : NULL;
    unsigned bodies = 0;
    for (int i = 0; i < n; i++) {
        if (is_of_body(w, &events[i]))
            events[bodies++] = events[i];
        else /* of every two one goes */
            event_see(w, &events[i], i % 2 == 1 || restless ? relief : NULL);
    }
    bodies_see(w, events, bodies);
}

static void *worker_main(void *worker)
{
    struct http_worker *w = worker;
    MAGIC_CHECK(w, WORKER_MAGIC);
    worker_here = w;
    for (;;) {
        if (w->again != NULL)
            again_see(w); /* first: what it posts here wakes nobody, and is looked for next */
        bool more = tasks_run(w);
        if (atomic_load_explicit(&w->server->stopping, memory_order_relaxed) && !more &&
            atomic_load(&w->server->workers_quit))
            break;
        events_see(w, more || w->again != NULL ? 0 : w->resting ? WORKER_NO_FILES_MS : -1);
    }
    while (tasks_run(w))
        continue;
    return NULL;
}

/* ---- starting and stopping ---- */

static bool worker_begin(struct http_worker *w, struct http_server *s)
{
    *w = (struct http_worker){ .magic = WORKER_MAGIC, .server = s, .set = -1, .wake = -1 };
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    buf_init(&w->answer.text, ANSWER_HEAD_BYTES_MAX);
    w->room_bytes = s->limits.head_bytes_max + WORKER_ROOM_BYTES;
    w->room = malloc(w->room_bytes);
    w->set = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = w };
    return w->room != NULL && w->set >= 0 && w->wake >= 0 &&
           epoll_ctl(w->set, EPOLL_CTL_ADD, w->wake, &e) == 0;
}

static bool worker_run(struct http_worker *w)
{
    char name[WORKER_NAME_BYTES];
    listeners_watch(w);
    w->running = true;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
        w->running = false;
        return false;
    }
    (void)snprintf(name, sizeof name, "http-%u", (unsigned)(w - w->server->workers));
    (void)pthread_setname_np(w->thread, name); /* for who looks at threads, no more */
    return true;
}

bool workers_start(struct http_server *s)
{
    bool fine = true;
    s->workers = calloc(s->limits.threads, sizeof *s->workers);
    INVARIANT(s->workers != NULL);
    while (fine && s->workers_count < s->limits.threads)
        fine = worker_begin(&s->workers[s->workers_count++], s);
    for (unsigned i = 0; fine && i < s->workers_count; i++) /* all are there before one accepts */
        fine = worker_run(&s->workers[i]);
    return fine;
}

/* The first that is left; the table's lock is not held over its end. */
static struct http_conn *conn_left(struct http_server *s)
{
    pthread_mutex_lock(&s->conns_lock);
    struct http_conn *c = s->conns;
    pthread_mutex_unlock(&s->conns_lock);
    return c;
}

static void worker_free(struct http_worker *w)
{
    if (w->set >= 0)
        close(w->set);
    if (w->wake >= 0)
        close(w->wake);
    buf_fini(&w->answer.text);
    free(w->room);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
    w->magic = 0;
}

void workers_stop(struct http_server *s)
{
    atomic_store(&s->workers_quit, true);
    for (unsigned i = 0; i < s->workers_count; i++)
        if (s->workers[i].running)
            (void)eventfd_write(s->workers[i].wake, 1); /* cannot be full */
    for (unsigned i = 0; i < s->workers_count; i++)
        if (s->workers[i].running)
            INVARIANT(pthread_join(s->workers[i].thread, NULL) == 0);
    for (struct http_conn *c = conn_left(s); c != NULL; c = c->next)
        stream_tell(c); /* before the first ends: what wakes it may lie in a list of tasks */
    for (struct http_conn *c = conn_left(s); c != NULL; c = conn_left(s))
        conn_end(c);
    for (unsigned i = 0; i < s->workers_count; i++)
        worker_free(&s->workers[i]);
    free(s->workers);
    s->workers = NULL;
    s->workers_count = 0;
}
