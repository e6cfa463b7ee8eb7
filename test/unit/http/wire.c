#include "wire.h"
#include "base/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int wire_connect(uint16_t port)
{
    const struct timeval limit = { .tv_sec = WIRE_DEADLINE_MS / 1000 };
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    INVARIANT(fd >= 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    INVARIANT(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    INVARIANT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    return fd;
}

int wire_connect_unix(const char *path)
{
    const struct timeval limit = { .tv_sec = WIRE_DEADLINE_MS / 1000 };
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    INVARIANT(fd >= 0);
    INVARIANT(str_to_cstr(str_of(path), to.sun_path, sizeof to.sun_path));
    INVARIANT(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    return fd;
}

bool wire_send(int fd, str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes = str_skip(bytes, (size_t)n);
    }
    return true;
}

static bool read_head(int fd, struct wire_answer *out)
{
    size_t n = 0;
    while (n < sizeof out->head - 1) {
        ssize_t got = recv(fd, out->head + n, 1, 0);
        INVARIANT(got >= 0 ||
                  errno == ECONNRESET); /* a deadline that passed is a failure of the test */
        if (got <= 0)
            break;
        n++;
        out->head[n] = 0;
        if (n >= 4 && memcmp(out->head + n - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

static void read_body(int fd, uint64_t length, struct wire_answer *out)
{
    char rest[65536];
    while (out->body_n < length) {
        size_t want =
            length - out->body_n < sizeof rest ? (size_t)(length - out->body_n) : sizeof rest;
        ssize_t got = recv(fd, rest, want, 0);
        INVARIANT(got >= 0 || errno == ECONNRESET);
        if (got <= 0)
            return;
        size_t room = out->body_n < sizeof out->body - 1 ? sizeof out->body - 1 - out->body_n : 0;
        memcpy(out->body + (out->body_n < sizeof out->body ? out->body_n : 0), rest,
               (size_t)got < room ? (size_t)got : room);
        out->body_n += (size_t)got;
    }
    out->body[out->body_n < sizeof out->body ? out->body_n : sizeof out->body - 1] = 0;
}

const char *wire_header(const struct wire_answer *a, const char *name)
{
    static _Thread_local char value[1024];
    str rest = str_of(a->head);
    (void)str_split(&rest, '\n');
    while (rest.n > 0) {
        str line = str_split(&rest, '\n');
        size_t colon = str_find(line, ':');
        if (colon == line.n || !str_eq_nocase(str_take(line, colon), str_of(name)))
            continue;
        str v = str_trim(str_take(str_skip(line, colon + 1), line.n - colon - 2));
        return str_to_cstr(v, value, sizeof value) ? value : "";
    }
    return "";
}

void wire_read(int fd, bool head_only, struct wire_answer *out)
{
    *out = (struct wire_answer){ .status = 0 };
    if (!read_head(fd, out))
        return;
    uint64_t status = 0, length = 0;
    INVARIANT(str_starts(str_of(out->head), STR("HTTP/1.1 ")));
    INVARIANT(str_to_u64(str_take(str_skip(str_of(out->head), 9), 3), &status));
    out->status = (int)status;
    out->close = strcasecmp(wire_header(out, "connection"), "close") == 0;
    if (!head_only && str_to_u64(str_of(wire_header(out, "content-length")), &length))
        read_body(fd, length, out);
}

void wire_ask(uint16_t port, str request, struct wire_answer *out)
{
    int fd = wire_connect(port);
    (void)wire_send(fd, request); /* a refusal may come before the end of it */
    wire_read(fd, false, out);
    close(fd);
}

bool wire_is_closed(int fd)
{
    char c;
    ssize_t got = recv(fd, &c, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

size_t wire_bytes_left(int fd)
{
    char rest[4096];
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, rest, sizeof rest, 0);
        INVARIANT(got >= 0 || errno == ECONNRESET);
        if (got <= 0)
            return n;
        n += (size_t)got;
    }
}

int64_t wire_now_ms(void)
{
    struct timespec t;
    INVARIANT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
