/* strategy.h - the seed's ways to keep current, recent and historical renders, side by side,
 * counted.
 *
 * Not what the server stores pages with (that is bucket/page.h): these are the published
 * alternatives, built as written, so that one edit trace can be run through all of them and their
 * operations counted.
 *   app_ttl          one wide table, timelines, range deletes with a probability; historical beside
 *                    it
 *   two_table        current with range deletes, recent_and_historical with a TTL; copy on update
 *   table_per_query  current, by_rev, by_tid; option A: one row a title, greatest value wins;
 * option B: wide rows A statement is what the seed counts: a select, an insert, a range delete; a
 * batch is one round trip of statements, atomic. Source: RESTBase/StorageDesign, "Comparison:
 * Operation counts" and the sections before it. Thread: one at a time; blocks (each batch waits
 * until it is on disk). */
#ifndef STRATEGY_STRATEGY_H
#define STRATEGY_STRATEGY_H

#include "base/arena.h"
#include "base/rng.h"
#include "base/tid.h"
#include "engine/engine.h"

enum { STRATEGY_CONTENTS_MAX = 4, STRATEGY_TITLE_BYTES_MAX = 400 };

enum strategy_kind {
    STRATEGY_APP_TTL,
    STRATEGY_TWO_TABLE,
    STRATEGY_PER_QUERY_A,
    STRATEGY_PER_QUERY_B,
    STRATEGY_KINDS
};
const char *strategy_name(enum strategy_kind k);

struct strategy_opts {
    struct engine *engine;
    enum strategy_kind kind;
    uint8_t instance;  /* keys begin with it: several live in one store */
    unsigned contents; /* of a bundle, 1 to STRATEGY_CONTENTS_MAX */
    bool together;     /* the Parsoid-specific abstraction: a bundle is one batch with one index */
    double delete_probability; /* of a culling attempt with an update */
    int64_t grace_ttl_ns, historical_ttl_ns;
    uint64_t seed;
};

struct strategy_counts {
    uint64_t updates; /* calls of strategy_put */
    uint64_t gets, hits;
    uint64_t reads, writes, range_deletes; /* statements on contents */
    uint64_t index_reads, index_writes;    /* statements on timelines */
    uint64_t batches;                      /* round trips that wrote */
    uint64_t rows_deleted;
    uint64_t bytes_written, bytes_read; /* of contents */
};

struct strategy_name_of {
    uint64_t rev;
    struct tid tid;
};
struct strategy_render {
    uint32_t domain;
    str title;
    struct strategy_name_of name;
    bool has_previous; /* what it replaces; the event that causes an update says so */
    struct strategy_name_of previous;
    str contents[STRATEGY_CONTENTS_MAX];
};

struct strategy;
/* Owner: caller. Dies when out of memory. */
struct strategy *strategy_new(const struct strategy_opts *opts);
void strategy_free(struct strategy **sp);
/* Stores an update at `now`, with everything the strategy does around it. */
MUST_CHECK err strategy_put(struct strategy *s, const struct strategy_render *r, store_time now);
/* Stores what was rendered on request: the historical side only. */
MUST_CHECK err strategy_put_historical(struct strategy *s, const struct strategy_render *r,
                                       store_time now);

enum strategy_select { STRATEGY_LATEST, STRATEGY_REV, STRATEGY_EXACT };
struct strategy_which {
    uint32_t domain;
    str title;
    enum strategy_select select;
    struct strategy_name_of name;
    unsigned content;
};
/* One content, in the arena, and which render it is of. ERR_NOT_FOUND. */
MUST_CHECK err strategy_get(struct strategy *s, const struct strategy_which *w, store_time now,
                            struct arena *a, struct strategy_name_of *name, str *value);
/* What the store's own TTL would have removed by now. Not counted: it is not the strategy's
 * operation. */
MUST_CHECK err strategy_expire(struct strategy *s, store_time now, uint64_t *removed);
const struct strategy_counts *strategy_counts_of(const struct strategy *s);
/* Rows and bytes it occupies; walks them all. */
MUST_CHECK err strategy_size(struct strategy *s, uint64_t *rows, uint64_t *bytes);

#endif
