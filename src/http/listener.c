/* listener.c - sockets that listen: on an address of TCP, or on a file (unix:/PATH).
 *
 * Invariants
 *  1. A file is replaced only when it is a socket where nobody listens.
 *  2. Servers that begin at once on one path take turns (a lock on its folder): so what one has
 *     bound, and not listened on yet, is nothing stale to another. A lock that is held longer is
 *     none of theirs: who may read the folder could keep us out for ever, so it is not waited for.
 *  3. The file has its mode from its first moment, and nothing is done to it by its path but to
 * look and to remove it: who may write the folder could put a link to another file there.
 *  4. What a service manager gave stays open there: here its descriptor is closed, and no more.
 *  5. A file is removed only while it is the one that was made here. */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HTTP_BACKLOG = 4096, FOLDER_LOOKS_MAX = 1000 /* a millisecond each */ };
_Static_assert(sizeof HTTP_UNIX - 1 + HTTP_UNIX_PATH_BYTES_MAX < HTTP_ADDRESS_BYTES, "it fits");
_Static_assert(sizeof((struct sockaddr_un *)NULL)->sun_path == HTTP_UNIX_PATH_BYTES_MAX + 1,
               "with a NUL");

const char *http_listen_path(const char *address)
{
    size_t n = sizeof HTTP_UNIX - 1;
    return strncmp(address, HTTP_UNIX, n) == 0 ? address + n : NULL;
}

/* ---- TCP ---- */

static bool tcp_parse(const struct http_listen *l, struct sockaddr_storage *out, socklen_t *out_n)
{
    memset(out, 0, sizeof *out);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    if (inet_pton(AF_INET, l->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(l->port);
        *out_n = sizeof *v4;
        return true;
    }
    if (inet_pton(AF_INET6, l->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(l->port);
        *out_n = sizeof *v6;
        return true;
    }
    return false;
}

/* The address is taken when both are listening, which the kernel says at bind or at listen. */
static bool tcp_listen(struct listener *l, const struct sockaddr_storage *addr, socklen_t addr_n)
{
    const int on = 1;
    l->fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return false;
    bool fine = setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ==
                    0; /* connections inherit it */
    if (fine && addr->ss_family == AF_INET6)
        fine = setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0;
    struct sockaddr_storage bound;
    socklen_t bound_n = sizeof bound;
    fine = fine && bind(l->fd, (const struct sockaddr *)addr, addr_n) == 0 &&
           listen(l->fd, HTTP_BACKLOG) == 0 &&
           getsockname(l->fd, (struct sockaddr *)&bound, &bound_n) == 0;
    if (!fine)
        return false;
    l->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    return true;
}

/* ---- unix ---- */

/* A descriptor that holds the lock until it is closed, or waited for it long enough; -1: errno says
 * why not. */
static int folder_lock(const char *path)
{
    const struct timespec tick = { .tv_nsec = NS_PER_MS };
    char folder[HTTP_ADDRESS_BYTES];
    size_t n = (size_t)(strrchr(path, '/') - path);
    memcpy(folder, path, n + 1);
    folder[n > 0 ? n : 1] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; fd >= 0 && i < FOLDER_LOOKS_MAX && flock(fd, LOCK_EX | LOCK_NB) != 0;
         i++) {
        if (errno != EWOULDBLOCK) {
            int why = errno;
            close(fd);
            errno = why;
            return -1;
        }
        nanosleep(&tick, NULL);
    }
    return fd;
}

/* 0: nobody listens there. Else an errno; EADDRINUSE: somebody does. */
static int unix_probe(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int why = connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0 ? EADDRINUSE : errno;
    close(fd);
    return why == ECONNREFUSED ? 0 : why == EAGAIN ? EADDRINUSE : why;
}

/* Nothing is at the path any more, or errno says why not. */
static bool unix_clear(const struct sockaddr_un *addr)
{
    struct stat is;
    if (lstat(addr->sun_path, &is) != 0)
        return errno == ENOENT;
    errno = S_ISSOCK(is.st_mode) ? unix_probe(addr) : EEXIST;
    return errno == 0 && unlink(addr->sun_path) == 0;
}

/* The kernel makes the file with the mode of the socket, less what umask takes. That is the
 * process's: so it is none for this one call. All else that the server makes names modes that umask
 * takes nothing from (0600, 0700). */
static bool unix_make(const struct listener *l, const struct sockaddr_un *addr)
{
    if (fchmod(l->fd, l->opts.mode) != 0)
        return false;
    mode_t before = umask(0);
    bool made = bind(l->fd, (const struct sockaddr *)addr, sizeof *addr) == 0;
    int why = errno;
    (void)umask(before); /* it never fails */
    errno = why;
    return made;
}

static bool unix_bind(struct listener *l, const struct sockaddr_un *addr)
{
    struct stat made;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || !unix_make(l, addr))
        return false;
    if (lstat(addr->sun_path, &made) != 0)
        return false;
    if (!S_ISSOCK(made.st_mode)) {
        errno = EEXIST; /* somebody was quicker: it is theirs */
        return false;
    }
    l->made = true;
    l->device = made.st_dev;
    l->inode = made.st_ino;
    return listen(l->fd, HTTP_BACKLOG) == 0;
}

/* False: errno says why. */
static bool unix_listen(struct listener *l, const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    if (!str_to_cstr(str_of(path), addr.sun_path, sizeof addr.sun_path) || path[0] != '/') {
        errno = ENAMETOOLONG;
        return false;
    }
    int lock = folder_lock(path);
    if (lock < 0)
        return false;
    bool fine = unix_clear(&addr) && unix_bind(l, &addr);
    int why = errno;
    close(lock);
    errno = why;
    return fine;
}

/* ---- both ---- */

err listener_open(struct listener *l, struct http_server *s, const struct http_listen *opts,
                  struct err_note *note)
{
    struct sockaddr_storage addr;
    socklen_t addr_n = 0;
    *l = (struct listener){ .opts = *opts, .fd = -1, .server = s };
    bool fits = str_to_cstr(str_of(opts->address), l->address, sizeof l->address);
    const char *path = http_listen_path(opts->address);
    if (!fits || (path == NULL && opts->inherited == 0 && !tcp_parse(opts, &addr, &addr_n)))
        return err_bad(note, "\"%s\" is not a numeric address", opts->address);
    l->opts.address = l->address;
    if (opts->inherited > 0) {
        l->fd = opts->inherited;
        l->port = opts->port;
        return ERR_OK;
    }
    if (path != NULL ? unix_listen(l, path) : tcp_listen(l, &addr, addr_n))
        return ERR_OK;
    if (path == NULL)
        err_note_set(note, "cannot listen on %s port %u: %s", opts->address, opts->port,
                     strerror(errno));
    else
        err_note_set(note, "cannot listen on %s: %s", opts->address,
                     errno == EEXIST ? "the file is there, and no socket" : strerror(errno));
    return ERR_UNAVAILABLE;
}

void listener_unlink(struct listener *l)
{
    struct stat is;
    if (!l->made)
        return;
    l->made = false;
    const char *path = http_listen_path(l->address);
    if (lstat(path, &is) == 0 && is.st_dev == l->device && is.st_ino == l->inode)
        (void)unlink(path); /* else the next start finds it stale */
}

void listener_close(struct listener *l)
{
    listener_unlink(l);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
