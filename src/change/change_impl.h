/* change_impl.h - what the files of this folder share. Private to it.
 *
 * Who holds what: `lock` covers the rules in force, the runners with their windows, and the
 * targets. It is held for moments: no disk, no call. The router, and each run, belong to one
 * thread at a time: the loop's, or that of a job that the loop has started. */
#ifndef CHANGE_CHANGE_IMPL_H
#define CHANGE_CHANGE_IMPL_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "change/call.h"
#include "change/items.h"
#include "event/log.h"
#include "http/client.h"
#include "loop/loop.h"
#include "queue/queue.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    CHANGE_MAGIC = 0x6c4a9e01,
    CHANGE_WINDOW = 64,                /* items that a runner has in sight */
    CHANGE_LOOKS_MAX = 4096,           /* rows that one look for items goes over */
    CHANGE_BLOCKED_MAX = 256,          /* lanes of a runner that wait for a target */
    CHANGE_DUE_MAX = 256,              /* items that one update wakes */
    CHANGE_PLAIN_CONCURRENCY = 64,     /* of effects that call nobody */
    CHANGE_RUN_BYTES_MAX = 64 << 20,   /* of events that run */
    CHANGE_ARENA_BYTES_MAX = 48 << 20, /* of one run: its event, and requests with it in the body */
    CHANGE_AGAIN_MS = 1000,            /* after the store refused */
    CHANGE_FAR_MS = 1000,              /* store_time may be set forward: look again then */
    CHANGE_PAUSE_MS = 1000,            /* of a target, the first; each next one twice as long */
    CHANGE_PAUSE_MS_MAX = 60 * 1000,
    CHANGE_PURGE_TTL_S = 24 * 3600, /* of a purge without edge_ttl and claim_ttl */
};

/* ---- rules in force (rules.c) ---- */

struct change_ruled_rule {
    uint32_t number;
    uint64_t from;
};
/* A rule set with what the store knows of each rule. Never changes; counted references. */
struct change_ruled {
    atomic_uint refs;
    struct rule_set *set;
    pthread_mutex_t lock;          /* of events */
    struct rule_event *events[16]; /* not in use */
    unsigned events_count;
    struct change_ruled_rule rules[];
};
/* set: a reference is taken; the rules are filled in by who asks. */
struct change_ruled *change_ruled_new(struct rule_set *set);
struct change_ruled *change_ruled_ref(struct change_ruled *r);
void change_ruled_unref(struct change_ruled **rp); /* NULL is fine */
struct rule_event *change_event_take(struct change_ruled *r);
void change_event_give(struct change_ruled *r, struct rule_event *e);

/* rules.c: what the store knows of each rule of the set, and of all others, in one update. A rule
 * that it does not know begins now; one that it knows and the set lacks is removed. */
struct change_known {
    char name[RULE_NAME_BYTES_MAX + 1];
    struct change_rule_row row;
};
struct change_take {
    struct change_ruled *ruled; /* in: its set. Out: its rules */
    uint64_t last, count;       /* in: of the log, a moment ago: there new rules begin */
    /* out */
    struct change_head head;
    struct change_known *known; /* all that have a row */
    unsigned known_count;
};
/* Waits for the engine. ERR_CORRUPT, ERR_IO, ERR_FULL, ERR_LIMIT. */
MUST_CHECK err change_take_run(struct change *c, struct change_take *t);
void change_take_fini(struct change_take *t);
/* ---- targets (target.c); under the lock ---- */

struct change_target {
    char *name; /* host:port */
    unsigned running;
    uint64_t failed;
    mono paused_until; /* ns 0: it is not */
    int64_t pause_ms;  /* the last one; 0: it answered since */
    bool drained;
    char error[CHANGE_ERROR_BYTES_MAX + 1];
};
/* The one of that name, made if need be. NULL: there are too many. */
struct change_target *change_target_of(struct change *c, str name);
/* May something begin there? Else *until: when to ask again. The first that may after a pause is a
 * probe: others wait for what becomes of it. */
bool change_target_takes(struct change *c, struct change_target *t, mono *until);
void change_target_begin(struct change *c, struct change_target *t);
void change_target_end(struct change *c, struct change_target *t, const struct change_result *r);

/* ---- runners (runner.c) ---- */

enum change_limit_by { CHANGE_BY_TYPE, CHANGE_BY_DOMAIN, CHANGE_BYS };
/* An item that a runner has in sight. */
struct change_candidate {
    uint64_t id, target;
    size_t bytes;
    struct change_digest lane;
    uint64_t keys[CHANGE_BYS];  /* hashes of its type and domain */
    int64_t limits[CHANGE_BYS]; /* 0: none */
};
struct change_blocked {
    struct change_digest lane;
    mono until;
};
struct change_override {
    int64_t concurrency;             /* 0: the rule's */
    int64_t rate_count, rate_per_ns; /* count -1: the rule's */
};
enum { CHANGE_TYPE_OVERRIDES_MAX = 64 };
struct change_type_override {
    char type[CHANGE_TYPE_BYTES_MAX + 1];
    int64_t concurrency;
};
struct change_pick;
/* What is done for one rule; also for one that is gone and has items. */
struct change_runner {
    struct change *change;
    char name[RULE_NAME_BYTES_MAX + 1];
    uint32_t number;
    const struct rule *rule; /* of change->ruled; NULL: it is not in the configuration */
    bool paused;
    uint64_t replay_after, replay_until; /* until 0: it is not replayed */
    struct change_override override;
    struct change_type_override types[CHANGE_TYPE_OVERRIDES_MAX];
    unsigned types_count;
    /* choosing */
    struct change_candidate window[CHANGE_WINDOW];
    unsigned window_count;
    bool more;                 /* there may be ready items that are not in sight */
    bool limited;              /* the last look passed over items for a limit */
    struct change_pick *pick;  /* under way; NULL: none */
    struct change_digest lane; /* the last one that had its turn */
    struct change_blocked blocked[CHANGE_BLOCKED_MAX];
    unsigned blocked_count;
    mono next_begin; /* of its rate */
    mono wake_at;    /* when to try again; INT64_MAX: when something happens */
    unsigned target_turn;
    /* running */
    struct list runs;
    unsigned running;
    struct map *running_by; /* counts by kind and hash */
    /* figures */
    uint64_t matched, collapsed, done, ignored, failed, died, dropped, refused;
    char last_error[CHANGE_ERROR_BYTES_MAX + 1];
    store_time last_error_at;
};
struct change_runner *change_runner_new(struct change *c, str name, uint32_t number);
void change_runner_free(struct change_runner **rp);
/* Begins what may begin now, and looks for more. Loop; under the lock. */
void change_runner_fill(struct change_runner *r);
void change_runner_wake(struct change_runner *r); /* the same; there may be more */
int64_t change_runner_concurrency(const struct change_runner *r);
unsigned change_running_by(const struct change_runner *r, uint64_t key);
void change_running_count(struct change_runner *r, uint64_t key, int by);
void change_lane_block(struct change_runner *r, const struct change_digest *lane, mono until);
bool change_lane_is_blocked(struct change_runner *r, const struct change_digest *lane, mono *until);
void change_runner_error(struct change_runner *r, str text);
void change_crowd_end(struct change *c);
/* A target takes calls again: no lane of any runner waits any more. */
void change_lanes_open(struct change *c);

/* ---- looking for items (pick.c) ---- */

/* What is taken by items that run or are in sight, of one type or domain. */
struct change_taken {
    uint64_t key; /* with the kind in it */
    unsigned count;
};
struct change_pick {
    struct loop_job job;
    struct change *c;
    struct change_runner *runner;
    struct change_ruled *ruled;
    const struct rule *rule;
    uint32_t number;
    unsigned wanted;
    struct change_digest lane;
    uint64_t *known; /* ids that run, or are in sight; sorted */
    unsigned known_count;
    struct change_digest blocked[CHANGE_BLOCKED_MAX]; /* lanes */
    unsigned blocked_count;
    struct change_taken *taken;
    unsigned taken_count, taken_size;
    struct change_type_override types[CHANGE_TYPE_OVERRIDES_MAX];
    unsigned types_count;
    /* out */
    struct change_candidate found[CHANGE_WINDOW];
    unsigned count;
    bool more, limited, failed;
};
/* Starts a look on the pool; what it finds is in sight when it ends. Loop; under the lock. */
void change_pick_start(struct change_runner *r);

/* ---- one item that runs (run.c) ---- */
/* Takes the candidate. target: of a job; NULL: it is found later. Loop; under the lock. */
void change_run_start(struct change_runner *r, const struct change_candidate *c,
                      struct change_target *target, str target_url);
bool change_run_is_of(const struct change_runner *r, uint64_t id);
void change_runs_each(const struct change_runner *r,
                      void (*each)(struct change_pick *p, const struct change_candidate *c),
                      struct change_pick *p);
uint64_t change_target_hash(str target); /* never 0 */

/* ---- the router (router.c, route.c) ---- */

struct change_seen_by { /* by rule, of one batch */
    unsigned matched, collapsed, needless, refused, too_old;
};
struct change_batch {
    struct change_ruled *ruled;
    struct change *change;
    struct rule_event *event;
    struct arena arena;
    struct change_route *routes;
    unsigned count, size;
    bool full; /* no more events are taken */
    struct change_head head;
    /* a replay, of one rule alone: */
    bool is_replay;
    unsigned rule; /* its index */
    uint64_t replay_until;
    struct change_seen_by *by;
};
/* Adds what the rules want done about an event. ERR_LIMIT: no memory. Pool thread. */
MUST_CHECK err change_route_event(struct change_batch *b, const struct event_seen *e, str bytes);

enum change_router_state { ROUTER_IDLE, ROUTER_READING, ROUTER_WRITING };
struct change_router {
    enum change_router_state state;
    bool told; /* there may be more in the log */
    bool turn; /* a replay is next */
    struct loop_job job;
    struct engine_update update;
    struct task task;
    err why;
    bool more;
    mono again_at; /* after a failure; 0: none */
    mono written_at;
    struct change_head head;    /* in memory */
    struct change_head written; /* on disk */
    struct change_batch batch;
    struct change_edit edit;
};
void change_router_open(struct change *c, const struct change_head *head);
void change_router_kick(struct change *c); /* loop; under the lock */
void change_router_close(struct change *c);

/* ---- items that fall due (due.c) ---- */

struct change_woken {
    store_time due;
    uint32_t rule;
    uint64_t id;
};
struct change_due {
    struct engine_update update;
    struct task task;
    err why;
    struct change_edit edit;
    struct change_woken items[CHANGE_DUE_MAX];
    unsigned count;
    store_time next; /* of the first that is not due yet; NEVER: there is none */
};

/* ---- the whole ---- */

struct change {
    uint32_t magic;
    struct change_opts opts;
    struct http_client *client;
    uint64_t seed;
    pthread_mutex_t lock;
    struct change_ruled *ruled; /* never NULL */
    struct change_runner **runners;
    unsigned runners_count;
    struct map *targets;
    struct change_router router;
    struct loop_timer *timer;
    mono armed;
    store_time next_due; /* of scheduled items; NEVER: none that is known */
    bool begun, draining;
    unsigned busy;    /* jobs, updates and runs that are under way */
    unsigned running; /* runs of all runners */
    unsigned crowd_turn;
    bool crowded; /* one did not begin because CHANGE_CONNECTIONS_MAX ran */
    size_t run_bytes;
    struct change_take take; /* under way */
    struct rule_set *wanted; /* to be taken over next; NULL: none */
    bool taking;
    struct loop_job take_job;
    err take_why;
    bool waking; /* an update of due is under way */
    struct change_due due;
};
void change_lock(struct change *c);
void change_unlock(struct change *c);
struct change_ruled *change_ruled_now(struct change *c); /* a reference; any thread */
struct change_runner *change_runner_find(struct change *c, str name);
struct change_runner *change_runner_numbered(struct change *c, uint32_t number);
/* The timer goes off then, at the latest. Loop; under the lock. */
void change_arm(struct change *c, mono at);
/* Items are scheduled for then. */
void change_due_at(struct change *c, store_time at);
/* Ends of what is under way. */
void change_busy(struct change *c, int n);
/* due.c: wakes items that are due. Loop; under the lock. */
void change_due_kick(struct change *c);

#endif
