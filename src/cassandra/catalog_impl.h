/* catalog_impl.h - what the files of catalog.h share. Private to this folder. */
#ifndef CASSANDRA_CATALOG_IMPL_H
#define CASSANDRA_CATALOG_IMPL_H

#include "cassandra/catalog.h"
#include "cql/cql.h"

enum catalog_statement {
    CATALOG_LIST,
    CATALOG_GET,
    CATALOG_GENERATION,
    CATALOG_NOTED, /* is there a note of this change? */
    CATALOG_MARK,  /* the generation */
    CATALOG_MARK_IF,
    CATALOG_NOTE,
    CATALOG_PUT,
    CATALOG_PUT_IF,
    CATALOG_DELETE,
    CATALOG_DELETE_IF,
    CATALOG_STATEMENTS
};
struct catalog {
    uint32_t magic;
    struct cql *client;
    struct loop *loop;
    struct clock *clock;
    void (*entropy)(void *dst, size_t n);
    char *texts[CATALOG_STATEMENTS];
    const struct cql_statement *statements[CATALOG_STATEMENTS];
};
#define CATALOG_MAGIC 0xca7a1090u

void catalog_put_id(struct cql_values *v, const struct catalog_id *id); /* none: null */
/* null: none. False: it is no id. */
bool catalog_get_id(const struct cql_cell *cell, struct catalog_id *out);
/* Until when a request of this call may take. */
mono catalog_deadline(const struct catalog *c, const struct store_call *call);
/* One statement, or a batch whose parts are still to be given. home NULL: done runs on the loop. */
struct cql_request catalog_request(struct home *home, mono deadline,
                                   void (*done)(struct cql_request *q));

#endif
