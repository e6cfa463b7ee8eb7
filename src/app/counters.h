/* counters.h - requests and latencies by route, and what the store counts, for /metrics.
 *
 * A route is known by its label, a static string, so labels never grow with what clients send.
 * Store figures are copied into gauges when /metrics is asked. Thread: any, after counters_new. */
#ifndef APP_COUNTERS_H
#define APP_COUNTERS_H

#include "app/app.h"
#include "base/buf.h"
#include "store/page_store.h"

struct app_counters;
/* tables: every route table in service, ended by NULL. Owner: caller. Dies when out of memory. */
struct app_counters *counters_new(struct metrics *m, const struct http_route *const *tables);
void counters_free(struct app_counters **cp);
/* label: that of a route, COUNTERS_HOT, or NULL for what never reached a route. status 0: never
 * answered. */
void counters_count(struct app_counters *c, const char *label, int status, int64_t ns,
                    uint64_t bytes_sent);

/* How old what readers ask for is. Of a ready answer: the kind of its entry (hot/hot.h), whose hits
 * are added here. */
enum read_kind { READ_CURRENT, READ_RECENT, READ_HISTORICAL, READ_GONE, READ_KINDS };
enum read_kind counters_read_kind(enum page_state s);
/* One GET or HEAD of a content that was answered otherwise than by a ready answer. */
void counters_read(struct app_counters *c, enum read_kind kind);
extern const char COUNTERS_HOT[]; /* "page.hot": answered before routing */
/* Sets the gauges from the parts of app and appends the exposition. */
void counters_render(const struct app *app, struct buf *out);
/* What of them /v1/admin.stats says, as JSON. */
void counters_stats(const struct app *app, struct buf *out);

#endif
