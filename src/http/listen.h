/* listen.h - where a server listens, and what it shows there. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

struct http_filter;
struct http_transport;

#define HTTP_UNIX "unix:"
enum { HTTP_UNIX_PATH_BYTES_MAX = 107 }; /* without the NUL */
struct http_listen {
    const char *address; /* numeric, "127.0.0.1" or "::1"; or "unix:/PATH" */
    uint16_t port;       /* 0: any free one */
    unsigned mode;       /* of the file of a unix socket */
    int inherited; /* a descriptor that listens there already, from a service manager; 0: none. In a
                      drain nobody is accepted from it any more: who comes waits for the next server
                      that has it */
    const struct http_transport *transport; /* NULL: plain sockets */
    bool admin;                             /* serves admin routes */
    bool content;     /* serves all other routes (health and metrics answer on both) */
    bool purge;       /* serves routes of the method PURGE, which no other does, and those alone */
    const char *name; /* by which people know it; NULL: by what it serves */
    const struct http_filter
        *filter;     /* hides some of that (filter.h); NULL: nothing. Outlives the server */
    unsigned number; /* the server's own: its place among all, below 16 */
    bool plain;      /* the same: content, and nothing of it hidden */
};

/* The path of a unix socket in that address; NULL: it is of TCP. */
const char *http_listen_path(const char *address);

#endif
