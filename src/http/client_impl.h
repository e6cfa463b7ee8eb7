/* client_impl.h - what the client's parts share. Private to http.
 *
 * client.c       calls: turn, deadline, end
 * client_curl.c  the library: sockets, timer, results
 * client_dns.c   names to addresses, on the pool
 * Everything here lives on the loop thread. */
#ifndef HTTP_CLIENT_IMPL_H
#define HTTP_CLIENT_IMPL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "http/call_url.h"
#include "http/client.h"
#include "http/reply.h"
#include "loop/limiter.h"
#include "loop/loop.h"

#include <curl/curl.h>
#include <stdatomic.h>

enum { CLIENT_HOSTS_MAX = 1024, CLIENT_SOCKETS_MAX = HTTP_CLIENT_CONNECTIONS_MAX };

/*   POSTED -> WAITING -> RESOLVING -> RUNNING -> ENDED      and from each straight to ENDED
 *      \-------------------/        \
 * WAITING: for its turn at the limiter. RESOLVING: for its host's addresses. */
enum transfer_state {
    TRANSFER_POSTED,
    TRANSFER_WAITING,
    TRANSFER_RESOLVING,
    TRANSFER_RUNNING,
    TRANSFER_ENDED,
    TRANSFER_STATES
};

struct transfer {
    uint32_t magic;
    enum transfer_state state;
    uint64_t id;
    struct http_client *client;
    struct http_call *call;
    struct client_host *host;  /* NULL while POSTED */
    struct limiter_pass pass;  /* of a call that brings none */
    struct list resolving;     /* RESOLVING: in the host's */
    struct heap_node deadline; /* not in the heap while POSTED */
    struct call_url url;
    /* RUNNING */
    CURL *easy;
    struct curl_slist *headers, *resolve;
    char *target; /* NUL-terminated copy */
    struct reply reply;
    unsigned sends; /* times the request was about to go out */
    bool safe;      /* may be sent twice */
    bool stale;     /* refused before it was sent: the kept connection was no good */
    bool fresh;     /* on a connection of its own */
    char error[CURL_ERROR_SIZE];
};
#define TRANSFER_MAGIC 0x74a25fe4u

struct resolve_job;
struct client_host {
    struct client_host *prev, *next;
    char key[HTTP_ORIGIN_BYTES_MAX]; /* "host:port" */
    char name[HTTP_HOST_BYTES_MAX + 1];
    bool numeric;
    unsigned transfers;    /* from WAITING on */
    struct list resolving; /* transfers that wait for the addresses */
    char *addresses;       /* "key:address,address"; NULL: not known */
    mono addresses_until;
    struct resolve_job *job; /* NULL: none is under way */
};

/* A socket the library opened: to look into kept ones before they are used again. port: ours; 0
 * until a request went out on it, and then the library tells when it closes it. */
struct client_socket {
    curl_socket_t fd;
    uint16_t port;
};

struct socket_watch;
struct http_client {
    uint32_t magic;
    struct http_client_opts opts;
    CURLM *multi;
    struct loop_timer *curl_timer; /* the library's */
    struct loop_timer *deadline_timer;
    struct heap deadlines;
    struct map *live; /* id -> struct transfer */
    struct map *hosts_by_key;
    struct client_host *hosts;
    struct limiter *limiter;
    _Atomic uint64_t ids;
    bool stopped;
    struct socket_watch *watches, *acting;
    struct client_socket sockets[CLIENT_SOCKETS_MAX];
    unsigned sockets_count;
};
#define CLIENT_MAGIC 0x0c11e270u

/* client.c. Ends it: done is called, t is gone. */
void transfer_end(struct transfer *t, err why);
/* The answer about the addresses. fault: why there are none; NULL: they are known. */
void host_resolved(struct client_host *h, const char *fault);

/* client_curl.c */
void client_curl_open(struct http_client *c);
void client_curl_close(struct http_client *c);
void transfer_run(struct transfer *t);  /* hands it to the library */
void transfer_halt(struct transfer *t); /* takes it back */

/* client_dns.c. True: the host's addresses are known now. Else they are being asked for, and
 * host_resolved follows. */
bool host_resolve(struct http_client *c, struct client_host *h);
void host_resolve_forget(struct client_host *h); /* the client ends before the answer */

#endif
