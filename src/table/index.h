/* index.h - secondary indexes: entries beside the rows, written and removed in the same updates as
 * they.
 *
 * Entry in SPACE_ROW: KEY_INDEX, domain, table number, index number, the index's hash attributes,
 * KEY_REGULAR, its range attributes; the value is the row's key. A row without a value for one of
 * them has no entry. Trail of a row, one for each of its entries: KEY_TRAIL, the row's key without
 * its KEY_ROW, index number; the value is the entry's key. So entries are removed without the row's
 * attributes, which may be cold, or the schema, which may be another.
 *   All rows that are there have entries, expired and superseded ones too; readers ask the row
 * (read.c).
 *   An index that a migration adds is filled, and one that it takes away removed, by the upkeep,
 * some rows at a time (SPACE_KEY_FILL, SPACE_KEY_UNINDEX in SPACE_SCHEMA); until then queries
 * through it are refused. Puts write entries from the migration on. One that cannot be filled stays
 * refused until a migration lets it begin anew. */
#ifndef TABLE_INDEX_H
#define TABLE_INDEX_H

#include "table/schema.h"
#include "table/store.h"

/* The key of the row's entry; n 0: it has none. values: by the schema's attributes. ERR_BAD with a
 * note: too long. */
MUST_CHECK err index_entry(uint32_t domain, const struct schema *s, const struct schema_index *ix,
                           const str *values, struct key_buf *out, struct err_note *note);
/* Brings the row's entries to what values say; *any: it has some. Not ERR_OK: the update must not
 * go on. */
struct index_row {
    uint32_t domain;
    const struct schema *schema;
    str key;
    const str *values;
};
MUST_CHECK err index_write(struct engine_txn *t, const struct index_row *r, bool *any,
                           struct err_note *note);
/* Writes one entry and its trail. */
MUST_CHECK err index_put(struct engine_txn *t, str row_key, uint16_t index, str entry);
/* The entry the row has now; n 0: none. An entry counts only when its row's trail names it. */
MUST_CHECK err index_stored(struct engine_view *v, str row_key, uint16_t index,
                            struct key_buf *out);
/* Appends the keys of the row's entries and trails, each as be16 size and bytes; counts them. */
MUST_CHECK err index_trails(struct engine_view *v, str row_key, struct buf *keys, unsigned *count);

/* What a migration leaves to the upkeep. old NULL: the table is new. ERR_CONFLICT with a note: the
 * table still has removed indexes to get rid of. */
MUST_CHECK err index_migrate(struct engine_txn *t, uint32_t domain, const struct schema *old,
                             const struct schema *next, struct err_note *note);
/* The table goes: nothing is to be filled any more. */
MUST_CHECK err index_drop(struct engine_txn *t, uint32_t domain, const struct schema *s);
/* Can the index answer? ERR_CONFLICT with a note: not filled yet; ERR_BAD: it cannot be filled. */
MUST_CHECK err index_ready(struct engine_view *v, uint32_t domain, const struct schema *s,
                           const struct schema_index *ix, struct err_note *note);
/* Is there anything for index_upkeep? */
MUST_CHECK err index_due(struct engine_view *v, bool *any);
/* Some rows' worth of filling or removing. Blocks: a pool thread. */
MUST_CHECK err index_upkeep(struct tables *ts);

#endif
