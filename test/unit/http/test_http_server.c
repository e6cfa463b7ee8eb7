/* Goal: each request is answered once, whoever answers and whatever the client does meanwhile, and
 * bodies have their limits. Method: raw bytes to a live server; deferred answers from other threads
 * (run this under the thread sanitizer too). */
#include "base/buf.h"
#include "echo.h"
#include "lib/wait.h"
#include "wire.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define READY "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n"
#define PARK "GET /park HTTP/1.1\r\nHost: a\r\n\r\n"
enum { DRAIN_BYTES = 64 << 10 };

static struct wire_answer answer; /* large; one test at a time */

static int setup(void **state)
{
    const struct http_limits limits = { .threads = 2,
                                        .connections_max = 500,
                                        .body_drain_bytes_max = DRAIN_BYTES };
    *state = echo_start(&limits);
    return 0;
}

static int teardown(void **state)
{
    struct echo *e = *state;
    if (e != NULL)
        echo_stop(&e);
    return 0;
}

static void until_parked(struct echo *e, unsigned count)
{
    WAIT_UNTIL(echo_parked(e) >= count);
    assert_int_equal(echo_parked(e), count);
}

static void until_open(struct echo *e, unsigned count)
{
    int64_t deadline = wire_now_ms() + WIRE_DEADLINE_MS;
    unsigned open; /* looked at once: others may be read by the next look */
    while ((open = http_server_open_requests(echo_server(e))) != count &&
           wire_now_ms() < deadline) {
        http_server_sweep(echo_server(e));
        wait_pause(10);
    }
    assert_int_equal(open, count);
}

/* ---- connections ---- */

static void one_connection_carries_many_requests(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    for (int i = 0; i < 100; i++) {
        assert_true(wire_send(fd, i % 2 == 0 ? STR(READY)
                                             : STR("GET /echo/a HTTP/1.1\r\nHost: a\r\n\r\n")));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_false(answer.close);
        if (i % 2 == 0)
            assert_string_equal(answer.body, "ready\n");
    }
    close(fd);
    assert_int_equal(echo_counts(e).early, 50);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(
        wire_send(fd, STR(READY "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                                "GET /size/7 HTTP/1.1\r\nHost: a\r\n\r\n" READY)));
    static const char *const bodies[] = { "ready\n", "3 294\n", "xxxxxxx", "ready\n" };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        wire_read(fd, false, &answer);
        assert_string_equal(answer.body, bodies[i]);
    }
    close(fd);
}

static void pipelined_requests_behind_a_deferred_one_wait(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR(PARK READY PARK READY)));
    until_parked(e, 1);
    echo_release(e);
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "parked\n");
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "ready\n");
    until_parked(e, 1);
    echo_release(e);
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "parked\n");
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "ready\n");
    close(fd);
}

static void a_ready_answer_takes_headers_of_its_request(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("GET /ready?note=mine HTTP/1.1\r\nHost: a\r\n\r\n" READY
                                  "HEAD /ready?note=other HTTP/1.1\r\nHost: a\r\n\r\n" READY)));
    static const char *const notes[] = { "mine", "", "other", "" };
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        bool head = i == 2;
        wire_read(fd, head, &answer);
        assert_int_equal(answer.status, 200);
        assert_string_equal(wire_header(&answer, "X-Note"), notes[i]);
        assert_string_equal(wire_header(&answer, "ETag"), "\"1/2\"");
        assert_string_equal(wire_header(&answer, "Content-Length"), "6");
        assert_string_equal(answer.body, head ? "" : "ready\n");
        assert_false(answer.close);
    }
    close(fd);
}

static void a_ready_answer_is_given_by_another_thread(void **state)
{
    struct echo *e = *state;
    int fds[4];
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fds[i], STR("GET /park?ready HTTP/1.1\r\nHost: a\r\n\r\n" READY)));
    }
    until_parked(e, COUNT_OF(fds));
    echo_release(e);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        for (int times = 0; times < 2; times++) {
            wire_read(fds[i], false, &answer);
            assert_string_equal(wire_header(&answer, "ETag"), "\"1/2\"");
            assert_string_equal(answer.body, "ready\n");
        }
        close(fds[i]);
    }
}

#define SAME "Host: a\r\nX-Request-Id: same\r\n\r\n"
static void head_answers_as_get_does_without_the_body(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    static const char *const paths[] = { "/size/1000", "/ready", "/none" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        char request[128], head[sizeof answer.head];
        int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" SAME, paths[i]);
        assert_true(wire_send(fd, (str){ .p = request, .n = (size_t)n }));
        wire_read(fd, false, &answer);
        memcpy(head, answer.head, sizeof head);
        n = snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\n" SAME, paths[i]);
        assert_true(wire_send(fd, (str){ .p = request, .n = (size_t)n }));
        wire_read(fd, true, &answer);
        (void)memcpy(strstr(head, "Date:"), strstr(answer.head, "Date:"),
                     strlen("Date: Fri, 27 Nov 2026 01:48:18 GMT")); /* a second may have passed */
        assert_string_equal(answer.head, head);
    }
    close(fd);
}

static void not_modified_has_the_length_of_what_it_stands_for(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    for (int i = 0; i < 2; i++) {
        assert_true(wire_send(fd, STR("GET /not-modified HTTP/1.1\r\nHost: a\r\n\r\n")));
        wire_read(fd, true, &answer);
        assert_int_equal(answer.status, 304);
        assert_string_equal(wire_header(&answer, "content-length"), "1234");
    }
    close(fd);
}

static void http_10_closes_unless_asked(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("GET /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")));
    wire_read(fd, false, &answer);
    assert_string_equal(wire_header(&answer, "connection"), "Keep-Alive");
    assert_true(wire_send(fd, STR("GET /ready HTTP/1.0\r\n\r\n")));
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "ready\n");
    assert_true(answer.close);
    assert_true(wire_is_closed(fd));
    close(fd);
}

/* ---- bodies ---- */

static void put_body(struct buf *b, size_t n)
{
    char *at = buf_extend(b, n);
    assert_non_null(at);
    memset(at, 'a', n);
}

static void put_chunks(struct buf *b, size_t n, size_t chunk)
{
    for (size_t sent = 0; sent < n; sent += chunk) {
        size_t now = n - sent < chunk ? n - sent : chunk;
        buf_printf(b, "%zx\r\n", now);
        put_body(b, now);
        buf_put(b, STR("\r\n"));
    }
    buf_put(b, STR("0\r\n\r\n"));
}

/* Sends a body of n bytes, declared or in chunks of chunk bytes. Returns the connection; the answer
 * is read. */
static int send_body(struct echo *e, const char *line, size_t n, size_t chunk)
{
    struct buf b;
    buf_init(&b, 8 << 20);
    buf_printf(&b, "%s HTTP/1.1\r\nHost: a\r\n", line);
    if (chunk == 0) {
        buf_printf(&b, "Content-Length: %zu\r\n\r\n", n);
        put_body(&b, n);
    } else {
        buf_put(&b, STR("Transfer-Encoding: chunked\r\n\r\n"));
        put_chunks(&b, n, chunk);
    }
    assert_int_equal(buf_status(&b), ERR_OK);
    int fd = wire_connect(echo_port(e, 0));
    (void)wire_send(fd, buf_str(&b)); /* may be cut off */
    buf_fini(&b);
    wire_read(fd, false, &answer);
    return fd;
}

static bool serves_on(int fd)
{
    bool fine = wire_send(fd, STR(READY));
    wire_read(fd, false, &answer);
    return fine && strcmp(answer.body, "ready\n") == 0;
}

static void goes_on(int fd)
{
    assert_false(answer.close);
    assert_true(serves_on(fd));
    close(fd);
}

static void bodies_up_to_the_limit_arrive_whole(void **state)
{
    static const struct {
        size_t n, chunk;
    } sizes[] = {
        { 0, 0 },
        { 1, 0 },
        { 20000, 0 },
        { ECHO_BODY_BYTES_MAX, 0 },
        { 0, 5 },
        { 1, 1 },
        { 1000, 1 },
        { 70000, 4096 },
        { ECHO_BODY_BYTES_MAX, 60000 },
        { ECHO_BODY_BYTES_MAX, ECHO_BODY_BYTES_MAX },
    };
    struct echo *e = *state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "%zu %zu\n", sizes[i].n, sizes[i].n * 'a');
        int fd = send_body(e, "POST /count", sizes[i].n, sizes[i].chunk);
        assert_string_equal(answer.body, wanted);
        goes_on(fd);
    }
}

static void a_body_past_the_limit_is_refused(void **state)
{
    struct echo *e = *state;
    /* A little past it: dropped, then answered. */
    int fd = -1;
    for (size_t chunk = 0; chunk <= 60000; chunk += 60000) {
        fd = send_body(e, "POST /count", ECHO_BODY_BYTES_MAX + 1, chunk);
        assert_int_equal(answer.status, 413);
        goes_on(fd);
    }
    /* Declared and too long to drop: told at once, and closed. What still comes is dropped for a
     * while, but not all of this: the reset may come first. */
    fd = send_body(e, "POST /count", ECHO_BODY_BYTES_MAX + DRAIN_BYTES + 1, 0);
    assert_true(answer.status == 0 || (answer.status == 413 && answer.close));
    close(fd);
    /* Chunked: known late. More than is dropped beforehand; told then, and closed. */
    fd = send_body(e, "POST /count", ECHO_BODY_BYTES_MAX + DRAIN_BYTES + 60000, 60000);
    assert_true(answer.status == 413 && answer.close);
    close(fd);
    /* A route without bodies: dropped up to the drain limit, then answered. */
    for (size_t chunk = 0; chunk <= 60000; chunk += 60000) {
        fd = send_body(e, "DELETE /thing", 60000, chunk);
        assert_int_equal(answer.status, 413);
        goes_on(fd);
    }
}

/* Refused in the middle of it: what has come is let go before the rest is read and dropped. */
static void a_body_beyond_the_budget_is_503_and_keeps_nothing(void **state)
{
    (void)state;
    struct budget budget = { .bytes_max = 200000 };
    const struct http_limits limits = { .threads = 1, .budget = &budget };
    struct echo *e = echo_start(&limits);
    for (size_t chunk = 0; chunk <= 60000; chunk += 60000) {
        int fd = send_body(e, "POST /count", 400000, chunk);
        assert_int_equal(answer.status, 503);
        goes_on(fd);
        fd = send_body(e, "POST /count", 200000, chunk);
        assert_int_equal(answer.status, 200);
        goes_on(fd);
    }
    int half = wire_connect(echo_port(e, 0));
    char *many = calloc(1, 300000);
    assert_non_null(many);
    assert_true(
        wire_send(half, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n")));
    assert_true(wire_send(half, (str){ .p = many, .n = 300000 }));
    WAIT_UNTIL(atomic_load(&budget.refused) >= 3 && budget_held(&budget) == 0);
    assert_int_equal(atomic_load(&budget.refused), 3);
    assert_int_equal(budget_held(&budget), 0); /* with the request under way */
    free(many);
    close(half);
    echo_stop(&e);
    assert_int_equal(budget_held(&budget), 0);
}

static void expect_continue_is_told_to_go_on_or_refused_at_once(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("POST /count HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                                  "Content-Length: 3\r\n\r\n")));
    wire_read(fd, true, &answer);
    assert_int_equal(answer.status, 100);
    assert_true(wire_send(fd, STR("abc")));
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "3 294\n");
    close(fd);
    static const struct {
        const char *line;
        int status;
    } refused[] = {
        { "POST /count HTTP/1.1\r\nContent-Length: 2000000", 413 },
        { "PUT /none HTTP/1.1\r\nContent-Length: 3", 404 },
        { "PUT /forbidden HTTP/1.1\r\nContent-Length: 3", 403 },
        { "PUT /echo/a HTTP/1.1\r\nContent-Length: 3", 405 },
        { "DELETE /thing HTTP/1.1\r\nTransfer-Encoding: chunked", 413 },
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char request[256];
        int n = snprintf(request, sizeof request, "%s\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
                         refused[i].line);
        wire_ask(echo_port(e, 0), (str){ .p = request, .n = (size_t)n }, &answer);
        assert_int_equal(answer.status, refused[i].status);
        assert_true(answer.close);
    }
}

static void clients_that_leave_in_the_middle_do_no_harm(void **state)
{
    struct echo *e = *state;
    static const char *const parts[] = {
        "",
        "G",
        "GET /echo/a HTTP/1.1\r\nHost",
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Le",
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
        "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "PUT /none HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
        "GET /size/3000000 HTTP/1.1\r\nHost: a\r\n\r\n"
    };
    for (int reset = 0; reset < 2; reset++) {
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            int fd = wire_connect(echo_port(e, 0));
            assert_true(wire_send(fd, str_of(parts[i])));
            const struct linger now = { .l_onoff = 1, .l_linger = 0 };
            if (reset)
                assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
            close(fd);
        }
    }
    until_open(e, 0);
    wire_ask(echo_port(e, 0), STR(READY), &answer);
    assert_int_equal(answer.status, 200);
}

/* ---- waiting ---- */

static void a_deferred_request_is_answered_by_another_thread(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR(PARK)));
    until_parked(e, 1);
    assert_int_equal(http_server_open_requests(echo_server(e)), 1);
    wire_ask(echo_port(e, 0), STR("POST /release HTTP/1.1\r\nHost: a\r\n\r\n"), &answer);
    assert_int_equal(answer.status, 200);
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "parked\n");
    assert_true(serves_on(fd));
    close(fd);
    until_open(e, 0);
}

static void clients_that_leave_while_deferred_do_no_harm(void **state)
{
    struct echo *e = *state;
    for (int i = 0; i < 20; i++) {
        int fd = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fd, STR(PARK)));
        const struct linger now = { .l_onoff = i % 2, .l_linger = 0 };
        until_parked(e, (unsigned)i + 1);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
        close(fd);
    }
    echo_release(e);
    until_open(e, 0);
    wire_ask(echo_port(e, 0), STR(READY), &answer);
    assert_int_equal(answer.status, 200);
}

/* More than the workers are told of at once. */
static void all_of_a_crowd_are_answered(void **state)
{
    enum { PARKED = 400 };
    struct echo *e = *state;
    int parked[PARKED];
    for (unsigned i = 0; i < PARKED; i++) {
        parked[i] = wire_connect(echo_port(e, 0));
        assert_true(wire_send(parked[i], STR(PARK)));
    }
    until_parked(e, PARKED);
    for (unsigned i = 0; i < PARKED; i += 7)
        close(parked[i]);
    echo_release(e);
    for (unsigned i = 0; i < PARKED; i++) {
        if (i % 7 == 0)
            continue;
        wire_read(parked[i], false, &answer);
        assert_string_equal(answer.body, "parked\n");
        close(parked[i]);
    }
    until_open(e, 0);
    wire_ask(echo_port(e, 0), STR(READY), &answer);
    assert_int_equal(answer.status, 200);
}

struct crowd {
    struct echo *e;
    atomic_bool over;
    atomic_int parked_answers, releasers;
};

static void *crowd_client(void *at)
{
    struct crowd *c = at;
    struct wire_answer *a = malloc(sizeof *a);
    int fd = wire_connect(echo_port(c->e, 0));
    for (int i = 0; i < 50; i++) {
        INVARIANT(wire_send(fd, i % 3 == 0 ? STR(READY) : STR(PARK)));
        wire_read(fd, false, a);
        INVARIANT(a->status == 200);
        atomic_fetch_add(&c->parked_answers, strcmp(a->body, "parked\n") == 0);
    }
    close(fd);
    free(a);
    return NULL;
}

static void *crowd_releaser(void *at)
{
    struct crowd *c = at;
    bool sweeps = atomic_fetch_add(&c->releasers, 1) == 0; /* the sweep wants one thread */
    while (!atomic_load(&c->over)) {
        echo_release(c->e);
        if (sweeps)
            http_server_sweep(echo_server(c->e));
        sched_yield();
    }
    return NULL;
}

static void many_deferred_requests_race_with_many_answers(void **state)
{
    enum { CLIENTS = 8, RELEASERS = 2, PARKS = 33 };
    struct crowd crowd = { .e = *state };
    pthread_t clients[CLIENTS], releasers[RELEASERS];
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, crowd_client, &crowd), 0);
    for (int i = 0; i < RELEASERS; i++)
        assert_int_equal(pthread_create(&releasers[i], NULL, crowd_releaser, &crowd), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    atomic_store(&crowd.over, true);
    for (int i = 0; i < RELEASERS; i++)
        pthread_join(releasers[i], NULL);
    assert_int_equal(atomic_load(&crowd.parked_answers), CLIENTS * PARKS);
}

static void draining_answers_all_and_closes_each(void **state)
{
    enum { PARKED = 10 };
    struct echo *e = *state;
    int parked[PARKED], idle = wire_connect(echo_port(e, 0)), half = wire_connect(echo_port(e, 0));
    assert_true(serves_on(idle));
    assert_true(wire_send(half, STR("GET /rea")));
    for (int i = 0; i < PARKED; i++) {
        parked[i] = wire_connect(echo_port(e, 0));
        assert_true(wire_send(parked[i], STR(PARK)));
    }
    until_parked(e, PARKED);
    http_server_drain(echo_server(e));
    assert_int_equal(http_server_open_requests(echo_server(e)), PARKED);
    assert_int_equal(http_server_owed_requests(echo_server(e)), PARKED);
    wire_ask(echo_port(e, 0), STR(READY), &answer); /* still listening */
    assert_string_equal(answer.body, "ready\n");
    assert_true(answer.close);
    assert_string_equal(wire_header(&answer, "etag"), "\"1/2\"");
    wire_ask(echo_port(e, 0), STR(PARK), &answer);
    assert_int_equal(answer.status, 503);
    assert_true(answer.close);
    assert_true(wire_send(idle, STR(READY)));
    wire_read(idle, false, &answer);
    assert_true(answer.close && wire_is_closed(idle));
    echo_release(e);
    for (int i = 0; i < PARKED; i++) {
        wire_read(parked[i], false, &answer);
        assert_string_equal(answer.body, "parked\n");
        assert_true(answer.close && wire_is_closed(parked[i]));
        close(parked[i]);
    }
    until_open(e, 0);
    assert_int_equal(http_server_owed_requests(echo_server(e)), 0);
    echo_stop(&e);
    *state = NULL;
    assert_true(wire_is_closed(half));
    close(half);
    close(idle);
}

static void stopping_at_once_with_deferred_requests_does_not_abort(void **state)
{
    struct echo *e = *state;
    int parked[300]; /* more than the workers are told of at once */
    for (size_t i = 0; i < COUNT_OF(parked); i++) {
        parked[i] = wire_connect(echo_port(e, 0));
        assert_true(wire_send(parked[i], STR(PARK)));
    }
    until_parked(e, COUNT_OF(parked));
    echo_stop(&e); /* answers them and stops in one breath: answered or closed, never hung */
    *state = NULL;
    for (size_t i = 0; i < COUNT_OF(parked); i++) {
        wire_read(parked[i], false, &answer);
        assert_true(answer.status == 200 || answer.status == 0);
        close(parked[i]);
    }
}

static void every_request_is_told_finished_once(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    for (int i = 0; i < 10; i++)
        assert_true(serves_on(fd));
    assert_true(
        wire_send(fd, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")));
    until_open(e, 1);
    close(fd);
    int64_t deadline = wire_now_ms() + WIRE_DEADLINE_MS;
    for (; echo_counts(e).never_answered == 0 && wire_now_ms() < deadline; wait_pause(10))
        http_server_sweep(echo_server(e));
    assert_int_equal(echo_counts(e).finished, 10);
    assert_int_equal(echo_counts(e).never_answered, 1);
}

static void a_port_that_is_taken_is_told(void **state)
{
    struct echo *e = *state;
    const struct http_listen listen = { .address = "127.0.0.1",
                                        .port = echo_port(e, 0),
                                        .content = true };
    const struct http_route none[] = { { .pattern = NULL } }, *tables[] = { none };
    struct http_server_opts opts = { .listens = &listen,
                                     .listens_count = 1,
                                     .tables = tables,
                                     .tables_count = 1,
                                     .limits = { .connections_max = 10 },
                                     .clock = echo_clock() };
    struct http_server *s = NULL;
    struct err_note note = { "" };
    assert_int_equal(http_server_new(&opts, &s, &note), ERR_BAD); /* no refuse hook */
    opts.hooks.refuse =
        (void (*)(struct http_exchange *, int, const char *, str, void *))(uintptr_t)1;
    assert_int_equal(http_server_new(&opts, &s, &note), ERR_UNAVAILABLE);
    assert_non_null(strstr(note.text, "127.0.0.1"));
    const struct http_listen named = { .address = "localhost", .content = true };
    opts.listens = &named;
    assert_int_equal(http_server_new(&opts, &s, &note), ERR_BAD);
    opts.limits.connections_max = 1u << 30;
    assert_int_equal(http_server_new(&opts, &s, &note), ERR_LIMIT);
    assert_non_null(strstr(note.text, "1073741824"));
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_connection_carries_many_requests, setup, teardown),
        cmocka_unit_test(a_body_beyond_the_budget_is_503_and_keeps_nothing),
        cmocka_unit_test_setup_teardown(pipelined_requests_are_answered_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelined_requests_behind_a_deferred_one_wait, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_ready_answer_takes_headers_of_its_request, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_ready_answer_is_given_by_another_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(head_answers_as_get_does_without_the_body, setup, teardown),
        cmocka_unit_test_setup_teardown(not_modified_has_the_length_of_what_it_stands_for, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(http_10_closes_unless_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_up_to_the_limit_arrive_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_past_the_limit_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(expect_continue_is_told_to_go_on_or_refused_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(clients_that_leave_in_the_middle_do_no_harm, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_deferred_request_is_answered_by_another_thread, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(clients_that_leave_while_deferred_do_no_harm, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_of_a_crowd_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(many_deferred_requests_race_with_many_answers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(draining_answers_all_and_closes_each, setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_at_once_with_deferred_requests_does_not_abort,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(every_request_is_told_finished_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_port_that_is_taken_is_told, setup, teardown),
    };
    int failed = cmocka_run_group_tests_name("on workers", tests, NULL, NULL);
    echo_pool(3);
    return failed + cmocka_run_group_tests_name("on the pool", tests, NULL, NULL);
}
