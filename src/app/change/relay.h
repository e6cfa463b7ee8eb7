/* relay.h - the event of the stream CHANGE_PURGES: a URL that a wiki wants purged, which rules of
 * effect purge pass on (change/change.h). Private to this folder. */
#ifndef APP_CHANGE_RELAY_H
#define APP_CHANGE_RELAY_H

#include "base/buf.h"
#include "base/times.h"

/* Appends it, as JSON. id: that it is to have; empty: one of its own. All is UTF-8. Any thread. */
void relay_event_put(struct buf *out, struct clock *clock, str id, str domain, str uri);

#endif
