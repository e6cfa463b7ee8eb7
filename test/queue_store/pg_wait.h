/* pg_wait.h - connections to PostgreSQL for tests, whose threads may wait: the loop, on another
 * thread, does the work. */
#ifndef TEST_QUEUE_STORE_PG_WAIT_H
#define TEST_QUEUE_STORE_PG_WAIT_H

#include "pg/pg.h"

/* ERR_BAD: the URL; else as pg_opening_start. */
MUST_CHECK err pg_open(const struct pg_opts *opts, mono deadline, struct pg **out,
                       struct err_note *note);
/* rows: count of them, or NULL. */
void pg_run(struct pg *c, const struct pg_statement *list, unsigned count, mono deadline,
            struct pg_rows **rows, struct pg_outcome *out);
/* One statement. */
void pg_run_one(struct pg *c, const char *sql, const struct pg_params *params, mono deadline,
                struct pg_rows **rows, struct pg_outcome *out);
void pg_close_wait(struct pg **cp);

#endif
