/* table_write.h - puts, deletes and batches of tables. Part of table.h. */
#ifndef TABLE_TABLE_WRITE_H
#define TABLE_TABLE_WRITE_H

#include "table/table.h"

/* ---- writing ---- */
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
    /* IF_ALLOWED, also of a delete: asked in the update, maybe more than once. stored is borrowed,
     * lacks what is null, and is NULL when there is no such row. It is that of the key; of a
     * delete, and of a put with predicates, the first that they name. Of a long delete: before its
     * first update. ERR_UNAVAILABLE: FIRST_DEAD_ROWS_MAX expired rows stand before it. */
    bool (*allow)(void *ctx, const struct table_row *stored);
    void *allow_ctx;
    bool allow_by_key; /* stored has but its key: nothing else is read */
    int64_t ttl_s;     /* 0: the table's default_time_to_live, if any */
    /* delete, IF_ALLOWED: all hash attributes eq, then eq on range attributes and at most one
     * range */
    const struct table_predicate *predicates;
    unsigned predicates_count;
    const struct schema *schema; /* the module's; NULL */
};
struct table_step;
struct table_update {
    /* in; borrowed until done */
    uint32_t domain;
    const struct table_write *writes;
    unsigned writes_count; /* more than one: a batch on one partition key */
    bool one_step;         /* a batch, also of one */
    uint64_t random;       /* of the versions that puts leave out */
    /* not used by others until done, and what it has left is for the decision */
    struct arena *arena;
    mono deadline;
    void (*done)(struct table_update *u, err why); /* engine thread, short */
    void *ctx;
    /* out */
    bool applied;          /* false: a condition did not hold and nothing was written */
    uint64_t rows_deleted; /* on disk, also when done gets an error: of a delete that ran as several
                              updates */
    struct err_note note;
    /* the module's */
    struct tables *tables;
    struct table_step *steps;
    /* what the decision made last reads and packs: what arena has left, at most */
    struct arena decided;
    unsigned delete_rows; /* of one update of a delete */
    uint64_t deleted_before;
    bool may_block, more;
    struct engine_update update;
};
/* Prepares on the calling thread and submits. Not ERR_OK: done is not called (ERR_NOT_FOUND no such
 * table, ERR_BAD with a note, ERR_LIMIT, ERR_AGAIN only with now: a cold schema, then again on the
 * pool). done gets ERR_AGAIN when a row to be changed is cold: call tables_update_warm on the pool,
 * then tables_update_again; ERR_CONFLICT when the table was changed meanwhile;
 * ERR_LIMIT with a note for what no try can do: it needs more than the arena, or than one update
 * may write; ERR_GONE with a note when its revisionRetentionPolicy would not keep what is put
 * (trim.h): nothing is written. A delete (no batch) of more than TABLE_DELETE_ROWS_MAX rows, or of
 * fewer with much in indexes, runs as several updates in the order of the key, each atomic; readers
 * and writers may come between. One that finds no room is tried with fewer rows. When it ends early
 * the note says how much is done; the same delete again does the rest. */
MUST_CHECK err tables_update(struct tables *ts, struct table_update *u, bool now);
/* Reads what was cold; blocks. */
void tables_update_warm(struct table_update *u);
/* Submits it again; done as before, and no more ERR_AGAIN. Thread: any. */
void tables_update_again(struct table_update *u);
/* Writes from JSON: one put or delete query of a table; or a batch [{"op":"put","table":...},...].
 * Borrowed from a. */
enum table_query_kind { QUERY_PUT, QUERY_DELETE, QUERY_BATCH };
struct table_query {
    enum table_query_kind kind;
    str table;
    str json;
    bool now;
};
MUST_CHECK err tables_parse(struct tables *ts, uint32_t domain, const struct table_query *q,
                            struct arena *a, struct table_update *out, struct err_note *note);

#endif
