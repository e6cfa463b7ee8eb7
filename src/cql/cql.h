/* cql.h - a client of one Apache Cassandra cluster (3.11 and later): protocol 5 and 4, prepared
 * statements, routing by token and data centre.
 *
 * Model. A client (struct cql) belongs to one loop. It finds the nodes through contact points,
 * keeps one control connection, on which it learns of changes, and `connections` connections to
 * each node of the local data centre. Statements are registered once and prepared on each node at
 * first use. A request names statements and their values, how many replicas have to agree, and its
 * deadline; it is started on any thread and is done once, at the home that it names.
 *   Routing. The nodes that hold the partition come first, in random order; those that are slow
 * come last; other nodes of the data centre follow. Remote data centres are used when nothing else
 * is left, and only when remote_dcs says so.
 *   Retries. A request that never left is sent to the next node. One that was sent is sent again
 * only when its statement is idempotent, once, and within its deadline (failure.h has the table).
 * A speculative read is sent to a second node when the first is slower than 99 of 100.
 *   Write timestamps. A plain write says its own (timestamp_us): the same write again is then the
 * same write. A conditional write (IF ...) must not, nor a batch with one in it: the server takes
 * the ballot's. Both are ERR_BAD otherwise. lint.h tells which statement is which.
 *   Limits. A connection has inflight_max requests under way, a node waiting_max that wait. One
 * more is ERR_LIMIT at once. Requests of the class CQL_BACKGROUND take a quarter of that, and at
 * least one.
 * Sources: the protocol's specifications; the manuals of the Java driver for retries and
 * speculation; docs/cql.md tells how to use it, example/cql.c is a program. Thread: loop, unless
 * said. */
#ifndef CQL_CQL_H
#define CQL_CQL_H

#include "base/heap.h"
#include "base/home.h"
#include "base/list.h"
#include "base/times.h"
#include "cql/failure.h"
#include "cql/transport.h"

enum {
    CQL_CONTACT_POINTS_MAX = 16,
    CQL_CONNECTIONS_MAX = 8,
    CQL_STATEMENTS_MAX = 256,
    CQL_PARTS_MAX = 256, /* of a batch */
    CQL_NODES_MAX = 1024,
    CQL_NODE_TEXT_BYTES = 64, /* "[2001:db8::1]:9042" */
};
#define CQL_PORT 9042

struct loop;
struct log;
struct cql;

/* Where a node can be reached, by where it says it can be: for port forwarding and tests. Contact
 * points are not mapped. The first that fits counts. */
struct cql_mapped {
    const char *from, *to; /* "10.0.0.1:9042", "[::1]:9042"; without a port: any, which stays */
};
/* All strings are borrowed for the client's life. [] is the default where 0 is given. */
struct cql_opts {
    struct loop *loop;
    struct clock *clock;
    struct log *log;                                    /* NULL: silent */
    uint64_t seed;                                      /* of jitter and of the order of replicas */
    const char *contact_points[CQL_CONTACT_POINTS_MAX]; /* "host" or "host:port" */
    unsigned contact_points_count;
    const char *local_dc; /* needed */
    bool remote_dcs;
    const char *user, *password; /* NULL: none */
    bool plain_anywhere;         /* send the password without TLS to other machines too */
    struct cql_tls *tls;         /* NULL: none; outlives the client */
    bool lz4;
    unsigned version_max;               /* [5] */
    unsigned connections;               /* to each node [2] */
    unsigned inflight_max;              /* of a connection [1024] */
    unsigned orphans_max;               /* unanswered and given up, of a connection [256] */
    unsigned waiting_max;               /* of a node [1024] */
    size_t request_bytes_max;           /* values of one request [16 MiB] */
    size_t answer_bytes_max;            /* [64 MiB] */
    int64_t connect_timeout_ms;         /* [5000] */
    int64_t heartbeat_ms;               /* [10000] */
    int64_t answer_timeout_ms;          /* of a heartbeat, and of a PREPARE [5000] */
    int64_t retry_min_ms, retry_max_ms; /* between tries to connect [250, 30000] */
    int64_t refresh_ms;                 /* between looks at the whole cluster [60000] */
    int64_t speculate_min_ms;           /* the least time before a second node is asked [5] */
    const struct cql_mapped *mapped;
    unsigned mapped_count;
    /* It became ready (a node of the local data centre can be asked), or stopped being so. */
    void (*ready)(void *ctx, bool ready);
    /* Somebody changed the schema. Slices are good during the call. */
    void (*schema)(void *ctx, str target, str keyspace, str name);
    void *ctx;
};
/* Tries to connect once the loop runs. NULL: an option makes no sense; the note says which. Owner:
 * caller. Thread: the loop's, also before loop_run. */
struct cql *cql_new(const struct cql_opts *opts, struct err_note *note);
/* New requests are ERR_SHUTDOWN. Those under way go on until deadline, then they are too. stopped
 * is called once, when nothing is under way any more and each done has returned; then cql_free.
 * Nothing is started or canceled after stopped. */
void cql_stop(struct cql *c, mono deadline, void (*stopped)(void *ctx), void *ctx);
/* Who will start a request, and waits for something else before, holds the client: stopped is not
 * called until all have released it. Thread: any. */
void cql_hold(struct cql *c);
void cql_release(struct cql *c);
/* INVARIANT: stopped was called. */
void cql_free(struct cql **cp);
bool cql_is_ready(const struct cql *c); /* any thread */

/* ---- statements ---- */

struct cql_statement;
struct cql_statement_opts {
    const char *name; /* for errors and figures: "title.read". Static, as all here */
    const char *text; /* one statement, markers as `?`, the keyspace before the table's name */
    /* The types of markers and of columns, as CQL writes them: "text, text, bigint". A server whose
     * table is another one is refused with ERR_CONFLICT. NULL: not checked. */
    const char *takes, *gives;
    bool idempotent; /* run twice it has the same effect. Refused where the text says otherwise */
};
/* Owner: the client. NULL with a note: it is no single statement, names its markers, selects *, or
 * cannot be idempotent. Thread: loop, or before the loop runs. */
const struct cql_statement *cql_statement_new(struct cql *c, const struct cql_statement_opts *opts,
                                              struct err_note *note);

/* ---- requests ---- */

enum cql_class { CQL_FOREGROUND, CQL_BACKGROUND, CQL_CLASSES };
struct cql_part {
    const struct cql_statement *statement;
    const struct cql_values *values; /* NULL: none */
};
enum cql_way {
    CQL_WAY_EXECUTE, /* one part */
    CQL_WAY_BATCH,   /* parts, together; batch says of which kind */
    CQL_WAY_TEXT,    /* a statement as text, not prepared: for schema changes */
};

struct cql_body;
struct cql_outcome {
    /* ERR_OK; ERR_LIMIT: refused, nothing was sent, or the answer was too large; ERR_UNAVAILABLE:
     * no node, or too few replicas; ERR_TIMEOUT; ERR_DENIED; ERR_CONFLICT: the schema is another
     * one; ERR_IO: the connection was lost; ERR_BAD; ERR_SHUTDOWN */
    err why;
    bool unknown;                   /* a write failed, and may have happened or happen yet */
    int32_t code;                   /* enum cql_code of the server's error; -1: it is no server's */
    unsigned sent;                  /* how many times it went out, to any node */
    char node[CQL_NODE_TEXT_BYTES]; /* which answered, or was asked last; empty: none */
    struct err_note note;           /* names node, consistency, and what is known besides */
    struct cql_rows rows;           /* until cql_outcome_fini */
    bool traced;
    unsigned char trace[CQL_UUID_BYTES]; /* session_id in system_traces */
    struct cql_body *body;               /* the rows' bytes */
};
/* Frees what the outcome holds; afterwards the request may be started again. Thread: any. */
void cql_outcome_fini(struct cql_outcome *out);

struct cql_conn;
struct cql_message;
struct cql_call { /* one exchange with a node; the client's */
    void (*done)(struct cql_call *call, struct cql_message *m);
    struct cql_conn *conn; /* NULL: not under way */
    int16_t stream;
    uint64_t flushed;
};
enum { CQL_PLAN_MAX = 12, CQL_TRIES = 2 };
struct cql_try { /* the client's */
    struct cql_call call;
    struct cql_request *request;
    struct cql_node *node;       /* NULL: not under way */
    struct cql_columns *columns; /* of its rows, where the answer leaves them out */
    mono began;
};
struct cql_request {
    /* the caller's; all of it stays until done */
    enum cql_way way;
    enum cql_batch_kind batch;
    const struct cql_part *parts;
    unsigned parts_count;
    str text;                        /* of CQL_WAY_TEXT */
    const struct cql_values *values; /* of CQL_WAY_TEXT */
    struct cql_params params;        /* columns are left out by the client where it knows them */
    enum cql_class class;
    bool speculative; /* a read that may ask two nodes. Statements must be idempotent */
    bool traced;
    mono deadline;
    struct home *home; /* where done runs; NULL: on the loop */
    void (*done)(struct cql_request *q);
    struct cql_outcome out; /* set when done is called */
    /* the client's */
    struct cql *client;
    struct task task;
    struct heap_node due;
    mono started, due_at, speculate_at;
    struct list link;       /* of those that wait for a node, or for a statement there */
    struct cql_node *waits; /* at which node, while it waits; else NULL */
    struct cql_try tries[CQL_TRIES];
    uint16_t plan[CQL_PLAN_MAX]; /* nodes by place, in the order in which they are tried */
    unsigned plan_count, plan_at, retries, prepares;
    bool active, canceled, write, idempotent, schema;
};
/* INVARIANT: not under way. done is called once, after this has returned. Thread: any. */
void cql_start(struct cql *c, struct cql_request *q);
/* It ends soon, as ERR_TIMEOUT if nothing else ends it first. A write may happen all the same.
 * Thread: any; not after done. */
void cql_cancel(struct cql_request *q);

/* Waits until all nodes that are up have one schema, as after CREATE: asks every 200 ms. done is
 * called once, after this has returned: ERR_OK, ERR_TIMEOUT, or ERR_SHUTDOWN (cql_stop). A change
 * sent as CQL_WAY_TEXT goes to the node that is asked here, as long as it can be had. */
void cql_agree(struct cql *c, mono deadline, void (*done)(void *ctx, err why), void *ctx);

/* ---- looks ---- */

struct cql_node_stats {
    char node[CQL_NODE_TEXT_BYTES], dc[64], release[32];
    bool local, up, slow;
    unsigned connections, in_flight, waiting;
    int64_t latency_ns; /* of late */
};
struct cql_stats {
    unsigned version; /* of the protocol, on the last control connection; 0: none yet */
    bool control;
    bool denied; /* no node of late let us in: the user or the password is wrong, or missing */
    uint64_t requests[3]; /* by enum cql_way */
    uint64_t failed, refused, timeouts, retries, speculated, speculated_won, prepared,
        prepared_again, connects, lost, warnings, refreshes;
    uint64_t bytes_sent, bytes_received;
    unsigned in_flight, waiting;
    int64_t p99_ns; /* of reads of late; 0: too few */
    unsigned nodes_count;
};
void cql_stats(const struct cql *c, struct cql_stats *out);
/* Fills up to count nodes; returns how many there are. */
unsigned cql_nodes(const struct cql *c, struct cql_node_stats *out, unsigned count);

#endif
