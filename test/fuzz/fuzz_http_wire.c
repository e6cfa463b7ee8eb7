/* Goal: bytes of any kind on a connection never break an invariant of the server, and the server
 * still answers afterwards. Method: the echo server of the unit tests in this process, raw bytes
 * over loopback. */
#include "../unit/http/echo.c"
#include "../unit/http/odd_transport.c"
#include "../unit/http/wire.c"

#include <sched.h>

enum { ANSWER_TIMEOUT_MS = 20000 };

/* Connections of earlier inputs may still stand in its way until they are let go and swept. */
static bool still_answers(struct echo *e)
{
    static struct wire_answer answer;
    const int64_t deadline = wire_now_ms() + ANSWER_TIMEOUT_MS;
    do {
        echo_release(e);
        http_server_sweep(e->server);
        wire_ask(echo_port(e, 0),
                 STR("GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &answer);
        if (answer.status == 200)
            return true;
        sched_yield();
    } while (wire_now_ms() < deadline);
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct echo *e; /* for all inputs; ends with the process */
    if (e == NULL) {
        const struct http_limits limits = { .threads = 2,
                                            .connections_max = 100,
                                            .body_drain_bytes_max = 1000 };
        e = echo_start(&limits);
    }
    int fd = wire_connect(echo_port(e, 0));
    (void)wire_send(fd, (str){ .p = (const char *)data, .n = size });
    INVARIANT(shutdown(fd, SHUT_WR) == 0 || errno == ENOTCONN);
    char c[4096];
    for (int i = 0; i < 100 && recv(fd, c, sizeof c, MSG_DONTWAIT) != 0; i++) {
        echo_release(e);
        http_server_sweep(e->server);
        sched_yield();
    }
    close(fd);
    INVARIANT(still_answers(e));
    return 0;
}
