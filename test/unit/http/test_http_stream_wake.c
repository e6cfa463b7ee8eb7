/* Goal: a stream that waits goes on when it is woken, from any thread, until the moment it is over;
 * a drain and the end of the server reach each of them; who wakes many wakes each worker once.
 * Method: a server of feeds (stream_parts.h); threads tell events while clients come, read and
 * leave. */
#include "stream_parts.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "lib/wait.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TELLERS = 2, CLIENTS = 3, ROUNDS = 60, WORKERS = 2, FAN_OUT = 256, STREAMS = 40 };

/* ---- who wakes a worker ---- */

static _Thread_local unsigned wakes_here;

int __real_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
    wakes_here++;
    return __real_eventfd_write(fd, value);
}

static struct bench bench;
static struct read got;

static int begin(void **state)
{
    const struct http_limits limits = { .threads = WORKERS, .connections_max = 2 * FEEDS_MAX };
    bench_begin(&bench, &limits);
    *state = &bench;
    return 0;
}

static int end(void **state)
{
    bench_end(*state);
    return 0;
}

static void feed_goes_on(struct bench *b, int fd)
{
    for (unsigned i = 0; i < 3; i++) {
        feeds_tell(b, i + 1);
        for (unsigned k = 0; k <= i; k++)
            read_until(fd, "event\n");
    }
}

static void a_feed_gives_what_is_told(void **state)
{
    struct bench *b = *state;
    static const char *const targets[] = { "/feed?max=6", "/pool/feed?max=6", "/late?max=6" };
    for (unsigned i = 0; i < COUNT_OF(targets); i++) {
        int fd = ask(b, targets[i]);
        if (i == 2) {
            WAIT_UNTIL(atomic_load(&b->late) != NULL);
            bench_late(b);
        }
        WAIT_UNTIL(feeds_count(b) == 1);
        feed_goes_on(b, fd);
        read_until(fd, "\r\n0\r\n\r\n"); /* the end of its last chunk, and the last of all */
        assert_true(wire_send(fd, STR("GET /text?n=9 HTTP/1.1\r\nHost: a\r\n\r\n")));
        read_answer(fd, false, &got);
        assert_true(got.whole);
        close(fd);
    }
}

/* Told before http_answer_pull has returned, and before the worker has sent the head. */
static void what_is_told_before_it_begins_is_not_lost(void **state)
{
    struct bench *b = *state;
    int fd = ask(b, "/late?max=1");
    WAIT_UNTIL(atomic_load(&b->late) != NULL);
    http_wake(atomic_load(&b->late)); /* there is no stream yet */
    bench_late(b);
    feeds_tell(b, 1);
    read_answer(fd, false, &got);
    assert_true(got.whole);
    assert_string_equal(got.body, "event\n");
    close(fd);
}

/* ---- many ---- */

static void who_wakes_many_wakes_each_worker_once(void **state)
{
    struct bench *b = *state;
    static int fds[FAN_OUT];
    for (unsigned i = 0; i < FAN_OUT; i++)
        fds[i] = ask(b, "/feed");
    WAIT_UNTIL(feeds_count(b) == FAN_OUT);
    for (unsigned round = 0; round < 20; round++) {
        unsigned pulls = atomic_load(&b->pulls), before = wakes_here;
        feeds_tell(b, 1);
        assert_in_range(wakes_here - before, 0, WORKERS);
        WAIT_UNTIL(atomic_load(&b->pulls) >= pulls + FAN_OUT);
        for (unsigned i = 0; i < FAN_OUT; i++)
            read_until(fds[i], "event\n");
    }
    for (unsigned i = 0; i < FAN_OUT; i++)
        close(fds[i]);
}

static atomic_bool telling;

static void *tell(void *ctx)
{
    while (atomic_load(&telling)) {
        feeds_tell(ctx, 1);
        sched_yield();
    }
    return NULL;
}

/* Reads to the end, or leaves in the middle. */
static void *come_and_go(void *ctx)
{
    static const char *const targets[] = { "/feed?max=3", "/pool/feed?max=5", "/feed?max=1",
                                           "/feed?max=40" };
    struct read r;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = ask(ctx, targets[i % COUNT_OF(targets)]);
        if (i % 3 != 0) {
            read_answer(fd, false, &r);
            INVARIANT(r.whole);
        }
        close(fd);
    }
    return NULL;
}

static void telling_while_streams_end_harms_none(void **state)
{
    struct bench *b = *state;
    pthread_t tellers[TELLERS], clients[CLIENTS];
    atomic_store(&telling, true);
    for (unsigned i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_create(&tellers[i], NULL, tell, b), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, come_and_go, b), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    WAIT_UNTIL(feeds_count(b) == 0);
    atomic_store(&telling, false);
    for (unsigned i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_join(tellers[i], NULL), 0);
}

/* ---- ends ---- */

static void a_drain_ends_what_waits_and_lets_the_rest_go_on(void **state)
{
    struct bench *b = *state;
    int feeds[STREAMS], text = ask(b, "/text?n=8000000&piece=16384");
    for (unsigned i = 0; i < STREAMS; i++)
        feeds[i] = ask(b, "/feed");
    WAIT_UNTIL(feeds_count(b) == STREAMS && atomic_load(&b->pulls) > STREAMS);
    http_server_drain(b->server);
    for (unsigned i = 0; i < STREAMS; i++) {
        read_answer(feeds[i], false, &got);
        assert_true(got.whole);
        assert_string_equal(got.body, "bye\n");
        assert_true(wire_is_closed(feeds[i]));
        close(feeds[i]);
    }
    WAIT_UNTIL(feeds_count(b) == 0);
    assert_true(http_server_owed_requests(b->server) <= 1);
    read_answer(text, false, &got);
    assert_true(got.whole && got.alphabet);
    close(text);
    WAIT_UNTIL(http_server_owed_requests(b->server) == 0);
    int late = ask(b, "/feed"); /* which begins in the drain */
    read_answer(late, false, &got);
    assert_string_equal(got.body, "bye\n");
    close(late);
    http_server_drain(b->server); /* twice is once */
}

/* A drain waits for what is being sent, whether its client reads now or not. */
static void a_stream_stays_owed_while_it_stops_and_goes_on(void **state)
{
    struct bench *b = *state;
    int fd = ask(b, "/text?n=30000000&piece=16384");
    WAIT_UNTIL(atomic_load(&b->given) > 0);
    http_server_drain(b->server);
    for (unsigned i = 0; i < 100; i++) {
        char some[4096];
        assert_int_equal(http_server_owed_requests(b->server), 1);
        assert_true(recv(fd, some, sizeof some, 0) > 0);
    }
    close(fd);
    WAIT_UNTIL(http_server_owed_requests(b->server) == 0);
}

static void the_end_of_the_server_is_the_end_of_its_streams(void **state)
{
    (void)state;
    const struct http_limits limits = { .threads = WORKERS, .connections_max = 1024 };
    int fds[STREAMS];
    pthread_t teller;
    for (unsigned round = 0; round < 5; round++) {
        bench_begin(&bench, &limits);
        for (unsigned i = 0; i < STREAMS; i++)
            fds[i] = ask(&bench, i % 4 == 0 ? "/text?n=8000000&piece=16384" : "/feed");
        WAIT_UNTIL(feeds_count(&bench) == STREAMS * 3 / 4 && atomic_load(&bench.given) > 0);
        WAIT_UNTIL(atomic_load(&bench.begun) == STREAMS);
        atomic_store(&telling, true);
        assert_int_equal(pthread_create(&teller, NULL, tell, &bench), 0);
        http_server_free(&bench.server);
        assert_int_equal(feeds_count(&bench), 0);
        atomic_store(&telling, false);
        assert_int_equal(pthread_join(teller, NULL), 0);
        bench_end(&bench);
        for (unsigned i = 0; i < STREAMS; i++)
            close(fds[i]);
    }
}

/* Connections end one after the other; what one is told of its end wakes a later one. */
static void who_is_over_may_wake_who_is_not(void **state)
{
    (void)state;
    const struct http_limits limits = { .threads = 1, .connections_max = 1024 };
    int fds[STREAMS];
    bench_begin(&bench, &limits);
    for (unsigned i = 0; i < STREAMS; i++) {
        fds[i] = ask(&bench, "/feed");
        WAIT_UNTIL(feeds_count(&bench) == i + 1);
    }
    bench_end(&bench);
    for (unsigned i = 0; i < STREAMS; i++)
        close(fds[i]);
}

int main(void)
{
#define FACT(fact) cmocka_unit_test_setup_teardown(fact, begin, end)
    const struct CMUnitTest tests[] = {
        FACT(a_feed_gives_what_is_told),
        FACT(what_is_told_before_it_begins_is_not_lost),
        FACT(who_wakes_many_wakes_each_worker_once),
        FACT(telling_while_streams_end_harms_none),
        FACT(a_drain_ends_what_waits_and_lets_the_rest_go_on),
        FACT(a_stream_stays_owed_while_it_stops_and_goes_on),
        cmocka_unit_test(the_end_of_the_server_is_the_end_of_its_streams),
        cmocka_unit_test(who_is_over_may_wake_who_is_not),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
