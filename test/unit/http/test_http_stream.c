/* Goal: an answer in pieces is framed as its client can read it, is whole or seen not to be, waits
 * for its client in bounded memory, and ends once, whoever ends it.
 * Method: a server of streams (stream_parts.h), and clients that read, stop reading, or leave. */
#include "odd_transport.h"
#include "stream_parts.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "lib/wait.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a machine without memory ---- */

static atomic_uint mallocs, refused_at; /* the malloc of that number fails; 0: none does */
static _Thread_local bool of_the_test;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    bool refused = !of_the_test && atomic_load(&refused_at) > 0 &&
                   atomic_fetch_add(&mallocs, 1) + 1 == atomic_load(&refused_at);
    return refused ? NULL : __real_malloc(size);
}

static struct bench bench;
static struct read got;

static int begin(void **state)
{
    const struct http_limits limits = { .threads = 1, .connections_max = 64 };
    bench_begin(&bench, &limits);
    *state = &bench;
    return 0;
}

static int end(void **state)
{
    bench_end(*state);
    return 0;
}

static void finished_with(const struct bench *b, unsigned finished, uint64_t bytes)
{
    WAIT_UNTIL(atomic_load(&b->finished) >= finished);
    assert_int_equal(atomic_load(&b->finished), finished);
    assert_int_equal(atomic_load(&b->status), 200);
    assert_int_equal(atomic_load(&b->bytes), bytes);
}

static void plain_comes(int fd)
{
    static struct wire_answer a;
    wire_read(fd, false, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "plain\n");
}

static void plain_is_answered(int fd)
{
    assert_true(wire_send(fd, STR("GET /plain HTTP/1.1\r\nHost: a\r\n\r\n")));
    plain_comes(fd);
}

/* ---- framing ---- */

static void all_of(int fd, char *text, size_t size)
{
    size_t n = 0;
    ssize_t some;
    while (n < size - 1 && (some = recv(fd, text + n, size - 1 - n, 0)) > 0)
        n += (size_t)some;
    text[n] = 0;
    close(fd);
}

static void pieces_are_chunks_byte_for_byte(void **state)
{
    struct bench *b = *state;
    char text[4096];
    int fd = wire_connect(b->port);
    assert_true(wire_send(fd, STR("GET /text?n=20&piece=7 HTTP/1.1\r\nHost: a\r\n"
                                  "Connection: close\r\n\r\n")));
    all_of(fd, text, sizeof text);
    assert_non_null(strstr(text, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(text, "\r\nContent-Type: text/plain\r\n"));
    assert_null(strstr(text, "Content-Length"));
    assert_string_equal(strstr(text, "\r\n\r\n") + 4,
                        "7\r\nabcdefg\r\n7\r\nhijklmn\r\n6\r\nopqrst\r\n0\r\n\r\n");
    finished_with(b, 1, 20);
}

static void a_stream_of_nothing_is_a_last_chunk(void **state)
{
    struct bench *b = *state;
    char text[4096];
    int fd = wire_connect(b->port);
    assert_true(wire_send(fd, STR("GET /text HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")));
    all_of(fd, text, sizeof text);
    assert_string_equal(strstr(text, "\r\n\r\n") + 4, "0\r\n\r\n");
    finished_with(b, 1, 0);
}

static void http_1_0_gets_the_body_up_to_the_end_of_its_connection(void **state)
{
    struct bench *b = *state;
    char text[4096];
    int fd = wire_connect(b->port);
    assert_true(wire_send(fd, STR("GET /text?n=20&piece=7 HTTP/1.0\r\n"
                                  "Connection: keep-alive\r\n\r\n")));
    all_of(fd, text, sizeof text);
    assert_null(strstr(text, "Transfer-Encoding"));
    assert_null(strstr(text, "Content-Length"));
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_string_equal(strstr(text, "\r\n\r\n") + 4, "abcdefghijklmnopqrst");
    finished_with(b, 1, 20);
}

static void a_declared_length_needs_no_chunks(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 2; i++) {
        int fd = ask_as(b, "GET", "/text?n=2000&piece=300&length=2000", i == 0 ? "1.1" : "1.0");
        read_answer(fd, false, &got);
        assert_int_equal(got.length, 2000);
        assert_false(got.chunked);
        assert_true(got.whole && got.alphabet);
        if (i == 0)
            plain_is_answered(fd);
        close(fd);
        finished_with(b, i + 1, 2000);
    }
    int fd = ask(b, "/text?length=0");
    read_answer(fd, false, &got);
    assert_int_equal(got.length, 0);
    plain_is_answered(fd);
    close(fd);
    assert_int_equal(atomic_load(&b->pulls), 2 * 7);
}

/* What is there behind the length is not asked for. */
static void nothing_is_pulled_behind_the_length(void **state)
{
    struct bench *b = *state;
    int fd = ask(b, "/text?n=3000&piece=1000&length=2000");
    read_answer(fd, false, &got);
    assert_true(got.whole && got.alphabet);
    plain_is_answered(fd);
    assert_int_equal(atomic_load(&b->pulls), 2);
    close(fd);
}

static void head_gets_the_head_and_nothing_is_pulled(void **state)
{
    struct bench *b = *state;
    int fd = ask_as(b, "HEAD", "/text?n=2000", "1.1");
    read_answer(fd, true, &got);
    assert_int_equal(got.status, 200);
    assert_true(got.chunked);
    finished_with(b, 1, 0);
    assert_true(wire_send(fd, STR("HEAD /text?n=2000&length=2000 HTTP/1.1\r\nHost: a\r\n\r\n")));
    read_answer(fd, true, &got);
    assert_int_equal(got.length, 2000);
    plain_is_answered(fd);
    close(fd);
    finished_with(b, 2, 0);
    assert_int_equal(atomic_load(&b->pulls), 0);
}

static void requests_behind_a_stream_are_answered_behind_it(void **state)
{
    struct bench *b = *state;
    static const char *const targets[] = { "/text?n=20&piece=7", "/text?n=3000000&piece=9000",
                                           "/pool/text?n=3000000&lent=1&piece=100000",
                                           "/text?n=3000000&length=3000000&piece=70000" };
    for (unsigned i = 0; i < COUNT_OF(targets); i++) {
        char text[512];
        int n = snprintf(text, sizeof text,
                         "GET %s HTTP/1.1\r\nHost: a\r\n\r\nGET /plain HTTP/1.1\r\nHost: a\r\n\r\n"
                         "GET %s HTTP/1.1\r\nHost: a\r\n\r\nGET /plain HTTP/1.1\r\nHost: a\r\n\r\n",
                         targets[i], targets[i]);
        int fd = wire_connect(b->port);
        assert_true(wire_send(fd, (str){ .p = text, .n = (size_t)n }));
        for (unsigned k = 0; k < 2; k++) {
            read_answer(fd, false, &got);
            assert_true(got.whole && got.alphabet);
            assert_int_equal(got.body_n, i == 0 ? 20 : 3000000);
            plain_comes(fd);
        }
        close(fd);
    }
}

static void pieces_of_any_size_come_as_they_are(void **state)
{
    struct bench *b = *state;
    static const char *const targets[] = {
        "/text?n=200000&piece=1&lent=1", "/text?n=8000000&piece=4000000&lent=1",
        "/text?n=8000000&piece=16384", "/pool/text?n=8000000&piece=100000&length=8000000&lent=1"
    };
    for (unsigned i = 0; i < COUNT_OF(targets); i++) {
        int fd = ask(b, targets[i]);
        read_answer(fd, false, &got);
        assert_true(got.whole && got.alphabet);
        assert_int_equal(got.body_n, i == 0 ? 200000 : 8000000);
        finished_with(b, i + 1, i == 0 ? 200000 : 8000000);
        plain_is_answered(fd);
        close(fd);
    }
}

/* ---- failing ---- */

static void what_fails_midway_is_seen_not_to_be_whole(void **state)
{
    struct bench *b = *state;
    static const struct {
        const char *target, *version;
        uint64_t bytes;
    } fails[] = {
        { "/text?n=5000&fail=3000", "1.1", 3000 },
        { "/text?n=5000&fail=3000&length=5000", "1.1", 3000 },
        { "/text?n=5000&fail=3000", "1.0", 3000 },
        { "/text?n=5000&fail=0", "1.1", 0 },
        { "/text?n=5000&end=3000&length=5000&piece=1500", "1.1", 1500 }, /* fewer than said */
        { "/text?n=5000&length=4500", "1.1", 4000 },                     /* more */
    };
    for (unsigned i = 0; i < COUNT_OF(fails); i++) {
        int fd = ask_as(b, "GET", fails[i].target, fails[i].version);
        read_answer(fd, false, &got);
        assert_false(got.whole);
        assert_true(got.alphabet);
        assert_true(got.body_n <= fails[i].bytes);
        assert_true(got.reset || got.length >= 0 || got.chunked || got.status == 0);
        assert_true(wire_is_closed(fd));
        close(fd);
        WAIT_UNTIL(atomic_load(&b->finished) == i + 1);
        assert_int_equal(atomic_load(&b->bytes), fails[i].bytes);
    }
}

/* Each malloc of the server in turn. None of its own dies of it but those for a connection, which
 * are over by then. */
static void without_memory_a_stream_is_cut_and_over(void **state)
{
    struct bench *b = *state;
    bool whole = false;
    of_the_test = true;
    for (unsigned at = 1; !whole; at++) {
        assert_true(at < 1000);
        int fd = wire_connect(b->port);
        plain_is_answered(fd);
        atomic_store(&mallocs, 0);
        atomic_store(&refused_at, at);
        assert_true(wire_send(fd, STR("GET /text?n=400000&piece=16384 HTTP/1.1\r\nHost: a\r\n"
                                      "Connection: close\r\n\r\n")));
        read_answer(fd, false, &got);
        atomic_store(&refused_at, 0);
        whole = got.whole && got.status == 200 && atomic_load(&mallocs) < at;
        assert_true(got.alphabet || got.status != 200);
        close(fd);
        WAIT_UNTIL(atomic_load(&b->overs) == atomic_load(&b->begun));
    }
}

/* ---- back-pressure ---- */

/* A client that has room for little. */
static int ask_narrow(const struct bench *b, str request)
{
    const int room = 4096;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(b->port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_true(wire_send(fd, request));
    return fd;
}

/* Nothing is pulled any more, however often its worker has something else to do. */
static uint64_t until_still(struct bench *b)
{
    int fd = wire_connect(b->port);
    uint64_t before = 0;
    for (unsigned still = 0; still < 20;) {
        plain_is_answered(fd);
        uint64_t given = atomic_load(&b->given);
        still = given > 0 && given == before ? still + 1 : 0;
        before = given;
        wait_pause(1);
    }
    close(fd);
    return before;
}

static void a_client_that_stops_reading_is_not_pulled_for(void **state)
{
    struct bench *b = *state;
    int fd = ask_narrow(b, STR("GET /text?n=8000000&piece=16384 HTTP/1.1\r\nHost: a\r\n\r\n"));
    uint64_t given = until_still(b);
    assert_in_range(given, 1, 256 << 10); /* without the kernel's limit some MB */
    unsigned pulls = atomic_load(&b->pulls);
    int other = wire_connect(b->port);
    plain_is_answered(other);
    close(other);
    assert_int_equal(atomic_load(&b->pulls), pulls);
    read_answer(fd, false, &got);
    assert_true(got.whole && got.alphabet);
    assert_int_equal(got.body_n, 8000000);
    plain_is_answered(fd);
    close(fd);
    finished_with(b, 1, 8000000);
}

static void a_wake_pulls_nothing_for_a_client_that_does_not_read(void **state)
{
    struct bench *b = *state;
    int fd = ask_narrow(b, STR("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n"));
    WAIT_UNTIL(feeds_count(b) == 1);
    feeds_tell(b, 1000000); /* 6 MB */
    int other = wire_connect(b->port);
    unsigned pulls = 0;
    for (unsigned still = 0; still < 20; wait_pause(1)) {
        feeds_tell(b, 1);
        plain_is_answered(other); /* behind the wake, on the same worker */
        still = atomic_load(&b->pulls) == pulls ? still + 1 : 0;
        pulls = atomic_load(&b->pulls);
    }
    close(other);
    assert_true(pulls * HTTP_PULL_ROOM_BYTES < 1 << 20);
    close(fd);
}

/* Nothing moves any more to clients that do not read, however often their worker has something else
 * to do. */
static void until_stuck(struct bench *b, const int *fds, unsigned count)
{
    int fd = wire_connect(b->port);
    uint64_t before = 0;
    for (unsigned still = 0; still < 20; wait_pause(1)) {
        uint64_t moved = atomic_load(&b->given);
        for (unsigned i = 0; i < count; i++) {
            int unread = 0;
            assert_int_equal(ioctl(fds[i], FIONREAD, &unread), 0);
            moved += (unsigned)unread;
        }
        plain_is_answered(fd);
        still = moved > 0 && moved == before ? still + 1 : 0;
        before = moved;
    }
    close(fd);
}

/* A drain waits for none of them; what the kernel has taken still arrives, but where the end of the
 * connection would be the end of the body. */
static void a_drain_cuts_an_endless_stream_whose_client_does_not_read(void **state)
{
    struct bench *b = *state;
    static const struct {
        str request;
        bool reset;
    } asks[] = { { STR_INIT("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n"), false },
                 { STR_INIT("GET /pool/feed HTTP/1.1\r\nHost: a\r\n\r\n"), false },
                 { STR_INIT("GET /feed HTTP/1.0\r\n\r\n"), true } };
    int fds[COUNT_OF(asks)];
    for (unsigned i = 0; i < COUNT_OF(asks); i++)
        fds[i] = ask_narrow(b, asks[i].request);
    WAIT_UNTIL(feeds_count(b) == COUNT_OF(asks));
    feeds_tell(b, 1000000);
    until_stuck(b, fds, COUNT_OF(fds));
    http_server_drain(b->server);
    WAIT_UNTIL(feeds_count(b) == 0 && http_server_owed_requests(b->server) == 0);
    for (unsigned i = 0; i < COUNT_OF(asks); i++) {
        read_answer(fds[i], false, &got);
        assert_false(got.whole);
        /* Crumbs take so much of a small window each that not even the head fits into it. */
        if (got.status != 0 || odd_transport() != &transport_crumbs) {
            assert_int_equal(got.status, 200);
            assert_true(got.body_n > 0);
            assert_int_equal(got.reset, asks[i].reset);
        }
        close(fds[i]);
    }
    finished_with(b, COUNT_OF(asks), atomic_load(&b->bytes));
}

/* Who waits for more stays, and is given what comes. Nothing waits for it, its head neither, once
 * an event behind that was read. */
static void who_is_given_up_is_cut_only_while_a_piece_waits(void **state)
{
    struct bench *b = *state;
    int stuck = ask_narrow(b, STR("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n"));
    WAIT_UNTIL(feeds_count(b) == 1);
    feeds_tell(b, 1000000);
    until_stuck(b, &stuck, 1);
    int fd = ask(b, "/feed");
    WAIT_UNTIL(feeds_count(b) == 2);
    feeds_tell(b, 1);
    read_until(fd, "event\n\r\n"); /* with the end of its chunk */
    feeds_give_up(b);
    WAIT_UNTIL(feeds_count(b) < 2);
    assert_int_equal(feeds_count(b), 1);
    read_answer(stuck, false, &got);
    assert_false(got.whole);
    assert_true(got.body_n > 0);
    close(stuck);
    feeds_tell(b, 2);
    read_until(fd, "event\nevent\n");
    close(fd);
}

/* ---- who is slow ---- */

static void a_stream_that_waits_is_not_slow_and_a_client_that_does_not_read_is(void **state)
{
    const struct http_limits limits = {
        .threads = 1, .head_timeout_ms = 50, .idle_timeout_ms = 100, .connections_max = 64
    };
    (void)state;
    bench_begin(&bench, &limits);
    struct bench *b = &bench;
    int waits = ask(b, "/feed");
    WAIT_UNTIL(feeds_count(b) == 1);
    feeds_tell(b, 1);
    read_until(waits, "event\n");
    int stops = ask_narrow(b, STR("GET /text?n=8000000&piece=16384 HTTP/1.1\r\nHost: a\r\n\r\n"));
    WAIT_UNTIL(atomic_load(&b->given) > sizeof "event\n");
    for (int64_t left_ms = WAIT_MS; atomic_load(&b->finished) == 0;
         wait_look(&left_ms, "the client that stops is cut")) {
        atomic_fetch_add(&b->ahead_ns, 3600 * NS_PER_S); /* for the one that waits */
        http_server_sweep(b->server);
    }
    assert_int_equal(http_server_cut(b->server), 1);
    assert_int_equal(feeds_count(b), 1);
    feeds_tell(b, 1);
    read_until(waits, "event\n");
    close(waits);
    close(stops);
    bench_end(b);
}

/* ---- leaving ---- */

static void who_leaves_while_a_stream_waits_ends_it(void **state)
{
    struct bench *b = *state;
    const struct linger reset = { .l_onoff = 1 };
    for (unsigned i = 0; i < 3; i++) {
        int fd = ask(b, i == 2 ? "/pool/feed" : "/feed");
        WAIT_UNTIL(feeds_count(b) == 1);
        feeds_tell(b, 1);
        read_until(fd, "event\n\r\n"); /* with the end of its chunk */
        if (i == 1)
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        close(fd);
        finished_with(b, i + 1, 6);
        assert_int_equal(feeds_count(b), 0);
    }
    int fd = ask(b, "/feed"); /* who shuts its writing side has left, too */
    WAIT_UNTIL(feeds_count(b) == 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    WAIT_UNTIL(feeds_count(b) == 0);
    close(fd);
}

static void who_leaves_while_a_piece_is_sent_ends_it(void **state)
{
    struct bench *b = *state;
    int fd = ask_narrow(b, STR("GET /text?n=8000000&piece=16384 HTTP/1.1\r\nHost: a\r\n\r\n"));
    uint64_t given = until_still(b);
    close(fd);
    WAIT_UNTIL(atomic_load(&b->finished) == 1);
    assert_in_range(atomic_load(&b->bytes), given - HTTP_PULL_ROOM_BYTES, given);
}

static void who_shuts_its_writing_side_gets_all_that_needs_no_waiting(void **state)
{
    struct bench *b = *state;
    int fd = ask(b, "/text?n=8000000&piece=16384");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    read_answer(fd, false, &got);
    assert_true(got.whole && got.alphabet);
    close(fd);
}

/* ---- limits ---- */

static void half_of_the_connections_may_be_streams(void **state)
{
    const struct http_limits limits = { .threads = 1, .connections_max = 16 };
    int fds[8];
    (void)state;
    bench_begin(&bench, &limits);
    for (unsigned i = 0; i < COUNT_OF(fds); i++)
        fds[i] = ask(&bench, "/feed");
    WAIT_UNTIL(feeds_count(&bench) == COUNT_OF(fds));
    for (unsigned i = 0; i < 2; i++) {
        int more = ask(&bench, i == 0 ? "/feed" : "/pool/text?n=10");
        read_answer(more, false, &got);
        assert_int_equal(got.status, 503);
        assert_true(got.whole);
        assert_true(str_starts(str_of(got.body), STR("overloaded#streams: half of the connec")));
        plain_is_answered(more);
        close(more);
        WAIT_UNTIL(atomic_load(&bench.finished) == i + 1);
        assert_int_equal(atomic_load(&bench.status), 503);
        assert_int_equal(atomic_load(&bench.overs), i + 1);
        assert_int_equal(atomic_load(&bench.refused), i + 1);
    }
    int head = ask_as(&bench, "HEAD", "/text?n=10", "1.1"); /* it is none */
    read_answer(head, true, &got);
    assert_int_equal(got.status, 200);
    close(head);
    close(fds[0]);
    WAIT_UNTIL(feeds_count(&bench) == COUNT_OF(fds) - 1);
    int again = ask(&bench, "/text?n=10");
    read_answer(again, false, &got);
    assert_int_equal(got.status, 200);
    close(again);
    for (unsigned i = 1; i < COUNT_OF(fds); i++)
        close(fds[i]);
    bench_end(&bench);
}

int main(void)
{
#define FACT(fact) cmocka_unit_test_setup_teardown(fact, begin, end)
    const struct CMUnitTest tests[] = {
        FACT(pieces_are_chunks_byte_for_byte),
        FACT(a_stream_of_nothing_is_a_last_chunk),
        FACT(http_1_0_gets_the_body_up_to_the_end_of_its_connection),
        FACT(a_declared_length_needs_no_chunks),
        FACT(nothing_is_pulled_behind_the_length),
        FACT(head_gets_the_head_and_nothing_is_pulled),
        FACT(requests_behind_a_stream_are_answered_behind_it),
        FACT(pieces_of_any_size_come_as_they_are),
        FACT(what_fails_midway_is_seen_not_to_be_whole),
        FACT(without_memory_a_stream_is_cut_and_over),
        FACT(a_client_that_stops_reading_is_not_pulled_for),
        FACT(a_wake_pulls_nothing_for_a_client_that_does_not_read),
        FACT(a_drain_cuts_an_endless_stream_whose_client_does_not_read),
        FACT(who_is_given_up_is_cut_only_while_a_piece_waits),
        cmocka_unit_test(a_stream_that_waits_is_not_slow_and_a_client_that_does_not_read_is),
        FACT(who_leaves_while_a_stream_waits_ends_it),
        FACT(who_leaves_while_a_piece_is_sent_ends_it),
        FACT(who_shuts_its_writing_side_gets_all_that_needs_no_waiting),
        cmocka_unit_test(half_of_the_connections_may_be_streams),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
