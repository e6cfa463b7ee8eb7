/* schema.h - the tables of a page store on Cassandra: made, and brought to the version that this
 * program knows.
 *
 * Model. The keyspace holds a table `meta`, whose row 'schema' says the version. Each version is a
 * list of statements, which are safe to run twice. A server only looks (schema_look), and refuses
 * to work on another version. An operator applies (schema_apply), once, from one place: Cassandra
 * may fall apart when several clients change its schema at once. So apply takes a lock by a
 * conditional write, lets each statement reach all nodes before the next, and notes the version
 * last. A run that broke off is begun again.
 *   A look also compares the tables that are there with those that belong to that version, and
 * their columns, if it is this program's. What is missing then was dropped by somebody, with all
 * its rows: schema_apply makes it again only where it is told to. Why so: docs/adr/0055. Thread:
 * the client's loop. */
#ifndef CASSANDRA_SCHEMA_H
#define CASSANDRA_SCHEMA_H

#include "base/err.h"
#include "base/times.h"

enum {
    SCHEMA_VERSION = 1,
    SCHEMA_LOCK_S = 120,
    SCHEMA_REPLICATION_BYTES_MAX = 400,
    SCHEMA_TABLES = 14,
    SCHEMA_ID_BYTES = 16,
    SCHEMA_MISSING_BYTES = 160,
};

struct cql;
struct schema_opts {
    struct cql *client; /* ready */
    struct clock *clock;
    const char *keyspace;
    /* As CQL has it: "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"; for a keyspace that is not
     * there. */
    const char *replication;
    bool make_missing; /* of an apply: also what the version that is there should have */
    mono deadline;
};
struct schema_found {
    unsigned version; /* 0: none is noted */
    /* what belongs to that version and is not there. Of a keyspace without the table meta: that
     * one, if others are there */
    unsigned tables_missing, columns_missing;
    unsigned columns_other; /* of another type, or keys that are missing: another's table */
    char missing[SCHEMA_MISSING_BYTES]; /* names of all these, "" if none; cut when longer */
    /* of each table: which CREATE made it; zeros: it is not there. A table that was dropped and
     * made again has another */
    unsigned char ids[SCHEMA_TABLES][SCHEMA_ID_BYTES];
};
bool schema_is_whole(const struct schema_found *f); /* nothing of its version is missing or other */
/* What an operator is told of what was found, by a program of that version: ERR_OK, or ERR_CONFLICT
 * with a note, which names the verb. */
MUST_CHECK err schema_tell(const struct schema_found *f, unsigned version, const char *keyspace,
                           struct err_note *note);
/* ERR_OK also when the version is another one than SCHEMA_VERSION, or something is missing. found
 * and the note are good during the call. */
typedef void schema_done_fn(void *ctx, err why, const struct schema_found *found,
                            const struct err_note *note);
void schema_look(const struct schema_opts *o, schema_done_fn *done, void *ctx);
/* ERR_CONFLICT: another one applies just now (or did, and broke off less than SCHEMA_LOCK_S ago);
 * or the version that is there is newer than this program; or something is missing that should be
 * there, and make_missing does not say to make it. */
void schema_apply(const struct schema_opts *o, schema_done_fn *done, void *ctx);

#endif
