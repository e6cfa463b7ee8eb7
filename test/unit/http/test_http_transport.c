/* Goal: a transport that dies in any of its calls ends its connection and nothing else, and lets go
 * of what it kept.
 * Method: a server whose transport finds the client gone in its first call, in its second, and so
 * on, until a client has its answers. The other tests of the server run over more transports, which
 * HTTP_TEST_TRANSPORT names (odd_transport.h). */
#include "echo.h"
#include "odd_transport.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "lib/wait.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 200 };

/* How many answers came whole. */
static unsigned ask_all(uint16_t port)
{
    static const char *const requests[] = {
        "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /echo/b HTTP/1.1\r\nHost: a\r\n\r\nGET /ready HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /count HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        "GET /size/3145728 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    };
    static const unsigned answers[] = { 1, 2, 2, 1 }; /* 100 is one */
    struct wire_answer *a = malloc(sizeof *a);
    unsigned whole = 0;
    assert_non_null(a);
    int fd = wire_connect(port);
    for (unsigned i = 0; i < COUNT_OF(requests); i++) {
        (void)wire_send(fd, str_of(requests[i])); /* the server may have ended it */
        for (unsigned k = 0; k < answers[i]; k++) {
            wire_read(fd, false, a);
            uint64_t length = 0;
            (void)str_to_u64(str_of(wire_header(a, "content-length")), &length); /* 100 has none */
            if (a->status != 0 && a->body_n == length)
                whole++;
            if (a->status == 100)
                (void)wire_send(fd, STR("abc"));
        }
    }
    close(fd);
    free(a);
    return whole;
}

static void whichever_call_fails_ends_one_connection(void **state)
{
    (void)state;
    const struct http_limits limits = { .threads = 1 };
    unsigned all = 0;
    echo_transport(&transport_dying);
    for (unsigned call = 1; all < 6; call++) {
        assert_true(call < CALLS_MAX);
        struct echo *e = echo_start(&limits);
        odd_die_at(call);
        all = ask_all(echo_port(e, 0));
        WAIT_UNTIL(http_server_open_requests(echo_server(e)) == 0);
        odd_die_at(0);
        assert_int_equal(ask_all(echo_port(e, 0)), 6); /* and the server goes on */
        echo_stop(&e);
        assert_int_equal(odd_alive(), 0);
    }
    echo_transport(NULL);
}

static void what_a_transport_keeps_ends_with_its_connection(void **state)
{
    (void)state;
    const struct http_limits limits = { .threads = 2 };
    echo_transport(&transport_crumbs);
    struct echo *e = echo_start(&limits);
    assert_int_equal(ask_all(echo_port(e, 0)), 6);
    int idle = wire_connect(echo_port(e, 0));
    assert_true(wire_send(idle, STR("GET /rea")));
    WAIT_UNTIL(odd_alive() > 0);
    echo_stop(&e);
    close(idle);
    assert_int_equal(odd_alive(), 0);
    echo_transport(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_call_fails_ends_one_connection),
        cmocka_unit_test(what_a_transport_keeps_ends_with_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
