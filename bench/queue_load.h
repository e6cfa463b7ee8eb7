/* queue_load.h - what the load generator for queues and its wires share.
 *
 * A wire is a protocol as one connection speaks it: it appends bytes for an operation to out and
 * reads the answer from in. One operation is in the air on a connection at a time; it may be of
 * many items. */
#ifndef BENCH_QUEUE_LOAD_H
#define BENCH_QUEUE_LOAD_H

#include "base/buf.h"
#include "base/check.h"
#include "base/str.h"

enum { LOAD_ITEMS_MAX = 1000, LOAD_BUFFER_BYTES_MAX = 64 << 20, LOAD_NAME_BYTES = 64 };

enum load_reply {
    REPLY_MORE, /* not all of it has come */
    REPLY_DONE,
    REPLY_EMPTY,   /* of take: there was nothing */
    REPLY_REFUSED, /* an error of the server; the connection goes on */
    REPLY_BROKEN,  /* nothing more can be read */
};
enum load_op { OP_HELLO, OP_PRODUCE, OP_TAKE, OP_FINISH, LOAD_OPS };

struct load_opts {
    const char *queue, *timeout; /* HTTP: request_timeout of takes */
    size_t item_bytes;
    const char *payload;    /* item_bytes of them */
    bool json, accept_json; /* HTTP: encoding of bodies; answers wanted in JSON */
    const char *key;        /* HTTP: bearer key, or NULL */
};

struct load_conn {
    const struct load_opts *opts;
    int fd;
    unsigned number;
    struct buf out, in, scratch;
    size_t out_at;
    unsigned step; /* of the greeting */
    enum load_op op;
    unsigned wanted, seen, taken;
    struct buf handles; /* of what was taken, as the wire likes; taken of them */
    uint64_t tag, tags; /* AMQP: confirmed, published; of the last delivery */
    uint32_t partition; /* HTTP: of what was taken */
};

struct load_wire {
    const char *name;
    uint16_t port; /* when none is given */
    /* Appends what to say at step 0, 1, ... of the greeting; reply reads the answer with op
     * OP_HELLO and says REPLY_DONE when the connection is ready. NULL: it is at once. */
    void (*hello)(struct load_conn *c);
    void (*produce)(struct load_conn *c, unsigned items);
    void (*take)(struct load_conn *c, unsigned items);
    void (*finish)(struct load_conn *c);
    /* Reads from in and drops what it has read (load_drop). */
    enum load_reply (*reply)(struct load_conn *c);
};

extern const struct load_wire load_http, load_events, load_beanstalk, load_redis, load_nats,
    load_amqp;

/* Forgets the first n bytes of in. */
void load_drop(struct load_conn *c, size_t n);
static inline str load_in(const struct load_conn *c)
{
    return buf_str(&c->in);
}
/* The first line of s without its CR LF; false: it is not whole. *n: bytes with them. */
bool load_line(str s, str *line, size_t *n);
/* Says an error once in a while. */
void load_complain(const struct load_conn *c, str what);

#endif
