/* schema_impl.h - what the files of schema.h share. Private to this folder. */
#ifndef CASSANDRA_SCHEMA_IMPL_H
#define CASSANDRA_SCHEMA_IMPL_H

#include "cassandra/schema.h"
#include "cql/cql.h"

enum { SCHEMA_META, SCHEMA_COLUMNS_MAX = 32 /* of a table */ };

struct schema_table {
    unsigned version; /* in which it came */
    const char *name, *rest;
};
extern const struct schema_table schema_tables[SCHEMA_TABLES];

/* What is there. */
struct schema_there {
    unsigned char ids[SCHEMA_TABLES][SCHEMA_ID_BYTES];      /* zeros: it is not */
    uint32_t columns[SCHEMA_TABLES], others[SCHEMA_TABLES]; /* by place; others: of another type */
};
bool schema_table_is_there(const struct schema_there *t, unsigned table);
/* Of table_name, id. False: they make no sense. */
MUST_CHECK bool schema_tables_take(struct schema_there *t, struct cql_rows rows);
/* Of table_name, column_name, type. */
MUST_CHECK bool schema_columns_take(struct schema_there *t, struct cql_rows rows);
/* Into missing and what it counts, of found->version; and ids. */
void schema_compare(const struct schema_there *t, struct schema_found *found);
/* The first column from *at on that a table lacks, as "name type"; false: there is none. */
bool schema_column_lacks(const struct schema_there *t, unsigned table, unsigned *at, str *column);

#endif
