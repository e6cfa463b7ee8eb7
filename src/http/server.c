/* server.c - a server begins, drains and ends. */
#include "http/server.h"
#include "http/slow_kept.h"
#include "http/worker.h"
#include "loop/crew.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    HTTP_FREE_LOOKS_MAX = 10000, /* a millisecond each, or more */
    HTTP_FREE_LOOKS_CALM = 3
};

unsigned http_threads(const struct http_limits *l)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return l->threads != 0 ? l->threads : (unsigned)(cores > 0 ? cores : 1);
}

static struct http_limits limits_filled(struct http_limits l)
{
    l.head_bytes_max = l.head_bytes_max != 0 ? l.head_bytes_max : 16 << 10;
    l.body_drain_bytes_max = l.body_drain_bytes_max != 0 ? l.body_drain_bytes_max : 1 << 20;
    l.arena_bytes_max = l.arena_bytes_max != 0 ? l.arena_bytes_max : 64 << 20;
    l.connections_max = l.connections_max != 0 ? l.connections_max : 10000;
    l.head_timeout_ms = l.head_timeout_ms != 0 ? l.head_timeout_ms : 10000;
    l.body_bytes_per_s_min = l.body_bytes_per_s_min != 0 ? l.body_bytes_per_s_min : 1 << 10;
    l.send_bytes_per_s_min = l.send_bytes_per_s_min != 0 ? l.send_bytes_per_s_min : 1 << 10;
    l.idle_timeout_ms = l.idle_timeout_ms != 0 ? l.idle_timeout_ms : 60000;
    l.threads = http_threads(&l);
    return l;
}

static err files_raise(unsigned connections_max, struct err_note *note)
{
    struct rlimit files;
    rlim_t need = (rlim_t)connections_max + HTTP_SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return ERR_IO;
    if (files.rlim_cur >= need)
        return ERR_OK;
    if (files.rlim_max < need) {
        err_note_set(note,
                     "%u connections need %llu open files, but RLIMIT_NOFILE allows at most %llu",
                     connections_max, (unsigned long long)need, (unsigned long long)files.rlim_max);
        return ERR_LIMIT;
    }
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) == 0 ? ERR_OK : ERR_LIMIT;
}

/* ---- the server ---- */

static err server_build(struct http_server *s, const struct http_server_opts *opts,
                        struct err_note *note)
{
    if (opts->listens_count == 0 || opts->listens_count > HTTP_LISTENS_MAX ||
        opts->hooks.refuse == NULL)
        return err_bad(note, "a server needs 1 to %d listeners and the refuse hook",
                       HTTP_LISTENS_MAX);
    err why = router_new(opts->tables, opts->tables_count, &s->router, note);
    if (why == ERR_OK)
        why = files_raise(s->limits.connections_max, note);
    for (unsigned i = 0; why == ERR_OK && i < opts->listens_count; i++) {
        struct http_listen l = opts->listens[i];
        l.number = i;
        l.plain = l.content && l.filter == NULL;
        router_hide(s->router, &l);
        why = listener_open(&s->listeners[s->listeners_count++], s, &l, note);
    }
    return why;
}

err http_server_new(const struct http_server_opts *opts, struct http_server **out,
                    struct err_note *note)
{
    struct http_server *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->magic = SERVER_MAGIC;
    s->slow = slow_new();
    s->limits = limits_filled(opts->limits);
    s->hooks = opts->hooks;
    s->restless = opts->restless;
    s->clock = opts->clock;
    s->log = opts->log;
    s->ids_seed = (uint64_t)clock_wall(opts->clock).ns ^ ((uint64_t)getpid() << 32);
    INVARIANT(pthread_mutex_init(&s->conns_lock, NULL) == 0);
    err why = server_build(s, opts, note);
    if (why != ERR_OK) {
        http_server_free(&s);
        return why;
    }
    s->loop = opts->loop;
    s->pool_threads = opts->pool_threads;
    *out = s;
    return ERR_OK;
}

err http_server_start(struct http_server *s, struct err_note *note)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    if (s->pool_threads > 0)
        s->crew = crew_new(s->pool_threads, "http-pool");
    if (s->crew != NULL) {
        s->pool = crew_home(s->crew);
        s->pool_first = crew_home_first(s->crew);
    }
    if ((s->pool_threads > 0 && s->crew == NULL) || !workers_start(s)) {
        err_note_set(note, "the threads of the HTTP server do not start");
        return ERR_UNAVAILABLE;
    }
    return ERR_OK;
}

uint16_t http_server_port(const struct http_server *s, unsigned listen_index)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    INVARIANT(listen_index < s->listeners_count);
    return s->listeners[listen_index].port;
}

void http_server_unlink(struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    for (unsigned i = 0; i < s->listeners_count; i++)
        listener_unlink(&s->listeners[i]);
}

void http_server_drain(struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    bool first = !atomic_exchange(&s->draining, true);
    conns_owe(s);
    if (first)
        workers_drain(s);
}

void http_server_refuse(struct http_server *s)
{
    MAGIC_CHECK(s, SERVER_MAGIC);
    atomic_store(&s->refusing, true);
    conns_owe(s);
}

static bool any_in_work(struct http_server *s)
{
    bool any = atomic_load(&s->deferred) > 0;
    pthread_mutex_lock(&s->conns_lock);
    for (const struct http_conn *c = s->conns; c != NULL && !any; c = c->next)
        any = phase_of(atomic_load(&c->phase)) == PHASE_WORK; /* after stopping: work_may_begin */
    pthread_mutex_unlock(&s->conns_lock);
    return any;
}

struct work_wait {
    struct http_server *server;
    unsigned looks, calm;
};

/* True: there is nothing to wait for, or no patience left. */
static bool work_look(struct work_wait *w)
{
    w->calm = any_in_work(w->server) ? 0 : w->calm + 1;
    return ++w->looks >= HTTP_FREE_LOOKS_MAX || w->calm >= HTTP_FREE_LOOKS_CALM;
}

static void work_look_fired(void *ctx)
{
    struct work_wait *w = ctx;
    if (work_look(w))
        loop_stop(w->server->loop);
}

/* Answers are given by now, but the last may not have returned yet, and a handler that began before
 * stopping was set may still defer: what it waits for comes from the loop, so that runs meanwhile.
 */
static void work_wait(struct http_server *s)
{
    const struct timespec tick = { .tv_nsec = NS_PER_MS };
    struct work_wait w = { .server = s };
    if (s->loop != NULL) {
        struct loop_timer *timer = loop_timer_new(s->loop, work_look_fired, &w);
        loop_timer_start(timer, 1, 1);
        loop_run(s->loop);
        loop_timer_free(&timer);
    } else {
        while (!work_look(&w))
            nanosleep(&tick, NULL);
    }
    INVARIANT(atomic_load(&s->deferred) == 0);
}

void http_server_free(struct http_server **sp)
{
    if (*sp == NULL)
        return;
    struct http_server *s = *sp;
    MAGIC_CHECK(s, SERVER_MAGIC);
    atomic_store(&s->stopping, true);
    /* A connection may be gone while whoever answered on it is still on the way out of
     * http_answer. */
    if (atomic_load(&s->conns_count) > 0 || atomic_load(&s->deferred) > 0)
        work_wait(s);
    crew_free(&s->crew); /* nothing is in work: its strands have ended, or end now */
    workers_stop(s);
    for (unsigned i = 0; i < s->listeners_count; i++)
        listener_close(&s->listeners[i]);
    INVARIANT(atomic_load(&s->conns_count) == 0);
    router_free(&s->router);
    slow_free(&s->slow);
    pthread_mutex_destroy(&s->conns_lock);
    s->magic = 0;
    free(s);
    *sp = NULL;
}
