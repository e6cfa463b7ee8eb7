/* traces.h - the value of a row of the ledger: traces of neighbouring renders of one title. Pure;
 * fuzzed.
 *
 * What follows from the neighbours is not stored: a render is as a rule superseded by the next one,
 * at its arrival, and all are known equally long. A trace takes about 25 bytes so, and rows of
 * PAGE_ROW_TRACES_MAX of them fit ENGINE_VALUE_BYTES_MAX whatever they hold. Stores before had one
 * trace a row, at full length: such a row is read and never written. Private to this folder. */
#ifndef BUCKET_TRACES_H
#define BUCKET_TRACES_H

#include "bucket/row.h"

enum {
    PAGE_ROW_TRACES_MAX = 10,
    PAGE_TRACE_BYTES_MAX = 2 + 4 * 10 + 8 + 10 + TID_KEY_BYTES + 2 * 10,
    PAGE_TRACES_BYTES_MAX = 2 + PAGE_ROW_TRACES_MAX * PAGE_TRACE_BYTES_MAX,
};
struct page_traces {
    unsigned count; /* at least 1 */
    bool alone;     /* a row of a store before */
    /* lowest name first; room for one to be put in */
    struct page_trace_row trace[PAGE_ROW_TRACES_MAX + 1];
};
/* out has PAGE_TRACES_BYTES_MAX bytes. Invariant: count is 1 to PAGE_ROW_TRACES_MAX. The first name
 * is the key's. */
str page_traces_encode(const struct page_traces *t, char *out);
/* ERR_CORRUPT: *out undefined. */
MUST_CHECK err page_traces_decode(str value, struct page_name lowest, struct page_traces *out);

#endif
