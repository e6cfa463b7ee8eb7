/* statement.h - private: tables of a strategy, statements on them, batches, and the counting of
 * both.
 *
 * A table is (instance, table number) in SPACE_COMPARE. Key: instance, table, domain, title, 0x00,
 * then as much of ~rev, ~tid as the table is keyed by. Row value: expires_at, rev, tid; the content
 * is the row's blob. */
#ifndef STRATEGY_STATEMENT_H
#define STRATEGY_STATEMENT_H

#include "strategy/strategy.h"
#include "timeline/timeline.h"

/* Tables of a content: number = 8 * content + one of these. */
enum strategy_table {
    TABLE_CURRENT,
    TABLE_HISTORICAL,
    TABLE_BY_REV,
    TABLE_BY_TID,
    TABLES_OF_CONTENT = 8
};
/* How much of the name is in a key. */
enum key_depth { KEY_TITLE, KEY_REV, KEY_TID };

struct strategy_key {
    enum strategy_table table;
    unsigned content;
    enum key_depth depth;
    uint32_t domain;
    str title;
    struct strategy_name_of name;
};

enum statement_kind {
    STATEMENT_INSERT,
    STATEMENT_INSERT_GREATEST,
    STATEMENT_DELETE,
    STATEMENT_INDEX
};
enum { BATCH_STATEMENTS_MAX = 4 * STRATEGY_CONTENTS_MAX + 4 };

struct statement {
    enum statement_kind kind;
    struct strategy_key key; /* INSERT; DELETE: title and the bound in name */
    bool renders_only; /* DELETE: rev = bound.rev and tid <= bound.tid; else rev <= bound.rev */
    struct strategy_name_of name; /* of the render stored */
    store_time expires_at;
    str value;
    struct timeline_where where; /* INDEX */
    struct timeline_entry entry;
    bool applied; /* INDEX: the entry was culled; forget it and what is older */
};

struct strategy_batch {
    struct strategy *s;
    unsigned count;
    struct statement statements[BATCH_STATEMENTS_MAX];
    uint64_t rows_deleted; /* of the last run */
};

struct strategy {
    struct strategy_opts opts;
    struct strategy_counts counts;
    struct rng rng;
};

struct statement *batch_add(struct strategy_batch *b);
/* All or nothing, on disk when it returns; counts its statements. An empty batch is nothing. */
MUST_CHECK err batch_run(struct strategy_batch *b);

struct strategy_row {
    struct strategy_name_of name;
    store_time expires_at;
    str value; /* in the arena */
};
/* SELECT ... LIMIT 1: the first row that starts with the key, unless it expired. Counts one
 * read. */
MUST_CHECK err select_first(struct strategy *s, const struct strategy_key *k, store_time now,
                            struct arena *a, struct strategy_row *out);
/* The newest entry that is old enough to cull. Counts one index read. */
MUST_CHECK err select_index(struct strategy *s, const struct timeline_where *w,
                            store_time not_after, struct timeline_entry *out);
bool strategy_chance(struct strategy *s);

/* What each strategy does; strategy.c dispatches. */
MUST_CHECK err app_ttl_put(struct strategy *s, const struct strategy_render *r, store_time now);
MUST_CHECK err two_table_put(struct strategy *s, const struct strategy_render *r, store_time now);
MUST_CHECK err per_query_put(struct strategy *s, const struct strategy_render *r, store_time now);

#endif
