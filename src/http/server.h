/* server.h - the server object and what its parts share. Private to http. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/exchange.h"
#include "http/head.h"

#include <sys/socket.h>
#include <sys/types.h>

enum {
    HTTP_LISTENS_MAX = 9,
    HTTP_ADDRESS_BYTES = 128,
    HTTP_INLINE_BODY_BYTES_MAX = 64
                                 << 10 /* requests with more go to the pool, whatever their row */
};

struct listener {
    struct http_listen opts;
    char address[HTTP_ADDRESS_BYTES];
    int fd;
    uint16_t port;
    bool made; /* the file at its path, which is this one */
    dev_t device;
    ino_t inode;
    struct http_server *server;
};

/* listener.c. Fails: ERR_BAD (no address), ERR_UNAVAILABLE (taken, or not to be had); l can be
 * closed then, too. */
MUST_CHECK err listener_open(struct listener *l, struct http_server *s,
                             const struct http_listen *opts, struct err_note *note);
/* Removes its file, if that is still the one it made. */
void listener_unlink(struct listener *l);
void listener_close(struct listener *l);

struct http_server {
    uint32_t magic;
    struct listener listeners[HTTP_LISTENS_MAX];
    unsigned listeners_count;
    struct http_limits limits; /* defaults filled in */
    struct http_hooks hooks;
    bool restless;
    struct clock *clock;
    struct log *log;
    struct router *router;
    struct http_worker *workers; /* in an array; NULL: not started */
    unsigned workers_count;
    struct loop *loop; /* may be NULL */
    unsigned pool_threads;
    struct crew *crew;              /* NULL: handlers of all routes run on workers */
    struct home *pool, *pool_first; /* the crew's; NULL: as above */
    atomic_bool draining, refusing, stopping, workers_quit; /* in this order */
    atomic_uint deferred; /* and not yet come back to their worker */
    _Atomic uint64_t ids; /* request ids made */
    uint64_t ids_seed;
    pthread_mutex_t conns_lock;
    struct http_conn *conns;          /* under conns_lock */
    atomic_uint conns_count, streams; /* streams: of those that have begun, or are about to */
    _Atomic uint64_t cut;             /* by the sweep, ever */
    struct slow *slow;
};
#define SERVER_MAGIC 0x05e47e01u

/* conns.c. A connection enters the table; NULL: there are connections_max, and fd stays open. */
struct http_conn *conns_open(struct listener *l, int fd, const struct sockaddr *addr);
/* Leaves the table, and its descriptor is closed. */
void conns_close(struct http_conn *c);
/* Owed is from here on what is in work or being sent now. */
void conns_owe(struct http_server *s);

/* serve.c: the steps of a request; thread: its worker. Its head was found wanting: x is answered,
 * and its connection ends with that. */
void serve_refuse(struct http_exchange *x, struct head_fault fault);
/* A ready answer was given, on the head alone. */
bool serve_early(struct http_exchange *x);
/* The head is fine. Afterwards x awaits its body (stage BODY or DROP), or is to be run or, when it
 * has a status, to be answered (RUN). */
void serve_head(struct http_exchange *x);
/* A piece of the body. False: it is refused, and there is too much of it to go on. */
MUST_CHECK bool serve_body_take(struct http_exchange *x, str piece);
/* Where the next bytes of a declared body go, *n at most, more than 0; NULL: it is not collected,
 * or comes in chunks. Then so many came, as serve_body_take has it. */
char *serve_body_room(struct http_exchange *x, size_t *n);
MUST_CHECK bool serve_body_came(struct http_exchange *x, size_t n);
/* The body is framed wrongly, or larger than any may be: x is answered, unless it was. */
void serve_refuse_body(struct http_exchange *x, bool large);
/* All was read. True: x is the pool's from here on, and the worker reads nothing of it before it is
 * told to send. False: x is deferred, or answered. */
MUST_CHECK bool serve_run(struct http_exchange *x);

#endif
