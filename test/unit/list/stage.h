/* stage.h - one or two servers' lists on one loop, in front of a generator over HTTP that answers
 * what the test says and can be held, with a clock that the test moves on; for tests.
 *
 * Buckets: related, with room for any delay; brief, which is never stale; hasty, whose generator
 * has 50 ms; uneven, of which the second server takes one item, the first three; pinned, whose
 * displays keep their list for an hour, two of them in Redis, and which is fresh for 20 ms. */
#ifndef TEST_LIST_STAGE_H
#define TEST_LIST_STAGE_H

#include "lib/wait.h"
#include "list/list.h"
#include "redis_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    NODES = 2,
    ASKED_MAX = 64,
    PASS_MAX = 16,
    TTL_MS = 3600000,
    STALE_MS = 7200000,
    BRIEF_MS = 20,
    DISPLAY_MS = 3600000,
    DISPLAYS_MAX = 2
};
#define FOREVER_MS ((int64_t)1000 * 3600 * 1000)

struct shifted {
    struct clock clock;
    struct clock *real;
    _Atomic int64_t ns;
};

struct world;
struct asked {
    struct list_request r;
    struct world *world;
    bool done;
    err why;
    struct err_note note;
    struct list_value *value; /* a reference */
};
struct node {
    struct world *world;
    struct flights *flights;
    struct flight_shared *shared;
    struct lists *lists;
};
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct loop *loop;
    struct sysclock *sysclock;
    struct shifted clock;
    struct http_client *client;
    struct rogue *generator;
    struct redis_server redis;
    FILE *log_file;
    struct log *log; /* of all servers */
    bool has_redis, was_idle;
    unsigned nodes_count;
    struct node nodes[NODES];
    /* under the lock */
    unsigned ups, calls;
    bool hold, stopping, cut;
    bool pass[PASS_MAX]; /* the call of that number, though hold is set */
    int status;
    const char *body;   /* NULL: three items that hold the number of the call */
    char request[4096]; /* the last */
    struct asked asked[ASKED_MAX];
    unsigned asked_count;
};

/* flights_max 0: the default. One world at a time. */
void stage_begin(struct world *w, unsigned nodes, bool has_redis, unsigned flights_max);
void stage_end(struct world *w);
void stage_advance(struct world *w, int64_t ms);

/* ---- the generator ---- */
void stage_hold(struct world *w, bool hold);
/* This call is answered, though others are held. */
void stage_pass(struct world *w, unsigned call);
/* body NULL: three items that hold the number of the call. */
void stage_say(struct world *w, int status, const char *body);
/* It ends the connection instead of answering. */
void stage_cut(struct world *w, bool cut);
unsigned stage_calls(struct world *w);
void stage_wait_idle(struct world *w); /* until no flight is in the air */
void stage_wait_calls(struct world *w, unsigned wanted);

/* ---- asking ---- */
struct wish {
    bool no_cache, only_cached;
    int64_t wait_ms;
    const char *bucket, *want;
};
/* A request that was not made yet. */
struct asked *stage_asked(struct world *w, unsigned node, const char *display, struct wish wish);
/* As the server does: from here, else by a flight. */
struct asked *stage_ask(struct world *w, unsigned node, const char *display, struct wish wish);
struct asked *stage_wait(struct asked *a);
/* Both, of bucket related. */
struct asked *stage_get(struct world *w, unsigned node, const char *display);
/* The number of the generator's call that it is of. */
unsigned stage_call_of(const struct asked *a);
/* Gets until it is of that call; the answers before must be of the one before. */
void stage_get_until(struct world *w, unsigned node, const char *display, unsigned call);
void stage_drop(struct world *w, unsigned node, const char *display);
/* All that was asked is done and no longer needed. */
void stage_forget(struct world *w);
/* Lines of the log with this event. */
unsigned stage_told(struct world *w, const char *event);
struct lists_stats stage_stats(struct world *w, unsigned node);
/* One command to the Redis; the beginning of its reply, until the next call. Fails on an error
 * reply. */
const char *stage_redis(struct world *w, const char *command);
/* Times a server has come to have Redis, over all. */
void stage_wait_ups(struct world *w, unsigned wanted);

#endif
