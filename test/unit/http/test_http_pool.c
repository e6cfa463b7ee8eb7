/* Goal: what is urgent does not wait in the pool behind what takes long, and does not keep that
 * from its turn.
 * Method: a server whose pool has one thread, which is held until all requests wait for it; their
 * handlers note the order in which they run. */
#include "echo.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "http/http.h"
#include "lib/wait.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_MAX = 64, LONGS = 4, URGENTS = 20 };

struct bench {
    struct http_server *server;
    uint16_t port;
    sem_t held, let_go;
    atomic_uint routed, runs_count;
    char runs[RUNS_MAX + 1]; /* the first letters of their routes, in order */
};

static void note_run(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    unsigned i = atomic_fetch_add(&b->runs_count, 1);
    assert_true(i < RUNS_MAX);
    b->runs[i] = http_target(x).p[1];
    http_answer(x, 200, STR("ran\n"));
}

static void hold(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    sem_post(&b->held);
    sem_wait(&b->let_go);
    http_answer(x, 200, STR("held\n"));
}

static void here(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, STR("here\n"));
}

/* On the worker, right before the request is handed to the pool. */
static bool authorize(struct http_exchange *x, const char *permission, void *app)
{
    (void)x, (void)permission;
    atomic_fetch_add(&((struct bench *)app)->routed, 1);
    return true;
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/hold", hold, .label = "hold", .pool = true },
    { HTTP_GET, "/here", here, .label = "here" },
    { HTTP_GET, "/long", note_run, .label = "long", .pool = true },
    { HTTP_GET, "/urgent", note_run, .label = "urgent", .pool = true, .urgent = true },
    { HTTP_GET, "/first", note_run, .label = "first", .pool = true, .first = true },
    { .pattern = NULL },
};

static void bench_begin(struct bench *b)
{
    const struct http_listen listens[] = { { .address = "127.0.0.1", .content = true } };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = { .threads = 1 },
        .clock = echo_clock(),
        .hooks = { .app = b, .refuse = refuse, .authorize = authorize },
        .pool_threads = 1,
    };
    *b = (struct bench){ .runs_count = 0 };
    assert_int_equal(sem_init(&b->held, 0, 0), 0);
    assert_int_equal(sem_init(&b->let_go, 0, 0), 0);
    assert_int_equal(http_server_new(&opts, &b->server, &note), ERR_OK);
    assert_int_equal(http_server_start(b->server, &note), ERR_OK);
    b->port = http_server_port(b->server, 0);
}

static void bench_end(struct bench *b)
{
    http_server_free(&b->server);
    sem_destroy(&b->held);
    sem_destroy(&b->let_go);
}

/* A connection on which that was asked; it waits in the pool. */
static int ask(struct bench *b, str request)
{
    struct wire_answer *a = malloc(sizeof *a);
    unsigned routed = atomic_load(&b->routed);
    int fd = wire_connect(b->port);
    assert_true(wire_send(fd, request));
    WAIT_UNTIL(atomic_load(&b->routed) > routed);
    wire_ask(b->port, STR("GET /here HTTP/1.1\r\nHost: x\r\n\r\n"), a); /* by the one worker */
    assert_int_equal(a->status, 200);
    free(a);
    return fd;
}

static void answers_come(const int *fds, unsigned count)
{
    struct wire_answer *a = malloc(sizeof *a);
    for (unsigned i = 0; i < count; i++) {
        wire_read(fds[i], false, a);
        assert_int_equal(a->status, 200);
        close(fds[i]);
    }
    free(a);
}

#define GET(path) STR("GET " path " HTTP/1.1\r\nHost: x\r\n\r\n")

static void what_is_urgent_is_taken_first_and_the_rest_in_turn(void **state)
{
    (void)state;
    struct bench b;
    int fds[1 + LONGS + URGENTS];
    unsigned count = 0;
    bench_begin(&b);
    fds[count++] = ask(&b, GET("/hold"));
    sem_wait(&b.held);
    for (unsigned i = 0; i < LONGS; i++)
        fds[count++] = ask(&b, GET("/long"));
    for (unsigned i = 0; i < URGENTS; i++)
        fds[count++] = ask(&b, i % 2 == 0 ? GET("/urgent") : GET("/first"));
    sem_post(&b.let_go);
    answers_come(fds, count);
    bench_end(&b);
    assert_string_equal(b.runs, "ufufufuflufufufuflufufll");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_urgent_is_taken_first_and_the_rest_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
