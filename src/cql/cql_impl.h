/* cql_impl.h - what the files of the client share: nodes, statements as nodes know them, the
 * control connection. Private to cql. Thread: loop. */
#ifndef CQL_CQL_IMPL_H
#define CQL_CQL_IMPL_H

#include "base/rng.h"
#include "cql/conn.h"
#include "cql/control.h"
#include "cql/lint.h"
#include "cql/ring.h"

#include <stdatomic.h>

enum { CQL_TICK_MS = 100, CQL_KEYSPACES_MAX = 1024, CQL_LATENCY_BUCKETS = 96 };

/* ---- statements ---- */

struct cql_statement {
    struct cql *client;
    struct cql_statement_opts opts;
    struct cql_lint lint;
    unsigned index;
    bool used; /* prepared once, somewhere: new nodes prepare it ahead */
    /* from the first answer to PREPARE */
    char keyspace[CQL_NAME_BYTES_MAX + 1], table[CQL_NAME_BYTES_MAX + 1];
    uint16_t partition[CQL_PARTITION_COLUMNS_MAX];
    unsigned partition_count;
};

enum cql_known_state { CQL_KNOWN_NOT, CQL_KNOWN_ASKED, CQL_KNOWN, CQL_KNOWN_STATES };
/* A statement on a node. Invariant: requests wait exactly while it is asked. */
struct cql_known {
    enum cql_known_state state;
    struct cql_node *node;
    struct cql_statement *statement;
    struct cql_call call;
    mono asked_at;
    struct list waiters; /* requests */
    char *ids;           /* the statement's id, then its columns' */
    size_t id_bytes, columns_id_bytes;
    struct cql_columns *columns; /* of its rows; NULL: none, or not told */
};

/* ---- nodes ---- */

struct cql_node {
    struct cql *client;
    unsigned place; /* in the client's nodes */
    bool local, leaving;
    bool told_down; /* by an event; for nodes that are not connected */
    bool seen;      /* the last look told of it */
    unsigned char host_id[CQL_UUID_BYTES];
    char text[CQL_NODE_TEXT_BYTES]; /* its address as it is reached */
    struct sockaddr_storage address;
    socklen_t address_bytes;
    char dc[CQL_NAME_BYTES_MAX + 1], rack[CQL_NAME_BYTES_MAX + 1], release[32];
    unsigned version; /* of the protocol, there; 0: not known: it has no connection */
    int64_t *tokens;
    unsigned tokens_count;
    struct cql_conn *conns[CQL_CONNECTIONS_MAX];
    unsigned open; /* of conns */
    mono retry_at; /* of a connection that is missing */
    int64_t retry_ms;
    mono opened_at;               /* the last connection that was */
    bool said;                    /* why it cannot be had is in the log */
    struct cql_known *statements; /* CQL_STATEMENTS_MAX, by index; NULL: none yet */
    struct list waiting[CQL_CLASSES];
    unsigned waiting_count[CQL_CLASSES]; /* also those that wait for a statement */
    unsigned turn;                       /* of the classes, so that none starves */
    unsigned in_flight[CQL_CLASSES];
    struct list dirty;  /* stands in the client's when something has to be flushed */
    int64_t latency_ns; /* moving average */
    mono slow_until;
    int64_t slow_ms;
};

struct cql_keyspace {
    char name[CQL_NAME_BYTES_MAX + 1];
    struct cql_replication how;
    struct cql_replicas *replicas; /* in the local data centre; NULL: not known */
};

struct cql {
    uint32_t magic;
    struct cql_opts opts;
    struct rng rng;
    unsigned version; /* of the control connection */
    atomic_bool ready;
    bool stopping, stopped;
    atomic_uint started; /* requests whose done has not returned */
    atomic_uint holds;   /* of cql_hold */
    mono stop_deadline;
    void (*on_stopped)(void *ctx);
    void *stopped_ctx;
    struct loop_timer *tick, *due_timer;
    int64_t due_set_ns; /* what due_timer is set for */
    struct heap due;    /* requests, by due_at */
    struct cql_statement *statements[CQL_STATEMENTS_MAX];
    unsigned statements_count;
    struct cql_node *nodes[CQL_NODES_MAX];
    unsigned nodes_count; /* places in use at the front; a place may be NULL */
    struct cql_keyspace *keyspaces;
    unsigned keyspaces_count;
    struct cql_ring *ring;
    uint16_t *ring_places; /* of the ring's nodes */
    bool ring_stale;       /* nodes have changed since the ring was built */
    struct cql_control control;
    struct buf routing; /* of the request that is planned */
    struct list agreements, dirty;
    struct task flush, poke;
    bool flush_posted;
    atomic_bool poked;
    struct cql_stats stats;
    /* latencies of reads: 4 buckets an octave (plan.c), halved each second */
    uint32_t latencies[CQL_LATENCY_BUCKETS];
    uint32_t latencies_count;
    int64_t p99_ns;
    mono warned_at;
    unsigned ticks;
};
#define CQL_MAGIC 0xca55a0d2u

static inline mono cql_now(const struct cql *c)
{
    return clock_mono(c->opts.clock);
}

/* cql.c */
void cql_due_arm(struct cql *c); /* the timer of the first request that is due */
void cql_flush_soon(struct cql *c, struct cql_node *n); /* at the end of the loop's turn */
void cql_ready_judge(struct cql *c); /* a node came up or went: tells when that changed ready */
/* How long to wait before the next try: *retry_ms doubles between the options' bounds (0: the first
 * try); the wait is random in its upper half. */
int64_t cql_backoff_ms(struct cql *c, int64_t *retry_ms);
struct cql_conn_opts cql_conn_opts_of(struct cql *c);

/* address.c: "10.0.0.1:9042", "[::1]:9042" */
void cql_address_print(const struct sockaddr_storage *a, char out[CQL_NODE_TEXT_BYTES]);
void cql_address_host(const char *text, char out[CQL_NODE_TEXT_BYTES]); /* without port, brackets */
uint16_t cql_address_port(const struct sockaddr_storage *a);
/* From a number as text; false: it is none. */
MUST_CHECK bool cql_address_read(const char *host, uint16_t port, struct sockaddr_storage *out,
                                 socklen_t *bytes);
bool cql_address_same(const struct sockaddr_storage *a, socklen_t a_bytes,
                      const struct sockaddr_storage *b, socklen_t b_bytes);
/* Is it an address, maybe with a port: "10.0.0.1:9042", "::1", "[::1]:9042"? */
MUST_CHECK bool cql_address_text_is_good(const char *text);
/* "host", "host:port", "[v6]:port", "v6". False: it is none. */
MUST_CHECK bool cql_point_split(const char *text, char host[CQL_HOST_BYTES_MAX + 1], char port[6]);
/* By the client's map. */
void cql_address_map(const struct cql *c, struct sockaddr_storage *a, socklen_t *bytes);

/* nodes.c */
/* NULL: there are CQL_NODES_MAX. */
struct cql_node *cql_node_new(struct cql *c);
void cql_node_free(struct cql *c, struct cql_node *n);
void cql_node_tick(struct cql_node *n, mono now);
/* The node is told to be at another address. Open connections stay: they would have ended if the
 * node had begun anew there. */
void cql_node_move(struct cql_node *n, const struct sockaddr_storage *to, socklen_t bytes);
bool cql_node_is_up(const struct cql_node *n);
/* A connection with room for one more of the class; NULL: none. */
struct cql_conn *cql_node_conn(struct cql_node *n, enum cql_class class);
/* How many of the class may wait at a node. */
unsigned cql_waiting_max(const struct cql *c, enum cql_class class);
/* The node kept a request waiting too long: it is asked last for a while. */
void cql_node_slow(struct cql_node *n, mono now);
void cql_node_answered(struct cql_node *n, int64_t took_ns);
void cql_node_serve(struct cql_node *n); /* sends what waits there, as far as there is room */
/* NULL: there is none. */
struct cql_node *cql_node_of(const struct cql *c, const unsigned char host_id[CQL_UUID_BYTES]);

/* known.c: statements on nodes */
struct cql_known *cql_known_of(struct cql_node *n, const struct cql_statement *st);
/* Asks the node to prepare it, when it is not known. False: no connection has room. */
bool cql_known_ask(struct cql_known *k);
void cql_known_forget(struct cql_known *k);
/* Its rows have other columns from now on: told with a result. False with a note: these are not of
 * the types that the code was written for. */
MUST_CHECK bool cql_known_columns(struct cql_known *k, str id, struct cql_columns *columns,
                                  struct err_note *note);
void cql_known_tick(struct cql_node *n, mono now);
void cql_known_free(struct cql_node *n);
void cql_known_ahead(struct cql_node *n); /* all statements in use: it came up */
void cql_known_changed(struct cql *c, str keyspace, str table);

/* plan.c */
struct cql_keyspace *cql_keyspace_find(struct cql *c, const char *name); /* NULL: not told of */
void cql_plan(struct cql *c, struct cql_request *q);                     /* sets q->plan */
/* NULL: it went, or speaks too old a version for this request. */
struct cql_node *cql_plan_node(const struct cql_request *q, unsigned at);
/* One that is up and too old; NULL: none. */
const struct cql_node *cql_plan_misfit(const struct cql_request *q);
void cql_latency_note(struct cql *c, int64_t took_ns); /* of a read that was answered */
void cql_latency_age(struct cql *c);                   /* each second: reckons p99_ns anew */

/* check.c: sets what kind of request it is. ERR_BAD or ERR_LIMIT: the outcome's note says why */
MUST_CHECK err cql_request_check(struct cql_request *q);

/* outcome.c: what an answer says of a request */
void cql_outcome_failure(struct cql_request *q, const struct cql_failure *f,
                         const struct cql_node *n);
/* Answered so, it was not executed, not even in part, and will not be. */
bool cql_outcome_is_harmless(const struct cql_request *q, const struct cql_failure *f);
/* The node has forgotten the statement with this id, or all of the request: no id. */
void cql_outcome_forget(struct cql_request *q, struct cql_node *n, str id);
/* Takes a result. columns: those that were left out of the answer. False: the answer is of no use;
 * why and note say so. */
MUST_CHECK bool cql_outcome_take(struct cql_request *q, struct cql_message *m, struct cql_node *n,
                                 struct cql_columns *columns);

/* request.c */
/* A wait at the node is over. False: it waits there again, for room. */
bool cql_request_go_on(struct cql_request *q, struct cql_node *n);
/* The node that it waits at is of no use; why says what happened there. */
void cql_request_elsewhere(struct cql_request *q, const char *why);
void cql_request_fail(struct cql_request *q, err why, const char *format, ...) PRINTF_LIKE(3, 4);
void cql_request_refused(struct cql_request *q, const struct cql_failure *f,
                         struct cql_node *n); /* by the server, before it was sent */
void cql_requests_due(struct cql *c, mono now);
void cql_requests_canceled(struct cql *c);
void cql_requests_end(struct cql *c, err why);

#endif
