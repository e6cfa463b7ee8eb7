/* store.h - the page store on Cassandra (store/page_store.h): what a server keeps its pages in when
 * store.kind is cassandra.
 *
 * Model. It opens by steps, while the loop runs: it looks at the schema, reads the policies
 * (policies.h), takes a number for this run (incarnation.h), and compares clocks (skew.h). Until it
 * is open every request is ERR_UNAVAILABLE. A cluster that does not answer is asked again; so a
 * server may start before its cluster. A schema of another version is looked at again, too: the
 * verb that applies it may come later. Once open it asks each second for one row, at LOCAL_QUORUM:
 * whether that is answered is whether the store is ready. It looks as often whether policies came.
 * It looks at the tables, too (store_watch.c): while one is missing every request is
 * ERR_UNAVAILABLE, with a note that begins with "schema_missing"; when one was dropped and made
 * again, or the whole keyspace was, all are for good ("keyspace_remade"), and the server must end.
 * Each skew_period it compares clocks. While this server's clock is off by more than max_skew,
 * writes are ERR_UNAVAILABLE, with a note that begins with "clock_skew"; reads go on. Of a request
 * that Cassandra did not carry out the caller is told only that; the log has the reason, with the
 * node. Thread: as said there; what is here on the loop, unless said. */
#ifndef CASSANDRA_STORE_H
#define CASSANDRA_STORE_H

#include "store/page_store.h"
#include "store/table_store.h"

enum { CASSANDRA_STORE_TICK_MS = 200, CASSANDRA_STORE_OPEN_MS = 30000 };

struct cql;
struct log;
struct loop;
struct cassandra_store;
struct cassandra_store_opts {
    struct cql *client; /* outlives it */
    struct loop *loop;  /* the client's */
    struct clock *clock;
    struct log *log;
    struct home *pool; /* where bytes are hashed and compressed */
    const char *keyspace;
    const char *dc; /* the client's: where due hours and leases are of */
    uint64_t random;
    void (*entropy)(void *dst, size_t n);             /* as of catalog_opts */
    int64_t max_skew_ns, write_timeout_ns, making_ns; /* as of cassandra_pages_opts */
    unsigned renders_max;                             /* as there */
    int64_t skew_period_ms;
    int64_t sweep_period_ns; /* of titles and of values; 0 as below: as of sweep.h */
    unsigned sweep_titles_per_s;
    double due_sample; /* as of cassandra_pages_opts */
    /* Runs the loop until *over and returns true, where the caller is the loop's thread, and the
     * loop does not run: for who waits while the server starts. NULL: nobody does */
    bool (*turn)(void *ctx, const atomic_bool *over);
    void *ctx;
    bool unguarded; /* the clock is moved on purpose: it is compared with nobody's */
    const struct page_bucket_opts *buckets; /* copied; what they point to is borrowed */
    unsigned buckets_count;
    /* Buckets of values whose policies all servers must have: by the names of their tables.
     * Borrowed for its life */
    const struct page_bucket_opts *values;
    unsigned values_count;
};
/* NULL: ERR_BAD with a note. Thread: the client's loop, or before it runs. Owner: caller. */
struct cassandra_store *cassandra_store_new(const struct cassandra_store_opts *o,
                                            struct err_note *note);
/* No request is under way, and cassandra_store_close was called. */
void cassandra_store_free(struct cassandra_store **sp);
struct page_store *cassandra_store_pages(struct cassandra_store *s);
struct catalog;
struct catalog *cassandra_store_catalog(struct cassandra_store *s);
/* Buckets of values alone (values.h). Open as the pages are. */
struct table_store *cassandra_store_tables(struct cassandra_store *s);

/* Goes on with what is due. Each CASSANDRA_STORE_TICK_MS. */
void cassandra_store_tick(struct cassandra_store *s);
/* New requests are ERR_SHUTDOWN, and none is being started when this returns; before cql_stop, and
 * the loop runs until the client has stopped. */
void cassandra_store_close(struct cassandra_store *s);

struct cassandra_store_state {
    bool open;
    bool ready;  /* any thread may ask cassandra_store_ready */
    bool denied; /* while it opens: the schema is missing, or of another version; or the policies
                    of buckets are others than those of the cluster */
    bool skewed;
    bool whole;               /* its tables are there; until it is open true */
    bool strange;             /* its tables are others: it never takes a request again */
    int64_t ahead_ns;         /* this clock is, as last seen */
    uint32_t number;          /* of this run; 0: none yet */
    char why[ERR_NOTE_BYTES]; /* it is not open, or not ready; empty: no reason is known yet */
};
void cassandra_store_look(const struct cassandra_store *s, struct cassandra_store_state *out);
struct cassandra_sweep_figures;
/* Zeros before it was open. Thread: loop. */
void cassandra_store_swept(const struct cassandra_store *s, struct cassandra_sweep_figures *out);
bool cassandra_store_ready(const struct cassandra_store *s); /* any thread */
/* The same; the note says why not, in words for any client. Thread: any. */
bool cassandra_store_tell(struct cassandra_store *s, struct err_note *note);
/* Somebody changed the schema of that keyspace. */
void cassandra_store_schema_changed(struct cassandra_store *s, str keyspace);

#endif
