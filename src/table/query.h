/* query.h - JSON queries (docs/peers.md, 1) as the structures of table.h. Pure; all in the arena.
 */
#ifndef TABLE_QUERY_H
#define TABLE_QUERY_H

#include "table/schema.h"

/* ERR_BAD with a note, ERR_LIMIT. */
MUST_CHECK err query_get(struct arena *a, const struct schema *s, str json, struct table_get *out,
                         struct err_note *note);
/* One put or delete. json: an object; table is left to the caller. */
MUST_CHECK err query_put(struct arena *a, const struct schema *s, const json_t *json,
                         struct table_write *out, struct err_note *note);
MUST_CHECK err query_delete(struct arena *a, const struct schema *s, const json_t *json,
                            struct table_write *out, struct err_note *note);
/* Text to JSON of the type wanted; the caller releases it with json_decref. Empty text is an empty
 * object. */
MUST_CHECK err query_load(str text, bool array, json_t **out, struct err_note *note);

#endif
