/* Goal: a head that two HTTP readers could read differently never reaches a handler, and who sent
 * it is told why. Method: raw bytes to a live server, one connection each. */
#include "echo.h"
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
    const struct http_limits limits = { .threads = 2, .connections_max = 500 };
    *state = echo_start(&limits);
    return 0;
}

static int teardown(void **state)
{
    struct echo *e = *state;
    echo_stop(&e);
    return 0;
}

#define GET_A "GET /echo/a HTTP/1.1\r\n"
#define POST_C "POST /count HTTP/1.1\r\nHost: a\r\n"

struct shape {
    str bytes;
    const char *detail;
};
#define SHAPE(bytes, detail)                                                                       \
    {                                                                                              \
        { (bytes), sizeof(bytes) - 1 }, (detail)                                                   \
    }

static const struct shape refused[] = {
    SHAPE(POST_C "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
          "more than one Content-Length"),
    SHAPE(POST_C "Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
          "more than one Content-Length"),
    SHAPE(POST_C "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "both Content-Length"),
    SHAPE(POST_C "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
          "both Content-Length"),
    SHAPE(POST_C "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "more than one Tran"),
    SHAPE(POST_C "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding: identity\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding: chunked\v\r\n\r\n0\r\n\r\n", "control byte"),
    SHAPE(POST_C "Transfer-Encoding: chunked ,\r\n\r\n0\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding: \t \r\n\r\n0\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding:\r\n\r\n", "other than chunked"),
    SHAPE(POST_C "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", "header name"),
    SHAPE(POST_C "Content-Length : 3\r\n\r\nabc", "header name"),
    SHAPE(POST_C "Content-Length: 3\r\n \r\n\r\nabc", "folded"),
    SHAPE(POST_C "Content-Length: 3\v\r\n\r\nabc", "control byte"),
    SHAPE(POST_C "Content-Length: 3\r \r\n\r\nabc", "control byte"),
    SHAPE(POST_C "Content-Length: 3\0\r\n\r\nabc", "control byte"),
    SHAPE(POST_C "Content-Length: 3 \n\r\n\r\nabc", "CRLF"),
    SHAPE(POST_C " Content-Length: 3\r\n\r\nabc", "folded"),
    SHAPE(POST_C "Content-\r\n Length: 3\r\n\r\nabc", "no colon"),
    SHAPE(POST_C "Content-: 3\r\n Length\r\n\r\nabc", "folded"),
    SHAPE(POST_C "X-A: b\r\n\tContent-Length: 3\r\n\r\nabc", "folded"),
    SHAPE("POST /count HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "in HTTP/1.0"),
    SHAPE(GET_A "Host: a\r\nHost: a\r\n\r\n", "more than one Host"),
    SHAPE(GET_A "Host: a\r\nHost: b\r\n\r\n", "more than one Host"),
    SHAPE("GET /echo/a HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "more than one Host"),
    SHAPE(GET_A "X-No: host\r\n\r\n", "Host is missing"),
    SHAPE(GET_A "\r\n", "Host is missing"),
    SHAPE("GET /echo/a HTTP/1.2\r\n\r\n", "Host is missing"),
    SHAPE(GET_A "Host: a b\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: user@a\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: a, b\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: a/b\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: a :1\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: a:b\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: a:1:2\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: ::1\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: [::1\r\n\r\n", "Host is not a host"),
    SHAPE(GET_A "Host: [::1]a\r\n\r\n", "Host is not a host"),
    SHAPE("GET http://a:b/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET /echo/a#b HTTP/1.1\r\nHost: a\r\n\r\n", "fragment"),
    SHAPE("GET /echo/a?q=b#c HTTP/1.1\r\nHost: a\r\n\r\n", "fragment"),
    SHAPE(GET_A "Host: a\r\nX-A: b\rc\r\n\r\n", "control byte"),
    SHAPE(GET_A "Host: a\r\nX-A: b\r\rContent-Length: 5\r\n\r\n", "control byte"),
    SHAPE(GET_A "Host: a\r\nX-A: b\x7f\r\n\r\n", "control byte"),
    SHAPE(GET_A "Host: a\r\nX-A: 0123456789abcdef\x01\r\n\r\n", "control byte"),
    SHAPE(GET_A "Host: a\r\nX-A: b\0c\r\n\r\n", "control byte"),
    SHAPE(GET_A "Host: a\r\nX-A\0: b\r\n\r\n", "header name"),
    SHAPE(GET_A "Host: a\r\nX A: b\r\n\r\n", "header name"),
    SHAPE(GET_A "Host: a\r\nX(A): b\r\n\r\n", "header name"),
    SHAPE(GET_A "Host: a\r\n\xc3\xa9: b\r\n\r\n", "header name"),
    SHAPE(GET_A "Host: a\r\n: b\r\n\r\n", "header name"),
    SHAPE(GET_A "Host: a\r\nno colon\r\n\r\n", "no colon"),
    SHAPE("GET /echo/a HTTP/1.1\nHost: a\n\n", "CRLF"),
    SHAPE("GET /echo/a HTTP/1.1\nHost: a\r\n\r\n", "CRLF"),
    SHAPE(GET_A "Host: a\n\r\n", "CRLF"),
    SHAPE(GET_A "Host: a\r\n\n", "CRLF"),
    SHAPE(GET_A "X-A: b\nHost: a\r\n\r\n", "CRLF"),
    SHAPE("GET ftp://a/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "target does not start"),
    SHAPE("GET http:/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "target does not start"),
    SHAPE("GET http:///echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET http://?/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET http://u@a/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET http://a,b/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET http://a\\/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "no host of its own"),
    SHAPE("GET http://a\x01/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET http://a/echo/a HTTP/1.1\r\n\r\n", "Host is missing"),
    SHAPE("GET http://a/echo/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "more than one Host"),
    SHAPE("GET http://a/echo/a HTTP/1.1\r\nHost: a/b\r\n\r\n", "Host is not a host"),
    SHAPE("GET echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "target does not start"),
    SHAPE("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "target does not start"),
    SHAPE("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "target does not start"),
    SHAPE("GET  /echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "two blanks"),
    SHAPE("GET /echo/a  HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET /echo/a b HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET /echo/a?q=b c HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET /echo/a\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET /echo/a\tb HTTP/1.1\r\nHost: a\r\n\r\n", "control byte"),
    SHAPE("GET\t/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "method is not a token"),
    SHAPE("G(T /echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "method is not a token"),
    SHAPE(GET_A "Host: a\r\nContent-Length: 1\r\n\r\nx", "takes no body"),
    SHAPE("HEAD /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "takes no body"),
    SHAPE(GET_A "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "takes no body"),
    SHAPE(GET_A "Host: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
          "more than one Auth"),
    SHAPE(POST_C "Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n",
          "more than one Content-T"),
};

static void shapes_of_smuggling_are_refused_and_closed(void **state)
{
    struct echo *e = *state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct wire_answer *a = malloc(sizeof *a);
        bool head_only = strncmp(refused[i].bytes.p, "HEAD", 4) == 0;
        int fd = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fd, refused[i].bytes));
        (void)wire_send(fd, STR("GET /ready HTTP/1.1\r\nHost: a\r\n\r\n"));
        wire_read(fd, head_only, a);
        bool told = head_only || strstr(a->body, refused[i].detail) != NULL;
        if (a->status != 400 || !a->close || !told || !wire_is_closed(fd))
            fail_msg("shape %zu \"%s\": got %d \"%s\"", i, refused[i].bytes.p, a->status, a->body);
        close(fd);
        free(a);
    }
}

static const struct shape accepted[] = {
    SHAPE(GET_A "Host: a\r\n\r\n", "a=a\n"),
    SHAPE("\r\n" GET_A "Host: a\r\n\r\n", "a=a\n"),
    SHAPE(GET_A "Host:\r\n\r\n", "a=a\n"),
    SHAPE(GET_A "HOST: [::1]:80\r\n\r\n", "a=a\n"),
    SHAPE(GET_A "Host: a:\r\n\r\n", "a=a\n"),
    SHAPE(GET_A "Host:\t a.example:80 \t\r\n\r\n", "host=a.example:80\n"),
    SHAPE(GET_A "Host: a.example:8080\r\n\r\n", "a=a\n"),
    SHAPE("GET /echo/a HTTP/1.0\r\n\r\n", "a=a\n"),
    SHAPE("GET /echo/a HTTP/1.2\r\nHost: a\r\n\r\n", "a=a\n"),
    SHAPE(GET_A "Host:a\r\nX-List:\t b \t\r\n\r\n", "list=b\n"),
    SHAPE(GET_A "Host: a\r\nX-List: one\r\nx-list: two\r\n\r\n", "list=one, two\n"),
    SHAPE(GET_A "Host: a\r\nX-List: \xc3\xa9\tb\r\n\r\n", "list=\xc3\xa9\tb\n"),
    SHAPE(GET_A "Host: a\r\nAccept-Encoding: gzip\r\nAccept-Encoding: zstd\r\n\r\n",
          "encoding=gzip, zstd\n"),
    SHAPE(GET_A "Host: a\r\nContent-Length: 0\r\n\r\n", "a=a\n"),
    SHAPE("GET http://b:80/echo/a?q=x HTTP/1.1\r\nHost: a\r\n\r\n", "target=/echo/a\nquery=q=x\n"),
    SHAPE("GET http://b:80/echo/a HTTP/1.1\r\nHost: a\r\n\r\n", "host=b:80\n"),
    SHAPE("GET HTTPS://[::1]/echo/x HTTP/1.1\r\nhost:\r\n\r\n", "host=[::1]\n"),
    SHAPE("GET http://b/echo/a HTTP/1.0\r\n\r\n", "host=b\n"),
    SHAPE("GET http://b/rest/http://c/d HTTP/1.1\r\nHost: a\r\n\r\n", "http://c/d"),
    SHAPE("GET /echo/a%2Fb/c?q=%C3%A9+x&q=2 HTTP/1.1\r\nHost: a\r\n\r\n",
          "a=a/b\na_bytes=3\nb=c\nq=\xc3\xa9 x\n"),
    SHAPE("GET /echo/a%00b HTTP/1.1\r\nHost: a\r\n\r\n", "target=/echo/a%00b\n"),
    SHAPE("GET /echo/a%00b HTTP/1.1\r\nHost: a\r\n\r\n", "a_bytes=3\n"),
    SHAPE("GET /echo/%252F HTTP/1.1\r\nHost: a\r\n\r\n", "a=%2F\n"),
    SHAPE("GET /echo/.. HTTP/1.1\r\nHost: a\r\n\r\n", "a=..\n"),
    SHAPE("GET /echo/a?a=1&&=&b%3D=c%26&q HTTP/1.1\r\nHost: a\r\n\r\n",
          "query=a=1&&=&b%3D=c%26&q\n"),
    SHAPE("GET /echo/a?q=1+%2B HTTP/1.1\r\nHost: a\r\n\r\n", "q=1 +\n"),
    SHAPE("GET /echo/a?q=100% HTTP/1.1\r\nHost: a\r\n\r\n", "q=100%\n"),
    SHAPE("GET /echo/a?q=x?y HTTP/1.1\r\nHost: a\r\n\r\n", "q=x?y\n"),
    SHAPE("GET /rest/a/b%2Fc//d HTTP/1.1\r\nHost: a\r\n\r\n", "a/b%2Fc//d"),
    SHAPE(GET_A "Host: a\r\nX-Request-Id: abc-1\r\n\r\n", "id=abc-1\n"),
    SHAPE(GET_A "Host: a\r\nIf-Match: *\r\n\r\n", "conditional=1\n"),
    SHAPE(POST_C "Transfer-Encoding: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "3 294\n"),
    SHAPE(POST_C "Transfer-Encoding:\t chunked\t \r\n\r\n3\r\nabc\r\n0\r\n\r\n", "3 294\n"),
    SHAPE(POST_C "Content-Length: 3 \r\n\r\nabc", "3 294\n"),
    SHAPE(POST_C "Content-Length:\t3\t \t\r\n\r\nabc", "3 294\n"),
};

static void heads_that_are_only_unusual_are_accepted(void **state)
{
    struct echo *e = *state;
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        struct wire_answer *a = malloc(sizeof *a);
        wire_ask(echo_port(e, 0), accepted[i].bytes, a);
        if (a->status != 200 || strstr(a->body, accepted[i].detail) == NULL)
            fail_msg("shape %zu \"%s\": %d \"%s\"", i, accepted[i].bytes.p, a->status, a->body);
        free(a);
    }
}

static void what_is_no_request_of_ours_is_told_why_and_closed(void **state)
{
    const struct {
        str bytes;
        int status;
    } own[] = {
        { STR("GET /echo/a\r\n\r\n"), 400 },
        { STR("GET /echo/a HTTP/1.1x\r\n\r\n"), 400 },
        { STR("GET /echo/a http/1.1\r\nHost: a\r\n\r\n"), 400 },
        { STR("GET /echo/a HTTP/0.9\r\n\r\n"), 505 },
        { STR("GET /echo/a HTTP/2.0\r\nHost: a\r\n\r\n"), 505 },
        { STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505 },
        { STR(GET_A "Host: a\r\nno colon\r\n\r\n"), 400 },
        { STR(POST_C "Content-Length: -1\r\n\r\n"), 400 },
        { STR(POST_C "Content-Length: +1\r\n\r\nx"), 400 },
        { STR(POST_C "Content-Length: 1,1\r\n\r\nx"), 400 },
        { STR(POST_C "Content-Length: 1 1\r\n\r\nx"), 400 },
        { STR(POST_C "Content-Length: \t \r\n\r\nx"), 400 },
        { STR(POST_C "Content-Length: 0x1\r\n\r\nx"), 400 },
        { STR(POST_C "Content-Length:\r\n\r\n"), 400 },
        { STR(POST_C "Content-Length: 18446744073709551616\r\n\r\n"), 413 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"), 400 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n"), 413 },
        { STR("\x16\x03\x01\x02"), 400 }, /* a client of TLS waits for us */
        { STR("nonsense\r\n\r\n"), 400 },
        { STR("GET\r\n\r\n"), 400 },
        { STR("GET /echo/a \r\n\r\n"), 400 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n"), 400 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\n"), 400 },
        { STR(POST_C "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n"), 400 },
    };
    struct echo *e = *state;
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        struct wire_answer *a = malloc(sizeof *a);
        int fd = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fd, own[i].bytes));
        wire_read(fd, false, a);
        if (a->status != own[i].status || !a->close || a->body_n == 0 || !wire_is_closed(fd))
            fail_msg("\"%s\": %d, not %d: %s", own[i].bytes.p, a->status, own[i].status, a->head);
        close(fd);
        free(a);
    }
}

#define CODED(value) POST_C "Transfer-Encoding: " value "\r\n\r\n"
#define BEHIND "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n"

/* What is framed as everybody frames it leaves the connection to the next request. Of the others,
 * some hold a second request for one reader or another: nothing behind them is answered. */
static void behind_plain_chunks_alone_the_next_request_is_read(void **state)
{
    struct echo *e = *state;
    static const struct {
        const char *bytes;
        int status;
        bool goes_on;
    } bodies[] = {
        { CODED("chunked") "1\r\nx\r\n0\r\n\r\n" BEHIND, 200, true },
        { CODED("\tCHUNKED") "01\r\nx\r\n00\r\n\r\n" BEHIND, 200, true },
        { CODED("chunked ") "1\r\nx\r\n0\r\n\r\n" BEHIND, 200, false },
        { CODED("chunked\t") "1\r\nx\r\n0\r\n\r\n" BEHIND, 200, false },
        { CODED("chunked") "1;a=b\r\nx\r\n0\r\n\r\n" BEHIND, 200, false },
        { CODED("chunked") "1\r\nx\r\n0;a\r\n\r\n" BEHIND, 200, false },
        { CODED("chunked") "1\r\nx\r\n0\r\nA: b\r\n\r\n" BEHIND, 200, false },
        { CODED("chunked") "1;a\nx\r\n0\r\n\r\n" BEHIND, 400, false },
        { CODED("chunked") "1;\nx\n0\n\n" BEHIND, 400, false },
        { CODED("chunked") "1\nx\n0;\n\r\n\r\n0\r\n\r\n" BEHIND, 400, false },
        { CODED("chunked") "1\r\nx\r\n0\r\nA:" BEHIND, 200, false },
    };
    struct wire_answer *a = malloc(sizeof *a);
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        int fd = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fd, str_of(bodies[i].bytes)));
        wire_read(fd, false, a);
        bool read = bodies[i].status == 400 || strcmp(a->body, "1 120\n") == 0;
        if (a->status != bodies[i].status || !read || a->close == bodies[i].goes_on)
            fail_msg("body %zu: %s%s", i, a->head, a->body);
        if (bodies[i].goes_on) {
            wire_read(fd, false, a);
            assert_string_equal(a->body, "ready\n");
        } else {
            assert_true(wire_is_closed(fd));
        }
        close(fd);
    }
    free(a);
}

static void an_endless_chunk_extension_ends_the_connection(void **state)
{
    struct echo *e = *state;
    size_t n = 70 << 10;
    char *extension = malloc(n);
    struct wire_answer *a = malloc(sizeof *a);
    memset(extension, 'x', n);
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, STR(POST_C "Transfer-Encoding: chunked\r\n\r\n1;")));
    assert_true(wire_send(fd, (str){ .p = extension, .n = n }));
    assert_true(wire_send(fd, STR("\r\nx\r\n0\r\n\r\n")));
    wire_read(fd, false, a);
    assert_int_equal(a->status, 400);
    assert_true(a->close && wire_is_closed(fd));
    close(fd);
    wire_ask(echo_port(e, 0), STR("GET /ready HTTP/1.1\r\nHost: a\r\n\r\n"), a);
    assert_int_equal(a->status, 200);
    free(a);
    free(extension);
}

/* Ignored, never seen as header fields. */
static void chunk_extensions_and_trailers_are_dropped(void **state)
{
    struct echo *e = *state;
    struct wire_answer *a = malloc(sizeof *a);
    wire_ask(echo_port(e, 0),
             STR(POST_C "Transfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nab\r\n"
                        "1\r\nc\r\n0\r\n\r\n"),
             a);
    assert_string_equal(a->body, "3 294\n");
    wire_ask(echo_port(e, 0),
             STR(POST_C "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
                        "0\r\nHost: b\r\nX-List: c\r\n\r\n"),
             a);
    assert_int_equal(a->status, 200);
    assert_string_equal(a->body, "3 294\n");
    free(a);
}

static str head_of(char *text, size_t text_size, size_t target_n, unsigned headers, size_t value_n)
{
    size_t n = (size_t)snprintf(text, text_size, "GET /echo/");
    memset(text + n, 't', target_n);
    n += target_n;
    n += (size_t)snprintf(text + n, text_size - n, " HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 0; i < headers; i++) {
        n += (size_t)snprintf(text + n, text_size - n, "X-%u: ", i);
        memset(text + n, 'v', value_n);
        n += value_n;
        n += (size_t)snprintf(text + n, text_size - n, "\r\n");
    }
    n += (size_t)snprintf(text + n, text_size - n, "\r\n");
    return (str){ .p = text, .n = n };
}

static void heads_up_to_the_limit_are_read_and_larger_ones_refused(void **state)
{
    static const struct {
        size_t target_n;
        unsigned headers;
        size_t value_n;
        int status;
    } heads[] = {
        { 15000, 1, 1, 200 }, { 1, 1, 15000, 200 }, { 1, 15, 1000, 200 }, { 1, 126, 50, 200 },
        { 1, 200, 5, 431 },   { 1, 1, 17000, 431 }, { 17000, 1, 1, 414 }, { 40000, 1, 1, 414 },
        { 1, 1, 40000, 431 }, { 1, 1500, 20, 431 }, { 1, 40, 5000, 431 },
    };
    struct echo *e = *state;
    char *text = malloc(1 << 20);
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        struct wire_answer *a = malloc(sizeof *a);
        str head = head_of(text, 1 << 20, heads[i].target_n, heads[i].headers, heads[i].value_n);
        wire_ask(echo_port(e, 0), head, a);
        if (a->status != heads[i].status)
            fail_msg("head %zu of %zu bytes: %d, not %d", i, head.n, a->status, heads[i].status);
        free(a);
    }
    free(text);
}

/* GET /wide/3500 with so many fields, in a head of exactly so many bytes. */
static str wide_head(char *text, size_t text_size, unsigned fields, size_t bytes)
{
    size_t n = (size_t)snprintf(text, text_size, "GET /wide/3500 HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 2; i < fields; i++)
        n += (size_t)snprintf(text + n, text_size - n, "X-%u: v\r\n", i);
    size_t value_n = bytes - n - strlen("X-: \r\n\r\n");
    n += (size_t)snprintf(text + n, text_size - n, "X-: ");
    memset(text + n, 'v', value_n);
    n += value_n;
    n += (size_t)snprintf(text + n, text_size - n, "\r\n\r\n");
    assert_int_equal(n, bytes);
    return (str){ .p = text, .n = n };
}

static void the_largest_head_leaves_room_for_a_wide_answer(void **state)
{
    static const struct {
        unsigned fields;
        size_t bytes;
        int status;
    } heads[] = {
        { 2, 16384, 200 }, { 60, 16384, 200 },  { 128, 12288, 200 }, { 128, 16384, 200 },
        { 2, 16385, 431 }, { 128, 16385, 431 }, { 129, 12000, 431 },
    };
    struct echo *e = *state;
    char *text = malloc(32 << 10);
    struct wire_answer *a = malloc(sizeof *a);
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        int fd = wire_connect(echo_port(e, 0));
        for (unsigned again = 0; again < (heads[i].status == 200 ? 2 : 1); again++) {
            assert_true(wire_send(fd, wide_head(text, 32 << 10, heads[i].fields, heads[i].bytes)));
            wire_read(fd, false, a);
            if (a->status != heads[i].status || a->close != (heads[i].status != 200))
                fail_msg("%u fields in %zu bytes: %d", heads[i].fields, heads[i].bytes, a->status);
        }
        close(fd);
    }
    free(a);
    free(text);
}

/* Cookies mean nothing here, however many a browser carries from elsewhere on the same domain. */
static void as_many_cookies_as_a_head_holds_are_let_pass(void **state)
{
    struct echo *e = *state;
    static const char *const pieces[] = { "a=b; ", "a;", ";", ",", "a=\"b;c\", ", "=;", " " };
    char *text = malloc(32 << 10);
    struct wire_answer *a = malloc(sizeof *a);
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        size_t piece_n = strlen(pieces[i]);
        size_t n = (size_t)snprintf(text, 1 << 10, "GET /echo/a HTTP/1.1\r\nCookie: x=");
        while (n < 15 << 10) {
            memcpy(text + n, pieces[i], piece_n);
            n += piece_n;
        }
        n += (size_t)snprintf(text + n, 1 << 10,
                              "x\r\nHost: a\r\ncookie: b=c\r\nX-List: last\r\n\r\n");
        int fd = wire_connect(echo_port(e, 0));
        for (unsigned again = 0; again < 2; again++) {
            assert_true(wire_send(fd, (str){ .p = text, .n = n }));
            wire_read(fd, false, a);
            if (a->status != 200 || a->close)
                fail_msg("\"%s\": %d %s", pieces[i], a->status, a->head);
            assert_non_null(strstr(a->body, "list=last\n"));
        }
        close(fd);
    }
    free(a);
    free(text);
}

static void methods_and_paths_are_told_apart(void **state)
{
    const struct {
        str bytes;
        int status;
        const char *allow;
    } asked[] = {
        { STR("GET /none HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "" },
        { STR("PUT /none HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 404, "" },
        { STR("PUT /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 405,
          "GET, HEAD, OPTIONS" },
        { STR("PATCH /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 405,
          "POST, OPTIONS" },
        { STR("get /count HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "POST, OPTIONS" },
        { STR("TRACE /echo/a HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "GET, HEAD, OPTIONS" },
        { STR("OPTIONS /count HTTP/1.1\r\nHost: a\r\n\r\n"), 204, "POST, OPTIONS" },
        { STR("OPTIONS /none HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "" },
        { STR("GET /echo/100% HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "" },
        { STR("GET /echo/%zz HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "" },
        { STR("GET /admin/only HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "" },
        { STR("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "" },
        { STR("GET http://a?/ready HTTP/1.1\r\nHost: a\r\n\r\n"), 404, "" },
        { STR("PUT http://a/none HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 404, "" },
        { STR("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n"), 200, "" },
        { STR("DELETE /thing HTTP/1.1\r\nHost: a\r\n\r\n"), 204, "" },
        { STR("DELETE /thing HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 413, "" },
        { STR("PUT /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 403, "" },
    };
    struct echo *e = *state;
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        struct wire_answer *a = malloc(sizeof *a);
        int fd = wire_connect(echo_port(e, 0));
        assert_true(wire_send(fd, asked[i].bytes));
        wire_read(fd, false, a);
        if (a->status != asked[i].status || a->close ||
            strcmp(wire_header(a, "allow"), asked[i].allow) != 0)
            fail_msg("\"%s\": %s", asked[i].bytes.p, a->head);
        if (wire_header(a, "x-request-id")[0] == 0)
            fail_msg("\"%s\" has no id: %s", asked[i].bytes.p, a->head);
        /* None of these ends the connection. */
        assert_true(wire_send(fd, STR("GET /ready HTTP/1.1\r\nHost: a\r\n\r\n")));
        wire_read(fd, false, a);
        assert_int_equal(a->status, 200);
        close(fd);
        free(a);
    }
}

static void admin_listener_serves_admin_and_health_alone(void **state)
{
    struct echo *e = *state;
    struct wire_answer *a = malloc(sizeof *a);
    wire_ask(echo_port(e, 1), STR("GET /admin/only HTTP/1.1\r\nHost: a\r\n\r\n"), a);
    assert_int_equal(a->status, 200);
    wire_ask(echo_port(e, 1), STR("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n"), a);
    assert_int_equal(a->status, 200);
    wire_ask(echo_port(e, 1), STR(GET_A "Host: a\r\n\r\n"), a);
    assert_int_equal(a->status, 404);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_smuggling_are_refused_and_closed),
        cmocka_unit_test(heads_that_are_only_unusual_are_accepted),
        cmocka_unit_test(what_is_no_request_of_ours_is_told_why_and_closed),
        cmocka_unit_test(behind_plain_chunks_alone_the_next_request_is_read),
        cmocka_unit_test(an_endless_chunk_extension_ends_the_connection),
        cmocka_unit_test(chunk_extensions_and_trailers_are_dropped),
        cmocka_unit_test(heads_up_to_the_limit_are_read_and_larger_ones_refused),
        cmocka_unit_test(the_largest_head_leaves_room_for_a_wide_answer),
        cmocka_unit_test(as_many_cookies_as_a_head_holds_are_let_pass),
        cmocka_unit_test(methods_and_paths_are_told_apart),
        cmocka_unit_test(admin_listener_serves_admin_and_health_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
