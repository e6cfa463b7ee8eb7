/* real.h - a client at a real Cassandra, and a keyspace of the test's own: made by setup, dropped
 * by teardown. CASSANDRA_POINT (127.0.0.1:9042) and CASSANDRA_DC (dc1) say where the cluster is,
 * CASSANDRA_REPLICAS (1) how many copies it keeps; test/cassandra starts one and runs these tests.
 * The loop runs on a thread of its own; every wait ends after REAL_WAIT_S and fails the test then.
 */
#ifndef TEST_CASSANDRA_REAL_H
#define TEST_CASSANDRA_REAL_H

#include "cassandra/catalog.h"
#include "cassandra/schema.h"
#include "cassandra/titles.h"

enum { REAL_WAIT_S = 60 };

struct real {
    struct clock *clock; /* the machine's */
    struct cql *client;
    struct titles *titles;
    struct catalog *catalog;
    char keyspace[40];
    /* what the last schema_look or _apply said */
    err why;
    unsigned version;
    char note[ERR_NOTE_BYTES];
};
extern struct real the; /* of the test program */

int real_setup(void **state);
int real_teardown(void **state);
void real_look(void);
void real_apply(void);
/* A call at the thread that ends it; real_wait waits for it. */
struct store_call real_call(void);
void real_wait(const char *what);
/* Asks again and again until look is true. */
void real_until(bool (*look)(void *ctx), void *ctx, const char *what);
struct loop *real_loop(void); /* the client's */
/* Runs on the client's loop, and waits for it. */
void real_on_loop(void (*run)(void *ctx), void *ctx);
/* A statement that gives no rows. */
void real_run(const char *text);
/* How many rows a SELECT gives, of the first page. */
unsigned real_rows(const char *text);

#endif
