/* counts.h - requests and their time by route, for /metrics.
 *
 * A route is known by its label, a static string, so labels never grow with what clients send.
 * Thread: any, after http_counts_new. */
#ifndef HTTP_COUNTS_H
#define HTTP_COUNTS_H

#include "base/metrics.h"
#include "http/http.h"

struct http_counts;
/* tables: every route table in service, ended by NULL. early: the label of what is answered before
 * routing; its address is the label. Owner: caller. Dies when out of memory. */
struct http_counts *http_counts_new(struct metrics *m, const struct http_route *const *tables,
                                    const char *early);
void http_counts_free(struct http_counts **cp);
/* label: that of a route, early, or NULL for what never reached a route. status 0: never
 * answered. */
void http_counts_add(struct http_counts *c, const char *label, int status, int64_t ns,
                     uint64_t bytes_sent);

#endif
