/* items.h - what updates do to items: they are made, they move from state to state, they go.
 * Private to this folder.
 *
 * An *edit* is one update's work on items. It keeps the counts of each rule it touches and writes
 * them at its end. Everything is decided by the rows as they are then; so an edit may run again.
 * Invariants: an item has one row of 'r', 's' or 'd' by its state, and none when it waits. An item
 * with an order has a row of 'o'. Of items with one order exactly one is not WAITING: mostly the
 * first, but a replay puts older ones before it. One that is dead has no order any more, unless its
 * rule collapses, or says `hold`. The row of an event that items share says how many do. Thread:
 * the committer's. */
#ifndef CHANGE_ITEMS_H
#define CHANGE_ITEMS_H

#include "change/rows.h"

enum { CHANGE_EDIT_RULES_MAX = RULE_RULES_MAX }; /* that one edit touches */

struct change_tally {
    uint32_t rule;
    struct change_counts counts;
    bool lost; /* the row is damaged: it stays as it is, for palimpsest check to tell of it */
};
struct change_edit {
    struct engine_txn *txn;
    store_time now;
    struct change_tally tallies[CHANGE_EDIT_RULES_MAX];
    unsigned tallies_count;
    /* out */
    store_time next_due; /* of what it scheduled; NEVER: nothing */
    bool woke;           /* something became ready */
};
void change_edit_begin(struct change_edit *e, struct engine_txn *t);
MUST_CHECK err change_edit_end(struct change_edit *e); /* writes the counts */

/* What the router found an event to be for a rule. Borrowed until the update is done. */
struct change_route {
    uint32_t rule;
    unsigned index; /* of the rule in its set; the router's */
    uint64_t id, seq;
    store_time taken, due;
    struct change_digest lane, order; /* order none: it has none */
    bool collapses;                   /* by its order */
    unsigned hops;
    uint64_t target;
    /* of jobs that have a root: which, and of when it is. A newer one of the same makes it needless
     */
    struct change_digest root;
    store_time root_at;
    store_time made; /* of jobs that collapse: one that began later, and was done, has done it */
    str stream, domain, type, bytes;
};
enum change_routed { CHANGE_MADE, CHANGE_COLLAPSED, CHANGE_HAD, CHANGE_NEEDLESS };
/* HAD: an item of this rule and event is there already. NEEDLESS: what it asks for was done since,
 * or is asked for anew. */
MUST_CHECK err change_item_route(struct change_edit *e, const struct change_route *r,
                                 enum change_routed *how);

enum change_settled {
    SETTLED_DONE,   /* nothing is left to do */
    SETTLED_AGAIN,  /* done, and to be done once more, at again_at; if it was that already, DONE */
    SETTLED_FAILED, /* counts as an attempt */
    SETTLED_DEAD,   /* and is the last one */
};
struct change_settle {
    uint32_t rule;
    uint64_t id, seq; /* seq: of the event that was run for */
    enum change_settled how;
    bool holds; /* a dead one keeps its place before the next of its title */
    bool collapses;
    unsigned retries;    /* attempts after the first */
    store_time again_at; /* FAILED: when to try again */
    bool remembers;      /* DONE: that it was, and when it began */
    store_time began;
    str error;
};
/* *died: it is dead now. One that is not there any more is fine. */
MUST_CHECK err change_item_settle(struct change_edit *e, const struct change_settle *s, bool *died);
/* One that is scheduled, or dead, is ready. fresh: with all its attempts. */
MUST_CHECK err change_item_wake(struct change_edit *e, uint32_t rule, uint64_t id, bool fresh);
/* bytes.c: is it kept once for all items of the event? Then each of them takes it, and gives it
 * back. */
bool change_bytes_shared(str bytes);
MUST_CHECK err change_bytes_take(struct change_edit *e, uint64_t seq, str bytes);
MUST_CHECK err change_bytes_give(struct change_edit *e, uint64_t seq);
/* memory.c: what was done, and asked for anew, of jobs. Is there a newer job of the same root, or
 * was this done since it was made? */
MUST_CHECK err change_memory_answers(struct change_edit *e, const struct change_route *r,
                                     bool *needless);
/* What has that order was done; its call began then. */
MUST_CHECK err change_memory_done(struct change_edit *e, uint32_t rule,
                                  const struct change_digest *order, store_time began);
enum { CHANGE_FORGET_MAX = 256 };
/* What is remembered no longer than until now is forgotten, CHANGE_FORGET_MAX at most. *next: when
 * there is more. */
MUST_CHECK err change_memory_forget(struct change_edit *e, store_time *next);
/* One that is dead keeps no place before others of its title any more; of a rule that collapses, if
 * there are others. */
MUST_CHECK err change_item_aside(struct change_edit *e, uint32_t rule, uint64_t id, bool collapses);
MUST_CHECK err change_item_drop(struct change_edit *e, uint32_t rule, uint64_t id);

#endif
