/* strand.h - the handler and the tasks of one exchange, on the pool, one after another. Private to
 * http.
 *
 * Model. Tasks of a strand run in order of posting, on whatever thread of the pool, never two at
 * once. While one runs or waits the exchange is held, so that it outlives whoever answers it. */
#ifndef HTTP_STRAND_H
#define HTTP_STRAND_H

#include "http/exchange.h"

/* x is pooled, and held by whoever posts. Thread: any. */
void strand_post(struct http_exchange *x, struct task *t);

#endif
