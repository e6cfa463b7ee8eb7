/* stop.c - waits that a signal ends. */
#include "cli/stop.h"

#include "base/check.h"
#include "loop/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void stop_watch(void)
{
    signals_watch(SIGNALS_NOTED, SIGNALS_ONCE);
}

bool stop_asked(void)
{
    return signals_seen() != 0;
}

int stop_fd(void)
{
    return signals_fd();
}

bool stop_wait(int fd, int timeout_ms)
{
    struct pollfd both[] = { { .fd = fd, .events = POLLIN },
                             { .fd = stop_fd(), .events = POLLIN } };
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
