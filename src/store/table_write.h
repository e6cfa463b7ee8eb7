/* table_write.h - what changes tables: schemas, puts, deletes, batches. Part of table_store.h. */
#ifndef STORE_TABLE_WRITE_H
#define STORE_TABLE_WRITE_H

#include "store/table_read.h"

enum {
    TABLE_OPS_MAX = 256, /* of one batch */
    /* of one update; a longer delete runs as several, one in a batch is refused */
    TABLE_DELETE_ROWS_MAX = 8000,
};

/* Creates, migrates (higher version, same key) or drops; the same schema again is no change. Rows
 * of a dropped table are removed by the upkeep and not seen from here on. call.why: ERR_BAD with a
 * note (schema wrong, or migration not possible), ERR_NOT_FOUND (DROP), and the others. */
enum table_schema_action { SCHEMA_CREATE, SCHEMA_DROP };
struct table_schema_change {
    struct store_call call;
    /* in; borrowed until done */
    enum table_schema_action action;
    uint32_t domain;
    str table;
    str json; /* CREATE: the schema as JSON text */
    struct arena *arena;
    /* out */
    bool created, changed;
    struct err_note note;
};

enum table_condition { IF_ALWAYS, IF_NOT_EXISTS, IF_EQUAL, IF_ALLOWED };
struct table_write {
    bool is_delete;
    str table;
    /* put */
    const struct table_attr *attrs; /* full key; value NULL clears */
    unsigned attrs_count;
    enum table_condition condition;
    const struct table_attr *equal; /* IF_EQUAL: all of them; NULL: the attribute is not set */
    unsigned equal_count;
    /* IF_ALLOWED, also of a delete: may this write be made? Asked inside the update, perhaps more
     * than once, on a thread of the store. It changes nothing but its own request. stored: the row,
     * borrowed for the call; attributes that are null are absent; NULL: there is no such row. The
     * row is that of the key. With predicates (always of a delete) it is the first row that they
     * name. A long delete asks once, before its first update. ERR_UNAVAILABLE: 10,000 expired rows
     * stand before that row. */
    bool (*allow)(void *ctx, const struct table_row *stored);
    void *allow_ctx;
    bool allow_by_key; /* stored has but its key: nothing else is read */
    int64_t ttl_s;     /* 0: the table's default_time_to_live, if any */
    /* delete, IF_ALLOWED: all hash attributes eq, then eq on range attributes and at most one
     * range */
    const struct table_predicate *predicates;
    unsigned predicates_count;
    const void *own; /* the store's: what table_parse leaves; NULL */
};

/* Puts and deletes. call.why: ERR_NOT_FOUND no such table; ERR_BAD with a note; ERR_CONFLICT when
 * the table was changed meanwhile; ERR_LIMIT with a note for what no try can do: it needs more than
 * the arena, or than one update may write; ERR_GONE with a note when its revisionRetentionPolicy
 * would not keep what is put: nothing is written. A delete (no batch) of more than
 * TABLE_DELETE_ROWS_MAX rows, or of fewer with much in indexes, runs as several updates in the
 * order of the key, each atomic; readers and writers may come between. One that finds no room is
 * tried with fewer rows. When it ends early the note says how much is done; the same delete again
 * does the rest. ERR_UNAVAILABLE stands there for ERR_LIMIT, and where other requests hold the
 * memory. */
struct table_update {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    const struct table_write *writes;
    unsigned writes_count; /* more than one: a batch on one partition key */
    bool one_step;         /* a batch, also of one */
    uint64_t random;       /* 64 random bits: of the versions that puts leave out */
    /* until done the caller allocates nothing from it; the decision uses what is left of it */
    struct arena *arena;
    /* out */
    bool applied;          /* false: a condition did not hold and nothing was written */
    uint64_t rows_deleted; /* rows of a delete that are gone on disk; set also when a delete of
                              several updates ends with an error */
    struct err_note note;
};

/* Writes from JSON: one put or delete query of a table; or a batch [{"op":"put","table":...},...].
 * What is read is borrowed from the arena. call.why: ERR_BAD and ERR_LIMIT with a note,
 * ERR_NOT_FOUND. */
enum table_query_kind { QUERY_PUT, QUERY_DELETE, QUERY_BATCH };
struct table_parse {
    struct store_call call;
    /* in; borrowed until done */
    enum table_query_kind kind;
    uint32_t domain;
    str table; /* BATCH: each of them says it */
    str json;
    /* BATCH; NULL, or asked about each write. False: as if there were no such table */
    bool (*shown)(void *ctx, str table, bool is_delete);
    void *shown_ctx;
    struct arena *arena;
    /* out: of an update */
    const struct table_write *writes;
    unsigned writes_count;
    bool one_step;
    struct err_note note;
};

#endif
