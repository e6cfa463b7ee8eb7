/* rows.h - how rows are made. Private to pg. */
#ifndef PG_ROWS_H
#define PG_ROWS_H

#include "pg/pg.h"

#include <libpq-fe.h>

struct pg_rows {
    PGresult *result;
};
/* Takes the result. */
struct pg_rows *pg_rows_of(PGresult *result);

#endif
