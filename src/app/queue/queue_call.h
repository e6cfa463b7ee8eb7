/* queue_call.h - what the calls of queues share: a row for each, and one way through all of them.
 * Private to queue*.c.
 *
 * Model. A call names a queue. Its message is read, the queue is found, the caller is asked for its
 * permission in the queue's namespace; then the partition, the timeout, the limit and the words of
 * its own are checked, in the order that Querator's tests pin. Then it starts, or runs in its turn
 * (queue/turn.h) and answers with a reply. It ends in queue_call_end, exactly once. It lives in the
 * arena of its exchange. */
#ifndef APP_QUEUE_QUEUE_CALL_H
#define APP_QUEUE_QUEUE_CALL_H

#include "app/rpc.h"
#include "queue/admin.h"
#include "queue/turn.h"

enum {
    QUEUE_LIST_DEFAULT = 1000, /* limit 0 */
    QUEUE_LIST_MAX = 65536,
};

struct queue_call;
/* The row of a call: http_route's. */
struct queue_kind {
    const ProtobufCMessageDescriptor *type; /* of the request */
    /* Asked for where its queue_name is. NULL: check does that, and all that follows here. */
    const char *permission;
    const char *asks; /* what check asks for where permission is NULL */
    bool audited;     /* its end is logged: who did what to which queue */
    bool partition;   /* its partition is one of the queue's; else it is about all of them */
    bool timeout;     /* it has a request_timeout */
    unsigned limit;   /* it has a limit, and 0 means so many; 0: it has none */
    unsigned memory;  /* so much more than its body may it take; 0: what all may */
    unsigned arg;     /* which of those that share these functions */
    bool (*check)(struct queue_call *c); /* the words of its own; NULL: none. False: answered */
    /* One of: it is ended by whoever it is handed to; or it runs in the share, on the pool, and
     * replies, on the pool as well (NULL: that it is done). */
    void (*start)(struct queue_call *c);
    enum queue_share share;
    err (*run)(struct queue_call *c);
    err (*reply)(struct queue_call *c);
};

enum queue_reply { REPLY_OK, REPLY_BODY, REPLY_TOO_LARGE };
struct queue_call {
    struct http_exchange *x;
    struct app *app;
    const struct queue_kind *kind;
    const void *m;               /* the request, of kind->type */
    struct queue *queue, *other; /* NULL: none; given back at the end */
    struct queue_info info;      /* of queue, in the arena */
    str name;                    /* of the queue, for the log */
    bool audited;                /* from here on */
    uint32_t partition;          /* or QUEUE_PARTS_ALL */
    int64_t timeout_ns;
    unsigned limit;
    struct queue_turn turn; /* its later is for run */
    struct err_note note;
    enum queue_reply reply;
    str body; /* of the reply */
    union {   /* told apart by kind */
        struct queue_produce produce;
        struct queue_lease_request lease;
        struct queue_change change;
        struct queue_info wanted;
        struct queues_page queues;
        struct queue_items_page items;
        struct queue_stats stats;
        struct queue_import import;
        struct queue_deletion deletion;
        struct queue_part_change part;
        bool unnamed; /* delete: only when no other names it as its dead queue */
        unsigned moved;
        str lines;
    } u;
};

/* The handler of all routes that have a queue_kind. */
void queue_call_handle(struct http_exchange *x, void *app);

/* ---- checks. False: answered ---- */

/* Finds the queue and asks for the permission there. */
MUST_CHECK bool queue_call_find(struct queue_call *c, const char *permission);
/* The same of another queue, which becomes c->other. */
MUST_CHECK bool queue_call_find_other(struct queue_call *c, str name, const char *permission);
/* A Go duration; empty is 0. examples: "900ms, 5m or 15m"; what: "request timeout". */
MUST_CHECK bool queue_call_duration(struct queue_call *c, const char *what, const char *examples,
                                    ProtobufCBinaryData text, int64_t *ns);
/* How many a list may have; 0 means initial. */
MUST_CHECK bool queue_call_limit(struct queue_call *c, int32_t limit, unsigned initial);
/* Is it ERR_OK? Else it ends the call with its note. */
MUST_CHECK bool queue_call_ok(struct queue_call *c, err why);
/* Refuses with the words of the first that is wrong. */
struct queue_refusal {
    bool wrong;
    const char *words;
};
MUST_CHECK bool queue_call_check(struct queue_call *c, const struct queue_refusal *rows,
                                 size_t count);
/* 400. Is false. */
bool queue_call_refuse(struct queue_call *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Memory of the request, zeroed. NULL: answered. */
MUST_CHECK void *queue_call_memory(struct queue_call *c, size_t count, size_t size);

/* ---- its end ---- */

mono queue_call_deadline(const struct queue_call *c);
/* Hands it to the pool; x is deferred. write: NULL, or makes the reply when run came to ERR_OK. */
void queue_call_go(struct queue_call *c, enum queue_share share, err (*run)(struct queue_turn *t),
                   err (*write)(struct queue_turn *t));
/* Encodes the reply. Is ERR_OK also when it is too large: then that is what the client hears. */
err queue_call_encode(struct queue_call *c, const ProtobufCMessage *m);
/* Gives the queues back and answers: ERR_OK with the reply. */
void queue_call_end(struct queue_call *c, err why, const struct err_note *note);

#endif
