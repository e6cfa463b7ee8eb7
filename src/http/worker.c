/* worker.c - one thread, one library, the tasks posted to its exchanges.
 *
 * Invariants
 *  1. Tasks that wait have `woken`: the eventfd was written, or the worker looks by itself before
 *     it waits. So a group of tasks costs one write.
 *  2. A descriptor that the library was given stands in given until the library tells of it. */
#include "http/worker.h"

#include "http/head.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKER_TASKS_MAX = 256, /* run in one turn: sockets get between them */
    /* turns in a row that the library asks for and in which nothing comes; then it is not believed
     */
    WORKER_IDLE_TURNS_MAX = 256,
    WORKER_IDLE_MS = 2,
};

struct http_worker {
    uint32_t magic;
    struct listener *listener;
    struct MHD_Daemon *library;
    int library_set;        /* its epoll set */
    int wake;               /* eventfd */
    pthread_t thread, self; /* self: the same, as it knows itself */
    pthread_mutex_t lock;   /* of the next */
    struct task_list tasks;
    bool woken, stopping;
    _Atomic uint64_t turns;
    _Atomic bool rests;
    bool resumed;        /* the worker's own: a connection was, and the library has not seen it */
    unsigned idle_turns; /* the worker's own */
    /* by descriptor: the library does not tell which of those it was given it begins */
    struct hash given;
};
#define WORKER_MAGIC 0x3080e401u

/* ---- tasks ---- */

static void worker_lock(struct http_worker *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
}

static void worker_unlock(struct http_worker *w)
{
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

static void worker_wake(struct http_worker *w)
{
    if (!w->woken)
        (void)eventfd_write(w->wake, 1); /* cannot be full */
    w->woken = true;
}

uint64_t worker_turns(const struct http_worker *w)
{
    return atomic_load_explicit(&w->turns, memory_order_relaxed);
}

bool worker_rests(const struct http_worker *w)
{
    return atomic_load_explicit(&w->rests, memory_order_relaxed);
}

void worker_post(struct http_worker *w, struct task *t)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    worker_lock(w);
    (void)task_list_put(&w->tasks, t); /* woken says more than whether it was empty */
    worker_wake(w);
    worker_unlock(w);
}

/* Runs some. True: there are more. */
static bool tasks_run(struct http_worker *w)
{
    struct task_list taken = { .first = NULL };
    worker_lock(w);
    for (unsigned i = 0; i < WORKER_TASKS_MAX && w->tasks.first != NULL; i++)
        (void)task_list_put(&taken, task_list_take(&w->tasks)); /* in their order */
    bool more = w->tasks.first != NULL;
    w->woken = more;
    worker_unlock(w);
    for (struct task *t = task_list_take(&taken); t != NULL; t = task_list_take(&taken))
        t->run(t); /* may post t again, or end it */
    return more;
}

bool worker_is_here(const struct http_worker *w)
{
    return pthread_equal(w->self, pthread_self()) != 0;
}

struct listener *worker_listener(const struct http_worker *w)
{
    return w->listener;
}

/* ---- connections from lanes ---- */

struct http_conn *worker_given(struct http_worker *w, int fd)
{
    struct hash_node *n = hash_first(&w->given, (uint64_t)fd);
    if (n == NULL)
        return NULL;
    hash_remove(&w->given, n);
    return CONTAINER_OF(n, struct http_conn, given);
}

/* The library closes what it refuses, now or later, and of the latter it says nothing: then the
 * next of that descriptor finds the old one still here. */
static void given_end(struct http_worker *w, int fd)
{
    struct http_conn *old = worker_given(w, fd);
    if (old != NULL)
        conns_close(old);
}

static void conn_give(struct task *t)
{
    struct http_conn *c = CONTAINER_OF(t, struct http_conn, give);
    struct http_worker *w = c->worker;
    struct sockaddr_storage addr;
    socklen_t addr_n = sizeof addr;
    int fd = c->given_fd;
    given_end(w, fd);
    if (getpeername(fd, (struct sockaddr *)&addr, &addr_n) != 0) { /* it has left */
        conns_close(c);
        close(fd);
        return;
    }
    hash_add(&w->given, &c->given, (uint64_t)fd);
    if (MHD_add_connection(w->library, fd, (const struct sockaddr *)&addr, addr_n) != MHD_YES)
        given_end(w, fd);
}

void worker_take(struct http_worker *w, struct http_conn *c)
{
    c->give.run = conn_give;
    worker_post(w, &c->give);
}

/* ---- the thread ---- */

/* How long to wait; -1: until something comes. */
static int worker_patience(struct http_worker *w)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    if (w->resumed)
        return 0;
    if (MHD_get_timeout(w->library, &timeout) != MHD_YES) /* no connection has one */
        return -1;
    return w->idle_turns < WORKER_IDLE_TURNS_MAX ? 0 : WORKER_IDLE_MS;
}

/* False: the worker is to end. */
static bool worker_waits(struct http_worker *w)
{
    struct pollfd fds[2] = { { .fd = w->library_set, .events = POLLIN },
                             { .fd = w->wake, .events = POLLIN } };
    int patience = worker_patience(w);
    atomic_store_explicit(&w->rests, patience != 0, memory_order_relaxed);
    int n = poll(fds, COUNT_OF(fds), patience);
    atomic_store_explicit(&w->rests, false, memory_order_relaxed);
    eventfd_t count;
    INVARIANT(n >= 0 || errno == EINTR);
    if (n > 0 && fds[1].revents != 0)
        (void)eventfd_read(w->wake, &count); /* it says nothing but that there is something */
    w->idle_turns = n == 0 && !w->resumed ? w->idle_turns + 1 : 0;
    if (w->idle_turns > WORKER_IDLE_TURNS_MAX)
        conns_cut_stuck(w->listener->server, w);
    worker_lock(w);
    bool stopping = w->stopping;
    worker_unlock(w);
    return !stopping;
}

void worker_resume(struct http_worker *w, struct http_exchange *x)
{
    MHD_resume_connection(x->mhd);
    w->resumed = true;
}

static void *worker_main(void *worker)
{
    struct http_worker *w = worker;
    MAGIC_CHECK(w, WORKER_MAGIC);
    w->self = pthread_self();
    do {
        bool more = true;
        while (more) {
            more = tasks_run(w);
            w->resumed = false;
            (void)MHD_run(w->library); /* fails only when it is stopped */
            atomic_fetch_add_explicit(&w->turns, 1, memory_order_relaxed);
        }
    } while (worker_waits(w));
    while (tasks_run(w))
        continue;
    return NULL;
}

/* ---- starting and stopping ---- */

/* Paths and queries stay as they were sent. */
static size_t unescape_nothing(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void library_log(void *server, const char *format,
                                                              va_list args)
{
    const struct http_server *s = server;
    char text[256];
    if (!log_enabled(s->log, LOG_DEBUG))
        return;
    (void)vsnprintf(text, sizeof text, format, args); /* cut when longer */
    log_event(s->log, LOG_DEBUG, "http.message", LOG_STR("text", str_trim(str_of(text))));
}

/* listen_fd: the library's from here on; -1: none. */
static struct MHD_Daemon *library_start(struct http_worker *w, int listen_fd)
{
    struct listener *l = w->listener;
    struct http_server *s = l->server;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    if (listen_fd < 0)
        flags |= MHD_USE_NO_LISTEN_SOCKET;
    if (strchr(l->address, ':') != NULL)
        flags |= MHD_USE_IPv6;
    if (s->log != NULL)
        flags |= MHD_USE_ERROR_LOG;
    /* Since 1.0 the library mends folded lines and bare LFs before we see the head, unless it is
     * strict. Before 1.0 it left them to head.h, and strict was something else. */
    struct MHD_OptionItem some[] = {
        { MHD_VERSION >= 0x01000000 ? MHD_OPTION_STRICT_FOR_CLIENT : MHD_OPTION_CONNECTION_TIMEOUT,
          MHD_VERSION >= 0x01000000, NULL },
        { listen_fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    return MHD_start_daemon(flags, l->port, listen_fd < 0 ? NULL : conns_accept, w, serve_call, w,
                            MHD_OPTION_EXTERNAL_LOGGER, library_log, s, MHD_OPTION_ARRAY, some,
                            MHD_OPTION_CONNECTION_LIMIT, s->limits.connections_max * 2,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            s->limits.head_bytes_max + HEAD_ROOM_BYTES, MHD_OPTION_URI_LOG_CALLBACK,
                            serve_line, w, MHD_OPTION_UNESCAPE_CALLBACK, unescape_nothing, NULL,
                            MHD_OPTION_NOTIFY_CONNECTION, conns_notify, w,
                            MHD_OPTION_NOTIFY_COMPLETED, serve_completed, w, MHD_OPTION_END);
}

static bool worker_begin(struct http_worker *w, bool accepts)
{
    int fd = accepts ? fcntl(w->listener->fd, F_DUPFD_CLOEXEC, 0) : -1;
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake < 0 || (accepts && fd < 0))
        return false;
    w->library = library_start(w, fd);
    if (w->library == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(w->library, MHD_DAEMON_INFO_EPOLL_FD);
    INVARIANT(info != NULL);
    w->library_set = info->epoll_fd;
    return pthread_create(&w->thread, NULL, worker_main, w) == 0;
}

static void given_close(void *ctx, struct hash_node *n)
{
    (void)ctx; /* each ends by itself */
    conns_close(CONTAINER_OF(n, struct http_conn, given));
}

static void worker_free(struct http_worker *w)
{
    if (w->library != NULL)
        MHD_stop_daemon(w->library);
    hash_each(&w->given, given_close, NULL);
    hash_fini(&w->given);
    if (w->wake >= 0)
        close(w->wake);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
    w->magic = 0;
    free(w);
}

struct http_worker *worker_start(struct listener *l, bool accepts)
{
    struct http_worker *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    w->magic = WORKER_MAGIC;
    w->listener = l;
    w->wake = -1;
    hash_init(&w->given);
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    if (worker_begin(w, accepts))
        return w;
    worker_free(w);
    return NULL;
}

void worker_stop(struct http_worker **wp)
{
    struct http_worker *w = *wp;
    if (w == NULL)
        return;
    MAGIC_CHECK(w, WORKER_MAGIC);
    worker_lock(w);
    w->stopping = true;
    worker_wake(w);
    worker_unlock(w);
    INVARIANT(pthread_join(w->thread, NULL) == 0);
    *wp = NULL;
    worker_free(w);
}
