/* Goal: a watch says what its socket is ready for, again while it is, and nothing once it was
 * stopped. Method: socketpairs and TCP sockets on a real loop; a watchdog timer fails what waits
 * for ever. */
#include "loop/loop.h"

#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 1, WATCHDOG_MS = 120000 };

struct seen {
    struct loop *loop;
    struct loop_watch *watch;
    int fds[2];                /* ours, the peer's */
    unsigned calls, calls_max; /* the loop stops at that many */
    unsigned events;           /* all that came */
    bool free_inside, stop_inside;
};

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", WATCHDOG_MS);
}

static void run_watched(struct loop *l)
{
    struct loop_timer *watchdog = loop_timer_new(l, overdue, NULL);
    loop_timer_start(watchdog, WATCHDOG_MS, 0);
    loop_run(l);
    loop_timer_free(&watchdog);
}

static void ready(void *ctx, unsigned events)
{
    struct seen *s = ctx;
    loop_assert_here(s->loop);
    assert_int_not_equal(events, 0);
    s->events |= events;
    assert_true(s->calls < s->calls_max);
    if (++s->calls < s->calls_max)
        return;
    if (s->free_inside)
        loop_watch_free(&s->watch);
    else if (s->stop_inside)
        loop_watch_stop(s->watch);
    loop_stop(s->loop);
}

static void seen_begin(struct seen *s, unsigned calls_max)
{
    *s = (struct seen){ .loop = loop_new(THREADS), .calls_max = calls_max, .stop_inside = true };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s->fds), 0);
    s->watch = loop_watch_new(s->loop, s->fds[0], ready, s);
}

static void seen_end(struct seen *s)
{
    loop_watch_free(&s->watch);
    assert_null(s->watch);
    close(s->fds[0]);
    if (s->fds[1] >= 0)
        close(s->fds[1]);
    loop_free(&s->loop);
}

static void tell_stop(void *ctx)
{
    loop_stop(ctx);
}

/* Lets the loop look at its sockets once more: a post is run after a poll that found it. */
static void run_a_turn(struct loop *l)
{
    for (unsigned i = 0; i < 3; i++) {
        loop_post(l, tell_stop, l);
        run_watched(l);
    }
}

static void what_can_be_read_is_told_until_it_is_read(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 3);
    loop_watch_start(s.watch, LOOP_READABLE);
    assert_int_equal(write(s.fds[1], "x", 1), 1);
    run_watched(s.loop);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.events, LOOP_READABLE);
    seen_end(&s);
}

static void what_can_be_written_is_told(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    loop_watch_start(s.watch, LOOP_READABLE | LOOP_WRITABLE);
    run_watched(s.loop);
    assert_int_equal(s.events, LOOP_WRITABLE);
    seen_end(&s);
}

static void the_newest_start_decides(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    loop_watch_start(s.watch, LOOP_WRITABLE);
    loop_watch_start(s.watch, LOOP_READABLE);
    run_a_turn(s.loop);
    assert_int_equal(s.calls, 0);
    assert_int_equal(write(s.fds[1], "x", 1), 1);
    run_watched(s.loop);
    assert_int_equal(s.events, LOOP_READABLE);
    seen_end(&s);
}

static void a_stopped_watch_says_nothing_and_can_start_again(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    assert_int_equal(write(s.fds[1], "x", 1), 1);
    loop_watch_start(s.watch, LOOP_READABLE);
    loop_watch_start(s.watch, 0);
    run_a_turn(s.loop);
    assert_int_equal(s.calls, 0);
    loop_watch_start(s.watch, LOOP_READABLE);
    run_watched(s.loop);
    assert_int_equal(s.calls, 1);
    seen_end(&s);
}

static void a_peer_that_shuts_its_side_is_told_apart_from_data(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    loop_watch_start(s.watch, LOOP_GONE);
    assert_int_equal(write(s.fds[1], "x", 1), 1);
    run_a_turn(s.loop);
    assert_int_equal(s.calls, 0);
    assert_int_equal(shutdown(s.fds[1], SHUT_WR), 0);
    run_watched(s.loop);
    assert_int_equal(s.events, LOOP_GONE);
    seen_end(&s);
}

static void a_watch_may_be_freed_by_what_it_calls(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    s.free_inside = true;
    loop_watch_start(s.watch, LOOP_GONE);
    close(s.fds[1]);
    s.fds[1] = -1;
    run_watched(s.loop);
    assert_int_equal(s.events & LOOP_GONE, LOOP_GONE);
    seen_end(&s);
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t at_n = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listening >= 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &at_n), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&at, sizeof at), 0);
    fds[0] = accept(listening, NULL, NULL);
    assert_true(fds[0] >= 0);
    close(listening);
}

static void a_reset_is_an_error_and_stops_the_watch(void **state)
{
    (void)state;
    struct seen s = { .loop = loop_new(THREADS), .calls_max = 1 };
    tcp_pair(s.fds);
    s.watch = loop_watch_new(s.loop, s.fds[0], ready, &s);
    loop_watch_start(s.watch, LOOP_GONE);
    struct linger reset = { .l_onoff = 1, .l_linger = 0 };
    assert_int_equal(setsockopt(s.fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(s.fds[1]);
    s.fds[1] = -1;
    run_watched(s.loop);
    assert_int_equal(s.events, LOOP_ERROR);
    run_a_turn(s.loop); /* a second call would fail in ready */
    seen_end(&s);
}

/* The kernel's set knows descriptors by number: a number used again must not be taken for the old
 * one. */
static void a_number_used_again_is_another_descriptor(void **state)
{
    (void)state;
    struct seen s;
    seen_begin(&s, 1);
    loop_watch_start(s.watch, LOOP_READABLE);
    run_a_turn(s.loop);
    loop_watch_free(&s.watch);
    int number = s.fds[0], pair[2];
    close(s.fds[0]);
    close(s.fds[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(pair[0], number);
    s.fds[0] = pair[0];
    s.fds[1] = pair[1];
    s.watch = loop_watch_new(s.loop, number, ready, &s);
    loop_watch_start(s.watch, LOOP_READABLE);
    run_a_turn(s.loop);
    assert_int_equal(s.calls, 0);
    assert_int_equal(write(s.fds[1], "x", 1), 1);
    run_watched(s.loop);
    assert_int_equal(s.calls, 1);
    seen_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_read_is_told_until_it_is_read),
        cmocka_unit_test(what_can_be_written_is_told),
        cmocka_unit_test(the_newest_start_decides),
        cmocka_unit_test(a_stopped_watch_says_nothing_and_can_start_again),
        cmocka_unit_test(a_peer_that_shuts_its_side_is_told_apart_from_data),
        cmocka_unit_test(a_watch_may_be_freed_by_what_it_calls),
        cmocka_unit_test(a_reset_is_an_error_and_stops_the_watch),
        cmocka_unit_test(a_number_used_again_is_another_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
