/* Goal: what is posted to an exchange's home runs on the worker that owns its connection, in order,
 * and whoever posts to many wakes each worker once.
 * Method: a server with a loop; posters on threads of their own carry requests on, step by step;
 * what wakes a worker is counted by thread. */
#include "echo.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "http/http.h"
#include "loop/loop.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    POSTERS = 3,
    CLIENTS = 6,
    REQUESTS = 60,
    STEPS_MAX = 7,
    PARKED_MAX = 400,
    DEADLINE_MS = 60000
};

/* ---- who wakes a worker ---- */

static _Thread_local unsigned wakes_here;

int __real_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
    wakes_here++;
    return __real_eventfd_write(fd, value);
}

/* ---- the server ---- */

struct bench;

struct request {
    struct task task;
    struct http_exchange *x;
    struct home *home;
    struct bench *bench;
    pthread_t worker;
    unsigned steps, step;
    struct request *next; /* in the bench's list */
    bool stray;           /* a task ran where it should not */
    atomic_uint inside;   /* the handler, or a task; no more than one */
};

struct bench {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    void (*play)(struct bench *b);
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct request *first; /* to be posted, by whichever poster takes it */
    bool over, pooled;
    struct request *parked[PARKED_MAX];
    atomic_uint parked_count, finished, told, order;
    sem_t held, let_go;
};

static void to_posters(struct request *r)
{
    struct bench *b = r->bench;
    pthread_mutex_lock(&b->lock);
    r->next = b->first;
    b->first = r;
    pthread_cond_signal(&b->filled);
    pthread_mutex_unlock(&b->lock);
}

static void *poster_main(void *ctx)
{
    struct bench *b = ctx;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (b->first == NULL && !b->over)
            pthread_cond_wait(&b->filled, &b->lock);
        struct request *r = b->first;
        if (r == NULL)
            break;
        b->first = r->next;
        pthread_mutex_unlock(&b->lock);
        home_post(r->home, &r->task);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void request_step(struct task *t)
{
    struct request *r = CONTAINER_OF(t, struct request, task);
    INVARIANT(atomic_fetch_add(&r->inside, 1) == 0);
    r->stray = r->stray || (!r->bench->pooled && !pthread_equal(r->worker, pthread_self()));
    if (r->step++ < r->steps)
        to_posters(r); /* the next waits until this returns */
    else
        http_answer(r->x, r->stray ? 500 : 200, STR("here\n")); /* r stays until this returns */
    INVARIANT(atomic_fetch_sub(&r->inside, 1) == 1);
}

static void client_gone(struct http_exchange *x, void *ctx)
{
    struct request *r = ctx;
    loop_assert_here(r->bench->loop);
    INVARIANT(r->x == x);
    atomic_fetch_add(&r->bench->told, 1);
}

static struct request *request_new(struct http_exchange *x, struct bench *b)
{
    struct request *r = arena_calloc(http_arena(x), 1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct request){ .task = { .run = request_step },
                           .x = x,
                           .home = http_home(x),
                           .bench = b,
                           .worker = pthread_self() };
    return r;
}

/* Before http_defer or after it, by turns; the client is watched, or not. */
static void get_steps(struct http_exchange *x, void *app)
{
    struct request *r = request_new(x, app);
    atomic_store(&r->inside, 1);
    uint64_t steps = 0;
    INVARIANT(str_to_u64(http_param(x, "steps"), &steps));
    r->steps = (unsigned)steps;
    if (steps % 2 == 0)
        to_posters(r);
    http_defer(x);
    if (steps % 3 == 0)
        http_on_gone(x, client_gone, r);
    if (steps % 2 != 0)
        to_posters(r);
    INVARIANT(atomic_fetch_sub(&r->inside, 1) == 1);
}

static void get_park(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    struct request *r = request_new(x, b);
    http_defer(x);
    pthread_mutex_lock(&b->lock);
    b->parked[b->parked_count] = r;
    atomic_fetch_add(&b->parked_count, 1);
    pthread_mutex_unlock(&b->lock);
}

/* Keeps its worker from all else. */
static void get_hold(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    INVARIANT(sem_post(&b->held) == 0);
    INVARIANT(sem_wait(&b->let_go) == 0);
    http_answer(x, 200, STR("held\n"));
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    (void)x, (void)status, (void)ns, (void)bytes_sent; /* who left in time has no status */
    struct bench *b = app;
    atomic_fetch_add(&b->finished, 1);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/steps/{steps}", get_steps, .label = "steps", .pool = true },
    { HTTP_GET, "/park", get_park, .label = "park" },
    { HTTP_GET, "/hold", get_hold, .label = "hold" },
    { .pattern = NULL },
};

/* ---- running one ---- */

static void *play_main(void *ctx)
{
    struct bench *b = ctx;
    b->play(b);
    http_server_drain(b->server);
    loop_stop(b->loop);
    return NULL;
}

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", 2 * DEADLINE_MS);
}

static void bench_run(struct bench *b, unsigned threads, unsigned pool_threads,
                      void (*play)(struct bench *b))
{
    pthread_t player, posters[POSTERS];
    b->loop = loop_new(1);
    b->play = play;
    b->pooled = pool_threads > 0;
    assert_int_equal(pthread_mutex_init(&b->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&b->filled, NULL), 0);
    assert_int_equal(sem_init(&b->held, 0, 0), 0);
    assert_int_equal(sem_init(&b->let_go, 0, 0), 0);
    const struct http_listen listens[] = { { .address = "127.0.0.1", .content = true } };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = { .threads = threads },
        .clock = echo_clock(),
        .loop = b->loop,
        .pool_threads = pool_threads,
        .hooks = { .app = b, .refuse = refuse, .finished = finished },
    };
    assert_int_equal(http_server_new(&opts, &b->server, &note), ERR_OK);
    assert_int_equal(http_server_start(b->server, &note), ERR_OK);
    b->port = http_server_port(b->server, 0);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&posters[i], NULL, poster_main, b), 0);
    assert_int_equal(pthread_create(&player, NULL, play_main, b), 0);
    struct loop_timer *watchdog = loop_timer_new(b->loop, overdue, NULL);
    loop_timer_start(watchdog, 2 * DEADLINE_MS, 0);
    loop_run(b->loop);
    loop_timer_free(&watchdog);
    assert_int_equal(pthread_join(player, NULL), 0);
    http_server_free(&b->server); /* what is deferred is answered: posters run */
    pthread_mutex_lock(&b->lock);
    b->over = true;
    pthread_cond_broadcast(&b->filled);
    pthread_mutex_unlock(&b->lock);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(posters[i], NULL), 0);
    loop_free(&b->loop);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->filled);
    sem_destroy(&b->held);
    sem_destroy(&b->let_go);
}

static void until(atomic_uint *count, unsigned least)
{
    const struct timespec tick = { .tv_nsec = NS_PER_MS };
    for (unsigned ms = 0; ms < DEADLINE_MS && atomic_load(count) < least; ms++)
        nanosleep(&tick, NULL);
    INVARIANT(atomic_load(count) >= least);
}

/* ---- steps ---- */

static int ask(const struct bench *b, int fd, const char *path)
{
    char text[100];
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    if (fd < 0)
        fd = wire_connect(b->port);
    INVARIANT(wire_send(fd, (str){ .p = text, .n = (size_t)n }));
    return fd;
}

/* Many requests over one connection, and some whose client leaves at once. */
static void *client_main(void *ctx)
{
    struct bench *b = ctx;
    struct wire_answer *a = malloc(sizeof *a);
    INVARIANT(a != NULL);
    int fd = -1;
    for (unsigned i = 0; i < REQUESTS; i++) {
        char path[24];
        (void)snprintf(path, sizeof path, "/steps/%u", i % STEPS_MAX);
        fd = ask(b, fd, path);
        if (i % 10 == 9) {
            close(fd);
            fd = -1;
            continue;
        }
        wire_read(fd, false, a);
        INVARIANT(a->status == 200);
    }
    if (fd >= 0)
        close(fd);
    free(a);
    return NULL;
}

static void play_steps(struct bench *b)
{
    pthread_t clients[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        INVARIANT(pthread_create(&clients[i], NULL, client_main, b) == 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        INVARIANT(pthread_join(clients[i], NULL) == 0);
    until(&b->finished, CLIENTS * REQUESTS); /* those whose clients have left may be unread yet */
}

static void tasks_run_on_the_worker_of_their_connection(void **state)
{
    (void)state;
    struct bench b = { .order = 0 };
    bench_run(&b, 3, 0, play_steps);
    assert_int_equal(b.finished, CLIENTS * REQUESTS);
}

/* On any thread of the pool, never two of a request at once, and never after its end. */
static void tasks_of_a_pooled_request_run_one_after_another(void **state)
{
    (void)state;
    struct bench b = { .order = 0 };
    bench_run(&b, 2, 3, play_steps);
    assert_int_equal(b.finished, CLIENTS * REQUESTS);
}

/* ---- groups ---- */

static void parked_run(struct task *t)
{
    struct request *r = CONTAINER_OF(t, struct request, task);
    r->stray = r->stray || !pthread_equal(r->worker, pthread_self());
    bool next = atomic_fetch_add(&r->bench->order, 1) == r->step;
    http_answer(r->x, next && !r->stray ? 200 : 500, STR("here\n"));
}

static void park(struct bench *b, int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fds[i] = ask(b, -1, "/park");
    until(&b->parked_count, count);
}

static void parked_post(struct bench *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct request *r = b->parked[i];
        r->task.run = parked_run;
        r->step = i;
        home_post(r->home, &r->task);
    }
}

static void parked_read(int *fds, unsigned count)
{
    struct wire_answer *a = malloc(sizeof *a);
    INVARIANT(a != NULL);
    for (unsigned i = 0; i < count; i++) {
        wire_read(fds[i], false, a);
        INVARIANT(a->status == 200);
        close(fds[i]);
    }
    free(a);
}

/* The worker is busy while all is posted: it is woken for the first, and runs them in order. */
static void play_group(struct bench *b)
{
    int fds[PARKED_MAX];
    struct wire_answer a;
    park(b, fds, PARKED_MAX);
    int holds = ask(b, -1, "/hold");
    INVARIANT(sem_wait(&b->held) == 0);
    wakes_here = 0;
    parked_post(b, PARKED_MAX);
    INVARIANT(wakes_here == 1);
    INVARIANT(sem_post(&b->let_go) == 0);
    parked_read(fds, PARKED_MAX);
    wire_read(holds, false, &a);
    close(holds);
}

static void a_group_wakes_a_worker_once(void **state)
{
    (void)state;
    struct bench b = { .order = 0 };
    bench_run(&b, 1, 0, play_group);
    assert_int_equal(b.order, PARKED_MAX);
    assert_int_equal(b.finished, PARKED_MAX + 1);
}

/* What was posted when the server ends is run before it does. */
static void play_end(struct bench *b)
{
    int fds[20];
    park(b, fds, COUNT_OF(fds));
    INVARIANT(http_server_owed_requests(b->server) == COUNT_OF(fds));
    parked_post(b, COUNT_OF(fds));
    parked_read(fds, COUNT_OF(fds));
    for (unsigned ms = 0; http_server_owed_requests(b->server) > 0; ms++) {
        const struct timespec tick = { .tv_nsec = NS_PER_MS };
        INVARIANT(ms < DEADLINE_MS);
        nanosleep(&tick, NULL);
    }
    (void)ask(b, -1, "/steps/200"); /* goes on for a while: the end waits for it */
}

static void a_drain_waits_for_tasks(void **state)
{
    (void)state;
    struct bench b = { .order = 0 };
    bench_run(&b, 1, 0, play_end);
    assert_true(b.finished >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_on_the_worker_of_their_connection),
        cmocka_unit_test(tasks_of_a_pooled_request_run_one_after_another),
        cmocka_unit_test(a_group_wakes_a_worker_once),
        cmocka_unit_test(a_drain_waits_for_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
