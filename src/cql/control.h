/* control.h - the control connection: what it is, what it reads, and what becomes of that. Private
 * to cql. Thread: loop. */
#ifndef CQL_CONTROL_H
#define CQL_CONTROL_H

#include "cql/conn.h"

enum cql_control_state {
    CQL_CONTROL_NONE,
    CQL_CONTROL_OPENING, /* to one node, or to all contact points at once */
    CQL_CONTROL_UP,
    CQL_CONTROLS
};
enum cql_look { /* what it reads, one behind the other */
                CQL_LOOK_NOT,
                CQL_LOOK_REGISTER,
                CQL_LOOK_LOCAL,
                CQL_LOOK_PEERS_V2,
                CQL_LOOK_PEERS,
                CQL_LOOK_KEYSPACES,
                CQL_LOOKS
};
struct cql_point { /* a place where a node may be */
    struct cql *client;
    struct sockaddr_storage address;
    socklen_t address_bytes;
    char host[CQL_HOST_BYTES_MAX + 1];
    struct cql_conn *conn; /* while it is a candidate */
    bool tried;
    bool shunned;  /* tried behind the others */
    mono again_at; /* once it has failed */
};
enum { CQL_POINTS_MAX = 64, CQL_STEADY_MS = 1000 };
struct cql_lookup; /* control.c */
struct cql_told;   /* topology.c: what a look has read so far */

struct cql_control {
    enum cql_control_state state;
    struct cql_conn *conn;
    struct cql_call call;
    enum cql_look look;
    bool peers_v2; /* the cluster has system.peers_v2 */
    mono look_at, asked_at, retry_at, next_at;
    int64_t retry_ms;
    struct cql_point points[CQL_POINTS_MAX];
    unsigned points_count;
    struct cql_lookup *lookup;
    struct cql_told *told;
    struct sockaddr_storage address; /* of the node it is connected to */
    socklen_t address_bytes;
    uint16_t port;
    mono opened_at;
    bool looked; /* a look was over on this connection */
    struct {
        struct sockaddr_storage address;
        socklen_t bytes;
    } shunned[CQL_POINTS_MAX]; /* where a look failed, since the last that was over */
    unsigned shunned_count;
    struct err_note why; /* of the last failure, here or of a node that has no connection */
    bool said;           /* the failure is in the log */
};

struct cql_agreement {
    struct list link;
    struct cql *client;
    struct cql_call call;
    bool asking, peers; /* peers: it asks for those, after the node itself */
    mono deadline, next_at, asked_at;
    unsigned char version[CQL_UUID_BYTES]; /* of the node itself */
    void (*done)(void *ctx, err why);
    void *ctx;
};

/* control.c */
void cql_control_tick(struct cql *c, mono now);
void cql_control_stop(struct cql *c);
/* Sends a statement as text on the control connection. False: there is none, or it is full. */
MUST_CHECK bool cql_control_ask(struct cql *c, struct cql_call *call, str text);
/* It is of no use: another one is opened. */
void cql_control_drop(struct cql *c, const char *why);
void cql_control_looked(struct cql *c); /* a look is over */

/* look.c: what the control connection reads, and what it is told */
void cql_look_tick(struct cql *c, mono now);
void cql_look_begin(struct cql *c);
void cql_look_soon(struct cql *c, int64_t ms);
void cql_look_drop(struct cql *c);
void cql_look_event(struct cql *c, const struct cql_event *e);

/* agree.c */
void cql_agreements_tick(struct cql *c, mono now);
void cql_agreements_end(struct cql *c, err why);

/* topology.c */
struct cql_told *cql_told_new(void);
void cql_told_free(struct cql_told **tp);
/* Takes rows. False with a note: they make no sense. */
MUST_CHECK bool cql_told_nodes(struct cql *c, struct cql_rows *rows, enum cql_look look,
                               struct err_note *note);
MUST_CHECK bool cql_told_keyspaces(struct cql *c, struct cql_rows *rows, struct err_note *note);
/* What was told is how it is, from here on. */
void cql_told_apply(struct cql *c);
void cql_topology_free(struct cql *c);

#endif
