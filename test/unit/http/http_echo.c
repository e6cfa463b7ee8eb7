/* http_echo - the echo server as a program: for scenes written before the real one, and for
 * counting instructions. Prints "listening on http://ADDR:PORT", drains and ends on SIGTERM. */
#include "echo.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    const struct http_limits limits = { .threads = 2, .connections_max = 2000 };
    struct echo *e = echo_start(&limits);
    printf("listening on http://127.0.0.1:%u\n", echo_port(e, 0));
    printf("admin on http://127.0.0.1:%u\n", echo_port(e, 1));
    fflush(stdout);
    const struct timespec tick = { .tv_nsec = 250 * NS_PER_MS };
    while (sigtimedwait(&set, NULL, &tick) < 0)
        http_server_sweep(echo_server(e));
    http_server_drain(echo_server(e));
    echo_release(e);
    for (int i = 0; i < 40 && http_server_open_requests(echo_server(e)) > 0; i++)
        (void)sigtimedwait(&set, NULL, &tick); /* only as a pause */
    echo_stop(&e);
    return 0;
}
