/* engine_rows.h - the rows of the authority in the embedded engine: SPACE_AUTH as a row_store
 * (store/row_store.h). Private to auth. Decisions run on the committer. */
#ifndef AUTH_ENGINE_ROWS_H
#define AUTH_ENGINE_ROWS_H

#include "store/row_store.h"

struct engine;
/* Owner: caller; the engine outlives it. */
struct row_store *engine_rows_new(struct engine *e);
void engine_rows_free(struct row_store **sp);

#endif
