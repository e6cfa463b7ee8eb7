/* conn.h - one connection to Redis: connects, writes what it is given, hands over whole replies in
 * order.
 *
 * Knows nothing of what was asked. Ends itself on any error: broken is called once, later no call
 * at all. Private to redis. Thread: loop. */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "redis/redis.h"

#include <sys/socket.h>

enum { CONN_OUT_BYTES_MAX = 64 << 20 };

struct conn;
struct conn_opts {
    struct loop *loop;
    struct sockaddr_storage address;
    socklen_t address_bytes;
    size_t reply_bytes_max;
    void (*connected)(void *ctx);
    void (*reply)(void *ctx, const struct redis_reply *r); /* may close the connection */
    void (*broken)(void *ctx, const char *why);
    void *ctx;
};
/* NULL: it cannot even begin (*why says so). */
struct conn *conn_open(const struct conn_opts *opts, const char **why);
/* Silent. Allowed inside every callback. */
void conn_close(struct conn **cp);
/* ERR_LIMIT: CONN_OUT_BYTES_MAX are not yet sent. */
MUST_CHECK err conn_send(struct conn *c, const str *args, unsigned count);

#endif
