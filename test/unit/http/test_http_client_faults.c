/* Goal: whatever an origin does, the caller gets one outcome that says so, in time, within limits,
 * and never another request's reply.
 * Method: a server in this process that cuts, lies, drips, never ends, or sends what nobody asked
 * for. */
#include "http/client_impl.h"
#include "rogue.h"

#include "../cmocka_all.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- replies that are wrong as they stand ---- */

struct canned {
    const char *name;
    const char *reply;
    err why;
    const char *body; /* of a reply that is fine */
};

static const struct canned canned[] = {
    { "fine", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ERR_OK, "ok" },
    { "interim",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
      ERR_OK, "ok" },
    { "until-close", "HTTP/1.0 200 OK\r\n\r\nok", ERR_OK, "ok" },
    { "chunked",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1;x=y\r\no\r\n1\r\nk\r\n0\r\nX-Trailer: 1\r\n\r\n",
      ERR_OK, "ok" },
    { "no-content", "HTTP/1.1 204 No Content\r\n\r\n", ERR_OK, "" },
    { "empty", "", ERR_UNAVAILABLE, NULL },
    { "half-a-line", "HTTP/1.1 20", ERR_UNAVAILABLE, NULL },
    { "half-a-head", "HTTP/1.1 200 OK\r\nContent-Le", ERR_UNAVAILABLE, NULL },
    { "short-body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", ERR_BAD, NULL },
    { "short-chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", ERR_BAD,
      NULL },
    { "no-last-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", ERR_BAD,
      NULL },
    { "bad-chunk-size",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n", ERR_BAD, NULL },
    { "no-http", "ICY 200 OK\r\nContent-Length: 2\r\n\r\nok", ERR_BAD, NULL },
    { "just-text", "hello there, this is no HTTP at all\n", ERR_BAD, NULL },
    { "status-999", "HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok", ERR_BAD, NULL },
    { "switching", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nok", ERR_BAD, NULL },
    { "interim-only", "HTTP/1.1 100 Continue\r\n\r\n", ERR_UNAVAILABLE, NULL },
    { "folded", "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 2\r\n\r\nok", ERR_BAD, NULL },
    { "no-colon", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 2\r\n\r\nok", ERR_BAD, NULL },
    { "blank-name", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", ERR_BAD, NULL },
    { "control", "HTTP/1.1 200 OK\r\nX-A: a\x01z\r\nContent-Length: 2\r\n\r\nok", ERR_BAD, NULL },
    { "two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\nok", ERR_BAD,
      NULL },
    { "length-twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", ERR_OK,
      "ok" },
    { "negative-length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", ERR_BAD, NULL },
    { "large-length", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\nok", ERR_LIMIT, NULL },
    { "huge-length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok", ERR_LIMIT,
      NULL },
    { "coded-transfer",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ERR_BAD,
      NULL },
    { "unasked-coding", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok",
      ERR_BAD, NULL },
    { "no-gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
      ERR_BAD, NULL },
    { "coded-twice",
      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\nok", ERR_BAD,
      NULL },
};

static void play_canned(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request))
        return;
    for (size_t i = 0; i < COUNT_OF(canned); i++)
        if (strncmp(request + strlen("GET /"), canned[i].name, strlen(canned[i].name)) == 0 &&
            request[strlen("GET /") + strlen(canned[i].name)] == ' ')
            (void)rogue_say(fd, canned[i].reply); /* the client may hang up before the end */
}

static void each_wrong_reply_is_told_for_what_it_is(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_canned, NULL);
    struct asker a;
    unsigned wrong = 0;
    asker_begin(&a, NULL);
    for (size_t i = 0; i < COUNT_OF(canned); i++) {
        struct ask q;
        char path[64];
        (void)snprintf(path, sizeof path, "/%s", canned[i].name);
        ask_begin(&q, &a, rogue_port(r), path);
        ask_now(&q);
        bool told = q.why == ERR_OK
                        ? canned[i].body != NULL && strcmp(q.call.reply_body.p, canned[i].body) == 0
                        : strstr(q.call.note.text, "127.0.0.1: ") != NULL;
        if (q.why != canned[i].why || !told) {
            print_error("%s: %s (%s) instead of %s\n", path, err_name(q.why), q.call.note.text,
                        err_name(canned[i].why));
            wrong++;
        }
        ask_end(&q);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(rogue_requests(r), COUNT_OF(canned)); /* nothing was asked twice */
    asker_end(&a);
    rogue_stop(&r);
}

/* ---- replies that do not end ---- */

static void play_endless(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request))
        return;
    const char *begin = "HTTP/1.1 200 OK\r\n\r\n", *again = "more and more and more";
    static const char empty_gzip_block[] = "\x00\x00\x00\xff\xff";
    str piece = str_of(again);
    if (strstr(request, "/chunks") != NULL) {
        begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        piece = STR("8\r\nabcdefgh\r\n");
    } else if (strstr(request, "/fields") != NULL) {
        begin = "HTTP/1.1 200 OK\r\n";
        piece = STR("X-Field: value\r\n");
    } else if (strstr(request, "/field") != NULL) {
        begin = "HTTP/1.1 200 OK\r\nX-Field: ";
    } else if (strstr(request, "/interim") != NULL) {
        begin = "";
        piece = STR("HTTP/1.1 100 Continue\r\n\r\n");
    } else if (strstr(request, "/trailers") != NULL) {
        begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
        piece = STR("X-Trailer: value\r\n");
    } else if (strstr(request, "/blocks") != NULL) {
        begin = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        piece = (str){ .p = empty_gzip_block, .n = sizeof empty_gzip_block - 1 };
    }
    if (!rogue_say(fd, begin))
        return;
    if (strstr(request, "/blocks") != NULL &&
        !rogue_send(fd, STR("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")))
        return;
    while (rogue_send(fd, piece)) {
    }
}

static void what_does_not_end_is_cut_at_its_limit(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_endless, NULL);
    struct asker a;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/body", ERR_LIMIT);
    ask_expect(&a, rogue_port(r), "/chunks", ERR_LIMIT);
    ask_expect(&a, rogue_port(r), "/blocks", ERR_LIMIT);
    ask_expect(&a, rogue_port(r), "/fields", ERR_LIMIT);
    struct ask q;
    ask_begin(&q, &a, rogue_port(r), "/field");
    ask_now(&q);
    assert_int_equal(q.why, ERR_LIMIT);
    assert_string_equal(q.call.note.text, "127.0.0.1: a field of the reply's head is too large");
    ask_end(&q);
    ask_expect(&a, rogue_port(r), "/interim", ERR_LIMIT);
    ask_expect(&a, rogue_port(r), "/trailers", ERR_LIMIT);
    asker_end(&a);
    rogue_stop(&r);
}

/* One byte at a time, each once the client's kernel has room: slow in steps, not in time. */
static void play_drip(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request))
        return;
    const char *reply = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789";
    bool whole = strstr(request, "/whole") != NULL;
    for (size_t i = 0; i < strlen(reply) - (whole ? 0 : 1); i++)
        if (!rogue_send(fd, (str){ .p = reply + i, .n = 1 }))
            return;
    rogue_wait(fd);
}

static void a_drip_is_taken_while_time_is_left(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_drip, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/whole");
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    assert_string_equal(q.call.reply_body.p, "01234567890123456789");
    ask_end(&q);
    ask_begin(&q, &a, rogue_port(r), "/never-the-last-byte");
    q.call.deadline = mono_add_ms(q.call.deadline, 1000 - ROGUE_ASK_MS);
    ask_now(&q);
    assert_int_equal(q.why, ERR_TIMEOUT);
    assert_null(q.call.reply_headers);
    assert_int_equal(q.call.status, 0);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

/* ---- connections that end at the wrong time ---- */

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* Answers one request; then ends the connection at the next, as the test says. */
struct ends {
    bool reset, always;
};

static void play_end_on_reuse(struct rogue *r, int fd, unsigned nth)
{
    const struct ends *ends = rogue_ctx(r);
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (ends->always && nth > 1) {
        if (!rogue_read(r, fd, request))
            return;
    } else if (!rogue_read(r, fd, request) || !rogue_say(fd, ok)) {
        return;
    } else if (nth > 1) {
        rogue_wait(fd);
        return;
    } else if (!rogue_read(r, fd, request)) {
        return;
    }
    if (ends->reset)
        rogue_reset(fd);
}

static void second_ask(struct ends *ends, const char *method, err why, unsigned requests)
{
    struct rogue *r = rogue_start(play_end_on_reuse, ends);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/first", ERR_OK);
    ask_begin(&q, &a, rogue_port(r), "/second");
    q.call.method = method;
    ask_now(&q);
    if (q.why != why)
        fail_msg("%s: %s (%s)", method, err_name(q.why), q.call.note.text);
    assert_true(q.call.sent);
    assert_int_equal(rogue_requests(r), requests);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void what_is_safe_is_asked_once_more_when_a_kept_connection_died(void **state)
{
    (void)state;
    second_ask(&(struct ends){ .reset = false }, "GET", ERR_OK, 3);
    second_ask(&(struct ends){ .reset = true }, "GET", ERR_OK, 3);
    second_ask(&(struct ends){ .always = true }, "GET", ERR_UNAVAILABLE, 3);
    second_ask(&(struct ends){ .always = true, .reset = true }, "GET", ERR_UNAVAILABLE, 3);
}

static void what_is_not_safe_is_never_sent_twice(void **state)
{
    (void)state;
    second_ask(&(struct ends){ .reset = false }, "POST", ERR_UNAVAILABLE, 2);
    second_ask(&(struct ends){ .reset = true }, "POST", ERR_UNAVAILABLE, 2);
    second_ask(&(struct ends){ .reset = false }, "DELETE", ERR_UNAVAILABLE, 2);
}

static void play_reset_in_body(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request) ||
        !rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok"))
        return;
    rogue_reset(fd);
}

static void a_reset_in_the_body_is_no_reply(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_reset_in_body, NULL);
    struct asker a;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/", ERR_UNAVAILABLE);
    assert_int_equal(rogue_requests(r), 1);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_closed_port_is_unavailable_and_nothing_was_sent(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_canned, NULL);
    uint16_t port = rogue_port(r);
    rogue_stop(&r);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, port, "/");
    ask_now(&q);
    assert_int_equal(q.why, ERR_UNAVAILABLE);
    assert_false(q.call.sent);
    ask_end(&q);
    asker_end(&a);
}

/* A name whose first addresses refuse. That it has any is put in by hand: it is one no resolver is
 * asked about. */
static void the_next_address_is_tried_when_one_refuses(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_canned, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < 3; i++) {
        ask_begin(&q, &a, rogue_port(r), "/");
        (void)snprintf(q.url, sizeof q.url, "http://two..addresses:%u/fine",
                       rogue_port(r)); /* it fits */
        q.call.url = str_of(q.url);
        ask_now(&q);
        assert_int_equal(q.why, i == 0 ? ERR_UNAVAILABLE : ERR_OK);
        struct client_host *h = a.client->hosts;
        assert_string_equal(h->name, "two..addresses");
        if (i == 0) {
            char text[400];
            (void)snprintf(text, sizeof text, "%s:127.0.0.2,127.0.0.3,127.0.0.1",
                           h->key); /* it fits */
            h->addresses = strdup(text);
            h->addresses_until = q.call.deadline;
        }
        ask_end(&q);
    }
    asker_end(&a);
    rogue_stop(&r);
}

/* ---- bytes that belong to nobody ---- */

struct unasked {
    bool closes;     /* ends the connection instead of sending too much */
    sem_t go, there; /* the client has the first reply; what comes next is in its kernel */
};

/* The first connection's reply is followed by something nobody asked for. */
static void play_unasked(struct rogue *r, int fd, unsigned nth)
{
    struct unasked *u = rogue_ctx(r);
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request) || !rogue_say(fd, ok))
        return;
    if (nth == 1) {
        INVARIANT(sem_wait(&u->go) == 0);
        if (u->closes)
            (void)shutdown(fd, SHUT_WR); /* the client has not closed */
        else
            (void)rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"); /* as above */
        rogue_settle(fd);
        INVARIANT(sem_post(&u->there) == 0);
    }
    rogue_wait(fd);
}

static void second_after_unasked(bool closes, const char *method)
{
    struct unasked u = { .closes = closes };
    assert_int_equal(sem_init(&u.go, 0, 0), 0);
    assert_int_equal(sem_init(&u.there, 0, 0), 0);
    struct rogue *r = rogue_start(play_unasked, &u);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/first", ERR_OK);
    assert_int_equal(sem_post(&u.go), 0);
    assert_int_equal(sem_wait(&u.there), 0);
    ask_begin(&q, &a, rogue_port(r), "/second");
    q.call.method = method;
    ask_now(&q);
    if (q.why != ERR_OK)
        fail_msg("%s: %s (%s)", method, err_name(q.why), q.call.note.text);
    assert_string_equal(q.call.reply_body.p, "ok");
    assert_int_equal(rogue_connections(r), 2);
    assert_int_equal(rogue_requests(r), 2);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
    sem_destroy(&u.go);
    sem_destroy(&u.there);
}

static void a_reply_nobody_asked_for_answers_nobody(void **state)
{
    (void)state;
    second_after_unasked(false, "GET");
    second_after_unasked(false, "POST");
}

static void a_kept_connection_that_was_closed_costs_nothing(void **state)
{
    (void)state;
    second_after_unasked(true, "GET");
    second_after_unasked(true, "POST");
}

static void play_too_much(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    while (rogue_read(r, fd, request))
        if (!rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"))
            return;
}

static void what_is_longer_than_it_says_ends_the_connection(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_too_much, NULL);
    struct asker a;
    asker_begin(&a, NULL);
    for (unsigned i = 1; i <= 5; i++) {
        struct ask q;
        ask_begin(&q, &a, rogue_port(r), "/");
        ask_now(&q);
        assert_int_equal(q.why, ERR_OK);
        assert_string_equal(q.call.reply_body.p, "ok");
        ask_end(&q);
    }
    assert_int_equal(rogue_connections(r), 5);
    asker_end(&a);
    rogue_stop(&r);
}

/* Says no before the body was read, and does not read it. */
static void play_early_no(struct rogue *r, int fd, unsigned nth)
{
    (void)r, (void)nth;
    char bytes[4096];
    if (recv(fd, bytes, sizeof bytes, 0) <= 0)
        return;
    if (!rogue_say(
            fd,
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"))
        return;
    rogue_wait(fd);
}

static void a_reply_before_the_body_was_sent_counts(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_early_no, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    size_t size = 4 << 20;
    char *body = calloc(1, size);
    assert_non_null(body);
    q.call.method = "POST";
    q.call.body = (str){ .p = body, .n = size };
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    assert_int_equal(q.call.status, 413);
    ask_end(&q);
    free(body);
    asker_end(&a);
    rogue_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_reply_is_told_for_what_it_is),
        cmocka_unit_test(what_does_not_end_is_cut_at_its_limit),
        cmocka_unit_test(a_drip_is_taken_while_time_is_left),
        cmocka_unit_test(what_is_safe_is_asked_once_more_when_a_kept_connection_died),
        cmocka_unit_test(what_is_not_safe_is_never_sent_twice),
        cmocka_unit_test(a_reset_in_the_body_is_no_reply),
        cmocka_unit_test(a_closed_port_is_unavailable_and_nothing_was_sent),
        cmocka_unit_test(the_next_address_is_tried_when_one_refuses),
        cmocka_unit_test(a_reply_nobody_asked_for_answers_nobody),
        cmocka_unit_test(a_kept_connection_that_was_closed_costs_nothing),
        cmocka_unit_test(what_is_longer_than_it_says_ends_the_connection),
        cmocka_unit_test(a_reply_before_the_body_was_sent_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
