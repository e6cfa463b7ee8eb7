/* share_world.h - four nodes, each with flights and connections of its own, on one loop and one
 * real redis-server; and a foreign leader, played by running the scripts by hand. */
#ifndef TEST_SHARE_WORLD_H
#define TEST_SHARE_WORLD_H

#include "../cmocka_all.h"
#include "base/buf.h"
#include "flight/flight.h"
#include "flight/share_scripts.h"
#include "flight/shared.h"
#include "lib/wait.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "redis_server.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES = 4, WAITERS_MAX = 400, KEY_BYTES = 64 };
/* Of tests that are about leases, and of all others: there a loop that stands for a while loses
 * none. */
enum { LEASE_SHORT_MS = 1000, LEASE_MS = 60000 };

struct value {
    struct flight_value v;
    char version[80];
    bool refresh;
    size_t bytes_n;
    char *bytes;
};

/* How makers behave; under the world's lock. */
struct plan {
    err why;      /* ERR_OK: a value */
    size_t bytes; /* of the value; 0: a short text */
    bool hold;    /* do not finish before let_go */
    bool keep_error;
    bool wants_none; /* of what others made: makes its own */
};

struct world;
struct node {
    struct world *world;
    unsigned number;
    struct flight_shared *shared;
    struct flights *flights;
};
struct asked {
    struct flight_waiter waiter;
    struct world *world;
    err why;
    char note[ERR_NOTE_BYTES];
    struct flight_value *value;
};
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct loop *loop;
    struct sysclock *clock;
    int64_t lease_ms;
    struct redis_server server;
    struct redis *foreign; /* the test's own connection */
    struct node nodes[NODES];
    struct plan plan;
    unsigned up, downs, made, held_count, done, replies, dropped, told;
    struct flight *held[WAITERS_MAX];
    char told_text[64], reply[4][128];
    bool posted, was_idle;
    struct asked asked[WAITERS_MAX];
    unsigned asked_count;
};

struct how {
    bool fresh, peek, not_alone;
    double early;
    int64_t fresh_ms, stale_ms, ago_ms; /* ago_ms: with fresh */
};
/* ---- the foreign leader ---- */

struct foreign_call {
    struct world *w;
    enum share_script script;
    const char *key;
    const char *const *args;
};

/* Arguments of JOIN behind its flags, and of PUT behind its jitter: what is believed. */
#define LIMITS "60000", "60000", "60000", "1048576"
#define FOREIGN(w, script, key, ...)                                                               \
    foreign((w), (script), (key), (const char *const[]){ __VA_ARGS__, NULL })

struct sum_wait {
    struct world *w;
    size_t offset;
    uint64_t wanted;
    struct loop_timer *timer;
};
#define WAIT_FOR_SUM(w, field, wanted)                                                             \
    wait_for_sum((w), offsetof(struct flight_shared_stats, field), (wanted))

void lock(struct world *w);
void unlock(struct world *w);
void wait_for(struct world *w, const unsigned *counter, unsigned wanted);
void finish(struct node *n, struct flight *f, unsigned number, struct plan plan);
void ask(struct world *w, unsigned node, const char *key, struct how how);
const struct value *value_of(const struct asked *a);
void all_are(struct world *w, const char *text);
void clear(struct world *w);
void let_go(struct world *w);
void world_begin_leased(struct world *w, const char *const *extra, int64_t lease_ms);
void world_begin(struct world *w, const char *const *extra);
void world_end(struct world *w);
void foreign(struct world *w, enum share_script script, const char *key, const char *const *args);
void foreign_leads(struct world *w, const char *key, char token[128]);
void wait_for_sum(struct world *w, size_t offset, uint64_t wanted);
extern const struct how plain;

#endif
