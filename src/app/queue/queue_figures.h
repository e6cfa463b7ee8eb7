/* queue_figures.h - what queues add to the metrics. Private to app. */
#ifndef APP_QUEUE_QUEUE_FIGURES_H
#define APP_QUEUE_QUEUE_FIGURES_H

#include "base/buf.h"

struct metrics;
struct queues;
/* Appends gauges of partitions, within limits. Blocks: pool thread. */
void queue_figures_render(struct queues *queues, const struct metrics *m, struct buf *out);

#endif
