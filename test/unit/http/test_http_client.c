/* Goal: what the client sends and gives back: bytes, order, reuse, codings, limits, deadlines, turns.
 * Method: a real loop asks a server in this process that answers as each test says. */
#include "rogue.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

/* Answers each request with its own text. */
static void play_mirror(struct rogue *r, int fd, unsigned nth)
{
    char request[ROGUE_REQUEST_BYTES_MAX], head[256];
    while (rogue_read(r, fd, request)) {
        (void)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nX-Nth: %u\r\nContent-Length: %zu\r\n\r\n", nth,
                       strlen(request));
        if (!rogue_say(fd, head) || !rogue_say(fd, request))
            return;
    }
}

static void a_get_sends_the_path_as_it_is_and_brings_the_reply(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_mirror, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/a/../b/./%2e%2E//c%2Fd?x=%41&y=[]{}|\\^`");
    const struct http_pair headers[] = { { STR_INIT("X-One"), STR_INIT("1") }, { STR_INIT("X-Empty"), STR_INIT("") } };
    q.call.headers = headers;
    q.call.headers_count = 2;
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    assert_int_equal(q.call.status, 200);
    assert_true(q.call.sent);
    char expected[1024];
    (void)snprintf(expected, sizeof expected,
                   "GET /a/../b/./%%2e%%2E//c%%2Fd?x=%%41&y=[]{}|\\^` HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                   "User-Agent: asker\r\nAccept: */*\r\nX-One: 1\r\nX-Empty:\r\nAccept-Encoding: gzip, deflate\r\n\r\n",
                   rogue_port(r));
    assert_string_equal(q.call.reply_body.p, expected);
    assert_true(str_eq(http_call_header(&q.call, "x-nth"), STR("1")));
    assert_null(http_call_header(&q.call, "x-none").p);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_post_sends_its_body_and_nothing_it_was_not_told(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_mirror, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/p");
    q.call.method = "POST";
    q.call.body = STR("0123456789");
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    char expected[1024];
    (void)snprintf(expected, sizeof expected,
                   "POST /p HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: asker\r\nAccept: */*\r\n"
                   "Accept-Encoding: gzip, deflate\r\nContent-Length: 10\r\n\r\n0123456789",
                   rogue_port(r));
    assert_string_equal(q.call.reply_body.p, expected);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void play_hang(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (rogue_read(r, fd, request))
        rogue_wait(fd);
}

static void a_silent_server_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    q.call.deadline = mono_add_ms(q.call.deadline, -19900);
    ask_now(&q);
    assert_int_equal(q.why, ERR_TIMEOUT);
    assert_non_null(strstr(q.call.note.text, "127.0.0.1"));
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_sends_the_path_as_it_is_and_brings_the_reply),
        cmocka_unit_test(a_post_sends_its_body_and_nothing_it_was_not_told),
        cmocka_unit_test(a_silent_server_costs_no_more_than_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
