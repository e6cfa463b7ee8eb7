/* runner.h - targets, the runners of rules, how they choose, and what runs. Private to this folder.
 *
 * A runner has a window of items in sight, begins those that may, and looks for more. All of it is
 * under the lock of struct change, on the loop. */
#ifndef CHANGE_RUNNER_H
#define CHANGE_RUNNER_H

#include "base/list.h"
#include "base/map.h"
#include "change/call.h"
#include "change/rules.h"
#include "change/share.h"
#include "loop/loop.h"

enum {
    CHANGE_WINDOW = 64,        /* items that a runner has in sight */
    CHANGE_LOOKS_MAX = 4096,   /* rows that one look for items goes over */
    CHANGE_BLOCKED_MAX = 256,  /* lanes of a runner that wait for a target */
    CHANGE_LOOK_REST_MS = 100, /* after a look that passed over more lanes of closed targets */
};

/* ---- targets (target.c); under the lock ---- */

struct change_target {
    char *name; /* host:port */
    unsigned running;
    uint64_t failed;
    unsigned pauses;   /* so far: what began before the last one says nothing of it */
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
/* An operator knows that it takes calls: its pause is over. */
void change_target_open(struct change *c, struct change_target *t);
/* All but its name. */
void change_target_tell(struct change *c, const struct change_target *t,
                        struct change_target_status *out);
/* pauses: of the target, as it began. */
void change_target_end(struct change *c, struct change_target *t, unsigned pauses,
                       const struct change_result *r);

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
    const struct change_target *crowded; /* it waits for a place there, if that comes first. Only
                                            compared: the target may be forgotten meanwhile */
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
enum { CHANGE_BARREN_MAX = 64 };
struct change_pick;
/* What is done for one rule; also for one that is gone and has items. */
struct change_runner {
    struct change *change;
    char name[RULE_NAME_BYTES_MAX + 1];
    uint32_t number;
    const struct rule *rule; /* of change->ruled; NULL: it is not in the configuration */
    bool taken;              /* rule was in force before */
    bool paused;
    uint64_t paused_by; /* the steering of which paused is; 0: that of the row */
    unsigned holds;     /* drops under way: what is dropped must not begin meanwhile */
    uint64_t replay_after, replay_until; /* until 0: it is not replayed */
    struct change_override override;
    struct change_type_override types[CHANGE_TYPE_OVERRIDES_MAX];
    unsigned types_count;
    /* choosing */
    struct change_candidate window[CHANGE_WINDOW];
    unsigned window_count;
    unsigned choices;          /* how often what is in sight became wrong */
    unsigned barren;           /* looks in a row that gave nothing, and had not seen all lanes */
    mono rests_until;          /* more lanes wait than it can note */
    bool more;                 /* there may be ready items that are not in sight */
    bool limited;              /* the last look passed over items for a limit */
    struct change_pick *pick;  /* under way; NULL: none */
    struct change_digest lane; /* the last one that had its turn */
    struct change_blocked blocked[CHANGE_BLOCKED_MAX];
    unsigned blocked_count;
    uint64_t closed[RULE_TARGETS_EACH_MAX]; /* of a rule that purges: targets that take nothing */
    unsigned closed_count;
    mono look_after;             /* no look before: the last one was long, and gave little */
    mono next_begin;             /* of its rate */
    mono wake_at;                /* when to try again; INT64_MAX: when something happens */
    struct change_shares shares; /* of its targets, as it has them now */
    /* running */
    struct list runs;
    unsigned running;
    struct map *running_by; /* counts by kind and hash */
    /* figures */
    uint64_t matched, collapsed, done, ignored, failed, died, dropped, refused, looped, sampled,
        expired;
    uint64_t loop_said; /* of looped, in the log */
    mono loop_silent_until;
    char last_error[CHANGE_ERROR_BYTES_MAX + 1];
    store_time last_error_at;
};
struct change_runner *change_runner_new(struct change *c, str name, uint32_t number);
void change_runner_free(struct change_runner **rp);
/* Begins what may begin now, and looks for more. Loop; under the lock. */
void change_runner_fill(struct change_runner *r);
void change_runner_wake(struct change_runner *r); /* the same; there may be more */
int64_t change_runner_concurrency(const struct change_runner *r);
/* Between two that begin, by its rate; 0: it has none. Of a rule that is in force. */
int64_t change_runner_step_ns(const struct change_runner *r);
/* One that began called nobody: the rule's rate has room for another. */
void change_rate_return(struct change_runner *r);
unsigned change_running_by(const struct change_runner *r, uint64_t key);
void change_running_count(struct change_runner *r, uint64_t key, int by);
void change_lane_block(struct change_runner *r, const struct change_digest *lane, mono until);
/* A lane that is blocked waits for a place at that target, too. */
void change_lane_crowd(struct change_runner *r, const struct change_digest *lane,
                       const struct change_target *t);
/* The lane that waits longest for a place there may try; t NULL: anywhere. */
void change_lane_admit(struct change_runner *r, const struct change_target *t);
/* Is that one of them? Items for no target alone have 0. */
bool change_target_is_closed(const uint64_t *closed, unsigned count, uint64_t target);
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
    unsigned wanted, choices;
    struct change_digest lane; /* out: the last one that was looked at */
    uint64_t *known;           /* ids that run, or are in sight; sorted */
    unsigned known_count;
    struct change_digest blocked[CHANGE_BLOCKED_MAX]; /* lanes */
    unsigned blocked_count;
    uint64_t closed[RULE_TARGETS_EACH_MAX];
    unsigned closed_count, closed_lanes; /* out: so many lanes of those were passed over */
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
/* How many of the runs of a rule are at that target now. */
unsigned change_runs_at(const struct change_runner *r, const struct change_target *t);
/* How many of that rule's items may run at once, of what has either of these names (a target has
 * its URL and host:port; others one, twice); 0: no limit. */
int64_t change_limit_of(const struct rule *rule, enum rule_by by, str name, str other);
/* Each that runs, and at which target; NULL: at none, or not yet. */
typedef void change_run_look_fn(void *ctx, uint64_t id, const struct change_target *at);
void change_runs_look(const struct change_runner *r, change_run_look_fn *look, void *ctx);
bool change_run_is_of(const struct change_runner *r, uint64_t id);
/* The ids of what runs: r->running of them. */
void change_runs_ids(const struct change_runner *r, uint64_t *ids);
void change_runs_each(const struct change_runner *r,
                      void (*each)(struct change_pick *p, const struct change_candidate *c),
                      struct change_pick *p);
uint64_t change_target_hash(str target); /* never 0 */

/* ---- for people (why.c); under the lock ---- */
/* The name of each target that a rule has, "host:port"; some may come twice. Of an URL with the
 * domain of the event: those that were called, for the domains that are configured; not all, when
 * they are many. */
typedef void change_named_fn(void *ctx, const char *name);
void change_rule_targets(const struct change *c, const struct rule *r, change_named_fn *named,
                         void *ctx);
/* Why an item that does not run does not, in words. r: of its rule; NULL: there is none. Empty p:
 * the arena is full. */
str change_why(struct change *c, const struct change_runner *r, const struct change_item_row *row,
               struct arena *a);

#endif
