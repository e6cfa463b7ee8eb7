/* upkeep.h - what must happen without anybody asking: culls when due, space given back.
 *
 * Model. A round is a pool job that runs the upkeep of pages, tables and events, batch after batch,
 * as long as there is more to do, up to a time. The next round is when the next row falls due, and
 * at least every UPKEEP_PERIOD_MS of real time, because a put may bring an earlier due time; so a
 * due row goes about a second late at most while the disk keeps up. Whichever of them fails waits
 * that period and hold up only themselves. Reclaiming space is a job of its own, one for each
 * store: copying segments must not hold up culls. Each runs one at a time. Thread: as said. */
#ifndef SERVER_UPKEEP_H
#define SERVER_UPKEEP_H

#include "app/app.h"

enum {
    UPKEEP_PERIOD_MS = 500,
    UPKEEP_ROUND_MS_MAX = 100,
    RECLAIM_PERIOD_MS = 5000,
    RECLAIM_MORE_MS = 10,
    UPKEEP_FALLEN_BYTES =
        8 << 20 /* so much less held by requests than lately, and memory is given back */
};

struct upkeep;
/* Owner: caller. Stands still until upkeep_begin. Thread: loop (or before loop_run). */
struct upkeep *upkeep_new(struct app *app);
/* Gives back the space of a queue store, too. Before upkeep_begin; the store is there until
 * upkeep_free. */
struct queue_store;
void upkeep_store(struct upkeep *u, struct queue_store *store);
void upkeep_begin(struct upkeep *u);
/* No new rounds. Thread: loop. */
void upkeep_stop(struct upkeep *u);
/* A job is running. Thread: loop. */
bool upkeep_busy(const struct upkeep *u);
/* Not busy, and the loop does not run any more. */
void upkeep_free(struct upkeep **up);
/* Does all that is due now and returns when it is done. Blocks: a pool thread. */
void upkeep_all(struct upkeep *u);

#endif
