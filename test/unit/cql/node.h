/* node.h - a fake cluster of Cassandra inside a test, for the faults that no real one makes on
 * demand.
 *
 * A thread of its own serves all nodes. Each listens on loopback and speaks version 4 and 5 of the
 * native protocol, also in LZ4. Without a word from the test a node behaves as Cassandra does: it
 * does the handshake, describes the cluster in its system tables, prepares statements and answers
 * all others with nothing. The test scripts it by rules, and reads what the clients sent. A client
 * that breaks the protocol gets an ERROR and a complaint is kept: node_complaint.
 *
 * Requests are read and answers are written by code of this folder alone, so that a mistake of the
 * client's codec shows; only segments and LZ4 are the client's (cql/segment.h).
 *
 * Strings and values given are copied. What is returned lives as long as the cluster. A broken
 * belief, such as a node that is not, ends the program. Thread: any, except node_new and node_free.
 * Nothing sleeps. */
#ifndef TEST_CQL_NODE_H
#define TEST_CQL_NODE_H

#include "cql/answer.h"

enum { NODE_MAX = 16, NODE_ANY = -1, NODE_TOKENS = 4, NODE_WARNINGS_MAX = 4, NODE_TOKENS_MAX = 64 };

/* Zero is the ordinary choice everywhere. */
struct node_opts {
    unsigned nodes;       /* 0: one */
    unsigned dcs, racks;  /* nodes are dealt out to "dc1", "dc2" and, in each, "rack1", "rack2" in
                             turn; 0: one */
    unsigned version_max; /* 0: version 5. 4: version 5 is refused; the connection stays open */
    bool one_port;        /* 127.0.0.1, 127.0.0.2, ... at one port, as real nodes have it; else
                             127.0.0.1 at a port for each. system.peers tells no port */
    bool no_peers_v2;     /* as Cassandra 3.11: the table is not there, version 5 is a beta, and
                             refused in an envelope of its own version */
    bool no_lz4;
    bool ids_differ;             /* every node has other ids for prepared statements */
    const char *user, *password; /* NULL: nobody has to log in */
    const char *release;         /* NULL: "5.0.9" */
};
struct node_cluster;
struct node_cluster *node_new(const struct node_opts *opts);
/* Closes everything and ends the thread. */
void node_free(struct node_cluster **cp);

const char *node_host(struct node_cluster *c, unsigned node); /* "127.0.0.1" */
uint16_t node_port(struct node_cluster *c, unsigned node);
void node_host_id(struct node_cluster *c, unsigned node, unsigned char out[CQL_UUID_BYTES]);
/* NODE_TOKENS each, at even distances around the ring. */
int64_t node_token(struct node_cluster *c, unsigned node, unsigned index);
/* What a client did against the protocol, the first such thing; NULL: nothing yet. */
const char *node_complaint(struct node_cluster *c);

/* ---- what the cluster is ---- */

/* What a node's row in the system tables says. Zero: as before. */
struct node_about {
    const char *dc, *rack, *release;
    const char *address; /* where clients are sent: not where it listens. "": back to that */
    uint16_t port;
    const int64_t *tokens;
    unsigned tokens_count;
    uint64_t schema;   /* a schema version */
    uint64_t host;     /* another host_id: a node took the place of another */
    const char *nulls; /* columns that are null: "host_id, rpc_address". "": none */
    enum { NODE_AS_BEFORE, NODE_ABSENT, NODE_PRESENT } presence; /* in the peers of the others */
};
void node_describe(struct node_cluster *c, unsigned node, const struct node_about *about);
/* It closes all, and listens at another port from now on; its row says so. */
void node_move(struct node_cluster *c, unsigned node);
/* A keyspace. Replication: pairs as "class=NetworkTopologyStrategy, dc1=3"; NULL: it is dropped.
 * There from the start: system, system_schema and ks (NetworkTopologyStrategy, dc1=3). */
void node_keyspace(struct node_cluster *c, const char *name, const char *replication);

/* What a statement is, by its exact text; told again, it changes as by ALTER TABLE: version 5 then
 * answers with the new metadata, version 4 does not tell. Not told: every ? is a marker, of a blob,
 * the partition key is not known, a SELECT has the columns it names, all blobs, and no rows; all
 * else has no result. Types as CQL writes them: "k text, rev bigint, tags map<text, blob>". */
struct node_statement {
    const char *text;
    const char *markers; /* NULL: counted from the text */
    unsigned partition[4], partition_count;
    const char *columns;           /* NULL: as above */
    const struct cql_values *rows; /* cells of row after row; NULL: no rows */
};
void node_statement(struct node_cluster *c, const struct node_statement *s);

/* ---- verbs ---- */

void node_down(struct node_cluster *c, unsigned node);   /* closes its port and its connections */
void node_up(struct node_cluster *c, unsigned node);     /* listens again, knows no statement */
void node_freeze(struct node_cluster *c, unsigned node); /* as SIGSTOP: the kernel still accepts */
void node_thaw(struct node_cluster *c, unsigned node);
void node_forget(struct node_cluster *c, int node); /* all prepared statements, or NODE_ANY */
void node_version_max(struct node_cluster *c, unsigned node, unsigned version);
/* Closes a connection, or all of a node for 0; reset: by RST. */
void node_cut(struct node_cluster *c, int node, unsigned connection, bool reset);
/* To all connections of the node (or NODE_ANY) that registered for its kind. CQL_EVENT_OTHER: to
 * all that registered for anything, with change as its type. Returns to how many it went. */
unsigned node_event(struct node_cluster *c, int node, const struct cql_event *e);
/* The same for what befell a node: "UP", "DOWN", "NEW_NODE", "REMOVED_NODE". */
unsigned node_event_of(struct node_cluster *c, int to, const char *change, unsigned of);

/* ---- rules ---- */

struct node_match {
    unsigned ops;        /* BIT(CQL_OP_QUERY) | ...; 0: all */
    const char *text;    /* is part of the statement's text, of one of a BATCH, or of what EXECUTE
                            runs; NULL: any */
    unsigned connection; /* 0: any */
    bool registered;     /* only on connections that registered for events */
    unsigned skip;       /* so many pass first */
    unsigned times;      /* 0: for ever */
};
enum node_act {
    NODE_USUAL,   /* what it would answer without a rule */
    NODE_ERROR,   /* action.error */
    NODE_ROWS,    /* action.columns, rows */
    NODE_SWALLOW, /* nothing, ever */
    NODE_FORGETS, /* forgets all prepared statements, then as usual */
    NODE_RAW,     /* action.op, body */
};
enum node_fault {
    NODE_WHOLE,
    NODE_CUT_BEFORE, /* closes in place of the answer */
    NODE_CUT_MIDDLE, /* behind half of its bytes */
    NODE_CUT_AFTER,
    NODE_OTHER_STREAM, /* on action.stream */
    NODE_TWICE,        /* in version 5 both in one segment */
    NODE_BODY_SHORT,   /* half of the message; the length says so too */
    NODE_BODY_LONG,    /* some bytes more than the message has: to be ignored */
    NODE_LENGTH,       /* the head has action.length, or INT32_MAX for 0 */
    NODE_OPCODE,       /* one that there is not: 0x1f */
    NODE_VERSION,      /* one that there is not: 7 */
    NODE_DIRECTION,    /* the head is a request's */
    NODE_SEGMENT_HEAD, /* version 5: a bit of the header is wrong */
    NODE_SEGMENT_DATA, /* version 5: a bit of the payload or its checksum is wrong */
};
struct node_action {
    enum node_act act;
    enum node_fault fault;
    unsigned delay_ms;
    bool held;  /* the answer, or the cut, waits for node_release */
    bool reset; /* cuts are by RST */
    int16_t stream;
    int32_t length;
    /* ERROR: its code, message and those fields that the code has. UNPREPARED without id: that of
     * the request. */
    struct cql_failure error;
    /* ROWS: as of a statement. NULL columns: those of the statement, with these rows. */
    const char *columns;
    const struct cql_values *rows;
    unsigned page_rows;   /* rows of a page; 0: as many as the request wants. A full page has a
                             successor, though that may be empty and the last: so has Cassandra */
    unsigned empty_pages; /* so many pages without a row, each with a successor, before each page */
    /* RAW: the node itself goes on as if nothing had come */
    enum cql_opcode op;
    str body;
    /* before any answer */
    const char *warnings[NODE_WARNINGS_MAX];
    bool traced;             /* a tracing id; it is there too when the request asks for one */
    struct cql_pair payload; /* no name: none */
};
/* The first rule that fits and is not used up decides about a request: first those for some times,
 * in the order of their making, then those for ever, the newest first. Returns its number. */
unsigned node_say(struct node_cluster *c, int node, const struct node_match *match,
                  const struct node_action *action);
void node_unsay(struct node_cluster *c, unsigned rule);    /* 0: all */
unsigned node_said(struct node_cluster *c, unsigned rule); /* how often it decided */
/* Sends what is held by the rule, or by all for 0. Returns how many answers these were. */
unsigned node_release(struct node_cluster *c, unsigned rule);

/* ---- what the clients sent ---- */

struct node_request {
    unsigned node, connection; /* connections are numbered from 1, over all nodes */
    int64_t at_ms;             /* monotonic */
    struct cql_head head;
    enum cql_opcode op;
    str text; /* of a BATCH: all, "; " between; STARTUP: "NAME=VALUE, ..."; REGISTER: kinds, ", "
                 between; AUTH_RESPONSE: the token */
    str id, columns_id;                       /* EXECUTE */
    unsigned params;                          /* the flags of QUERY, EXECUTE and BATCH, as sent */
    enum cql_consistency consistency, serial; /* serial CQL_ANY: not said */
    int64_t timestamp_us;                     /* CQL_NO_TIMESTAMP */
    int32_t page_rows, now_s;                 /* 0; CQL_NO_NOW */
    bool skip_columns;
    str page_state, keyspace;
    enum cql_batch_kind batch;
    unsigned statements;   /* of a BATCH */
    unsigned values_count; /* of all statements */
    str values;            /* [value] behind [value] */
    str payload;           /* a [bytes map]; empty: none */
};
/* The value at an index, n 0 of NULL: null or unset. INVARIANT: there is one. */
str node_value(const struct node_request *r, unsigned index);
/* Of a request that fits, by index in the order of their coming; skip and times of match do not
 * count. match NULL: all. False: there is none yet. */
bool node_request(struct node_cluster *c, int node, const struct node_match *match, unsigned index,
                  struct node_request *out);
unsigned node_requests(struct node_cluster *c, int node, const struct node_match *match);
/* What came so far counts no more. */
void node_clear(struct node_cluster *c);

struct node_counts {
    unsigned accepted, open, ready, registered; /* connections; the first: ever */
    unsigned in_flight, in_flight_max; /* requests without an answer: now, most at a time */
};
struct node_counts node_counts(struct node_cluster *c, int node);

/* False: the time was over first. Looks again whenever a request, a connection or its end came. */
bool node_wait(struct node_cluster *c, int node, const struct node_match *match, unsigned count,
               int64_t timeout_ms);
/* The same for anything that node_requests, node_request, node_counts and node_said tell. */
typedef bool node_look_fn(struct node_cluster *c, void *ctx);
bool node_wait_for(struct node_cluster *c, node_look_fn *look, void *ctx, int64_t timeout_ms);

#endif
