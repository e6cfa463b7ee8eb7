/* queue_call.h - what the handlers of queues share: finding the queue, who may, timeouts, waiting.
 * Private to queue*.c.
 *
 * Model. A call names a queue. It is found, then the caller is asked for its permission in the
 * queue's namespace, then the partition and the words of the request are looked at, in the order
 * that Querator's tests pin. A call that waits (for a commit, an item, a blocking job) sleeps and
 * ends in queue_call_end or queue_call_reply, exactly once. A struct of a handler begins with
 * struct queue_call and lives in the arena of its exchange. */
#ifndef APP_QUEUE_QUEUE_CALL_H
#define APP_QUEUE_QUEUE_CALL_H

#include "app/rpc.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "queue/later.h"
#include "queue/queue.h"

enum {
    QUEUE_BODY_SMALL_BYTES_MAX = 8 << 10, /* lease, stats, clear, reload */
    QUEUE_BODY_BYTES_MAX = 256000,
    QUEUE_BODY_UPDATE_BYTES_MAX = 512000,
    QUEUE_BODY_PRODUCE_BYTES_MAX = 5000000,
    QUEUE_BODY_IMPORT_BYTES_MAX = 64000000,
    QUEUE_LIST_DEFAULT = 1000, /* limit 0 */
    QUEUE_LIST_MAX = 65536,
    QUEUE_READ_MS_MAX = 2000, /* how long a call waits for partitions to be read after a start */
    /* Calls that run beside each other: so many of those that need one store, for each store, of
     * those that need several, and of requeues; one that changes the catalogue. So a store that
     * does not answer holds its own calls and those of several stores, and no call that needs
     * another store alone waits for it. A thread of the pool is held by requeues and changes, and
     * by the others while they read a disk of this machine. */
    QUEUE_TURNS = 2,
    QUEUE_TURN_MS_MAX = 120000, /* how long the rest wait, first come first within a share */
};

struct queue_call {
    struct http_exchange *x;
    struct app *app;
    struct queue *queue, *other; /* NULL: none; given back at the end */
    struct queue_info info;      /* of queue, in the arena */
    struct err_note note;
    err why;
    bool audited;             /* its end is logged: who did what to which queue */
    str name;                 /* of the queue, for the log */
    uint32_t awaited;         /* the partition to be read first, or QUEUE_PARTS_ALL */
    bool in_turn, waits;      /* it has a pass; for its turn. The loop's */
    struct loop_timer *timer; /* while it waits for awaited; the loop's */
    mono read_deadline;
    struct limiter_pass pass;
    struct queue_later later; /* handed to calls of queues by run */
    bool began, told;         /* told: later.why has what the one that run made came to */
    /* Pool thread; sets note. ERR_AGAIN: it made a call that is answered later, and is called again
     * then; it touches c no more. */
    err (*run)(struct queue_call *c);
    void (*answer)(struct queue_call *c); /* loop thread, when why is ERR_OK */
};

/* A new call, in a struct of this size. NULL: answered. */
MUST_CHECK void *queue_call_new(struct http_exchange *x, void *app, size_t size);
/* Finds the queue and asks for the permission there. False: answered. */
MUST_CHECK bool queue_call_find(struct queue_call *c, ProtobufCBinaryData name,
                                const char *permission);
/* The same of another queue, whose name is as it came, into q and info; q is given back by the
 * caller. */
MUST_CHECK bool queue_call_may(struct queue_call *c, str name, const char *permission,
                               struct queue **q, struct queue_info *info);
/* Is it one of the queue's? False: answered. */
MUST_CHECK bool queue_call_partition(struct queue_call *c, int32_t partition);
/* A Go duration; empty is 0. False: answered. examples: "900ms, 5m or 15m"; what: "request
 * timeout". */
MUST_CHECK bool queue_call_duration(struct queue_call *c, const char *what, const char *examples,
                                    ProtobufCBinaryData text, int64_t *ns);
/* The request_timeout alone. */
MUST_CHECK bool queue_call_timeout(struct queue_call *c, ProtobufCBinaryData text, int64_t *ns);
mono queue_call_deadline(const struct queue_call *c, int64_t timeout_ns);
/* How many a list may have. False: answered. */
MUST_CHECK bool queue_call_limit(struct queue_call *c, int32_t limit, unsigned *out);
/* Memory of the request, zeroed. NULL: answered. */
MUST_CHECK void *queue_call_memory(struct queue_call *c, size_t count, size_t size);

/* Whose turn it is (QUEUE_TURNS). Dies when out of memory. */
struct limiter *queue_turns_new(struct loop *loop, struct clock *clock);
/* Puts the exchange to sleep, runs on the pool, then answers or ends with c->why. */
void queue_call_job(struct queue_call *c, err (*run)(struct queue_call *c),
                    void (*answer)(struct queue_call *c));
/* The same in its turn (QUEUE_TURNS), and first until what it looks at was read. A client that
 * leaves before its turn is forgotten. part_job: asks the store of that partition of queue, or
 * QUEUE_PARTS_ALL: of all. */
void queue_call_part_job(struct queue_call *c, uint32_t partition, err (*run)(struct queue_call *c),
                         void (*answer)(struct queue_call *c));
/* requeue_job: from queue to other; blocks. */
void queue_call_requeue_job(struct queue_call *c, err (*run)(struct queue_call *c),
                            void (*answer)(struct queue_call *c));
/* change_job: changes the catalogue; blocks. */
void queue_call_change_job(struct queue_call *c, err (*run)(struct queue_call *c),
                           void (*answer)(struct queue_call *c));
/* memory_job: asks no store, once all was read. */
void queue_call_memory_job(struct queue_call *c, err (*run)(struct queue_call *c),
                           void (*answer)(struct queue_call *c));
/* As queue_call_job when it sleeps already. */
void queue_call_pool(struct queue_call *c, err (*run)(struct queue_call *c),
                     void (*answer)(struct queue_call *c));
/* Gives the queue back and answers: ERR_OK is 200. */
void queue_call_end(struct queue_call *c, err why, const struct err_note *note);
void queue_call_refuse(struct queue_call *c, const char *format, ...) PRINTF_LIKE(2, 3); /* 400 */
void queue_call_reply(struct queue_call *c, const ProtobufCMessage *m);
void queue_call_send(struct queue_call *c, str body); /* of rpc_encode */

#endif
