/* ledger.h - the traces of one title: what is known of renders that are gone.
 *
 * Neighbours share a row (traces.h), filed under its lowest name. The names of two rows never
 * interleave, so the first row at or below a name is the only one that can hold it. A trace goes
 * into the row beside it while that has room, in the update that removes its render. A damaged row
 * is known by its lowest name alone: it ends a walk that includes that with ERR_CORRUPT, takes no
 * more traces, and goes when it comes to be forgotten. A title has at most PAGE_TITLE_TRACES_MAX
 * traces. Private to this folder. */
#ifndef BUCKET_LEDGER_H
#define BUCKET_LEDGER_H

#include "bucket/edit.h"
#include "bucket/traces.h"

/* Traces with low <= name <= high, newest first (rising: oldest first). */
struct ledger_walk {
    struct engine_cursor *cursor;
    struct page_name low, high;
    bool rising;
    struct page_traces row;
    unsigned left; /* of row, to be told */
};
void ledger_open(struct ledger_walk *w, const struct look *k, struct page_name low,
                 struct page_name high, bool rising);
/* ERR_NOT_FOUND at the end. ERR_CORRUPT, ERR_IO. */
MUST_CHECK err ledger_next(struct ledger_walk *w, struct page_trace_row *out);
void ledger_close(struct ledger_walk *w);

/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO. */
MUST_CHECK err ledger_get(const struct look *k, struct page_name name, struct page_trace_row *out);
/* The greatest name between two. ERR_NOT_FOUND. */
MUST_CHECK err ledger_greatest(const struct look *k, struct page_name low, struct page_name high,
                               struct page_name *out);

/* Puts a trace that is still to be known, in the place of one of its name, and files it. */
MUST_CHECK err ledger_put(struct edit *t, const struct page_trace_row *trace);
/* Removes the trace of a name, if there is one. */
MUST_CHECK err ledger_remove(struct edit *t, struct page_name name);
/* Removes traces that are to be forgotten, and damaged rows: of PAGE_LEDGER_DROP rows at most, then
 * *more. Adds to *looked the traces looked at. */
MUST_CHECK err ledger_forget_due(struct edit *t, unsigned *looked, bool *more);
/* When a trace to be forgotten is removed, with all others of its step; until then it is not seen.
 * NEVER: never. */
store_time ledger_due(const struct page_trace_row *trace);

#endif
