/* Goal: what a worker puts off to its next turn is seen to there, and what begins too late for a
 * server that ends does not begin.
 * Method: a server with one worker, and a client that sends several requests at once. */
#include "echo.h"
#include "odd_transport.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "http/exchange.h"
#include "http/http.h"
#include "lib/wait.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUESTS_MAX = 40, TEXT_BYTES_MAX = 64 << 10 };

struct bench {
    struct http_limits limits; /* threads: 1 when it says nothing */
    struct http_server *server;
    uint16_t port;
    _Atomic(struct http_exchange *) parked;
    atomic_uint counted;
    struct task own; /* of /own */
    struct http_exchange *own_x;
};

/* ---- a machine without memory ---- */

static atomic_size_t refused_size; /* the next malloc of so many bytes fails */
static atomic_size_t largest_size; /* of any malloc */
static atomic_size_t held_size;    /* who asks for so many bytes is held until it is 0 */
static atomic_uint held;           /* so many were, ever */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    size_t refused = size;
    size_t largest = atomic_load(&largest_size);
    while (size > largest && !atomic_compare_exchange_weak(&largest_size, &largest, size))
        continue;
    if (size > 0 && size == atomic_load(&held_size)) {
        atomic_fetch_add(&held, 1);
        while (size == atomic_load(&held_size))
            sched_yield();
    }
    if (size > 0 && atomic_compare_exchange_strong(&refused_size, &refused, 0))
        return NULL;
    return __real_malloc(size);
}

/* ---- a process without descriptors ---- */

static atomic_uint accepts_refused, accepts; /* the next so many fail; so many were tried */
static atomic_int twin = -1;                 /* of the next connection, when it is 0 before */

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *addr_n, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *addr_n, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *addr_n, int flags)
{
    atomic_fetch_add(&accepts, 1);
    if (atomic_load(&accepts_refused) == 0) {
        int got = __real_accept4(fd, addr, addr_n, flags);
        if (got >= 0 && atomic_load(&twin) == 0)
            atomic_store(&twin, dup(got));
        return got;
    }
    atomic_fetch_sub(&accepts_refused, 1);
    errno = EMFILE;
    return -1;
}

/* ---- a kernel without room for sockets that are waited for ---- */

static atomic_uint watches_refused; /* of sockets that listen */

int __real_epoll_ctl(int set, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *e)
{
    bool listens = op == EPOLL_CTL_ADD && (e->events & EPOLLEXCLUSIVE) != 0;
    if (!listens || atomic_load(&watches_refused) == 0)
        return __real_epoll_ctl(set, op, fd, e);
    atomic_fetch_sub(&watches_refused, 1);
    errno = ENOSPC;
    return -1;
}

/* ---- the server ---- */

static void get_plain(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, STR("plain\n"));
}

static void get_park(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    http_defer(x);
    atomic_store(&b->parked, x);
}

static void own_run(struct task *t)
{
    http_answer(CONTAINER_OF(t, struct bench, own)->own_x, 200, STR("own\n"));
}

/* What it waits for is there at once: posted by the worker itself. */
static void get_own(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    b->own_x = x;
    b->own.run = own_run;
    http_defer(x);
    home_post(http_home(x), &b->own);
}

static void post_count(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    str body = http_body(x);
    atomic_fetch_add(&b->counted, 1);
    http_answer(x, 200, arena_printf(http_arena(x), "%.*s", STR_ARG(body)));
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/plain", get_plain, .label = "plain" },
    { HTTP_GET, "/park", get_park, .label = "park" },
    { HTTP_POST, "/park", get_park, .body_bytes_max = 1 << 20, .label = "park" },
    { HTTP_GET, "/own", get_own, .label = "own" },
    { HTTP_POST, "/count", post_count, .body_bytes_max = 1 << 20, .label = "count" },
    { .pattern = NULL },
};

static void bench_begin(struct bench *b)
{
    const struct http_listen listens[] = {
        { .address = "127.0.0.1", .content = true, .transport = odd_transport() }
    };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    b->limits.threads = b->limits.threads > 0 ? b->limits.threads : 1;
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = b->limits,
        .clock = echo_clock(),
        .hooks = { .app = b, .refuse = refuse },
    };
    assert_int_equal(http_server_new(&opts, &b->server, &note), ERR_OK);
    assert_int_equal(http_server_start(b->server, &note), ERR_OK);
    b->port = http_server_port(b->server, 0);
}

static void answer_parked(struct bench *b)
{
    WAIT_UNTIL(atomic_load(&b->parked) != NULL);
    http_answer(atomic_exchange(&b->parked, NULL), 200, STR("parked\n"));
}

/* ---- the client ---- */

static void answer_is(int fd, int status, const char *body)
{
    struct wire_answer *a = malloc(sizeof *a);
    assert_non_null(a);
    wire_read(fd, false, a);
    assert_int_equal(a->status, status);
    assert_string_equal(a->body, body);
    free(a);
}

static bool is_served(uint16_t port)
{
    struct wire_answer a;
    wire_ask(port, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"), &a);
    return a.status == 200;
}

/* So many GETs, then a POST to path, then a GET, all in one piece. */
static void many_at_once(unsigned gets, const char *path, bool chunked, int status,
                         const char *body)
{
    struct bench b = { .counted = 0 };
    char *text = calloc(1, TEXT_BYTES_MAX);
    size_t n = 0;
    assert_non_null(text);
    bench_begin(&b);
    for (unsigned i = 0; i < gets; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES_MAX - n,
                              "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    n += (size_t)snprintf(text + n, TEXT_BYTES_MAX - n, "POST %s HTTP/1.1\r\nHost: x\r\n%s", path,
                          chunked ? "Transfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n"
                                  : "Content-Length: 4\r\n\r\nfour");
    n += (size_t)snprintf(text + n, TEXT_BYTES_MAX - n, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, (str){ .p = text, .n = n }));
    for (unsigned i = 0; i < gets; i++)
        answer_is(fd, 200, "plain\n");
    answer_is(fd, status, body);
    answer_is(fd, 200, "plain\n");
    close(fd);
    http_server_free(&b.server);
    free(text);
}

/* Wherever the worker's turn ends. */
static void a_body_behind_many_requests_is_read(void **state)
{
    (void)state;
    for (unsigned gets = 13; gets < 18; gets++) {
        many_at_once(gets, "/count", false, 200, "four");
        many_at_once(gets, "/count", true, 200, "four");
        many_at_once(gets, "/nothing", false, 404, "no route has this path");
        many_at_once(gets, "/nothing", true, 404, "no route has this path");
    }
}

static void a_task_that_a_put_off_request_posts_to_itself_runs(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    bench_begin(&b);
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("GET /park HTTP/1.1\r\nHost: x\r\n\r\n"
                                  "GET /own HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_parked(&b);
    answer_is(fd, 200, "parked\n");
    answer_is(fd, 200, "own\n");
    close(fd);
    http_server_free(&b.server);
}

/* It ends when that request is answered, not while its handler has it. */
static void no_memory_for_what_is_behind_a_request_ends_the_connection_later(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    struct wire_answer a;
    char text[500];
    int behind =
        snprintf(text, sizeof text, "GET /plain HTTP/1.1\r\nHost: x\r\nX-Wide: %0200d\r\n\r\n", 0);
    size_t n = (size_t)snprintf(text, sizeof text,
                                "GET /park HTTP/1.1\r\nHost: x\r\n\r\n"
                                "GET /plain HTTP/1.1\r\nHost: x\r\nX-Wide: %0200d\r\n\r\n",
                                0);
    bench_begin(&b);
    int fd = wire_connect(b.port);
    atomic_store(&refused_size, (size_t)behind);
    assert_true(wire_send(fd, (str){ .p = text, .n = n }));
    WAIT_UNTIL(atomic_load(&refused_size) == 0);
    answer_parked(&b);
    wire_read(fd, false, &a);
    assert_int_equal(a.status, 200);
    assert_true(a.close);
    assert_true(wire_is_closed(fd));
    close(fd);
    http_server_free(&b.server);
}

/* Not what fits in the worker's room: it is no memory of a request, and counts nowhere. */
static void what_is_kept_behind_a_request_is_no_larger_than_a_head(void **state)
{
    (void)state;
    static const char *const firsts[] = {
        "GET /park HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /park HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    };
    const size_t head_bytes_max = 16 << 10; /* the default */
    struct wire_answer a;
    char *many = calloc(1, TEXT_BYTES_MAX);
    assert_non_null(many);
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        struct bench b = { .counted = 0 };
        size_t n = (size_t)snprintf(many, TEXT_BYTES_MAX, "%s", firsts[i]);
        memset(many + n, 'G', TEXT_BYTES_MAX - n);
        bench_begin(&b);
        int fd = wire_connect(b.port);
        atomic_store(&largest_size, 0);
        assert_true(wire_send(fd, (str){ .p = many, .n = TEXT_BYTES_MAX }));
        WAIT_UNTIL(atomic_load(&b.parked) != NULL);
        answer_parked(&b);
        wire_read(fd, false, &a);
        assert_int_equal(a.status, 200);
        assert_true(atomic_load(&largest_size) <= (i == 0 ? head_bytes_max + 1 : 9000));
        close(fd);
        http_server_free(&b.server);
    }
    free(many);
}

/* Where they end is known late: the read that found it may have filled the worker's room. */
static void more_than_a_head_behind_chunks_ends_the_connection(void **state)
{
    (void)state;
    const str chunks = STR("4\r\nfour\r\n0\r\n\r\n");
    struct bench b = { .counted = 0 };
    struct wire_answer a;
    char *many = malloc(TEXT_BYTES_MAX);
    assert_non_null(many);
    memset(many, 'G', TEXT_BYTES_MAX);
    memcpy(many, chunks.p, chunks.n);
    bench_begin(&b);
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("POST /park HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n")));
    wire_read(fd, true, &a);
    assert_int_equal(a.status, 100);
    atomic_store(&held, 0);
    atomic_store(&held_size, sizeof(struct http_conn));
    int other = wire_connect(b.port);
    WAIT_UNTIL(atomic_load(&held) == 1);
    atomic_store(&largest_size, 0);
    assert_true(wire_send(fd, (str){ .p = many, .n = TEXT_BYTES_MAX }));
    atomic_store(&held_size, 0); /* all has come before any of it is read */
    WAIT_UNTIL(atomic_load(&b.parked) != NULL);
    answer_parked(&b);
    wire_read(fd, false, &a);
    assert_int_equal(a.status, 200);
    assert_true(a.close);
    assert_true(atomic_load(&largest_size) <= 9000);
    close(fd);
    close(other);
    http_server_free(&b.server);
    free(many);
}

/* As long as it is no larger than a head. */
static void what_is_behind_chunks_in_work_is_read_later(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    bench_begin(&b);
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("POST /park HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                                  "chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n"
                                  "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_parked(&b);
    answer_is(fd, 200, "parked\n");
    answer_is(fd, 200, "plain\n");
    close(fd);
    http_server_free(&b.server);
}

/* ---- descriptors ---- */

/* A listening socket says all the time that there is somebody: it is not asked all the time. */
static void a_worker_without_descriptors_accepts_later(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    bench_begin(&b);
    atomic_store(&accepts, 0);
    atomic_store(&accepts_refused, 3);
    int64_t began_ms = wire_now_ms();
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_is(fd, 200, "plain\n");
    assert_true(wire_now_ms() - began_ms >= 250);
    assert_true(atomic_load(&accepts) <= 5);
    close(fd);
    http_server_free(&b.server);
}

/* When descriptors are there again, the kernel may not take the sockets back at once. */
static void a_worker_that_cannot_wait_for_its_listeners_accepts_later(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    bench_begin(&b);
    atomic_store(&watches_refused, 2);
    atomic_store(&accepts_refused, 1);
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_is(fd, 200, "plain\n");
    assert_int_equal(atomic_load(&watches_refused), 0);
    close(fd);
    http_server_free(&b.server);
}

/* A child that was forked and has not begun its program holds it, too: the kernel tells of a socket
 * for as long as anybody has it open. */
static void a_connection_that_is_over_is_heard_of_no_more(void **state)
{
    (void)state;
    struct bench b = { .limits = { .connections_max = 1 } };
    bench_begin(&b);
    atomic_store(&twin, 0);
    int fd = wire_connect(b.port);
    assert_true(wire_send(fd, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_is(fd, 200, "plain\n");
    int kept = atomic_exchange(&twin, -1);
    assert_true(kept > 0);
    close(fd);
    for (unsigned i = 0; i < 3; i++) /* there is no room for another until it is over */
        WAIT_UNTIL(is_served(b.port));
    close(kept);
    http_server_free(&b.server);
}

/* ---- how many ---- */

static bool is_closed_by_now(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* One worker is about to serve the last that may be, and another accepts one more. */
static void no_more_are_served_than_may_be_whoever_accepts(void **state)
{
    (void)state;
    struct bench b = { .limits = { .threads = 2, .connections_max = 1 } };
    bench_begin(&b);
    atomic_store(&held, 0);
    atomic_store(&held_size, sizeof(struct http_conn));
    int first = wire_connect(b.port);
    WAIT_UNTIL(atomic_load(&held) == 1);
    int second = wire_connect(b.port);
    WAIT_UNTIL(atomic_load(&held) == 2 || is_closed_by_now(second));
    atomic_store(&held_size, 0);
    assert_int_equal(atomic_load(&held), 1);
    assert_true(wire_send(first, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
    answer_is(first, 200, "plain\n");
    close(first);
    close(second);
    WAIT_UNTIL(is_served(b.port)); /* the server sees that the first is gone */
    http_server_free(&b.server);
}

/* ---- the end ---- */

static void *free_main(void *ctx)
{
    struct bench *b = ctx;
    http_server_free(&b->server);
    return NULL;
}

/* It could wait for what is no more. */
static void a_body_that_ends_behind_the_server_calls_no_handler(void **state)
{
    (void)state;
    struct bench b = { .counted = 0 };
    struct wire_answer a;
    pthread_t thread;
    bench_begin(&b);
    int waits = wire_connect(b.port), stands = wire_connect(b.port), late = wire_connect(b.port);
    assert_true(wire_send(stands, STR("POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
                                      "Expect: 100-continue\r\n\r\n")));
    wire_read(stands, true, &a); /* its head was read */
    assert_int_equal(a.status, 100);
    assert_true(wire_send(waits, STR("GET /park HTTP/1.1\r\nHost: x\r\n\r\n")));
    WAIT_UNTIL(atomic_load(&b.parked) != NULL);
    assert_int_equal(pthread_create(&thread, NULL, free_main, &b), 0);
    do { /* until the end has begun: it waits for the parked one */
        assert_true(wire_send(late, STR("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")));
        wire_read(late, false, &a);
    } while (a.status == 200);
    assert_true(wire_send(stands, STR("four")));
    wire_read(stands, false, &a);
    assert_int_equal(a.status, 0);
    assert_int_equal(atomic_load(&b.counted), 0);
    answer_parked(&b);
    answer_is(waits, 200, "parked\n");
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(waits);
    close(stands);
    close(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_behind_many_requests_is_read),
        cmocka_unit_test(a_task_that_a_put_off_request_posts_to_itself_runs),
        cmocka_unit_test(no_memory_for_what_is_behind_a_request_ends_the_connection_later),
        cmocka_unit_test(what_is_kept_behind_a_request_is_no_larger_than_a_head),
        cmocka_unit_test(more_than_a_head_behind_chunks_ends_the_connection),
        cmocka_unit_test(what_is_behind_chunks_in_work_is_read_later),
        cmocka_unit_test(a_worker_without_descriptors_accepts_later),
        cmocka_unit_test(a_worker_that_cannot_wait_for_its_listeners_accepts_later),
        cmocka_unit_test(a_connection_that_is_over_is_heard_of_no_more),
        cmocka_unit_test(no_more_are_served_than_may_be_whoever_accepts),
        cmocka_unit_test(a_body_that_ends_behind_the_server_calls_no_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
