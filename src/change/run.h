/* run.h - one item that runs. Private to run.c, and to the effects that have a file of their own.
 */
#ifndef CHANGE_RUN_H
#define CHANGE_RUN_H

#include "change/change_impl.h"

enum run_found {
    RUN_CALLS, /* there are requests */
    RUN_LOOKS,
    RUN_PRODUCES,
    RUN_NOTES,
    RUN_OVER,    /* the result says what became of it */
    RUN_GONE,    /* there is no such row any more */
    RUN_UNWANTED /* its rule does not want it any more, or it is needless */
};

struct change_run {
    uint32_t magic;
    struct list node; /* of its runner */
    struct change *c;
    struct change_runner *runner;
    struct change_ruled *ruled;
    const struct rule *rule;
    struct change_candidate item;
    struct change_target *target; /* it counts there; NULL: not yet, or never */
    unsigned pauses;              /* of it, as it began there */
    char target_url[RULE_VALUE_BYTES_MAX + 1];
    struct arena arena;
    struct loop_job job;
    enum run_found found;
    uint64_t seq;
    uint32_t attempts;
    unsigned hops;
    store_time taken, began;
    str stream, domain, title, bytes;
    struct change_requests requests;
    struct change_call call;
    struct queue *queue;
    struct queue_produce produce;
    struct queue_item_new produced;
    struct timeline_remote_add note; /* of a timeline */
    struct change_result result;
    struct engine_update update;
    struct change_edit edit;
    struct change_settle settle;
    bool died, called, rooted;
    err why;
    struct task task;
    struct loop_timer *again;
};

/* What became of it is in run->result. Loop; under the lock. */
void change_run_settle(struct change_run *run);

/* timeline_remote.c: effect timeline. Its event has begun. False: there is nothing to note, any
 * more. Pool thread. */
bool change_run_note_read(struct change_run *run, struct rule_event *e);
/* Settles, at once or later. Loop; under the lock. */
void change_run_note(struct change_run *run);
/* With the item's end, if its rule keeps the timeline in the store by now. Committer. */
MUST_CHECK err change_run_note_here(struct change_run *run, struct engine_txn *t);

#endif
