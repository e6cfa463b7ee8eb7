/* append.h - events that an update of the engine appends beside what else it writes. Part of log.h,
 * for who stands on the same engine. */
#ifndef EVENT_APPEND_H
#define EVENT_APPEND_H

#include "engine/engine.h"
#include "event/log.h"

/* Within a decision: appends count events, EVENT_APPEND_MAX at most, each in a row of its own. An
 * id is kept with its event and not looked up: the caller makes each once. Bytes are borrowed until
 * the update is done. ERR_LIMIT (a name or an event is too long), or as the engine says: the
 * decision returns that. Whoever decides calls event_log_told in its done, when that gets ERR_OK.
 */
MUST_CHECK err event_log_append(struct event_log *l, struct engine_txn *t,
                                const struct event *events, unsigned count,
                                struct event_taken *taken);
/* Events were appended and are on disk. Thread: the engine's. */
void event_log_told(struct event_log *l);

#endif
