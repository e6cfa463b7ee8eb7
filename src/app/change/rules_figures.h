/* rules_figures.h - what rules have to do and did, as metrics. Private to src/app. */
#ifndef APP_CHANGE_RULES_FIGURES_H
#define APP_CHANGE_RULES_FIGURES_H

#include "base/metrics.h"
#include "base/times.h"

struct change;
/* Nothing without rules. Waits for the disk: a pool thread. */
void rules_figures(struct change *c, struct clock *clock, const struct metrics *m, struct buf *out);

#endif
