/* restbase.h - a Cassandra with RESTBase's tables, as `import restbase` reads it. Private to cli.
 *
 * Model. A source is a client, the tables that are the contents of one render, and a walk over all
 * renders of a domain, on the loop of the verb's other client. source_next waits for the next one;
 * a walk that fails is begun anew from where it was, with pauses, for SOURCE_PATIENCE_MS at most.
 * Thread: one. */
#ifndef CLI_RESTBASE_H
#define CLI_RESTBASE_H

#include "cassandra/restbase.h"
#include "cli/upload.h"

enum {
    SOURCE_PATIENCE_MS = 300000, /* without a render */
    SOURCE_PAUSE_MS = 500,       /* the first; each is twice the one before */
    SOURCE_PAUSE_MS_MAX = 8000,
    SOURCE_TITLES = 16,
    SOURCE_BYTES_MAX = 64 << 20,
    SOURCE_ANSWER_BYTES_MAX = 96 << 20,
    SOURCE_TIMEOUT_MS = 30000,
};

struct source_given {
    char content[RESTBASE_CONTENT_BYTES]; /* "": as the table's name says */
    char keyspace[RESTBASE_NAME_BYTES];
};
struct source {
    const struct cli_call *call;
    struct client *client; /* whose loop it is */
    struct clock *clock;
    /* options */
    char *points, *keyspaces; /* copies that are taken apart */
    struct cql_opts opts;
    struct source_given given[RESTBASE_TABLES_MAX];
    unsigned given_count;
    const char *domain;
    /* what is open */
    struct cql_tls *tls;
    struct cql *cql;
    struct restbase *reader;
    struct restbase_table tables[RESTBASE_TABLES_MAX];
    unsigned tables_count;
    struct restbase_walk *walk;
    struct restbase_find find;
    bool ready, found, stopped, changed, taken;
    int64_t pause_ms; /* 0: the walk is going on */
    mono failing_at;
    int64_t from; /* where a walk has to begin now */
};
/* Reads --contact-points, --local-dc, --keyspace, --source-domain, --cassandra-user, --cassandra-ca
 * and $PALIMPSEST_CASSANDRA_PASSWORD. Opens nothing. Prints what is wrong. Owner: source_close,
 * also then. */
MUST_CHECK enum cli_exit source_options(struct source *s, const struct cli_call *call);
/* Connects and finds the tables. client is open and outlives it. Fails with a note; ERR_CONFLICT:
 * it is not clear which tables are meant. */
MUST_CHECK err source_open(struct source *s, struct client *client, struct clock *clock,
                           struct err_note *note);
void source_close(struct source *s);

/* A walk over all renders from there on; one that is under way ends. */
void source_walk(struct source *s, int64_t from);
/* The next render, waiting for it. uploads: what is in the air goes on meanwhile; NULL: there is
 * none. ERR_NOT_FOUND: that was the last. ERR_SHUTDOWN once stop_asked. *out: until the next call.
 */
MUST_CHECK err source_next(struct source *s, struct uploads *uploads,
                           const struct restbase_render **out, struct err_note *note);

/* A render as an upload has it. The contents point into the render and the arena. False: *why says
 * why it cannot be sent; a literal. warned: what is sent in another way than it lies there. */
MUST_CHECK bool source_item(const struct source *s, const struct restbase_render *r,
                            struct arena *a, struct upload_item *out, const char **why,
                            const char **warned);

#endif
