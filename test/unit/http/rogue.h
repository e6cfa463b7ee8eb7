/* rogue.h - an HTTP server that does to its connections whatever a test says, and a client on a
 * loop to ask it; for tests.
 *
 * Each connection has a thread of its own that runs the test's function on it. A function that
 * waits for the peer ends when rogue_stop shuts its connection. */
#ifndef TEST_HTTP_ROGUE_H
#define TEST_HTTP_ROGUE_H

#include "http/client.h"

enum { ROGUE_CONNECTIONS_MAX = 256, ROGUE_REQUEST_BYTES_MAX = 64 << 10 };
enum { ROGUE_WATCHDOG_MS = 300000, ROGUE_ASK_MS = 120000 };

struct rogue;
/* Plays on fd; nth counts connections from 1. The caller closes fd. */
typedef void rogue_play(struct rogue *r, int fd, unsigned nth);

struct rogue *rogue_start(rogue_play *play, void *ctx);
/* On a unix socket at a path where nothing is; it stays there. */
struct rogue *rogue_start_unix(rogue_play *play, const char *path);
void rogue_stop(struct rogue **rp);
uint16_t rogue_port(const struct rogue *r);
void *rogue_ctx(const struct rogue *r);
unsigned rogue_connections(struct rogue *r);
/* How many requests rogue_read has read, or rogue_count was told of. */
unsigned rogue_requests(struct rogue *r);
void rogue_count(struct rogue *r);

/* One request, with its body when it has a Content-Length; NUL-terminated. False: the peer is
 * gone. */
bool rogue_read(struct rogue *r, int fd, char request[ROGUE_REQUEST_BYTES_MAX]);
/* False: the peer is gone. */
bool rogue_send(int fd, str bytes);
bool rogue_say(int fd, const char *text);
/* Until the peer is gone; reads and forgets. */
void rogue_wait(int fd);
/* Until the peer's kernel has all that was sent, an end with it. */
void rogue_settle(int fd);
/* The next close of fd sends a reset. */
void rogue_reset(int fd);

/* ---- the other side ---- */

struct asker {
    struct loop *loop;
    struct http_client *client;
    unsigned left, finished; /* calls not done yet; done */
};
struct ask {
    struct http_call call;
    struct asker *asker;
    struct arena arena;
    char url[4096];
    err why;
    unsigned dones;
    unsigned order; /* of being done, from 0 */
    void *ctx;      /* the test's */
};

/* opts may be NULL; its loop and clock are filled in. */
void asker_begin(struct asker *a, const struct http_client_opts *opts);
void asker_end(struct asker *a);
/* A GET with room for 1 MiB and ROGUE_ASK_MS; change q->call, then ask_start. */
void ask_begin(struct ask *q, struct asker *a, uint16_t port, const char *path);
void ask_start(struct ask *q);
/* Until every started ask is done. */
void asker_run(struct asker *a);
/* All of it. */
void ask_now(struct ask *q);
void ask_end(struct ask *q);
/* GET path; fails the test when the outcome is another. */
void ask_expect(struct asker *a, uint16_t port, const char *path, err why);

#endif
