/* change_impl.h - what the files of this folder share. Private to it.
 *
 * Who holds what: `lock` covers the rules in force, the runners with their windows, and the
 * targets. It is held for moments: no disk, no call. The router, and each run, belong to one
 * thread at a time: the loop's, or that of a job that the loop has started. */
#ifndef CHANGE_CHANGE_IMPL_H
#define CHANGE_CHANGE_IMPL_H

#include "base/log.h"
#include "change/router.h"
#include "change/runner.h"
#include "change/timeline.h"
#include "http/client.h"
#include "queue/queue.h"

enum {
    CHANGE_MAGIC = 0x6c4a9e01,
    CHANGE_DUE_MAX = 256,              /* items that one update wakes */
    CHANGE_PLAIN_CONCURRENCY = 64,     /* of effects that call nobody */
    CHANGE_RUN_BYTES_MAX = 64 << 20,   /* of events that run */
    CHANGE_ARENA_BYTES_MAX = 48 << 20, /* of one run: its event, and requests with it in the body */
    CHANGE_AGAIN_MS = 1000,            /* after the store refused */
    CHANGE_UPDATE_MS = 10 * 1000,      /* until an update of who steers, or looks through, begins */
    CHANGE_SILENT_MS = 60 * 1000,      /* between two lines about what goes on failing */
    CHANGE_FAR_MS = 1000,              /* store_time may be set forward: look again then */
    CHANGE_PAUSE_MS = 1000,            /* of a target, the first; each next one twice as long */
    CHANGE_PAUSE_MS_MAX = 60 * 1000,
};

/* ---- what fails, and is tried again each CHANGE_AGAIN_MS ---- */

/* Of one kind of failure: in the log once, and then once in CHANGE_SILENT_MS at most. */
struct change_failure {
    uint64_t times; /* since the last line */
    mono silent_until;
};

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

/* ---- dead items that step aside (aside.c) ---- */

struct change_aside {
    struct loop_job job;
    struct change_ruled *ruled; /* of the job */
    bool wanted, goes;          /* to be looked for, anew; the job is under way */
    bool moved;                 /* by the job: some did */
    err why;
};

/* ---- rules that are to be taken over ---- */

enum { CHANGE_WANTED_MAX = 8 };
struct change_wanted {
    struct change_ruled *ruled;
    uint64_t until; /* events up to here are for the rules before */
};

/* ---- the whole ---- */

struct change {
    uint32_t magic;
    struct change_opts opts;
    struct http_client *client;
    uint64_t seed;
    pthread_mutex_t lock;
    atomic_uint generations;    /* takings of rules, by the committer */
    _Atomic uint64_t steerings; /* pauses and replays, by the committer */
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
    bool lacking; /* one did not begin because its targets run as many as they take */
    size_t run_bytes;
    struct change_take take; /* under way */
    /* To be taken over, one behind the other: each is asked about the events up to the next. */
    struct change_wanted wanted[CHANGE_WANTED_MAX];
    unsigned wanted_count;
    struct rule_set *later; /* the newest, while there is no place for them; NULL: none */
    bool take_waits;        /* for the router, which is at work */
    atomic_uint reloads;    /* how many were wanted since the start */
    bool taking;            /* the first that is wanted */
    bool ahead;             /* the store has rules that are not in force yet */
    struct loop_job take_job;
    err take_why;
    bool waking; /* an update of due is under way */
    struct change_due due;
    struct change_aside aside;
    struct change_timelines timelines;
    struct change_failure fails_take, fails_router, fails_due, fails_aside;
};
/* When an update that somebody waits for is not to begin any more. */
mono change_update_deadline(const struct change *c);
/* Logs it, if its time has come: event is the line's name. Under the lock. */
void change_failed(struct change *c, struct change_failure *f, const char *event, const char *what,
                   err why);
void change_lock(struct change *c);
void change_unlock(struct change *c);
struct change_ruled *change_ruled_now(struct change *c); /* a reference; any thread */
struct change_runner *change_runner_find(struct change *c, str name);
struct change_runner *change_runner_numbered(struct change *c, uint32_t number);
/* list.c: the number of a rule that is there, or has items. ERR_NOT_FOUND. Waits for the disk. */
MUST_CHECK err change_rule_number(struct change *c, str rule, uint32_t *number,
                                  struct err_note *note);
/* Takes over what is wanted, if that may begin. Loop; under the lock. */
void change_take_begin(struct change *c);
/* The timer goes off then, at the latest. Loop; under the lock. */
void change_arm(struct change *c, mono at);
/* Items are scheduled for then. */
void change_due_at(struct change *c, store_time at);
/* Ends of what is under way. */
void change_busy(struct change *c, int n);
/* due.c: wakes items that are due. Loop; under the lock. */
void change_due_kick(struct change *c);
/* aside.c: dead items that need not hold up others any more are looked for; kick: if that was
 * wanted, and could not begin. Loop; under the lock. */
void change_aside_want(struct change *c);
void change_aside_kick(struct change *c);

#endif
