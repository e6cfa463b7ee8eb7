/* row.h - stored rows: a head, then attributes by number.
 *
 * Value of a row: version 01, flags, expiry as be64 ns (never: all ones but the first), written_at
 * as be64, then the attributes, or with ROW_IN_BLOB in the blob. Attributes: be16 count, then each
 * be16 number, be32 size, bytes; nulls are left out. ROW_INDEXED: the row has entries in secondary
 * indexes (index.h). Expiry entries (engine/due.h) in SPACE_ROW: KEY_EXPIRY, be64 expiry, key of
 * the row without its KEY_ROW; the value is empty, or, when a retention policy made the expiry, the
 * one that the row had of its own, in the same form (trim.h). */
#ifndef TABLE_ROW_H
#define TABLE_ROW_H

#include "engine/due.h"
#include "table/schema.h"
#include "table/store.h"

enum {
    ROW_VERSION = 1,
    ROW_IN_BLOB = 1,
    ROW_INDEXED = 2, /* flags */
    ROW_HEAD_BYTES = 18,
    ROW_FLAGS_AT = 1,
    ROW_EXPIRY_AT = 2,
    ROW_WRITTEN_AT = 10,
    ROW_ATTR_HEAD_BYTES = 6,
    ROW_OWN_END_BYTES = 8
}; /* of an expiry entry */

struct row_head {
    store_time expiry; /* NEVER: none */
    store_time written_at;
    bool in_blob, indexed;
};
MUST_CHECK err row_head_read(str value, struct row_head *out); /* ERR_CORRUPT */
/* The attributes of a stored row in the arena, checked. ERR_AGAIN (now), ERR_CORRUPT, ERR_LIMIT,
 * ERR_IO. */
MUST_CHECK err row_attrs(struct engine *e, const struct engine_row *row, struct arena *a, bool now,
                         str *out);
/* The value of a numbered attribute, STR_NONE: null. attrs as row_attrs gave, or empty. */
str row_attr(str attrs, uint16_t number);
/* Is this a well-formed list of attributes? */
bool row_attrs_valid(str attrs);

/* Packs head and attributes; values by index of the schema's attributes, those not of role left
 * out. *value goes beside the key, *bytes (may be STR_NONE) is the blob; both in the arena.
 * ERR_LIMIT, with a note when it is not the arena that is too small. */
struct row_write {
    struct row_head head;
    const struct schema *schema;
    enum schema_role role;
    const str *values;
};
MUST_CHECK err row_pack(struct arena *a, const struct row_write *w, str *value, str *bytes,
                        struct err_note *note);

extern const struct due_lane row_due;
/* key: of the row; borrowed. */
struct due_row row_due_row(str key);
/* The key of the row that an entry is of. ERR_CORRUPT: of none. */
MUST_CHECK err row_due_key(const struct due_entry *entry, struct key_buf *key);

#endif
