/* database.h - a Cassandra for programs that wait: requests of src/cql, several at once, and the
 * thread that asked waits for all of them.
 *
 * Model. A database is a client of its own in one keyspace, on a loop that several share. A step is
 * a number of requests that go out together; a request is one statement, or a batch. What a
 * strategy does in turn are steps in turn.
 *   Time is given: each request carries the step's instant as its write timestamp, and as the
 * instant by which Cassandra judges TTLs (now_in_seconds of protocol 5). So days of a trace pass in
 * minutes, and Cassandra's own TTLs run out in it. Who compacts before the trace has ended loses
 * what the machine's clock calls expired: tables are made without compaction.
 * Errors end the program: a benchmark with failed requests has no result. Thread: any, unless
 * said; a step is one thread's. */
#ifndef STRATEGIES_DATABASE_H
#define STRATEGIES_DATABASE_H

#include "base/times.h"
#include "cql/cql.h"

enum { STEP_REQUESTS_MAX = 16, STEP_PARTS_MAX = 8, STEP_BYTES_MAX = 1 << 20 };

/* The loop, its thread and its clock. */
struct databases;
struct databases *databases_new(void);
void databases_run(struct databases *ds);   /* starts the thread: no statement is made after this */
void databases_free(struct databases **dp); /* stops what was opened, and frees it */
struct clock *databases_clock(struct databases *ds);
struct loop *databases_loop(struct databases *ds);

struct database;
/* Before databases_run. All strings are borrowed. */
struct database *database_open(struct databases *ds, const char *point, const char *dc,
                               const char *keyspace);
void database_wait_ready(struct database *db); /* after databases_run */
struct cql *database_client(struct database *db);
const char *database_keyspace(const struct database *db);
/* format has one %s for the keyspace, and %u for n when it needs it. Before databases_run. */
const struct cql_statement *database_statement(struct database *db, const char *format, unsigned n);
/* A statement as text, with the same in it: a change of the schema. */
void database_ddl(struct database *db, const char *format, unsigned n);
/* Requests that its client began until now, of whoever uses it; none of them is under way. */
uint64_t database_requests(struct database *db);

struct step;
struct step *step_new(struct database *db, store_time now);
void step_free(struct step **sp);
/* A request more, that reads or that writes. Its values are put into what is returned. */
struct cql_values *step_read(struct step *s, const struct cql_statement *statement);
struct cql_values *step_write(struct step *s, const struct cql_statement *statement);
/* A statement more in the last request, which so becomes a batch. */
struct cql_values *step_join(struct step *s, const struct cql_statement *statement);
/* The last request's write timestamp, instead of the step's instant. */
void step_written_at(struct step *s, int64_t timestamp_us);
/* Sends them all, and waits for all. A step without requests is nothing. */
void step_run(struct step *s);
/* The next row of a request, by its place; false: there is none. Cells are good until step_free. */
bool step_row(struct step *s, unsigned request, struct cql_cell *cells);

#endif
