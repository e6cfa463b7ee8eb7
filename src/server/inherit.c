/* inherit.c - takes over listening sockets from a service manager. */
#include "server/inherit.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

/* How many there are for this process. */
static err sockets_count(unsigned *out, struct err_note *note)
{
    const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
    uint64_t pid, count;
    *out = 0;
    if (pid_text == NULL || count_text == NULL || !str_to_u64(str_of(pid_text), &pid) ||
        pid != (uint64_t)getpid())
        return ERR_OK;
    if (!str_to_u64(str_of(count_text), &count))
        return err_bad(note, "LISTEN_FDS: \"%s\" is not a number of sockets", count_text);
    if (count > INHERITED_MAX)
        return err_bad(note, "LISTEN_FDS: more than %d sockets", INHERITED_MAX);
    *out = (unsigned)count;
    return ERR_OK;
}

static bool name_unix(const struct sockaddr_un *at, socklen_t n, struct inherited_item *out)
{
    size_t most = n - offsetof(struct sockaddr_un, sun_path);
    bool abstract = most > 1 && at->sun_path[0] == 0;
    const char *path = at->sun_path + (abstract ? 1 : 0);
    size_t path_n = strnlen(path, abstract ? most - 1 : most);
    if (path_n == 0)
        return false;
    (void)snprintf(out->address, sizeof out->address, "unix:%s%.*s", abstract ? "@" : "",
                   (int)path_n, path); /* it fits */
    return true;
}

static bool name_address(int fd, struct inherited_item *out)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        return false;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&at;
    if (at.ss_family == AF_UNIX)
        return name_unix((const struct sockaddr_un *)(const void *)&at, n, out);
    if (at.ss_family != AF_INET && at.ss_family != AF_INET6)
        return false;
    bool six = at.ss_family == AF_INET6;
    out->port = ntohs(six ? v6->sin6_port : v4->sin_port);
    return inet_ntop(at.ss_family, six ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr,
                     out->address, sizeof out->address) != NULL;
}

static bool socket_is(int fd, int option, int wanted)
{
    int is = 0;
    socklen_t n = sizeof is;
    return getsockopt(fd, SOL_SOCKET, option, &is, &n) == 0 && is == wanted;
}

static bool socket_prepare(int fd, bool tcp)
{
    const int on = 1;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
           (!tcp || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
}

static err item_take(struct inherited_item *item, str name, struct err_note *note)
{
    item->what = str_eq(name, STR("admin"))   ? INHERITED_ADMIN
                 : str_eq(name, STR("purge")) ? INHERITED_PURGE
                                              : INHERITED_CONTENT;
    if (!str_to_cstr(name, item->name, sizeof item->name))
        item->name[0] = 0;
    bool fine = socket_is(item->fd, SO_TYPE, SOCK_STREAM) &&
                socket_is(item->fd, SO_ACCEPTCONN, 1) && name_address(item->fd, item) &&
                socket_prepare(item->fd, strncmp(item->address, "unix:", 5) != 0);
    return fine ? ERR_OK
                : err_bad(note, "LISTEN_FDS: descriptor %d is no stream socket that listens",
                          item->fd);
}

err inherit_take(struct inherited *out, struct err_note *note)
{
    const char *text = getenv("LISTEN_FDNAMES");
    str names = str_of(text != NULL ? text : "");
    unsigned count;
    err why = sockets_count(&count, note);
    *out = (struct inherited){ .count = 0 };
    for (unsigned i = 0; why == ERR_OK && i < count; i++) {
        out->items[i].fd = FIRST_FD + (int)i;
        why = item_take(&out->items[i], str_split(&names, ':'), note);
        out->count += why == ERR_OK;
    }
    (void)unsetenv("LISTEN_PID"); /* fails for odd names alone */
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return why;
}
