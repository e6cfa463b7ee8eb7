/* Goal: what the client sends and gives back: bytes, order, reuse, codings, limits, and where it
 * goes. Method: a real loop asks a server in this process that answers as each test says. */
#include "rogue.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* Answers each request with its own text. */
static void play_mirror(struct rogue *r, int fd, unsigned nth)
{
    char request[ROGUE_REQUEST_BYTES_MAX], head[256];
    while (rogue_read(r, fd, request)) {
        (void)snprintf(head, sizeof head,
                       "HTTP/1.1 200 OK\r\nX-Nth: %u\r\nContent-Length: %zu\r\n\r\n", nth,
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
    const struct http_pair headers[] = { { STR_INIT("X-One"), STR_INIT("1") },
                                         { STR_INIT("X-Empty"), STR_INIT("") } };
    q.call.headers = headers;
    q.call.headers_count = 2;
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    assert_int_equal(q.call.status, 200);
    assert_true(q.call.sent);
    char expected[1024];
    (void)snprintf(
        expected, sizeof expected,
        "GET /a/../b/./%%2e%%2E//c%%2Fd?x=%%41&y=[]{}|\\^` HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
        "User-Agent: asker\r\nAccept: */*\r\nX-One: 1\r\nX-Empty:\r\nAccept-Encoding: gzip, "
        "deflate\r\n\r\n",
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

static void replies_come_over_one_kept_connection(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_mirror, NULL);
    struct asker a;
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < 20; i++)
        ask_expect(&a, rogue_port(r), "/", ERR_OK);
    assert_int_equal(rogue_connections(r), 1);
    assert_int_equal(rogue_requests(r), 20);
    asker_end(&a);
    rogue_stop(&r);
}

static void ask_unix(struct asker *a, const char *path, err why)
{
    struct ask q;
    ask_begin(&q, a, 80, "/over/unix");
    q.call.url = STR("http://localhost/over/unix");
    q.call.unix_path = path;
    ask_now(&q);
    assert_int_equal(q.why, why);
    if (why == ERR_OK)
        assert_non_null(strstr(q.call.reply_body.p, "Host: localhost\r\n"));
    else
        assert_int_equal(q.call.fault, HTTP_FAULT_ABSENT);
    ask_end(&q);
}

/* The url's host is asked for by nobody then, and its kept connections are not mixed up. */
static void a_unix_socket_is_connected_to_instead_of_the_host(void **state)
{
    (void)state;
    char folder[] = "/tmp/client-XXXXXX", paths[2][64];
    struct rogue *tcp = rogue_start(play_mirror, NULL), *rogues[2];
    struct asker a;
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%u", folder, i);
        rogues[i] = rogue_start_unix(play_mirror, paths[i]);
    }
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < 20; i++) {
        ask_unix(&a, paths[i % 2], ERR_OK);
        ask_expect(&a, rogue_port(tcp), "/", ERR_OK);
    }
    assert_int_equal(rogue_connections(tcp), 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rogue_connections(rogues[i]), 1);
        assert_int_equal(rogue_requests(rogues[i]), 10);
        rogue_stop(&rogues[i]);
        ask_unix(&a, paths[i], ERR_UNAVAILABLE);
        assert_int_equal(unlink(paths[i]), 0);
        ask_unix(&a, paths[i], ERR_UNAVAILABLE);
    }
    asker_end(&a);
    rogue_stop(&tcp);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- what replies say ---- */

static void play_reply(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    const str *reply = rogue_ctx(r);
    while (rogue_read(r, fd, request))
        if (!rogue_send(fd, *reply))
            return;
}

static void headers_keep_their_order_and_letters(void **state)
{
    (void)state;
    str reply = STR("HTTP/1.1 200 Fine\r\nSet-Cookie: a=1\r\nx-B:\r\nSET-COOKIE:   b=2  "
                    "\r\nContent-Length: 0\r\n\r\n");
    struct rogue *r = rogue_start(play_reply, &reply);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    static const struct http_pair expected[] = {
        { STR_INIT("Set-Cookie"), STR_INIT("a=1") },
        { STR_INIT("x-B"), STR_INIT("") },
        { STR_INIT("SET-COOKIE"), STR_INIT("b=2") },
        { STR_INIT("Content-Length"), STR_INIT("0") },
    };
    assert_int_equal(q.call.reply_headers_count, COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_true(str_eq(q.call.reply_headers[i].name, expected[i].name));
        assert_true(str_eq(q.call.reply_headers[i].value, expected[i].value));
    }
    assert_int_equal(q.call.reply_body.n, 0);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_redirect_is_handed_over_and_cookies_are_not_kept(void **state)
{
    (void)state;
    str reply = STR("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: "
                    "a=1\r\nContent-Length: 4\r\n\r\nover");
    struct rogue *r = rogue_start(play_reply, &reply);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    ask_now(&q);
    assert_int_equal(q.why, ERR_OK);
    assert_int_equal(q.call.status, 302);
    assert_true(str_eq(http_call_header(&q.call, "location"), STR("/elsewhere")));
    assert_string_equal(q.call.reply_body.p, "over");
    assert_int_equal(rogue_requests(r), 1);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_head_has_the_size_but_no_body(void **state)
{
    (void)state;
    str reply =
        STR("HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\nContent-Encoding: gzip\r\n\r\n");
    struct rogue *r = rogue_start(play_reply, &reply);
    struct asker a;
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct ask q;
        ask_begin(&q, &a, rogue_port(r), "/");
        q.call.method = "HEAD";
        ask_now(&q);
        assert_int_equal(q.why, ERR_OK);
        assert_true(str_eq(http_call_header(&q.call, "Content-Length"), STR("104857600")));
        assert_int_equal(q.call.reply_body.n, 0);
        ask_end(&q);
    }
    assert_int_equal(rogue_connections(r), 1);
    asker_end(&a);
    rogue_stop(&r);
}

/* A reply whose body is text, coded as zlib does it with these window bits, parts times over. */
static str coded_reply(struct arena *arena, const char *coding, int bits, str text, unsigned parts)
{
    size_t size = text.n + 4096, n = 0;
    char *coded = arena_alloc(arena, size * parts);
    assert_non_null(coded);
    for (unsigned i = 0; i < parts; i++) {
        z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)text.p, .avail_in = (uInt)text.n };
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
        z.next_out = (Bytef *)coded + n;
        z.avail_out = (uInt)size;
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        n += size - z.avail_out;
        assert_int_equal(deflateEnd(&z), Z_OK);
    }
    str head = arena_printf(
        arena, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %zu\r\n\r\n", coding, n);
    char *reply = arena_alloc(arena, head.n + n);
    assert_non_null(reply);
    memcpy(reply, head.p, head.n);
    memcpy(reply + head.n, coded, n);
    return (str){ .p = reply, .n = head.n + n };
}

static void codings_are_undone(void **state)
{
    (void)state;
    static const struct {
        const char *coding;
        int bits;
        unsigned parts;
    } codings[] = {
        { "gzip", 31, 1 },    { "x-gzip", 31, 1 },   { "GZip", 31, 3 },
        { "deflate", 15, 1 }, { "deflate", -15, 1 },
    };
    const str text =
        STR("the same again, the same again, the same again, and now for something else");
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        struct arena arena;
        arena_init(&arena, 1 << 20);
        str reply = coded_reply(&arena, codings[i].coding, codings[i].bits, text, codings[i].parts);
        struct rogue *r = rogue_start(play_reply, &reply);
        struct asker a;
        struct ask q;
        asker_begin(&a, NULL);
        ask_begin(&q, &a, rogue_port(r), "/");
        ask_now(&q);
        assert_int_equal(q.why, ERR_OK);
        assert_int_equal(q.call.reply_body.n, text.n * codings[i].parts);
        for (unsigned part = 0; part < codings[i].parts; part++)
            assert_memory_equal(q.call.reply_body.p + part * text.n, text.p, text.n);
        ask_end(&q);
        asker_end(&a);
        rogue_stop(&r);
        arena_fini(&arena);
    }
}

static void a_bomb_goes_off_at_the_limit(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 256 << 20);
    size_t size = 64 << 20;
    char *zeros = arena_calloc(&arena, size, 1);
    assert_non_null(zeros);
    str reply = coded_reply(&arena, "gzip", 31, (str){ .p = zeros, .n = size }, 1);
    assert_true(reply.n < 1 << 17);
    struct rogue *r = rogue_start(play_reply, &reply);
    struct asker a;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/", ERR_LIMIT);
    asker_end(&a);
    rogue_stop(&r);
    arena_fini(&arena);
}

static void a_coding_that_ends_early_is_no_reply(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    str coded = coded_reply(&arena, "gzip", 31, STR("some text, some text, some text"), 1);
    size_t head_n = str_find_str(coded, STR("\r\n\r\n")) + 4;
    str body = str_take(str_skip(coded, head_n),
                        coded.n - head_n - 9); /* without its checksum and one byte more */
    str head = arena_printf(
        &arena, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", body.n);
    char *reply = arena_alloc(&arena, head.n + body.n);
    assert_non_null(reply);
    memcpy(reply, head.p, head.n);
    memcpy(reply + head.n, body.p, body.n);
    str whole = { .p = reply, .n = head.n + body.n };
    struct rogue *r = rogue_start(play_reply, &whole);
    struct asker a;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/", ERR_BAD);
    asker_end(&a);
    rogue_stop(&r);
    arena_fini(&arena);
}

static void a_reply_of_exactly_the_limit_fits(void **state)
{
    (void)state;
    str reply = STR("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    struct rogue *r = rogue_start(play_reply, &reply);
    struct asker a;
    asker_begin(&a, NULL);
    for (size_t most = 9; most <= 10; most++) {
        struct ask q;
        ask_begin(&q, &a, rogue_port(r), "/");
        q.call.reply_bytes_max = most;
        ask_now(&q);
        assert_int_equal(q.why, most < 10 ? ERR_LIMIT : ERR_OK);
        ask_end(&q);
    }
    struct ask q;
    ask_begin(&q, &a, rogue_port(r), "/");
    arena_fini(&q.arena);
    arena_init(&q.arena, 1); /* no room for the reply */
    ask_now(&q);
    assert_int_equal(q.why, ERR_LIMIT);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

/* ---- where it goes ---- */

static void what_is_no_url_is_refused_unsent(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "/",
        "127.0.0.1/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http:///",
        "http:/127.0.0.1/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:x/",
        "http://127.0.0.1:/",
        "http://127.0.0.1/#a",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/a\nb",
        "http://127.0.0.1/\x7f",
        "http://127.0.0.1/\xc3\xa9",
        "http://[::1/",
        "http://::1/",
        "http://[127.0.0.1]/",
        "http://[::1]x/",
        "http://a\\b/",
        "http://.a/",
        "gopher://a/",
        "http://ex%41mple/",
    };
    struct asker a;
    asker_begin(&a, NULL);
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct ask q;
        ask_begin(&q, &a, 1, "/");
        q.call.url = str_of(urls[i]);
        ask_now(&q);
        if (q.why != ERR_BAD || q.call.sent)
            fail_msg("\"%s\": %s (%s)", urls[i], err_name(q.why), q.call.note.text);
        ask_end(&q);
    }
    asker_end(&a);
}

static void a_header_that_would_end_its_line_is_refused(void **state)
{
    (void)state;
    static const struct http_pair wrong[] = {
        { STR_INIT("X-A"), STR_INIT("1\r\nX-B: 2") },
        { STR_INIT("X A"), STR_INIT("1") },
        { STR_INIT(""), STR_INIT("1") },
    };
    struct asker a;
    asker_begin(&a, NULL);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct ask q;
        ask_begin(&q, &a, 1, "/");
        q.call.headers = &wrong[i];
        q.call.headers_count = 1;
        ask_now(&q);
        assert_int_equal(q.why, ERR_BAD);
        ask_end(&q);
    }
    asker_end(&a);
}

static void a_name_is_resolved_and_one_that_is_none_is_unavailable(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_mirror, NULL);
    struct asker a;
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct ask q;
        ask_begin(&q, &a, rogue_port(r), "/");
        (void)snprintf(q.url, sizeof q.url, "http://LOCALHOST:%u/x", rogue_port(r)); /* it fits */
        q.call.url = str_of(q.url);
        ask_now(&q);
        if (q.why != ERR_OK)
            fail_msg("%s", q.call.note.text);
        assert_non_null(strstr(q.call.reply_body.p, "Host: localhost:"));
        ask_end(&q);
    }
    assert_int_equal(rogue_connections(r), 1);
    struct ask q;
    ask_begin(&q, &a, rogue_port(r), "/");
    q.call.url = STR("http://no..name/");
    ask_now(&q);
    assert_int_equal(q.why, ERR_UNAVAILABLE);
    assert_non_null(strstr(q.call.note.text, "no..name: "));
    assert_false(q.call.sent);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void proxies_of_the_environment_are_not_asked(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_mirror, NULL);
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1/", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1/", 1), 0);
    struct asker a;
    asker_begin(&a, NULL);
    ask_expect(&a, rogue_port(r), "/", ERR_OK);
    asker_end(&a);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("ALL_PROXY"), 0);
    rogue_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_sends_the_path_as_it_is_and_brings_the_reply),
        cmocka_unit_test(a_post_sends_its_body_and_nothing_it_was_not_told),
        cmocka_unit_test(replies_come_over_one_kept_connection),
        cmocka_unit_test(a_unix_socket_is_connected_to_instead_of_the_host),
        cmocka_unit_test(headers_keep_their_order_and_letters),
        cmocka_unit_test(a_redirect_is_handed_over_and_cookies_are_not_kept),
        cmocka_unit_test(a_head_has_the_size_but_no_body),
        cmocka_unit_test(codings_are_undone),
        cmocka_unit_test(a_bomb_goes_off_at_the_limit),
        cmocka_unit_test(a_coding_that_ends_early_is_no_reply),
        cmocka_unit_test(a_reply_of_exactly_the_limit_fits),
        cmocka_unit_test(what_is_no_url_is_refused_unsent),
        cmocka_unit_test(a_header_that_would_end_its_line_is_refused),
        cmocka_unit_test(a_name_is_resolved_and_one_that_is_none_is_unavailable),
        cmocka_unit_test(proxies_of_the_environment_are_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
