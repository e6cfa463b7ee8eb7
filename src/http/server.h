/* server.h - the server object and what its parts share. Private to http. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/exchange.h"
#include "http/gone.h"

enum {
    HTTP_LISTENS_MAX = 8,
    HTTP_ADDRESS_BYTES = 64,
    HTTP_RESUMED_MAX = 256, /* answers the workers were told to come for at once: others' requests
                               get between them */
    HTTP_HANDED_CHAINS = 64,
    HTTP_RESUMED_LOW =
        16 /* so few left: the next lot is told of; each telling has them look at all that wait */
};

struct listener {
    struct http_listen opts;
    char address[HTTP_ADDRESS_BYTES];
    int fd; /* -1 once the daemon owns it */
    uint16_t port;
    struct MHD_Daemon *daemon; /* NULL: there are lanes, and each has its own */
    struct lane *lanes;
    unsigned lanes_count;
    atomic_uint handed_count;    /* to the library, by lanes; wraps */
    pthread_mutex_t handed_lock; /* of the next */
    /* by descriptor: a lane gave them to the library */
    struct http_conn *handed[HTTP_HANDED_CHAINS];
    struct http_server *server;
};

struct http_server {
    uint32_t magic;
    struct listener listeners[HTTP_LISTENS_MAX];
    unsigned listeners_count;
    struct http_limits limits; /* defaults filled in */
    struct http_hooks hooks;
    bool lanes_restless;
    struct clock *clock;
    struct log *log;
    struct router *router;
    struct loop *loop;                              /* may be NULL */
    struct gone *gone;                              /* NULL: no loop */
    atomic_bool draining, refusing, stopping;       /* in this order */
    atomic_uint deferred;                           /* suspended, and not resumed for a turn */
    pthread_mutex_t pace_lock;                      /* of the next three */
    struct http_exchange *paced_first, *paced_last; /* with tasks, and not yet resumed */
    unsigned resumed;                               /* resumed, and not yet come for */
    _Atomic uint64_t ids;                           /* request ids made */
    uint64_t ids_seed;
    pthread_mutex_t conns_lock;
    struct http_conn *conns; /* under conns_lock */
    atomic_uint conns_count;
};
#define SERVER_MAGIC 0x05e47e01u

/* conns.c */
enum MHD_Result conns_accept(void *listener, const struct sockaddr *addr, socklen_t addr_n);
void conns_notify(void *listener, struct MHD_Connection *mhd, void **slot,
                  enum MHD_ConnectionNotificationCode code);
/* A connection of a lane enters the table; NULL: there are connections_max. */
struct http_conn *conns_open(struct listener *l, int fd, const struct sockaddr *addr);
/* Leaves the table and ends; its descriptor is still open, and stays so. */
void conns_close(struct http_conn *c);
/* The library gets it for good, with what it sent unread. Thread: its lane's. */
void conns_hand(struct listener *l, struct MHD_Daemon *to, struct http_conn *c);
/* Owed is from here on what is in work or being sent now. */
void conns_owe(struct http_server *s);
/* Ends what the library was handed and never told of. Thread: one, after the library was
 * stopped. */
void conns_forget_handed(struct listener *l);

/* server.c */
/* NULL: it does not start. lane: its connections come from there alone. */
struct MHD_Daemon *server_library_start(struct listener *l, unsigned threads, bool lane);

/* serve.c */
void *serve_line(void *listener, const char *target, struct MHD_Connection *mhd);
enum MHD_Result serve_call(void *listener, struct MHD_Connection *mhd, const char *url,
                           const char *method, const char *version, const char *data,
                           size_t *data_n, void **slot);
void serve_completed(void *listener, struct MHD_Connection *mhd, void **slot,
                     enum MHD_RequestTerminationCode why);

#endif
