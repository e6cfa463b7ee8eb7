/* Goal: whoever is slow is cut in the time its limit says and nobody else is; ten thousand idle
 * connections hold. Method: tiny limits, raw sockets, the sweep called from the test as the loop
 * would. */
#include "echo.h"
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A window of rate holds WINDOW_MS, so that a busy machine keeps it; what is cut is cut in the
 * shorter HEAD_MS. */
enum {
    HEAD_MS = 300,
    WINDOW_MS = 1000,
    IDLE_MS = 2400,
    NEVER_MS = 3600000,
    RATE = 2000,
    MANY = 10000,
    TICK_MS = 10
};

#define READY "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n"

static struct wire_answer answer;

static void begin(void **state, unsigned threads, int64_t head_ms, int64_t idle_ms)
{
    const struct http_limits limits = { .threads = threads,
                                        .connections_max = 100,
                                        .head_timeout_ms = head_ms,
                                        .idle_timeout_ms = idle_ms,
                                        .body_bytes_per_s_min = RATE,
                                        .send_bytes_per_s_min = RATE };
    *state = echo_start(&limits);
}

static int setup_strict(void **state)
{
    begin(state, 2, HEAD_MS, NEVER_MS);
    return 0;
}

static int setup_one_worker(void **state)
{
    begin(state, 1, HEAD_MS, NEVER_MS);
    return 0;
}

static int setup_moving(void **state)
{
    begin(state, 2, WINDOW_MS, NEVER_MS);
    return 0;
}

static int setup_idle(void **state)
{
    begin(state, 2, HEAD_MS, IDLE_MS);
    return 0;
}

static int teardown(void **state)
{
    struct echo *e = *state;
    echo_stop(&e);
    return 0;
}

static bool readable(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, ms) > 0;
}

/* Sweeps until something can be read of fd or ms have passed; drip (may be "") is sent each tick.
 * Returns ms. */
static int64_t sweep_until_readable(struct echo *e, int fd, int64_t ms, const char *drip)
{
    int64_t began = wire_now_ms();
    while (wire_now_ms() - began < ms) {
        http_server_sweep(echo_server(e));
        if (drip[0] != 0 && !wire_send(fd, str_of(drip)))
            break;
        if (readable(fd, TICK_MS))
            break;
    }
    return wire_now_ms() - began;
}

static void cut_within(struct echo *e, str first, const char *drip, int64_t least_ms,
                       int64_t most_ms)
{
    int fd = wire_connect(echo_port(e, 0));
    if (first.n > 0)
        assert_true(wire_send(fd, first));
    int64_t ms = sweep_until_readable(e, fd, most_ms, drip);
    if (ms < least_ms || ms >= most_ms)
        fail_msg("\"%.*s\" was cut after %lld ms", STR_ARG(first), (long long)ms);
    assert_true(wire_is_closed(fd));
    close(fd);
}

/* Upper bounds are wide: the machine may be busy. The next larger limit never comes. */
static void slow_heads_are_cut(void **state)
{
    cut_within(*state, STR("GET /ready HTTP/1.1\r\nHo"), "", HEAD_MS, WIRE_DEADLINE_MS);
    cut_within(*state, STR("GET /ready HTTP/1.1\r\nHost: a\r\n"), "X: y\r\n", HEAD_MS,
               WIRE_DEADLINE_MS);
}

static void slow_request_lines_are_cut_before_they_are_idle(void **state)
{
    cut_within(*state, STR("GET /rea"), "", HEAD_MS, WIRE_DEADLINE_MS);
    cut_within(*state, STR(""), "y", HEAD_MS, WIRE_DEADLINE_MS);
}

/* Its bytes came before any look at the connection, with the request that was answered. */
static void a_request_line_begun_right_behind_an_answer_is_cut_before_it_is_idle(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR(READY READY "GET /rea")));
    for (int i = 0; i < 2; i++) {
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
    }
    int64_t ms = sweep_until_readable(e, fd, WIRE_DEADLINE_MS, "");
    assert_true(ms >= HEAD_MS && ms < WIRE_DEADLINE_MS && wire_is_closed(fd));
    close(fd);
}

static void idle_connections_are_cut_late(void **state)
{
    struct echo *e = *state;
    cut_within(e, STR(""), "", IDLE_MS, WIRE_DEADLINE_MS);
    int fd = wire_connect(echo_port(e, 0));
    for (int i = 0; i < 3; i++) { /* each request starts the time anew */
        assert_true(wire_send(fd, STR(READY)));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_true(sweep_until_readable(e, fd, IDLE_MS / 2, "") >= IDLE_MS / 2);
    }
    int64_t ms = sweep_until_readable(e, fd, WIRE_DEADLINE_MS, "");
    assert_true(ms < WIRE_DEADLINE_MS && wire_is_closed(fd));
    close(fd);
}

static void slow_bodies_are_cut(void **state)
{
    cut_within(*state, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n"), "",
               HEAD_MS, WIRE_DEADLINE_MS);
    cut_within(*state, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n"),
               "abc", HEAD_MS, WIRE_DEADLINE_MS);
    cut_within(*state, STR("POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
               "1\r\na\r\n", HEAD_MS, WIRE_DEADLINE_MS);
    cut_within(*state, STR("PUT /none HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n"),
               "abc", HEAD_MS, WIRE_DEADLINE_MS);
}

static void a_body_that_keeps_moving_is_not_cut(void **state)
{
    struct echo *e = *state;
    char piece[4097];
    memset(piece, 'a', sizeof piece - 1);
    piece[sizeof piece - 1] = 0;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(
        wire_send(fd, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 409600\r\n\r\n")));
    for (int i = 0; i < 100; i++) { /* three windows, at many times the least rate */
        http_server_sweep(echo_server(e));
        assert_true(wire_send(fd, str_of(piece)));
        (void)readable(fd, 3 * WINDOW_MS / 100);
    }
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "409600 39731200\n");
    close(fd);
}

/* More than the kernel's buffers of both ends hold. */
static int connect_large(struct echo *e)
{
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("GET /size/20000000 HTTP/1.1\r\nHost: a\r\n\r\n")));
    return fd;
}

/* What the kernel still had for such a reader it must drop: megabytes a connection, and nobody
 * counts them. */
static void slow_readers_are_cut(void **state)
{
    struct echo *e = *state;
    char piece[65536];
    ssize_t n;
    int fd = connect_large(e);
    int64_t began = wire_now_ms();
    while (http_server_open_requests(echo_server(e)) == 0 &&
           wire_now_ms() - began < WIRE_DEADLINE_MS)
        (void)poll(NULL, 0, TICK_MS);
    while (http_server_open_requests(echo_server(e)) > 0 &&
           wire_now_ms() - began < WIRE_DEADLINE_MS) {
        http_server_sweep(echo_server(e));
        (void)poll(NULL, 0, TICK_MS);
    }
    int64_t ms = wire_now_ms() - began;
    assert_true(ms >= HEAD_MS && ms < WIRE_DEADLINE_MS);
    do
        n = recv(fd, piece, sizeof piece, 0);
    while (n > 0);
    assert_true(n < 0 && errno == ECONNRESET);
    close(fd);
}

static void a_reader_that_keeps_reading_is_not_cut(void **state)
{
    struct echo *e = *state;
    char piece[65536];
    int fd = connect_large(e);
    size_t all = 0;
    int64_t began = wire_now_ms();
    while (wire_now_ms() - began < 3 * WINDOW_MS) { /* slowly first, for several windows */
        http_server_sweep(echo_server(e));
        ssize_t n = recv(fd, piece, 8192, 0);
        assert_true(n > 0);
        all += (size_t)n;
        (void)poll(NULL, 0, TICK_MS);
    }
    for (;;) {
        http_server_sweep(echo_server(e));
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        assert_true(n > 0);
        all += (size_t)n;
        if (all > 20000000)
            break;
    }
    close(fd);
}

/* Holds the only worker up, from when fd has begun until it may go on. */
static int block(struct echo *e)
{
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("GET /block HTTP/1.1\r\nHost: a\r\n\r\n")));
    echo_blocked(e);
    return fd;
}

static void sweep_for(struct echo *e, int64_t ms)
{
    for (int64_t began = wire_now_ms(); wire_now_ms() - began < ms;) {
        http_server_sweep(echo_server(e));
        (void)poll(NULL, 0, TICK_MS);
    }
}

static void who_reads_faster_than_we_send_is_not_cut(void **state)
{
    struct echo *e = *state;
    char piece[65536];
    int fd = connect_large(e);
    ssize_t n = recv(fd, piece, sizeof piece, 0);
    assert_true(n > 0);
    size_t all = (size_t)n;
    int blocker = block(e);
    while (readable(fd, 10 * TICK_MS)) { /* all that there is */
        n = recv(fd, piece, sizeof piece, 0);
        assert_true(n > 0);
        all += (size_t)n;
    }
    assert_true(all < 20000000);
    sweep_for(e, 4 * HEAD_MS);
    echo_unblock(e);
    while (all < 20000000) {
        n = recv(fd, piece, sizeof piece, 0);
        assert_true(n > 0);
        all += (size_t)n;
    }
    close(fd);
    close(blocker);
}

static void who_sends_faster_than_we_read_is_not_cut(void **state)
{
    struct echo *e = *state;
    static const char more[4096];
    int fd = wire_connect(echo_port(e, 0));
    assert_true(
        wire_send(fd, STR("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 8192\r\n\r\n")));
    assert_true(wire_send(fd, (str){ .p = more, .n = sizeof more }));
    int64_t began = wire_now_ms();
    while (http_server_open_requests(echo_server(e)) == 0 &&
           wire_now_ms() - began < WIRE_DEADLINE_MS)
        (void)poll(NULL, 0, TICK_MS);
    int blocker = block(e);
    assert_true(wire_send(fd, (str){ .p = more, .n = sizeof more }));
    sweep_for(e, 4 * HEAD_MS);
    echo_unblock(e);
    wire_read(fd, false, &answer);
    assert_int_equal(answer.status, 200);
    close(fd);
    close(blocker);
}

static void a_chunk_line_of_a_megabyte_is_cut(void **state)
{
    struct echo *e = *state;
    static const char head[] = "POST /count HTTP/1.1\r\nHost: a\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n5;x=";
    static char line[1 << 20];
    memset(line, 'a', sizeof line);
    for (int leaves = 0; leaves < 2; leaves++) {
        int fd = wire_connect(echo_port(e, 0));
        (void)(wire_send(fd, str_of(head)) && /* may be cut off */
               wire_send(fd, (str){ .p = line, .n = sizeof line }) &&
               wire_send(fd, STR("\r\nhello\r\n0\r\n\r\n")));
        if (leaves)
            (void)shutdown(fd, SHUT_WR); /* ENOTCONN: it was cut off */
        assert_true(sweep_until_readable(e, fd, WIRE_DEADLINE_MS, "") < WIRE_DEADLINE_MS);
        wire_read(fd, false, &answer);
        assert_true(answer.status == 0 || answer.status >= 400);
        close(fd);
    }
}

static void what_waits_for_us_is_not_cut(void **state)
{
    struct echo *e = *state;
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR("GET /park HTTP/1.1\r\nHost: a\r\n\r\n")));
    assert_true(sweep_until_readable(e, fd, IDLE_MS * 2, "") >= IDLE_MS * 2);
    echo_release(e);
    wire_read(fd, false, &answer);
    assert_string_equal(answer.body, "parked\n");
    close(fd);
}

/* ---- many ---- */

/* In a process of its own, because both ends would not fit under one RLIMIT_NOFILE. Reads a port,
 * opens count connections, says so, and holds them until its input ends. Each is asked on, because
 * the kernel calls one open that no thread of the server has counted yet. */
static void hold_many(int from, int to, unsigned count)
{
    struct rlimit files;
    INVARIANT(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    INVARIANT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    uint16_t port = 0;
    INVARIANT(read(from, &port, sizeof port) == sizeof port);
    for (unsigned i = 0; i < count; i++) {
        int fd = wire_connect(port); /* ended by the process */
        INVARIANT(wire_send(fd, STR(READY)));
        wire_read(fd, false, &answer);
        INVARIANT(answer.status == 200);
    }
    INVARIANT(write(to, "!", 1) == 1);
    char end;
    INVARIANT(read(from, &end, 1) == 0);
    _exit(0);
}

static void ten_thousand_idle_connections_hold(void **state)
{
    (void)state;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    unsigned many = files.rlim_max > MANY + 500 ? MANY : (unsigned)files.rlim_max - 500;
    int to_child[2], from_child[2];
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(from_child), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(to_child[1]);
        hold_many(to_child[0], from_child[1], many - 1);
    }
    close(from_child[1]);
    const struct http_limits limits = { .threads = 2, .connections_max = many };
    struct echo *e = echo_start(&limits);
    uint16_t port = echo_port(e, 0);
    assert_int_equal(write(to_child[1], &port, sizeof port), sizeof port);
    char said = 0;
    assert_int_equal(read(from_child[0], &said, 1), 1);
    int fd = wire_connect(port); /* the last one that has room */
    for (int i = 0; i < 10; i++) {
        http_server_sweep(echo_server(e));
        assert_true(wire_send(fd, STR(READY)));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
    }
    int over = wire_connect(port);
    (void)wire_send(over, STR(READY));
    assert_true(wire_is_closed(over));
    close(over);
    close(fd);
    close(to_child[1]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(to_child[0]);
    close(from_child[0]);
    echo_stop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_idle_connections_hold),
        cmocka_unit_test_setup_teardown(slow_heads_are_cut, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(slow_request_lines_are_cut_before_they_are_idle,
                                        setup_strict, teardown),
        cmocka_unit_test_setup_teardown(
            a_request_line_begun_right_behind_an_answer_is_cut_before_it_is_idle, setup_strict,
            teardown),
        cmocka_unit_test_setup_teardown(idle_connections_are_cut_late, setup_idle, teardown),
        cmocka_unit_test_setup_teardown(slow_bodies_are_cut, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(a_body_that_keeps_moving_is_not_cut, setup_moving,
                                        teardown),
        cmocka_unit_test_setup_teardown(slow_readers_are_cut, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(a_reader_that_keeps_reading_is_not_cut, setup_moving,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_reads_faster_than_we_send_is_not_cut, setup_one_worker,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_sends_faster_than_we_read_is_not_cut, setup_one_worker,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_chunk_line_of_a_megabyte_is_cut, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(what_waits_for_us_is_not_cut, setup_idle, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
