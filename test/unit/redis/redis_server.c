#include "redis_server.h"

#include "lib/free_port.h"
#include "lib/oracle.h"
#include "lib/wait.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { START_TRIES = 20000, TRY_MS = 5, ARGS_MAX = 32 };

static int try_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int failed = connect(fd, (const struct sockaddr *)&at, sizeof at);
    close(fd);
    return failed;
}

static void run(const struct redis_server *s, const char *const *extra)
{
    char port[8];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* does not outlive a test that breaks down */
    snprintf(port, sizeof port, "%u", s->port);
    const char *args[ARGS_MAX] = { "redis-server", "--port",    port,
                                   "--bind",       "127.0.0.1", "--dir",
                                   s->dir,         "--save",    "",
                                   "--appendonly", "no",        "--loglevel",
                                   "warning",      "--logfile", "log" };
    unsigned count = 15;
    while (extra != NULL && *extra != NULL)
        args[count++] = *extra++;
    execvp(args[0], (char *const *)(uintptr_t)args);
    _exit(127);
}

void redis_server_need(void)
{
    oracle_need("redis-server");
}

void redis_server_start(struct redis_server *s, uint16_t port, const char *const *extra)
{
    folder_make(s->dir);
    s->port = port != 0 ? port : free_port();
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s, extra);
    for (int i = 0; i < START_TRIES; i++) {
        if (try_connect(s->port) == 0)
            return;
        assert_int_equal(waitpid(s->pid, NULL, WNOHANG), 0); /* else it ended */
        wait_pause(TRY_MS);
    }
    fail_msg("redis-server does not answer");
}

void redis_server_signal(const struct redis_server *s, int signal_number)
{
    assert_int_equal(kill(s->pid, signal_number), 0);
}

void redis_server_end(struct redis_server *s)
{
    (void)kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    folder_remove(s->dir);
}
