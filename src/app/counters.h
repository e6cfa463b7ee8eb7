/* counters.h - what the store and its parts count, for /metrics and /v1/admin.stats.
 *
 * Figures are copied into gauges when /metrics is asked. Thread: any, after counters_new. */
#ifndef APP_COUNTERS_H
#define APP_COUNTERS_H

#include "app/app.h"
#include "base/buf.h"
#include "store/page_store.h"

struct app_counters;
/* Owner: caller. Dies when out of memory. */
struct app_counters *counters_new(struct metrics *m);
void counters_free(struct app_counters **cp);

/* How old what readers ask for is. Of a ready answer: the kind of its entry (hot/hot.h), whose hits
 * are added here. */
enum read_kind { READ_CURRENT, READ_RECENT, READ_HISTORICAL, READ_GONE, READ_KINDS };
enum read_kind counters_read_kind(enum page_state s);
/* One GET or HEAD of a content that was answered otherwise than by a ready answer. */
void counters_read(struct app_counters *c, enum read_kind kind);
/* What became of a PURGE, and of an event. */
enum purge_kind { PURGE_TITLE, PURGE_OTHER, PURGE_UNKNOWN, PURGE_REFUSED, PURGE_KINDS };
void counters_purge(struct app_counters *c, enum purge_kind kind);
enum event_kind { EVENT_TITLE, EVENT_OTHER, EVENT_JOB, EVENT_INVALID, EVENT_KINDS };
void counters_events(struct app_counters *c, enum event_kind kind, uint64_t count);
/* Of those that were taken: so many the log had already, by their ids. */
void counters_events_repeated(struct app_counters *c, uint64_t count);
/* Sets the gauges from the parts of app and appends the exposition. */
void counters_render(const struct app *app, struct buf *out);
/* What of them /v1/admin.stats says, as JSON. */
void counters_stats(const struct app *app, struct buf *out);

#endif
