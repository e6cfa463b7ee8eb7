/* table_request.h - what the routes on tables and on buckets of values share. */
#ifndef APP_TABLE_TABLE_REQUEST_H
#define APP_TABLE_TABLE_REQUEST_H

#include "app/app.h"
#include "app/call.h"
#include "store/table_store.h"

/* Answers what a function of tables gave: 404 unknown_table, 400, 410 expired, 413, else as
 * app_fail. note may be NULL. */
void table_fail(struct http_exchange *x, err why, const struct err_note *note);
/* Logs that an answer went past rows of a table that cannot be read. */
void table_tell_damage(const struct app *app, struct http_exchange *x, str table, unsigned rows);

#endif
