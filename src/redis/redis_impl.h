/* redis_impl.h - the client as its files share it. Private to redis.c, hello.c, pending.c.
 *
 *   redis.c     up and down, where it is, messages
 *   hello.c     what each new connection says first
 *   pending.c   commands in flight, and their replies
 * Thread: loop. */
#ifndef REDIS_REDIS_IMPL_H
#define REDIS_REDIS_IMPL_H

#include "base/rng.h"
#include "loop/loop.h"
#include "redis/conn.h"

#include <netdb.h>
#include <stdatomic.h>

enum { REDIS_NUMBER_BYTES = 24, REDIS_RUN_ID_BYTES_MAX = 64 };

enum redis_state {
    REDIS_DOWN,
    REDIS_RESOLVING,
    REDIS_CONNECTING,
    REDIS_UP,
    REDIS_STOPPED,
    REDIS_STATES
};

/* One command in flight. args: of a script, to send it in full when the server does not know it. */
struct redis_pending {
    struct redis_pending *next;
    redis_done_fn *done;
    void *ctx;
    mono deadline;
    int script;   /* its number; -1: none */
    bool in_full; /* EVAL: a second NOSCRIPT is an error */
    unsigned args_count;
    str args[]; /* their bytes behind them */
};

struct redis_lookup { /* getaddrinfo on the pool; outlives a stop */
    struct loop_job job;
    struct redis *owner; /* NULL: nobody waits any more */
    char host[REDIS_HOST_BYTES_MAX + 1], port[8];
    struct addrinfo *found;
    int result;
};

struct redis {
    uint32_t magic;
    struct redis_opts opts;
    char *channels[REDIS_CHANNELS_MAX];
    char *texts[REDIS_SCRIPTS_MAX];
    enum redis_state state;
    atomic_bool up;
    struct rng rng;
    struct loop_timer *retry, *tick, *echo;
    struct redis_lookup *lookup;
    unsigned address; /* of those that a name has, which one is tried */
    struct conn *commands, *messages;
    struct redis_pending *first, **end;
    unsigned pending_count;
    bool ticking;
    unsigned hello_wanted; /* answers to the hello that are still out */
    unsigned subscribed;
    bool subscriber_let_in; /* AUTH on the subscriber, when there is one, was answered */
    char sha[REDIS_SCRIPTS_MAX][REDIS_SHA_BYTES + 1];
    char run_id[REDIS_RUN_ID_BYTES_MAX + 1];
    int64_t retry_ms;
    uint64_t echo_sent, echo_seen;
    bool echo_answered; /* the PUBLISH of the last one is done */
    unsigned echo_late;
    mono down_since, up_since;
    mono refused_at;  /* the last line about refusals */
    uint64_t refused; /* since then */
    struct redis_stats stats;
};
#define REDIS_MAGIC 0x4ed15001u

mono redis_now(const struct redis *r);
/* Whatever is broken: closes both connections, fails all in flight, tries again later. */
void redis_break(struct redis *r, err why, const char *what);
/* Up, if nothing is missing any more. */
void redis_maybe_up(struct redis *r);

/* pending.c. keeps: the arguments may be needed again. */
struct redis_pending *redis_pending_new(struct redis *r, const str *args, unsigned count,
                                        bool keeps);
void redis_pending_push(struct redis *r, struct redis_pending *p);
void redis_pending_finish(struct redis_pending *p, err why, const struct redis_reply *reply,
                          const struct err_note *note);
void redis_pending_reply(void *ctx,
                         const struct redis_reply *reply); /* of the command connection */
void redis_pending_tick(void *ctx);                        /* ends what is overdue */

/* hello.c: connected of the two. */
void redis_hello_commands(void *ctx);
void redis_hello_messages(void *ctx);

#endif
