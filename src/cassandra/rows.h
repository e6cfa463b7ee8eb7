/* rows.h - a row_store (store/row_store.h) that all servers of a cluster share: a scope of the
 * catalogue, of which each server keeps a copy.
 *
 * Model. Views read the copy, so they never wait. A look each second keeps it fresh (catalog.h). A
 * copy that may be older than ttl_ms is not read any more: ERR_UNAVAILABLE, and row_store_known is
 * false. So what one server changes holds on all within ttl_ms, or they say that they do not know.
 *   A change reads the scope at SERIAL, decides, and writes all rows by one conditional write; when
 * another server was first, it decides again. When it returns, the copy of this server has it.
 * Limits: those of a change of the catalogue. The note of an error may be shown to clients; the log
 * has the reason. Thread: as said there; what is here on the loop. */
#ifndef CASSANDRA_ROWS_H
#define CASSANDRA_ROWS_H

#include "cassandra/catalog.h"
#include "store/row_store.h"

#define CASSANDRA_ROWS_AUTH "auth" /* the scope of users, keys and roles */
enum { CASSANDRA_ROWS_TTL_MS = 5000, CASSANDRA_ROWS_WAIT_MS = 15000, CASSANDRA_ROWS_ROUNDS = 10 };

struct log;
struct cassandra_rows;
struct cassandra_rows_opts {
    struct catalog *catalog; /* outlives it */
    struct clock *clock;
    struct log *log;   /* NULL: silent */
    const char *scope; /* borrowed */
    int64_t ttl_ms;    /* 0: CASSANDRA_ROWS_TTL_MS */
    int64_t poll_ms;   /* 0: CATALOG_POLL_MS */
};
/* Begins to look at once. Owner: caller. */
struct cassandra_rows *cassandra_rows_new(const struct cassandra_rows_opts *o);
/* Changes are ERR_SHUTDOWN from now on. stopped is called once, later, when nothing is under way.
 * Those who wait in a change have returned by then. */
void cassandra_rows_stop(struct cassandra_rows *r, void (*stopped)(void *ctx), void *ctx);
/* Stopped, or the loop never ran. No timer is left by then, so the loop may be gone. */
void cassandra_rows_free(struct cassandra_rows **rp);
struct row_store *cassandra_rows_store(struct cassandra_rows *r);

#endif
