/* stop.c - signals as a flag and a readable pipe, and waits that both end. */
#include "cli/stop.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Written by the handler alone. */
static volatile sig_atomic_t stopped_by;
/* Made once, before the handler can run. */
static int stop_pipe[2] = { -1, -1 };

static void on_signal(int number)
{
    int kept = errno;
    ssize_t n = write(stop_pipe[1], "", 1);
    (void)n; /* a pipe that is full can be read as well */
    stopped_by = number;
    errno = kept;
}

void stop_watch(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    if (stop_pipe[0] < 0)
        INVARIANT(pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    struct sigaction was;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        INVARIANT(sigaction(numbers[i], NULL, &was) == 0);
        if (was.sa_handler != SIG_IGN)
            INVARIANT(sigaction(numbers[i], &action, NULL) == 0);
    }
}

bool stop_asked(void)
{
    return stopped_by != 0;
}

int stop_fd(void)
{
    return stop_pipe[0];
}

bool stop_wait(int fd, int timeout_ms)
{
    struct pollfd both[] = { { .fd = fd, .events = POLLIN },
                             { .fd = stop_pipe[0], .events = POLLIN } };
    int n = -1;
    while (n < 0 && !stop_asked()) {
        n = poll(both, COUNT_OF(both), timeout_ms);
        INVARIANT(n >= 0 || errno == EINTR || errno == ENOMEM);
    }
    return !stop_asked() && both[0].revents != 0;
}

/* ---- streams ---- */

struct stop_reading {
    int fd;
};

static ssize_t reading_read(void *cookie, char *dst, size_t size)
{
    const struct stop_reading *r = cookie;
    ssize_t n = -1;
    errno = EAGAIN;
    while (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (!stop_wait(r->fd, -1)) {
            errno = EINTR;
            return -1;
        }
        n = read(r->fd, dst, size);
    }
    return n;
}

static int reading_seek(void *cookie, off64_t *at, int whence)
{
    const struct stop_reading *r = cookie;
    off64_t now = lseek64(r->fd, *at, whence);
    if (now < 0)
        return -1;
    *at = now;
    return 0;
}

static int reading_close(void *cookie)
{
    struct stop_reading *r = cookie;
    int closed = close(r->fd);
    free(r);
    return closed;
}

FILE *stop_stream(int fd)
{
    struct stop_reading *r = malloc(sizeof *r);
    INVARIANT(r != NULL);
    r->fd = fd;
    FILE *stream =
        fopencookie(r, "rb",
                    (cookie_io_functions_t){
                        .read = reading_read, .seek = reading_seek, .close = reading_close });
    INVARIANT(stream != NULL);
    return stream;
}

FILE *stop_open(const char *file)
{
    int fd = strcmp(file, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                    : open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? NULL : stop_stream(fd);
}

void stop_end(void)
{
    int number = stopped_by;
    if (number == 0)
        return;
    (void)fflush(NULL); /* what was said is said */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}
