/* Goal: tasks of a deferred exchange run on the worker that owns its connection, in order, one turn
 * or many, and the answer comes when one of them, or another thread, gives it. Method: a live
 * server; a thread of the pool of a loop plays whoever finishes elsewhere. Clients that leave find
 * the library ending their requests between two tasks. */
#include "echo.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "base/home.h"
#include "http/http.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_MAX = 8, CLIENTS = 8, ROUNDS = 200, LEAVERS = 300 };

struct bench {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    void (*clients)(struct bench *b);
    atomic_uint finished;
};

/* A request goes from its worker to the pool and back, step by step. */
struct walk {
    struct bench *b;
    struct http_exchange *x;
    pthread_t worker;
    struct task there, back, beside[2];
    unsigned steps, left;
    bool leaves;        /* its client: the loop takes the worker's place */
    bool answers_there; /* the pool gives the answer, as the turn ends */
    char seen[64];
};

static void beside_run(struct walk *w, char as)
{
    INVARIANT(w->leaves || pthread_equal(pthread_self(), w->worker));
    size_t n = strlen(w->seen);
    INVARIANT(n + 1 < sizeof w->seen);
    w->seen[n] = as;
}

static void first_beside(struct task *t)
{
    beside_run(CONTAINER_OF(t, struct walk, beside[0]), 'a');
}

static void second_beside(struct task *t)
{
    beside_run(CONTAINER_OF(t, struct walk, beside[1]), 'b');
}

static void walk_there(struct task *t)
{
    struct walk *w = CONTAINER_OF(t, struct walk, there);
    if (w->left == 0) {
        http_answer(w->x, 200, str_of(w->seen));
        return;
    }
    struct home *worker = http_home(w->x);
    if (w->left == w->steps) { /* others may run in a turn of their own, before back is posted */
        home_post(worker, &w->beside[0]);
        home_post(worker, &w->beside[1]);
    }
    home_post(worker, &w->back); /* w may be over */
}

static void walk_back(struct task *t)
{
    struct walk *w = CONTAINER_OF(t, struct walk, back);
    beside_run(w, '.');
    w->left--;
    if (w->left == 0 && !w->answers_there)
        http_answer(w->x, 200, str_of(w->seen));
    else
        home_post(loop_pool(w->b->loop), &w->there); /* races with the end of this turn */
}

static void get_walk(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    struct walk *w = arena_calloc(http_arena(x), 1, sizeof *w);
    uint64_t steps = 0;
    INVARIANT(w != NULL);
    INVARIANT(str_to_u64(http_param(x, "steps"), &steps) && steps > 0 && steps <= STEPS_MAX);
    *w = (struct walk){ .b = b,
                        .x = x,
                        .worker = pthread_self(),
                        .there = { .run = walk_there },
                        .back = { .run = walk_back },
                        .beside = { { .run = first_beside }, { .run = second_beside } },
                        .steps = (unsigned)steps,
                        .left = (unsigned)steps,
                        .leaves = str_eq(http_param(x, "who"), STR("leaves")),
                        .answers_there = str_eq(http_param(x, "where"), STR("there")) };
    http_defer(x);
    home_post(loop_pool(b->loop), &w->there);
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    (void)x, (void)status, (void)ns, (void)bytes_sent;
    struct bench *b = app;
    atomic_fetch_add(&b->finished, 1);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/walk/{steps}/{where}/{who}", get_walk, .label = "walk" },
    { .pattern = NULL },
};

static void *clients_main(void *ctx)
{
    struct bench *b = ctx;
    b->clients(b);
    http_server_drain(b->server);
    loop_stop(b->loop);
    return NULL;
}

static void bench_run(struct bench *b, void (*clients)(struct bench *b))
{
    pthread_t thread;
    b->loop = loop_new(2);
    b->clients = clients;
    const struct http_listen listens[] = { { .address = "127.0.0.1", .content = true } };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = { .connections_max = 2 * LEAVERS, .threads = 2 },
        .clock = echo_clock(),
        .loop = b->loop,
        .hooks = { .app = b, .refuse = refuse, .finished = finished },
    };
    assert_int_equal(http_server_new(&opts, &b->server, &note), ERR_OK);
    assert_int_equal(http_server_start(b->server, &note), ERR_OK);
    b->port = http_server_port(b->server, 0);
    assert_int_equal(pthread_create(&thread, NULL, clients_main, b), 0);
    loop_run(b->loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    http_server_free(&b->server);
    loop_free(&b->loop);
}

static void walk(unsigned steps, const char *where, int fd)
{
    static const char dots[] = "........";
    struct wire_answer answer;
    char request[128], wanted[64];
    (void)snprintf(request, sizeof request, "GET /walk/%u/%s/stays HTTP/1.1\r\nHost: x\r\n\r\n",
                   steps, where);
    (void)snprintf(wanted, sizeof wanted, "ab%.*s", (int)steps, dots);
    INVARIANT(wire_send(fd, str_of(request)));
    wire_read(fd, false, &answer);
    INVARIANT(answer.status == 200);
    INVARIANT(strcmp(answer.body, wanted) == 0);
}

static void clients_one_by_one(struct bench *b)
{
    int fd = wire_connect(b->port);
    walk(1, "here", fd);
    walk(STEPS_MAX, "here", fd);
    walk(1, "there", fd);
    walk(STEPS_MAX, "there", fd);
    close(fd);
}

static void tasks_run_on_the_worker_in_order_of_posting(void **state)
{
    (void)state;
    struct bench b = { .loop = NULL };
    bench_run(&b, clients_one_by_one);
}

static void *client_main(void *ctx)
{
    const struct bench *b = ctx;
    int fd = wire_connect(b->port);
    for (unsigned i = 0; i < ROUNDS; i++)
        walk(1 + i % STEPS_MAX, i % 3 == 0 ? "there" : "here", fd);
    close(fd);
    return NULL;
}

static void clients_at_once(struct bench *b)
{
    pthread_t clients[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        INVARIANT(pthread_create(&clients[i], NULL, client_main, b) == 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        INVARIANT(pthread_join(clients[i], NULL) == 0);
}

static void turns_race_with_tasks_and_answers(void **state)
{
    (void)state;
    struct bench b = { .loop = NULL };
    bench_run(&b, clients_at_once);
    assert_int_equal(atomic_load(&b.finished), CLIENTS * ROUNDS);
}

static void clients_that_leave(struct bench *b)
{
    for (unsigned i = 0; i < LEAVERS; i++) {
        int fd = wire_connect(b->port);
        INVARIANT(wire_send(fd, i % 2 == 0
                                    ? STR("GET /walk/8/here/leaves HTTP/1.1\r\nHost: x\r\n\r\n")
                                    : STR("GET /walk/7/there/leaves HTTP/1.1\r\nHost: x\r\n\r\n")));
        close(fd);
    }
    int64_t deadline = wire_now_ms() + WIRE_DEADLINE_MS;
    while (atomic_load(&b->finished) < LEAVERS)
        INVARIANT(wire_now_ms() < deadline);
}

static void who_leaves_is_seen_to_when_its_tasks_are_done(void **state)
{
    (void)state;
    struct bench b = { .loop = NULL };
    bench_run(&b, clients_that_leave);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_on_the_worker_in_order_of_posting),
        cmocka_unit_test(turns_race_with_tasks_and_answers),
        cmocka_unit_test(who_leaves_is_seen_to_when_its_tasks_are_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
