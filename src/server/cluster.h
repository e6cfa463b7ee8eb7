/* cluster.h - the client of a Cassandra that options name (store.*, page.secondary.*): for a
 * server, and for tools that run without one.
 *
 * Thread: the loop's. */
#ifndef SERVER_CLUSTER_H
#define SERVER_CLUSTER_H

#include "app/config.h"
#include "base/err.h"
#include "base/str.h"

struct clock;
struct cql;
struct cql_tls;
struct log;
struct loop;

struct cluster {
    struct cql *client; /* NULL: none */
    struct cql_tls *tls;
    char *password;
    struct loop *loop;
    struct clock *clock;
};
struct cluster_opts {
    const struct config_cassandra *config; /* outlives it, and so do the others */
    const char *section;                   /* of the options, for notes: "store" */
    struct loop *loop;
    struct clock *clock;
    struct log *log;                                               /* NULL: silent */
    void (*schema)(void *ctx, str target, str keyspace, str name); /* as of cql_opts; NULL */
    void *ctx;
};
/* ERR_BAD with a note, which names the option: a file cannot be read, or an option makes no sense.
 * What was opened so far is there: cluster_close. */
MUST_CHECK err cluster_open(struct cluster *c, const struct cluster_opts *o, struct err_note *note);
/* Runs the loop until the client has stopped. What still asks it is answered ERR_SHUTDOWN; nobody
 * asks it afterwards. Works on what was half opened, and on zeros. */
void cluster_close(struct cluster *c);

#endif
