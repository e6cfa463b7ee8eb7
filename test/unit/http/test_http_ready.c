/* Goal: ready answers are given whole and in order, to slow readers too, whatever came before them
 * on their connection and in whatever pieces a request comes. Method: an early hook makes a ready
 * answer that tells what was seen of the request; raw sockets. */
#include "ready_parts.h"
#include "wire.h"

#include "base/check.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 3, CLIENTS = 8, CLIENT_REQUESTS = 300 };

static struct parts *parts;
static bool restless;

static int setup(void **state)
{
    (void)state;
    restless = false;
    parts = parts_start(THREADS, restless);
    return 0;
}

/* Whatever a connection is at, it may be another worker's the next time. */
static int setup_restless(void **state)
{
    (void)state;
    restless = true;
    parts = parts_start(THREADS, restless);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    parts_stop(&parts);
    return 0;
}

#define GET(target, more) "GET " target " HTTP/1.1\r\nHost: a\r\n" more "\r\n"

static void answers_do_not_depend_on_the_pieces_of_a_request(void **state)
{
    (void)state;
    static const char *const requests[] = {
        GET("/told", ""),
        GET("/told/a%20b?x=y&z", ""),
        "HEAD /told HTTP/1.1\r\nHost: a\r\n\r\n",
        GET("/same", ""),
        GET("/told", "X-Request-Id: mine\r\nAccept: text/html\r\nAccept: */*\r\n"),
        GET("/told", "X: \t y \t\r\nEmpty:\r\n"),
        GET("/told", "If-None-Match: \"1\"\r\nCookie: a=b\r\nConnection: keep-alive\r\n"),
        GET("/told", "Range: bytes=0-1\r\nAuthorization: x\r\n"),
        GET("/told", "Connection: close\r\n"),
        GET("/other", ""),
        GET("/told", "Content-Length: 0\r\n"),
        GET("/told", "Expect: 100-continue\r\n"),
        GET("/told", "Bad Name: x\r\n"),
        GET("/told", "Folded: x\r\n y\r\n"),
        GET("/told", "Bare: x\ny: z\r\n"),
        GET("/told", "Host: b\r\n"),
        GET("/told", "Host : a\r\n"),
        GET("/told", "Upgrade: h2c\r\n"),
        GET("/told", "Transfer-Encoding: chunked\r\n"),
        GET("/told", "Authorization: x\r\nAuthorization: y\r\n"),
        GET("http://a/told", ""),
        GET("http://b:1/told?x=y", "X: y\r\n"),
        GET("http://a/same", ""),
        GET("http://u@a/told", ""),
        GET("/to\tld", ""),
        GET(" /told", ""),
        "GET /told HTTP/1.1\r\n\r\n",
        "GET /told HTTP/1.0\r\nHost: a\r\n\r\n",
        "GET /told HTTP/1.1\nHost: a\n\n",
        "\r\nGET /told HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS /told HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    static const size_t pieces[] = { 1, 2, 7, 30 };
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        for (size_t n = 0; n < COUNT_OF(pieces); n++)
            parts_compare(parts, str_of(requests[i]), pieces[n],
                          strncmp(requests[i], "HEAD", 4) == 0 ||
                              strstr(requests[i], "/same") != NULL);
}

static void pipelined_ready_answers_come_in_order(void **state)
{
    (void)state;
    static struct wire_answer answer;
    enum { REQUESTS = 100 }; /* more than are answered in one turn */
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    for (unsigned i = 0; i < REQUESTS; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "GET /told/%u HTTP/1.1\r\nHost: a\r\n\r\n", i);
        assert_true(wire_send(fd, str_of(text)));
    }
    for (unsigned i = 0; i < REQUESTS; i++) {
        char target[32];
        (void)snprintf(target, sizeof target, "/told/%u\n", i);
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, target));
    }
    close(fd);
}

static void a_request_in_pieces_is_answered(void **state)
{
    (void)state;
    static struct wire_answer answer;
    str whole = STR(GET("/told", "X: y\r\n"));
    for (size_t at = 1; at < whole.n; at += 7) {
        int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
        assert_true(wire_send(fd, str_take(whole, at)));
        assert_true(wire_send(fd, str_skip(whole, at)));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_true(wire_send(fd, whole));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        close(fd);
    }
}

static void the_hook_is_asked_once_a_request(void **state)
{
    (void)state;
    static struct wire_answer answer;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    for (unsigned i = 0; i < 5; i++) { /* the fourth finds nothing there */
        assert_true(wire_send(fd, i == 3 ? STR(GET("/other", "")) : STR(GET("/told", ""))));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, i == 3 ? 404 : 200);
    }
    assert_int_equal(parts_asked(parts), 5);
    close(fd);
}

/* Asks for /told/number in a head of about pad bytes more. */
static void ask_told(int fd, unsigned number, int pad)
{
    static struct wire_answer answer;
    char text[2048], target[32];
    (void)snprintf(text, sizeof text, "GET /told/%u HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", number,
                   pad, 1);
    (void)snprintf(target, sizeof target, "/told/%u\n", number);
    assert_true(wire_send(fd, str_of(text)));
    wire_read(fd, false, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, target));
}

/* Not answered twice, however many there were. */
static void answered_requests_are_gone(void **state)
{
    (void)state;
    static struct wire_answer answer;
    static const unsigned counts[] = { 1, 2, 5, 100 };
    unsigned asked = 0;
    for (unsigned i = 0; i < COUNT_OF(counts); i++) {
        int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
        for (unsigned n = 0; n < counts[i]; n++)
            ask_told(fd, n, (int)(n * 67 % 1500));
        assert_true(wire_send(fd, STR(GET("/other", ""))));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 404);
        ask_told(fd, 777, 1);
        asked += counts[i] + 2;
        assert_int_equal(parts_asked(parts), asked);
        close(fd);
    }
}

static void who_only_stops_sending_gets_the_answers_and_an_end(void **state)
{
    (void)state;
    static struct wire_answer answer;
    char c;
    for (unsigned before = 0; before < 2; before++) {
        int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
        if (before > 0)
            ask_told(fd, 1, 1);
        assert_true(wire_send(fd, STR(GET("/told/a", "") GET("/told/b", ""))));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        wire_read(fd, false, &answer);
        assert_non_null(strstr(answer.body, "/told/a\n"));
        wire_read(fd, false, &answer);
        assert_non_null(strstr(answer.body, "/told/b\n"));
        assert_int_equal(recv(fd, &c, 1, 0), 0); /* in less than WIRE_DEADLINE_MS, and no reset */
        close(fd);
    }
}

static void stopping_resets_nobody_who_was_answered(void **state)
{
    (void)state;
    char c;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    ask_told(fd, 1, 1);
    parts_stop(&parts);
    assert_int_equal(recv(fd, &c, 1, 0), 0);
    close(fd);
    parts = parts_start(THREADS, restless);
}

static void until(unsigned (*count)(const struct http_server *s), unsigned wanted)
{
    int64_t deadline = wire_now_ms() + WIRE_DEADLINE_MS;
    while (count(parts_server(parts)) != wanted && wire_now_ms() < deadline)
        (void)poll(NULL, 0, 1);
    assert_int_equal(count(parts_server(parts)), wanted);
}

static void until_open(unsigned count)
{
    until(http_server_open_requests, count);
}

static void a_slow_reader_gets_all_of_it(void **state)
{
    (void)state;
    static struct wire_answer answer;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_send(fd, STR(GET("/large", "") GET("/told/next", ""))));
    until_open(1); /* it waits for room */
    wire_read(fd, false, &answer);
    assert_int_equal(answer.body_n, PARTS_LARGE_BYTES);
    wire_read(fd, false, &answer);
    assert_non_null(strstr(answer.body, "/told/next"));
    until_open(0);
    assert_string_equal(parts_last_target(parts), "/told/next");
    close(fd);
}

static void who_leaves_in_the_middle_is_told_as_finished(void **state)
{
    (void)state;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_send(fd, STR(GET("/large", ""))));
    until_open(1);
    close(fd);
    until_open(0);
    assert_string_equal(parts_last_target(parts), "/large");
}

static void stopping_ends_what_is_on_its_way(void **state)
{
    (void)state;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT)),
        idle = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_send(fd, STR(GET("/large", ""))));
    until_open(1);
    parts_stop(&parts);
    assert_true(wire_bytes_left(fd) < PARTS_LARGE_BYTES);
    assert_true(wire_is_closed(idle));
    close(fd);
    close(idle);
    parts = parts_start(THREADS, restless);
}

static void draining_closes_after_the_next_answer(void **state)
{
    (void)state;
    static struct wire_answer answer;
    int fd = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_send(fd, STR(GET("/told", ""))));
    wire_read(fd, false, &answer);
    assert_false(answer.close);
    http_server_drain(parts_server(parts));
    assert_true(wire_send(fd, STR(GET("/told", ""))));
    wire_read(fd, false, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(answer.close);
    assert_true(wire_is_closed(fd));
    assert_int_equal(parts_asked(parts), 2);
    close(fd);
}

static void what_is_on_its_way_when_a_drain_refuses_is_owed_and_comes_whole(void **state)
{
    (void)state;
    static struct wire_answer answer;
    enum { BEFORE, ON_CONTENT, ON_ADMIN, LARGE };
    int fds[LARGE];
    for (unsigned i = 0; i < LARGE; i++)
        fds[i] = wire_connect(parts_port(parts, i == ON_ADMIN ? PARTS_ADMIN : PARTS_CONTENT));
    for (unsigned i = 0; i < LARGE; i++) {
        if (i == 1)
            http_server_drain(parts_server(parts));
        assert_true(wire_send(fds[i], STR(GET("/large", ""))));
        until_open(i + 1);
        assert_int_equal(http_server_owed_requests(parts_server(parts)), i == BEFORE ? 0 : 1);
    }
    http_server_refuse(parts_server(parts));
    assert_int_equal(http_server_owed_requests(parts_server(parts)), LARGE);
    wire_ask(parts_port(parts, PARTS_CONTENT), STR(GET("/large", "")),
             &answer); /* still listening */
    assert_int_equal(answer.status, 503);
    assert_true(answer.close);
    assert_true(str_starts(str_of(answer.body), STR("shutting_down: ")));
    wire_ask(parts_port(parts, PARTS_CONTENT), STR(GET("/healthz", "")), &answer);
    assert_int_equal(answer.status, 200);
    int health = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_send(health, STR(GET("/healthz/large", ""))));
    until_open(LARGE + 1);
    assert_int_equal(http_server_owed_requests(parts_server(parts)), LARGE);
    http_server_refuse(parts_server(parts)); /* counts anew */
    assert_int_equal(http_server_owed_requests(parts_server(parts)), LARGE + 1);
    close(health);
    until(http_server_owed_requests, LARGE);
    for (unsigned i = 0; i < LARGE; i++) {
        assert_int_equal(http_server_owed_requests(parts_server(parts)), LARGE - i);
        wire_read(fds[i], false, &answer);
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.body_n, PARTS_LARGE_BYTES);
        assert_int_equal(answer.close, i != BEFORE);
        until(http_server_owed_requests, LARGE - i - 1);
        close(fds[i]);
    }
}

static void more_connections_than_the_limit_are_closed(void **state)
{
    (void)state;
    static struct wire_answer answer;
    int fds[PARTS_CONNECTIONS_MAX];
    for (unsigned i = 0; i < PARTS_CONNECTIONS_MAX; i++) {
        fds[i] = wire_connect(parts_port(parts, PARTS_CONTENT));
        assert_true(wire_send(fds[i], i % 2 == 0 ? STR(GET("/told", "")) : STR(GET("/other", ""))));
        wire_read(fds[i], false, &answer);
        assert_int_equal(answer.status, i % 2 == 0 ? 200 : 404);
    }
    int over = wire_connect(parts_port(parts, PARTS_CONTENT));
    assert_true(wire_is_closed(over));
    close(over);
    for (unsigned i = 0; i < PARTS_CONNECTIONS_MAX; i++)
        close(fds[i]);
}

/* ---- who serves ---- */

static void *client_main(void *ctx)
{
    static _Thread_local struct wire_answer answer;
    const uint16_t *port = ctx;
    int fd = wire_connect(*port);
    for (unsigned i = 0; i < CLIENT_REQUESTS; i++) {
        char text[256], more[32];
        (void)snprintf(text, sizeof text, "GET /told/%u HTTP/1.1\r\nHost: a\r\nX: %0*u\r\n\r\n", i,
                       (int)(i % 90) + 1, i);
        (void)snprintf(more, sizeof more, "/told/%u\n", i);
        INVARIANT(wire_send(fd, str_of(text)));
        wire_read(fd, false, &answer);
        INVARIANT(answer.status == 200);
        INVARIANT(strstr(answer.body, more) != NULL);
    }
    close(fd);
    return NULL;
}

static void one_thread_serves_what_does_not_fill_it(void **state)
{
    (void)state;
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        fds[i] = wire_connect(parts_port(parts, PARTS_CONTENT));
    for (unsigned i = 0; i < CLIENTS; i++)
        ask_told(fds[i], i, 1);
    assert_int_equal(parts_threads(parts), 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(fds[i]);
}

static void all_threads_serve_when_workers_give_away(void **state)
{
    (void)state;
    pthread_t clients[CLIENTS];
    uint16_t port = parts_port(parts, PARTS_CONTENT);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, client_main, &port), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    assert_int_equal(parts_asked(parts), CLIENTS * CLIENT_REQUESTS);
    assert_int_equal(parts_threads(parts), THREADS);
}

int main(void)
{
#define FACT(fact)                                                                                 \
    cmocka_unit_test_setup_teardown(fact, setup, teardown),                                        \
    {                                                                                              \
#fact " between workers", fact, setup_restless, teardown, NULL                             \
    }
    const struct CMUnitTest tests[] = {
        FACT(answers_do_not_depend_on_the_pieces_of_a_request),
        FACT(pipelined_ready_answers_come_in_order),
        FACT(a_request_in_pieces_is_answered),
        FACT(the_hook_is_asked_once_a_request),
        FACT(answered_requests_are_gone),
        FACT(who_only_stops_sending_gets_the_answers_and_an_end),
        FACT(stopping_resets_nobody_who_was_answered),
        FACT(a_slow_reader_gets_all_of_it),
        FACT(who_leaves_in_the_middle_is_told_as_finished),
        FACT(stopping_ends_what_is_on_its_way),
        FACT(draining_closes_after_the_next_answer),
        FACT(what_is_on_its_way_when_a_drain_refuses_is_owed_and_comes_whole),
        FACT(more_connections_than_the_limit_are_closed),
        cmocka_unit_test_setup_teardown(one_thread_serves_what_does_not_fill_it, setup, teardown),
        cmocka_unit_test_setup_teardown(all_threads_serve_when_workers_give_away, setup_restless,
                                        teardown),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
