/* router.h - what follows the event log, and makes items of events. Private to this folder. */
#ifndef CHANGE_ROUTER_H
#define CHANGE_ROUTER_H

#include "change/items.h"
#include "change/rules.h"
#include "change/timeline.h"
#include "event/log.h"
#include "loop/loop.h"

/* Of events that one update writes, at most: so much and one event more are not taken together. */
enum { CHANGE_UPDATE_BYTES_MAX = 32 << 20 };

struct change_seen_by { /* by rule, of one batch */
    unsigned matched, collapsed, needless, refused, too_old, looped;
    unsigned ignored, sampled, kept; /* of timelines */
};
struct change_batch {
    struct change_ruled *ruled;
    struct change *change;
    struct rule_event *event;
    struct arena arena;
    struct change_route *routes;
    unsigned count, size;
    struct change_noted *noted; /* for the timeline in the store */
    unsigned noted_count, noted_size;
    size_t bytes; /* of events, that its update writes */
    bool full;    /* no more events are taken */
    struct change_head head;
    uint64_t until; /* the rules are asked about events up to here alone; 0: about all */
    bool past;      /* there are events behind until */
    /* a replay, of one rule alone: */
    bool is_replay;
    unsigned rule; /* its index */
    uint64_t replay_until;
    struct change_seen_by *by;
};
/* Is that the end of a chain of effects? Events that may come of it would go round for ever. */
bool change_rule_loops(const struct rule *r, unsigned hops);
/* Has a newer job of the same root come? Of a job, with which e has begun. Blocks: pool thread. */
bool change_root_is_old(struct engine *engine, uint32_t rule, struct rule_event *e,
                        const struct rule_given *job);
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
    uint64_t caught;            /* an end of these rules, up to which all is routed */
    struct change_batch batch;
    struct change_edit edit;
};
void change_router_open(struct change *c, const struct change_head *head);
void change_router_kick(struct change *c); /* loop; under the lock */
/* May the rules that are wanted next come into force? If not, all events up to those for them are
 * routed first, and then change_take_begin is called. Loop; under the lock. */
bool change_router_ends(struct change *c);

#endif
