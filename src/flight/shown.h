/* shown.h - what is being made on this server, for whom, and by whom, as JSON: what `flight ls`
 * shows. */
#ifndef FLIGHT_SHOWN_H
#define FLIGHT_SHOWN_H

#include "base/arena.h"
#include "base/buf.h"
#include "flight/shared.h"

enum { FLIGHTS_SHOWN_MAX = 1000 };

/* {"redis", "degraded", "node", "counts":{...}, "flights":[...], "left_out"}, in the arena;
 * STR_NONE when it is full. fs NULL: no flights; shared NULL: no Redis. Thread: the loop's. */
str flights_json(struct flights *fs, const struct flight_shared *shared, wall now, struct arena *a);
/* One of them. has_record: Redis holds what of it travels. Pure. */
void flight_json(struct buf *b, struct arena *a, const struct flight_seen *f, bool has_record,
                 wall now);

#endif
