/* share.h - whose turn it is among the targets of a rule, by their weights. Private to this folder.
 *
 * Model: start-time fair queueing (Goyal, Vin and Cheng 1996). Each target has the instant of its
 * next turn, in a time of its own: a turn moves it on by 1 / weight. The first instant has the
 * turn. So turns are in proportion to the weights. A target that was away begins at the instant of
 * now, and makes up for nothing. Pure. */
#ifndef CHANGE_SHARE_H
#define CHANGE_SHARE_H

#include "rule/rule.h"

struct change_shares {
    uint64_t now;
    uint64_t next[RULE_TARGETS_EACH_MAX];
};
struct change_share {
    bool takes; /* may something begin there? */
    uint64_t running;
    int64_t weight;
};
/* The target whose turn it is; count: none takes. A target that runs more than its part of all that
 * runs, because it is slow, is passed over: the others run that meanwhile. */
unsigned change_share_turn(struct change_shares *s, const struct change_share *of, unsigned count);

#endif
