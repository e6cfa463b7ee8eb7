/* values.h - buckets of values on Cassandra: a table store for the tables of the value service
 * alone, `.key_value.NAME` and `.key_rev_value.NAME` (value/value.h). Other tables, and queries in
 * JSON, are refused with ERR_BAD by name.
 *
 * Model. The values of one key are one partition of the table `value`, a row for each revision and
 * tid; of key_value one row. A write reads what it judges, decides, and writes by a conditional
 * batch: "if nothing of this key has changed since". So all writes of a key happen one behind the
 * other, on any number of servers: conditions, tids that are minted, what a policy keeps, and the
 * last writer of two. Nothing is written to that table in another way.
 *   Each write has an id. The version of a key is the ids of its last writes, the newest first.
 * When an answer is lost, the version is read at SERIAL: it says whether the write happened. A
 * value of more than VALUES_INLINE_BYTES lies in chunks under its id in `value_chunk`, written
 * before its row and named by it. What no row names is deleted by the upkeep.
 *   A row is there until its column `expires`, judged by the clock of who reads. TTLs of Cassandra
 * free space a day later and decide nothing.
 *   Keys of a bucket lie in `value_key`, in VALUES_SHARDS partitions: written before the first row
 * of a key, deleted by the upkeep when there are no rows. A listing looks at each key's rows.
 *   What a bucket is stands in the catalog (catalog.h), with an id that is another one each time it
 * is made. The id is part of all keys, so a bucket that was dropped and made again is empty. The
 * upkeep is one server's at a time: it holds a lease, as sweeps of titles do (sweep.h), and
 * another one begins the way through anew when that ended. A server remembers a bucket for
 * VALUES_FRESH_MS; a change or a drop is answered after that time, so
 * that no server goes by the old one any more.
 * Consistency: reads at LOCAL_QUORUM, what writes judge at QUORUM, writes at SERIAL and
 * EACH_QUORUM. Why so: docs/adr/0052. Thread: any but the client's loop. */
#ifndef CASSANDRA_VALUES_H
#define CASSANDRA_VALUES_H

#include "cassandra/catalog.h"
#include "store/table_store.h"

enum {
    VALUES_INLINE_BYTES = 16 << 10,
    VALUES_CHUNK_BYTES = 512 << 10,
    VALUES_BODY_BYTES_MAX = 64 << 20, /* of one value */
    VALUES_SHARDS = 64,
    VALUES_FRESH_MS = 1000,
    VALUES_WAIT_MS = 10000,       /* of a request without a deadline */
    VALUES_DEAD_ROWS_MAX = 10000, /* before the first row that is alive, of a condition */
    VALUES_SWEEP_PERIOD_S = 86400,
    VALUES_LEASE_S = 300,
    VALUES_SPARE_S = 3600, /* so old is what no row names when the upkeep deletes it */
};

struct values;
struct values_opts {
    struct cql *client; /* outlives it, as the others */
    struct catalog *catalog;
    struct loop *loop; /* the client's */
    struct clock *clock;
    struct log *log;      /* NULL: silent */
    const char *keyspace; /* as of titles_new */
    const char *dc;       /* of this server: where leases are of; NULL: "" */
    int64_t period_ns;    /* of a sweep by all servers; 0: VALUES_SWEEP_PERIOD_S */
    uint32_t srv;         /* of this run of this server: no two have the same */
    /* The name of a domain by its number in requests; borrowed for good. False: there is none */
    bool (*domain)(void *ctx, uint32_t number, str *name);
    void *ctx;
};
/* Registers its statements with the client. NULL: ERR_BAD with a note. Thread: the client's loop,
 * or before it runs. */
struct values *values_new(const struct values_opts *o, struct err_note *note);
void values_free(struct values **vp); /* no request is under way */
struct table_store *values_store(struct values *v);
/* srv, for whom it is not known before; before any request. */
void values_number(struct values *v, uint32_t srv);

#endif
