/* table_request.h - what the routes on tables and on buckets of values share. Private to table*.c
 * and value*.c.
 *
 * A function that says "false: answered" has given the client its answer; the handler just
 * returns. */
#ifndef APP_TABLE_TABLE_REQUEST_H
#define APP_TABLE_TABLE_REQUEST_H

#include "app/app.h"
#include "loop/loop.h"
#include "table/table_write.h"

enum {
    TABLE_BODY_BYTES_MAX = 12 << 20,
    TABLE_SCHEMA_BODY_BYTES_MAX = 64 << 10,
    TABLE_NOW_BODY_BYTES_MAX = 64 << 10, /* a larger body is read on the pool */
};

/* Names of tables that begin so are the server's own. */
#define TABLE_OWN_PREFIX "."

mono table_deadline(const struct app *app);
/* Refuses with 503 when the server drains: for requests that would have to wait. False:
 * answered. */
MUST_CHECK bool table_may_wait(struct http_exchange *x);
/* Answers what a function of tables gave: 404 unknown_table (or missing, when not NULL), 400, 410
 * expired, 413, else as app_fail. */
void table_fail(struct http_exchange *x, err why, const struct err_note *note, const char *missing);

/* Logs that an answer went past rows of a table that cannot be read. Thread: loop. */
void table_tell_damage(const struct app *app, struct http_exchange *x, str table, unsigned rows);

/* One update of tables for a request, with its reading of cold rows. The memory is the caller's
 * until done. */
struct table_change {
    struct app *app;
    struct table_update update; /* writes, and what table_change_start fills in */
    void (*done)(struct table_change *c, err why); /* engine, loop or calling thread; short */
    struct loop_job job;
};
/* Submits; done is called exactly once, also when it is refused at once. x is deferred already. */
void table_change_start(struct table_change *c, struct http_exchange *x);
/* Once more what was started and is done, until the deadline it got at its start. */
void table_change_again(struct table_change *c);

#endif
