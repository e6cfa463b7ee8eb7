/* store.h - what the files of this folder share: the module's object, bytes beside rows, plans of
 * key ranges. */
#ifndef TABLE_STORE_H
#define TABLE_STORE_H

#include "table/schema.h"
#include "table/table.h"

#include <stdatomic.h>

enum {
    SPACE_KEY_NUMBER = 'N',
    SPACE_KEY_DROPPED = 'D',
    SPACE_KEY_SCHEMA = 'S',
    SPACE_KEY_FILL = 'F',
    SPACE_KEY_UNINDEX = 'X',
    SPACE_KEY_TRIM = 'T'
}; /* first byte in SPACE_SCHEMA; the
latter: index_fill.c, trim_upkeep.c */

/* A key or bound built in place. */
struct key_buf {
    char bytes[ENGINE_KEY_BYTES_MAX];
    size_t n;
};
static inline str key_buf_str(const struct key_buf *k)
{
    return (str){ .p = k->bytes, .n = k->n };
}
/* Empties k when s is too long: false. */
bool key_buf_set(struct key_buf *k, str s);

struct tables {
    uint32_t magic;
    struct engine *engine;
    struct clock *clock;
    struct table_store store; /* what callers see of it */
    struct home *pool;
    struct key_buf trimmed; /* the upkeep's: where its next job is looked for (trim_upkeep.c) */
    atomic_uint_least64_t puts, deletes, gets, expired, dropped_rows, damaged;
};
#define TABLES_MAGIC 0x7ab1e500u
static inline struct tables *tables_of(struct table_store *s)
{
    struct tables *ts = CONTAINER_OF(s, struct tables, store);
    MAGIC_CHECK(ts, TABLES_MAGIC);
    return ts;
}

/* The whole blob in the arena, its hash checked. ERR_AGAIN only when now. */
MUST_CHECK err store_blob(struct engine *e, const struct engine_blob *blob, struct arena *a,
                          bool now, str *out);
void store_schema_key(struct key_buf *k, uint32_t domain, str table);
/* Where schemas are looked for, and for whom. */
struct store_look {
    struct tables *tables;
    struct engine_view *view;
    uint32_t domain;
    bool now;
    bool unseen; /* tables are looked for in vain, as long as for those that there are not */
    struct arena *arena;
    struct err_note *note;
};
/* ERR_NOT_FOUND with a note; ERR_AGAIN only when now. Its name is borrowed from table. */
MUST_CHECK err store_schema(const struct store_look *k, str table, struct schema **out);

/* Is the table still in the state s was read in? ERR_CONFLICT: migrated; ERR_NOT_FOUND: dropped. */
MUST_CHECK err store_schema_same(struct engine_view *v, uint32_t domain, const struct schema *s);

/* Rows of a range, collected for deletion with their expiry entries and what they have in indexes:
 * at most max, and as many as one update may write; *more tells of others. May be collected into
 * again. */
struct store_doomed {
    struct buf keys;
    unsigned count, alive, writes, writes_max;
    struct key_buf first, last; /* rows; with count */
    bool more;
};
void store_doomed_init(struct store_doomed *d);
void store_doomed_fini(struct store_doomed *d);
MUST_CHECK err store_collect(struct engine_view *v, const struct engine_range *range, unsigned max,
                             store_time now, struct store_doomed *out);
MUST_CHECK err store_delete(struct engine_txn *t, const struct store_doomed *doomed);
/* One row with what it has in indexes; its expiry entry is the caller's. */
struct row_head;
MUST_CHECK err store_delete_row(struct engine_txn *t, str key, const struct row_head *head);

/* ERR_LIMIT of which the note says nothing came of the arena of a request: says so. note may be
 * NULL. */
/* Memory that is there for one request, and not now: not its fault. */
#define STORE_STARVED_TEXT "there is no memory for it now; nothing was changed"
void store_memory_note(err e, const struct arena *a, struct err_note *note);

/* The range of keys that predicates allow, as tight as the key order makes it. exact: every row in
 * it satisfies all predicates; else rows are still to be filtered. */
struct plan {
    struct key_buf from, until;
    bool empty; /* no key can match */
    bool exact;
    bool one_partition;    /* all hash attributes are given */
    bool whole_partition;  /* and nothing else */
    size_t partition_size; /* of from, with one_partition, also when empty; 0: of a key that cannot
                              exist */
};
MUST_CHECK err plan_make(const struct schema *s, uint32_t domain,
                         const struct table_predicate *predicates, unsigned count, struct plan *out,
                         struct err_note *note);

#endif
