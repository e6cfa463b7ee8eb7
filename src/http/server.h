/* server.h - the server object and what its parts share. Private to http. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/exchange.h"
#include "http/gone.h"

enum {
    HTTP_LISTENS_MAX = 9,
    HTTP_ADDRESS_BYTES = 64,
};

struct listener {
    struct http_listen opts;
    char address[HTTP_ADDRESS_BYTES];
    int fd;
    uint16_t port;
    struct http_worker **workers;
    unsigned workers_count;
    struct lane *lanes; /* NULL: workers accept; else there is one for each worker */
    unsigned lanes_count;
    atomic_uint handed_count; /* to workers, by lanes; wraps */
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
    struct loop *loop;                        /* may be NULL */
    struct gone *gone;                        /* NULL: no loop */
    atomic_bool draining, refusing, stopping; /* in this order */
    atomic_uint deferred;                     /* suspended and not yet resumed by an answer */
    _Atomic uint64_t ids;                     /* request ids made */
    uint64_t ids_seed;
    pthread_mutex_t conns_lock;
    struct http_conn *conns; /* under conns_lock */
    atomic_uint conns_count;
    _Atomic uint64_t cut; /* by the sweep, ever */
};
#define SERVER_MAGIC 0x05e47e01u

/* conns.c; worker: struct http_worker */
enum MHD_Result conns_accept(void *worker, const struct sockaddr *addr, socklen_t addr_n);
void conns_notify(void *worker, struct MHD_Connection *mhd, void **slot,
                  enum MHD_ConnectionNotificationCode code);
/* A connection of a lane enters the table; NULL: there are connections_max. */
struct http_conn *conns_open(struct listener *l, int fd, const struct sockaddr *addr);
/* Leaves the table and ends; its descriptor is still open, and stays so. */
void conns_close(struct http_conn *c);
/* A worker gets it for good, with what it sent unread. Thread: its lane's. */
void conns_hand(struct http_conn *c, struct http_worker *to);
/* Cuts connections of w that have sent more of a body and of which the library, which had time
 * enough, takes nothing. Thread: w. */
void conns_cut_stuck(struct http_server *s, const struct http_worker *w);
/* Owed is from here on what is in work or being sent now. */
void conns_owe(struct http_server *s);

/* serve.c */
void *serve_line(void *worker, const char *target, struct MHD_Connection *mhd);
enum MHD_Result serve_call(void *worker, struct MHD_Connection *mhd, const char *url,
                           const char *method, const char *version, const char *data,
                           size_t *data_n, void **slot);
void serve_completed(void *worker, struct MHD_Connection *mhd, void **slot,
                     enum MHD_RequestTerminationCode why);

#endif
