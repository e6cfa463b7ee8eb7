/* rig.h - a client of src/cql beside a fake cluster (node.h): its loop runs on a thread of its own,
 * the test asks and waits on the main one. Nothing sleeps; every wait ends after RIG_WAIT_MS and
 * fails the test then. */
#ifndef TEST_CQL_RIG_H
#define TEST_CQL_RIG_H

#include "cql/cql.h"
#include "node.h"

#include <pthread.h>

enum { RIG_WAIT_MS = 20000, RIG_STATEMENTS_MAX = 16 };

struct rig_opts {
    struct node_opts nodes;
    struct cql_opts client; /* loop, clock and what is told are the rig's; the first nodes follow
                               the contact points; local_dc NULL: dc1 */
    struct cql_statement_opts statements[RIG_STATEMENTS_MAX];
    bool not_ready; /* does not wait until it is ready */
    bool by_name;   /* one contact point: the first node, as "localhost" */
};
struct rig {
    struct node_cluster *nodes;
    struct loop *loop;
    struct clock *clock;
    struct sysclock *time;
    struct cql *client;
    const struct cql_statement *statements[RIG_STATEMENTS_MAX];
    struct rig_opts opts;
    char points[CQL_CONTACT_POINTS_MAX][32];
    struct cql_mapped mapped[NODE_MAX];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool ready, up, stopped;
    unsigned ready_changes, schema_told;
    char schema[64]; /* "TABLE ks.t", the last told */
};
/* Fails the test when the client is refused, or not ready in time. */
void rig_start(struct rig *r, const struct rig_opts *opts);
/* Stops the client with so much time for what is under way, and frees all. The nodes may not
 * complain. */
void rig_end_in(struct rig *r, int64_t ms);
void rig_end(struct rig *r);
void rig_free(struct rig *r); /* after the client has stopped by itself: rig_stop */
/* Only cql_stop: returns at once. */
void rig_stop(struct rig *r, int64_t ms);
void rig_wait_stopped(struct rig *r);

struct ask {
    struct cql_request request;
    struct rig *rig;
    struct cql_part part;
    struct cql_values values;
    bool over;
    unsigned told; /* how often done was called */
};
/* A request of one statement, with a deadline 10 s ahead, at LOCAL_QUORUM, with a timestamp when it
 * is no SELECT. Values are put into a->values before it is started. */
void ask_init(struct ask *a, struct rig *r, unsigned statement);
void ask_start(struct ask *a);
void ask_wait(struct ask *a); /* until it is over */
err ask_run(struct ask *a);   /* both; returns how it ended */
void ask_fini(struct ask *a);

/* Runs fn on the loop's thread and waits for it. */
void rig_on_loop(struct rig *r, void (*fn)(struct rig *r, void *ctx), void *ctx);
struct cql_stats rig_stats(struct rig *r);
/* Waits until look is true, asked again and again on the loop's thread. */
void rig_until(struct rig *r, bool (*look)(struct rig *r, void *ctx), void *ctx, const char *what);
/* Until so many nodes are up, and so many are known (0: however many). */
void rig_wait_up(struct rig *r, unsigned up, unsigned nodes);
/* Until the client has read the whole cluster so many times since it began. */
void rig_wait_looked(struct rig *r, uint64_t looks);
/* Until it has done so so many times more from now on. */
void rig_wait_looks(struct rig *r, unsigned more);
/* Its cells are of one row: the first column of the first row, as bigint. */
int64_t ask_i64(struct ask *a);

#endif
