/* schema.h - the tables of a page store on Cassandra: made, and brought to the version that this
 * program knows.
 *
 * Model. The keyspace holds a table `meta`, whose row 'schema' says the version. Each version is a
 * list of statements, which are safe to run twice. A server only looks (schema_look), and refuses
 * to work on another version. An operator applies (schema_apply), once, from one place: Cassandra
 * may fall apart when several clients change its schema at once. So apply takes a lock by a
 * conditional write, lets each statement reach all nodes before the next, and notes the version
 * last. A run that broke off is begun again.
 * Thread: the client's loop. */
#ifndef CASSANDRA_SCHEMA_H
#define CASSANDRA_SCHEMA_H

#include "base/err.h"
#include "base/times.h"

enum { SCHEMA_VERSION = 1, SCHEMA_LOCK_S = 120, SCHEMA_REPLICATION_BYTES_MAX = 400 };

struct cql;
struct schema_opts {
    struct cql *client; /* ready */
    struct clock *clock;
    const char *keyspace;
    /* As CQL has it: "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"; for a keyspace that is not
     * there. */
    const char *replication;
    mono deadline;
};
/* version: what is there; 0: nothing. ERR_OK also when it is another one than SCHEMA_VERSION. The
 * note is good during the call. */
typedef void schema_done_fn(void *ctx, err why, unsigned version, const struct err_note *note);
void schema_look(const struct schema_opts *o, schema_done_fn *done, void *ctx);
/* ERR_CONFLICT: another one applies just now (or did, and broke off less than SCHEMA_LOCK_S ago);
 * or the version that is there is newer than this program. */
void schema_apply(const struct schema_opts *o, schema_done_fn *done, void *ctx);

#endif
