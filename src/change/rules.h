/* rules.h - the rules in force, and how others are taken over. Private to this folder. */
#ifndef CHANGE_RULES_H
#define CHANGE_RULES_H

#include "change/rows.h"
#include "rule/rule.h"

#include <pthread.h>
#include <stdatomic.h>

struct change_ruled_rule {
    uint32_t number;
    uint64_t from;
};
/* A rule set with what the store knows of each rule. Never changes; counted references. */
struct change_ruled {
    atomic_uint refs;
    atomic_uint generation; /* the last one of the store in which they hold */
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
    struct change_ruled *ruled;        /* in: its set. Out: its rules */
    uint64_t routed;                   /* in: events up to here were for the rules before */
    uint64_t until;                    /* in: the end of the log when they were to be taken over */
    uint64_t last, count;              /* in: of the log, a moment ago */
    atomic_uint *generations;          /* in: counts the takings; written by updates alone */
    const _Atomic uint64_t *steerings; /* in: counts pauses and replays; so is that */
    /* out */
    uint64_t steered; /* how many of these the rows below know of */
    struct change_head head;
    struct change_known *known; /* all that have a row */
    unsigned known_count;
};
/* Writes the row of a rule. Committer. */
MUST_CHECK err change_rule_put(struct engine_txn *t, str name, const struct change_rule_row *row);
/* Waits for the engine. ERR_CORRUPT, ERR_IO, ERR_FULL, ERR_LIMIT. */
MUST_CHECK err change_take_run(struct change *c, struct change_take *t);
void change_take_fini(struct change_take *t);
#endif
