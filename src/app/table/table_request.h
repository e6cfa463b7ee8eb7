/* table_request.h - what the routes on tables and on buckets of values share. Private to table*.c
 * and value*.c.
 *
 * A function that says "false: answered" has given the client its answer; the handler just
 * returns. */
#ifndef APP_TABLE_TABLE_REQUEST_H
#define APP_TABLE_TABLE_REQUEST_H

#include "app/app.h"
#include "store/table_store.h"

enum {
    TABLE_BODY_BYTES_MAX = 12 << 20,
    TABLE_SCHEMA_BODY_BYTES_MAX = 64 << 10,
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

/* Logs that an answer went past rows of a table that cannot be read. */
void table_tell_damage(const struct app *app, struct http_exchange *x, str table, unsigned rows);

/* A call that was started goes on: now, or at x's worker, and x sleeps until then. Handler
 * thread. */
void table_call_go(struct http_exchange *x, enum store_start start, struct store_call *c);
/* The same of a read, which is canceled when its client leaves. */
void table_read_go(struct http_exchange *x, enum store_start start, struct store_call *c);

#endif
