/* node_impl.h - the parts of the fake cluster as its own files know them.
 *
 * All state is under one lock, which may be taken again by who has it. Connections belong to the
 * cluster's thread: only that makes, reads, writes and closes them; what other threads want of
 * them runs there (node_run). */
#ifndef TEST_CQL_NODE_IMPL_H
#define TEST_CQL_NODE_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "unit/cql/node.h"

#include <netinet/in.h>
#include <pthread.h>

enum {
    NODE_ID_BYTES = 16,
    NODE_BYTES_MAX = 512 << 20,
    NODE_PARTITION_MAX = 4,
    NODE_KEYSPACES_MAX = 16,
    NODE_NAME_BYTES = 64,
};

/* Columns or markers as they stand in metadata: name and type, one behind the other. */
struct node_shape {
    unsigned count;
    str bytes;
    unsigned char id[NODE_ID_BYTES];
};
/* What a statement's text means. */
enum node_meaning { MEANS_OTHER, MEANS_SYSTEM, MEANS_USE, MEANS_SCHEMA };
enum node_table { TABLE_LOCAL, TABLE_PEERS, TABLE_PEERS_V2, TABLE_KEYSPACES, TABLES };
struct node_plan {
    struct node_plan *next;
    str text;
    enum node_meaning meaning;
    char keyspace[NODE_NAME_BYTES], table[NODE_NAME_BYTES];
    struct node_shape markers, columns;
    bool has_columns;
    unsigned partition[NODE_PARTITION_MAX], partition_count;
    str cells; /* of rows, one behind the other */
    enum node_table system;
    struct cql_schema_change change;
    int32_t code; /* not 0: the text is refused by it */
    str message;
};

/* An answer on its way: one envelope. */
struct node_letter {
    struct node_letter *next;
    int64_t due_ms;
    unsigned held_by; /* a rule: it waits for its word; 0: for its time alone */
    struct buf envelope;
    enum node_fault fault;
    bool framed, reset;
    int16_t stream;
};
enum node_stage { STAGE_NEW, STAGE_AUTH, STAGE_READY };
struct node_conn {
    struct node_conn *next;
    struct node_cluster *cluster;
    unsigned node, number;
    int fd;
    enum node_stage stage;
    unsigned version;                  /* 0: nothing came yet */
    bool framed, lz4;                  /* framed: version 5, behind the answer to STARTUP */
    unsigned registered;               /* BIT(enum cql_event_kind) */
    struct buf in, piece, gather, out; /* piece: of an envelope over several segments; gather:
                                          envelopes of the next segment */
    size_t sent;                       /* of out */
    struct node_letter *letters;       /* by their time */
    bool closing, reset;               /* behind out */
    bool deaf;                         /* its version was refused: what comes is thrown away */
    bool ended;                        /* said good-bye: what comes is thrown away */
    bool dead;                         /* the thread frees it */
    unsigned in_flight;
    unsigned char streams[CQL_STREAMS_MAX / 8];
};

struct node {
    struct sockaddr_in at;
    int keep, listen; /* keep: holds the port while nobody listens */
    char host[INET_ADDRSTRLEN];
    bool frozen;
    unsigned version_max, in_flight, in_flight_max, accepted;
    struct map *prepared; /* id to text */
    /* its row */
    char dc[NODE_NAME_BYTES], rack[NODE_NAME_BYTES], release[NODE_NAME_BYTES];
    char address[46], nulls[256];
    uint16_t port; /* 0: where it listens */
    int64_t tokens[NODE_TOKENS_MAX];
    unsigned tokens_count;
    uint64_t schema, host_number;
    bool absent;
};
struct node_rule {
    struct node_rule *next;
    unsigned number;
    int node;
    struct node_match match;
    struct node_action action;
    struct node_shape columns;
    bool has_columns, gone;
    str cells;
    unsigned passed, used;
};
struct node_record {
    struct node_request request;
    bool registered;
};
struct node_keyspace_row {
    char name[NODE_NAME_BYTES];
    char replication[256];
};
typedef void node_task_fn(struct node_cluster *c, void *ctx);

struct node_cluster {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int wake;
    bool stop;
    node_task_fn *task; /* NULL: none waits */
    void *task_ctx;
    struct node_opts opts;
    char user[NODE_NAME_BYTES], password[NODE_NAME_BYTES];
    unsigned count;
    struct node nodes[NODE_MAX];
    struct node_conn *conns;
    unsigned conns_made, in_flight, in_flight_max;
    struct arena arena; /* for all that lives as long as the cluster */
    struct node_plan *plans;
    struct node_rule *rules;
    unsigned rules_made;
    struct node_record *records;
    size_t records_count, records_size, records_first;
    struct node_keyspace_row keyspaces[NODE_KEYSPACES_MAX];
    unsigned keyspaces_count;
    char *unpacked; /* of a segment */
    char complaint[256];
};

/* node.c */
void node_lock(struct node_cluster *c);
void node_unlock(struct node_cluster *c);
int64_t node_now_ms(void);
struct node *node_of(struct node_cluster *c, int node);
/* Runs it on the thread, and returns when that is done. */
void node_run(struct node_cluster *c, node_task_fn *task, void *ctx);
str node_keep(struct node_cluster *c, str s); /* a copy for good */
void node_complain(struct node_conn *conn, const char *format, ...) PRINTF_LIKE(2, 3);

/* node_conn.c: bytes in and out. All: thread. */
void node_conn_read(struct node_conn *conn);
void node_conn_write(struct node_conn *conn);
/* Letters whose time has come. */
void node_conn_letters(struct node_conn *conn, int64_t now_ms);
/* Those that a rule holds, or any for 0. Returns how many. */
unsigned node_conn_release(struct node_conn *conn, unsigned rule);
void node_conn_end(struct node_conn *conn, bool reset);
void node_conn_free(struct node_conn *conn);
/* Sends an envelope in its time and with its fault: what else the letter says is set. Takes the
 * envelope over. */
void node_conn_post(struct node_conn *conn, const struct node_letter *letter);

/* node_read.c: NULL, or what is wrong with the request. Slices are borrowed from body. */
struct node_read {
    str unknown_id;    /* of a statement that the node has not prepared; empty: none */
    bool values_unfit; /* a statement has more or fewer markers */
};
const char *node_read(struct node_conn *conn, str body, struct node_request *r,
                      struct node_read *out);

/* node_talk.c: a request came. */
void node_talk(struct node_conn *conn, const struct cql_head *head, str body);
/* An ERROR in place of an answer to whatever came. */
void node_talk_refuse(struct node_conn *conn, unsigned version, int16_t stream, const char *what);

/* An EVENT. */
void node_talk_event(struct node_conn *conn, const struct cql_event *e);

/* node_answer.c: bodies of answers. */
struct node_page {
    unsigned rows, empty; /* as in node_action */
};
/* Is the state of a page that it asks for one of ours, or none? */
bool node_page_known(const struct node_request *r);
void node_put_failure(struct buf *out, unsigned version, const struct cql_failure *f,
                      const struct sockaddr_in *who);
void node_put_rows(struct buf *out, const struct node_conn *conn, const struct node_request *r,
                   const struct node_plan *plan, const struct node_page *page);
void node_put_prepared(struct buf *out, unsigned version, const unsigned char *id,
                       const struct node_plan *plan);
void node_put_schema(struct buf *out, const struct cql_schema_change *s);
void node_put_event(struct buf *out, const struct cql_event *e);
void node_put_string(struct buf *out, const char *s);

/* node_tables.c: what texts mean. */
struct node_shape node_shape_of(struct node_cluster *c, const char *columns);
/* Never NULL; lives as long as the cluster. */
const struct node_plan *node_plan(struct node_cluster *c, str text);
unsigned char *node_id(struct node_cluster *c, unsigned node, str text,
                       unsigned char out[NODE_ID_BYTES]);
size_t node_find(str text, const char *word); /* of any case; text.n: not there */
str node_select_list(str text);               /* what stands between SELECT and FROM */
str node_list_next(str *rest, char sep);      /* trimmed; brackets are not looked into */

/* node_system.c: the system tables. */
/* Fills columns of a SELECT, or code and message. */
void node_system_plan(struct node_cluster *c, struct node_plan *plan);
bool node_system_find(str name, enum node_table *out);
void node_system_rows(struct node_cluster *c, unsigned node, const struct node_plan *plan,
                      const struct node_request *r, struct buf *cells);

/* node_rules.c */
const struct node_rule *node_rule_take(struct node_conn *conn, const struct node_request *r);
void node_record(struct node_conn *conn, const struct node_request *r);
unsigned node_cells(str cells); /* how many [value]s */

#endif
