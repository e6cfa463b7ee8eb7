/* fresh.h - how fresh what is stored is, as JSON and as metrics. Private to this folder. */
#ifndef APP_ADMIN_FRESH_H
#define APP_ADMIN_FRESH_H

#include "base/buf.h"
#include "base/metrics.h"
#include "page/why.h"

/* What GET /metrics says of it, by domain. */
void fresh_figures(const struct page_service *s, const struct metrics *m, struct buf *out);

/* An instant in quotes, or null: ns 0, or NEVER. */
void fresh_put_time(struct buf *b, int64_t ns);
/* The members of an object, without its braces. */
void fresh_why_json(struct buf *b, const struct page_why *w);

#endif
