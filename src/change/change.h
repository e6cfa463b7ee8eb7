/* change.h - carries changes onward: has the rules' effects done for the events of the log.
 *
 * Model. A rule (rule/rule.h) says which events it wants and what is done about each: that is its
 * effect. What one rule has to do about one event is an *item*. A rule that collapses has one item
 * for each title (or sha1), for the newest event of it.
 *   The *router* follows the event log. It asks each rule about each event, and writes the items
 * and how far it has read in one update of the engine. So no event is lost or routed twice,
 * whatever is killed. A *runner* for each rule takes items that are ready, has their effect done,
 * and deletes them when it is done. What was running when the server was killed is done again: at
 * least once, and in the order of the events of a title.
 *   Items are rows of the engine. They take no memory while they wait (docs/adr/0040).
 *
 *   READY ---> running ---> deleted       done
 *     ^           |-------> SCHEDULED     failed: until its backoff is over, or its delay
 *     |           |-------> DEAD          failed as often as the rule allows
 *     |           \-------> READY         its target asked to be left alone: costs no attempt
 *   WAITING: an earlier item of the same title is not done yet
 *
 *   Items lie in lanes: one for each domain, of jobs for each domain and type, of purges for each
 * target. Lanes take turns, so a domain with a million items holds up nobody but itself.
 *   An item runs by the rule of its name as that stands then. If that does not want the event any
 * more, the item is dropped, and counted.
 *   A rule that is new starts with the events that come after it. One that was taken out of the
 * configuration is asked about all events that came before that, and leaves its items; they wait
 * until the rule is there again, or change_drop.
 * Thread: as said. */
#ifndef CHANGE_CHANGE_H
#define CHANGE_CHANGE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"
#include "rule/rule.h"

struct change;
struct clock;
struct engine;
struct event_log;
struct log;
struct loop;
struct page_service;
struct queues;
struct rule_page; /* rule/edge.h */
struct timeline_remote;

enum {
    CHANGE_TARGETS_MAX = RULE_TARGETS_MAX, /* one event makes at most as many items */
    CHANGE_CONNECTIONS_MAX = 1024,         /* to targets, kept and running */
    CHANGE_LIST_MAX = 1000,                /* items in one page of a listing */
    CHANGE_ERROR_BYTES_MAX = 160,          /* of what is kept of why an item failed */
    CHANGE_HOPS_MAX = 15,        /* effects http and produce that follow from one another */
    CHANGE_DRY_MAX = 100 * 1000, /* events that a dry run looks at */
};

struct change_opts {
    struct engine *engine; /* that of the log */
    struct event_log *events;
    struct clock *clock;
    struct loop *loop;
    struct log *log;
    const struct page_service *page;   /* effect look; its domains are those that rules may call */
    struct queues *const *queues;      /* effect produce; what it points to is set later */
    struct timeline_remote *timelines; /* that in Redis; NULL: there is none, and its rule waits */
    struct rule_set *rules;            /* NULL: none. A reference is taken */
    uint64_t seed;                     /* of hashes */
    /* Other rules are in force now, by change_rules_take; or by change_pause or change_limit
     * change_edge_ttl_s may say something else. On the loop; NULL is fine */
    void (*took)(void *ctx);
    void *ctx;
};
/* Takes the rules over, as change_rules_take. Waits for the engine. Before loop_run. ERR_CORRUPT,
 * ERR_IO, ERR_FULL. Owner: caller. */
MUST_CHECK err change_new(const struct change_opts *opts, struct change **out,
                          struct err_note *note);
/* Begins to route and to run. Thread: the loop's, or before it runs. */
void change_start(struct change *c);
/* Nothing new is begun; calls that are running get until the drain's end. Thread: the loop's. */
void change_drain(struct change *c);
/* After change_drain: nothing of it runs any more. Thread: the loop's. */
bool change_idle(struct change *c);
/* After change_drain, when it is idle or was never begun: the loop runs no more but is there. Who
 * steers still may: what that posts to the loop runs in loop_free, and begins nothing. */
void change_stop(struct change *c);
/* After change_stop and loop_free: nobody asks or steers any more. NULL is fine. */
void change_free(struct change **cp);

/* Other rules for events from now on; NULL: none. They are in force when those before were asked
 * about all that came before. Rules that wait for that are taken over in their order, and none is
 * left out: change_takes_job may have answered by them. Eight may wait. The newest beyond them wait
 * for a place, and are for the events behind that. A reference is taken. Items of rules that are
 * still there stay. Thread: the loop's. */
void change_rules_take(struct change *c, struct rule_set *rules);
/* Does what is due now (delays, backoffs), and returns when that is on disk. Pool thread. */
void change_upkeep_all(struct change *c);

/* ---- what others ask of the rules; any thread ---- */

/* Does a rule relay PURGE of wikis' URLs? Then those are events of the stream CHANGE_PURGES. */
#define CHANGE_PURGES "palimpsest.purge"
bool change_relays(struct change *c);
/* Does a rule have this event run as a job? Asked are the newest rules that have a place in line,
 * also while they are not in force yet. Who has a job stored by the answer asks change_reloads
 * before, and again behind that: when rules were read anew meanwhile, they may be asked about the
 * job in place of those. */
unsigned change_reloads(struct change *c);
bool change_takes_job(struct change *c, str stream, str domain, str bytes);
/* Does a rule let caches keep pages (edge_ttl)? */
bool change_edges(struct change *c);
/* How long caches may keep that page, in s; 0: not at all. It asks all rules that purge; one that
 * is paused does not. For answers that are built, where change_edges says so. */
int64_t change_edge_ttl_s(struct change *c, const struct rule_page *page);
/* The header that says how many effects of rules, one after another, led to a request. */
#define CHANGE_HOPS_HEADER "Palimpsest-Hops"

/* ---- looking and steering: pool threads, for they wait for the disk ---- */

enum change_state { CHANGE_READY, CHANGE_WAITING, CHANGE_SCHEDULED, CHANGE_DEAD, CHANGE_STATES };
const char *change_state_name(enum change_state s); /* "ready" */

struct change_target_status {
    str name; /* host:port */
    uint64_t running, failed;
    store_time paused_until; /* ZERO: it is not */
    bool drained;            /* by change_drain_target */
    char last_error[CHANGE_ERROR_BYTES_MAX + 1];
};
struct change_rule_status {
    str name;
    enum rule_effect effect; /* RULE_EFFECTS: it is removed */
    bool removed;            /* it has items, and is not in the configuration */
    bool paused;             /* by change_pause: it outlives a restart */
    bool replaying;          /* change_replay is under way */
    int64_t concurrency;     /* in force */
    int64_t rate_count, rate_per_ns;
    bool overridden; /* those two, by change_limit, since the start */
    struct change_type_limit {
        str type;
        int64_t concurrency;
    } * types; /* those of change_limit */
    unsigned types_count;
    const struct rule_limit *limits[RULE_BYS]; /* its own, by type, domain and target */
    unsigned limits_count[RULE_BYS];
    bool calls; /* its effect does: what follows is of such rules */
    int64_t retries, backoff_ns, backoff_factor;
    uint64_t counts[CHANGE_STATES]; /* items; those that run are READY */
    uint64_t running;
    const struct change_target_status *targets; /* its own, in its order; `running`: of it alone */
    unsigned targets_count;
    store_time oldest; /* when the event of its oldest item was taken; NEVER: it has none */
    /* since the start; the last two of timelines: */
    uint64_t matched, collapsed, done, ignored, failed, died, dropped, refused, looped, sampled,
        expired;
    char last_error[CHANGE_ERROR_BYTES_MAX + 1]; /* empty: none */
    store_time last_error_at;
};
struct change_status {
    uint64_t cursor, last;            /* sequence numbers: routed up to, newest of the log */
    uint64_t behind;                  /* events that are not routed yet */
    store_time cursor_at;             /* when the event at the cursor was taken; ZERO: none */
    uint64_t missed;                  /* events that the log had removed before they were routed */
    store_time missed_at;             /* when that was last found; ZERO: never, or unknown */
    struct change_rule_status *rules; /* in the order of their names */
    unsigned rules_count;
    struct change_target_status *targets;
    unsigned targets_count;
};
MUST_CHECK err change_status_get(struct change *c, struct arena *a, struct change_status *out);

/* ERR_NOT_FOUND: no rule of that name is there, nor has items. */
MUST_CHECK err change_pause(struct change *c, str rule, bool paused, struct err_note *note);
/* Until the next start, over SIGHUP. concurrency 0, rate_count < 0: as it was; both so: as the
 * rule says again. rate_count 0: no limit. */
struct change_limits {
    str type; /* of jobs: concurrency is of this type alone; empty: of the rule */
    int64_t concurrency, rate_count, rate_per_ns;
};
MUST_CHECK err change_limit(struct change *c, str rule, const struct change_limits *l,
                            struct err_note *note);
/* The rule is asked again about all events that the log took from that instant on and has still.
 * ERR_CONFLICT: it is being replayed, or is not in the configuration. */
MUST_CHECK err change_replay(struct change *c, str rule, store_time from, struct err_note *note);
/* Nothing is begun at that target any more; or again, also where it asked to be left alone. name:
 * "host:port". *was: as it was before, of that name; NULL is fine. */
MUST_CHECK err change_drain_target(struct change *c, str name, bool drained,
                                   struct change_target_status *was, struct err_note *note);

/* Items of a rule, from pivot on, in the order of their events. */
struct change_item {
    uint64_t id;
    uint64_t seq; /* of its newest event */
    enum change_state state;
    bool running;
    uint32_t attempts;
    store_time taken, due; /* due: of SCHEDULED */
    str stream, domain, title, type, target;
    str error; /* of the last attempt; empty: none */
    str why;   /* why it is not running, in words; empty: it is */
    str bytes; /* of the event, with wants_bytes */
};
struct change_listing {
    str rule;
    int state;        /* an enum change_state; -1: all */
    str type, domain; /* empty: all */
    uint64_t pivot;   /* 0: from the first */
    unsigned limit;   /* CHANGE_LIST_MAX at most */
    bool wants_bytes;
    /* out */
    struct change_item *items;
    unsigned count;
    uint64_t next; /* 0: there are no more */
};
MUST_CHECK err change_list(struct change *c, struct change_listing *l, struct arena *a,
                           struct err_note *note);
/* One item, with its bytes. ERR_NOT_FOUND. */
MUST_CHECK err change_find(struct change *c, str rule, uint64_t id, struct arena *a,
                           struct change_item *out, struct err_note *note);
/* Dead and scheduled items are ready at once, with all their attempts: id 0: all of that rule. */
MUST_CHECK err change_retry(struct change *c, str rule, uint64_t id, uint64_t *count,
                            struct err_note *note);
/* Items in that state (-1: in each) are deleted, but none that runs: it is done to its end. id 0:
 * all of the rule. ERR_CONFLICT: the one of that id runs. A rule that is not in the configuration
 * is forgotten with its last item. */
MUST_CHECK err change_drop(struct change *c, str rule, uint64_t id, int state, uint64_t *count,
                           struct err_note *note);

/* Looks at the items of that engine, whether they are being carried or not. Calls found for each
 * damage, with a sentence. ERR_CORRUPT when there was one. Waits for the disk. */
MUST_CHECK err change_check(struct engine *e, void (*found)(void *ctx, const char *what),
                            void *ctx);

#endif
