/* lanes.h - how many items of a rule are in which state, for each domain and type. Part of
 * change.h. */
#ifndef CHANGE_LANES_H
#define CHANGE_LANES_H

#include "change/change.h"

enum { CHANGE_LANES_MAX = 1000, CHANGE_LANE_LOOKS_MAX = 1000 * 1000 };
struct change_lane {
    str domain, type;
    uint64_t counts[CHANGE_STATES], running; /* those that run are not among the READY ones */
    store_time oldest;                       /* when the first of its events was taken */
};
struct change_lanes {
    str rule;
    /* out */
    struct change_lane *lanes; /* in the order of domains and types */
    unsigned count;
    bool cut; /* there are more items than CHANGE_LANE_LOOKS_MAX, or lanes than CHANGE_LANES_MAX */
};
/* Goes over all of its items. ERR_NOT_FOUND: no rule of that name is there, nor has items. Waits
 * for the disk. */
MUST_CHECK err change_lanes_get(struct change *c, struct change_lanes *l, struct arena *a,
                                struct err_note *note);

#endif
