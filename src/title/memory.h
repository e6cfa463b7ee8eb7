/* memory.h - the rows of a title in memory: struct title_ops over arrays.
 *
 * For titles that are derived from their facts, and for tests. Everything is in the arena of its
 * owner. Thread: one at a time. */
#ifndef TITLE_MEMORY_H
#define TITLE_MEMORY_H

#include "base/arena.h"
#include "title/seen.h"

struct title_fence {
    struct page_name range; /* as of a purge */
    store_time at;
};
struct title_memory {
    struct title title; /* now and plan are the owner's to set */
    struct title_seen seen;
    struct arena *arena;
    struct page_row **rows; /* by name, lowest first */
    size_t rows_count, rows_size;
    struct page_trace_row *traces; /* by name, lowest first; those to be forgotten, too */
    size_t traces_count, traces_size;
    struct title_fence *fences;
    size_t fences_count, fences_size;
    const struct fact **marks; /* as they came */
    size_t marks_count, marks_size;
    store_time due_min;    /* no row is due before */
    store_time forget_min; /* no trace is to be forgotten before */
    uint64_t conflicts;    /* derive: puts of a name that was stored with other bytes */
};
/* An empty title. a, plan: borrowed. Edits fail with ERR_LIMIT when the arena is full. */
void title_memory_init(struct title_memory *m, struct arena *a, const struct page_plan *plan);
/* What is due by then becomes traces; traces to be forgotten by then go. title.now is then. */
MUST_CHECK err title_memory_expire(struct title_memory *m, store_time now);
/* title.plan is this one from now on; when its number is greater, all rows are planned anew. */
MUST_CHECK err title_memory_replan(struct title_memory *m, const struct page_plan *plan);

#endif
