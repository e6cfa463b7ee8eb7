/* strategies.h - the seed's ways to keep current, recent and historical renders, on a real
 * Cassandra, and ours beside them, behind one interface.
 *
 *   app_ttl    one wide table, timelines of what was superseded, range deletes with a probability,
 *              historical beside it
 *   two_table  current kept small by range deletes, recent_and_historical by a TTL
 *   per_query  current, by_rev, by_tid: a table for each question. A: one row a title, where the
 *              greatest value wins; B: wide rows. Filled by write-through, on read, or on update
 *   ours       src/cassandra/pages.h: facts and a fold
 * Each is as published: where the seed leaves something open the file says what was chosen, and
 * why. A render is a bundle of contents, each a table of its own in all but ours, as RESTBase has
 * it. bench/strategy has the seed's on the embedded engine (docs/adr/0003); that counts operations,
 * and knows no faults that come of time or of other servers. Source: RESTBase/StorageDesign.
 * Thread: several, each for another title; and two for one title, where two servers put at once. */
#ifndef STRATEGIES_STRATEGIES_H
#define STRATEGIES_STRATEGIES_H

#include "strategies/database.h"
#include "timeline/timeline.h"
#include "title/stored.h"

#include <pthread.h>

enum {
    CONTENTS = 3,
    CONTENT_BYTES_MAX = 20000,
    HEAD_BYTES = 24,    /* what each content begins with: of which render it is */
    SERVERS = 2,        /* of ours: that may put at once */
    STATEMENTS_MAX = 16 /* of one content */
};
extern const size_t content_bytes[CONTENTS]; /* html, data-parsoid, section offsets */

enum copy { COPY_WRITE_THROUGH, COPY_ON_READ, COPY_ON_UPDATE };
struct strategy_opts {
    bool apart;       /* app_ttl: a batch, an index and a range delete for each content */
    bool sampled;     /* app_ttl: entries of the timelines are sampled, by domain */
    bool latest_hash; /* two_table: range deletes of previous revisions, too */
    bool wide;        /* per_query: option B */
    bool dated;       /* per_query: a render is written as of the time in its tid */
    bool raw_uuid;    /* per_query A: the tid in the value is the UUID's bytes as they stand */
    enum copy copy;   /* per_query */
};

struct render {
    str domain, title;
    struct page_name name;
    struct page_name previous; /* what it replaces, as the event says that causes it; rev 0: none */
    bool culls;                /* the draw of the range delete's probability */
    unsigned server;           /* which of SERVERS puts it */
    str contents[CONTENTS];
};
struct lookup {
    str domain, title;
    enum page_select select; /* LATEST, REV or EXACT */
    struct page_name name;
    unsigned content;
    /* out */
    struct page_name got;
    char head[HEAD_BYTES];
};

struct strategy;
struct strategy_kind {
    const char *name;
    /* Statements, before the loop runs; tables, once, when it does. */
    void (*init)(struct strategy *s);
    void (*tables)(struct strategy *s);
    /* A render comes, with all that the strategy does around it. */
    void (*put)(struct strategy *s, const struct render *r, store_time now);
    /* One content of one render. False: there is none. */
    bool (*get)(struct strategy *s, struct lookup *l, store_time now);
    /* What was rendered because a lookup found nothing. */
    void (*keep)(struct strategy *s, const struct render *r, store_time now);
    /* Behind a put whose draw said so; NULL: its put has done it. */
    void (*cull)(struct strategy *s, const struct render *r, store_time now);
    /* Statements that count the rows of the first content, formats as of database_statement. */
    const char *const *counts;
};
extern const struct strategy_kind app_ttl_kind, two_table_kind, per_query_kind, ours_kind;

struct sampling {
    pthread_mutex_t lock;
    struct timeline_sampler *sampler;
};
struct ours;
struct strategy {
    const struct strategy_kind *kind;
    struct strategy_opts opts;
    struct database *db;
    int64_t grace_ttl_ns;
    struct sampling *sampling; /* shared by the workers */
    const struct cql_statement *statements[CONTENTS][STATEMENTS_MAX];
    struct ours *ours;
};

struct strategy_variant {
    const char *name;
    const struct strategy_kind *kind;
    struct strategy_opts opts;
};
/* NULL: no such name. */
const struct strategy_variant *strategy_variant(const char *name);
void strategy_variants_print(void);
void strategy_init(struct strategy *s, const struct strategy_variant *v, struct database *db,
                   int64_t grace_ttl_ns);

/* ---- for the strategies ---- */

/* Compression as RESTBase had it. Nothing is compacted before the trace has ended: database.h. */
#define TABLE_OPTIONS_ALONE                                                                        \
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'} AND "              \
    "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 256}"
#define TABLE_OPTIONS "AND " TABLE_OPTIONS_ALONE
#define TIMELINE_OPTIONS                                                                           \
    "AND compaction = {'class': 'TimeWindowCompactionStrategy', 'enabled': 'false'} "              \
    "AND default_time_to_live = 2592000"

/* One statement for each content, as number `at`. */
void strategy_statement(struct strategy *s, unsigned at, const char *format);
/* A table for each content. */
void strategy_table(struct strategy *s, const char *format);
void put_title(struct cql_values *v, str domain, str title);
void put_name(struct cql_values *v, struct page_name name);
/* Cells of rev, tid and value. INVARIANT: they are. */
struct row {
    struct page_name name;
    str value;
};
struct row row_of(const struct cql_cell *cells);
/* The lookup is answered. */
void lookup_take(struct lookup *l, struct page_name name, str value);
/* A read of the strategy by the columns of the primary key: rev and tid as far as it selects. */
void step_lookup(struct step *s, const struct cql_statement *const by_select[],
                 const struct lookup *l);

/* ours.c */
void ours_init(struct strategy *s, struct databases *ds, unsigned worker);
void ours_fini(struct strategy *s);

#endif
