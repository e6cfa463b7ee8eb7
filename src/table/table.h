/* table.h - what the files of this folder share of the tables that an engine keeps: layout, limits,
 * gets in a view. The model, and what callers see, is store/table_store.h's. Private to this
 * folder, and its tests'.
 *
 * A hidden first hash attribute, the domain, keeps domains apart. Everything written is one engine
 * update. Reads happen in a view and never block when told not to: tables.c tries so first, and
 * goes to the pool for what is cold.
 *   Key of a row in SPACE_ROW: 01, domain, table number, hash attributes, 00 for the static row or
 * 01, range attributes (key.h). Expiry entries: 02, expiry, key of the row. Entries of indexes:
 * index.h. Schemas in SPACE_SCHEMA (schema.h). */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include "base/buf.h"
#include "engine/engine.h"
#include "store/table_keep.h"
#include "table/tables.h"

enum {
    /* hash attributes; range attributes, of an index with what it adds of the key */
    TABLE_KEY_ATTRS_MAX = 16,
    TABLE_INDEXES_MAX = 8, /* secondary indexes of one table */
    /* of a row, encoded; the expiry entry needs the rest */
    TABLE_KEY_BYTES_MAX = ENGINE_KEY_BYTES_MAX - 8,
    TABLE_NOW_ROWS_MAX = 512,        /* rows one get looks at without blocking; then ERR_AGAIN */
    TABLE_NOW_JSON_BYTES = 64 << 10, /* a longer text is read on the pool */
    /* by which the next update of a delete is smaller, when one found no room */
    TABLE_DELETE_SHRINK = 8,
    TABLE_TRIM_ROWS = 8, /* that one put lets go, besides the one it writes (trim.h) */
    TABLE_UPKEEP_BATCH = 256,
};

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

/* One get in a view. Rows are borrowed inside each; each returns false to stop (then *next goes on
 * after that row, if there is one).
 *   fits     NULL, or is asked of a row before each: false ends the get before it, and *next goes
 *            on with it
 *   damaged  is told of rows that cannot be read, and the get goes past them: of what can be read
 *            of the key (count 0: nothing). NULL: one ends the get with ERR_CORRUPT, as do more
 *            than TABLE_DAMAGED_MAX
 *   now      never blocks: ERR_AGAIN when bytes are cold or rows many (then again without it, on a
 *            pool thread)
 *   next     bytes in the arena, or STR_NONE when there is no more
 * Fails as struct table_rows. */
struct schema;
struct table_reader {
    struct tables *tables;
    struct engine_view *view;
    const struct schema *schema;   /* of the table; NULL: it is read */
    const struct store_call *call; /* canceled, it ends with ERR_TIMEOUT; NULL: it cannot be */
    struct arena *arena;           /* holds the schema and next; rows are borrowed, see each */
    bool now;
    bool (*each)(void *ctx, const struct table_row *row);
    bool (*fits)(void *ctx, const struct table_row *row);
    bool (*damaged)(void *ctx, const struct table_row *key);
    void *ctx;
    struct err_note *note;
};
MUST_CHECK err tables_get(const struct table_reader *r, uint32_t domain, const struct table_get *g,
                          str *next);

/* What tables.c does of requests: with now ERR_AGAIN when it would block. */
MUST_CHECK err tables_query(struct tables *ts, struct table_query *q, bool now);
MUST_CHECK err tables_parse(struct tables *ts, struct table_parse *p, bool now);
enum store_start tables_update(struct table_store *s, struct table_update *u);
enum store_start tables_change(struct table_store *s, struct table_schema_change *c);
MUST_CHECK err tables_upkeep(struct tables *ts, bool *more, store_time *next);

#endif
