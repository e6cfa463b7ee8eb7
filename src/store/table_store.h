/* table_store.h - tables of a store: what their callers see, whichever store it is.
 *
 * Model (RESTBase's table storage: docs/peers.md, 1). A table of a domain has a schema:
 * attributes with types, and an index that says which are the hash attributes (together the
 * partition), which the range attributes (order of rows inside a partition, ascending or
 * descending) and which are static (one value a partition). A row is named by all its key
 * attributes; a put changes the attributes it names and keeps the others; null clears one.
 *   Conditions are decided in the update that writes, and a batch on one partition key is all or
 * nothing across tables. A row past its expiry is never served, whether or not the upkeep has
 * removed it yet.
 *   Secondary indexes (the peer's 2015 to 2017): other orders of the same rows, by attributes that
 * need not be in the key. A get through an index sees the attributes that the index names, and the
 * key of the row. The last attribute of the key may be a version (a timeuuid, descending) that the
 * index does not name. Of rows that differ in the version alone, only the newest counts. If the
 * newest does not match, older rows that match are not given. A row without a value for one of the
 * index's hash and range attributes is not in it. Reads of what lies in memory, and of few rows,
 * are done at once. Requests: table_read.h, table_write.h. Stores: table/tables.h, on the embedded
 * engine. */
#ifndef STORE_TABLE_STORE_H
#define STORE_TABLE_STORE_H

#include "store/table_write.h"

struct table_store;

struct tables_stats {
    uint64_t puts, deletes, gets, expired, dropped_rows, damaged;
};

/* What a store does; see the functions below. */
struct table_store_ops {
    enum store_start (*rows)(struct table_store *s, struct table_rows *r);
    enum store_start (*query)(struct table_store *s, struct table_query *q);
    enum store_start (*schema)(struct table_store *s, struct table_schema_read *r);
    enum store_start (*change)(struct table_store *s, struct table_schema_change *c);
    enum store_start (*parse)(struct table_store *s, struct table_parse *p);
    enum store_start (*update)(struct table_store *s, struct table_update *u);
    err (*upkeep)(struct table_store *s, bool *more, store_time *next);
    void (*stats)(struct table_store *s, struct tables_stats *out);
};
struct table_store {
    const struct table_store_ops *ops;
};

/* Thread of all functions here: any but the loop. Each takes a request of table_read.h or
 * table_write.h, whose comment has its errors. */
MUST_CHECK static inline enum store_start table_store_rows(struct table_store *s,
                                                           struct table_rows *r)
{
    return s->ops->rows(s, r);
}
MUST_CHECK static inline enum store_start table_store_query(struct table_store *s,
                                                            struct table_query *q)
{
    return s->ops->query(s, q);
}
MUST_CHECK static inline enum store_start table_store_schema(struct table_store *s,
                                                             struct table_schema_read *r)
{
    return s->ops->schema(s, r);
}
MUST_CHECK static inline enum store_start table_store_change(struct table_store *s,
                                                             struct table_schema_change *c)
{
    return s->ops->change(s, c);
}
MUST_CHECK static inline enum store_start table_store_parse(struct table_store *s,
                                                            struct table_parse *p)
{
    return s->ops->parse(s, p);
}
/* Checks and prepares the writes on the calling thread, then submits one update. */
MUST_CHECK static inline enum store_start table_store_update(struct table_store *s,
                                                             struct table_update *u)
{
    return s->ops->update(s, u);
}
/* Removes rows that expired and rows of dropped tables, fills and removes indexes, applies policies
 * that migrations brought and goes on with what puts and deletes left of them: one batch of each.
 * *more: there is more to do now; *next: when the next row expires (NEVER: none). Blocks until on
 * disk: a pool job. */
MUST_CHECK static inline err table_store_upkeep(struct table_store *s, bool *more, store_time *next)
{
    return s->ops->upkeep(s, more, next);
}
static inline void table_store_stats(struct table_store *s, struct tables_stats *out)
{
    s->ops->stats(s, out);
}

#endif
