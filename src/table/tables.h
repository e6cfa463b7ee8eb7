/* tables.h - the embedded table store: tables on an engine. What it does: store/table_store.h. */
#ifndef TABLE_TABLES_H
#define TABLE_TABLES_H

#include "store/table_store.h"

struct engine;
struct tables; /* all tables of a store */

/* Reads the catalog. Fails: ERR_IO, ERR_CORRUPT. Owner: caller. */
MUST_CHECK err tables_new(struct engine *e, struct clock *clock, struct tables **out,
                          struct err_note *note);
/* The engine is closed. */
void tables_free(struct tables **tp);
/* Lives as long as ts. */
struct table_store *tables_store(struct tables *ts);
/* Where what is not in memory, or takes long, is read from here on [the thread that is there]. */
void tables_read_on(struct tables *ts, struct home *pool);

#endif
