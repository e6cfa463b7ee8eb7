/* wire.h - an HTTP client that sends exactly the bytes it is told to and reads what comes; for
 * tests. */
#ifndef TEST_HTTP_WIRE_H
#define TEST_HTTP_WIRE_H

#include "base/str.h"

enum {
    WIRE_BYTES_MAX = 4 << 20,
    WIRE_DEADLINE_MS = 50000
}; /* less than the idle timeout of a server */

/* A blocking socket to 127.0.0.1 whose reads and writes give up after WIRE_DEADLINE_MS. Dies on
 * failure. */
int wire_connect(uint16_t port);
/* The same to a unix socket. */
int wire_connect_unix(const char *path);
/* Sends all; false when the peer is gone. */
bool wire_send(int fd, str bytes);

struct wire_answer {
    int status;       /* 0: the connection ended first */
    bool close;       /* Connection: close */
    char head[8192];  /* NUL-terminated */
    char body[65536]; /* cut; NUL-terminated */
    size_t body_n;    /* as received, also what was cut */
};
/* Reads one answer, 1xx too. head_only: answers a HEAD, or a status without body is expected. */
void wire_read(int fd, bool head_only, struct wire_answer *out);
/* Sends and reads one answer on a connection of its own, then checks nothing more. */
void wire_ask(uint16_t port, str request, struct wire_answer *out);
/* True when the peer closed and nothing was left to read. */
bool wire_is_closed(int fd);
/* How many bytes come before the peer closes. */
size_t wire_bytes_left(int fd);
/* Value of a header in out->head, "" when absent; static buffer. */
const char *wire_header(const struct wire_answer *a, const char *name);
int64_t wire_now_ms(void);

#endif
