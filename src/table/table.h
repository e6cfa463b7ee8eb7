/* table.h - named tables over an engine: typed attributes, ordered keys, queries, batches,
 * retention policies.
 *
 * Model (RESTBase's table storage: docs/peers.md, 1). A table of a domain has a schema:
 * attributes with types, and an index that says which are the hash attributes (together the
 * partition), which the range attributes (order of rows inside a partition, ascending or
 * descending) and which are static (one value a partition). A hidden first hash attribute, the
 * domain, keeps domains apart. A row is named by all its key attributes; a put changes the
 * attributes it names and keeps the others; null clears one.
 *   Everything written is one engine update: conditions are decided inside it, and a batch on one
 * partition key is all or nothing across tables. A row past its expiry is never served, whether or
 * not the upkeep has removed it yet. Reads happen in a view and never block when told not to.
 *   Secondary indexes (the peer's 2015 to 2017): other orders of the same rows, by attributes that
 * need not be in the key. Through an index a get sees what the index names and the row's key. When
 * the last of the key is a version (a timeuuid, descending) that the index does not name, the
 * newest row of those that differ in it alone counts: when its attributes do not match any more,
 * older rows that did are not given. A row without a value for one of the index's hash and range
 * attributes is not in it.
 *   Key of a row in SPACE_ROW: 01, domain, table number, hash attributes, 00 for the static row or
 * 01, range attributes (key.h). Expiry entries: 02, expiry, key of the row. Entries of indexes:
 * index.h. Schemas in SPACE_SCHEMA (schema.h). */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tid.h"
#include "base/times.h"
#include "engine/engine.h"
#include "table/tables.h"

enum {
    TABLE_NAME_BYTES_MAX = 128,
    TABLE_ATTRS_MAX = 128, /* of one schema */
    TABLE_ATTR_NAME_BYTES_MAX = 64,
    /* hash attributes; range attributes, of an index with what it adds of the key */
    TABLE_KEY_ATTRS_MAX = 16,
    TABLE_INDEXES_MAX = 8, /* secondary indexes of one table */
    /* of a row, encoded; the expiry entry needs the rest */
    TABLE_KEY_BYTES_MAX = ENGINE_KEY_BYTES_MAX - 8,
    TABLE_LIMIT_MAX = 10000, /* rows of one answer */
    /* an answer ends with the row that reaches them; more rows come with `next` */
    TABLE_ANSWER_BYTES_FULL = 12 << 20,
    /* of one answer, the last row included; what does not fit is for `next` */
    TABLE_ANSWER_BYTES_MAX = 48 << 20,
    TABLE_TEXT_BYTES_MAX = TABLE_ANSWER_BYTES_MAX - (64 << 10), /* of one value in an answer */
    TABLE_SCAN_ROWS_MAX = 100000, /* rows one get looks at before it answers with `next` */
    TABLE_NOW_ROWS_MAX = 512,     /* rows one get looks at without blocking; then ERR_AGAIN */
    TABLE_OPS_MAX = 256,          /* of one batch */
    /* JSON values in one body: 64 MiB of memory, whatever they are */
    TABLE_QUERY_VALUES_MAX = 1 << 18,
    /* of one update; a longer delete runs as several, one in a batch is refused */
    TABLE_DELETE_ROWS_MAX = 8000,
    /* by which the next update of a delete is smaller, when one found no room */
    TABLE_DELETE_SHRINK = 8,
    TABLE_DAMAGED_MAX = 64, /* rows that cannot be read, told of in one answer */
    TABLE_KEEP_MAX = 1000,  /* count of a retention policy */
    TABLE_TRIM_ROWS = 8,    /* that one put lets go, besides the one it writes (trim.h) */
    TABLE_UPKEEP_BATCH = 256,
    TABLE_PREDICATES_MAX = 64,
};
#define TABLE_TTL_S_MAX ((int64_t)630720000) /* 20 years, as Cassandra */

enum table_type {
    TYPE_BLOB,
    TYPE_DECIMAL,
    TYPE_DOUBLE,
    TYPE_FLOAT,
    TYPE_BOOLEAN,
    TYPE_INT,
    TYPE_VARINT,
    TYPE_STRING,
    TYPE_TIMEUUID,
    TYPE_UUID,
    TYPE_TIMESTAMP,
    TYPE_JSON,
    TYPE_LONG,
    TABLE_TYPES
};
struct table_kind {
    enum table_type type;
    bool set;
};

/* A named value in its stored form: memcmp order is the order of the values (value.h). p NULL:
 * null. */
struct table_attr {
    str name, value;
};
/* Stored forms for callers that have values, not JSON; in the arena, p NULL when it is full. string
 * and blob are their own bytes. */
str table_value_long(struct arena *a, int64_t v);
str table_value_tid(struct arena *a, struct tid t);
int64_t table_long(str stored); /* 0 when malformed */
struct tid table_tid(str stored);

/* ---- schemas ---- */
enum table_schema_action { SCHEMA_CREATE, SCHEMA_DROP };
struct table_schema_change {
    /* in; borrowed until done */
    enum table_schema_action action;
    uint32_t domain;
    str table;
    str json; /* CREATE: the schema as JSON text */
    struct arena *arena;
    mono deadline;
    void (*done)(struct table_schema_change *c, err why); /* engine thread, short */
    void *ctx;
    /* out: ERR_BAD with a note (schema wrong, or migration not possible), ERR_NOT_FOUND (DROP) */
    bool created, changed;
    struct err_note note;
    /* the module's */
    struct tables *tables;
    struct schema *schema;
    str bytes;
    struct engine_update update;
};
/* Creates, migrates (higher version, same key) or drops; the same schema again is no change. Not
 * ERR_OK: done is not called. Rows of a dropped table are removed by the upkeep and not seen from
 * here on. */
MUST_CHECK err tables_change(struct tables *ts, struct table_schema_change *c);
/* The same; done is not called. Blocks until it is on disk: a pool thread. */
MUST_CHECK err tables_change_wait(struct tables *ts, struct table_schema_change *c);
/* The schema as JSON. ERR_NOT_FOUND; ERR_AGAIN as tables_get. */
MUST_CHECK err tables_schema(struct tables *ts, uint32_t domain, str table, struct arena *a,
                             bool now, str *json);

/* ---- reading ---- */
enum table_op { OP_EQ, OP_LT, OP_LE, OP_GT, OP_GE };
struct table_predicate {
    str name;
    enum table_op op;
    str value;
};
struct table_get {
    str table;
    str index; /* a secondary index to go through, or empty: predicates, proj and order are of it */
    const struct table_predicate *predicates;
    unsigned predicates_count;
    const str *proj; /* names; count 0: all */
    unsigned proj_count;
    bool reversed; /* the whole key order turned round */
    bool distinct; /* one row a partition; proj: hash attributes only */
    bool with_ttl;
    uint32_t limit; /* 0: TABLE_LIMIT_MAX */
    str next;       /* token of an earlier answer, or empty */
};
struct table_row {
    const struct table_attr *attrs; /* key attributes first; without those not asked for */
    unsigned count;
    int64_t ttl_s; /* left, rounded up; 0: none */
    bool with_ttl;
};
str table_row_value(const struct table_row *r, str name); /* p NULL: null or unknown */

/* One get in a view. Rows are borrowed inside each; each returns false to stop (then *next goes on
 * after that row, if there is one).
 *   fits     NULL, or is asked of a row before each: false ends the get before it, and *next goes
 *            on with it
 *   damaged  is told of rows that cannot be read, and the get goes past them: of what can be read
 *          of the key (count 0: nothing). NULL: one ends the get with ERR_CORRUPT, as do more than
 *   TABLE_DAMAGED_MAX now    never blocks: ERR_AGAIN when bytes are cold or rows many (then again
 *   without it, on a pool thread) next   token in the arena, or STR_NONE when there is no more
 * Fails: ERR_NOT_FOUND (no such table), ERR_BAD with a note, ERR_CONFLICT (an index that is still
 * being filled), ERR_LIMIT, ERR_CORRUPT, ERR_IO. */
struct table_reader {
    struct tables *tables;
    struct engine_view *view;
    struct arena *arena; /* holds the schema and the token; rows are borrowed, see each */
    bool now;
    bool (*each)(void *ctx, const struct table_row *row);
    bool (*fits)(void *ctx, const struct table_row *row);
    bool (*damaged)(void *ctx, const struct table_row *key);
    void *ctx;
    struct err_note *note;
};
MUST_CHECK err tables_get(const struct table_reader *r, uint32_t domain, const struct table_get *g,
                          str *next);

/* The same from a JSON query (1.8) to a JSON answer {"items":[...],"damaged":[...],"next":"..."}.
 * It ends before a row that does not fit in it, or in what the arena has left; as the first, such a
 * row is ERR_LIMIT with a note. more: there is a `next`. went_on: the query had one. */
struct table_answer {
    str json;
    unsigned rows, damaged;
    bool more, went_on;
};
MUST_CHECK err tables_get_json(struct tables *ts, uint32_t domain, str table, str query,
                               struct arena *a, bool now, struct table_answer *out,
                               struct err_note *note);

#endif
