/* measure.h - counts what one origin is asked and how it answers, for /metrics. Private to this
 * folder.
 *
 * A request is counted once, by what came of it: by fetch.c when there was no reply to look into,
 * else by whoever looked. Series are made when they are first needed. All take NULL: nobody
 * measures. Thread: any; meter_took: the loop's. */
#ifndef RENDER_MEASURE_H
#define RENDER_MEASURE_H

#include "render/render.h"

enum fetch_kind {
    FETCH_SITEINFO,
    FETCH_META,
    FETCH_RENDER,
    FETCH_WIKITEXT,
    FETCH_LINT,
    FETCH_TRANSFORM,
    FETCH_PURGE,
    FETCH_WORD,
    FETCH_REVISIONS,
    FETCH_KINDS
};

struct meter;
struct meter *meter_new(struct origin_metrics *all, str domain);
void meter_free(struct meter **mp);
/* A request began (+1), or ended (-1). */
void meter_open(struct meter *m, int by);
/* It is tried once more. */
void meter_again(struct meter *m);
/* It ended after so long, with all its tries. */
void meter_took(struct meter *m, enum fetch_kind kind, int64_t ns);
void meter_outcome(struct meter *m, enum fetch_kind kind, enum render_why why);
/* A remembered failure was told instead of asking. */
void meter_remembered(struct meter *m);
/* Renders made now, and waiting for their turn. */
void meter_renders(struct meter *m, uint64_t making, uint64_t waiting);

#endif
