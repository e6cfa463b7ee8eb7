/* tables.h - the tables of an engine as a whole: opening, upkeep, figures. Part of table.h. */
#ifndef TABLE_TABLES_H
#define TABLE_TABLES_H

#include "base/err.h"
#include "base/times.h"

struct engine;
struct tables;
/* Reads the catalog. Fails: ERR_IO, ERR_CORRUPT. Owner: caller. */
MUST_CHECK err tables_new(struct engine *e, struct clock *clock, struct tables **out,
                          struct err_note *note);
void tables_free(struct tables **tp);

/* Removes rows that expired and rows of dropped tables, fills and removes indexes, applies policies
 * that migrations brought and goes on with what puts and deletes left of them (trim.h): one batch
 * of each. *more: there is more to do now; *next: when the next row expires (NEVER: none). Blocks
 * until on disk: a pool job. */
MUST_CHECK err tables_upkeep(struct tables *ts, bool *more, store_time *next);
struct tables_stats {
    uint64_t puts, deletes, gets, expired, dropped_rows, damaged;
};
void tables_stats_get(struct tables *ts, struct tables_stats *out);

#endif
